//! Image of a state region: its bytes as another node needs them, without the log. It has all that is not
//! zero, or, with a twin that is as the other node's is, all that differs from it.
//!
//! It is taken while the instance has no packet, so there is nothing to undo. What the region holds is not
//! believed here, nor is the image where it comes to: the process that attaches it checks what it finds. That
//! bytes are compared, and nobody asks the NF which it has changed, costs an edit nothing, and no NF can lie.
//!
//! ```text
//! 0       magic       what it is
//! 8       bytes       for pieces, as the region was made
//! 16      runs        each: offset in the region (4), length (4), as many bytes
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, pread};

use super::{
    Header, PIECES_OFFSET, STATE_BYTES_MAX, STATE_BYTES_MIN, create, create_for_standby, create_unreserved,
    create_unreserved_for_standby,
};
use crate::memory::{Memory, MemoryError};

/// First word of an image: a name, and the version of this layout and of that of regions.
const MAGIC: u64 = u64::from_le_bytes(*b"hgimage1");
const HEAD_BYTES: usize = 16;
const RUN_HEAD_BYTES: usize = 8;
/// Equal bytes are left out in blocks of so many. Our choice: an entry or two, so that a table with few of
/// them costs what they take; eight times what a run's head takes.
const BLOCK_BYTES: usize = 64;
/// Bytes that are read and compared at a time. Our choice: they stay in a core's own cache.
const STEP_BYTES: usize = 128 << 10;
/// What a region that nobody wrote to has.
static ZEROS: [u8; STEP_BYTES] = [0; STEP_BYTES];
/// Offset and end of the log's description in the header, which is not copied.
const LOG: [usize; 2] = [std::mem::offset_of!(Header, begin), std::mem::offset_of!(Header, begin) + 8];

/// Error: bytes are no image of a region that is wanted.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// They are none, or of another version.
    #[error("it is no image of kept state, or one of another version")]
    Malformed,
    /// It is of a region of another size.
    #[error("it is of a region for {has} bytes, and one for {wanted} is wanted")]
    Size {
        /// What it has.
        has: u64,
        /// What is wanted.
        wanted: u64,
    },
}

/// Returns the most bytes that an image of a region with `bytes` for pieces can have.
#[must_use]
pub const fn image_bytes_max(bytes: u64) -> u64 {
    let all = PIECES_OFFSET as u64 + bytes;
    HEAD_BYTES as u64 + all + all.div_ceil(BLOCK_BYTES as u64) * RUN_HEAD_BYTES as u64
}

/// Takes the image of a region with `bytes` for pieces, of which nothing is to be undone: all that is not
/// zero.
///
/// # Errors
/// The kernel's, when the file is none of a region.
pub fn image(region: BorrowedFd<'_>, bytes: u64) -> io::Result<Vec<u8>> {
    let mut image = Image::new(bytes);
    let (end, mut at) = (PIECES_OFFSET + bytes as usize, 0);
    while let Some((from, to)) = written(region, at, end)? {
        image.add(region, (from, to), |from, to| &ZEROS[..to - from])?;
        at = to;
    }
    Ok(image.bytes)
}

/// Region that is what images say, and that no process has: what a standby would begin with, and, at the
/// node that works, what the standby has.
pub struct Twin {
    memory: Memory,
    bytes: u64,
    is_empty: bool,
}

/// Part of an image: where in the region its bytes belong, and where in the image they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    offset: usize,
    length: usize,
    from: usize,
}

impl Twin {
    /// Makes an empty one, with `bytes` for pieces.
    ///
    /// # Errors
    /// [`MemoryError`] when the kernel refuses.
    pub fn new(name: &str, bytes: u64, has_standby: bool) -> Result<Self, MemoryError> {
        let make = if has_standby { create_for_standby } else { create };
        Ok(Self { memory: make(name, bytes)?, bytes, is_empty: true })
    }

    /// Makes an empty one that no process is to be given before it was [reserved](Self::reserve): it takes
    /// memory as it is written.
    ///
    /// # Errors
    /// [`MemoryError`] when the kernel refuses.
    pub fn unreserved(name: &str, bytes: u64, has_standby: bool) -> Result<Self, MemoryError> {
        let make = if has_standby { create_unreserved_for_standby } else { create_unreserved };
        Ok(Self { memory: make(name, bytes)?, bytes, is_empty: true })
    }

    /// Makes one that takes memory as it is written one that a process can be given.
    ///
    /// # Errors
    /// [`MemoryError`] when there is not enough.
    pub fn reserve(&self, name: &str) -> Result<(), MemoryError> {
        self.memory.reserve(name, PIECES_OFFSET + self.bytes as usize)
    }

    /// Makes it empty.
    ///
    /// # Errors
    /// The kernel's.
    pub fn clear(&mut self) -> io::Result<()> {
        let (end, mut at) = (PIECES_OFFSET + self.bytes as usize, 0);
        while let Some((from, to)) = written(self.memory.file(), at, end)? {
            // SAFETY: the memory is ours alone, and the range lies in it.
            unsafe { self.memory.base().as_ptr().add(from).write_bytes(0, to - from) };
            at = to;
        }
        self.is_empty = true;
        Ok(())
    }

    /// Returns its image: all that is not zero.
    ///
    /// # Errors
    /// The kernel's.
    pub fn image(&self) -> io::Result<Vec<u8>> {
        image(self.memory.file(), self.bytes)
    }

