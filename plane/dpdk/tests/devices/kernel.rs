//! Devices over kernel interfaces.

use headgate_port::Queue as _;

use crate::support::{Ground, Peer, assert_close_on_exec, assert_frames, frame, frames, ip, veth, wait_for};

pub fn af_packet() {
    veth("hg0", "hg1");
    let mut ground = Ground::new(512, 2048);
    let mut packet = ground.open("net_af_packet0,iface=hg0");
    assert_eq!(packet.facts.copied, None);
    assert!(packet.facts.mac.is_some());
    assert!(packet.port.link().up);
    let peer = Peer::on("hg1");
    let there = frames(200, 1400);
    for burst in there.chunks(50) {
        burst.iter().for_each(|frame| peer.send(frame));
        assert_frames(&ground.collect(&mut packet.queues[0], burst.len()), burst);
    }
    for burst in there.chunks(50) {
        ground.send(&mut packet.queues[0], burst);
        assert_frames(&peer.receive(burst.len()), burst);
    }
    // What the host itself sends by our side of the pair is not received.
    let host = Peer::on("hg0");
    host.send(&frame(1, 60));
    peer.send(&frame(2, 60));
    assert_frames(&ground.collect(&mut packet.queues[0], 1), &[frame(2, 60)]);
    assert_eq!(packet.queues[0].receive(0, &mut ground.stack, &mut [Default::default(); 8]), 0);

    assert_close_on_exec();
    ip("link set hg1 down");
    assert!(!packet.port.link().up);
    ground.close(packet);
    ip("link del hg0");
}

pub fn af_packet_odd_frames() {
    veth("hg0", "hg1");
    for direct in [true, false] {
        let mut ground = Ground::new(512, 2048);
        let mut packet = ground.try_open("net_af_packet0,iface=hg0", 1, direct).unwrap();
        let peer = Peer::on("hg1");
        let odd = [tagged(60, 0x2064), tagged(1504, 7), fragment(0, true), fragment(1480, false)];
        for frame in &odd {
            peer.send(frame);
            assert_frames(&ground.collect(&mut packet.queues[0], 1), std::slice::from_ref(frame));
            ground.send(&mut packet.queues[0], std::slice::from_ref(frame));
        }

        // The kernel's interfaces carry what their MTU says and no more; the first two frames are
        // above it, and each end says so.
        ip("link set hg1 mtu 9000");
        ip("link set hg0 mtu 9000");
        peer.send(&frame(1, 2100));
        peer.send(&frame(2, 60));
        assert_frames(&ground.collect(&mut packet.queues[0], 1), &[frame(2, 60)]);
        assert_eq!(packet.queues[0].counters().too_long, 1);
        ip("link set hg0 mtu 1500");
        ip("link set hg1 mtu 1500");
        let long = [frame(3, 1600), frame(4, 60), frame(5, 1600)];
        ground.send(&mut packet.queues[0], &long);
        assert_eq!(packet.queues[0].counters().failed, 2);
        ground.close(packet);
    }
    ip("link del hg0");
}

fn tagged(bytes: usize, control: u16) -> Vec<u8> {
    let mut frame = frame(9, bytes);
    frame.splice(12..12, [0x81, 0, (control >> 8) as u8, control as u8]);
    frame
}

/// One of two IPv4 fragments of one datagram.
fn fragment(offset: u16, more: bool) -> Vec<u8> {
    let mut frame = frame(5, 14 + 20 + 1480);
    frame[12..14].copy_from_slice(&[8, 0]);
    let word = (offset / 8) | (u16::from(more) << 13);
    let [high, low] = word.to_be_bytes();
    let header = [0x45, 0, 0x05, 0xdc, 0, 7, high, low, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    frame[14..34].copy_from_slice(&header);
    let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&folded.to_be_bytes());
    frame
}

/// A UDP packet from `port`.
fn udp(port: u16) -> Vec<u8> {
    let mut frame = fragment(0, false);
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    frame[36..38].copy_from_slice(&53u16.to_be_bytes());
    frame
}

pub fn af_packet_two_queues() {
    veth("hg0", "hg1");
    let mut ground = Ground::new(1024, 2048);
    let mut packet = ground.try_open("net_af_packet0,iface=hg0", 2, true).unwrap();
    let peer = Peer::on("hg1");
    let mut by_queue = [0usize; 2];
    for port in 1000..1032 {
        for _ in 0..4 {
            peer.send(&udp(port));
        }
        let came = [0, 1].map(|number| {
            let mut into = [Default::default(); 8];
            let got = packet.queues[number].receive(0, &mut ground.stack, &mut into);
            ground.drop_all(&into[..got]);
            got
        });
        assert!(came == [4, 0] || came == [0, 4], "a flow stays on one queue: {came:?}");
        by_queue[0] += came[0];
        by_queue[1] += came[1];
    }
    assert!(by_queue.iter().all(|&count| count > 0), "both queues are used: {by_queue:?}");
    // What one queue sends does not come in by the other.
    ground.send(&mut packet.queues[0], &frames(10, 100));
    assert_eq!(peer.receive(10).len(), 10);
    for queue in &mut packet.queues {
        assert_eq!(queue.receive(0, &mut ground.stack, &mut [Default::default(); 8]), 0);
    }
    ground.close(packet);
    ip("link del hg0");
}

