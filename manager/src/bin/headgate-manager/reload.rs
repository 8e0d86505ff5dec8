//! Reading the configuration's file again, at SIGHUP.
//!
//! A file is read, checked and applied on a thread of its own, exactly as `headgate apply` does it; what is
//! wrong with it is an event. While one reload is under way, any number of further wishes are one more.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use headgate_api::Request;
use headgate_api::status::EventCode;
use headgate_config::{self as config, Catalog, Machine};
use headgate_manager::Handle;
use headgate_manager::log::Log;

/// Source of a configuration, to be read again.
#[derive(Clone)]
pub struct Source {
    /// The file, by its whole path; `None` when the configuration came in another way.
    pub file: Option<PathBuf>,
    /// The node whose part of it is run, if it is for several.
    pub node: Option<String>,
    /// NFs that are shipped.
    pub catalog: Catalog,
    /// Log that gets warnings.
    pub log: Option<Log>,
}

/// Reloads, one after the other.
pub struct Reloads {
    source: Source,
    handle: Handle,
    is_wanted: bool,
    under_way: Option<JoinHandle<()>>,
}

impl Reloads {
    /// Returns that of a manager which has read its file once.
    pub const fn new(source: Source, handle: Handle) -> Self {
        Self { source, handle, is_wanted: false, under_way: None }
    }

    /// Notes a wish, if there is one, and begins what was wished for as soon as nothing else is under way.
    pub fn tend(&mut self, is_wanted: bool) {
        self.is_wanted |= is_wanted;
        if !self.is_wanted || self.under_way.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        self.is_wanted = false;
        let (source, handle) = (self.source.clone(), self.handle.clone());
        let reload = move || {
            if let Err(why) = source.apply(&handle) {
                let what = format!("the file was not applied, everything is as before: {why}");
                handle.tell(EventCode::ConfigurationRefused, "manager", what);
            }
        };
        match std::thread::Builder::new().name("hg-reload".to_owned()).spawn(reload) {
            Ok(thread) => self.under_way = Some(thread),
            Err(error) => {
                let what = format!("the file was not read again: no thread could be started: {error}");
                self.handle.tell(EventCode::ConfigurationRefused, "manager", what);
            }
        }
    }
}

impl Source {
    /// Reads the file, and has the manager work by it.
    fn apply(&self, handle: &Handle) -> Result<(), String> {
        let file = self.file.as_deref().ok_or(
            "it came from no file that could be read again; `headgate apply FILE` applies one".to_owned(),
        )?;
        let mut machine = Machine::observe();
        // Reserved already, by this manager.
        (machine.memory_bytes, machine.hugepages_free) = (u64::MAX, u64::MAX);
        let loaded = config::load(file, &self.catalog, &machine, self.node.as_deref());
        let loaded = loaded.map_err(|errors| errors.in_a_line())?;
        if let Some(log) = self.log.as_ref().filter(|_| !loaded.warnings.0.is_empty()) {
            log.line(loaded.warnings.to_string().trim_end().to_owned());
        }
        let text = read(file)?;
        let request = Request::Apply { name: file.display().to_string(), text };
        handle.ask(request).map(drop).map_err(|refusal| refusal.message)
    }
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}
