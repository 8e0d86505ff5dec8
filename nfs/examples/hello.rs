//! `hello`: the network function to start from. Counts packets by kind, drops frames that are too short,
//! says hello when asked and every minute. A program of its own (`cargo run --example hello`, with
//! `HEADGATE_SOCKET` and `HEADGATE_NF` set, or as `exec` in a configuration), and shipped as `run = "hello"`.

use std::time::Duration;

use headgate_nf::wire::ethernet::{Frame, ethertype};
use headgate_nf::{Burst, Context, Counter, NetworkFunction, NfError, Timer};

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Arguments {
    /// Frames shorter than this are dropped, in bytes.
    shortest: usize,
}

/// The network function: what it remembers from burst to burst.
pub struct Hello {
    arguments: Arguments,
    ip: Counter,
    other: Counter,
}

impl Hello {
    /// Called once. An error keeps the network function from starting; the operator is shown why.
    pub fn new(context: &mut Context) -> Result<Self, NfError> {
        let (ip, other) = (context.counter("ip")?, context.counter("other")?);
        context.every(Duration::from_secs(60));
        Ok(Self { arguments: context.arguments()?, ip, other })
    }
}

impl NetworkFunction for Hello {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        for mut packet in burst.packets() {
            match Frame::new(packet.data()).map(|frame| frame.ethertype()) {
                Ok(ethertype::IPV4 | ethertype::IPV6) => self.ip.add(1),
                _ => self.other.add(1),
            }
            if packet.len() < self.arguments.shortest {
                packet.discard();
            }
        }
    }

    fn message(&mut self, body: &str, context: &mut Context) -> Result<(), NfError> {
        Ok(context.tell(format!("hello, {body}! {} packets of IP so far", self.ip.get()))?)
    }

    fn timer(&mut self, _: Timer, context: &mut Context) {
        self.message("operator", context).unwrap_or_default();
    }
}

/// The whole program.
pub fn main() -> std::process::ExitCode {
    headgate_nf::run(Hello::new)
}
