//! Check that the memory that the configuration asks for is there.

use headgate_path::flows::Flows as Table;
use headgate_path::holders::{ExtrasWanted, Holders};
use headgate_shm::memory::{HUGE_PAGE_BYTES, PAGE_BYTES};
use headgate_shm::{ControlLayout, Geometry};
use serde::Serialize;

use super::super::codes::Code;
use super::super::document::{Document, MemoryTable};
use super::super::machine::Machine;
use super::super::model::{Domain, Flows, Memory, Nf};
use super::super::read::Field;
use super::super::report::Finding;
use super::super::values::Hugepages;
use super::{Resolver, items};

const MIB: u64 = 1 << 20;

/// The packet memory of one domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RegionPlan {
    /// The domain.
    pub domain: String,
    /// Its buffers.
    pub buffers: u32,
    /// Bytes from one buffer to the next: headroom, frame, alignment.
    pub stride_bytes: u32,
    /// Its buffers for frames that are not cut yet.
    #[serde(skip_serializing_if = "super::super::model::is_zero")]
    pub long_buffers: u32,
    /// Bytes of the region in whole pages.
    pub bytes: u64,
    /// Pages of 2 MiB it takes; 0 when it takes ordinary ones.
    pub huge_pages: u64,
}

/// The shape of a domain's region.
///
/// # Errors
/// A sentence, when it is more than can be named; the ranges of the document are narrower.
pub fn geometry(memory: &Memory, domain: &Domain) -> Result<Geometry, String> {
    Geometry::new(domain.buffers, memory.buffer_bytes)?.with_long(domain.long_buffers)
}

/// The regions in the order in which the manager makes them; with `auto`, each takes huge pages while
/// enough are left.
pub fn regions(memory: &Memory, domains: &[Domain], machine: &Machine) -> Vec<RegionPlan> {
    let mut free = machine.hugepages_free;
    let mut plans = Vec::with_capacity(domains.len());
    for domain in domains {
        let Ok(geometry) = geometry(memory, domain) else { continue };
        let needed = geometry.bytes().div_ceil(HUGE_PAGE_BYTES) as u64;
        let huge_pages = match memory.hugepages {
            Hugepages::Require => needed,
            Hugepages::Auto if needed <= free => needed,
            Hugepages::Auto | Hugepages::Never => 0,
        };
        free = free.saturating_sub(huge_pages);
        let page = if huge_pages > 0 { HUGE_PAGE_BYTES } else { PAGE_BYTES };
        plans.push(RegionPlan {
            domain: domain.name.clone(),
            buffers: domain.buffers,
            stride_bytes: geometry.stride(),
            long_buffers: domain.long_buffers,
            bytes: geometry.bytes().next_multiple_of(page) as u64,
            huge_pages,
        });
    }
    plans
}

/// Bytes of the control region and the directives of one instance of `nf`, in whole pages. An external
/// program has neither.
pub fn control_bytes(nf: &Nf) -> u64 {
    if nf.is_external() {
        return 0;
    }
    let region = ControlLayout::new(nf.ring).map_or(0, |layout| layout.bytes().next_multiple_of(PAGE_BYTES));
    (region + PAGE_BYTES) as u64
}

/// Bytes of the manager's records: who holds each buffer, the service headers that packets come with, and the
/// flow tables of its workers.
pub fn record_bytes(
    memory: &Memory,
    flows: &Flows,
    domains: &[Domain],
    workers: usize,
    with_headers: bool,
) -> u64 {
    let shapes = domains.iter().filter_map(|domain| geometry(memory, domain).ok());
    let wanted = ExtrasWanted { service: with_headers, ..ExtrasWanted::default() };
    let holders: usize = shapes.map(|shape| Holders::bytes_for(shape, wanted)).sum();
    // As `headgate_path::intake` makes them: the keys of all but plain IPv4 are in a smaller table.
    let flows = (flows.capacity as usize).div_ceil(workers.max(1));
    let tables = Table::<u128>::bytes_for(flows) + Table::<[u128; 3]>::bytes_for(flows.div_ceil(4));
    (holders + tables * workers.max(1)) as u64
}

impl Resolver<'_> {
    pub(super) fn fit(
        &mut self,
        document: &Document,
        memory: &Memory,
        records: u64,
        domains: &[Domain],
        nfs: &[Option<Nf>],
    ) {
        self.fit_rings(document, domains, nfs);
        let plans = regions(memory, domains, self.machine);
        let huge_pages: u64 = plans.iter().map(|plan| plan.huge_pages).sum();
        if huge_pages > self.machine.hugepages_free {
            self.refuse_huge_pages(document, huge_pages);
        }
        let regions: u64 = plans.iter().filter(|plan| plan.huge_pages == 0).map(|plan| plan.bytes).sum();
        let control: u64 = nfs.iter().flatten().map(|nf| control_bytes(nf) * nf.cores.len() as u64).sum();
        let state: u64 = nfs.iter().flatten().filter_map(|nf| nf.state).map(|state| state.bytes).sum();
        let (needed, there) = (regions + control + records + state, self.machine.memory_bytes);
        if needed > there {
            let message = format!(
                "{} MiB of memory are needed ({} for packets, {} for records and flows, {} for rings, {} \
                 for kept state) and {} are available",
                needed.div_ceil(MIB),
                regions.div_ceil(MIB),
                records.div_ceil(MIB),
                control.div_ceil(MIB),
                state.div_ceil(MIB),
                there / MIB
            );
            self.add_about_memory(document, |memory| &memory.buffers, Code::MemoryShort, message)
                .help(
                    "lower `buffers`, `buffer_bytes`, the `capacity` of [flows] or `bytes` of kept state, or use fewer \
                     domains",
                );
        }
    }

    /// A finding at a key of `[memory]`, or at its header, or about the file that has neither.
    fn add_about_memory<T>(
        &mut self,
        document: &Document,
        key: impl Fn(&MemoryTable) -> &Field<T>,
        code: Code,
        message: String,
    ) -> &mut Finding {
        match document.memory.found.as_ref().filter(|_| document.memory.key.is_some()) {
            Some(at) => {
                let field = key(&at.value).found.as_ref();
                self.report.add(code, field.map_or(&at.span, |field| &field.span), message)
            }
            None => self.report.add_about_file(code, message),
        }
    }

    fn refuse_huge_pages(&mut self, document: &Document, needed: u64) {
        let free = self.machine.hugepages_free;
        let message = format!("{needed} huge pages of 2 MiB are needed and {free} are free");
        self.add_about_memory(document, |memory| &memory.hugepages, Code::HugepagesShort, message)
            .help(format!(
                "reserve {} more with `sysctl vm.nr_hugepages`, lower `buffers`, or set `hugepages = \"auto\"`",
                needed - free
            ));
    }

    /// A ring that could hold every packet of its domain would starve the ports.
    fn fit_rings(&mut self, document: &Document, domains: &[Domain], nfs: &[Option<Nf>]) {
        for (table, nf) in items(&document.nf).iter().zip(nfs) {
            let Some(nf) = nf else { continue };
            let Some(domain) = domains.get(nf.domain.index()) else { continue };
            let span = table.value.ring.found.as_ref().map_or(&table.value.span, |ring| &ring.span);
            if nf.ring > domain.buffers {
                let message = format!(
                    "a ring of {} is larger than the {} buffers of domain `{}`",
                    nf.ring, domain.buffers, domain.name
                );
                self.report
                    .add(Code::OutOfRange, span, message)
                    .help("lower `ring`, or raise `buffers` of the domain or of [memory]");
            }
        }
    }
}
