//! Warnings that this node will lose its power, by signal and by file: what watches a power supply knows one
//! of both, and needs no program of ours.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use headgate_api::Request;
use headgate_api::attendance::Failed;
use headgate_api::status::EventCode;
use headgate_api::warning::{self, WITHIN};
use headgate_config::Config;
use headgate_host::signals::PowerWarnings;
use headgate_manager::Handle;

/// Time between two checks of the file. Our choice: a hundredth of the time that is mostly left.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// A file as it was: when it was written, and its text.
type Seen = (Option<SystemTime>, String);

/// What tells this node that it will lose its power.
pub struct Power {
    signals: PowerWarnings,
    file: Option<PathBuf>,
    seen: Option<Seen>,
    checked: Instant,
}

impl Power {
    /// Watches the signal, and the file of the node, if the configuration is that of one. A file that is
    /// there already is of a warning before, and counts when it is written again.
    pub fn watch(config: &Config) -> Result<Self, Failed> {
        let folder = config.node.as_ref().and_then(|node| node.state.as_deref());
        let file = folder.map(|folder| folder.join(warning::FILE));
        let seen = file.as_deref().and_then(seen);
        let signals = PowerWarnings::catch().map_err(Failed::environment)?;
        Ok(Self { signals, file, seen, checked: Instant::now() })
    }

    /// Passes on what came since the last call.
    pub fn tend(&mut self, handle: &Handle) {
        if self.signals.take() {
            warn(handle, Some(WITHIN));
        }
        if self.checked.elapsed() < CHECK_EVERY {
            return;
        }
        self.checked = Instant::now();
        let Some(file) = self.file.as_deref() else { return };
        let now = seen(file);
        if now == self.seen {
            return;
        }
        match now.as_ref().map(|(_, text)| within(text)).transpose() {
            Ok(within) => warn(handle, within),
            Err(why) => {
                let what = format!("{} is not heeded: {why}", file.display());
                handle.tell(EventCode::ConfigurationRefused, "manager", what);
            }
        }
        self.seen = now;
    }
}

fn within(text: &str) -> Result<Duration, String> {
    if text.trim().is_empty() { Ok(WITHIN) } else { warning::read_within(text) }
}

fn warn(handle: &Handle, within: Option<Duration>) {
    let within_ms = within.map(|within| within.as_millis() as u64);
    // To withdraw what is over is no news, and a manager that ends moves nothing any more.
    let _ = handle.ask(Request::Warn { within_ms });
}

fn seen(file: &Path) -> Option<Seen> {
    let text = std::fs::read_to_string(file).ok()?;
    let written = std::fs::metadata(file).and_then(|facts| facts.modified()).ok();
    Some((written, text))
}
