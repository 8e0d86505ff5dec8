//! Links to other nodes of a group: frames out of and into queues of ports.

use headgate_decide::replicate::Peer;
use headgate_port::{Bell, Queue};
use headgate_shm::Descriptor;
use headgate_shm::geometry::HEADROOM_BYTES;
use headgate_units::{RegionId, Ticks};
use headgate_wire::replica::{Body, ETHERTYPE, FRONT_BYTES, Frame, FrameError, HEADER_BYTES, Header, Kind};
use headgate_wire::replica::{Message, Part};

use crate::BURST;
use crate::ledger::Ledger;

use super::board::{GroupBoard, Refusal};
use super::common::Kept;
use super::fail;
use super::train::{self, PACKETS_MAX, Train};

const ETHERNET_BYTES: usize = FRONT_BYTES - HEADER_BYTES;
/// Bytes of a message that fit a frame of 1500 bytes behind the Ethernet header: what every link carries.
const BODY_BYTES: usize = 1500 - HEADER_BYTES;
/// Bytes of a part of a longer message.
pub(crate) const PART_BYTES: usize = Part::bytes_in(BODY_BYTES);

/// Address of everybody on a link: that of a peer which was not heard yet.
const BROADCAST: [u8; 6] = [0xff; 6];

/// End of a link to another node.
pub struct LinkEnd {
    /// The other node.
    pub peer: Peer,
    /// The Ethernet address of this end. That of the other is learned from its frames.
    pub address: [u8; 6],
    /// The region that its queue receives into.
    pub region: RegionId,
    /// The longest frame that it carries, in bytes.
    pub frame_bytes_max: u32,
    /// Its queue.
    pub device: Box<dyn Queue>,
}

/// End of a link, with what is known of the other.
struct End {
    link: LinkEnd,
    /// The Ethernet address of the peer.
    remote: [u8; 6],
    /// Whether frames get through, as far as is known.
    is_up: bool,
}

impl End {
    fn ethernet(&self) -> [u8; ETHERNET_BYTES] {
        let mut header = [0; ETHERNET_BYTES];
        header[..6].copy_from_slice(&self.remote);
        header[6..12].copy_from_slice(&self.link.address);
        header[12..].copy_from_slice(&ETHERTYPE.to_be_bytes());
        header
    }

    /// Learns the peer's address from a frame that it sent.
    fn learn(&mut self, frame: &[u8]) {
        self.remote = frame[6..12].try_into().unwrap_or(BROADCAST);
    }
}

/// Frame that came, its bytes copied out but for a packet, which stays in its buffer.
pub(crate) struct Received<'a> {
    pub from: Peer,
    pub header: Header,
    pub body: ReceivedBody<'a>,
}

/// Body of a frame that came.
#[expect(
    clippy::large_enum_variant,
    reason = "one comes with each frame, by value; a box would be allocated for it"
)]
pub(crate) enum ReceivedBody<'a> {
    /// A packet: its buffer is the receiver's.
    Packet(Kept),
    /// Anything else.
    Message(Message<'a>),
}

/// All links of a node.
pub(crate) struct Links {
    group: u16,
    pub configuration: u64,
    ends: Vec<End>,
    /// The longest packet that every link carries, in bytes.
    packet_bytes_max: u32,
    /// Frames as the queue gave them, and as they are without trains.
    fresh: [Descriptor; BURST],
    arrived: Vec<Descriptor>,
    /// Packets that are sent at the end of the pass, or as soon as the link takes them.
    train: Train,
    /// Bytes of a frame, read from or to be written to a buffer that others can write too.
    bytes: Box<[u8]>,
}

impl Links {
    pub fn new(group: u16, configuration: u64, ends: Vec<LinkEnd>) -> Self {
        let bytes = vec![0; usize::from(u16::MAX) + FRONT_BYTES].into_boxed_slice();
        let shortest = ends.iter().map(|link| link.frame_bytes_max).min().unwrap_or(u32::MAX);
        let packet_bytes_max = shortest.saturating_sub(FRONT_BYTES as u32);
        let end = |link| End { link, remote: BROADCAST, is_up: true };
        let ends = ends.into_iter().map(end).collect();
        let (fresh, arrived) = ([Descriptor::default(); BURST], Vec::with_capacity(BURST * PACKETS_MAX));
        Self { group, configuration, ends, packet_bytes_max, fresh, arrived, train: Train::new(), bytes }
    }

    /// Returns the number of their group.
    pub const fn group(&self) -> u16 {
        self.group
    }

