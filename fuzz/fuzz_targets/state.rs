//! Any bytes as a state region that a hostile predecessor left: the next process gets pieces that lie in it,
//! each for itself, or an empty region.
//!
//! The input is the count of packets that were returned (4 bytes), how much of the rest lies at the region's
//! beginning (2 bytes), and what lies there; the rest of it lies in the log.

#![no_main]

use headgate_shm::Memory;
use headgate_shm::state::{STATE_BYTES_MIN, StateRegion, Wanted, create, region_bytes};
use libfuzzer_sys::fuzz_target;

const BYTES: u64 = STATE_BYTES_MIN;
/// Offset of the log: behind the page of header and directory, and the pieces.
const LOG: usize = 4096 + BYTES as usize;

fuzz_target!(|bytes: &[u8]| {
    let Some((head, rest)) = bytes.split_first_chunk::<6>() else { return };
    let base = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let split = usize::from(u16::from_le_bytes([head[4], head[5]])).min(rest.len()).min(LOG);
    let (front, log) = rest.split_at(split);
    let memory = create("fuzz", BYTES).expect("memory");
    let log = &log[..log.len().min(region_bytes(BYTES) - LOG)];
    // SAFETY: both parts were just cut to what the region has there.
    unsafe {
        memory.base().as_ptr().copy_from_nonoverlapping(front.as_ptr(), front.len());
        memory.base().as_ptr().add(LOG).copy_from_nonoverlapping(log.as_ptr(), log.len());
    }
    let file = memory.duplicate_file().expect("a descriptor");
    let mapped = Memory::attach("fuzz", file, region_bytes(BYTES), true).expect("sealed memory");
    let (region, _) = StateRegion::attach(mapped, BYTES, base).expect("large enough");
    let mut places = Vec::new();
    for (name, bytes) in [(1, 64), (2, 100), (3, 1000)] {
        let Ok(piece) = region.piece(Wanted { name, schema: 1, bytes }) else { continue };
        // SAFETY: what the region says is there; AddressSanitizer and the checks below see whether it is.
        unsafe { piece.base.as_ptr().write_bytes(name as u8, bytes) };
        places.push((piece.base.as_ptr() as usize, bytes));
    }
    places.sort_unstable();
    assert!(places.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0), "{places:?}");
    region.begin(base);
    assert_eq!(region.saved().count(), 0);
});
