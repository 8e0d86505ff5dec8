use super::*;
use proptest::prelude::*;

const SETTINGS: LogSettings =
    LogSettings { buffer_bytes: 100, flush_interval: Duration::from_millis(10), burst_bytes: 50 };

/// A disk in memory that does as it is told, and fails as it is told.
struct Disk {
    files: Vec<Vec<u8>>,
    done: Vec<WriteDone>,
}

impl Disk {
    fn new() -> Self {
        Self { files: vec![Vec::new()], done: Vec::new() }
    }

    /// Carries an action out, taking at most `most` bytes; `None` fails it.
    fn perform(&mut self, action: &Action, buffer: &[u8], most: Option<usize>) -> io::Result<Outcome> {
        let file = self.files.last_mut().unwrap();
        match action {
            Action::Write { offset, range, .. } => {
                let bytes = range.len().min(most.ok_or(io::ErrorKind::StorageFull)?);
                let (start, bytes) = (*offset as usize, &buffer[range.start..range.start + bytes]);
                file.resize(file.len().max(start + bytes.len()), 0);
                file[start..start + bytes.len()].copy_from_slice(bytes);
                Ok(Outcome::Bytes(bytes.len()))
            }
            Action::Rotation { cut, .. } => {
                if let Some((_, bytes)) = cut {
                    file.truncate(*bytes as usize);
                }
                most.ok_or(io::ErrorKind::PermissionDenied)?;
                self.files.push(Vec::new());
                Ok(Outcome::File(tempfile::tempfile().unwrap()))
            }
            Action::Read { .. } => unreachable!("a log does not read"),
        }
    }
}

fn buffers(settings: LogSettings) -> Buffers {
    Buffers::new(tempfile::tempfile().unwrap(), 0, settings)
}

fn append(buffers: &mut Buffers, bytes: usize, value: u8) -> Result<u64, LogFullError> {
    buffers.append(Duration::ZERO, bytes, |room| room.fill(value))
}

#[test]
fn one_buffer_is_filled_while_the_other_is_written() {
    let (mut buffers, mut disk) = (buffers(SETTINGS), Disk::new());
    assert_eq!(append(&mut buffers, 60, 1), Ok(0));
    assert!(buffers.has_room() && buffers.is_full_for(60));
    let (action, buffer) = buffers.hand_over(&mut disk.done).unwrap();
    assert_eq!(append(&mut buffers, 60, 2), Ok(1));
    // Both are taken now, and another burst would not fit.
    assert!(!buffers.has_room());
    assert_eq!(append(&mut buffers, 60, 3), Err(LogFullError));
    assert!(buffers.hand_over(&mut disk.done).is_none());
    let result = disk.perform(&action, &buffer, Some(1000));
    assert!(buffers.on_finished(buffer, result, &mut disk.done).is_none());
    assert!(buffers.has_room());
    let [done] = &disk.done[..] else { panic!("{:?}", disk.done) };
    assert_eq!((done.first, done.written, done.lost), (0, 1, 0));
}

#[test]
fn a_record_waits_no_longer_than_the_flush_interval() {
    let (mut buffers, mut disk) = (buffers(SETTINGS), Disk::new());
    assert_eq!(buffers.flush_due(), None);
    buffers.append(Duration::from_millis(5), 1, |_| {}).unwrap();
    buffers.append(Duration::from_millis(9), 1, |_| {}).unwrap();
    assert_eq!(buffers.flush_due(), Some(Duration::from_millis(15)));
    assert!(!buffers.is_due(Duration::from_millis(14)) && buffers.is_due(Duration::from_millis(15)));
    assert!(buffers.hand_over(&mut disk.done).is_some());
    assert_eq!(buffers.flush_due(), None);
}

