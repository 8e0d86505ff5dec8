//! Devices that cannot be opened, and their errors.

use headgate_dpdk::{DpdkError, Port, Spec};

use crate::support::{Ground, veth};

pub fn all() {
    veth("hg0", "hg1");
    let mut ground = Ground::new(64, 2048);
    let mut error = |device: &str, queues: u16| {
        let error = ground.try_open(device, queues, true).err().unwrap_or_else(|| panic!("{device}"));
        println!("  {error}");
        ground.assert_whole();
        error
    };
    let missing = error("net_af_packet0,iface=hg7", 1);
    assert!(matches!(&missing, DpdkError::NoInterface { present, .. } if present.contains(&"hg0".into())));
    let unknown = error("net_carrier_pigeon0", 1);
    assert!(matches!(&unknown, DpdkError::NoDriver { drivers, .. } if drivers.contains(&"net_tap".into())));
    assert!(matches!(error("net_af_packet0", 1), DpdkError::BadDevargs { .. }));
    assert!(matches!(error("net_af_packet0,iface=hg0,qpairs=4", 2), DpdkError::BadDevargs { .. }));
    assert!(matches!(error("net_null0,size", 1), DpdkError::BadDevargs { .. }));
    assert!(matches!(error("net_null0,speed=fast", 1), DpdkError::Refused { .. }));
    assert!(matches!(error("net_ring0", 200), DpdkError::TooFewQueues { .. }));
    assert!(matches!(error("net_pcap0,rx_pcap=/no/such.pcap", 1), DpdkError::Refused { .. }));
    assert!(matches!(error("net_pcap0,rx_pcap=x,infinite_rx=1", 1), DpdkError::BadDevargs { .. }));
    assert!(matches!(error("0000:00:05.0", 1), DpdkError::NoPci { .. }));
    let null = ground.open("net_null0");
    let again = ground.try_open("net_null0", 1, true).err();
    assert!(matches!(again, Some(DpdkError::OpenAlready { .. })));
    ground.close(null);

    let spec = |mtu, device: &str| Spec { device: device.into(), queues: 1, direct: true, mtu: Some(mtu) };
    let mut open = |spec: Spec| Port::open(&spec, &mut ground.stack).err().map(|error| error.to_string());
    let small = open(spec(9000, "net_null0")).unwrap();
    assert!(small.contains("raise memory.buffer_bytes to at least 9018"), "{small}");
    let other = open(spec(1400, "net_af_packet0,iface=hg0")).unwrap();
    assert!(other.contains("ip link set dev hg0 mtu 1400"), "{other}");

    // tap takes a buffer for each queue.
    let all: Vec<u32> = ground.stack.take_many(64).collect();
    let starved = ground.try_open("net_tap3,iface=hgtap3", 1, true).err().unwrap();
    assert!(matches!(starved, DpdkError::NoBuffers { given: 0, .. }), "{starved}");
    all.into_iter().for_each(|index| ground.stack.give(index));
    ground.assert_whole();
    crate::support::ip("link del hg0");
}
