use std::path::Path;
use std::time::Instant;

use headgate_api::status::{
    ChainStatus, ClusterStatus, DelayStatus, DropStatus, ManagerStatus, NfState, NfStatus, NodeStatus,
    OfferStatus, SchedulerStatus, ServerStatus, SharedStageStatus, Snapshot,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::Text;

use super::glyphs::Glyphs;
use super::page;
use super::screen::{Screen, Sort};
use crate::view::{Frame, Interval};

fn delay(p50_ns: u64, p99_ns: u64) -> Option<DelayStatus> {
    Some(DelayStatus { p50_ns, p99_ns })
}

/// An NF that has worked for `seconds`, with a queue that is full to this percentage.
fn nf(name: &str, instance: &str, seconds: u64, full: u64) -> NfStatus {
    NfStatus {
        nf: name.into(),
        instance: instance.into(),
        state: NfState::Running,
        pid: Some(7),
        core: 1,
        ring: 4096,
        held: 4096 * full / 100,
        high_watermark: Some(3276),
        low_watermark: Some(2457),
        delivered: 1_200_000 * seconds,
        returned: 1_100_000 * seconds,
        cpu_ns: 500_000_000 * seconds,
        core_wait_ns: Some(120_000_000 * seconds),
        wakeups: 12_345 * seconds,
        service_time_ns_mean: Some(361.4),
        share: Some(0.5),
        queueing: delay(40_000, 1_200_000),
        processing: delay(9_100, 30_000),
        ..NfStatus::default()
    }
}

fn chain(name: &str, stages: &[&str], packets: u64, dropped: u64) -> ChainStatus {
    ChainStatus {
        name: name.into(),
        stages: stages.iter().map(|&stage| stage.into()).collect(),
        out: "sink".into(),
        entered: packets,
        left: packets - dropped,
        dropped,
        delay: (packets > 0).then_some(DelayStatus { p50_ns: packets / 10, p99_ns: packets }),
        ..ChainStatus::default()
    }
}

/// A manager that has worked for `seconds`: a chain with an NF in each state, one that is well, one without
/// packets.
fn after(seconds: u64) -> Snapshot {
    let throttled = NfStatus {
        throttled: true,
        drops: [("throttled".to_owned(), 90_000 * seconds), ("nf-verdict".to_owned(), 1000 * seconds)].into(),
        ..nf("firewall", "firewall", seconds, 91)
    };
    let failed = NfStatus { state: NfState::Failed, pid: None, ..NfStatus::default() };
    let dropped = |reason: &str, count| DropStatus {
        chain: "web".into(),
        reason: reason.into(),
        count,
        ..DropStatus::default()
    };
    Snapshot {
        at_ns: seconds * 1_000_000_000,
        manager: ManagerStatus {
            name: "edge".into(),
            cpu_ns: 1_030_000_000 * seconds,
            ..ManagerStatus::default()
        },
        scheduler: SchedulerStatus { mode: "nfvnice".into(), ..SchedulerStatus::default() },
        nfs: vec![
            throttled,
            NfStatus { blocked: true, asleep: true, ..nf("monitor", "monitor.1", seconds, 0) },
            NfStatus { asleep: true, ..nf("monitor", "monitor.2", seconds, 7) },
            nf("router", "router", seconds, 66),
            NfStatus { nf: "log\u{1b}ger".into(), instance: "log\u{1b}ger".into(), ..failed },
        ],
        chains: vec![
            ChainStatus { name: "-".into(), ..ChainStatus::default() },
            chain(
                "web",
                &["firewall", "monitor", "router", "log\u{1b}ger"],
                1_200_000 * seconds,
                91_000 * seconds,
            ),
            chain("voice", &["router"], 50_000 * seconds, 0),
            chain("idle", &["router"], 0, 0),
        ],
        drops: vec![dropped("throttled", 90_000 * seconds), dropped("nf-verdict", 1000 * seconds)],
        ..Snapshot::default()
    }
}

/// The same where nodes share an NF: one serves most flows, one is lost.
fn among_nodes(seconds: u64) -> Snapshot {
    let node = |name: &str, alive, price: Option<f64>| NodeStatus {
        name: name.into(),
        alive,
        nfs: price
            .map(|price| OfferStatus { nf: "firewall".into(), instances: 1, price, ..OfferStatus::default() })
            .into_iter()
            .collect(),
        ..NodeStatus::default()
    };
    let server = |node: &str, slots, cost: Option<f64>| ServerStatus {
        node: node.into(),
        alive: cost.is_some(),
        slots,
        cost,
        ..ServerStatus::default()
    };
    let stage = SharedStageStatus {
        chain: "web".into(),
        nf: "firewall".into(),
        steered_rate: 1_200_000.0,
        servers: vec![server("a", 96, Some(1.2)), server("b\u{1b}", 32, Some(1.9)), server("c", 0, None)],
        ..SharedStageStatus::default()
    };
    let cluster = ClusterStatus {
        node: "a".into(),
        mode: "drench".into(),
        nodes: vec![node("a", true, Some(0.2)), node("b\u{1b}", true, Some(0.9)), node("c", false, None)],
        stages: vec![stage],
        ..ClusterStatus::default()
    };
    Snapshot { cluster: Some(cluster), ..after(seconds) }
}

/// A screen after some seconds.
fn screen() -> Screen {
    let mut screen = Screen::default();
    for second in 1..=4 {
        screen.take(Frame::of(Interval::between(&after(second - 1), &after(second))));
    }
    screen
}

/// The screen as a terminal of this size shows it.
fn shown(screen: &Screen, glyphs: Glyphs, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let lines = page::lines(screen, glyphs, width.into(), height.into());
    assert!(lines.len() <= height.into(), "{} lines", lines.len());
    terminal.draw(|frame| frame.render_widget(Text::from(lines), frame.area())).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| format!("{}\n", row(y).trim_end())).collect()
}

