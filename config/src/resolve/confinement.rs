//! Resolution of confinement: limits, permissions, and the files that an NF writes.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use super::super::codes::Code;
use super::super::document::NfTable;
use super::super::model::{Confinement, Program};
use super::super::values::Environment;
use super::{Purpose, Resolver};

impl Resolver<'_> {
    /// The limits and permissions of an NF, which hold for its processes no matter who starts them; files and
    /// permissions are held only where the manager does.
    pub(super) fn confinement(&mut self, table: &NfTable, program: Option<&Program>) -> Option<Confinement> {
        if program.is_none() {
            self.refuse_permissions(table);
        }
        let mut write = self.writable(table);
        write.extend(program.into_iter().flat_map(|program| self.written(program)));
        let allow = table
            .allow
            .found
            .as_ref()
            .map_or_else(Vec::new, |list| list.value.items.iter().map(|at| at.value).collect());
        Some(Confinement {
            processes: table.processes.value()?.0 as u32,
            memory_bytes: table.memory_mib.value().map(|mib| mib.0 << 20),
            allow,
            write,
        })
    }

    /// Refuses permissions of an NF whose processes others start.
    fn refuse_permissions(&mut self, table: &NfTable) {
        for (key, name) in [(&table.allow.key, "allow"), (&table.write.key, "write")] {
            if let (Some(attach), Some(key)) = (&table.attach.key, key) {
                let message = format!("`{name}` has no effect on an NF that the manager does not start");
                let help =
                    format!("leave `{name}` out; the service that starts the process says what it may do");
                self.conflict((attach, "attaches"), key, &message, &help);
            }
        }
    }

    /// The folders that the file lets an NF write to.
    fn writable(&mut self, table: &NfTable) -> Vec<PathBuf> {
        let is_contained = table.environment.value() == Some(&Environment::Container);
        let mut write = Vec::new();
        for at in table.write.found.iter().flat_map(|list| &list.value.items) {
            // A container has other folders than the machine.
            let path = match is_contained {
                true => PathBuf::from(&at.value.0),
                false => self.file(&at.value.0, &at.span, Purpose::Writable),
            };
            if is_contained && !path.is_absolute() {
                let message = format!("`{}` does not say where in the container it is", at.value.0);
                let help = "write the path as the container sees it";
                self.report.add(Code::BadValue, &at.span, message).help(help);
            }
            write.push(path);
        }
        write
    }

    /// The folders of the files that shipped NFs are told to write.
    fn written(&self, program: &Program) -> Vec<PathBuf> {
        let of = |run: &str, args: &Map<String, Json>| {
            let nf = self.known.get(run)?;
            let path = Path::new(args.get(nf.writes.as_ref()?)?.as_str()?);
            Some(path.parent().filter(|folder| !folder.as_os_str().is_empty())?.to_owned())
        };
        match program {
            Program::Run(shipped) => of(&shipped.run, &shipped.args).into_iter().collect(),
            Program::Fuse(members) => members.iter().filter_map(|one| of(&one.run, &one.args)).collect(),
            Program::Exec { .. } => Vec::new(),
        }
    }
}
