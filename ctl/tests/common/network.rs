//! A lab of nodes that share NFs, with two hosts, and connections between these.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use headgate_host::namespace::{Namespace, named};
use rustix::process::Signal;
use serde_json::Value as Json;

use super::{Running, eventually, headgate, is_root, name_of, run};

pub const WEST: &str = "192.0.2.10";
pub const EAST: &str = "192.0.2.11";
/// Bytes each way of one exchange.
const BYTES: usize = 1 << 16;
/// Longest wait for bytes of a connection whose node was killed.
const PATIENT: Duration = Duration::from_secs(60);

/// Ports of a file whose packets enter and leave at a.
pub const EDGES: &str = r#"
[[port]]
name = "west"
node = "a"
interface = "west"
[[port]]
name = "east"
node = "a"
interface = "east"
"#;

/// Returns chains of a file from west to east and back through an NF.
pub fn there_and_back(nf: &str) -> String {
    let chain = |name: &str, out: &str| {
        format!("[[chain]]\nname = \"{name}\"\nstages = [\"{nf}\"]\nout = \"{out}\"\n")
    };
    let rule = |from: &str, chain: &str| format!("[[rule]]\nin = \"{from}\"\nchain = \"{chain}\"\n");
    [chain("out", "east"), chain("back", "west"), rule("west", "out"), rule("east", "back")].concat()
}

/// Returns a link of a file.
pub fn link(number: u8, [one, other]: [&str; 2]) -> String {
    format!(
        "[[link]]\nnodes = [\"{one}\", \"{other}\"]\ninterfaces = [\"{one}{other}\", \"{other}{one}\"]\n\
         addresses = [\"10.9.{number}.1/30\", \"10.9.{number}.2/30\"]\n\
         bfd = {{ interval = \"200ms\", multiplier = 5 }}\n"
    )
}

/// A lab that runs.
pub struct Lab {
    pub folder: tempfile::TempDir,
    pub name: String,
    /// What it said of itself when it was ready.
    pub told: Json,
    pub running: Running,
    lines: BufReader<ChildStdout>,
    /// The hosts west and east.
    pub hosts: [Namespace; 2],
}

