//! Every driver that can be had without hardware, with real packets.
//!
//! One test, because DPDK's environment layer starts once in a process and its devices have names.

mod failures;
mod kernel;
mod support;
mod virtual_devices;

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn devices_carry_packets_and_return_buffers() {
    // SAFETY: a plain call.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: opening devices over kernel interfaces needs root");
        return;
    }
    if let Some(socket) = std::env::var_os(virtual_devices::MEMIF_SOCKET) {
        return virtual_devices::memif_peer(Path::new(&socket));
    }
    if let Err(error) = support::enter_new_network() {
        println!("skipped: no network namespace of our own: {error}");
        return;
    }
    let (huge_pages_before, processors_before) = (free_huge_pages(), processors_of_threads());
    let cases: &[(&str, fn())] = &[
        ("null makes and takes packets", virtual_devices::null),
        ("null, copied", virtual_devices::null_copied),
        ("null, two queues and two stacks", virtual_devices::null_two_queues),
        ("pcap in comes out the same", virtual_devices::pcap),
        ("ring returns what it was sent", virtual_devices::ring),
        ("memif joins two processes", virtual_devices::memif),
        ("af_packet over veth", kernel::af_packet),
        ("af_packet: tags, fragments, long frames", kernel::af_packet_odd_frames),
        ("af_packet: two queues keep flows together", kernel::af_packet_two_queues),
        ("af_packet: an interface that comes up later", kernel::af_packet_down_then_up),
        ("af_packet counts what the kernel drops", kernel::af_packet_losses),
        ("af_packet carries jumbo frames", kernel::af_packet_jumbo),
        ("tap", kernel::tap),
        ("af_xdp over veth", kernel::af_xdp),
        ("what cannot be opened says why", failures::all),
    ];
    for (name, case) in cases {
        println!("{name}");
        let start = std::time::Instant::now();
        case();
        println!("  ({:.1} s)", start.elapsed().as_secs_f64());
    }
    assert!(!Path::new(&format!("/var/run/dpdk/headgate-{}", std::process::id())).exists());
    assert_eq!(free_huge_pages(), huge_pages_before, "no huge page is taken");
    assert_eq!(processors_of_threads(), processors_before, "no thread is pinned");
}

fn free_huge_pages() -> String {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
    memory.lines().filter(|line| line.starts_with("HugePages")).collect()
}

/// The sets of processors that threads of this process may run on.
fn processors_of_threads() -> BTreeSet<String> {
    let status = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status")).ok();
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten().filter_map(status);
    let allowed =
        |text: String| text.lines().find(|line| line.starts_with("Cpus_allowed_list")).map(str::to_owned);
    threads.filter_map(allowed).collect()
}
