//! The page in a browser: what it shows of a manager, at two sizes, light and dark.

mod common;

use std::process::{Command, Stdio};

use common::fake::{Fake, Manners, snapshot};
use common::{ADMIN, READER, Running, parted};
use headgate_api::status::{ClusterStatus, NodeStatus, OfferStatus, ServerStatus, SharedStageStatus};

/// Time for the page to be shown, in milliseconds. What it shows comes with its first two answers.
const SHOWN_MS: u32 = 3000;

/// Attempts to have the page shown, each longer than the one before, on a machine that is busy.
const ATTEMPTS: u32 = 4;

/// The page once it has such a word, or after all attempts; `None` where there is no browser.
fn shown(server: &Running, size: &str, link: &str, word: &str) -> Option<String> {
    let attempts = (1..=ATTEMPTS).map(|attempt| look(server, size, link, attempt * SHOWN_MS));
    let mut last = None;
    for page in attempts {
        let page = page?;
        let is_there = page.contains(word);
        last = Some(page);
        if is_there {
            break;
        }
    }
    last
}

/// The page after so many milliseconds of its own clock.
fn look(server: &Running, size: &str, link: &str, ms: u32) -> Option<String> {
    dumped(size, &format!("http://{}/#{link}", server.address), ms)
}

/// Any page, likewise.
fn dumped(size: &str, url: &str, ms: u32) -> Option<String> {
    let home = tempfile::tempdir().unwrap();
    let mut browser = Command::new("chromium");
    browser
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"])
        .arg(format!("--user-data-dir={}", home.path().display()))
        .arg(format!("--window-size={size}"))
        .arg(format!("--virtual-time-budget={ms}"))
        .arg(url)
        .env("HOME", home.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    match browser.output() {
        Ok(output) => Some(String::from_utf8(output.stdout).unwrap()),
        Err(error) => {
            eprintln!("skipped: chromium cannot be run: {error}");
            None
        }
    }
}

/// The text between two words.
fn between<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("no {start} in {text}"));
    rest.split_once(end).unwrap_or_else(|| panic!("no {end} behind {start}")).0
}

#[test]
fn the_page_shows_chains_queues_plots_and_events() {
    let fake = Fake::start(Manners::Good);
    fake.snapshot.lock().unwrap().nfs[0].message = Some("<script>alert(1)</script>".into());
    fake.snapshot.lock().unwrap().events[0].what = "<img src=x onerror=alert(1)>".into();
    let server = Running::of_api(fake.folder(), fake.socket());
    for (size, theme) in [("640,1000", "dark"), ("1600,1000", "light")] {
        let Some(page) = shown(&server, size, &format!("theme={theme}&token={READER}"), "<article") else {
            return;
        };
        assert!(page.contains(&format!("data-theme=\"{theme}\"")), "{page}");
        assert_eq!(between(&page, "id=\"link\" role=\"status\"", "</p>"), " class=\"live\">live");
        let chains = between(&page, "id=\"chains\"", "<section");
        assert_eq!(chains.matches("<article").count(), 3, "{chains}");
        let web = between(chains, ">web</button>", "</article>");
        for text in [
            ">fw<",
            ">monitor<",
            ">scan<",
            ">throttled<",
            ">sink<",
            "300 of 512 packets; marks at 200 and 400",
        ] {
            assert!(web.contains(text), "no {text} in {web}");
        }
        assert!(between(&page, "id=\"throughput\"", "</figure>").contains("<svg"));
        assert!(between(&page, "id=\"cpu\"", "</figure>").contains("<svg"));
        assert!(between(&page, "id=\"cdf\"", "</figure>").contains("<polyline"));
        let events = between(&page, "<ol id=\"events\"", "</ol>");
        assert_eq!(events.matches("<li").count(), 2, "{events}");
        assert!(events.contains("&lt;img src=x"), "{events}");
        assert!(!page.contains(READER));
    }
    assert!(!fake.was_changed());
}

/// Figures are of the time between two snapshots, and not of all the time since the start.
#[test]
fn a_service_time_is_of_the_interval() {
    let before = snapshot();
    let mut after = before.clone();
    after.at_ns += 1_000_000_000;
    let nf = &mut after.nfs[0];
    nf.service_time_ns_mean = Some(920.0);
    nf.service_time_packets += 1000;
    nf.service_time_sum_ns += 77_000;
    let frame = include_str!("../page/frame.js").replace("export ", "");
    let [before, after] = [before, after].map(|one| serde_json::to_string(&one).unwrap());
    let told = "chains[1].stages.map(([one]) => `${one.status.instance} ${one.service}`).join()";
    let script = format!(
        "{frame}\nconst {{ chains }} = frame({before}, {after});\ndocument.body.textContent = {told};"
    );
    let home = tempfile::tempdir().unwrap();
    let page = home.path().join("page.html");
    std::fs::write(&page, format!("<meta charset=\"utf-8\"><body><script>{script}</script>")).unwrap();
    let Some(shown) = dumped("1280,1000", &format!("file://{}", page.display()), SHOWN_MS) else { return };
    assert!(shown.contains("fw 77,monitor 500,scan 750"), "{shown}");
}

