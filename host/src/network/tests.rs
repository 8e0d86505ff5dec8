use std::fs;

use super::*;

#[test]
fn the_loopback_is_there_and_carries_nothing_out() {
    let loopback = find("lo").unwrap();
    assert!(!loopback.carries_default_route);
    assert_eq!(loopback.kind, None);
}

/// The kernel's own table of the main namespace, read another way.
#[test]
fn every_default_route_of_proc_is_among_ours() {
    let table = fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
    let ours = default_route_interfaces().unwrap();
    for line in table.lines().skip(1) {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let (name, destination, mask) = (columns[0], columns[1], columns[7]);
        if destination == "00000000" && mask == "00000000" {
            assert!(ours.iter().any(|interface| interface == name), "{name} is not in {ours:?}");
        }
    }
}

#[test]
fn names_the_kernel_would_not_take_never_reach_it() {
    for name in ["", ".", "..", "a/b", "a b", "sixteen-letters-", "a\0b"] {
        assert!(matches!(check_name(name), Err(NetworkError::BadName { .. })), "{name:?}");
    }
    check_name("fifteen-letters").unwrap();
}

#[test]
fn addresses_are_written_as_usual() {
    assert_eq!(Mac([2, 0, 0, 0xab, 0, 1]).to_string(), "02:00:00:ab:00:01");
}
