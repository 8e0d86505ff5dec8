//! Drop: every way a packet can end other than leaving by a port. One line each: name, sentence.

use headgate_shm::Descriptor;
use headgate_units::{ChainId, InstanceId, RegionId};

use crate::burst::Run;
use crate::holders::{Entrance, Place};
use crate::ledger::Ledger;
use crate::plan::UNCLAIMED;

macro_rules! reasons {
    ($($name:ident, $word:literal, $sentence:literal;)*) => {
        /// Reason for which a packet ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason { $(#[doc = $sentence] $name),* }

        impl DropReason {
            /// Every reason, in the order of the counters.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$name),*];

            /// Returns the name in counters, tables and `--json`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }

            /// Returns the sentence for people.
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
    BoxKept,      "box-kept",      "not returned by an external program within 500 ms";
    Unasked,      "unasked",       "sent by an external program before a packet of any chain had come to it";
    NoSuchPort,   "no-such-port",  "an NF sent it to a port that does not exist";
    NoSuchStage,  "no-such-stage", "an NF sent it to a stage that its chain does not have";
    NoSuchChain,  "no-such-chain", "an NF made it for a chain that does not visit that NF";
    NoExit,       "no-exit",       "the chain has no port of its own and its last NF named none";
    NoWay,        "no-way",        "no way leads to the node that serves its next stage, or to its tunnel";
    NoHeadroom,   "no-headroom",   "there is no room in front of it for the header of its tunnel";
    Uncommitted,  "uncommitted",   "too many packets of its chain wait at the exit until they may be seen outside";
    PortFull,     "port-full",     "the port it leaves by could take no more";
    TooLong,      "too-long",      "it does not fit the buffers of the trust domain or port it goes to";
    NoBuffer,     "no-buffer",     "the trust domain or port it goes to has no free buffer";
    WorkerFull,   "worker-full",   "the ring to the worker that owns its next stage was full";
    ChainRemoved, "chain-removed", "its chain was removed while it was on its way";
    Loop,         "loop",          "NFs sent it back in its chain too often";
}

/// Number of reasons.
pub const DROP_REASONS: usize = DropReason::ALL.len();

impl Ledger {
    /// Ends packets of one chain.
    #[cold]
    pub(crate) fn end(
        &mut self,
        chain: ChainId,
        region: RegionId,
        reason: DropReason,
        packets: &[Descriptor],
    ) {
        self.board.ended(chain, reason, packets.len() as u64);
        if self.watch.is_on() {
            self.watch.ended(reason, packets, Place::FREE.entering(Entrance::head(chain)));
        }
        packets.iter().for_each(|packet| self.release(region, *packet));
    }

    /// Ends packets, each in its own chain.
    pub(crate) fn end_run(&mut self, reason: DropReason, run: &Run) {
        for (packet, place) in run.iter() {
            self.end(place.chain(), run.region, reason, &[packet]);
        }
    }

    /// Ends packets that find an instance full. Where an NF has worked on them already that work is wasted.
    pub(crate) fn end_at_full(&mut self, instance: InstanceId, worked_on: bool, run: &Run) {
        if run.is_empty() {
            return;
        }
        let drops = &self.board.instances[instance.index()].drops;
        drops[DropReason::StageFull as usize].add(run.len() as u64);
        for place in run.places.iter().filter(|_| worked_on) {
            self.board.chains[place.chain().index()].wasted.add(1);
        }
        self.end_run(DropReason::StageFull, run);
    }

    /// Ends a packet that never came to a chain.
    #[cold]
    pub(crate) fn turn_away(&mut self, region: RegionId, reason: DropReason, packet: Descriptor) {
        self.board.chains[UNCLAIMED.index()].entered.add(1);
        self.end(UNCLAIMED, region, reason, &[packet]);
    }

    /// Gives a buffer back.
    #[inline(always)]
    pub(crate) fn release(&mut self, region: RegionId, packet: Descriptor) {
        let store = self.store_mut(region);
        store.holders.set_place(packet.index(), Place::FREE);
        store.stack.give(packet.index());
    }
}
