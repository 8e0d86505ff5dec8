//! Routers under a link: three that run FRR's `ospfd` carry VXLAN-GPE between two nodes, and one way between
//! them ends.

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::Duration;

use common::frr::Frr;
use common::network::there_and_back;
use common::{Detached, eventually, headgate, is_root, name_of, run, told, written};
use headgate_host::namespace::Namespace;
use headgate_host::network::{Mac, VethEnd};
use serde_json::Value as Json;

const MTU: u32 = 1600;
/// Longest wait for bytes while ways change.
const PATIENT: Duration = Duration::from_secs(60);
/// The addresses of the two nodes.
const NODES: [&str; 2] = ["10.1.0.2", "10.2.0.2"];
/// The hosts behind their ports.
const HOSTS: [&str; 2] = ["192.0.2.10", "192.0.2.11"];
/// Cables: the places of their ends, the interfaces, the addresses. A node is at the first router, the other
/// one at the second; the third is a way around.
const CABLES: [([usize; 2], [&str; 2], [&str; 2]); 5] = [
    ([A, R1], ["up", "a"], ["10.1.0.2", "10.1.0.1"]),
    ([C, R2], ["up", "c"], ["10.2.0.2", "10.2.0.1"]),
    ([R1, R2], ["r2", "r1"], ["10.0.12.1", "10.0.12.2"]),
    ([R1, R3], ["r3", "r1"], ["10.0.13.1", "10.0.13.2"]),
    ([R3, R2], ["r2", "r3"], ["10.0.23.1", "10.0.23.2"]),
];
const A: usize = 0;
const C: usize = 1;
const R1: usize = 2;
const R2: usize = 3;
const R3: usize = 4;

fn text(name: &str) -> String {
    let chains = there_and_back("fw");
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
name = "c"
[[link]]
nodes = ["a", "c"]
interfaces = ["up", "up"]
addresses = ["{}/24", "{}/24"]
carrier = "vxlan-gpe"
bfd = {{ interval = "200ms", multiplier = 5 }}
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
node = "c"
run = "firewall"
args = {{ default = "allow", rules = [] }}
{chains}"#,
        NODES[0], NODES[1]
    )
}

/// Lays a cable between two places, with an address at each end.
fn lay(number: u8, places: [&Namespace; 2], names: [&str; 2], addresses: [&str; 2]) {
    let end = |at: usize| VethEnd { name: names[at], mac: Mac([2, 0, 0, 7, number, at as u8]) };
    places[0].join(places[1], [end(0), end(1)], MTU).unwrap();
    for at in 0..2 {
        let address: IpAddr = addresses[at].parse().unwrap();
        places[at].links().unwrap().add_address(names[at], address, 24).unwrap();
    }
}

/// Starts a router: hellos each second, and nobody but routers is spoken to.
fn route(place: &Namespace, number: usize, neighbours: [&str; 2]) -> Option<Frr> {
    place.forward_ipv4().unwrap();
    let mut text = String::new();
    for name in neighbours {
        text += &format!(
            "interface {name}\n ip ospf area 0\n ip ospf network point-to-point\n ip ospf hello-interval 1\n \
             ip ospf dead-interval 3\nexit\n"
        );
    }
    text += &format!(
        "router ospf\n ospf router-id 10.255.0.{number}\n redistribute connected\n timers throttle spf 10 50 500\n\
         exit\n"
    );
    Frr::start(place, "ospfd", &text)
}

/// Returns the interface by which a router reaches an address.
fn way(router: &Frr, address: &str) -> Option<String> {
    let routes = router.json(&format!("show ip route {address} json"))?;
    let (_, route) = routes.as_object()?.iter().next()?;
    let hops = route[0]["nexthops"].as_array()?;
    hops.iter().find(|hop| hop["active"] == true)?["interfaceName"].as_str().map(str::to_owned)
}

/// Sends a word there and back.
fn touch(mut one: &TcpStream, mut other: &TcpStream) {
    let mut word = [0; 4];
    one.write_all(b"ping").unwrap();
    other.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"ping");
    other.write_all(b"pong").unwrap();
    one.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"pong");
}

struct Bed {
    folder: tempfile::TempDir,
    name: String,
    places: [Namespace; 5],
    hosts: [Namespace; 2],
}

