//! Captures as their users see them, judged by tshark.

mod recording;
mod replaying;

use std::path::Path;
use std::process::Command;

use headgate_wire::pcap::{Records, classic};

use super::*;
use headgate_port::testing::{HERTZ, packets, receive, setting, stack};

/// A frame of `length` bytes that no protocol claims, different for each number.
fn numbered(number: usize, length: usize) -> Vec<u8> {
    let mut frame = vec![0; length.max(14)];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    // Local experimental EtherType 1 (IEEE 802).
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    for (at, byte) in frame[14..].iter_mut().enumerate() {
        *byte = (number + at) as u8;
    }
    frame
}

/// Returns a pcap file.
fn pcap(records: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = classic::header(262_144).to_vec();
    for (time_ns, frame) in records {
        let length = frame.len() as u32;
        bytes.extend(classic::record_header(*time_ns, length, length));
        bytes.extend(frame);
    }
    bytes
}

fn writing(path: &Path) -> PcapSpec {
    PcapSpec { read: None, write: Some(path.to_owned()) }
}

fn replaying(replay: ReplaySpec) -> PcapSpec {
    PcapSpec { read: Some(replay), write: None }
}

/// Returns tshark's output for a capture, one line a packet; `None` where it is not installed.
fn tshark(path: &Path, fields: &[&str]) -> Option<Vec<String>> {
    let fields = fields.iter().flat_map(|field| ["-e", field]);
    // Names are not looked up, checksums are.
    let checks =
        ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"];
    let run = Command::new("tshark")
        .args(["-n", "-T", "fields"])
        .args(checks)
        .args(fields)
        .arg("-r")
        .arg(path)
        .output();
    let Ok(output) = run else {
        println!("skipped: tshark is not installed, so it cannot judge {}", path.display());
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}
