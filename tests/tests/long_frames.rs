//! Frames that Linux has not cut yet, through chains of NFs: whole where all of them take such frames, and
//! cut where one does not. Hosts talk TCP both ways, and no byte and no packet is lost sight of. It takes
//! root.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use headgate_api::status::Snapshot;
use headgate_host::namespace::{Endpoint, Namespace, Namespaces, Plan};
use headgate_host::network::Offload;
use headgate_tests::patience::Patience;
use headgate_tests::session::{PATIENCE, Session, chain, nf, port};
use headgate_tests::{machine, programs};

/// Bytes of one transfer. Our choice: hundreds of long frames, thousands of short ones.
const BYTES: usize = 16 << 20;

/// Keys of two ports: on the interfaces where the cables of the hosts end, and TAPs behind bridges there.
const INTERFACES: [&str; 2] = ["interface = \"hg-left\"", "interface = \"hg-right\""];
const TAPS: [&str; 2] = ["tap = \"hg-tap-left\"", "tap = \"hg-tap-right\""];

/// A chain of three NFs between two ports with these keys; `second` is the one in the middle.
fn configuration(second: &str, [west, east]: [&str; 2]) -> String {
    let mut text = "[manager]\nname = \"tests\"\ncores = [{manager}]\n[memory]\nbuffers = 4096\n".to_owned();
    for (name, run) in [("pass", "run = \"forward\""), ("middle", second), ("count", "run = \"monitor\"")] {
        text += &format!("[[nf]]\nname = \"{name}\"\ncore = {{nf}}\n{run}\n");
    }
    for (port, key, chain, out) in [("west", west, "there", "east"), ("east", east, "back", "west")] {
        text += &format!(
            "[[port]]\nname = \"{port}\"\n{key}\n[[chain]]\nname = \"{chain}\"\n\
             stages = [\"pass\", \"middle\", \"count\"]\nout = \"{out}\"\n[[rule]]\nin = \"{port}\"\nchain = \"{chain}\"\n"
        );
    }
    text
}

const FIREWALL: &str = "run = \"firewall\"\nargs = { default = \"allow\", rules = [] }";

struct Bed {
    // Fields end in their order.
    session: Session,
    hosts: Namespaces,
    middle: Namespace,
}

impl Bed {
    fn new(test: &str, second: &str, ports: [&str; 2]) -> Option<Self> {
        Self::of(test, &configuration(second, ports), ports, true)
    }

    /// `offloads`: whether the hosts leave cutting and checksums undone.
    fn of(test: &str, configuration: &str, ports: [&str; 2], offloads: bool) -> Option<Self> {
        if !machine::is_root() {
            machine::skip(test, "network namespaces take root");
            return None;
        }
        let middle = Namespace::new().unwrap();
        let plan = Plan { offloads, ..Plan::default() };
        let hosts = Namespaces::planned(&middle, &plan).unwrap();
        let session = middle.run(|| Session::start(configuration)).unwrap();
        if ports == TAPS {
            let mut links = middle.links().unwrap();
            for side in ["left", "right"] {
                let (bridge, cable, tap) =
                    (format!("br-{side}"), format!("hg-{side}"), format!("hg-tap-{side}"));
                links.add_bridge(&bridge, &[&cable, &tap]).unwrap();
            }
        }
        Some(Self { session, hosts, middle })
    }

    fn says(&self, what: &str) -> Snapshot {
        let said = |now: &Snapshot, name| {
            port(now, name).long_frames.as_ref().is_some_and(|said| said.starts_with(what))
        };
        self.session.wait_for(what, |now| said(now, "west") && said(now, "east"))
    }

    /// One transfer in each direction, of so many bytes, over IPv4 or IPv6. Returns what came before.
    fn transfer(&self, ipv6: bool) {
        let address = |host: &Endpoint| {
            *host.addresses.iter().find(|address| address.is_ipv6() == ipv6).expect("it has both")
        };
        send_tcp(&self.hosts.left, &self.hosts.right, address(&self.hosts.right));
        send_tcp(&self.hosts.right, &self.hosts.left, address(&self.hosts.left));
    }

    /// Ends it; no packet and no buffer may be missing, and no port may have refused one.
    fn end(self) -> Snapshot {
        let agrees = |now: &Snapshot| {
            [("there", "east"), ("back", "west")].into_iter().all(|(name, end)| {
                let end = port(now, end);
                chain(now, name).left == end.sent + end.failed
            })
        };
        self.session.wait_for("ports sent all that left", agrees);
        let audited = self.session.audited();
        assert!(audited.memory.iter().all(|region| region.missing == Some(0)), "{:#?}", audited.memory);
        for name in ["west", "east"] {
            let port = port(&audited, name);
            assert_eq!((port.bad_offload, port.failed, port.too_long), (0, 0, 0), "{port:#?}");
        }
        self.session.stop();
        drop(self.middle);
        audited
    }
}

