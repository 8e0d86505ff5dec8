use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::*;
use crate::testing::skip;

/// Longest wait for what the kernel does in the background; not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// A fresh middle with both hosts, or the printed reason why not.
fn hosts() -> Option<(Namespace, Namespaces)> {
    let make = || {
        let middle = Namespace::new()?;
        let hosts = Namespaces::new(&middle)?;
        Ok((middle, hosts))
    };
    match make() {
        Ok(made) => Some(made),
        Err(error @ NamespaceError::NotPermitted { .. }) => {
            skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn names(namespace: &Namespace) -> Vec<String> {
    let interfaces = namespace.links().unwrap().interfaces().unwrap();
    interfaces.into_iter().map(|interface| interface.name).collect()
}

fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < PATIENCE, "{what} did not happen");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Echoes one TCP connection and one UDP datagram from the right back to the left.
fn converse(hosts: &Namespaces, address: IpAddr) {
    let local = SocketAddr::new(address, 0);
    let right = &hosts.right.namespace;
    let listener = right.run(|| TcpListener::bind(local)).unwrap().unwrap();
    let datagrams = right.run(|| UdpSocket::bind(local)).unwrap().unwrap();
    let stream_address = listener.local_addr().unwrap();
    let datagram_address = datagrams.local_addr().unwrap();
    // More than one packet of TCP, so that segments are cut and checksums written.
    let sent = vec![7; 100_000];
    thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            stream.write_all(&received).unwrap();
        });
        let talk = || {
            let mut stream = TcpStream::connect(stream_address).unwrap();
            stream.write_all(&sent).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut echoed = Vec::new();
            stream.read_to_end(&mut echoed).unwrap();
            assert!(echoed == sent);
            let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let socket = UdpSocket::bind(any).unwrap();
            socket.send_to(b"ping", datagram_address).unwrap();
        };
        hosts.left.namespace.run(talk).unwrap();
        let mut buffer = [0; 16];
        datagrams.set_read_timeout(Some(PATIENCE)).unwrap();
        let (length, from) = datagrams.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], hosts.left.addresses.contains(&from.ip())), (&b"ping"[..], true));
    });
}

#[test]
fn hosts_speak_through_a_bridge_in_the_middle() {
    let Some((middle, hosts)) = hosts() else { return };
    let mut links = middle.links().unwrap();
    links.add_bridge("bridge", &["hg-left", "hg-right"]).unwrap();
    let bridge_forwards = || {
        let find = |name| middle.links().unwrap().find(name).unwrap();
        find("hg-left").has_carrier && find("hg-right").has_carrier && find("bridge").has_carrier
    };
    eventually("carrier on the bridge", bridge_forwards);
    for &address in &hosts.right.addresses {
        converse(&hosts, address);
    }
}

#[test]
fn without_anything_in_the_middle_nothing_passes() {
    let Some((_middle, hosts)) = hosts() else { return };
    let target = SocketAddr::new(hosts.right.addresses[0], 9);
    let patience = Duration::from_millis(100);
    let connect = || TcpStream::connect_timeout(&target, patience).is_err();
    assert!(hosts.left.namespace.run(connect).unwrap());
}

#[test]
fn frames_leave_the_hosts_finished() {
    let Some((_middle, hosts)) = hosts() else { return };
    let mut links = hosts.left.namespace.links().unwrap();
    let inside = hosts.left.interface;
    for on in [false, true] {
        links.set_offload(inside, Offload::TransmitVlan, on).unwrap();
        assert_eq!(links.offload(inside, Offload::TransmitVlan).unwrap(), on);
    }
    for offload in [Offload::TransmitChecksum, Offload::TransmitSegmentation] {
        assert!(!links.offload(hosts.left.interface, offload).unwrap(), "{}", offload.name());
    }
    links.set_offload(hosts.left.interface, Offload::TransmitChecksum, true).unwrap();
    assert!(links.offload(hosts.left.interface, Offload::TransmitChecksum).unwrap());
}

#[test]
fn with_its_hosts_the_cables_vanish() {
    let Some((middle, hosts)) = hosts() else { return };
    assert_eq!(names(&middle), ["lo", "hg-left", "hg-right"]);
    let interfaces = middle.links().unwrap().interfaces().unwrap();
    assert!(interfaces.iter().all(|interface| !interface.carries_default_route));
    drop(hosts);
    eventually("the cables' end", || names(&middle) == ["lo"]);
}

