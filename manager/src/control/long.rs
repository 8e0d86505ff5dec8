//! Frames that the kernel has not cut yet: whether a port lets them pass whole.
//!
//! The configuration says where they could ([`LongFrames`]); here NFs are asked. A port lets them pass while
//! every instance at work of every NF that they could come to has said that it takes them, and each of these
//! NFs has such an instance. One that comes to another all the same, because it was on its way meanwhile,
//! ends there.

use crate::config::Config;
use crate::config::model::{DomainId, LongFrames, Nf, PortId, Rule};

/// Returns whether long frames pass a port whole now, and a sentence on that; `None` where none come. `takes`
/// says of an NF whether all of its instances at work take them, `None` where none is at work; `has_room`
/// whether a domain has buffers for them.
pub fn treatment(
    config: &Config,
    port: PortId,
    takes: impl Fn(&Nf) -> Option<bool>,
    has_room: impl Fn(DomainId) -> bool,
) -> Option<(bool, String)> {
    let here = config.ports.get(port.index())?;
    let planned = here.long_frames.as_ref()?;
    if let LongFrames::Cut { .. } = planned {
        return Some((false, planned.to_string()));
    }
    let leads = |rule: &&Rule| rule.port.is_none_or(|one| one == port);
    let chains = config.rules.iter().filter(leads).map(|rule| &config.chains[rule.chain.index()]);
    let nfs = || chains.clone().flat_map(|chain| &chain.stages).map(|nf| &config.nfs[nf.index()]);
    let mut domains = nfs().map(|nf| nf.domain).chain([here.domain]);
    if let Some(domain) = domains.find(|domain| !has_room(*domain)) {
        let name = &config.domains[domain.index()].name;
        let why = format!("domain `{name}` was made without buffers for them; start the manager anew");
        return Some((false, format!("long frames are cut: {why}")));
    }
    for nf in nfs() {
        let why = match takes(nf) {
            Some(true) => continue,
            Some(false) => "takes none",
            None => "is not at work",
        };
        return Some((false, format!("long frames are cut: NF `{}` {why}", nf.name)));
    }
    Some((true, "long frames pass whole".to_owned()))
}
