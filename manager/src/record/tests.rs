//! Records in memory: their contents, their gaps, and that they replay.

use super::memory::Memory;
use super::*;
use headgate_decide::liveness::{Action, Event, Limits, Liveness, ProcessSample, TaskState};
use headgate_decide::units::{InstanceId, Span};

fn watch(recorder: &Recorder) -> Recorded<Liveness> {
    let entry = |step| Entry::Liveness { instance: InstanceId(2), step };
    Recorded::new(recorder, Moment(0), Limits::default(), entry)
}

/// Watches a stopped NF until it is given up.
fn live(liveness: &mut Recorded<Liveness>) -> Vec<Action> {
    let stopped = ProcessSample { cpu: Span(0), state: TaskState::Stopped, disk_beat: Some(u64::MAX) };
    let mut said = Vec::new();
    for millis in 0..900 {
        let now = Moment(0) + Span::from_millis(millis);
        if !liveness.is_due(now) {
            continue;
        }
        let mut actions = Vec::new();
        liveness.poll(now, &(), &mut actions);
        while let Some(action) = actions.pop() {
            said.push(action);
            match action {
                Action::Count => {
                    liveness.on(now, Event::Counted { held: 1, progress: 0 }, &mut actions);
                }
                Action::SampleProcess => liveness.on(now, Event::Process(stopped), &mut actions),
                Action::GiveUp(_) => return said,
            }
        }
    }
    said
}

#[test]
fn a_record_has_all_that_a_decision_was_told_and_replays_to_what_it_did() {
    let file = Memory::default();
    let header = super::header(&["a configuration"]);
    let recording = file.record(&header, BYTES_MAX);
    let said = live(&mut watch(&recording.recorder()));
    drop(recording);
    assert_eq!(serde_json::from_str::<Header>(&file.lines()[0]).unwrap(), header);
    let did = |line: Line| match line.entry {
        Entry::Liveness { step: Step::Did(action), .. } => Some(action),
        _ => None,
    };
    let did: Vec<Action> = file.replayed().into_iter().filter_map(did).collect();
    assert_eq!(did, said);
    assert!(matches!(said.last(), Some(Action::GiveUp(_))), "{said:?}");
}

#[test]
fn a_full_record_says_so_and_nothing_more_is_put() {
    let file = Memory::default();
    let recording = file.record(&header(&()), 1_000);
    let recorder = recording.recorder();
    let mut liveness = watch(&recorder);
    live(&mut liveness);
    let began = std::time::Instant::now();
    while recorder.is_on() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!recorder.is_on());
    drop(recording);
    let lines = file.lines();
    assert_eq!(lines.last().unwrap(), r#"{"end":"full"}"#);
    assert!(lines.iter().map(String::len).sum::<usize>() < 1_100);
}

#[test]
fn what_finds_no_room_is_counted_where_it_is_missing() {
    // Nobody reads.
    let (lines, queued) = sync_channel(3);
    let recorder = Recorder {
        queue: Some(Arc::new(Queue { lines, open: AtomicBool::new(true) })),
        observers: Arc::default(),
    };
    let mut liveness = watch(&recorder);
    let said = live(&mut liveness);
    let kept: Vec<Line> = queued.try_iter().collect();
    assert!(kept.iter().all(|line| !matches!(line.entry, Entry::Lost(_))) && kept.len() == 3);
    liveness.on(Moment(1 << 40), Event::Begins, &mut Vec::new());
    let after: Vec<Line> = queued.try_iter().collect();
    let Entry::Lost(lost) = after[0].entry else { panic!("{after:?}") };
    assert!(lost >= said.len() as u64 && after.len() == 2, "{after:?}");
}

#[test]
fn off_nothing_is_made_and_decisions_are_the_same() {
    let mut off = watch(&Recorder::default());
    off.entry = Box::new(|_| panic!("an entry was made"));
    let said = live(&mut off);
    let recording = Memory::default().record(&header(&()), BYTES_MAX);
    assert_eq!(said, live(&mut watch(&recording.recorder())));
}

#[test]
fn a_record_that_cannot_be_written_says_why_and_stops_nothing() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // The header has room.
            if bytes.starts_with(b"{\"headgate_record\"") {
                Ok(bytes.len())
            } else {
                Err(io::ErrorKind::StorageFull.into())
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let recording = Recording::start(Box::new(Full), &header(&()), BYTES_MAX).unwrap();
    let recorder = recording.recorder();
    live(&mut watch(&recorder));
    let began = std::time::Instant::now();
    while recorder.is_on() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    match recording.finish() {
        Some(RecordStop::Failed(error)) => assert_eq!(error.kind(), io::ErrorKind::StorageFull),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_file_that_is_there_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.record");
    let recording = Recording::create(&path, &header(&())).unwrap();
    assert!(recording.finish().is_none());
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(Recording::create(&path, &header(&())), Err(RecordError::Exists { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let nowhere = folder.path().join("none/run.record");
    assert!(matches!(Recording::create(&nowhere, &header(&())), Err(RecordError::File { .. })));
}

#[test]
fn digests_tell_configurations_apart() {
    assert_eq!(digest(&"a"), digest(&"a"));
    assert_ne!(digest(&"a"), digest(&"b"));
    assert!(digest(&()).starts_with("fnv1a64:"));
}
