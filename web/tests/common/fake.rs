//! A manager that answers as it is told to.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use headgate_api::event::{Event, EventCode};
use headgate_api::status::{
    ChainStatus, DelayStatus, DropStatus, HISTOGRAM_BOUNDS_NS, HistogramStatus, ManagerStatus, NfState,
    NfStatus, PortStatus, Snapshot, StageDelayStatus,
};
use headgate_api::watch::{
    CaptureRequest, Change, End, ObserveRequest, PacketTrace, Said, TraceRequest, TraceStep,
};
use headgate_api::{Request, RequestError};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

/// How it behaves.
#[derive(Clone, Debug)]
pub enum Manners {
    /// It answers.
    Good,
    /// It takes requests and answers none.
    Hung,
    /// It closes connections at once.
    Rude,
    /// It has too many clients, and refuses without hearing.
    Busy,
    /// It answers with this line.
    Says(&'static str),
}

/// A fake manager. Its threads end with the test.
pub struct Fake {
    folder: TempDir,
    manners: Arc<Mutex<Manners>>,
    asked: Arc<Mutex<Vec<Request>>>,
    pub snapshot: Arc<Mutex<Snapshot>>,
}

impl Fake {
    pub fn start(manners: Manners) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("fake.sock")).unwrap();
        let fake = Self {
            folder,
            manners: Arc::new(Mutex::new(manners)),
            asked: Arc::default(),
            snapshot: Arc::new(Mutex::new(snapshot())),
        };
        let (manners, asked, snapshot) = (fake.manners.clone(), fake.asked.clone(), fake.snapshot.clone());
        thread::spawn(move || {
            for client in listener.incoming() {
                let manners = manners.lock().unwrap().clone();
                let (asked, snapshot) = (asked.clone(), snapshot.clone());
                thread::spawn(move || converse(client.unwrap(), &manners, &asked, &snapshot));
            }
        });
        fake
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("fake.sock")
    }

    /// Folder for the server of a test.
    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub fn behave(&self, manners: Manners) {
        *self.manners.lock().unwrap() = manners;
    }

    /// What was asked so far.
    pub fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }

    /// Whether something other than views was asked.
    pub fn was_changed(&self) -> bool {
        let is_view = |asked: &Request| {
            use Request::{Cluster, Configuration, Explain, Flows, Logs, Observe, Rules, Snapshot, Trace};
            matches!(
                asked,
                Snapshot { .. }
                    | Flows { .. }
                    | Logs { .. }
                    | Explain { .. }
                    | Cluster
                    | Configuration
                    | Rules
                    | Trace(_)
                    | Observe(_)
            )
        };
        !self.asked().iter().all(is_view)
    }
}

fn converse(mut client: UnixStream, manners: &Manners, asked: &Mutex<Vec<Request>>, now: &Mutex<Snapshot>) {
    let mut line = String::new();
    match manners {
        Manners::Rude => return,
        Manners::Hung => {
            // Until the other side gives up.
            while BufReader::new(&client).read_line(&mut line).is_ok_and(|read| read > 0) {}
            return;
        }
        Manners::Busy => {
            let refusal = RequestError::failed("16 clients are being served; ask again".to_owned());
            let _ = client.write_all(format!("{}\n", json!({ "Err": refusal })).as_bytes());
            return;
        }
        Manners::Says(text) => {
            let _ = BufReader::new(&client).read_line(&mut line);
            let _ = client.write_all(text.as_bytes());
            return;
        }
        Manners::Good => {}
    }
    if BufReader::new(&client).read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let request: Request = serde_json::from_str(&line).unwrap();
    asked.lock().unwrap().push(request.clone());
    let answer = answer(&request, &now.lock().unwrap());
    // The other side may have given up.
    let _ = serde_json::to_writer(&client, &answer);
    let _ = client.write_all(b"\n");
    if request.is_stream() && answer.is_ok() {
        let _ = client.write_all(&stream(&request));
    }
}

