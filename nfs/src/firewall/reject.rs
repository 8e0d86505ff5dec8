//! Rejection: a packet ends, and its sender is told at once, so that it need not wait for an answer that
//! never comes.
//!
//! TCP is told with a reset, as if nobody listened (RFC 9293 §3.5.2); everything else with an ICMP error,
//! "communication administratively prohibited" (RFC 1812 §5.2.7.1, RFC 4443 §3.1). A firewall in the middle
//! of a chain has no address, so both come in the name of the packet's receiver, as Linux's `reject` does on
//! a bridge. Nothing is said where the RFCs forbid it: about errors, resets, later fragments, multicast and
//! broadcast.
//!
//! Answers are limited (RFC 1812 §4.3.2.8, RFC 4443 §2.4 f), resets as well: a flood with forged sources must
//! not become a flood of answers to them.

use headgate_nf::wire::icmp::{NoIcmpError, Problem, Sender, error_frame};
use headgate_nf::wire::vlan::Tags;
use headgate_nf::wire::{ethernet, ipv4, ipv6, tcp};
use headgate_nf::{Context, Counter, Maker, NfError, Packet, Way};
use headgate_units::{Instant, Span, TokenBucket};

/// Answers in a second, without an argument: Linux's `icmp_msgs_per_sec`.
pub(super) const RATE: u32 = 1000;
/// Answers at once: Linux's `icmp_msgs_burst`, and fewer than an NF can be lent buffers for.
const BURST: u32 = 50;
/// Bytes of the longest answer: an ICMP error over IPv6 (RFC 4443 §2.4 c) behind two VLAN tags.
const ANSWER_BYTES_MAX: usize = 1280 + 14 + 2 * 4;

/// Responder to packets that are rejected.
pub(super) struct Reject {
    maker: Maker,
    limit: TokenBucket,
    /// The answer is written here, because only then its length is known.
    answer: Box<[u8]>,
    pub(super) rejected: Counter,
    answered: Counter,
    unanswered: Counter,
}

impl Reject {
    pub(super) fn new(context: &mut Context, rate: u32) -> Result<Self, NfError> {
        Ok(Self {
            maker: context.maker(BURST)?,
            limit: TokenBucket::new(BURST.into(), rate.into()),
            answer: vec![0; ANSWER_BYTES_MAX.min(context.frame_bytes_max())].into_boxed_slice(),
            rejected: context.counter("rejected")?,
            answered: context.counter("answered")?,
            unanswered: context.counter("unanswered")?,
        })
    }

    /// Ends a packet and tells its sender, back the way it came.
    #[cold]
    pub(super) fn reject(&mut self, packet: &mut Packet<'_>, context: &Context) {
        self.rejected.add(1);
        packet.discard();
        let told = answer(packet.data(), &mut self.answer).is_ok_and(|length| {
            let may = self.limit.take(Instant(0) + Span::from(context.now()), 1);
            let back = Way::Port(packet.ingress());
            let answer = &self.answer[..length];
            may && self.maker.after(packet, back, length, |frame| frame.copy_from_slice(answer)).is_ok()
        });
        if told { &self.answered } else { &self.unanswered }.add(1);
    }
}

/// Writes the answer to a frame. Returns its length.
fn answer(frame: &[u8], out: &mut [u8]) -> Result<usize, NoIcmpError> {
    match tcp::reset_frame(frame, out) {
        Err(NoIcmpError::NotTcp) => error_frame(Problem::Prohibited, &receiver_of(frame)?, frame, out),
        answered => answered,
    }
}

/// The receiver of a frame, in whose name it is answered.
fn receiver_of(frame: &[u8]) -> Result<Sender, NoIcmpError> {
    let packet = &frame[Tags::parse(frame)?.payload_offset..];
    Ok(Sender {
        mac: ethernet::Frame::new(frame)?.destination(),
        ipv4: ipv4::Packet::new(packet).ok().map(|packet| packet.destination()),
        ipv6: ipv6::Packet::new(packet).ok().map(|packet| packet.destination()),
    })
}

#[cfg(test)]
mod tests;