#[test]
fn nodes_that_share_an_nf_are_shown_with_their_prices() {
    let fake = Fake::start(Manners::Good);
    let node = |name: &str, alive, nfs| NodeStatus { name: name.into(), alive, nfs, ..NodeStatus::default() };
    let offer = OfferStatus { nf: "fw".into(), instances: 1, price: 0.9, ..OfferStatus::default() };
    let server = |node: &str, slots, cost: Option<f64>| ServerStatus {
        node: node.into(),
        alive: cost.is_some(),
        slots,
        cost,
        ..ServerStatus::default()
    };
    let stage = SharedStageStatus {
        chain: "web".into(),
        nf: "fw".into(),
        servers: vec![server("<b>", 96, Some(1.9)), server("c", 0, None)],
        ..SharedStageStatus::default()
    };
    fake.snapshot.lock().unwrap().cluster = Some(ClusterStatus {
        node: "a".into(),
        nodes: vec![node("a", true, vec![]), node("<b>", true, vec![offer]), node("c", false, vec![])],
        stages: vec![stage],
        ..ClusterStatus::default()
    });
    let api = Running::of_api(fake.folder(), fake.socket());
    for (size, theme) in [("640,1000", "dark"), ("1600,1000", "light")] {
        let Some(page) = shown(&api, size, &format!("theme={theme}&token={READER}"), "<article") else {
            return;
        };
        let nodes = between(&page, "<p id=\"nodes\"", "</p>");
        for text in ["<b>a</b> this one", "<b>&lt;b&gt;</b> alive", "fw <b>at 0.90</b>", "<b>c</b> lost"] {
            assert!(nodes.contains(text), "no {text} in {nodes}");
        }
        let shared = between(&page, ">web</button>", "</article>");
        assert!(shared.contains("fw: &lt;b&gt; 75 % at 1.90, c gone; "), "{shared}");
    }
}

/// A link may name a chain, and have the button that traces it pressed.
#[test]
fn a_chains_traces_are_shown_on_a_click() {
    let fake = Fake::start(Manners::Good);
    let server = Running::of_api(fake.folder(), fake.socket());
    for (size, theme) in [("640,1400", "light"), ("1600,1400", "dark")] {
        let link = format!("theme={theme}&chain=web&trace&token={READER}");
        let Some(page) = shown(&server, size, &link, "class=\"trace dropped\"") else { return };
        let traces = between(&page, "<div id=\"traces\"", "</section>");
        for text in [
            "udp 10.0.0.1:1 &gt; 10.0.1.1:2",
            "<td>deliver</td><td>fw</td>",
            "verdict next",
            "ip.dst: 10.0.1.1 → &lt;img src=x",
            "dropped at scan: nf-verdict",
        ] {
            assert!(traces.contains(text), "no {text} in {traces}");
        }
        assert_eq!(traces.matches("<rect class=\"c0\"").count(), 4, "{traces}");
        assert!(between(&page, "id=\"traced\"", "</p>").contains("1 packet, as many as came"), "{page}");
    }
    // A chain that the manager does not let be watched says why, as a filter does.
    let page = shown(&server, "1280,800", &format!("chain=-&trace&token={READER}"), "class=\"refused\"");
    let Some(page) = page else { return };
    assert!(between(&page, "id=\"traced\"", "</p>").contains("no such chain"), "{page}");
    let asked = format!("{:?}", fake.asked());
    assert!(asked.contains("chain: Some(\"web\"), filter: None, packets: 5"), "{asked}");
    assert!(!fake.was_changed());
}

#[test]
fn without_a_token_the_page_asks_for_one_and_shows_nothing() {
    let fake = Fake::start(Manners::Good);
    let server = Running::of_api(fake.folder(), fake.socket());
    for (link, notice) in [("", None), ("token=wrong-0123456789abcdef0123", Some("This token is not known."))]
    {
        let Some(page) = shown(&server, "1280,800", link, "<form id=\"enter\">") else { return };
        assert!(page.contains("<form id=\"enter\">"), "{page}");
        assert!(page.contains("<div id=\"view\" hidden"), "{page}");
        assert_eq!(notice.is_some(), !page.contains("role=\"alert\" hidden"), "{page}");
        assert!(notice.is_none_or(|notice| page.contains(notice)), "{page}");
    }
    assert!(fake.asked().is_empty());
}

#[test]
fn a_manager_that_is_gone_is_said_on_the_page() {
    let fake = Fake::start(Manners::Rude);
    let server = Running::of_api(fake.folder(), fake.socket());
    let Some(page) = shown(&server, "1280,800", &format!("token={ADMIN}"), "does not answer") else { return };
    assert!(page.contains("The manager does not answer."), "{page}");
}

/// The files are for everybody who reaches the server by its own name, and load nothing from elsewhere.
#[test]
fn the_files_need_no_token_and_hold_a_policy() {
    let fake = Fake::start(Manners::Good);
    let server = Running::of_api(fake.folder(), fake.socket());
    let page = server.get("/");
    assert_eq!(parted(&page).0, 200);
    assert!(page.contains("content-security-policy: default-src 'none'; script-src 'self';"), "{page}");
    assert!(page.contains("frame-ancestors 'none'") && page.contains("x-content-type-options: nosniff"));
    assert_eq!(parted(&server.get("/page/main.js")).0, 200);
    for path in ["/page/", "/page/..", "/page/%2e%2e/Cargo.toml", "/page/none.js"] {
        assert_ne!(parted(&server.get(path)).0, 200, "{path}");
    }
    let foreign = server.say(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_eq!(parted(&foreign).0, 403);
    assert!(fake.asked().is_empty());
}
