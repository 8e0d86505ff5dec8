//! State that outlives the processes of an NF.

use headgate_shm::memory::PAGE_BYTES;

use super::super::codes::Code;
use super::super::document::{ChainTable, NfTable};
use super::super::model::{Program, Shipped, State};
use super::super::values::Environment;
use super::Resolver;

impl Resolver<'_> {
    /// The kept state of an NF; the outer `None` when it is broken. What cannot have some is refused: see
    /// [`super::compose`].
    pub(super) fn state(&mut self, table: &NfTable, program: Option<&Program>) -> Option<Option<State>> {
        let has_standby = self.standby(table);
        let Some(key) = table.state.key.as_ref() else { return Some(None) };
        let found = &table.state.found.as_ref()?.value;
        let (keep, bytes, on_change) = (found.keep.value()?, found.bytes.value()?, found.on_change.value()?);
        if !keep {
            return Some(None);
        }
        let beside = (key, "kept here");
        if let Some(external) = &table.r#box.key {
            let message = "an external program keeps its state itself: nothing of it is seen here";
            self.conflict(beside, external, message, "leave `state` out");
        }
        if let Some(instances) = table.instances.found.as_ref().filter(|at| at.value.0 > 1) {
            let message = "the state of an NF with several instances cannot be kept: while one restarts, its \
                           flows go to the others and would be in two states";
            self.conflict(beside, &instances.span, message, "leave `instances` out, or `state`");
        }
        // A standby is given the packets of the process before it, tables or none.
        let useless = if has_standby { Vec::new() } else { self.without_state(program) };
        for shipped in useless {
            let message = format!("`{shipped}` has no state that could be kept");
            self.report
                .add(Code::KeyConflict, key, message)
                .label("nothing to keep")
                .help("leave `state` out; `headgate-nfs list` names the NFs that have some");
        }
        let bytes = bytes.0.next_multiple_of(PAGE_BYTES as u64);
        Some(Some(State { bytes, on_change: *on_change, has_standby }))
    }

    /// Returns whether an NF has a standby. What cannot have one is refused.
    fn standby(&mut self, table: &NfTable) -> bool {
        let (Some(key), Some(kind)) = (&table.standby.key, table.standby.value()) else { return false };
        let keeps = table.state.found.as_ref().and_then(|at| at.value.keep.value().copied());
        if table.state.key.is_none() || keeps == Some(false) {
            self.report
                .add(
                    Code::KeyConflict,
                    key,
                    format!("a {} standby goes on with state that is kept", kind.word()),
                )
                .label("no state is kept")
                .help("add `state = { keep = true }`, or leave `standby` out");
        }
        let beside = (key, "with a standby");
        if let Some(attach) = table.attach.key.as_ref().filter(|_| table.attach.value() == Some(&true)) {
            let message = "an NF that attaches has no standby: the manager does not start its processes";
            self.conflict(beside, attach, message, "leave `standby` out, or let the manager start the NF");
        }
        if let Some(at) = &table.environment.found
            && at.value == Environment::Container
        {
            let message = "an NF in a container has no standby: a container does not wait for its turn";
            self.conflict(beside, &at.span, message, "leave `standby` out, or `environment`");
        }
        true
    }

    /// Returns the names of shipped NFs that have no state: of a fused NF only if all have none.
    fn without_state(&self, program: Option<&Program>) -> Vec<String> {
        let keeps = |shipped: &Shipped| self.known.get(&shipped.run).is_none_or(|nf| nf.keeps);
        let shipped: Vec<&Shipped> = match program {
            Some(Program::Run(shipped)) => vec![shipped],
            Some(Program::Fuse(all)) => all.iter().collect(),
            Some(Program::Exec { .. }) | None => Vec::new(),
        };
        if shipped.iter().any(|one| keeps(one)) {
            return Vec::new();
        }
        shipped.iter().map(|one| one.run.clone()).collect()
    }

    /// Refuses kept state of an NF of a chain on interfaces.
    pub(super) fn check_io_state(&mut self, nf: &NfTable, chain: &ChainTable) {
        let keeps = nf.state.value().is_some_and(|state| state.keep.value() == Some(&true));
        let (Some(io), Some(state)) = (&chain.io.key, nf.state.key.as_ref().filter(|_| keeps)) else {
            return;
        };
        let message = "the state of an NF on interfaces cannot be kept: what it sends is with the kernel before it \
                       could be committed";
        self.conflict((io, "on interfaces"), state, message, "leave `state` out, or `io`");
    }
}
