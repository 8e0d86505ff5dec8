use super::*;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::stores::death;

use proptest::prelude::*;

const BYTES: usize = STATE_BYTES_MIN as usize;
/// Packets of a run, and of a burst.
const PACKETS: u32 = 4;
const BURST: u32 = 2;
const SLOTS: usize = 3;

/// Memory that outlives processes.
struct Outlasting(NonNull<u8>, Layout);

// SAFETY: plain memory that only the test's thread touches.
unsafe impl Send for Outlasting {}
// SAFETY: as above.
unsafe impl Sync for Outlasting {}

impl Outlasting {
    fn new() -> Arc<Self> {
        let layout = Layout::from_size_align(region_bytes(BYTES as u64), PAGE_BYTES).unwrap();
        // SAFETY: the layout's size is not 0.
        Arc::new(Self(NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap(), layout))
    }

    fn attach(self: &Arc<Self>, base: u32) -> (StateRegion, Recovered) {
        // SAFETY: aligned to a page, as long as it has to be, kept by the `Arc`; the process before is gone.
        let region = unsafe { StateRegion::over(self.0, [BYTES, log_bytes(BYTES)], Some(self.clone())) };
        let recovered = region.recover(base);
        (region, recovered)
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.1.size());
        // SAFETY: just checked.
        unsafe { self.0.as_ptr().add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

impl Drop for Outlasting {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.0.as_ptr(), self.1) };
    }
}

/// An error that is planted in the NF or in what it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// Bytes are saved after they changed.
    SavesLate,
    /// The count begins anew with each process.
    NoBase,
    /// What was not returned is not undone.
    NoUndo,
}

/// What an NF keeps in the test: a total, and slots that packets meet in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kept {
    total: u64,
    slots: [[u64; 2]; SLOTS],
}

impl Kept {
    /// The change that a packet makes.
    fn after(mut self, packet: u32) -> Self {
        self.total += 1 + u64::from(packet);
        let slot = &mut self.slots[packet as usize % SLOTS];
        slot[0] += 1;
        slot[1] = slot[1] * 31 + u64::from(packet) + self.total;
        self
    }

    fn after_all(packets: u32) -> Self {
        (0..packets).fold(Self::default(), Self::after)
    }
}

/// The same NF, working on a region.
struct Nf {
    region: StateRegion,
    total: NonNull<u64>,
    slots: NonNull<u64>,
    planted: Planted,
}

const TOTAL: Wanted = Wanted { name: 1, schema: 10, bytes: 16 };
const SLOT_WORDS: usize = 3;
const SLOT: Wanted = Wanted { name: 2, schema: 20, bytes: SLOTS * SLOT_WORDS * 8 };

impl Nf {
    fn start(memory: &Arc<Outlasting>, base: u32, planted: Planted) -> Self {
        let told = if planted == Planted::NoBase { 0 } else { base };
        // A count that is never reached: nothing is undone.
        let told = if planted == Planted::NoUndo { u32::MAX } else { told };
        let (region, _) = memory.attach(told);
        let total = region.piece(TOTAL).unwrap().base.cast();
        let slots = region.piece(SLOT).unwrap().base.cast();
        Self { region, total, slots, planted }
    }

    fn word(&self, slot: usize, word: usize) -> *mut u64 {
        // SAFETY: inside the piece.
        unsafe { self.slots.as_ptr().add(slot * SLOT_WORDS + word) }
    }

    fn read(&self) -> Kept {
        // SAFETY: both pieces are initialised, and only this thread has them.
        unsafe {
            let mut kept = Kept { total: *self.total.as_ptr().add(1), ..Kept::default() };
            for (number, slot) in kept.slots.iter_mut().enumerate() {
                *slot = [*self.word(number, 1), *self.word(number, 2)];
            }
            kept
        }
    }

    /// Saves what a stamp stands before, once a burst.
    fn save(&self, stamp: *mut u64, bytes: usize) {
        // SAFETY: the stamp's word and those behind it are in a piece.
        unsafe {
            if *stamp != self.region.edition() {
                self.region.save(NonNull::new(stamp).unwrap().cast(), bytes);
                step();
                *stamp = self.region.edition();
            }
        }
    }

    fn change(&self, stamp: *mut u64, values: &[(usize, u64)], bytes: usize) {
        if self.planted != Planted::SavesLate {
            self.save(stamp, bytes);
        }
        for &(word, value) in values {
            step();
            // SAFETY: behind the stamp, in its piece.
            unsafe { *stamp.add(word) = value };
        }
        if self.planted == Planted::SavesLate {
            self.save(stamp, bytes);
        }
    }