impl Lab {
    /// Starts one by a file that is made for its name; `None` without root, which is said.
    pub fn start(test: &str, text: impl FnOnce(&str) -> String) -> Option<Self> {
        if !is_root() {
            eprintln!("skipped: network namespaces take root");
            return None;
        }
        let name = name_of(test);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab.toml");
        fs::write(&path, text(&name)).unwrap();
        let mut command = headgate(folder.path(), &["--json", "lab", path.to_str().unwrap()]);
        command.stderr(Stdio::inherit());
        let mut running = Running::start(command);
        let mut lines = BufReader::new(running.0.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let told: Json = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(told["hosts"][0]["address"], WEST);
        let hosts = [0, 1].map(|at| named::open(told["hosts"][at]["namespace"].as_str().unwrap()).unwrap());
        Some(Self { folder, name, told, running, lines, hosts })
    }

    pub fn json(&self, node: &str, words: &[&str]) -> Json {
        let name = format!("{}-{node}", self.name);
        let (_, data, _) = run(self.folder.path(), &[&["--json"], words, &["--name", &name]].concat());
        serde_json::from_str(&data).unwrap_or_default()
    }

    /// Waits until these nodes get flows of both chains, and no others.
    pub fn wait_for_servers<const COUNT: usize>(&self, wanted: [&str; COUNT]) {
        eventually(&format!("{wanted:?} serve"), || {
            let stages = self.stages();
            stages.len() == 2 && stages.iter().all(|stage| alive(stage) == wanted)
        });
    }

    pub fn stages(&self) -> Vec<Json> {
        self.json("a", &["cluster", "status"])["stages"].as_array().cloned().unwrap_or_default()
    }

    /// Returns the slots of chain "out" whose new flows go to a node.
    pub fn slots(&self, node: &str) -> u64 {
        let stages = self.stages();
        let Some(out) = stages.iter().find(|stage| stage["chain"] == "out") else { return 0 };
        let servers = out["servers"].as_array().unwrap();
        servers.iter().find(|server| server["node"] == node).unwrap()["slots"].as_u64().unwrap()
    }

    /// Returns the nodes that a connection's packets pass eastward.
    pub fn path(&self, connection: &Connection) -> Json {
        let [from, to] = connection.ports();
        let packet = format!("tcp {WEST}:{from} > {EAST}:{to} in west");
        self.json("a", &["cluster", "path", &packet])
    }

    /// Returns the node that serves a connection's packets eastward.
    pub fn node_of(&self, connection: &Connection) -> String {
        let path = self.path(connection);
        path["stages"][0]["node"].as_str().unwrap_or_else(|| panic!("{path:#}")).to_owned()
    }

    /// Opens a connection from west to east.
    pub fn connect(&self, listener: &TcpListener) -> Connection {
        let to = listener.local_addr().unwrap();
        let connect = || TcpStream::connect_timeout(&to, PATIENT).unwrap();
        let client = self.hosts[0].run(connect).unwrap();
        let (server, _) = listener.accept().unwrap();
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(PATIENT)).unwrap();
        }
        Connection { client, server }
    }

    pub fn listen(&self) -> TcpListener {
        self.hosts[1].run(|| TcpListener::bind((EAST, 0))).unwrap().unwrap()
    }

    /// Sends so many packets a millisecond from each of some ports of the host west, until what is returned
    /// is dropped.
    pub fn load(&self, ports: usize, packets: usize) -> Load {
        let bind = || -> Vec<UdpSocket> { (0..ports).map(|_| UdpSocket::bind((WEST, 0)).unwrap()).collect() };
        let sockets = self.hosts[0].run(bind).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = is_over.clone();
        let thread = thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                for socket in &sockets {
                    for _ in 0..packets {
                        // A full queue is as good.
                        let _ = socket.send_to(b"work", (EAST, 9));
                    }
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        Load { is_over, thread: Some(thread) }
    }

    /// Waits until nothing is under way, and checks the accounts of nodes.
    pub fn check_accounts(&self, nodes: &[&str]) {
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

    /// Ends it. Returns the exit code and what is left on standard output.
    pub fn stop(mut self) -> (i32, String) {
        self.running.signal(Signal::INT);
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        (self.running.0.wait().unwrap().code().unwrap_or(-1), rest)
    }

    /// Ends it, and checks that it ended well.
    pub fn end(self) {
        let (code, rest) = self.stop();
        assert_eq!(code, 0, "{rest}");
    }
}

fn alive(stage: &Json) -> Vec<String> {
    let servers = stage["servers"].as_array().cloned().unwrap_or_default();
    let living = servers.iter().filter(|server| server["alive"] == true);
    living.map(|server| server["node"].as_str().unwrap().to_owned()).collect()
}

/// Packets that go on until it is dropped.
pub struct Load {
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
pub struct Connection {
    pub client: TcpStream,
    server: TcpStream,
}

impl Connection {
    pub fn ports(&self) -> [u16; 2] {
        [self.client.local_addr().unwrap().port(), self.client.peer_addr().unwrap().port()]
    }

    /// Sends a byte each way.
    pub fn touch(&mut self) {
        let mut byte = [0];
        self.client.write_all(b"?").unwrap();
        self.server.read_exact(&mut byte).unwrap();
        self.server.write_all(b"!").unwrap();
        self.client.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"!");
    }

    /// Sends bytes both ways, and checks that they come as they were sent.
    pub fn exchange(&mut self, seed: u32) {
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

pub fn exchange_all(connections: &mut [Connection], seed: u32) {
    for (number, connection) in (0u32..).zip(connections) {
        connection.exchange(seed.wrapping_add(number << 8));
    }
}
