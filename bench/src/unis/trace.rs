//! A capture whose frames are of two sizes, as in a data centre (Benson et al., UNI1: around 200 and 1400
//! bytes; UNiS, section 4.1.3), from a seeded generator. The trace itself is not freely had.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The two sizes, in bytes with check sequence.
pub const SIZES: [u32; 2] = [200, 1400];
/// Frames of the capture. Our choice: many times what all rings hold, and 13 MB.
const FRAMES: u32 = 16_384;
/// Most frames of one size in a row. Our choice: data centres send in trains; a few bursts.
const TRAIN_MAX: u64 = 32;
/// Bytes of the headers of Ethernet, IPv4 and UDP, and of the check sequence that no capture has.
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const UDP: usize = 8;
const CHECK_SEQUENCE: usize = 4;

/// Writes it into the folder.
///
/// # Errors
/// Fails if it cannot be written.
pub fn write(folder: &Path) -> io::Result<PathBuf> {
    let path = folder.join("bimodal.pcap");
    let mut file = io::BufWriter::new(std::fs::File::create(&path)?);
    // Magic number, version 2.4, no offset, accuracy, longest frame, Ethernet (pcap-savefile(5)).
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1u32] {
        file.write_all(&word.to_le_bytes())?;
    }
    let (mut seed, mut left, mut size) = (1u64, 0, SIZES[0]);
    for number in 0..FRAMES {
        if left == 0 {
            // Knuth's linear congruence (MMIX); the upper bits are the good ones.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            left = (seed >> 33) % TRAIN_MAX + 1;
            size = SIZES[(seed >> 63) as usize];
        }
        left -= 1;
        let frame = frame(size as usize - CHECK_SEQUENCE);
        for word in [0, number, frame.len() as u32, frame.len() as u32] {
            file.write_all(&word.to_le_bytes())?;
        }
        file.write_all(&frame)?;
    }
    file.flush()?;
    Ok(path)
}

/// A UDP datagram over IPv4 in a frame of so many bytes.
fn frame(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; bytes];
    frame[..ETHERNET].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    let ip = &mut frame[ETHERNET..];
    let length = (bytes - ETHERNET) as u16;
    // Version and header length, time to live, protocol, addresses (RFC 791).
    (ip[0], ip[8], ip[9]) = (0x45, 64, 17);
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    ip[12..20].copy_from_slice(&[10, 0, 0, 1, 198, 18, 0, 1]);
    let words = ip[..IPV4].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let check = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    // Ports 1024 and 9, discard; no checksum (RFC 768).
    let udp = &mut ip[IPV4..];
    udp[..4].copy_from_slice(&[4, 0, 0, 9]);
    udp[4..6].copy_from_slice(&(length - IPV4 as u16).to_be_bytes());
    debug_assert!(udp.len() >= UDP);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_both_sizes_and_is_the_same_each_time() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [one, other] =
            folders.each_ref().map(|folder| std::fs::read(write(folder.path()).unwrap()).unwrap());
        assert_eq!(one, other);
        let (mut at, mut counts) = (24, [0u32; 2]);
        while at < one.len() {
            let length = u32::from_le_bytes(one[at + 8..at + 12].try_into().unwrap());
            let which = SIZES.iter().position(|size| *size == length + CHECK_SEQUENCE as u32).unwrap();
            counts[which] += 1;
            at += 16 + length as usize;
        }
        assert_eq!(counts.iter().sum::<u32>(), FRAMES);
        assert!(counts.iter().all(|count| *count > FRAMES / 3), "{counts:?}");
    }

    #[test]
    fn its_headers_add_up() {
        let frame = frame(196);
        let words = frame[ETHERNET..ETHERNET + IPV4].chunks(2);
        let sum: u32 = words.map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "RFC 1071");
    }
}