impl Bed {
    fn make() -> Self {
        let places = [(); 5].map(|()| Namespace::new().unwrap());
        let hosts = [(); 2].map(|()| Namespace::new().unwrap());
        for (number, (ends, names, addresses)) in (0..).zip(CABLES) {
            lay(number, ends.map(|end| &places[end]), names, addresses);
        }
        for (at, port) in ["west", "east"].into_iter().enumerate() {
            let end = |name, side| VethEnd { name, mac: Mac([2, 0, 0, 8, at as u8, side]) };
            hosts[at].join(&places[at], [end("eth0", 0), end(port, 1)], 1500).unwrap();
            hosts[at].links().unwrap().add_address("eth0", HOSTS[at].parse().unwrap(), 24).unwrap();
            // The nodes' networks are behind their routers.
            let gateway = ["10.1.0.1", "10.2.0.1"][at].parse().unwrap();
            let far = NODES[1 - at].parse().unwrap();
            places[at].links().unwrap().add_route(far, 32, gateway).unwrap();
        }
        Self { folder: tempfile::tempdir().unwrap(), name: name_of("underlay"), places, hosts }
    }

    fn up(&self, at: usize, node: &str, file: &str) -> Detached {
        let detached = Detached::of(self.folder.path(), &format!("{}-{node}", self.name));
        let words = ["up", "--detach", file, "--node", node];
        let start = || told(headgate(self.folder.path(), &words).output().unwrap());
        let (code, _, messages) = self.places[at].run(start).unwrap();
        assert_eq!(code, 0, "{node}: {messages}");
        detached
    }

    fn session(&self, node: &str) -> Json {
        let words = ["--json", "show", "bfd", "--name", &format!("{}-{node}", self.name)];
        let (_, data, _) = run(self.folder.path(), &words);
        serde_json::from_str::<Json>(&data).unwrap_or_default()[0].clone()
    }
}

#[test]
fn a_way_between_routers_ends_and_chains_go_on() {
    if !is_root() {
        println!("a_way_between_routers_ends_and_chains_go_on: skipped: namespaces take root");
        return;
    }
    let bed = Bed::make();
    let Some(first) = route(&bed.places[R1], 1, ["r2", "r3"]) else { return };
    let _second = route(&bed.places[R2], 2, ["r1", "r3"]).unwrap();
    let _third = route(&bed.places[R3], 3, ["r1", "r2"]).unwrap();
    eventually("the routers found the short way", || way(&first, NODES[1]).as_deref() == Some("r2"));

    let file = written(bed.folder.path(), &text(&bed.name));
    let _managers = [bed.up(A, "a", &file), bed.up(C, "c", &file)];
    let is_up = || ["a", "c"].iter().all(|node| bed.session(node)["state"] == "up");
    eventually("the link is up", is_up);
    let listener = bed.hosts[1].run(|| TcpListener::bind((HOSTS[1], 0))).unwrap().unwrap();
    let to = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&to, PATIENT).unwrap();
    let stream = bed.hosts[0].run(connect).unwrap();
    let (other, _) = listener.accept().unwrap();
    for end in [&stream, &other] {
        end.set_read_timeout(Some(PATIENT)).unwrap();
    }
    touch(&stream, &other);

    // A router loses its cable: the connection that was there goes on, by the other way.
    bed.places[R1].links().unwrap().set_down("r2").unwrap();
    touch(&stream, &other);
    eventually("the routers found the way around", || way(&first, NODES[1]).as_deref() == Some("r3"));
    eventually("the link is up", is_up);
    let sent = || {
        let table = bed.places[R3].run(|| fs::read_to_string("/proc/thread-self/net/dev")).unwrap().unwrap();
        let line = table.lines().find(|line| line.trim_start().starts_with("r2:")).unwrap().to_owned();
        line.split_whitespace().nth(10).unwrap().parse::<u64>().unwrap()
    };
    let before = sent();
    (0..20).for_each(|_| touch(&stream, &other));
    assert!(sent() >= before + 20, "packets go around");

    // It comes back.
    bed.places[R1].links().unwrap().set_up("r2").unwrap();
    eventually("the short way is back", || way(&first, NODES[1]).as_deref() == Some("r2"));
    touch(&stream, &other);
    for node in ["a", "c"] {
        let (code, totals, messages) =
            run(bed.folder.path(), &["down", "--name", &format!("{}-{node}", bed.name)]);
        assert!(code == 0 && totals.contains("accounts hold"), "{node}: {totals} {messages}");
    }
}
