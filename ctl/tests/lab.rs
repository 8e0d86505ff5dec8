//! `headgate lab`: chains over three nodes in namespaces, with real traffic, a node that is killed, a link
//! that is cut, and frames that nobody sends who means well.

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::network::{EAST, Lab, WEST, link};
use common::{Running, daemon, eventually, run, runs, signal, sockets};
use headgate_host::namespace::{Namespace, named};
use rustix::process::Signal;
use serde_json::Value as Json;

const BYTES: usize = 1 << 20;
/// Addresses that a lab gives the first link, at its first node and its second.
const LINK_MACS: [&str; 2] = ["02484c000001", "02484c000002"];

fn text(name: &str) -> String {
    let links = [link(0, ["a", "b"]), link(1, ["b", "c"]), link(2, ["a", "c"])].concat();
    format!(
        r#"
[manager]
name = "{name}"
idle = "sleep"
[memory]
buffers = 8192
hugepages = "never"
[[node]]
name = "a"
[[node]]
name = "b"
[[node]]
name = "c"
{links}
[[port]]
name = "west"
node = "a"
interface = "west"
[[port]]
name = "east"
node = "c"
interface = "east"
[[nf]]
name = "fw"
node = "b"
run = "firewall"
args = {{ default = "allow", rules = [{{ action = "deny", protocol = "udp", destination_port = 99 }}] }}
[[nf]]
name = "mon"
node = "c"
run = "monitor"
[[chain]]
name = "out"
stages = ["fw", "mon"]
out = "east"
[[chain]]
name = "back"
stages = ["mon", "fw"]
out = "west"
[[rule]]
in = "west"
chain = "out"
[[rule]]
in = "east"
chain = "back"
"#
    )
}

/// Starts a lab, and waits until all links are up and NFs run.
fn start(test: &str) -> Option<Lab> {
    let lab = Lab::start(test, text)?;
    lab.wait_for_links(["up"; 6]);
    Some(lab)
}

impl Lab {
    fn status(&self, node: &str) -> Json {
        let (code, data, messages) =
            run(self.folder.path(), &["--json", "status", "--name", &format!("{}-{node}", self.name)]);
        // One that is killed while it answers resets the connection.
        assert!(code == 0 || code == 3 || messages.contains("reset by peer"), "{messages}");
        serde_json::from_str(&data).unwrap_or_default()
    }

    /// Waits until the links of a, b and c are in these states, and what is up has its NFs running.
    fn wait_for_links(&self, wanted: [&str; 6]) {
        eventually(&format!("links are {wanted:?}"), || {
            let all = ["a", "b", "c"].map(|node| self.status(node));
            let states = all.iter().flat_map(|node| node["bfd"].as_array().cloned().unwrap_or_default());
            let states: Vec<Json> = states.map(|link| link["state"].clone()).collect();
            let nfs = all.iter().flat_map(|node| node["nfs"].as_array().cloned().unwrap_or_default());
            states == wanted && nfs.into_iter().all(|nf| nf["state"] == "running")
        });
    }

    fn dropped(&self, node: &str, chain: &str, reason: &str) -> u64 {
        let drops = self.status(node)["drops"].as_array().cloned().unwrap_or_default();
        let one = drops.iter().find(|drop| drop["chain"] == chain && drop["reason"] == reason);
        one.map_or(0, |drop| drop["count"].as_u64().unwrap())
    }

    /// Sends bytes both ways over one connection. Returns whether they came as they were sent.
    fn transfer(&self) -> bool {
        let listener = self.hosts[1].run(|| TcpListener::bind((EAST, 0))).unwrap().unwrap();
        let port = listener.local_addr().unwrap().port();
        listener.set_nonblocking(true).unwrap();
        let connect = || TcpStream::connect_timeout(&format!("{EAST}:{port}").parse().unwrap(), PATIENT);
        let Ok(client) = self.hosts[0].run(connect).unwrap() else { return false };
        let mut server = None;
        eventually("the connection is there", || {
            server = listener.accept().ok();
            server.is_some()
        });
        let (server, _) = server.unwrap();
        server.set_nonblocking(false).unwrap();
        exchange(client, server)
    }

    /// Sends a datagram east and back again. Returns whether it came.
    fn echo(&self, port: u16) -> bool {
        let open = |host: usize, address: &str, port| {
            let socket = self.hosts[host].run(|| UdpSocket::bind((address, port))).unwrap().unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            socket
        };
        let (west, east) = (open(0, WEST, 0), open(1, EAST, port));
        let mut bytes = [0; 64];
        west.send_to(b"over b and c", (EAST, port)).unwrap();
        let Ok((length, from)) = east.recv_from(&mut bytes) else { return false };
        east.send_to(&bytes[..length], from).unwrap();
        let mut answer = [0; 64];
        west.recv_from(&mut answer).is_ok_and(|(length, _)| &answer[..length] == b"over b and c")
    }

