//! Real-time NFs of a chain on packet sockets, which take more from the chain than they give.
//!
//! With packet sockets, one packet a call or many, each packet that is sent wakes the NF behind. If that one
//! goes first, it runs with a single packet, and nothing is gathered into a batch any more: half of the
//! throughput. If it does not, its queue overflows while the NF before has the core. io_uring, mapped rings
//! and AF_XDP send all of a batch before anybody runs, and gain in either order (`headgate bench scc
//! combined`).

use super::super::codes::Code;
use super::super::document::Document;
use super::super::model::{ChainIo, Config, Nf, NfId, Policy};
use super::super::values::IoDriver;
use super::{Resolver, items};

impl Resolver<'_> {
    /// Warns of real-time NFs on packet sockets that share a core with others of their chain.
    pub(super) fn warn_real_time_order(&mut self, document: &Document, config: &Config) {
        let by_call = |io: &ChainIo| io.driver == IoDriver::Packet;
        for chain in config.chains.iter().filter(|chain| chain.io.as_ref().is_some_and(by_call)) {
            let mut pairs = chain.stages.windows(2);
            let found = pairs.find_map(|pair| Some((pair[1], costly(config, [pair[0], pair[1]])?)));
            let Some((second, why)) = found else { continue };
            let real_time = |nf: &&NfId| config.nfs[nf.index()].policy.is_real_time();
            let asks = chain.stages.iter().find(real_time).map(|nf| &items(&document.nf)[nf.index()].value);
            let Some(key) = asks.and_then(|table| table.policy.key.as_ref()) else { continue };
            let (name, chain) = (&config.nfs[second.index()].name, &chain.name);
            let message =
                format!("chain `{chain}` would carry less than without real time: {}", why.about(name));
            self.report.add(Code::RealTimeOrder, key, message).help(HELP);
        }
    }
}

/// Reason why real time costs a chain more than it gains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    /// Packets are taken one by one.
    OneByOne,
    /// An NF runs before the one that it feeds.
    FeederFirst,
}

impl Cost {
    fn about(self, nf: &str) -> String {
        match self {
            Self::OneByOne => format!("packet sockets wake `{nf}` for each packet, so nothing is gathered"),
            Self::FeederFirst => {
                format!("the NF before `{nf}` works for packets that find no room in its queue")
            }
        }
    }
}

/// Cure of either.
const HELP: &str = "leave `policy` out, or set `driver = \"mapped\"` or \"xdp\" in `io`, with an `rt_priority` that \
                    rises along the chain";

/// Returns why it costs more than it gains that one NF of a pair, the second of which is fed by the first,
/// runs in real time; `None` where it does not.
fn costly(config: &Config, pair: [NfId; 2]) -> Option<Cost> {
    let [first, second] = pair.map(|nf| &config.nfs[nf.index()]);
    let shared = first.cores.iter().any(|core| second.cores.contains(core));
    let [before, behind] = [first, second].map(rank);
    match shared && before.max(behind) > 0 {
        true if behind > before => Some(Cost::OneByOne),
        true => Some(Cost::FeederFirst),
        false => None,
    }
}

/// Rank of an NF among those of its core: that of one in real time is its priority.
const fn rank(nf: &Nf) -> u8 {
    match nf.policy {
        Policy::RoundRobin { rt_priority } | Policy::Fifo { rt_priority } => rt_priority,
        Policy::Normal { .. } | Policy::Batch { .. } => 0,
    }
}