    /// Takes in that a link is down, or up again: others to the same node are used meanwhile.
    pub fn set_up(&mut self, at: usize, is_up: bool) {
        if let Some(end) = self.ends.get_mut(at) {
            end.is_up = is_up;
        }
    }

    /// Returns the end by which frames go to a node: of several the first that is up.
    fn end_to(&self, to: Peer) -> Option<usize> {
        let leads = |end: &&(usize, &End)| end.1.link.peer == to;
        let mut ends = self.ends.iter().enumerate().filter(|end| leads(&end));
        let first = ends.clone().next()?;
        Some(ends.find(|(_, end)| end.is_up).unwrap_or(first).0)
    }

    /// Returns whether every link carries a packet. One that does not would be sent again for ever.
    pub const fn carry(&self, packet: Descriptor) -> bool {
        packet.length() <= self.packet_bytes_max
    }

    pub const fn count(&self) -> usize {
        self.ends.len()
    }

    /// Returns the bells of the links' queues.
    pub fn bells(&self) -> impl Iterator<Item = Bell<'_>> {
        self.ends.iter().map(|end| end.link.device.bell())
    }

    /// Returns the node that is not the gate, where this one has a link to it.
    pub fn other(&self) -> Option<Peer> {
        self.ends.iter().map(|end| end.link.peer).find(|peer| *peer != Peer::Gate)
    }

    /// Returns how many buffers of a region are in the hands of the queues.
    pub fn hold(&self, region: RegionId) -> usize {
        let here = self.ends.iter().filter(|end| end.link.region == region);
        here.map(|end| end.link.device.holds()).sum()
    }

    /// Sends what is left to be sent, and collects what came back.
    pub fn tend(&mut self, now: Ticks, ledger: &mut Ledger) {
        self.send_train(now, ledger);
        for End { link, .. } in &mut self.ends {
            link.device.tend(now.0, &mut ledger.store_mut(link.region).stack);
        }
    }

    /// Returns a header of a message of this group.
    pub const fn header(&self, kind: Kind, view: u32) -> Header {
        Header::of(kind, self.group, view)
    }

    /// Receives a burst of one of the links. Returns how many frames there are to [`Links::read`].
    pub fn receive(&mut self, now: Ticks, ledger: &mut Ledger, at: usize) -> usize {
        let end = &mut self.ends[at].link;
        let stack = &mut ledger.store_mut(end.region).stack;
        let count = end.device.receive(now.0, stack, &mut self.fresh);
        self.arrived.clear();
        for frame in &self.fresh[..count] {
            self.arrived.push(*frame);
            train::take_apart(stack, *frame, &mut self.bytes, &mut self.arrived);
        }
        self.arrived.len()
    }

    /// Reads a frame that came. Its buffer is free again where it has no packet for the receiver.
    pub fn read(
        &mut self,
        ledger: &mut Ledger,
        board: &GroupBoard,
        [at, number]: [usize; 2],
    ) -> Option<Received<'_>> {
        let LinkEnd { region, peer: from, .. } = self.ends[at].link;
        let packet = self.arrived[number];
        let memory = ledger.store(region).stack.region();
        let front = memory.read(packet, &mut self.bytes[..FRONT_BYTES]);
        if let Some((header, body)) = self.packet_in(packet, front, region) {
            if header.group != self.group {
                board.refuse(Refusal::ForeignGroup);
            } else if !fail::loses("receive", header.kind.name()) {
                self.ends[at].learn(&self.bytes);
                return Some(Received { from, header, body });
            }
            ledger.release(region, packet);
            return None;
        }
        let length = memory.read(packet, &mut self.bytes);
        ledger.release(region, packet);
        // Other protocols share the interface.
        if !is_ours(&self.bytes[..length]) {
            return None;
        }
        match read_message(&self.bytes[ETHERNET_BYTES..length]) {
            Ok((header, _)) if header.group != self.group => board.refuse(Refusal::ForeignGroup),
            Ok((header, _)) if fail::loses("receive", header.kind.name()) => {}
            Ok((header, message)) => {
                self.ends[at].learn(&self.bytes);
                return Some(Received { from, header, body: ReceivedBody::Message(message) });
            }
            Err(error) => board.refuse(refusal_of(&error)),
        }
        None
    }

    /// Returns the packet in a frame, if it has one and all of it.
    fn packet_in(
        &self,
        packet: Descriptor,
        front: usize,
        region: RegionId,
    ) -> Option<(Header, ReceivedBody<'static>)> {
        let bytes = &self.bytes[..front];
        let head = bytes.get(ETHERNET_BYTES..).filter(|_| is_ours(bytes))?.first_chunk()?;
        let (header, body) = Header::read(head).ok()?;
        if !header.kind.has_packet() || FRONT_BYTES + body > packet.length() as usize {
            return None;
        }
        let inner = packet.with_extent(packet.offset() + FRONT_BYTES as u32, body as u32).with_tag(0);
        Some((header, ReceivedBody::Packet(Kept { packet: inner, region })))
    }

    /// Sends a message. Returns whether the link took it: what is lost is sent again by who waits for an
    /// answer.
    pub fn send(
        &mut self,
        now: Ticks,
        ledger: &mut Ledger,
        to: Peer,
        header: Header,
        message: &Message,
    ) -> bool {
        if fail::loses("send", header.kind.name()) {
            return true;
        }
        let Ok(body) = message.write(&mut self.bytes[FRONT_BYTES..FRONT_BYTES + BODY_BYTES]) else {
            return false;
        };
        let Ok(front) = header.bytes(Body::Bytes(&self.bytes[FRONT_BYTES..FRONT_BYTES + body])) else {
            return false;
        };
        self.bytes[ETHERNET_BYTES..FRONT_BYTES].copy_from_slice(&front);
        self.send_bytes(now, ledger, to, FRONT_BYTES + body)
    }

    /// Sends a copy of a packet, with others of this pass. Returns whether the link takes it.
    pub fn send_copy(
        &mut self,
        now: Ticks,
        ledger: &mut Ledger,
        to: Peer,
        header: Header,
        kept: Kept,
    ) -> bool {
        if fail::loses("send", header.kind.name()) {
            return true;
        }
        let Some(at) = self.end_to(to) else { return false };
        let length = kept.packet.length() as usize;
        let Ok(header) = header.bytes(Body::Packet(length)) else { return false };
        let link = &self.ends[at].link;
        let carried = ledger.store(link.region).stack.region().geometry().frame_bytes_max();
        let frame_bytes_max = link.frame_bytes_max.min(carried) as usize;
        if !self.train.has_room(at, length, frame_bytes_max) && !self.send_train(now, ledger) {
            // One that a link does not take which is not used any more is lost, as it would be there.
            let is_left = self.train.bytes().is_some_and(|(end, _)| end != at);
            if !is_left {
                return false;
            }
            self.train.clear();
        }
        let stack = &ledger.store(kept.region).stack;
        self.train.put(at, &self.ends[at].ethernet(), &header, (stack, kept));
        true
    }

    /// Sends the packets that are to be sent. Returns whether the link took them, or there are none.
    fn send_train(&mut self, now: Ticks, ledger: &mut Ledger) -> bool {
        let Some((at, bytes)) = self.train.bytes() else { return true };
        let is_sent = transmit(&mut self.ends[at].link, now, ledger, bytes);
        if is_sent {
            self.train.clear();
        }
        is_sent
    }

    /// Sends the first bytes of the frame at hand, whose Ethernet header is yet to be written.
    fn send_bytes(&mut self, now: Ticks, ledger: &mut Ledger, to: Peer, length: usize) -> bool {
        let Some(at) = self.end_to(to) else { return false };
        let end = &mut self.ends[at];
        self.bytes[..ETHERNET_BYTES].copy_from_slice(&end.ethernet());
        transmit(&mut end.link, now, ledger, &self.bytes[..length])
    }
}

