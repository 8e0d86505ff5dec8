//! What the tables and values of a process share: the region, the time, and when state may change.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

use headgate_session::message::{KeptState, OnChange, Part, StateSaid};
use headgate_shm::state::{ForgedError, PIECE_ALIGN, Recovered, ReplaceError, StateRegion, Wanted};
use headgate_shm::{Descriptor, Memory, MemoryError, Region};

use super::error::StateError;
use super::shadow::{CHECK_EDITS_VARIABLE, Shadow};

/// State of a process: kept in a region, or ordinary memory that ends with it.
pub struct Core {
    region: Option<StateRegion>,
    /// Part of the process; a standby that goes is active from then on.
    part: Cell<Part>,
    on_change: OnChange,
    /// Packets that the instance returned, ever (wraps): all processes of it.
    returned: Cell<u32>,
    /// Logical time in microseconds, never 0.
    now_us: Cell<u64>,
    /// What packets' own time is ahead of this machine's (wraps); 0 where they have none.
    ahead_us: Cell<u64>,
    /// Whether a burst is at hand.
    is_open: Cell<bool>,
    /// Whether the NF has started: no table is made any more.
    has_started: Cell<bool>,
    /// Tables and values: number of the name, name.
    pieces: RefCell<Vec<(u64, String)>>,
    /// The same in the region: what was wanted, and where it lies.
    placed: RefCell<Vec<(Wanted, NonNull<u8>)>>,
    said: RefCell<StateSaid>,
    shadow: RefCell<Option<Shadow>>,
}

/// Bytes of a table or value.
pub struct Bytes {
    pub base: NonNull<u8>,
    /// Keeps them, where they lie in no region.
    _own: Option<Own>,
}

impl Core {
    /// State that ends with the process.
    pub fn passing() -> Self {
        Self {
            region: None,
            part: Cell::new(Part::Alone),
            on_change: OnChange::Discard,
            returned: Cell::new(0),
            now_us: Cell::new(1),
            ahead_us: Cell::new(0),
            is_open: Cell::new(false),
            has_started: Cell::new(false),
            pieces: RefCell::default(),
            placed: RefCell::default(),
            said: RefCell::default(),
            shadow: RefCell::new(None),
        }
    }

    /// State in a region; it is first made what the last returned burst left. That of a standby is another's
    /// until it goes.
    pub fn kept(memory: Memory, told: &KeptState) -> Result<Self, MemoryError> {
        let (region, recovered) = match told.part {
            Part::Standby => (StateRegion::attach_beside(memory, told.bytes)?, Recovered::default()),
            Part::Alone | Part::Active => StateRegion::attach(memory, told.bytes, told.base)?,
        };
        let Recovered { found, undone, forged } = recovered;
        let said = StateSaid {
            found,
            undone,
            discarded: forged.iter().map(|why| format!("all of it: {why}")).collect(),
            tables: 0,
            replaces: true,
        };
        Ok(Self {
            region: Some(region),
            part: Cell::new(told.part),
            on_change: told.on_change,
            returned: Cell::new(told.base),
            said: RefCell::new(said),
            ..Self::passing()
        })
    }

    pub const fn is_kept(&self) -> bool {
        self.region.is_some()
    }

    /// Finds or makes the bytes of a table or value.
    pub fn piece(&self, name: &str, schema: u64, bytes: usize) -> Result<Bytes, StateError> {
        if self.has_started.get() {
            return Err(StateError::Late { name: name.to_owned() });
        }
        let wanted = Wanted { name: number_of(&[name]), schema: schema.max(1), bytes };
        let mut pieces = self.pieces.borrow_mut();
        if pieces.iter().any(|(number, _)| *number == wanted.name) {
            return Err(StateError::Twice { name: name.to_owned() });
        }
        pieces.push((wanted.name, name.to_owned()));
        let Some(region) = &self.region else {
            let own = Own::zeroed(bytes);
            return Ok(Bytes { base: own.base, _own: Some(own) });
        };
        if self.part.get() == Part::Standby {
            let known = region.known_piece(wanted);
            let known = known.ok_or_else(|| StateError::Standby { name: name.to_owned() })?;
            self.placed.borrow_mut().push((wanted, known.base));
            return Ok(Bytes { base: known.base, _own: None });
        }
        if self.on_change == OnChange::Refuse && region.has_other(wanted) {
            return Err(StateError::Changed { name: name.to_owned() });
        }
        let room = |why| StateError::Room { name: name.to_owned(), why };
        let piece = region.piece(wanted).map_err(room)?;
        if piece.replaces {
            self.said.borrow_mut().discarded.push(format!("`{name}`: it was of another schema"));
        }
        self.placed.borrow_mut().push((wanted, piece.base));
        Ok(Bytes { base: piece.base, _own: None })
    }

    /// Goes on with a region that another node's state was copied into, in the place of its own. Tables and
    /// values stay where they are.
    ///
    /// # Errors
    /// [`ReplaceError`]; the state is as it was.
    ///
    /// # Panics
    /// When a burst is at hand.
    pub fn replace(&self, memory: Memory) -> Result<(), ReplaceError> {
        assert!(!self.is_open.get(), "state is replaced between two bursts");
        let Some(region) = &self.region else { return Ok(()) };
        // SAFETY: tables and values give references while they are borrowed, and NFs do not run: their caller
        // is in the loop.
        unsafe { region.replace(memory, &self.placed.borrow())? };
        if self.part.get() != Part::Standby {
            self.check_edits(region);
        }
        Ok(())
    }

