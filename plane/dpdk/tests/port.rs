//! A DPDK device as a port like any other.

use headgate_dpdk::{Port, Spec};
use headgate_port::Queue;
use headgate_shm::{Descriptor, Geometry, PagesWanted, Region, Stack};

fn spec(device: &str) -> Spec {
    Spec { device: device.to_owned(), queues: 2, direct: true, mtu: None }
}

#[test]
fn a_device_is_a_port_like_any_other() {
    let region = Region::create("test", Geometry::new(128, 2048).unwrap(), PagesWanted::Ordinary).unwrap();
    let mut stack = Stack::new(region, 3, 0..128);
    let null = spec("net_null0,size=70,copy=1");
    assert_eq!(null.buffers_wanted().unwrap(), 0);
    let mut open = Port::open(&null, &mut stack).unwrap();
    assert_eq!(open.facts.to_string(), "net_null, into packet memory");

    let mut into = [Descriptor::default(); 32];
    for queue in &mut open.queues {
        let queue: &mut dyn Queue = queue;
        assert_eq!(queue.region(), Some(3));
        assert_eq!(queue.receive(0, &mut stack, &mut into), 32);
        assert_eq!(queue.transmit(0, &mut stack, &into), 32);
        queue.tend(0, &mut stack);
        let counters = queue.counters();
        assert_eq!((counters.received, counters.received_bytes), (32, 32 * 70));
        assert_eq!((counters.sent, counters.sent_bytes, queue.holds()), (32, 32 * 70, 0));
    }

    let refused = Port::open(&spec("net_af_packet0,iface=no-such"), &mut stack).err().unwrap();
    assert!(refused.to_string().starts_with("net_af_packet0: there is no interface"));

    drop(open.queues);
    assert!(open.port.close(&mut stack).is_ok());
    assert_eq!(stack.len(), 128);
}