/// Compares with a committed file.
fn is_as_committed(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/top/tests").join(name);
    if std::env::var_os("HEADGATE_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == expected,
        "differs from {}; if it is better, run this test with HEADGATE_UPDATE_SNAPSHOTS=1:\n{text}",
        path.display()
    );
}

fn press(screen: &mut Screen, code: KeyCode) -> bool {
    screen.on_key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn a_screen_reads_well_in_every_size() {
    let glyphs = Glyphs::new(true, true);
    for (width, height) in [(80, 24), (120, 40), (40, 10)] {
        is_as_committed(&format!("{width}x{height}.txt"), &shown(&screen(), glyphs, width, height));
    }
}

#[test]
fn one_frame_as_text_has_every_chain_and_stage() {
    let lines = page::all(&screen(), Glyphs::new(false, false), 80);
    let text: String = lines.iter().map(|line| format!("{}\n", line.to_string().trim_end())).collect();
    is_as_committed("once.txt", &text);
    assert!(text.is_ascii() || text.contains('\u{fffd}'), "{text}");
    assert!(!text.contains('\u{1b}'), "a name must not command the terminal");
}

#[test]
fn nodes_that_share_an_nf_are_seen_with_their_prices() {
    let glyphs = Glyphs::new(true, true);
    let mut screen = Screen::default();
    screen.take(Frame::of(Interval::between(&among_nodes(1), &among_nodes(2))));
    is_as_committed("nodes-80x24.txt", &shown(&screen, glyphs, 80, 24));
    for (width, height) in [(1, 1), (40, 4), (56, 17), (200, 100)] {
        shown(&screen, glyphs, width, height);
    }
    let frame = serde_json::to_value(screen.frame.as_ref().unwrap()).unwrap();
    assert_eq!((&frame["node"], &frame["nodes"][1]["nfs"][0]["price"]), (&"a".into(), &0.9.into()));
    assert_eq!(frame["chains"][0]["shared"][0]["servers"][0]["slots"], 96);
}

/// No size may panic, and no screen has more lines than the terminal.
#[test]
fn any_size_is_drawn() {
    let mut screen = screen();
    let glyphs = Glyphs::new(true, false);
    for _ in 0..6 {
        for (width, height) in [(1, 1), (3, 2), (10, 3), (20, 60), (55, 17), (56, 17), (300, 5), (200, 100)] {
            shown(&screen, glyphs, width, height);
        }
        press(&mut screen, KeyCode::Right);
    }
    shown(&Screen::default(), glyphs, 80, 24);
}

#[test]
fn keys_pick_sort_scroll_pause_and_end() {
    let mut screen = screen();
    let names =
        |screen: &Screen| -> Vec<String> { screen.chains().iter().map(|chain| chain.name.clone()).collect() };
    assert_eq!(names(&screen), ["web", "voice", "idle"], "as in the file");
    for _ in 0..5 {
        press(&mut screen, KeyCode::Down);
    }
    assert_eq!(screen.picked.as_deref(), Some("idle"), "the last one stays picked");
    press(&mut screen, KeyCode::Up);
    assert_eq!(screen.picked.as_deref(), Some("voice"));
    press(&mut screen, KeyCode::PageUp);
    assert_eq!(screen.picked.as_deref(), Some("web"));
    press(&mut screen, KeyCode::Char('s'));
    assert_eq!(
        (screen.sort, names(&screen)),
        (Sort::Rate, vec!["web".into(), "voice".into(), "idle".into()])
    );
    (0..9).for_each(|_| assert!(press(&mut screen, KeyCode::Right)));
    assert_eq!(screen.scrolled, 4, "the last stage stays");
    press(&mut screen, KeyCode::Char(' '));
    screen.take(Frame::default());
    assert_eq!(names(&screen).len(), 3, "paused");
    assert!(shown(&screen, Glyphs::new(true, true), 80, 24).contains("PAUSED"));
    press(&mut screen, KeyCode::Char(' '));
    screen.take(Frame::default());
    assert!(names(&screen).is_empty());
    assert!(screen.on_key(KeyEvent::new(KeyCode::Char('x'), KeyModifiers::NONE)));
    assert!(!press(&mut screen, KeyCode::Char('q')));
    assert!(!screen.on_key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
}

#[test]
fn a_manager_that_does_not_answer_is_seen() {
    let mut screen = screen();
    screen.late_seconds = 7;
    assert!(shown(&screen, Glyphs::new(true, true), 40, 10).contains("no answer for 7 s"));
}

#[test]
fn without_colours_nothing_has_a_style() {
    for line in page::lines(&screen(), Glyphs::new(true, false), 80, 24) {
        assert!(line.spans.iter().all(|span| span.style == ratatui::style::Style::new()), "{line:?}");
    }
}

/// History is kept for what there is: chains that come and go leave nothing.
#[test]
fn history_forgets_what_is_gone() {
    let mut screen = screen();
    assert_eq!(screen.history.rates("web").count(), 4);
    assert_eq!(screen.history.queues("router").count(), 4, "once for each frame, not for each chain");
    screen.take(Frame::default());
    assert_eq!((screen.history.rates("web").count(), screen.history.queues("router").count()), (0, 0));
    for _ in 0..1000 {
        screen.take(Frame::of(Interval::between(&after(1), &after(2))));
    }
    assert_eq!(screen.history.rates("web").count(), 120);
}

/// Ten thousand chains: names are found by a table and not by searching, so that this ends at all in a test.
#[test]
fn ten_thousand_chains_are_one_frame() {
    let many = |seconds: u64| {
        let mut snapshot = after(seconds);
        let name = |number| format!("chain-{number}");
        snapshot.chains =
            (0..10_000).map(|number| chain(&name(number), &["router"], seconds * 10, 0)).collect();
        snapshot
    };
    let (before, after) = (many(1), many(2));
    let started = Instant::now();
    let mut screen = Screen { sort: Sort::Rate, ..Screen::default() };
    screen.take(Frame::of(Interval::between(&before, &after)));
    let text = shown(&screen, Glyphs::new(true, true), 80, 24);
    eprintln!("a frame of 10,000 chains took {} ms", started.elapsed().as_millis());
    assert!(text.contains("1-6 of 10000"), "{text}");
}