/// What a manager says to one who watches.
fn stream(request: &Request) -> Vec<u8> {
    let line = |said: &Said| [serde_json::to_vec(said).unwrap(), b"\n".to_vec()].concat();
    let said = match request {
        Request::Capture(_) => [line(&Said::Bytes { count: 6 }), b"blocks".to_vec()].concat(),
        Request::Trace(_) => line(&Said::Trace(packet_trace())),
        _ => line(&Said::Event(event(7))),
    };
    [said, line(&Said::End(End { packets: 1, ..End::default() }))].concat()
}

/// The way of a packet that an NF rewrites and the next one drops.
fn packet_trace() -> PacketTrace {
    let step = |station: &str, at: Option<&str>, at_ns: u64| TraceStep {
        station: station.into(),
        at: at.map(str::to_owned),
        at_ns,
        took_ns: 1000,
        ..TraceStep::default()
    };
    let change = Change {
        field: "ip.dst".into(),
        before: Some("10.0.1.1".into()),
        after: Some("<img src=x onerror=alert(1)>".into()),
    };
    let hop =
        TraceStep { verdict: Some("next".into()), changes: vec![change], ..step("hop", Some("fw"), 3000) };
    PacketTrace {
        packet: "udp 10.0.0.1:1 > 10.0.1.1:2".into(),
        chain: Some("web".into()),
        steps: vec![
            step("arrive", None, 0),
            step("deliver", Some("fw"), 2000),
            hop,
            step("drop", None, 9000),
        ],
        end: "dropped".into(),
        sentence: "dropped at scan: nf-verdict: an NF decided to drop it".into(),
        ..PacketTrace::default()
    }
}

fn answer(request: &Request, now: &Snapshot) -> Result<Json, RequestError> {
    let known = |nf: &str| {
        let is_there = now.nfs.iter().any(|one| one.nf == nf || one.instance == nf);
        if is_there { Ok(()) } else { Err(RequestError::failed(format!("there is no NF named {nf:?}"))) }
    };
    match request {
        Request::Snapshot { audit } => {
            Ok(json!(Snapshot { conserved: audit.then_some(true), ..now.clone() }))
        }
        Request::Cluster => Ok(json!(now.cluster)),
        Request::Flows { most } => {
            let flow = json!({ "flow": "udp 10.0.0.1:1 > 10.0.1.1:2", "chain": "web", "idle_ns": 7 });
            Ok(vec![flow; 3.min(*most)].into())
        }
        Request::Explain { packet } if packet.contains(" > ") => {
            Ok(json!({ "packet": packet, "chain": "web", "stages": [] }))
        }
        Request::Explain { packet } => Err(RequestError::failed(format!("`{packet}` describes no packet"))),
        Request::Logs { nf, .. } => known(nf).map(|()| {
            let line = json!({ "number": 3, "at_ns": 5, "instance": nf, "text": "hello" });
            json!({ "lines": [line], "next": 4 })
        }),
        Request::Tell { nf, body } => known(nf).map(
            |()| json!({ "told": 1, "answers": [{ "instance": nf, "answered": format!("did {body}") }] }),
        ),
        Request::Apply { text, .. } if text == "good" => Ok(json!({ "changes": ["nf fw: added"] })),
        Request::Apply { name, .. } => {
            Err(RequestError { code: 4, message: format!("{name}:1:1: expected a table") })
        }
        Request::Measure { .. } | Request::HandOver { .. } | Request::NotFollowed { .. } => Ok(Json::Null),
        Request::FailOver { .. } | Request::Migrate { .. } | Request::Warn { .. } => {
            Ok(json!({ "changes": ["another node is active"] }))
        }
        Request::Upgrade { .. } => Ok(json!({ "pid": 42 })),
        Request::Diff { .. } => Ok(json!({ "changes": ["nothing to change"] })),
        Request::Configuration => {
            Ok(json!({ "name": "edge.toml", "text": "", "secrets_left_out": 0, "edited": false }))
        }
        Request::Rules => {
            let rule = json!({ "place": 1, "matches": "tcp", "chain": "web", "flows": 3 });
            Ok(json!({ "rules": [rule], "unmatched_packets": 2 }))
        }
        Request::AddRule { rule, place } => {
            Ok(json!({ "changes": [format!("rule {} added: {rule}", place.unwrap_or(2))] }))
        }
        Request::DeleteRule { place: 1 } => Ok(json!({ "changes": ["rule 1 removed"] })),
        Request::DeleteRule { place } => {
            Err(RequestError { code: 4, message: format!("there is no rule {place}; there is one, 1") })
        }
        Request::Restart { nf } | Request::Drain { nf } => {
            known(nf).map(|()| json!({ "changes": [format!("nf {nf}")] }))
        }
        Request::Capture(CaptureRequest { chain, .. })
        | Request::Trace(TraceRequest { chain, .. })
        | Request::Observe(ObserveRequest { chain, .. })
            if chain.as_deref().is_none_or(|chain| chain == "web") =>
        {
            Ok(Json::Null)
        }
        Request::Capture(_) | Request::Trace(_) | Request::Observe(_) => {
            Err(RequestError::failed("there is no such chain to watch".to_owned()))
        }
        Request::Stop => {
            // As long as a client that asks for nothing else takes to see it.
            thread::sleep(Duration::from_millis(1));
            Ok(json!(now))
        }
    }
}

