//! Captures as traffic of the model: when their packets come, by their sizes.

use std::collections::BTreeMap;
use std::path::Path;

use headgate_sim::Capture;
use headgate_units::Span;
use headgate_wire::pcap::Records;

/// Sizes of frames that are told apart: frames of one step count as the largest of them. Our choice: a tenth
/// of a full frame.
const STEP_BYTES: u32 = 150;
/// Bytes of the check sequence of a frame, which captures do not have.
const CHECK_SEQUENCE_BYTES: u32 = 4;
/// Least size of a frame.
const FRAME_BYTES_MIN: u32 = 64;
/// Largest file that is read. Our choice: its times are in memory some times over.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Reads a capture: the packets of each size of frames, with their times.
///
/// # Errors
/// It cannot be read, is cut, has a packet without a time, or none at all.
pub fn read(file: &Path) -> Result<Vec<(u32, Capture)>, String> {
    let told = |what: String| format!("the capture {}: {what}", file.display());
    let length = std::fs::metadata(file).map_err(|error| told(error.to_string()))?.len();
    if length > FILE_BYTES_MAX {
        return Err(told(format!("it is longer than {} MiB: cut it", FILE_BYTES_MAX >> 20)));
    }
    let bytes = std::fs::read(file).map_err(|error| told(error.to_string()))?;
    let mut packets = Vec::new();
    for record in Records::new(&bytes).map_err(|error| told(error.to_string()))? {
        let record = record.map_err(|error| told(error.to_string()))?;
        let at = record.time_ns.ok_or_else(|| told(format!("packet {} has no time", packets.len() + 1)))?;
        let bytes = record.bytes.len() as u32 + record.cut + CHECK_SEQUENCE_BYTES;
        packets.push((at, bytes.max(FRAME_BYTES_MIN)));
    }
    of_packets(packets).ok_or_else(|| told("it has no packet".to_owned()))
}

/// Returns packets, each a time and a size, by their sizes.
fn of_packets(mut packets: Vec<(u64, u32)>) -> Option<Vec<(u32, Capture)>> {
    packets.sort_by_key(|(at, _)| *at);
    let (first, last) = (packets.first()?.0, packets.last()?.0);
    // The next round begins a mean gap after the last packet.
    let gap = ((last - first) / (packets.len() as u64 - 1).max(1)).max(1);
    let length = Span(last - first + gap);
    let mut by_size: BTreeMap<u32, (u32, Vec<u64>)> = BTreeMap::new();
    for (at, bytes) in packets {
        let (largest, times) = by_size.entry(bytes.div_ceil(STEP_BYTES)).or_default();
        *largest = bytes.max(*largest);
        times.push(at - first);
    }
    Some(by_size.into_values().map(|(bytes, at_ns)| (bytes, Capture { at_ns, length })).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_keep_their_times_by_size() {
        let packets = vec![(1_000, 64), (4_000, 1_518), (2_000, 70), (3_000, 1_400)];
        let length = Span(4_000);
        assert_eq!(
            of_packets(packets),
            Some(vec![
                (70, Capture { at_ns: vec![0, 1_000], length }),
                (1_400, Capture { at_ns: vec![2_000], length }),
                (1_518, Capture { at_ns: vec![3_000], length }),
            ])
        );
        assert_eq!(of_packets(Vec::new()), None);
        assert_eq!(of_packets(vec![(7, 64)]), Some(vec![(64, Capture { at_ns: vec![0], length: Span(1) })]));
    }

    #[test]
    fn a_file_that_is_no_capture_or_is_cut_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("x.pcap");
        for bytes in [&b"no capture at all, only words"[..], &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]] {
            std::fs::write(&file, bytes).expect("written");
            let error = read(&file).expect_err("it is none");
            assert!(error.contains("x.pcap: "), "{error}");
        }
        assert!(read(&folder.path().join("none")).expect_err("not there").contains("none: "));
    }
}
