//! Traffic of the two hosts: real programs where they are installed, our own otherwise.

mod iperf;
mod own;
mod tool;
mod web;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use headgate_host::namespace::{Endpoint, Namespaces};
use headgate_units::text as units;
use serde::Serialize;

pub use tool::is_installed;

/// The part of the time that the first transfer gets; the download needs little.
const FIRST_PART: f64 = 0.75;

/// One transfer between the hosts.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Transfer {
    /// Description of sender and data, for people.
    pub what: String,
    /// Direction: from which host to which.
    pub way: String,
    /// Bytes that arrived, headers not counted.
    pub bytes: u64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Segments that TCP sent again, where that is known.
    pub retransmissions: Option<u64>,
    /// Whether what arrived is what was sent, where that was compared.
    pub intact: Option<bool>,
    /// Whether time was up before all had arrived.
    pub cut_short: bool,
    /// Whether the demo ended before it did.
    pub interrupted: bool,
    /// Reason for the failure, if it failed.
    pub failure: Option<String>,
}

impl Transfer {
    /// Payload in bits per second.
    pub fn goodput(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 * 8.0 / self.seconds } else { 0.0 }
    }

    /// A line for people.
    pub fn sentence(&self) -> String {
        let mut line = format!("{}, {}: ", self.what, self.way);
        if self.interrupted {
            return line + "the demo ended before it did";
        }
        if let Some(failure) = &self.failure {
            return line + "failed: " + failure;
        }
        line += &format!(
            "{} in {:.1} s, {} of goodput",
            units::bytes(self.bytes),
            self.seconds,
            units::bit_rate(self.goodput())
        );
        if let Some(count) = self.retransmissions {
            line += &format!(", {} segments sent again", units::whole(count));
        }
        if self.cut_short {
            line += ", then time was up";
        }
        match self.intact {
            Some(true) => line += ", every byte as it was sent",
            Some(false) => line += ", NOT what was sent",
            None => {}
        }
        line
    }
}

/// Hosts of the traffic, and its progress.
#[derive(Clone, Copy)]
pub struct Stage<'a> {
    /// The hosts.
    pub hosts: &'a Namespaces,
    /// Set when it is time to end.
    pub enough: &'a AtomicBool,
    /// Current activity, for people.
    pub doing: &'a Mutex<String>,
    /// Transfers that were done.
    pub done: &'a Mutex<Vec<Transfer>>,
}

impl Stage<'_> {
    fn is_over(&self) -> bool {
        self.enough.load(Ordering::Relaxed)
    }

    fn say(&self, doing: &str) {
        doing.clone_into(&mut self.doing.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn add(&self, transfer: Transfer) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).push(transfer);
    }

    fn left(&self) -> &Endpoint {
        &self.hosts.left
    }

    fn right(&self) -> &Endpoint {
        &self.hosts.right
    }

    /// Returns whether a process on a host listens at a TCP port.
    fn is_listening(&self, host: &Endpoint, port: u16) -> bool {
        host.namespace.has_tcp_listener(port).unwrap_or(false)
    }
}

/// The address of a host that has one.
fn address(host: &Endpoint, port: u16) -> SocketAddr {
    SocketAddr::new(host.addresses.first().copied().unwrap_or(IpAddr::from([0; 4])), port)
}

/// Runs all transfers, one after another, within that time.
pub fn run(stage: &Stage<'_>, budget: Duration) {
    let began = Instant::now();
    let first = budget.mul_f64(FIRST_PART);
    if is_installed("iperf3") {
        stage.say("iperf3 sends TCP from left to right");
        stage.add(iperf::run(stage, first));
    } else {
        stage.say("TCP from left to right (iperf3 is not installed: apt install iperf3)");
        stage.add(own::push(stage, first));
    }
    let rest = budget.saturating_sub(began.elapsed());
    if stage.is_over() {
        return;
    }
    if is_installed("curl") && is_installed("python3") {
        stage.say("curl downloads this program from python3's web server");
        stage.add(web::run(stage, rest));
    } else {
        stage.say("a download of this program (not installed: apt install curl python3)");
        stage.add(own::pull(stage, rest));
    }
    stage.say("generated packets only");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_is_a_sentence() {
        let mut transfer = Transfer {
            what: "iperf3 (TCP)".into(),
            way: "left to right".into(),
            bytes: 1 << 30,
            seconds: 8.0,
            retransmissions: Some(12),
            ..Transfer::default()
        };
        assert_eq!(
            transfer.sentence(),
            "iperf3 (TCP), left to right: 1.0 GiB in 8.0 s, 1.07 Gbit/s of goodput, 12 segments sent again"
        );
        transfer.failure = Some("connection refused".into());
        assert_eq!(transfer.sentence(), "iperf3 (TCP), left to right: failed: connection refused");
    }
}
