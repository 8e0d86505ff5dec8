//! Drop: every way a packet can end other than leaving by a port. One line each: name, sentence.

use headgate_shm::Descriptor;

use crate::holders::Place;
use crate::worker::Worker;

macro_rules! reasons {
    ($($name:ident, $word:literal, $sentence:literal;)*) => {
        /// Why a packet ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Reason { $(#[doc = $sentence] $name),* }

        impl Reason {
            /// Every reason, in the order of the counters.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$name),*];

            /// The name in counters, tables and `--json`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// The sentence for people.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence),* }
            }
        }
    };
}

reasons! {
    Malformed,    "malformed",     "its headers contradict themselves or the frame's length";
    NoRule,       "no-rule",       "no rule sends it to a chain";
    Throttled,    "throttled",     "an NF of its chain is overloaded: shed at the head, before any work";
    DelayBound,   "delay-bound",   "its chain takes longer than its delay bound: shed at the head, before any work";
    StageFull,    "stage-full",    "the next NF already holds as many packets as its ring has places";
    StageDown,    "stage-down",    "the next NF is not running, and on_failure is drop";
    NfVerdict,    "nf-verdict",    "an NF decided to drop it";
    NfDied,       "nf-died",       "it was in the hands of an NF that died or was stopped";
    BoxKept,      "box-kept",      "a black box took it and did not give it back";
    Unasked,      "unasked",       "a black box sent it before a packet of any chain had come to it";
    NoSuchPort,   "no-such-port",  "an NF sent it to a port that does not exist";
    NoSuchStage,  "no-such-stage", "an NF sent it to a stage that its chain does not have";
    NoExit,       "no-exit",       "the chain has no port of its own and its last NF named none";
    PortFull,     "port-full",     "the port it leaves by could take no more";
    TooLong,      "too-long",      "it does not fit the buffers of the trust domain or port it goes to";
    NoBuffer,     "no-buffer",     "the trust domain or port it goes to has no free buffer";
    WorkerFull,   "worker-full",   "the ring to the worker that owns its next stage was full";
    ChainRemoved, "chain-removed", "its chain was removed while it was on its way";
    Loop,         "loop",          "NFs sent it back in its chain too often";
}

/// How many reasons there are.
pub const REASONS: usize = Reason::ALL.len();

impl Worker {
    /// Ends packets of one chain.
    #[cold]
    pub(crate) fn end(&mut self, chain: u16, region: u8, reason: Reason, packets: &[Descriptor]) {
        self.board.ended(chain, reason, packets.len() as u64);
        for packet in packets {
            self.release(region, *packet);
        }
    }

    /// Ends packets, each in its own chain.
    pub(crate) fn end_each(&mut self, region: u8, reason: Reason, packets: &[Descriptor], places: &[Place]) {
        for (packet, place) in packets.iter().zip(places) {
            self.end(place.chain(), region, reason, std::slice::from_ref(packet));
        }
    }

    /// Gives a buffer back.
    #[inline(always)]
    pub(crate) fn release(&mut self, region: u8, packet: Descriptor) {
        let store = &mut self.stores[region as usize];
        store.holders.set_place(packet.index(), Place::FREE);
        store.stack.give(packet.index());
    }
}
