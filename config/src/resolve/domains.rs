//! Trust domains, and the one that exists without being defined.

use super::super::document::{Document, PortKeys};
use super::super::model::{Domain, DomainId, Nf, Port};
use super::super::read::{At, Field};
use super::super::report::Report;
use super::super::values::Name;
use super::names::Names;
use super::{Resolver, items};

/// The domain of everything that names none.
pub const DEFAULT: &str = "default";

/// The domains, and where [`DEFAULT`] stands among them.
pub struct Domains {
    /// `None` when one of them is broken.
    pub list: Option<Vec<Domain>>,
    /// The place of [`DEFAULT`], behind the defined ones unless it is one of them.
    pub default: usize,
}

impl Domains {
    /// Leaves out the default domain if the file does not define it and nobody is in it after all.
    pub(super) fn leave_out_unused(
        &mut self,
        document: &Document,
        ports: &[Option<Port>],
        nfs: &[Option<Nf>],
    ) {
        let default = self.default;
        let is_defined = default < items(&document.domain).len();
        let is_in = |domain: DomainId| domain.index() == default;
        // One that is broken could be in any.
        let is_used =
            ports.iter().any(|port| port.as_ref().is_none_or(|port| port.is_here() && is_in(port.domain)))
                || nfs.iter().any(|nf| nf.as_ref().is_none_or(|nf| is_in(nf.domain)));
        if let Some(list) = self.list.as_mut().filter(|_| !is_defined && !is_used) {
            list.truncate(default);
        }
    }
}

impl Resolver<'_> {
    pub(super) fn domains(&mut self, document: &Document, names: &Names<'_>) -> Domains {
        let defined = items(&document.domain);
        let default = names.get(DEFAULT).unwrap_or(defined.len());
        let buffers_of_all =
            document.memory.value().and_then(|memory| memory.buffers.value()).map(|buffers| buffers.0);
        let one = |table: &At<super::super::document::DomainTable>| {
            let own = &table.value.buffers;
            let buffers = if own.key.is_some() { own.value()?.0 } else { buffers_of_all? };
            let name = table.value.name.value()?.0.clone();
            let part = table.value.part.value()?.0 as u32;
            Some(Domain { name, buffers: buffers as u32, long_buffers: 0, part })
        };
        let mut list: Option<Vec<Domain>> = defined.iter().map(one).collect();
        if default == defined.len() && (is_default_used(document) || !self.links.is_empty()) {
            let domain = buffers_of_all.map(|buffers| Domain {
                name: DEFAULT.to_owned(),
                buffers: buffers as u32,
                long_buffers: 0,
                part: 1,
            });
            list = list.zip(domain).map(|(mut list, domain)| {
                list.push(domain);
                list
            });
        }
        Domains { list, default }
    }
}

fn is_default_used(document: &Document) -> bool {
    let ports = items(&document.port).iter();
    let ports = ports.filter(|at| !matches!(at.value.kind, Some(PortKeys::Elsewhere(_))));
    let ports = ports.map(|at| &at.value.common.domain);
    let nfs = items(&document.nf).iter().map(|at| &at.value.domain);
    ports.chain(nfs).any(|field| field.value().is_some_and(|name| name.0 == DEFAULT))
}

/// The domain that a port or NF is in.
pub fn domain_of(
    field: &Field<Name>,
    names: &Names<'_>,
    default: usize,
    report: &mut Report,
) -> Option<DomainId> {
    let name = field.found.as_ref()?;
    let place = if name.value.0 == DEFAULT { default } else { names.find(name, report)? };
    u16::try_from(place).ok().map(DomainId)
}
