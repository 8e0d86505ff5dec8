//! iperf3 from the left host to the right.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value as Json;

use super::tool::{End, Tool};
use super::{Stage, Transfer, address};

/// iperf3's own port.
const PORT: u16 = 5201;
/// Time beyond its own that the client gets to connect and to say goodbye: it tells what it moved only then.
/// Three SYNs that are lost on a busy machine take 7 s (RFC 6298: 1 s, doubled each time).
const SLACK: Duration = Duration::from_secs(10);

/// Runs it for about that long.
pub fn run(stage: &Stage<'_>, time: Duration) -> Transfer {
    let begun = Transfer { what: "iperf3 (TCP)".into(), way: "left to right".into(), ..Transfer::default() };
    match measure(stage, time) {
        Ok(Some(report)) => read(&report, begun),
        Ok(None) => Transfer { interrupted: stage.is_over(), failure: late(stage), ..begun },
        Err(why) => Transfer { failure: Some(why), interrupted: stage.is_over(), ..begun },
    }
}

fn late(stage: &Stage<'_>) -> Option<String> {
    (!stage.is_over()).then(|| "iperf3 did not end in time".to_owned())
}

/// The client's report; `None` when it was killed.
fn measure(stage: &Stage<'_>, time: Duration) -> Result<Option<Json>, String> {
    let to = address(stage.right(), PORT).ip().to_string();
    let seconds = time.as_secs().max(1).to_string();
    let mut server = Tool::start(stage.right(), &["iperf3", "-s", "-1", "-B", &to], Stdio::null())?;
    server.until_listening(stage, stage.right(), PORT)?;
    let words = ["iperf3", "-c", &to, "-t", &seconds, "-i", "0", "-J"];
    let mut client = Tool::start(stage.left(), &words, Stdio::piped())?;
    let mut report = Vec::new();
    match client.read(stage, time + SLACK, |bytes| report.extend_from_slice(bytes))? {
        End::Killed => Ok(None),
        End::Itself(_) => serde_json::from_slice(&report)
            .map(Some)
            .map_err(|error| format!("iperf3's report cannot be read: {error}: {}", client.complaint())),
    }
}

fn read(report: &Json, begun: Transfer) -> Transfer {
    if let Some(error) = report["error"].as_str() {
        return Transfer { failure: Some(error.to_owned()), ..begun };
    }
    let received = &report["end"]["sum_received"];
    Transfer {
        bytes: received["bytes"].as_u64().unwrap_or(0),
        seconds: received["seconds"].as_f64().unwrap_or(0.0),
        retransmissions: report["end"]["sum_sent"]["retransmits"].as_u64(),
        ..begun
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_and_an_error_are_read() {
        let report = json!({ "end": {
            "sum_sent": { "bytes": 1100, "retransmits": 3 },
            "sum_received": { "bytes": 1000, "seconds": 2.0 },
        }});
        let transfer = read(&report, Transfer::default());
        assert_eq!((transfer.bytes, transfer.seconds, transfer.retransmissions), (1000, 2.0, Some(3)));
        let refused = read(&json!({ "error": "unable to connect" }), Transfer::default());
        assert_eq!(refused.failure.as_deref(), Some("unable to connect"));
    }
}
