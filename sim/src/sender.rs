//! A sender of TCP: how many packets its window lets come, as what became of the last ones tells it.
//!
//! Slow start and congestion avoidance (RFC 5681) with a window of packets, in which losses are known one by
//! one (RFC 6675): what was lost is told a round trip after it would have been. A loss, or a mark of a packet
//! that can be marked (RFC 3168), halves the window, once for each window that was under way. Not there:
//! timeouts, delayed and lost acknowledgements, pacing, and losses of what was sent again.

use std::collections::VecDeque;

use headgate_decide::units::{Instant, Span};

/// The window of a sender that begins, in packets (RFC 6928).
const FIRST: f64 = 10.0;
/// The least window, in packets: with fewer nothing would tell of a loss but a timeout.
const LEAST: f64 = 2.0;

/// What became of packets of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// They left the chain.
    Left,
    /// They left it marked.
    Marked,
    /// They ended.
    Lost,
}

/// A sender.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// Nanoseconds that a packet takes on its link, and the time until an acknowledgement is back.
    packet_ns: f64,
    rtt: Span,
    most: f64,
    window: f64,
    /// The window from which on it grows by a packet for each round trip.
    threshold: f64,
    /// Packets sent, ever, those of them of which nothing is known yet, and those that were sent when the
    /// window was halved last.
    sent: u64,
    under_way: u64,
    halved_at: u64,
    /// Packets of which something was told, ever.
    told: u64,
    /// From when on its link is free.
    free_at: f64,
    news: VecDeque<(Instant, u32, Fate)>,
}

impl Sender {
    pub(crate) fn new(rate: u64, rtt: Span, window: u32) -> Self {
        let most = f64::from(window).max(LEAST);
        Self {
            packet_ns: 1e9 / rate.max(1) as f64,
            rtt,
            most,
            window: FIRST.min(most),
            threshold: most,
            sent: 0,
            under_way: 0,
            halved_at: 0,
            told: 0,
            free_at: 0.0,
            news: VecDeque::new(),
        }
    }

    /// Takes in what became of packets at a moment: it hears of it a round trip later.
    pub(crate) fn hear(&mut self, now: Instant, packets: u32, fate: Fate) {
        let at = now + self.rtt;
        match self.news.back_mut() {
            Some(last) if (last.0, last.2) == (at, fate) => last.1 += packets,
            _ => self.news.push_back((at, packets, fate)),
        }
    }

    /// Returns how many packets it has sent by now, ever.
    pub(crate) fn sent_by(&mut self, now: Instant) -> u64 {
        while let Some((at, packets, fate)) = self.news.pop_front_if(|(at, ..)| at.is_due(now)) {
            self.send_until(at);
            self.learn(packets, fate);
        }
        self.send_until(now);
        self.sent
    }

    /// Returns when the next packet comes, or something is heard of others; `None`: never.
    pub(crate) fn next(&self) -> Option<Instant> {
        let packet = (self.room() > 0).then(|| Instant((self.free_at + self.packet_ns).ceil() as u64));
        packet.into_iter().chain(self.news.front().map(|(at, ..)| *at)).min()
    }

    const fn room(&self) -> u64 {
        (self.window as u64).saturating_sub(self.under_way)
    }

    fn send_until(&mut self, now: Instant) {
        let now = now.0 as f64;
        // What could have been sent while there was no room for it is not made up for.
        let room = self.room();
        let fits = ((now - self.free_at) / self.packet_ns).max(0.0) as u64;
        let packets = room.min(fits);
        self.free_at += packets as f64 * self.packet_ns;
        if packets == room {
            self.free_at = self.free_at.max(now);
        }
        (self.sent, self.under_way) = (self.sent + packets, self.under_way + packets);
    }

    fn learn(&mut self, packets: u32, fate: Fate) {
        self.under_way = self.under_way.saturating_sub(u64::from(packets));
        self.told += u64::from(packets);
        if fate != Fate::Left {
            if self.told > self.halved_at {
                self.window = (self.window / 2.0).max(LEAST);
                (self.threshold, self.halved_at) = (self.window, self.sent);
            }
        } else if self.window < self.threshold {
            self.window += f64::from(packets);
        } else {
            self.window += f64::from(packets) / self.window;
        }
        self.window = self.window.min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(1);

    fn at(us: u64) -> Instant {
        Instant(us * 1_000)
    }

    #[test]
    fn the_window_doubles_each_round_trip_until_a_loss_halves_it_once() {
        let mut sender = Sender::new(100_000_000, RTT, 10_000);
        let mut before = 0;
        for (round, wanted) in [10, 20, 40, 80].into_iter().enumerate() {
            let now = at(1_000 * round as u64 + 900);
            let sent = sender.sent_by(now);
            assert_eq!(sent - before, wanted, "{round}");
            sender.hear(at(1_000 * round as u64), (sent - before) as u32, Fate::Left);
            before = sent;
        }
        // Three losses of one window halve it once.
        assert_eq!(sender.sent_by(at(4_900)) - before, 160);
        for (packets, fate) in [(1, Fate::Lost), (100, Fate::Left), (2, Fate::Lost), (57, Fate::Left)] {
            sender.hear(at(5_000), packets, fate);
        }
        sender.sent_by(at(6_100));
        assert!((79.0..=84.0).contains(&sender.window), "{sender:?}");
        // A mark of the next window halves it again.
        sender.hear(at(6_200), 80, Fate::Marked);
        sender.sent_by(at(7_300));
        assert!((39.0..=43.0).contains(&sender.window), "{sender:?}");
    }

    #[test]
    fn it_is_no_faster_than_its_link_and_sends_nothing_that_is_not_announced() {
        let mut sender = Sender::new(1_000_000, RTT, 64);
        assert_eq!([sender.sent_by(at(3)), sender.sent_by(at(1_000))], [3, 10]);
        assert_eq!(sender.next(), None, "it has sent what it may and heard nothing");
        sender.hear(at(1_000), 10, Fate::Left);
        let mut now = at(1_000);
        while let Some(next) = sender.next().filter(|next| *next < at(3_000)) {
            assert!(next > now);
            let before = sender.sent;
            assert_eq!(sender.sent_by(Instant(next.0 - 1)), before);
            sender.sent_by(next);
            now = next;
        }
        assert_eq!(sender.sent, 30);
    }
}
