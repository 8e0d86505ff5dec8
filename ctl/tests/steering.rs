//! Nodes that share an NF: connections over a lab of three nodes stay whole while flows are steered by
//! prices, and go on when a node dies.

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use common::{Observing, Running, daemon, eventually, headgate, is_root, name_of, run, signal};
use headgate_host::namespace::{Namespace, named};
use rustix::process::Signal;
use serde_json::Value as Json;

const WEST: &str = "192.0.2.10";
const EAST: &str = "192.0.2.11";
/// Bytes each way of one exchange.
const BYTES: usize = 1 << 16;
/// Longest wait for bytes of a connection whose node was killed.
const PATIENT: Duration = Duration::from_secs(60);

/// Packets enter and leave at a; b and c share the firewall, and b works on others beside it.
fn text(name: &str, mode: &str) -> String {
    let link = |number: u8, [one, other]: [&str; 2]| {
        format!(
            "[[link]]\nnodes = [\"{one}\", \"{other}\"]\ninterfaces = [\"{one}{other}\", \"{other}{one}\"]\n\
             addresses = [\"10.9.{number}.1/30\", \"10.9.{number}.2/30\"]\n\
             bfd = {{ interval = \"200ms\", multiplier = 5 }}\n"
        )
    };
    let links = [link(0, ["a", "b"]), link(1, ["a", "c"])].concat();
    let head = format!(
        r#"
[manager]
name = "{name}"
idle = "yield"
[memory]
buffers = 8192
hugepages = "never"
[flows]
idle_timeout = "5m"
[steering]
mode = "{mode}"
period = "500ms"
beat = "200ms"
[[node]]
name = "a"
[[node]]
name = "b"
[[node]]
name = "c"
{links}
"#
    );
    head + WORK
}

/// What the nodes do.
const WORK: &str = r#"
[[port]]
name = "west"
node = "a"
interface = "west"
[[port]]
name = "east"
node = "a"
interface = "east"
[[nf]]
name = "fw"
nodes = ["b", "c"]
run = "firewall"
core = 1
args = { default = "allow", rules = [{ action = "deny", protocol = "udp", destination_port = 99 }] }
[[nf]]
name = "burn"
node = "b"
run = "synthetic"
core = 1
args = { cycles = 400000 }
[[chain]]
name = "burnt"
stages = ["burn"]
out = "east"
[[chain]]
name = "out"
stages = ["fw"]
out = "east"
[[chain]]
name = "back"
stages = ["fw"]
out = "west"
[[rule]]
in = "west"
protocol = "udp"
destination_port = 9
chain = "burnt"
[[rule]]
in = "west"
chain = "out"
[[rule]]
in = "east"
chain = "back"
"#;

/// A lab that runs.
struct Lab {
    folder: tempfile::TempDir,
    name: String,
    running: Running,
    lines: BufReader<ChildStdout>,
    /// The hosts west and east.
    hosts: [Namespace; 2],
}

