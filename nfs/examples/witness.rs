//! `witness`: writes into each packet how many of all packets, and of its flow, it has worked on so far. So
//! what leaves says whether its state is that of all packets before, each counted once, whatever became of
//! its processes. It can be made to die of a packet. For tests; a program of its own, as `exec` in a
//! configuration.

use headgate_nf::state::{Bound, Table, Value};
use headgate_nf::{Burst, Context, NetworkFunction, NfError};

/// Place of the number of a frame of the generator: behind Ethernet, IPv4, UDP, and a word.
const SEQUENCE_AT: usize = 14 + 20 + 8 + 4;
/// Places of the counts that are written: of all packets, and of the packet's flow.
const ALL_AT: usize = SEQUENCE_AT + 4;
const FLOW_AT: usize = ALL_AT + 4;
const END: usize = FLOW_AT + 4;
/// Source address to destination port of IPv4 and UDP.
const FLOW: std::ops::Range<usize> = 26..38;

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Arguments {
    /// Number of the frame that it dies of.
    fatal: Option<u32>,
}

struct Witness {
    fatal: Option<u32>,
    all: Value<u32>,
    flows: Table<[u8; 12], u32>,
}

impl Witness {
    fn new(context: &mut Context) -> Result<Self, NfError> {
        let Arguments { fatal } = context.arguments()?;
        let mut state = context.state()?;
        let bound = Bound { entries: 1024, idle: None };
        let (all, flows) = (state.value("all")?, state.table("flows", bound)?);
        Ok(Self { fatal, all, flows })
    }
}

impl NetworkFunction for Witness {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        for mut packet in burst.packets() {
            let Some(frame) = packet.data_mut().get_mut(..END) else { continue };
            *self.all.edit() += 1;
            frame[ALL_AT..FLOW_AT].copy_from_slice(&self.all.get().to_le_bytes());
            let sequence = u32::from_le_bytes(frame[SEQUENCE_AT..ALL_AT].try_into().unwrap_or_default());
            if self.fatal == Some(sequence) {
                // In the middle of the packet, and of its state.
                std::process::abort();
            }
            let key: [u8; 12] = frame[FLOW].try_into().unwrap_or_default();
            let count = self.flows.get(&key).map_or(1, |count| count + 1);
            if self.flows.insert(key, count).is_ok() {
                frame[FLOW_AT..END].copy_from_slice(&count.to_le_bytes());
            }
        }
    }
}

fn main() -> std::process::ExitCode {
    headgate_nf::run(Witness::new)
}