    /// Waits until nothing is under way, and checks that no node and no link lost a packet uncounted.
    fn check_links(&self) {
        let mut all = Vec::new();
        eventually("nothing is under way, and links have lost nothing", || {
            all = ["a", "b", "c"].map(|node| self.status(node)).into();
            let links = || all.iter().flat_map(|node| node["ports"].as_array().unwrap());
            let links = || links().filter(|port| port["kind"] == "link");
            let sum = |key: &str| links().map(|port| port[key].as_u64().unwrap()).sum::<u64>();
            let idle =
                |chain: &Json| number(chain, "entered") == number(chain, "left") + number(chain, "dropped");
            let chains = || all.iter().flat_map(|node| node["chains"].as_array().unwrap());
            sum("sent") == sum("received") + sum("missed") && chains().all(idle)
        });
        assert!(all.iter().all(|node| node["conserved"] == true), "{all:#?}");
    }
}

/// Longest wait for a connection; tried again after it.
const PATIENT: Duration = Duration::from_secs(5);

fn number(value: &Json, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn exchange(client: TcpStream, server: TcpStream) -> bool {
    let pattern = |seed: u32| -> Vec<u8> {
        (0..BYTES as u32).map(|at| (at.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 24) as u8).collect()
    };
    let send = |mut stream: TcpStream, seed| {
        thread::spawn(move || {
            stream.write_all(&pattern(seed)).and_then(|()| stream.shutdown(std::net::Shutdown::Write))
        })
    };
    let take = |mut stream: TcpStream, seed| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).is_ok_and(|_| bytes == pattern(seed))
        })
    };
    let sent = [send(client.try_clone().unwrap(), 1), send(server.try_clone().unwrap(), 2)];
    let taken = [take(client, 2), take(server, 1)].map(|thread| thread.join().unwrap());
    sent.map(|thread| thread.join().unwrap()).into_iter().all(|sent| sent.is_ok()) && taken == [true; 2]
}

fn is_installed(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        eprintln!("left out: there is no `{program}` here");
    }
    is_there
}