    fn work(&self, packet: u32) {
        let next = self.read().after(packet);
        self.change(self.total.as_ptr(), &[(1, next.total)], 16);
        let slot = packet as usize % SLOTS;
        self.change(self.word(slot, 0), &[(1, next.slots[slot][0]), (2, next.slots[slot][1])], 24);
    }
}

/// A life of a process: it works from the first packet on that was not returned, until it dies or is done.
/// Returns how many packets it returned, and whether it found what the last returned burst left.
fn live(memory: &Arc<Outlasting>, base: u32, dies_after: Option<u32>, planted: Planted) -> (u32, bool) {
    let (produced, right) = (Cell::new(0), Cell::new(true));
    death::after(dies_after, || {
        let nf = Nf::start(memory, base, planted);
        right.set(nf.read() == Kept::after_all(base));
        let begins = if planted == Planted::NoBase { 0 } else { base };
        while base + produced.get() < PACKETS {
            let first = base + produced.get();
            nf.region.begin(begins + produced.get());
            for packet in first..(first + BURST).min(PACKETS) {
                nf.work(packet);
            }
            step();
            produced.set(produced.get() + BURST); // The commit: one store.
        }
    });
    (produced.get(), right.get())
}

/// Runs with deaths after so many stores of each life, and then to the end. Returns whether all was right,
/// and whether the last of the deaths happened at all.
fn run(deaths: &[u32], planted: Planted) -> (bool, bool) {
    let memory = Outlasting::new();
    let (mut base, mut all_right, mut died) = (0, true, true);
    for &after in deaths {
        let (returned, right) = live(&memory, base, Some(after), planted);
        all_right &= right;
        base += returned;
        died = base < PACKETS;
    }
    let (returned, right) = live(&memory, base, None, planted);
    let end = Nf::start(&memory, base + returned, planted).read();
    (all_right && right && end == Kept::after_all(PACKETS), died)
}

/// Deaths before each store, with a second and a third one before each store of the lives that follow.
/// Returns how many runs there were, and how many of them were wrong.
fn search(planted: Planted, third: u32) -> (u32, u32) {
    let (mut runs, mut wrong) = (0, 0);
    let mut note = |deaths: &[u32]| {
        let (right, died) = run(deaths, planted);
        runs += 1;
        wrong += u32::from(!right);
        died
    };
    for first in 0.. {
        if !note(&[first]) {
            break;
        }
        for second in 0.. {
            if !note(&[first, second]) {
                break;
            }
            (0..third).for_each(|third| {
                note(&[first, second, third]);
            });
        }
    }
    (runs, wrong)
}

#[test]
fn a_death_before_any_store_leaves_the_state_of_the_last_returned_burst() {
    let (runs, wrong) = search(Planted::Nothing, 8);
    assert_eq!(wrong, 0, "of {runs} runs");
    assert!(runs > 10_000, "{runs} runs");
}

#[test]
fn planted_errors_are_found() {
    for planted in [Planted::SavesLate, Planted::NoBase, Planted::NoUndo] {
        let (runs, wrong) = search(planted, 0);
        assert!(wrong > 0, "{planted:?} was right in {runs} runs");
    }
}

#[test]
fn a_piece_is_found_again_by_name_and_schema() {
    let memory = Outlasting::new();
    let wanted = |name, schema, bytes| Wanted { name, schema, bytes };
    let (region, recovered) = memory.attach(0);
    assert_eq!(recovered, Recovered::default());
    let [one, two] = [wanted(1, 1, 100), wanted(2, 1, 200)].map(|wanted| region.piece(wanted).unwrap());
    // SAFETY: 200 bytes of a piece.
    unsafe { two.base.as_ptr().write_bytes(7, 200) };
    assert_eq!(region.piece_of(128 + 3), Some((2, 3)));
    drop(region);
    let (region, recovered) = memory.attach(0);
    assert_eq!(recovered, Recovered { found: true, ..Recovered::default() });
    let again = region.piece(wanted(2, 1, 200)).unwrap();
    assert_eq!((again.base, again.replaces), (two.base, false));
    assert!(region.has_other(wanted(1, 2, 100)) && !region.has_other(wanted(3, 1, 1)));
    // Larger than the gap that its predecessor leaves.
    let other = region.piece(wanted(1, 2, 300)).unwrap();
    assert!(other.replaces && other.base > two.base);
    // What is in the gap now is zero, and so is what a forgotten piece leaves.
    assert_eq!(region.piece(wanted(3, 1, 64)).unwrap().base, one.base);
    region.keep_only(&[1, 3]);
    let blank = region.piece(wanted(4, 1, 192)).unwrap();
    assert_eq!(blank.base.as_ptr() as usize, one.base.as_ptr() as usize + 64);
    // SAFETY: 192 bytes of a piece.
    assert!((0..192).all(|at| unsafe { *blank.base.as_ptr().add(at) } == 0));
}