#[test]
fn what_is_given_up_is_told_as_lost() {
    let (mut buffers, mut disk) = (buffers(SETTINGS), Disk::new());
    append(&mut buffers, 60, 1).unwrap();
    let _under_way = buffers.hand_over(&mut disk.done).unwrap();
    append(&mut buffers, 60, 2).unwrap();
    buffers.give_up(&mut disk.done);
    let lost: Vec<_> = disk.done.iter().map(|done| (done.first, done.written, done.lost)).collect();
    assert_eq!(lost, [(0, 0, 1), (1, 0, 1)]);
    assert!(!buffers.is_busy() && buffers.has_room());
    assert_eq!(append(&mut buffers, 1, 3), Err(LogFullError));
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Rotation,
    HandOver,
    /// Finishes the action under way, for so many bytes at most; `None` fails.
    Finish(Option<usize>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1usize..40).prop_map(Step::Append),
        1 => Just(Step::Rotation),
        2 => Just(Step::HandOver),
        4 => prop::option::weighted(0.8, 1usize..200).prop_map(Step::Finish),
    ]
}

/// Each record is its length and its number over and over, so a file can be read without knowing what was
/// lost.
fn records(file: &[u8]) -> Option<Vec<u8>> {
    let (mut rest, mut numbers) = (file, Vec::new());
    while let [length, ..] = rest {
        let (record, behind) = rest.split_at_checked(*length as usize)?;
        let number = *record.last()?;
        if record.len() > 1 && record[1..].iter().any(|byte| *byte != number) {
            return None;
        }
        numbers.push(number);
        rest = behind;
    }
    Some(numbers)
}

proptest! {
    /// However the disk fails: every record is told of once, in order, and the files hold exactly those that
    /// are told as written, whole, in their order.
    #[test]
    fn what_is_told_is_what_is_in_the_files(steps in prop::collection::vec(step(), 1..200)) {
        let (mut buffers, mut disk) = (buffers(SETTINGS), Disk::new());
        let mut under_way: Option<(Action, Vec<u8>)> = None;
        let mut appended = 0u8;
        let finish = |buffers: &mut Buffers, disk: &mut Disk, under_way: &mut Option<(Action, Vec<u8>)>, most| {
            if let Some((action, buffer)) = under_way.take() {
                let result = disk.perform(&action, &buffer, most);
                *under_way = buffers.on_finished(buffer, result, &mut disk.done);
            }
        };
        for step in steps {
            match step {
                // A record of one byte would have no room for its number.
                Step::Append(bytes) if appended < 200 => {
                    let (length, number) = ((bytes + 1) as u8, appended + 1);
                    let taken = buffers.append(Duration::ZERO, bytes + 1, |room| {
                        room.fill(number);
                        room[0] = length;
                    });
                    appended += u8::from(taken.is_ok());
                }
                Step::Append(_) => {}
                // Refused while one is pending, which is no more than that.
                Step::Rotation => drop(buffers.rotate(Rotation { make: "next".into(), head: Vec::new(), remove: None })),
                Step::HandOver => {
                    let next = buffers.hand_over(&mut disk.done);
                    prop_assert!(next.is_none() || under_way.is_none());
                    under_way = under_way.or(next);
                }
                Step::Finish(most) => finish(&mut buffers, &mut disk, &mut under_way, most),
            }
        }
        while buffers.is_busy() {
            if under_way.is_none() {
                under_way = buffers.hand_over(&mut disk.done);
            }
            finish(&mut buffers, &mut disk, &mut under_way, Some(1000));
        }
        let mut told = 0;
        let mut written = Vec::new();
        for done in &disk.done {
            prop_assert!(done.first == told || done.written + done.lost == 0);
            prop_assert!(done.lost == 0 || done.error.is_some());
            written.extend((told + 1..=told + done.written).map(|number| number as u8));
            told += done.written + done.lost;
        }
        prop_assert_eq!(told, u64::from(appended));
        let last = disk.files.len() - 1;
        disk.files[last].truncate(buffers.offset as usize);
        let found: Option<Vec<Vec<u8>>> = disk.files.iter().map(|file| records(file)).collect();
        prop_assert_eq!(found.map(|files| files.concat()), Some(written));
    }
}
