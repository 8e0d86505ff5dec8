use std::fs;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tempfile::TempDir;

use super::page;
use super::screen::Screen;
use super::steps::Steps;
use crate::commands::top::Glyphs;

const HEADER: &str = r#"{"headgate_record":1,"version":"0.1.0","configuration":"fnv1a64:0"}"#;
const RULES: &str = r#"{"begins":{"attaches":false,"greets":true,"start_patience":5,"stop_patience":2,"restart":{"first":1,"longest":2,"settled":3}}}"#;

fn line(at: u64, instance: u32, step: &str) -> String {
    format!("{{\"at\":{at},\"entry\":{{\"lifecycle\":{{\"instance\":{instance},\"step\":{step}}}}}}}\n")
}

/// Two life cycles that begin, one after the other, are added, and ask for a process.
fn record() -> String {
    let mut text = format!("{HEADER}\n");
    for (at, instance) in [(5_000_000_000, 3), (7_500_000_000, 4)] {
        for (more, step) in [(0, RULES), (1_000, r#"{"saw":"added"}"#), (1_000, r#"{"did":"spawn"}"#)] {
            text += &line(at + more, instance, step);
        }
    }
    text
}

fn opened(folder: &TempDir, text: &str) -> Result<Screen, String> {
    let path = folder.path().join("run.record");
    fs::write(&path, text).unwrap();
    let steps = Steps::open(&path).map_err(|error| error.to_string())?;
    Screen::new(steps, None).map_err(|error| error.to_string())
}

fn press(screen: &mut Screen, codes: &[KeyCode]) -> u64 {
    for code in codes {
        assert!(screen.on_key(KeyEvent::new(*code, KeyModifiers::NONE)).unwrap());
    }
    screen.steps.read(screen.at).unwrap().line
}

#[test]
fn steps_go_forwards_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut screen = opened(&folder, &(record() + "{\"end\":\"closed\"}\n")).unwrap();
    assert_eq!((screen.steps.len(), screen.steps.stopped.clone()), (6, None));
    let key = KeyCode::Char;
    assert_eq!(press(&mut screen, &[KeyCode::Right, KeyCode::Right]), 4);
    assert_eq!(press(&mut screen, &[KeyCode::Left]), 3);
    assert_eq!(press(&mut screen, &[key('a')]), 4);
    assert_eq!(press(&mut screen, &[key('a')]), 7);
    assert_eq!(press(&mut screen, &[key('b')]), 4);
    assert_eq!(press(&mut screen, &[key('n')]), 4);
    assert!(screen.message.is_some(), "there is no further step of it");
    assert_eq!(press(&mut screen, &[key('p'), KeyCode::Home]), 2);
    assert_eq!(press(&mut screen, &[KeyCode::End]), 7);
    // One decision alone.
    assert_eq!(press(&mut screen, &[key('f'), KeyCode::PageUp]), 5);
    assert_eq!(screen.steps_before(9).unwrap().len(), 1);
    assert!(!screen.on_key(KeyEvent::new(key('q'), KeyModifiers::NONE)).unwrap());
}

#[test]
fn a_moment_has_the_last_step_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut screen = opened(&folder, &(record() + "{\"end\":\"closed\"}\n")).unwrap();
    for (moment, line) in [(0, 2), (999, 2), (1_000, 4), (2_499_999_999, 4), (u64::MAX, 7)] {
        screen.go_to_moment(moment);
        assert_eq!(screen.steps.read(screen.at).unwrap().line, line, "{moment}");
    }
    let latest = screen.latest().unwrap();
    let kinds: Vec<&str> = latest.iter().map(|step| step.kind.as_str()).collect();
    assert_eq!(kinds, ["begins", "saw", "did"]);
    assert_eq!((latest[2].what.as_str(), latest[2].since_ns), (Some("spawn"), 2_500_001_000));
}

#[test]
fn every_width_and_height_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let screen = opened(&folder, &record()).unwrap();
    let glyphs = Glyphs::of_environment(false);
    for (width, height) in [(80, 24), (40, 10), (200, 60), (1, 1), (0, 0)] {
        let lines = page::lines(&screen, glyphs, width, height);
        assert!(
            lines.len() <= height.max(1) && lines.iter().all(|line| line.width() <= width.max(2)),
            "{lines:?}"
        );
    }
    let page: Vec<String> = page::lines(&screen, glyphs, 100, 30).iter().map(ToString::to_string).collect();
    let page = page.join("\n");
    for words in
        ["step 1 of 6", "the record was cut", "life cycle of instance 3", "\"greets\": true", "q quit"]
    {
        assert!(page.contains(words), "{words}: {page}");
    }
}

#[test]
fn what_cannot_be_read_is_said_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let whole = record();
    for (text, steps, words) in [
        (whole.clone(), 6, "ends with line 7 and without its last one"),
        (whole[..whole.len() - 3].to_owned(), 5, "line 7 is not whole"),
        (whole.clone() + "{}\n", 6, "line 8 is no step"),
    ] {
        let screen = opened(&folder, &text).unwrap();
        assert_eq!(screen.steps.len(), steps);
        let stopped = screen.steps.stopped.unwrap();
        assert!(stopped.contains(words), "{stopped}");
    }
    for (text, words) in [
        (String::new(), "is no record"),
        (format!("{HEADER}\n"), "there is no step in this record"),
        (format!("{HEADER}\n{{\"end\":\"closed\"}}\n"), "no decision was made"),
    ] {
        let why = opened(&folder, &text).unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}
