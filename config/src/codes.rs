//! Every way a configuration can be wrong: one line each.
//!
//! The code is what `headgate check --json` prints and what `docs/guide/configuration.md` lists;
//! a test keeps the guide's list equal to this one. Codes are stable: scripts match on them.

use serde::Serialize;

/// Whether a finding keeps the manager from starting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is accepted, and probably not what its writer meant.
    Warning,
}

macro_rules! codes {
    ($($severity:ident $code:ident $name:literal $sentence:literal;)+) => {
        /// The kind of one finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $sentence] $code,)+
        }

        impl Code {
            /// Every code, in the order of the guide.
            pub const ALL: &[Self] = &[$(Self::$code,)+];

            /// The name in `error[name]` and in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$code => $name,)+ }
            }

            /// Returns the severity: an error refuses the file, a warning does not.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$code => Severity::$severity,)+ }
            }

            /// Returns the meaning in one sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$code => $sentence,)+ }
            }
        }
    };
}

codes! {
    Error Unreadable "unreadable" "The file cannot be read, or is not UTF-8 text.";
    Error Syntax "syntax" "The text is neither TOML nor JSON.";
    Error DuplicateKey "duplicate-key" "A key stands twice in one table.";
    Error UnknownKey "unknown-key" "A table has a key that means nothing there.";
    Error MissingKey "missing-key" "A table lacks a key that has no default.";
    Error WrongType "wrong-type" "A value has the wrong type.";
    Error BadValue "bad-value" "A value is of the right type and cannot be understood.";
    Error OutOfRange "out-of-range" "A value is understood and lies outside what is possible.";
    Error KeyConflict "key-conflict" "Two keys contradict each other, or a key has no effect beside another.";
    Error ReservedName "reserved-name" "A name has a meaning of its own.";
    Error DuplicateName "duplicate-name" "Two ports, NFs, chains, domains, nodes or groups have one name.";
    Error UnknownNf "unknown-nf" "`run` names an NF that Headgate does not ship.";
    Error UnknownArgument "unknown-argument" "`args` has a key that the shipped NF does not know.";
    Error MissingArgument "missing-argument" "`args` lacks a key that the shipped NF needs.";
    Error ArgumentsRefused "arguments-refused" "The shipped NF does not take its `args`.";
    Error UndefinedPort "undefined-port" "A port is named that the file does not define.";
    Error UndefinedNf "undefined-nf" "A chain names an NF that the file does not define.";
    Error UndefinedChain "undefined-chain" "A rule names a chain that the file does not define.";
    Error UndefinedDomain "undefined-domain" "A trust domain is named that the file does not define.";
    Error ChainWithoutEnd "chain-without-end" "A chain has no `out`.";
    Error EmptyChain "empty-chain" "A chain has no stage.";
    Error RepeatedStage "repeated-stage" "A chain visits one NF twice.";
    Error PathTwice "path-twice" "Two chains have one service path.";
    Error MtuShort "mtu-short" "Packets with a service header, or on their way between nodes, would be longer than the port or link carries.";
    Error PortDirection "port-direction" "Packets are taken from a port that has none, or sent to a port that takes none.";
    Error DeviceTwice "device-twice" "Two ports or links of a node have one device.";
    Error FileTwice "file-twice" "A capture is written by two ports, or written and read.";
    Error FileMissing "file-missing" "A file or folder that must exist does not.";
    Error ProgramMissing "program-missing" "A program that a part of the configuration takes is not installed.";
    Error DefaultRoute "default-route" "A port would take the interface of the machine's default route.";
    Error RuleImpossible "rule-impossible" "The conditions of a rule exclude each other.";
    Error CoreMissing "core-missing" "This machine has no such core, or Headgate may not use it.";
    Error MemoryShort "memory-short" "The packet memory does not fit into this machine.";
    Error HugepagesShort "hugepages-short" "Huge pages are required and too few are free.";
    Error TooMany "too-many" "There are more of something than the packet path can count.";
    Error UndefinedNode "undefined-node" "A node is named that the file does not define.";
    Error NodeUnsaid "node-unsaid" "The file has nodes, and it is not said which one something is at.";
    Error NodeParts "node-parts" "The nodes that a chain, a link or a group names do not fit together.";
    Error GroupSplit "group-split" "An NF is visited by chains that are not all in one group.";
    Error NotProtected "not-protected" "A group has a chain or an NF that it cannot keep through a failure.";
    Error LinkMissing "link-missing" "Two nodes of a group have no link, or no way leads from one node of a chain to another.";
    Error LinkAddresses "link-addresses" "The addresses of a link do not fit together, or are those of another link.";
    Error LogShort "log-short" "The log of a group is shorter than what it has to hold.";
    Error NotModelled "not-modelled" "The simulator does not model this.";
    Warning OneMachine "one-machine" "The file is for several nodes, and all of it runs on this machine.";
    Warning RuleCovered "rule-covered" "An earlier rule takes every packet of this one.";
    Warning ChainUnused "chain-unused" "No rule leads to this chain.";
    Warning NfUnused "nf-unused" "No chain visits this NF.";
    Warning PortUnused "port-unused" "No rule takes packets from this port and no chain ends at it.";
    Warning PortUnclaimed "port-unclaimed" "No rule takes packets from this port, so what comes in there is dropped.";
    Warning NothingMoves "nothing-moves" "The file has no chain, or no rule, so no packet will move.";
    Warning PortFaulty "port-faulty" "A port loses, delays or changes packets on purpose.";
    Warning MemoryShared "memory-shared" "Packets lie in memory of NFs that their chain does not visit.";
    Warning InterfaceMissing "interface-missing" "An interface that a port takes is not there.";
    Warning OffloadsLost "offloads-lost" "A DPDK driver on an interface of the kernel loses frames that the kernel leaves uncut.";
    Warning DomainUnused "domain-unused" "No port and no NF is in this trust domain.";
    Warning CorePolled "core-polled" "A polling NF is put on the core of a worker.";
    Warning CoreShared "core-shared" "An NF shares the core of a worker although other cores are there.";
    Warning SleepShort "sleep-short" "Workers are to sleep until something rings, and something does not.";
    Warning PollersShare "pollers-share" "A polling NF shares its core with other NFs.";
    Warning CoreOutsideMask "core-outside-mask" "A core is named that the affinity mask of this process does not hold.";
    Warning PolicyRefused "policy-refused" "The kernel refuses this process the scheduling that is asked for.";
    Warning RealTimeLimited "real-time-limited" "The kernel takes a core from real-time tasks for a part of each second.";
    Warning RealTimeOrder "real-time-order" "Real-time NFs of a chain on packet sockets take more from it than they give.";
    Warning StateNotKept "state-not-kept" "An NF of a group begins with empty state where the standby takes over.";
    Warning NoIsolation "no-isolation" "An NF runs in the thread of its worker, where nothing protects the manager from it.";
    Warning NfAsRoot "nf-as-root" "An NF runs as root, so its trust domain protects nobody.";
    Warning ModelledIdeal "modelled-ideal" "The simulator takes this to be better than it may be.";
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
