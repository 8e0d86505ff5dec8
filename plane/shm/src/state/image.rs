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

/// Takes the image of a region with `bytes` for pieces, of which nothing is to be undone: all that is not zero.
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

    /// Makes an empty one that no process is to be given before it was [reserved](Self::reserve): it takes memory
    /// as it is written.
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

    /// Takes the image of a region of the same size, of which nothing is to be undone: all that is not as here.
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
mod tests {
    use super::super::{ReplaceError, StateRegion, Wanted};
    use super::*;

    const BYTES: u64 = 1 << 20;
    const WANTED: Wanted = Wanted { name: 7, schema: 9, bytes: 600_000 };

    fn twin() -> Twin {
        Twin::new("nf", BYTES, false).unwrap()
    }

    fn from_image(has_standby: bool, image: &[u8]) -> Result<Memory, ImageError> {
        let mut twin = Twin::new("nf", BYTES, has_standby).unwrap();
        twin.apply(image).map(|()| twin.into_memory())
    }

    fn region(memory: &Memory) -> StateRegion {
        let other = Memory::attach("nf", memory.duplicate_file().unwrap(), memory.bytes(), true).unwrap();
        StateRegion::attach(other, BYTES, 5).unwrap().0
    }

    #[test]
    fn a_region_goes_on_elsewhere_with_what_it_had() {
        let memory = create("nf", BYTES).unwrap();
        let here = region(&memory);
        let piece = here.piece(WANTED).unwrap();
        here.begin(5);
        here.save(piece.base, 16);
        // SAFETY: inside the piece.
        unsafe {
            piece.base.add(8).write(1);
            piece.base.add(599_999).write(2);
        }
        let image = image(memory.file(), BYTES).unwrap();
        assert!(image.len() < 8192, "what is zero is left out: {}", image.len());
        assert!(image.len() as u64 <= image_bytes_max(BYTES));
        for has_standby in [false, true] {
            let there = from_image(has_standby, &image).unwrap();
            let copy = region(&there);
            let piece = copy.known_piece(WANTED).unwrap();
            // SAFETY: inside the piece. Its burst counts as returned: nothing is undone.
            assert_eq!(unsafe { (piece.base.add(8).read(), piece.base.add(599_999).read()) }, (1, 2));
        }
    }

    #[test]
    fn a_twin_follows_a_region_by_what_differs() {
        let memory = create("nf", BYTES).unwrap();
        let write = |offset: usize, byte: u8| {
            let at = (PIECES_OFFSET + offset) as u64;
            assert_eq!(rustix::io::pwrite(memory.file(), &[byte], at).unwrap(), 1);
        };
        let (mut ours, mut theirs) = (Twin::unreserved("nf", BYTES, false).unwrap(), twin());
        let far = BYTES as usize - 1;
        for (offset, byte) in [(0, 1), (far, 2), (300_000, 3), (64, 4), (0, 0), (far, 9)] {
            write(offset, byte);
            let image = ours.difference(memory.file()).unwrap();
            assert_eq!(
                image.len(),
                HEAD_BYTES + RUN_HEAD_BYTES + BLOCK_BYTES,
                "one block is another: {offset}"
            );
            ours.apply(&image).unwrap();
            theirs.apply(&image).unwrap();
        }
        assert!(theirs.apply(b"hgimage1").is_err(), "what is none changes nothing");
        assert_eq!(ours.difference(memory.file()).unwrap().len(), HEAD_BYTES, "nothing differs");
        assert_eq!(theirs.difference(memory.file()).unwrap().len(), HEAD_BYTES);
        assert_eq!(theirs.image().unwrap(), image(memory.file(), BYTES).unwrap());
        theirs.clear().unwrap();
        assert_eq!(theirs.image().unwrap().len(), HEAD_BYTES);
        theirs.apply(&ours.image().unwrap()).unwrap();
        assert_eq!(theirs.difference(memory.file()).unwrap().len(), HEAD_BYTES);
        // An NF that gives its pages back has zeros there.
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(memory.file(), flags, 0, memory.bytes() as u64).unwrap();
        theirs.apply(&theirs.difference(memory.file()).unwrap()).unwrap();
        assert_eq!(image(theirs.into_memory().file(), BYTES).unwrap().len(), HEAD_BYTES);
    }