/// The bytes at a place of a transfer, unlike those a segment earlier or later.
fn pattern(from: usize, into: &mut [u8]) {
    for (at, byte) in into.iter_mut().enumerate() {
        let at = from + at;
        *byte = (at ^ at >> 8 ^ at >> 16) as u8;
    }
}

fn send_tcp(from: &Endpoint, to: &Endpoint, address: IpAddr) {
    let listener = to.namespace.run(|| bind(address)).unwrap();
    let at: SocketAddr = listener.local_addr().unwrap();
    thread::scope(|scope| {
        let received = scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut bytes, mut count) = (vec![0; 1 << 16], 0);
            let mut wanted = vec![0; 1 << 16];
            loop {
                let more = stream.read(&mut bytes).unwrap();
                if more == 0 {
                    return count;
                }
                pattern(count, &mut wanted[..more]);
                assert!(bytes[..more] == wanted[..more], "another byte came around {count}");
                count += more;
            }
        });
        let mut stream = from.namespace.run(|| connect(at)).unwrap();
        let mut bytes = vec![0; 1 << 16];
        for start in (0..BYTES).step_by(bytes.len()) {
            pattern(start, &mut bytes);
            stream.write_all(&bytes).unwrap();
        }
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(received.join().unwrap(), BYTES);
    });
}

