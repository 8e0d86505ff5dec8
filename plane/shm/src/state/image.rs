//! Image of a state region: its bytes as another node needs them, without what is zero and without the log.
//!
//! It is taken while the instance has no packet, so there is nothing to undo. What the region holds is not
//! believed here, nor is the image where it comes to: the process that attaches it checks what it finds.
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

use super::{Header, PIECES_OFFSET, STATE_BYTES_MAX, STATE_BYTES_MIN, create, create_for_standby};
use crate::memory::{Memory, MemoryError};

/// First word of an image: a name, and the version of this layout and of that of regions.
const MAGIC: u64 = u64::from_le_bytes(*b"hgimage1");
const HEAD_BYTES: usize = 16;
const RUN_HEAD_BYTES: usize = 8;
/// Zero bytes are left out in blocks of so many. Our choice: an entry or two, so that a table with few of
/// them costs what they take; eight times what a run's head takes.
const BLOCK_BYTES: usize = 64;
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
    /// The kernel refuses the memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Returns the most bytes that an image of a region with `bytes` for pieces can have.
#[must_use]
pub const fn image_bytes_max(bytes: u64) -> u64 {
    let all = PIECES_OFFSET as u64 + bytes;
    HEAD_BYTES as u64 + all + all.div_ceil(BLOCK_BYTES as u64) * RUN_HEAD_BYTES as u64
}

/// Takes the image of a region with `bytes` for pieces, of which nothing is to be undone.
///
/// # Errors
/// The kernel's, when the file is none of a region.
pub fn image(region: BorrowedFd<'_>, bytes: u64) -> io::Result<Vec<u8>> {
    let end = PIECES_OFFSET + bytes as usize;
    let mut image = [MAGIC.to_le_bytes(), bytes.to_le_bytes()].concat();
    let (mut at, mut room) = (0, Vec::new());
    while let Some((from, to)) = written(region, at, end)? {
        room.resize(to - from, 0);
        let read = read_at(region, &mut room, from)?;
        if from < LOG[1] && LOG[0] < from + read {
            room[LOG[0].max(from) - from..(LOG[1] - from).min(read)].fill(0);
        }
        add_runs(&mut image, &room[..read], from);
        at = to;
    }
    Ok(image)
}

/// Makes a region of an image.
///
/// # Errors
/// [`ImageError`].
pub fn from_image(name: &str, bytes: u64, has_standby: bool, image: &[u8]) -> Result<Memory, ImageError> {
    let word = |at: usize| image.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    if word(0) != Some(MAGIC) {
        return Err(ImageError::Malformed);
    }
    match word(8) {
        Some(has) if has == bytes && (STATE_BYTES_MIN..=STATE_BYTES_MAX).contains(&bytes) => {}
        Some(has) => return Err(ImageError::Size { has, wanted: bytes }),
        None => return Err(ImageError::Malformed),
    }
    let make = if has_standby { create_for_standby } else { create };
    let memory = make(name, bytes)?;
    let (mut rest, end) = (&image[HEAD_BYTES..], PIECES_OFFSET + bytes as usize);
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
        // SAFETY: the memory is ours alone, and the run lies in it.
        unsafe { memory.base().as_ptr().add(offset).copy_from_nonoverlapping(run.as_ptr(), length) };
        rest = behind;
    }
    Ok(memory)
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

/// Appends what of these bytes is not zero, as runs.
fn add_runs(image: &mut Vec<u8>, bytes: &[u8], offset: usize) {
    let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
    let mut blocks = bytes.chunks(BLOCK_BYTES).enumerate().peekable();
    while let Some((first, block)) = blocks.next() {
        if is_zero(block) {
            continue;
        }
        let mut end = first * BLOCK_BYTES + block.len();
        while let Some((_, next)) = blocks.next_if(|(_, next)| !is_zero(next)) {
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
    use super::super::{StateRegion, Wanted};
    use super::*;

    const BYTES: u64 = 1 << 20;
    const WANTED: Wanted = Wanted { name: 7, schema: 9, bytes: 600_000 };

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
            let there = from_image("nf", BYTES, has_standby, &image).unwrap();
            let copy = region(&there);
            let piece = copy.known_piece(WANTED).unwrap();
            // SAFETY: inside the piece. Its burst counts as returned: nothing is undone.
            assert_eq!(unsafe { (piece.base.add(8).read(), piece.base.add(599_999).read()) }, (1, 2));
        }
    }

    #[test]
    fn a_region_that_nobody_used_is_empty_elsewhere() {
        let image = image(create("nf", BYTES).unwrap().file(), BYTES).unwrap();
        assert_eq!(image.len(), HEAD_BYTES);
        let there = from_image("nf", BYTES, false, &image).unwrap();
        assert!(region(&there).known_piece(WANTED).is_none());
    }

    #[test]
    fn an_image_that_cannot_be_is_refused() {
        let refused = |image: &[u8]| from_image("nf", BYTES, false, image).map(drop).unwrap_err().to_string();
        let run = |offset: usize, bytes: &[u8]| {
            let head = [MAGIC.to_le_bytes(), BYTES.to_le_bytes()].concat();
            [&head, &(offset as u32).to_le_bytes()[..], &(bytes.len() as u32).to_le_bytes(), bytes].concat()
        };
        let end = PIECES_OFFSET + BYTES as usize;
        assert!(from_image("nf", BYTES, false, &run(end - 4, &[1; 4])).is_ok());
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
        let other = from_image("nf", BYTES * 2, false, &whole).map(drop).unwrap_err();
        assert!(matches!(other, ImageError::Size { has: BYTES, .. }), "{other}");
    }
}
