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
        assert_eq!(image.len(), HEAD_BYTES + RUN_HEAD_BYTES + BLOCK_BYTES, "one block is another: {offset}");
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