/// Binds once the address may be used: one of IPv6 is first looked for among the neighbours.
fn bind(address: IpAddr) -> TcpListener {
    let mut patience = Patience::of(PATIENCE);
    loop {
        match TcpListener::bind((address, 0)) {
            Ok(listener) => return listener,
            Err(error) => assert!(!patience.is_over(), "{address}: {error}"),
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn connect(at: SocketAddr) -> TcpStream {
    let mut patience = Patience::of(PATIENCE);
    loop {
        match TcpStream::connect_timeout(&at, Duration::from_secs(2)) {
            Ok(stream) => return stream,
            Err(error) => assert!(!patience.is_over(), "{at}: {error}"),
        }
    }
}

/// Bytes of a frame on average, among those that left by a port.
fn frame_bytes(now: &Snapshot, name: &str) -> u64 {
    let port = port(now, name);
    port.sent_bytes / port.sent.max(1)
}

#[test]
fn long_frames_pass_three_nfs_that_take_them() {
    let Some(bed) = Bed::new("long_frames_pass_three_nfs_that_take_them", FIREWALL, INTERFACES) else {
        return;
    };
    bed.says("long frames pass whole");
    for ipv6 in [false, true] {
        bed.transfer(ipv6);
    }
    let last = bed.end();
    // Acknowledgements are among them.
    assert!(["west", "east"].iter().any(|name| frame_bytes(&last, name) > 3000), "{:#?}", last.ports);
    let counted: u64 = nf(&last, "count").counters["packets"];
    let passed: u64 = ["there", "back"].iter().map(|name| chain(&last, name).left).sum();
    assert!(counted > passed * 2, "monitor counts packets, not frames: {counted} and {passed}");
    assert!(last.memory.iter().any(|region| region.long_buffers == 512), "{:#?}", last.memory);
}

/// Hosts that cut their data themselves: what follows each other is merged, and is one packet for the chain.
#[test]
fn segments_that_hosts_cut_are_merged_for_nfs_that_take_long_frames() {
    const TEST: &str = "segments_that_hosts_cut_are_merged_for_nfs_that_take_long_frames";
    let Some(bed) = Bed::of(TEST, &configuration(FIREWALL, INTERFACES), INTERFACES, false) else { return };
    bed.says("long frames pass whole");
    for ipv6 in [false, true] {
        bed.transfer(ipv6);
    }
    // An interface that cuts nothing itself: the kernel does, and it is said.
    bed.middle.links().unwrap().set_offload("hg-right", Offload::TransmitChecksum, false).unwrap();
    let told = |now: &Snapshot| port(now, "east").long_frames.clone().unwrap_or_default();
    bed.session.wait_for("it is said", |now| told(now).contains("tso is off on hg-right"));
    bed.transfer(false);
    let last = bed.end();
    assert!(["west", "east"].iter().any(|name| frame_bytes(&last, name) > 1514), "{:#?}", last.ports);
}

#[test]
fn one_nf_that_takes_none_gets_segments() {
    let Some(bed) = Bed::new("one_nf_that_takes_none_gets_segments", "run = \"hello\"", INTERFACES) else {
        return;
    };
    bed.says("long frames are cut: NF `middle`");
    bed.transfer(false);
    let last = bed.end();
    assert!(last.memory.iter().all(|region| region.long_buffers == 0));
    assert!(port(&last, "west").received_bytes / port(&last, "west").received <= 1514);
}

#[test]
fn long_frames_pass_from_tap_to_tap() {
    let Some(bed) = Bed::new("long_frames_pass_from_tap_to_tap", FIREWALL, TAPS) else { return };
    bed.says("long frames pass whole");
    for ipv6 in [false, true] {
        bed.transfer(ipv6);
    }
    let last = bed.end();
    assert!(["west", "east"].iter().all(|name| port(&last, name).kind == "tap"));
    assert!(["west", "east"].iter().any(|name| frame_bytes(&last, name) > 3000), "{:#?}", last.ports);
}

#[test]
fn taps_give_segments_to_an_nf_that_takes_no_long_frames() {
    const TEST: &str = "taps_give_segments_to_an_nf_that_takes_no_long_frames";
    let Some(bed) = Bed::new(TEST, "run = \"hello\"", TAPS) else { return };
    bed.says("long frames are cut: NF `middle`");
    bed.transfer(false);
    let last = bed.end();
    assert!(port(&last, "west").received_bytes / port(&last, "west").received <= 1514);
}

/// Tells threads at its end, also by a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// An NF that forges headers harms the connections that pass it: those of others come through byte for
/// byte, and a frame of which no longer holds what Linux said is counted, not sent.
#[test]
fn headers_that_an_nf_forges_harm_its_own_chain() {
    const TEST: &str = "headers_that_an_nf_forges_harm_its_own_chain";
    /// Port of the connections that pass the foe.
    const THEIRS: u16 = 7001;
    let (_folder, program) = programs::for_everybody(&programs::hostile());
    let mut text = format!(
        "[[domain]]\nname = \"theirs\"\n[[nf]]\nname = \"foe\"\ncore = {{nf}}\ndomain = \"theirs\"\n\
         exec = [\"{}\", \"forged-headers\"]\n",
        program.display()
    );
    for (port, chain, out, key) in
        [("west", "forged", "east", "destination_port"), ("east", "forged-back", "west", "source_port")]
    {
        text += &format!(
            "[[chain]]\nname = \"{chain}\"\nstages = [\"foe\"]\nout = \"{out}\"\n\
             [[rule]]\nin = \"{port}\"\nprotocol = \"tcp\"\n{key} = {THEIRS}\nchain = \"{chain}\"\n"
        );
    }
    // The first rule that fits is followed.
    text += &configuration(FIREWALL, INTERFACES);
    let Some(bed) = Bed::of(TEST, &text, INTERFACES, true) else { return };
    bed.says("long frames pass whole");
    let address = bed.hosts.right.addresses.iter().find(|address| address.is_ipv4()).expect("it has one");
    let listener = bed.hosts.right.namespace.run(|| TcpListener::bind((*address, THEIRS))).unwrap().unwrap();
    listener.set_nonblocking(true).unwrap();
    let over = AtomicBool::new(false);
    let bad = |now: &Snapshot| ["west", "east"].map(|name| port(now, name).bad_offload).iter().sum::<u64>();
    thread::scope(|scope| {
        // Connections die of it: others follow.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(5));
                let _ = listener.accept().and_then(|(mut stream, _)| {
                    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
                    while stream.read(&mut [0; 1 << 16])? > 0 {}
                    Ok(())
                });
            }
        });
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let stream = bed.hosts.left.namespace.run(|| TcpStream::connect((*address, THEIRS))).unwrap();
                let _ = stream.and_then(|mut stream| {
                    stream.set_write_timeout(Some(Duration::from_millis(200)))?;
                    (0..64).try_for_each(|_| stream.write_all(&[7; 1 << 16]))
                });
            }
        });
        let _ends = Ends(&over);
        bed.session.wait_for("forged frames are found", |now| bad(now) > 50);
        bed.transfer(false);
    });
    let audited = bed.session.audited();
    assert!(audited.memory.iter().all(|region| region.missing == Some(0)), "{:#?}", audited.memory);
    for name in ["foe", "pass", "middle", "count"] {
        assert_eq!(nf(&audited, name).failures, 0, "{name}: {:?}", nf(&audited, name).last_failure);
    }
    assert!(audited.memory.len() == 2 && audited.memory.iter().all(|region| region.long_buffers > 0));
    bed.session.stop();
}
