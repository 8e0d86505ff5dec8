//! From packet memory to the interface: many frames with one system call.
//!
//! TCP segments that follow each other in a burst leave as one long frame, put together in private memory
//! where an NF cannot change what was checked. A frame that came whole leaves so, with headers from a private
//! copy that was checked, and the payload from where it lies. Everything else is sent from where it lies.

use std::io;
use std::os::fd::AsRawFd as _;

use headgate_shm::{Descriptor, Region};
use headgate_wire::offload::{HEAD_BYTES, HEADER_LENGTH, HEADERS_MAX, Header, LongFrame, Segment, Train};

use super::attachment::Attachment;
use crate::frame::{self, TAG_BYTES};

/// Frames of one call. Our choice: a burst of the packet path (`BURST` of the crate `path`).
const MESSAGES: usize = 128;
/// The longest long frame: its IP packet has 65,535 bytes.
const LONG_BYTES_MAX: usize = 65_535 + HEAD_BYTES;
/// Memory for long frames of one call. Our choice: a burst of full Ethernet frames, in longest frames.
const PRIVATE_BYTES: usize = 4 * LONG_BYTES_MAX;

/// Counts of what left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) sent_bytes: u64,
    pub(super) failed: u64,
    pub(super) bad_offload: u64,
}

/// The way out.
pub(super) struct Exit {
    /// Whether segments are put together.
    joins: bool,
    /// Long frames of this call.
    private: Box<[u8]>,
    /// Used bytes of it.
    used: usize,
    virtio: Box<[[u8; HEADER_LENGTH]]>,
    /// Virtio header and headers of a frame that came whole.
    whole: Box<[u8; HEADER_LENGTH + HEADERS_MAX]>,
    /// Virtio header and frame of each message.
    pieces: Box<[[libc::iovec; 2]]>,
    messages: Box<[libc::mmsghdr]>,
    /// Packets in each message.
    packets: Box<[u16]>,
    pub(super) counts: Counts,
}

// SAFETY: the addresses in it are of its own boxes and of packets of the call that is made; outside of a call
// nobody follows them.
unsafe impl Send for Exit {}

/// What became of messages.
struct Handed {
    /// Packets that are done with, sent or lost.
    packets: usize,
    /// Whether the socket has no room for more.
    is_full: bool,
}

impl Exit {
    pub(super) fn new(joins: bool) -> Self {
        // SAFETY: all zeroes is a message without address, data and control.
        let messages = vec![unsafe { std::mem::zeroed::<libc::mmsghdr>() }; MESSAGES].into();
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let private = vec![0; if joins { PRIVATE_BYTES } else { 0 }].into();
        Self {
            joins,
            private,
            used: 0,
            virtio: vec![[0; HEADER_LENGTH]; MESSAGES].into(),
            whole: Box::new([0; HEADER_LENGTH + HEADERS_MAX]),
            pieces: vec![[nothing; 2]; MESSAGES].into(),
            messages,
            packets: vec![0; MESSAGES].into(),
            counts: Counts::default(),
        }
    }

    /// Sends packets of a region. Returns how many are done with; their buffers are the caller's.
    pub(super) fn transmit(
        &mut self,
        attachment: &Attachment,
        region: &Region,
        packets: &[Descriptor],
    ) -> usize {
        let sent_bytes_max = attachment.sent_bytes_max();
        let is_long = |packet: Descriptor| region.geometry().is_long(packet.index());
        let fits = |packet: &Descriptor| !is_long(*packet) && fits(*packet, region, sent_bytes_max);
        let mut done = 0;
        while done < packets.len() {
            let rest = &packets[done..];
            let run = rest.iter().take_while(|packet| fits(packet)).count();
            let messages = match run {
                0 if is_long(rest[0]) => self.lay_whole(region, rest[0], sent_bytes_max),
                0 => {
                    self.counts.failed += 1;
                    0
                }
                _ => self.lay_out(region, &rest[..run]),
            };
            if messages == 0 {
                done += 1;
                continue;
            }
            let handed = self.hand_over(attachment, messages, rest);
            done += handed.packets;
            if handed.is_full {
                break;
            }
        }
        done
    }