/// Linux 6.13 and later; before, the driver refuses and the error says that the interface is down.
pub fn af_packet_down_then_up() {
    veth("hg0", "hg1");
    ip("link set hg0 down");
    let mut ground = Ground::new(256, 2048);
    match ground.try_open("net_af_packet0,iface=hg0", 1, true) {
        Ok(mut packet) => {
            assert!(!packet.port.link().up && packet.facts.notes[0].contains("is down"));
            assert_eq!(packet.queues[0].receive(0, &mut ground.stack, &mut [Default::default(); 8]), 0);
            ip("link set hg0 up");
            wait_for(|| packet.port.link().up);
            let peer = Peer::on("hg1");
            peer.send(&frame(1, 60));
            assert_frames(&ground.collect(&mut packet.queues[0], 1), &[frame(1, 60)]);
            // The kernel answers the first try to send with the error of the past, and the driver does
            // not try again by itself.
            ground.send(&mut packet.queues[0], &[frame(2, 60)]);
            let _ = packet.port.losses();
            assert_frames(&peer.receive(1), &[frame(2, 60)]);
            ground.close(packet);
        }
        Err(error) => assert!(error.to_string().contains("ip link set dev hg0 up"), "{error}"),
    }
    ip("link del hg0");
}

pub fn af_packet_losses() {
    veth("hg0", "hg1");
    let mut ground = Ground::new(512, 2048);
    let mut packet = ground.open("net_af_packet0,iface=hg0,framesz=2048,blocksz=4096,framecnt=64");
    let peer = Peer::on("hg1");
    frames(100, 100).iter().for_each(|frame| peer.send(frame));
    assert_eq!(ground.collect(&mut packet.queues[0], 64).len(), 64);
    assert_eq!(packet.port.losses().missed, 36);
    assert_eq!(packet.queues[0].counters().missed, 36);
    ground.close(packet);
    ip("link del hg0");
}

pub fn af_packet_jumbo() {
    veth("hg0", "hg1");
    ip("link set hg0 mtu 9000");
    ip("link set hg1 mtu 9000");
    let mut ground = Ground::new(256, 9216);
    let mut packet = ground.open("net_af_packet0,iface=hg0");
    assert!(packet.facts.notes.is_empty() && packet.facts.frame_bytes_max >= Some(9018));
    let peer = Peer::on("hg1");
    let there = frames(20, 9014);
    there.iter().for_each(|frame| peer.send(frame));
    assert_frames(&ground.collect(&mut packet.queues[0], 20), &there);
    ground.send(&mut packet.queues[0], &there);
    assert_frames(&peer.receive(20), &there);
    ground.close(packet);
    ip("link del hg0");
}

pub fn tap() {
    let mut ground = Ground::new(512, 2048);
    let mut tap = ground.open("net_tap0,iface=hgtap0");
    assert_eq!(tap.facts.copied, None);
    let peer = Peer::on("hgtap0");
    let there = frames(100, 1400);
    there.iter().for_each(|frame| peer.send(frame));
    assert_frames(&ground.collect(&mut tap.queues[0], 100), &there);
    ground.send(&mut tap.queues[0], &there);
    assert_frames(&peer.receive(100), &there);
    // The driver would stop at a frame above the MTU.
    ground.send(&mut tap.queues[0], &[frame(1, 2000), frame(2, 60)]);
    assert_frames(&peer.receive(1), &[frame(2, 60)]);
    assert_eq!(tap.queues[0].counters().failed, 1);
    assert_close_on_exec();
    ground.close(tap);
}

pub fn af_xdp() {
    veth("hg0", "hg1");
    let mut ground = Ground::new(512, 2048);
    let mut xdp = ground.open("net_af_xdp0,iface=hg0");
    assert!(xdp.facts.copied.is_some());
    let peer = Peer::on("hg1");
    let there = frames(100, 1400);
    for burst in there.chunks(50) {
        burst.iter().for_each(|frame| peer.send(frame));
        assert_frames(&ground.collect(&mut xdp.queues[0], burst.len()), burst);
        ground.send(&mut xdp.queues[0], burst);
        assert_frames(&peer.receive(burst.len()), burst);
    }
    assert_close_on_exec();
    ground.close(xdp);
    ip("link del hg0");
}