    #[test]
    fn the_log_does_not_differ() {
        let memory = create("nf", BYTES).unwrap();
        let here = region(&memory);
        here.piece(WANTED).unwrap();
        let mut twin = twin();
        twin.apply(&image(memory.file(), BYTES).unwrap()).unwrap();
        let length = twin.difference(memory.file()).unwrap().len();
        here.begin(77);
        assert!(twin.difference(memory.file()).unwrap().len() <= length + RUN_HEAD_BYTES + BLOCK_BYTES);
        assert_eq!(length, HEAD_BYTES);
    }

    #[test]
    fn a_process_goes_on_with_another_region_in_the_place_of_its_own() {
        let (ours, theirs) = (create("nf", BYTES).unwrap(), create("nf", BYTES).unwrap());
        let (here, there) = (region(&ours), region(&theirs));
        let (piece, other) = (here.piece(WANTED).unwrap(), there.piece(WANTED).unwrap());
        there.begin(9);
        // SAFETY: inside the pieces, of which nobody has a reference.
        unsafe {
            piece.base.write(1);
            other.base.write(2);
        }
        let image = image(theirs.file(), BYTES).unwrap();
        let copy = || from_image(false, &image).unwrap();
        let lacks = Wanted { name: 8, ..WANTED };
        // SAFETY: as above.
        unsafe {
            let refused = here.replace(copy(), &[(WANTED, piece.base), (lacks, piece.base)]);
            assert!(matches!(refused, Err(ReplaceError::OtherPieces)), "{refused:?}");
            let moved = here.replace(copy(), &[(WANTED, piece.base.add(64))]);
            assert!(matches!(moved, Err(ReplaceError::OtherPieces)), "{moved:?}");
            assert_eq!(piece.base.read(), 1, "it goes on as before");
            let empty = here.replace(create("nf", BYTES).unwrap(), &[(WANTED, piece.base)]);
            assert!(matches!(empty, Err(ReplaceError::Forged(_))), "{empty:?}");
            here.replace(copy(), &[(WANTED, piece.base)]).unwrap();
            assert_eq!((piece.base.read(), here.edition()), (2, there.edition()));
        }
        // What it changes from here on is undone there.
        here.begin(7);
        here.save(piece.base, 16);
        // SAFETY: as above.
        unsafe { piece.base.write(3) };
        assert_eq!(here.undo(7, None), Ok(1));
        // SAFETY: as above.
        assert_eq!(unsafe { piece.base.read() }, 2);
    }

    #[test]
    fn a_region_that_nobody_used_is_empty_elsewhere() {
        let image = image(create("nf", BYTES).unwrap().file(), BYTES).unwrap();
        assert_eq!(image.len(), HEAD_BYTES);
        let there = from_image(false, &image).unwrap();
        assert!(region(&there).known_piece(WANTED).is_none());
    }

    #[test]
    fn an_image_that_cannot_be_is_refused() {
        let refused = |image: &[u8]| from_image(false, image).map(drop).unwrap_err().to_string();
        let run = |offset: usize, bytes: &[u8]| {
            let head = [MAGIC.to_le_bytes(), BYTES.to_le_bytes()].concat();
            [&head, &(offset as u32).to_le_bytes()[..], &(bytes.len() as u32).to_le_bytes(), bytes].concat()
        };
        let end = PIECES_OFFSET + BYTES as usize;
        assert!(from_image(false, &run(end - 4, &[1; 4])).is_ok());
        let whole = run(0, &[1; 8]);
        for image in [
            &[][..],
            b"hgimage0",
            &whole[..12],
            &whole[..20],
            &whole[..whole.len() - 1],
            &run(end - 4, &[1; 5]),
            &run(usize::MAX, &[1; 4]),
            &run(LOG[0], &[1; 4]),
            &run(0, &[1; 100]),
        ] {
            assert!(refused(image).contains("no image"), "{image:?}");
        }
        let other = Twin::new("nf", BYTES * 2, false).unwrap().apply(&whole).unwrap_err();
        assert!(matches!(other, ImageError::Size { has: BYTES, .. }), "{other}");
    }
}