    /// Makes messages of packets, of the first of them when there are too many. Returns how many messages.
    fn lay_out(&mut self, region: &Region, packets: &[Descriptor]) -> usize {
        self.used = 0;
        let (mut at, mut number) = (0, 0);
        let mut first = self.segment_at(region, packets, 0);
        while at < packets.len() && number < MESSAGES && self.private.len() - self.used >= self.least_room() {
            let (joined, next) = match first {
                Some(first) => self.join(region, &packets[at..], first, number),
                None => (1, self.segment_at(region, packets, at + 1)),
            };
            if joined == 1 {
                self.lay_one(region, packets[at], number);
            }
            self.packets[number] = joined as u16;
            first = next;
            at += joined;
            number += 1;
        }
        number
    }

    const fn least_room(&self) -> usize {
        if self.joins { LONG_BYTES_MAX } else { 0 }
    }

    /// The TCP segment in a packet, if it may be part of a long frame.
    fn segment_at(&self, region: &Region, packets: &[Descriptor], at: usize) -> Option<Segment> {
        let packet = packets.get(at).filter(|_| self.joins)?;
        let mut head = [0; HEAD_BYTES];
        region.read(*packet, &mut head);
        Segment::of(&head, packet.length() as usize)
    }

    /// Puts together the segments that follow the first of these packets. Returns how many are one now, and
    /// the segment in the packet behind them.
    fn join(
        &mut self,
        region: &Region,
        packets: &[Descriptor],
        first: Segment,
        number: usize,
    ) -> (usize, Option<Segment>) {
        let start = self.used;
        let mut train = Train::of(first);
        let mut next = self.segment_at(region, packets, 1);
        if !next.as_ref().is_some_and(|next| train.continues(next)) {
            return (1, next);
        }
        let Some(mut end) = self.take_payload(region, packets[0], &first, start + first.headers()) else {
            return (1, next);
        };
        let mut joined = 1;
        while let Some(segment) = next.as_ref().filter(|next| train.continues(next)) {
            let Some(behind) = self.take_payload(region, packets[joined], segment, end) else { break };
            train.add(segment);
            end = behind;
            joined += 1;
            next = self.segment_at(region, packets, joined);
        }
        if joined > 1 {
            let frame = &mut self.private[start..end];
            let header = train.finish(frame);
            let (frame, bytes) = (frame.as_mut_ptr(), frame.len());
            self.lay(number, header, frame, bytes);
            self.used = end;
        }
        (joined, next)
    }

    /// Copies the payload of a segment to `at`; returns where it ends. `None` when its checksum is wrong: it
    /// leaves as it is then.
    fn take_payload(
        &mut self,
        region: &Region,
        packet: Descriptor,
        segment: &Segment,
        at: usize,
    ) -> Option<usize> {
        let headers = segment.headers() as u32;
        let payload = packet.with_extent(packet.offset() + headers, packet.length() - headers);
        let into = self.private.get_mut(at..at + payload.length() as usize)?;
        region.read(payload, into);
        segment.is_sound(into).then_some(at + into.len())
    }

    fn lay_one(&mut self, region: &Region, packet: Descriptor, number: usize) {
        let start = region.buffer(packet.index()).wrapping_add(packet.offset() as usize);
        self.lay(number, Header::default(), start, packet.length() as usize);
    }

    /// Makes a message of a frame that came whole. Returns how many: none when what NFs made of it is not
    /// what came, or when it would become frames longer than the interface carries.
    fn lay_whole(&mut self, region: &Region, packet: Descriptor, sent_bytes_max: u32) -> usize {
        let (index, offset, length) = (packet.index(), packet.offset(), packet.length() as usize);
        let (virtio, head) = self.whole.split_at_mut(HEADER_LENGTH);
        let copied = region.read(packet, head);
        let head = &mut head[..copied];
        let kept = region.word(index).and_then(|word| LongFrame::from_word(word, offset));
        let Some(Ok(leaving)) = kept.map(|long| long.leave(head, length)) else {
            self.counts.bad_offload += 1;
            return 0;
        };
        let tag = if frame::is_tagged(head) { TAG_BYTES } else { 0 };
        if leaving.frame_bytes_max > sent_bytes_max as usize + tag {
            self.counts.failed += 1;
            return 0;
        }
        virtio.copy_from_slice(&leaving.header.to_bytes());
        let payload = leaving.end - leaving.headers;
        let start = region.frame(index, offset + leaving.headers as u32, payload);
        let front = HEADER_LENGTH + leaving.headers;
        self.pieces[0] = [
            libc::iovec { iov_base: self.whole.as_mut_ptr().cast(), iov_len: front },
            libc::iovec { iov_base: start.cast(), iov_len: payload },
        ];
        let message = &mut self.messages[0].msg_hdr;
        (message.msg_iov, message.msg_iovlen) = (self.pieces[0].as_mut_ptr(), 2);
        self.packets[0] = 1;
        1
    }