/// An event that is told at this time.
pub fn event(at_ns: u64) -> Event {
    Event::new(at_ns, EventCode::NfReady, "fw", format!("ready at {at_ns}"))
}

/// A manager of two chains.
pub fn snapshot() -> Snapshot {
    let nf = |name: &str, at: u64| NfStatus {
        nf: name.into(),
        instance: name.into(),
        runs: "forward".into(),
        state: NfState::Running,
        pid: Some(42),
        core: 1,
        delivered: 1000 * at,
        returned: 990 * at,
        held: 100 * at,
        ring: 512,
        high_watermark: Some(400),
        low_watermark: Some(200),
        throttled: at == 3,
        share: Some(0.3),
        cpu_ns: 1_000_000 * at,
        service_time_ns_mean: Some(250.0 * at as f64),
        drops: [("throttled".to_owned(), 5 * at)].into(),
        ..NfStatus::default()
    };
    let histogram = HistogramStatus { counts: vec![1; HISTOGRAM_BOUNDS_NS.len() + 1], sum_ns: 1_000_000 };
    let chain = |name: &str, stages: &[&str]| ChainStatus {
        name: name.into(),
        stages: stages.iter().map(|stage| (*stage).to_owned()).collect(),
        out: "sink".into(),
        entered: 5000,
        left: 4000,
        dropped: 900,
        delay: Some(DelayStatus { p50_ns: 20_000, p99_ns: 900_000 }),
        delay_histogram: Some(histogram.clone()),
        stage_delays: stages
            .iter()
            .map(|stage| StageDelayStatus { stage: (*stage).to_owned(), ..StageDelayStatus::default() })
            .collect(),
        ..ChainStatus::default()
    };
    let manager =
        ManagerStatus { name: "fake".into(), pid: 41, version: "0.1.0".into(), ..Default::default() };
    let port =
        PortStatus { name: "source".into(), kind: "generator".into(), received: 5000, ..Default::default() };
    let drops = DropStatus {
        chain: "web".into(),
        reason: "throttled".into(),
        sentence: "shed at the head of the chain".into(),
        count: 900,
    };
    Snapshot {
        at_ns: 10_000_000_000,
        manager,
        ports: vec![port],
        nfs: vec![nf("fw", 1), nf("monitor", 2), nf("scan", 3)],
        chains: vec![chain("-", &[]), chain("web", &["fw", "monitor", "scan"]), chain("voice", &["fw"])],
        drops: vec![drops],
        events: vec![event(1_000_000), event(2_000_000)],
        ..Snapshot::default()
    }
}
