//! Clocks of lanes, and the cursors by which bodies are read and written.

use crate::NoRoomError;

/// Maximum number of lanes of a group, as `headgate_decide::replicate::LANES_MAX`.
pub const LANES_MAX: usize = 16;

/// A clock for each lane of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    lanes: u8,
    clocks: [u64; LANES_MAX],
}

impl Clocks {
    /// Returns those of so many lanes; beyond [`LANES_MAX`] they are left out.
    #[must_use]
    pub fn new(clocks: impl IntoIterator<Item = u64>) -> Self {
        let mut all = Self::default();
        for clock in clocks.into_iter().take(LANES_MAX) {
            all.clocks[usize::from(all.lanes)] = clock;
            all.lanes += 1;
        }
        all
    }

    /// Returns them in the order of the lanes.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        &self.clocks[..usize::from(self.lanes)]
    }
}

/// Instant at which nothing of the group was between two NFs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Clocks of the last packets that all NFs had worked on.
    pub clocks: Clocks,
    /// Entries of the journal before it.
    pub journal: u64,
}

/// Bytes that are read from the front. `None`: they end too early.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take<const BYTES: usize>(&mut self) -> Option<[u8; BYTES]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_be_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// A byte that says whether something follows.
    pub fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub fn clocks(&mut self) -> Option<Clocks> {
        let lanes = self.u8()?;
        if usize::from(lanes) > LANES_MAX {
            return None;
        }
        let mut all = Clocks { lanes, ..Clocks::default() };
        for clock in &mut all.clocks[..usize::from(lanes)] {
            *clock = self.u64()?;
        }
        Some(all)
    }

    pub fn cut(&mut self) -> Option<Cut> {
        Some(Cut { clocks: self.clocks()?, journal: self.u64()? })
    }

    /// Returns what is left, which is nothing but items of so many bytes.
    pub fn items(self, bytes: usize) -> Option<&'a [u8]> {
        self.0.len().is_multiple_of(bytes).then_some(self.0)
    }

    /// Returns whether everything was read.
    pub const fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

/// Room that is written from the front. What does not fit is counted all the same.
pub(super) struct Writer<'a> {
    room: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub const fn new(room: &'a mut [u8]) -> Self {
        Self { room, at: 0 }
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        if let Some(room) = self.room.get_mut(self.at..self.at + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }

    pub fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    pub fn clocks(&mut self, clocks: &Clocks) {
        self.u8(clocks.lanes);
        clocks.as_slice().iter().for_each(|clock| self.u64(*clock));
    }

    pub fn cut(&mut self, cut: &Cut) {
        self.clocks(&cut.clocks);
        self.u64(cut.journal);
    }

    /// Returns how many bytes were written.
    pub const fn finish(self) -> Result<usize, NoRoomError> {
        if self.at > self.room.len() {
            return Err(NoRoomError::Buffer { needed: self.at, given: self.room.len() });
        }
        Ok(self.at)
    }
}
