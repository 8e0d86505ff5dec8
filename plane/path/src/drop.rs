//! Drop: every way a packet can end other than leaving by a port. One line each: name, sentence.

macro_rules! reasons {
    ($($name:ident, $word:literal, $sentence:literal;)*) => {
        /// Reason for which a packet ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum DropReason { $(#[doc = $sentence] $name),* }

        impl DropReason {
            /// All reasons, in the order of the counters.
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
    NshMalformed, "nsh-malformed", "its service header or the frame behind it contradicts itself or the frame's length";
    NshVersion,   "nsh-version",   "its service header has a version other than 0";
    NshProtocol,  "nsh-protocol",  "behind its service header is no frame and no IP packet, or it is for maintenance (O bit)";
    NshTtl,       "nsh-ttl",       "the TTL of its service header is used up";
    NshNoChain,   "nsh-no-chain",  "no chain has the service path of its service header";
    NshUnknownPeer, "nsh-unknown-peer", "it came by a link between nodes, and not from the neighbour there to this node";
    NshIndex,     "nsh-index",     "its service index is that of no stage of the chain";
    NoRule,       "no-rule",       "no rule sends it to a chain";
    Throttled,    "throttled",     "an NF of its chain is overloaded: shed at the head, before any work";
    DelayBound,   "delay-bound",   "its chain takes longer than its delay bound: shed at the head, before any work";
    StageFull,    "stage-full",    "the next NF already holds as many packets as its ring has places";
    StageDown,    "stage-down",    "the next NF is not running, and on_failure is drop";
    NfVerdict,    "nf-verdict",    "an NF decided to drop it";
    NfDied,       "nf-died",       "it was in the hands of an NF that died or was stopped";
    Poison,       "poison",        "the NF died three times in a row with it as the first packet in its hands";
    BoxKept,      "box-kept",      "not returned by an external program within 500 ms";
    Unasked,      "unasked",       "sent by an external program before a packet of any chain had come to it";
    NoSuchPort,   "no-such-port",  "an NF sent it to a port that does not exist";
    NoSuchStage,  "no-such-stage", "an NF sent it to a stage that its chain does not have";
    NoSuchChain,  "no-such-chain", "an NF made it for a chain that does not visit that NF";
    NoExit,       "no-exit",       "the chain has no port of its own and its last NF named none";
    NoWay,        "no-way",        "no link that is up leads on to the node of its next stage or exit, or its tunnel is gone";
    NoHeadroom,   "no-headroom",   "there is no room in front of it for the header of its tunnel";
    Uncommitted,  "uncommitted",   "too many packets of its chain wait until they may be seen outside, or an NF of a group made it";
    LogFull,      "log-full",      "the log of its group at the gate is full, or the group has no active node yet";
    Fenced,       "fenced",        "another node is active in its group now";
    InDoubt,      "in-doubt",      "it was on its way to a gate of its group that was started again: it may have left";
    PortFull,     "port-full",     "the port it leaves by could take no more";
    TooLong,      "too-long",      "it does not fit the buffers of the trust domain or port it goes to";
    LongFrame,    "long-frame",    "an uncut frame came to an NF or port that takes none";
    NoBuffer,     "no-buffer",     "the trust domain or port it goes to has no free buffer";
    WorkerFull,   "worker-full",   "the ring to the worker that owns its next stage was full";
    ChainRemoved, "chain-removed", "its chain was removed while it was on its way";
    Loop,         "loop",          "NFs sent it back in its chain too often";
}

/// Number of reasons.
pub(crate) const DROP_REASONS: usize = DropReason::ALL.len();