impl Lab {
    /// Starts one and waits until both nodes serve; `None` without root, which is said.
    fn start(test: &str, mode: &str) -> Option<Self> {
        if !is_root() {
            eprintln!("skipped: network namespaces take root");
            return None;
        }
        let name = name_of(test);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.toml");
        fs::write(&path, text(&name, mode)).unwrap();
        let mut command = headgate(folder.path(), &["--json", "lab", path.to_str().unwrap()]);
        command.stderr(Stdio::inherit());
        let mut running = Running::start(command);
        let mut lines = BufReader::new(running.0.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let told: Json = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(told["hosts"][0]["address"], WEST);
        let hosts = ["a-west", "a-east"].map(|at| named::open(&format!("{name}-{at}")).unwrap());
        let lab = Self { folder, name, running, lines, hosts };
        lab.wait_for_servers(["b", "c"]);
        Some(lab)
    }

    fn json(&self, node: &str, words: &[&str]) -> Json {
        let name = format!("{}-{node}", self.name);
        let (_, data, _) = run(self.folder.path(), &[&["--json"], words, &["--name", &name]].concat());
        serde_json::from_str(&data).unwrap_or_default()
    }

    /// Waits until these nodes get flows of both chains, and no others.
    fn wait_for_servers<const COUNT: usize>(&self, wanted: [&str; COUNT]) {
        eventually(&format!("{wanted:?} serve"), || {
            let stages = self.stages();
            stages.len() == 2 && stages.iter().all(|stage| alive(stage) == wanted)
        });
    }

    fn stages(&self) -> Vec<Json> {
        self.json("a", &["cluster", "status"])["stages"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the slots of chain "out" whose new flows go to a node.
    fn slots(&self, node: &str) -> u64 {
        let stages = self.stages();
        let Some(out) = stages.iter().find(|stage| stage["chain"] == "out") else { return 0 };
        let servers = out["servers"].as_array().unwrap();
        servers.iter().find(|server| server["node"] == node).unwrap()["slots"].as_u64().unwrap()
    }

    /// Returns the node that serves a connection's packets eastward.
    fn node_of(&self, connection: &Connection) -> String {
        let [from, to] = connection.ports();
        let packet = format!("tcp {WEST}:{from} > {EAST}:{to} in west");
        let path = self.json("a", &["cluster", "path", &packet]);
        path["stages"][0]["node"].as_str().unwrap_or_else(|| panic!("{path:#}")).to_owned()
    }

    /// Opens a connection from west to east.
    fn connect(&self, listener: &TcpListener) -> Connection {
        let to = listener.local_addr().unwrap();
        let connect = || TcpStream::connect_timeout(&to, PATIENT).unwrap();
        let client = self.hosts[0].run(connect).unwrap();
        let (server, _) = listener.accept().unwrap();
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(PATIENT)).unwrap();
        }
        Connection { client, server }
    }

    fn listen(&self) -> TcpListener {
        self.hosts[1].run(|| TcpListener::bind((EAST, 0))).unwrap().unwrap()
    }

    /// Sends packets that b has to work on, until what is returned is dropped.
    fn load_b(&self) -> Load {
        let socket = self.hosts[0].run(|| UdpSocket::bind((WEST, 0))).unwrap().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let thread = thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                for _ in 0..4 {
                    // A full queue is as good.
                    let _ = socket.send_to(b"work", (EAST, 9));
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        Load { is_over, thread: Some(thread) }
    }

    /// Waits until nothing is under way, and checks the accounts of nodes.
    fn check_accounts(&self, nodes: &[&str]) {
        eventually("nothing is under way, and accounts hold", || {
            nodes.iter().all(|node| {
                let status = self.json(node, &["status"]);
                let chains = status["chains"].as_array().cloned().unwrap_or_default();
                let count = |chain: &Json, key: &str| chain[key].as_u64().unwrap_or(0);
                let idle =
                    |chain: &Json| count(chain, "entered") == count(chain, "left") + count(chain, "dropped");
                !chains.is_empty() && status["conserved"] == true && chains.iter().all(idle)
            })
        });
    }

    /// Ends it, and checks that it ended well.
    fn end(mut self) {
        self.running.signal(Signal::INT);
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        assert_eq!(self.running.0.wait().unwrap().code(), Some(0), "{rest}");
    }
}

fn alive(stage: &Json) -> Vec<String> {
    let servers = stage["servers"].as_array().cloned().unwrap_or_default();
    let living = servers.iter().filter(|server| server["alive"] == true);
    living.map(|server| server["node"].as_str().unwrap().to_owned()).collect()
}

/// Packets for b that go on until it is dropped.
struct Load {
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A connection between the hosts.
struct Connection {
    client: TcpStream,
    server: TcpStream,
}

impl Connection {
    fn ports(&self) -> [u16; 2] {
        [self.client.local_addr().unwrap().port(), self.client.peer_addr().unwrap().port()]
    }

    /// Sends bytes both ways, and checks that they come as they were sent.
    fn exchange(&mut self, seed: u32) {
        let pattern = |seed: u32| -> Vec<u8> {
            let byte = |at: u32| (at.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 24) as u8;
            (0..BYTES as u32).map(byte).collect()
        };
        let (tell, told) = mpsc::channel();
        let ways = [(&self.client, &self.server, seed), (&self.server, &self.client, !seed)];
        for (from, to, seed) in ways {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            thread::spawn(move || from.write_all(&pattern(seed)).unwrap());
            let tell = tell.clone();
            thread::spawn(move || {
                let mut bytes = vec![0; BYTES];
                let whole = to.read_exact(&mut bytes).map(|()| bytes == pattern(seed));
                tell.send(whole).unwrap();
            });
        }
        for _ in 0..2 {
            let whole = told.recv_timeout(2 * PATIENT).unwrap();
            assert!(whole.as_ref().is_ok_and(|whole| *whole), "{:?}: {whole:?}", self.ports());
        }
    }
}

fn exchange_all(connections: &mut [Connection], seed: u32) {
    for (number, connection) in (0u32..).zip(connections) {
        connection.exchange(seed.wrapping_add(number << 8));
    }
}

#[test]
fn prices_steer_new_flows_and_known_ones_stay_whole() {
    let Some(lab) = Lab::start("steering-drench", "drench") else { return };
    let listener = lab.listen();
    let mut old: Vec<Connection> = (0..6).map(|_| lab.connect(&listener)).collect();
    exchange_all(&mut old, 1);
    let before: Vec<String> = old.iter().map(|one| lab.node_of(one)).collect();
    let load = lab.load_b();
    // Both in one moment: other programs of this machine make now b the costlier one and now c.
    eventually("new flows go to c, which is the cheaper one", || {
        let prices = lab.json("a", &["cluster", "prices"]);
        let price = |node: usize| prices[node]["nfs"][0]["price"].as_f64().unwrap_or_default();
        lab.slots("c") >= 120 && price(1) > price(2)
    });
    let [from, to] = old[0].ports();
    let told = lab.json("a", &["explain", &format!("tcp {WEST}:{from} > {EAST}:{to} in west")]);
    let notes = told["stages"][0]["notes"].to_string();
    assert!(notes.contains("a packet costs ") && notes.contains(" at c, an idle core"), "{told:#}");
    assert!(notes.contains("a known flow stays"), "{told:#}");
    exchange_all(&mut old, 2);
    let after: Vec<String> = old.iter().map(|one| lab.node_of(one)).collect();
    assert_eq!(after, before, "known flows stay");
    let mut new: Vec<Connection> = (0..6).map(|_| lab.connect(&listener)).collect();
    exchange_all(&mut new, 3);
    let at_c = new.iter().filter(|one| lab.node_of(one) == "c").count();
    assert!(at_c >= 4, "{at_c} of 6 new ones are at c");
    drop(load);
    lab.check_accounts(&["a", "b", "c"]);
    lab.end();
}

#[test]
fn flows_of_a_node_that_dies_go_on_at_another() {
    let Some(lab) = Lab::start("steering-dies", "ecmp") else { return };
    // Who serves is known before flows are shared anew.
    eventually("both get new flows", || ["b", "c"].iter().all(|node| lab.slots(node) == 64));
    let listener = lab.listen();
    let mut all: Vec<Connection> = (0..12).map(|_| lab.connect(&listener)).collect();
    exchange_all(&mut all, 1);
    let nodes: Vec<String> = all.iter().map(|one| lab.node_of(one)).collect();
    assert!(["b", "c"].iter().all(|node| nodes.iter().any(|one| one == node)), "{nodes:?}");
    lab.check_accounts(&["a", "b", "c"]);
    let mut observing = Observing::start(lab.folder.path(), &format!("{}-a", lab.name));
    signal(daemon(lab.folder.path(), &format!("{}-b", lab.name)), Signal::KILL);
    lab.wait_for_servers(["c"]);
    let decided = observing.decision("steering", |action| {
        action["chain"] == "out" && action["servers"].as_array().is_some_and(|all| all.len() == 1)
    });
    assert_eq!(decided["slots"], decided["servers"][0]["slots"], "{decided}");
    assert!(decided["servers"][0]["node"] == "c" && decided["servers"][0]["cost"].is_f64(), "{decided}");
    assert!(decided["moved"].as_u64().unwrap() > 0 && decided["keeps_known_flows"] == true, "{decided}");
    exchange_all(&mut all, 2);
    let told = lab.json("a", &["show", "events"]).to_string();
    assert!(told.contains("flows-steered"), "{told}");
    // It is started again, and gets flows again; those that moved stay.
    lab.wait_for_servers(["b", "c"]);
    assert!(all.iter().all(|one| lab.node_of(one) == "c"));
    exchange_all(&mut all, 3);
    eventually("b gets new flows", || lab.slots("b") == 64);
    lab.check_accounts(&["a", "c"]);
    let (code, data, messages) =
        run(lab.folder.path(), &["cluster", "status", "--name", &format!("{}-a", lab.name)]);
    assert!(code == 0 && data.contains("serves"), "{data}{messages}");
    lab.end();
}

#[test]
fn a_manager_without_shared_nfs_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, messages) = run(folder.path(), &["cluster", "status", "--name", &name_of("steering-none")]);
    assert!(code != 0 && !messages.is_empty(), "{messages}");
}
