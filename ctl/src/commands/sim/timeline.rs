//! Timelines of a simulated run, in the trace format that Chrome and Perfetto show.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use headgate_sim::{Interval, Report, Timeline};
use serde_json::{Value as Json, json};

use crate::error::CommandError;

/// Groups of tracks: cores, and the times for which NFs were throttled.
const CORES: u32 = 1;
const THROTTLED: u32 = 2;

/// Writes a timeline. Returns whether there was more than it keeps.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, timeline: &Timeline, report: &Report) -> Result<bool, CommandError> {
    let write = || -> io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")?;
        for (number, event) in events(timeline, report).enumerate() {
            file.write_all(if number > 0 { b",\n" } else { b"" })?;
            serde_json::to_writer(&mut file, &event)?;
        }
        file.write_all(b"\n]}\n")?;
        file.flush()
    };
    write()
        .map_err(|error| CommandError::environment(format!("cannot write {}: {error}", path.display())))?;
    Ok(timeline.throttled.is_cut || timeline.cores.iter().any(|core| core.is_cut))
}

/// Returns everything that happened, names of tracks first.
fn events(timeline: &Timeline, report: &Report) -> impl Iterator<Item = Json> {
    let name = |instance: u16| report.nfs[usize::from(instance)].name.clone();
    let groups = [group(CORES, "cores"), group(THROTTLED, "throttled")];
    let cores = timeline.cores.iter().enumerate();
    let of_cores = cores.clone().map(|(core, _)| track(CORES, core, &format!("core {core}")));
    let of_nfs = report.nfs.iter().enumerate().map(|(number, nf)| track(THROTTLED, number, &nf.name));
    let ran = cores.flat_map(move |(core, track)| {
        track.intervals.iter().map(move |one| interval(CORES, core, &name(one.instance), *one))
    });
    let throttled = timeline.throttled.intervals.iter();
    let throttled = throttled.map(|one| interval(THROTTLED, one.instance.into(), "throttled", *one));
    groups.into_iter().chain(of_cores).chain(of_nfs).chain(ran).chain(throttled)
}

fn group(group: u32, name: &str) -> Json {
    json!({ "ph": "M", "name": "process_name", "pid": group, "args": { "name": name } })
}

fn track(group: u32, number: usize, name: &str) -> Json {
    json!({ "ph": "M", "name": "thread_name", "pid": group, "tid": number, "args": { "name": name } })
}

/// Times are microseconds there.
fn interval(group: u32, number: usize, name: &str, of: Interval) -> Json {
    let [at, length] = [of.from_ns, of.to_ns - of.from_ns].map(|ns| ns as f64 / 1e3);
    json!({ "ph": "X", "name": name, "pid": group, "tid": number, "ts": at, "dur": length })
}
