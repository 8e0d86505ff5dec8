//! NFs in the thread of their worker (`fused = "worker"`): what they cannot have, and what is said of them.

use super::super::codes::Code;
use super::super::document::NfTable;
use super::super::model::{Program, Shipped};
use super::super::values::FusedInto;
use super::Resolver;

/// Returns whether an NF is to live in the thread of its worker.
pub(super) fn is_resident(table: &NfTable) -> bool {
    table.fused.value() == Some(&FusedInto::Worker)
}

impl Resolver<'_> {
    /// Refuses what an NF without a process cannot have, and warns of what it means to have none.
    pub(super) fn check_resident(&mut self, table: &NfTable, program: Option<&Program>, workers: &[u32]) {
        let Some(at) = table.fused.found.as_ref().filter(|_| is_resident(table)) else { return };
        let beside = (&at.span, "in its worker");
        let others = [(&table.exec.key, "exec"), (&table.attach.key, "attach"), (&table.r#box.key, "box")];
        for (key, name) in others {
            if let Some(key) = key {
                let message =
                    format!("`{name}` is another program, and a worker calls only NFs that are shipped");
                self.conflict(
                    beside,
                    key,
                    &message,
                    "leave `fused` out, or name shipped NFs in `run` or `fuse`",
                );
            }
        }
        for (key, name) in keys_of_processes(table) {
            if let Some(key) = key {
                let message = format!("`{name}` has no effect on an NF without a process");
                let help = format!("leave `{name}` out, or `fused = \"{}\"`", at.value.word());
                self.conflict(beside, key, &message, &help);
            }
        }
        for shipped in self.with_files(program) {
            let message =
                format!("`{shipped}` reads or writes files, for which its worker would have to wait");
            let help = "leave `fused` out: it then has a process of its own";
            self.report.add(Code::KeyConflict, &at.span, message).label("in its worker").help(help);
        }
        self.check_cores_of_residents(table, workers);
        let message = "an NF in the thread of its worker has no isolation: it can read and write all memory of \
                       the manager, and while it hangs or is slow, so are all chains of that worker";
        self.report
            .add(Code::NoIsolation, &at.span, message)
            .help("leave `fused` out, and it gets a process of its own");
    }

    fn check_cores_of_residents(&mut self, table: &NfTable, workers: &[u32]) {
        let Some(chosen) = &table.core.found else { return };
        for core in &chosen.value.0.items {
            let number = core.value.0 as u32;
            if !workers.contains(&number) {
                let message = format!("core {number} has no worker that could call the NF");
                let help = "leave `core` out, or name a core of `[manager] cores`";
                self.report.add(Code::KeyConflict, &core.span, message).help(help);
            }
        }
    }

    /// Returns the names of the shipped NFs of a program that use files.
    fn with_files(&self, program: Option<&Program>) -> Vec<String> {
        let shipped: Vec<&Shipped> = match program {
            Some(Program::Run(shipped)) => vec![shipped],
            Some(Program::Fuse(all)) => all.iter().collect(),
            Some(Program::Exec { .. }) | None => Vec::new(),
        };
        let uses = |one: &&Shipped| self.known.get(&one.run).is_some_and(|nf| nf.uses_files);
        shipped.into_iter().filter(uses).map(|one| one.run.clone()).collect()
    }
}

/// Returns the keys that say something of an NF's process, as far as they are there.
fn keys_of_processes(table: &NfTable) -> [(&Option<super::super::report::Span>, &'static str); 16] {
    [
        (&table.environment.key, "environment"),
        (&table.rootfs.key, "rootfs"),
        (&table.r#loop.key, "loop"),
        (&table.yield_after.key, "yield_after"),
        (&table.state.key, "state"),
        (&table.standby.key, "standby"),
        (&table.user.key, "user"),
        (&table.processes.key, "processes"),
        (&table.memory_mib.key, "memory_mib"),
        (&table.allow.key, "allow"),
        (&table.write.key, "write"),
        (&table.priority.key, "priority"),
        (&table.policy.key, "policy"),
        (&table.nice.key, "nice"),
        (&table.slice_us.key, "slice_us"),
        (&table.rt_priority.key, "rt_priority"),
    ]
}