/// Returns what tshark reads on a link while traffic runs.
fn read_on_link(lab: &Lab) -> Vec<String> {
    let b = named::open(&format!("{}-b", lab.name)).unwrap();
    let mut command = b.command("tshark").unwrap();
    command.args(["-n", "-l", "-i", "ba", "-c", "8", "-f", "ether proto 0x894f", "-T", "fields"]);
    command.args(["-E", "separator=|", "-E", "occurrence=f"]);
    for name in ["nsh.spi", "nsh.si", "nsh.ttl", "nsh.nextproto", "ip.src"] {
        command.args(["-e", name]);
    }
    let tshark = Running::start({
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command
    });
    let mut tshark = tshark;
    let mut output = tshark.0.stdout.take().unwrap();
    // It says nothing when it is ready, so there is traffic until it has enough.
    eventually("tshark has seen enough", || {
        lab.echo(7);
        tshark.0.try_wait().unwrap().is_some()
    });
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Sends frames, in hexadecimal, out of an interface of a namespace.
fn send_frames(place: &Namespace, interface: &str, frames: &[String]) {
    const SCRIPT: &str = "import socket, sys\n\
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
        s.bind((sys.argv[1], 0))\n\
        [s.send(bytes.fromhex(frame)) for frame in sys.argv[2:]]\n";
    let mut command = place.command("python3").unwrap();
    let status = command.args(["-c", SCRIPT, interface]).args(frames).status().unwrap();
    assert!(status.success());
}

/// Sends b what its neighbour a would not send, and checks that each frame is counted.
fn check_hostile_frames(lab: &Lab, path: u64) {
    let inside = format!("{}0800{}", "02".repeat(12), "45".repeat(60));
    let header = |source: &str, ttl: u16, path: u64, index: u8| {
        let base = ttl << 6 | 6;
        format!("{}{source}894f{base:04x}0103{path:06x}{index:02x}{}{inside}", LINK_MACS[1], "00".repeat(16))
    };
    let own = LINK_MACS[0];
    let good = header(own, 63, path, 255);
    let cases = [
        ("nsh-index", header(own, 63, path, 250)),
        ("nsh-no-chain", header(own, 63, path ^ 0x7f, 255)),
        ("nsh-ttl", header(own, 1, path, 255)),
        ("nsh-malformed", good[..2 * 22].to_owned()),
        ("nsh-unknown-peer", header("020000000bad", 63, path, 255)),
        ("malformed", good),
    ];
    let before = cases.each_ref().map(|(reason, _)| lab.dropped("b", "-", reason));
    let frames = cases.each_ref().map(|(_, frame)| frame.clone());
    let a = named::open(&format!("{}-a", lab.name)).unwrap();
    send_frames(&a, "ab", &frames);
    for ((reason, frame), before) in cases.iter().zip(before) {
        eventually(&format!("{reason} is counted for {frame}"), || {
            lab.dropped("b", "-", reason) == before + 1
        });
    }
}

#[test]
fn a_chain_over_three_nodes_carries_traffic_and_heals() {
    let Some(lab) = start("lab-heals") else { return };
    assert!(lab.transfer(), "both ways, as they were sent");
    eventually("a datagram comes back", || lab.echo(7));
    assert!(!lab.echo(99), "the firewall on b lets none to port 99 pass");
    assert_eq!(lab.dropped("b", "out", "nf-verdict"), 1);
    lab.check_links();
    let path = |node: &str| lab.status(node)["chains"][1]["service"]["path"].as_u64().unwrap();
    assert!(["b", "c"].iter().all(|node| path(node) == path("a")), "nodes know the chain by one number");
    if is_installed("tshark") {
        let read = read_on_link(&lab);
        let out = format!("{}|255|0x003f|3|{WEST}", path("a"));
        assert!(read.contains(&out), "{out} is not in {read:#?}");
    }
    if is_installed("python3") {
        check_hostile_frames(&lab, path("a"));
    }
    signal(daemon(lab.folder.path(), &format!("{}-b", lab.name)), Signal::KILL);
    // By a to c, which finds no other way either: it would go back by the link that it came by.
    eventually("packets without a way are counted", || {
        lab.echo(7);
        lab.dropped("c", "-", "no-way") + lab.dropped("a", "out", "no-way") > 0
    });
    lab.wait_for_links(["up"; 6]);
    eventually("the node is back", || lab.transfer());
    let a = named::open(&format!("{}-a", lab.name)).unwrap();
    a.links().unwrap().set_down("ab").unwrap();
    lab.wait_for_links(["down", "up", "down", "up", "up", "up"]);
    eventually("the other way is taken", || lab.transfer());
    a.links().unwrap().set_up("ab").unwrap();
    lab.wait_for_links(["up"; 6]);
    let (name, folder) = (lab.name.clone(), sockets(lab.folder.path()));
    let (code, rest) = lab.stop();
    assert_eq!(code, 0, "{rest}");
    assert_eq!(rest.lines().count(), 3, "a last snapshot of each node");
    assert_nothing_left(&name, &folder);
}

fn assert_nothing_left(name: &str, folder: &Path) {
    let left = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|file| file.starts_with(name)).collect()
    };
    eventually("nothing is left", || left(Path::new(named::FOLDER)).is_empty() && left(folder).is_empty());
}

#[test]
fn a_lab_that_is_killed_leaves_nothing() {
    let Some(mut lab) = start("lab-killed") else { return };
    let (name, folder) = (lab.name.clone(), sockets(lab.folder.path()));
    let managers = ["a", "b", "c"].map(|node| daemon(lab.folder.path(), &format!("{name}-{node}")));
    // A second one of its name is refused, and takes nothing away from the first.
    let path = lab.folder.path().join("lab.toml");
    let (code, _, messages) = run(lab.folder.path(), &["lab", path.to_str().unwrap()]);
    assert!(code == 3 && messages.contains("runs already"), "{code}: {messages}");
    lab.running.signal(Signal::KILL);
    lab.running.0.wait().unwrap();
    eventually("the managers end", || managers.iter().all(|pid| !runs(*pid)));
    assert_nothing_left(&name, &folder);
}

#[test]
fn what_a_lab_cannot_be_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let lab = |text: &str| {
        let path = folder.path().join("lab.toml");
        fs::write(&path, text).unwrap();
        run(folder.path(), &["lab", path.to_str().unwrap()])
    };
    let (code, _, messages) = lab("[[port]]\nname = \"p\"\nkind = \"null\"\n");
    assert!(code == 4 && messages.contains("for one machine"), "{messages}");
    let (code, _, messages) = lab(&text("x").replace("[\"a\", \"b\"]", "[\"a\", \"q\"]"));
    assert!(code == 4 && messages.contains("there is no node `q`"), "{messages}");
}