/// Sends a frame. Returns whether the link took it.
fn transmit(link: &mut LinkEnd, now: Ticks, ledger: &mut Ledger, bytes: &[u8]) -> bool {
    let stack = &mut ledger.store_mut(link.region).stack;
    if bytes.len() > stack.region().geometry().frame_bytes_max() as usize {
        return false;
    }
    let Some(index) = stack.take() else { return false };
    stack.region().write(index, HEADROOM_BYTES, bytes);
    let frame = Descriptor::new(index, HEADROOM_BYTES, bytes.len() as u32, 0);
    let is_sent = link.device.transmit(now.0, stack, &[frame]) == 1;
    if !is_sent {
        stack.give(index);
    }
    is_sent
}

fn is_ours(frame: &[u8]) -> bool {
    frame.get(12..ETHERNET_BYTES) == Some(&ETHERTYPE.to_be_bytes())
}

fn read_message(bytes: &[u8]) -> Result<(Header, Message<'_>), FrameError> {
    let frame = Frame::new(bytes)?;
    Ok((*frame.header(), Message::read(&frame)?))
}

const fn refusal_of(error: &FrameError) -> Refusal {
    match error {
        FrameError::Version(_) => Refusal::Version,
        FrameError::Crc => Refusal::Crc,
        FrameError::Truncated | FrameError::Kind(_) | FrameError::Body => Refusal::Malformed,
    }
}