    fn lay(&mut self, number: usize, header: Header, start: *mut u8, bytes: usize) {
        self.virtio[number] = header.to_bytes();
        let header =
            libc::iovec { iov_base: self.virtio[number].as_mut_ptr().cast(), iov_len: HEADER_LENGTH };
        self.pieces[number] = [header, libc::iovec { iov_base: start.cast(), iov_len: bytes }];
        let message = &mut self.messages[number].msg_hdr;
        (message.msg_iov, message.msg_iovlen) = (self.pieces[number].as_mut_ptr(), 2);
    }

    /// Has the kernel send the first `count` messages, which are of the first of these packets.
    fn hand_over(&mut self, attachment: &Attachment, count: usize, packets: &[Descriptor]) -> Handed {
        let (mut at, mut done) = (0, 0);
        while at < count {
            // SAFETY: each message has two pieces: a header of ours, and a frame in private memory or in a
            // buffer of the region, whose extent was checked when the packet came back from its NF.
            let error = match unsafe { send(attachment, &mut self.messages[at..count]) } {
                Ok(sent) => {
                    for _ in 0..sent {
                        let end = done + usize::from(self.packets[at]);
                        count_sent(&mut self.counts, &packets[done..end]);
                        (done, at) = (end, at + 1);
                    }
                    continue;
                }
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => return Handed { packets: done, is_full: true },
                // One that the interface does not carry, or any when it is down, gone or full: lost there.
                _ => {
                    self.counts.failed += u64::from(self.packets[at]);
                    done += usize::from(self.packets[at]);
                    at += 1;
                }
            }
        }
        Handed { packets: done, is_full: false }
    }
}

/// Has the kernel take messages. Returns how many it took.
///
/// # Safety
/// The pieces of each message may be read during the call.
unsafe fn send(attachment: &Attachment, messages: &mut [libc::mmsghdr]) -> io::Result<usize> {
    let sent = match attachment {
        Attachment::Sockets(sockets) => {
            let (file, count) = (sockets.sending.as_raw_fd(), messages.len() as u32);
            // SAFETY: as the caller promises.
            unsafe { libc::sendmmsg(file, messages.as_mut_ptr(), count, libc::MSG_DONTWAIT) }
        }
        // A TAP takes one with a call.
        Attachment::Tap(tap) => {
            let message = &messages[0].msg_hdr;
            // SAFETY: as the caller promises.
            let bytes = unsafe {
                libc::writev(tap.file.as_raw_fd(), message.msg_iov, message.msg_iovlen as libc::c_int)
            };
            bytes.clamp(-1, 1) as libc::c_int
        }
        Attachment::Away => return Err(io::Error::from_raw_os_error(libc::ENODEV)),
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn count_sent(counts: &mut Counts, packets: &[Descriptor]) {
    counts.sent += packets.len() as u64;
    counts.sent_bytes += packets.iter().map(|packet| u64::from(packet.length())).sum::<u64>();
}

/// Whether an interface carries a frame: one VLAN tag is beyond its MTU.
fn fits(packet: Descriptor, region: &Region, sent_bytes_max: u32) -> bool {
    let over = packet.length().saturating_sub(sent_bytes_max);
    if over == 0 {
        return true;
    }
    let mut head = [0; frame::TAG_AT + 2];
    region.read(packet, &mut head);
    over <= TAG_BYTES as u32 && frame::is_tagged(&head)
}