#[test]
fn what_does_not_fit_is_refused_with_the_room_there_is() {
    let (region, _) = Outlasting::new().attach(0);
    let wanted = |name, bytes| Wanted { name, schema: 1, bytes };
    region.piece(wanted(1, BYTES - 100)).unwrap();
    let room = NoRoomError::Bytes { wanted: 65, room: 64, bytes: BYTES };
    assert_eq!(region.piece(wanted(2, 65)).unwrap_err(), room);
    region.piece(wanted(2, 64)).unwrap();
    let (region, _) = Outlasting::new().attach(0);
    assert!((0..PIECES_MAX as u64).all(|name| region.piece(wanted(name, 8)).is_ok()));
    assert_eq!(region.piece(wanted(99, 8)).unwrap_err(), NoRoomError::Pieces);
}

#[test]
fn the_log_has_room_for_all_pieces_saved_once_in_the_smallest_parts() {
    let (region, _) = Outlasting::new().attach(0);
    let piece = region.piece(Wanted { name: 1, schema: 1, bytes: BYTES }).unwrap();
    for burst in 0..3 {
        region.begin(burst);
        for at in (0..BYTES).step_by(SAVED_BYTES_MIN) {
            // SAFETY: in the piece.
            region.save(unsafe { piece.base.add(at) }, SAVED_BYTES_MIN);
        }
    }
    assert_eq!(region.saved().map(|(_, bytes)| bytes).sum::<usize>(), BYTES);
    let again = catch_unwind(AssertUnwindSafe(|| region.save(piece.base, SAVED_BYTES_MIN)));
    assert!(again.is_err(), "a full log is no place to write to");
}

#[test]
fn memory_of_another_size_is_refused() {
    let memory = || create("test", 8 << 10).unwrap();
    assert!(StateRegion::attach(memory(), 8 << 10, 0).is_ok());
    for bytes in [0, 8 << 11, (8 << 10) + 1, u64::MAX] {
        assert!(matches!(StateRegion::attach(memory(), bytes, 0), Err(MemoryError::NotSealed { .. })));
    }
}

/// Bytes of a region, most of them where something is read.
fn forgery() -> impl Strategy<Value = Vec<(usize, u64)>> {
    let word = prop_oneof![
        any::<u64>(),
        (0..BYTES as u64 * 2),
        Just(MAGIC),
        Just(u64::MAX),
        (0..BYTES as u64, 0..BYTES as u64).prop_map(|(offset, bytes)| offset << 32 | bytes),
        Just((BYTES as u64) << 32 | 8),
    ];
    let end = region_bytes(BYTES as u64) / 8;
    let place = prop_oneof![0usize..10, 128usize..160, 0..end];
    prop::collection::vec((place, word), 0..40)
}

proptest! {
    /// Whatever a hostile process left, the next one gets pieces that lie in the region, each for itself.
    #[test]
    fn a_forged_region_costs_its_state_and_nothing_else(words in forgery(), base: u32, real: bool) {
        let memory = Outlasting::new();
        if real {
            live(&memory, 0, Some(300), Planted::Nothing);
        }
        for (at, word) in words {
            memory.write(at * 8, &word.to_ne_bytes());
        }
        let (region, _) = memory.attach(base);
        let mut places = Vec::new();
        for wanted in [TOTAL, SLOT, Wanted { name: 3, schema: 1, bytes: 100 }] {
            let Ok(piece) = region.piece(wanted) else { continue };
            let at = piece.base.as_ptr() as usize - memory.0.as_ptr() as usize - PIECES_OFFSET;
            prop_assert!(at + wanted.bytes <= BYTES);
            places.push(at..at + wanted.bytes);
            // SAFETY: as just checked.
            unsafe { piece.base.as_ptr().write_bytes(1, wanted.bytes) };
        }
        places.sort_by_key(|place| place.start);
        prop_assert!(places.windows(2).all(|two| two[0].end <= two[1].start));
        region.begin(base);
        prop_assert_eq!(region.saved().count(), 0);
    }
}

mod standby;