    /// Takes the image of a region of the same size, of which nothing is to be undone: all that is not as
    /// here.
    ///
    /// # Errors
    /// The kernel's, when the file is none of a region.
    pub fn difference(&self, region: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
        let (mut image, end) = (Image::new(self.bytes), PIECES_OFFSET + self.bytes as usize);
        let own = |from: usize, to: usize| {
            // SAFETY: the memory is ours alone, and the range lies in it.
            unsafe { std::slice::from_raw_parts(self.memory.base().as_ptr().add(from), to - from) }
        };
        let mut at = 0;
        loop {
            // What one of the two never wrote is zero there, and may not be in the other.
            let both = [written(region, at, end)?, written(self.memory.file(), at, end)?];
            let Some((from, to)) = both.into_iter().flatten().min() else { return Ok(image.bytes) };
            image.add(region, (from, to), own)?;
            at = to;
        }
    }

    /// Makes it what an image says, where that says something.
    ///
    /// # Errors
    /// [`ImageError`]; it is as it was.
    pub fn apply(&mut self, image: &[u8]) -> Result<(), ImageError> {
        let runs = runs(self.bytes, image)?;
        let base = self.memory.base().as_ptr();
        self.is_empty &= runs.is_empty();
        for run in runs {
            let bytes = &image[run.from..run.from + run.length];
            // SAFETY: the memory is ours alone, and the run lies in it.
            unsafe { base.add(run.offset).copy_from_nonoverlapping(bytes.as_ptr(), run.length) };
        }
        Ok(())
    }

    /// Returns whether it is all zero, as a region that no process has set up.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Returns the memory, for a process.
    #[must_use]
    pub fn into_memory(self) -> Memory {
        self.memory
    }
}

/// An image that is being taken.
struct Image {
    bytes: Vec<u8>,
    room: Vec<u8>,
}

impl Image {
    fn new(bytes: u64) -> Self {
        Self { bytes: [MAGIC.to_le_bytes(), bytes.to_le_bytes()].concat(), room: Vec::new() }
    }

    /// Adds what differs in a range of a region from what `base` has there.
    fn add<'a>(
        &mut self,
        region: BorrowedFd<'_>,
        (mut from, to): (usize, usize),
        base: impl Fn(usize, usize) -> &'a [u8],
    ) -> io::Result<()> {
        while from < to {
            let end = to.min(from + STEP_BYTES);
            self.room.resize(end - from, 0);
            let read = read_at(region, &mut self.room, from)?;
            self.room[read..].fill(0);
            if from < LOG[1] && LOG[0] < end {
                self.room[LOG[0].max(from) - from..LOG[1].min(end) - from].fill(0);
            }
            add_runs(&mut self.bytes, &self.room, base(from, end), from);
            from = end;
        }
        Ok(())
    }
}

/// Returns the runs of an image of a region with `bytes` for pieces, each of which lies in it.
fn runs(bytes: u64, image: &[u8]) -> Result<Vec<Run>, ImageError> {
    let word = |at: usize| image.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    if word(0) != Some(MAGIC) {
        return Err(ImageError::Malformed);
    }
    match word(8) {
        Some(has) if has == bytes && (STATE_BYTES_MIN..=STATE_BYTES_MAX).contains(&bytes) => {}
        Some(has) => return Err(ImageError::Size { has, wanted: bytes }),
        None => return Err(ImageError::Malformed),
    }
    let (mut rest, end) = (&image[HEAD_BYTES..], PIECES_OFFSET + bytes as usize);
    let mut runs = Vec::new();
    while !rest.is_empty() {
        let run = rest.split_at_checked(RUN_HEAD_BYTES).ok_or(ImageError::Malformed)?;
        let number =
            |at: usize| run.0[at..at + 4].try_into().map(u32::from_le_bytes).unwrap_or_default() as usize;
        let (offset, length) = (number(0), number(4));
        let (run, behind) = run.1.split_at_checked(length).ok_or(ImageError::Malformed)?;
        let touches_log = offset < LOG[1] && LOG[0] < offset + length;
        let is_zero =
            || run[LOG[0].max(offset) - offset..(LOG[1] - offset).min(length)].iter().all(|byte| *byte == 0);
        if offset + length > end || touches_log && !is_zero() {
            return Err(ImageError::Malformed);
        }
        runs.push(Run { offset, length, from: image.len() - behind.len() - length });
        rest = behind;
    }
    Ok(runs)
}

/// Returns the next part of a file, from `at` on, that was ever written.
fn written(file: BorrowedFd<'_>, at: usize, end: usize) -> io::Result<Option<(usize, usize)>> {
    let from = match seek(file, SeekFrom::Data(at as u64)) {
        Ok(from) => from as usize,
        Err(Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let to = seek(file, SeekFrom::Hole(from as u64)).map_or(end, |to| to as usize).min(end);
    Ok((from < to).then_some((from, to)))
}

fn read_at(file: BorrowedFd<'_>, into: &mut [u8], at: usize) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match pread(file.as_fd(), &mut into[done..], (at + done) as u64)? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}

/// Appends what of these bytes is not as in the base, as runs.
fn add_runs(image: &mut Vec<u8>, bytes: &[u8], base: &[u8], offset: usize) {
    if bytes == base {
        return;
    }
    let mut blocks = bytes.chunks(BLOCK_BYTES).zip(base.chunks(BLOCK_BYTES)).enumerate().peekable();
    while let Some((first, (block, other))) = blocks.next() {
        if block == other {
            continue;
        }
        let mut end = first * BLOCK_BYTES + block.len();
        while let Some((_, (next, _))) = blocks.next_if(|(_, (next, other))| next != other) {
            end += next.len();
        }
        let run = &bytes[first * BLOCK_BYTES..end];
        image.extend_from_slice(&((offset + first * BLOCK_BYTES) as u32).to_le_bytes());
        image.extend_from_slice(&(run.len() as u32).to_le_bytes());
        image.extend_from_slice(run);
    }
}

#[cfg(test)]
mod tests;