#[test]
fn a_host_with_a_gateway_has_a_default_route() {
    let middle = match Namespace::new() {
        Ok(middle) => middle,
        Err(error) => return skip(&error.to_string()),
    };
    let mut plan = Plan::default();
    plan.left.gateways = vec!["192.0.2.2".parse().unwrap(), "2001:db8::2".parse().unwrap()];
    plan.mtu = 9000;
    let hosts = Namespaces::planned(&middle, &plan).unwrap();
    let inside = hosts.left.namespace.links().unwrap().find("eth0").unwrap();
    assert!(inside.carries_default_route);
    assert_eq!((inside.mtu, inside.mac), (9000, Some(plan.left.mac)));
    assert_eq!(inside.kind.as_deref(), Some("veth"));
    let defaults = hosts.left.namespace.run(crate::network::default_route_interfaces);
    assert_eq!(defaults.unwrap().unwrap(), ["eth0"]);
    let other = hosts.right.namespace.links().unwrap().find("eth0").unwrap();
    assert!(!other.carries_default_route);
}

#[test]
fn commands_run_inside_and_nowhere_else() {
    let Some((_middle, hosts)) = hosts() else { return };
    let outside = std::fs::read_link(OWN_NAMESPACE).unwrap();
    let mut command = hosts.left.namespace.command("readlink").unwrap();
    let output = command.arg("/proc/self/ns/net").output().unwrap();
    let inside = String::from_utf8(output.stdout).unwrap();
    assert!(inside.starts_with("net:["), "{inside}");
    assert_ne!(inside.trim(), outside.to_str().unwrap());
    assert_eq!(std::fs::read_link(OWN_NAMESPACE).unwrap(), outside);
}

#[test]
fn refusals_name_the_thing_and_the_cure() {
    let Some((middle, _hosts)) = hosts() else { return };
    let mut links = middle.links().unwrap();
    let missing = links.set_up("eth7").unwrap_err().to_string();
    assert_eq!(missing, "there is no interface \"eth7\": there are lo, hg-left, hg-right; name one of these");
    let twice = Namespaces::new(&middle).unwrap_err().to_string();
    assert!(twice.starts_with("cannot make the veth pair eth0 and hg-left: "), "{twice}");
    let long = links.add_bridge("a-name-of-sixteen", &[]).unwrap_err();
    assert!(matches!(long, NetworkError::BadName { .. }), "{long}");
    let unreachable = "198.51.100.1".parse().unwrap();
    let route = links.add_route(IpAddr::from([0; 4]), 0, unreachable).unwrap_err().to_string();
    assert!(route.contains("the kernel says: "), "{route}");
    let jumbo = links.set_mtu("hg-left", 100_000).unwrap_err().to_string();
    assert!(jumbo.starts_with("cannot set the MTU of hg-left to 100000: "), "{jumbo}");
}

#[test]
fn without_the_right_it_says_which() {
    let result = thread::spawn(|| {
        crate::testing::drop_capabilities();
        Namespace::new()
    });
    let error = result.join().unwrap().unwrap_err().to_string();
    assert!(error.ends_with("this takes CAP_SYS_ADMIN; run as root"), "{error}");
}

#[test]
fn a_neighbour_that_was_told_is_known_for_good() {
    let Some((_middle, hosts)) = hosts() else { return };
    let gateway = IpAddr::from([192, 0, 2, 99]);
    let mac = Mac([2, 0, 0, 0, 9, 9]);
    let left = &hosts.left.namespace;
    left.links().unwrap().add_neighbour(hosts.left.interface, gateway, mac).unwrap();
    let table = left.run(|| std::fs::read_to_string("/proc/thread-self/net/arp")).unwrap().unwrap();
    let line = table.lines().find(|line| line.starts_with("192.0.2.99 ")).unwrap();
    // ATF_PERM and ATF_COM of linux/if_arp.h.
    assert!(line.contains("0x6") && line.contains("02:00:00:00:09:09"), "{line}");
}

#[test]
fn a_listener_is_found_in_the_kernels_table() {
    let table = "\
  sl  local_address rem_address   st tx_queue rx_queue
   0: 0A6433C6:1451 00000000:0000 0A 00000000:00000000
   1: 0A6433C6:0016 0A0200C0:8DE2 01 00000000:00000000
";
    assert!(listens(table, 5201));
    assert!(!listens(table, 22));
    assert!(!listens(table, 80));
}