    /// Ends the start. Returns what is said of the state to the manager; nothing where none is kept.
    pub fn start(&self) -> Option<StateSaid> {
        self.has_started.set(true);
        let region = self.region.as_ref()?;
        let names: Vec<u64> = self.pieces.borrow().iter().map(|(number, _)| *number).collect();
        if self.part.get() != Part::Standby {
            region.keep_only(&names);
            self.check_edits(region);
        }
        let mut said = self.said.borrow_mut();
        said.tables = names.len() as u32;
        Some(said.clone())
    }

    fn check_edits(&self, region: &StateRegion) {
        if std::env::var_os(CHECK_EDITS_VARIABLE).is_some_and(|value| value == "1") {
            *self.shadow.borrow_mut() = Some(Shadow::of(region));
        }
    }

    /// Whether packets are saved before they change, for they may be given to a standby again.
    pub fn saves_packets(&self) -> bool {
        self.part.get() != Part::Alone
    }

    /// Whether the state is another process's until this one is told to go.
    pub fn is_standby(&self) -> bool {
        self.part.get() == Part::Standby
    }

    /// Makes the state this process's: `base` packets were returned by all before it (wraps), and what
    /// they changed for others is undone.
    pub fn take_over(&self, base: u32, packets: &Region) -> Result<(), ForgedError> {
        let Some(region) = &self.region else { return Ok(()) };
        region.take_over(base, packets)?;
        self.returned.set(base);
        self.part.set(Part::Active);
        self.check_edits(region);
        Ok(())
    }

    /// Number of the burst at hand.
    #[inline(always)]
    pub fn edition(&self) -> u64 {
        self.region.as_ref().map_or(0, StateRegion::edition)
    }

    /// Saves a packet as it was delivered, before it changes: once a burst.
    pub fn save_packet(&self, packet: Descriptor, packets: &Region) {
        if let Some(region) = &self.region {
            region.save_packet(packet, packets);
        }
    }

    /// Notes how many packets the process has put into its transmit ring, ever (wraps), counted with those
    /// of the processes before it.
    #[inline(always)]
    pub fn note_returned(&self, count: u32) {
        self.returned.set(count);
    }

    /// Number of packets that all earlier processes of the instance returned.
    pub fn base(&self) -> u32 {
        self.returned.get()
    }

    /// A burst is at hand: state may change. The time is that of its packets, where they have their own, or
    /// this machine's.
    #[inline]
    pub fn open(&self, now_us: u64, packets_us: Option<u64>) {
        if let Some(packets_us) = packets_us {
            self.ahead_us.set(packets_us.wrapping_sub(now_us));
        }
        self.note_time(now_us);
        self.is_open.set(true);
        if let Some(region) = &self.region {
            region.begin(self.returned.get());
        }
    }

    /// Notes this machine's time. That of packets goes on by it between two bursts.
    #[inline]
    pub fn note_time(&self, now_us: u64) {
        self.now_us.set(now_us.wrapping_add(self.ahead_us.get()).max(1));
    }

    /// The NFs are done with the burst.
    #[inline]
    pub fn close(&self) {
        self.is_open.set(false);
        if let (Some(region), Some(shadow)) = (&self.region, &mut *self.shadow.borrow_mut()) {
            shadow.check(region, &self.pieces.borrow());
        }
    }

    /// Logical time in microseconds.
    #[inline(always)]
    pub fn now_us(&self) -> u64 {
        self.now_us.get()
    }

    /// Saves bytes that are about to change, unless they were saved in this burst. They begin with their
    /// stamp.
    ///
    /// # Safety
    /// `at` must lead to `bytes`, which are of a piece of this state, aligned to 8, and of which nobody has a
    /// reference.
    ///
    /// # Panics
    /// When no burst is at hand.
    #[inline(always)]
    pub unsafe fn save(&self, at: NonNull<u8>, bytes: usize) {
        assert!(
            self.is_open.get(),
            "kept state changes while a burst is at hand, in `process`, and not else"
        );
        let Some(region) = &self.region else { return };
        let stamp = at.cast::<u64>();
        // SAFETY: the first 8 bytes of what the caller vouches for.
        if unsafe { stamp.read() } != region.edition() {
            region.save(at, bytes);
            // SAFETY: as above; what it was is saved too.
            unsafe { stamp.write(region.edition()) };
        }
    }
}

/// Returns a number for a name or a schema: FNV-1a, for equal words are to be told from others and nobody
/// gains by a collision but against himself.
pub fn number_of(words: &[&str]) -> u64 {
    let bytes = words.iter().flat_map(|word| word.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Zeroed memory of a process's own; the kernel gives it as it is written.
struct Own {
    base: NonNull<u8>,
    layout: Layout,
}

impl Own {
    fn zeroed(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes.max(1), PIECE_ALIGN).expect("a table's size is checked");
        // SAFETY: the layout's size is not 0.
        let base = unsafe { std::alloc::alloc_zeroed(layout) };
        let base = NonNull::new(base).unwrap_or_else(|| std::alloc::handle_alloc_error(layout));
        Self { base, layout }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout in `zeroed`.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), self.layout) };
    }
}
