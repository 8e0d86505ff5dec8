//! `headgate metrics` beside a manager: what an independent parser reads, and a thousand connections.

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Running, configuration, eventually, headgate, name_of, run, told, written};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

/// Longest wait for an answer; not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads OpenMetrics text as a client library of Prometheus does, and prints each sample on a line.
const PARSE: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
for family in parse(sys.stdin.read()):
    for sample in family.samples:
        labels = ','.join(f'{key}={sample.labels[key]}' for key in sorted(sample.labels))
        print(family.type, sample.name, labels, sample.value)
";

/// A server of metrics on a free port, and its address.
fn serve(folder: &Path, name: &str) -> (Running, String) {
    let mut server =
        Running::start(headgate(folder, &["metrics", "--name", name, "--listen", "127.0.0.1:0"]));
    let mut said = String::new();
    BufReader::new(server.0.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let address = said.split("http://").nth(1).unwrap_or_else(|| panic!("{said}"));
    let address = address.split('/').next().unwrap().to_owned();
    (server, address)
}

fn ends_in_order(mut server: Running, asked: Signal) {
    server.signal(asked);
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
}

fn get(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}")).1.to_owned()
}

/// A program that runs a script and reads its standard input.
fn python(program: &str, script: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The samples as the parser of somebody else reads them; `None` where there is none.
fn parsed(text: &str) -> Option<String> {
    let has_parser = |program: &&str| {
        let probe = python(program, "import prometheus_client").stdin(Stdio::null()).output();
        probe.is_ok_and(|output| output.status.success())
    };
    // That of the system, which has Debian's packages, may not be the first one.
    let Some(program) = ["/usr/bin/python3", "python3"].into_iter().find(has_parser) else {
        eprintln!("skipped: python3 has no prometheus_client (package python3-prometheus-client)");
        return None;
    };
    let mut parser = python(program, PARSE).spawn().unwrap();
    parser.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let (code, samples, messages) = told(parser.wait_with_output().unwrap());
    assert_eq!(code, 0, "{messages}\n{text}");
    Some(samples)
}

#[test]
fn what_is_served_is_what_a_parser_reads() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("metrics"));
    let (server, address) = serve(folder, &name);
    assert!(get(&address).contains("\nheadgate_up 0.0\n"), "no manager runs yet");

    let file = written(folder, &configuration(&name));
    let manager = Running::start(headgate(folder, &["up", &file]));
    let expected = "headgate_chain_delay_seconds_count{chain=\"through\"}";
    eventually("packets are served", || get(&address).contains(expected));
    eventually("service times are sampled", || {
        get(&address).contains("headgate_nf_service_time_seconds_sum{nf=\"first\"")
    });
    let text = get(&address);
    let of = |start: &str| {
        let line =
            text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {text}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    assert!(of("headgate_chain_entered_packets_total{chain=\"through\"}") > 0.0);
    assert!(of("headgate_nf_returned_packets_total{nf=\"first\",nf_instance=\"first\"}") > 0.0);
    assert_eq!(of("headgate_nf_running{nf=\"second\",nf_instance=\"second\"}"), 1.0);
    // A delay of a packet lies between a nanosecond and the age of the manager.
    let (sum, count) = (of("headgate_chain_delay_seconds_sum"), of("headgate_chain_delay_seconds_count"));
    assert!(sum > 0.0 && sum / count < of("headgate_uptime_seconds"), "{sum} {count}");
    if let Some(samples) = parsed(&text) {
        let has = |sample: &str| {
            assert!(samples.lines().any(|line| line.starts_with(sample)), "{sample}: {samples}")
        };
        has("gauge headgate_up  1.0");
        has("counter headgate_chain_entered_packets_total chain=through ");
        has("histogram headgate_nf_service_time_seconds_bucket le=+Inf,nf=first,nf_instance=first ");
    }

    let (code, once, messages) = run(folder, &["metrics", "--once", "--name", &name]);
    assert_eq!((code, messages.as_str()), (0, ""));
    assert!(once.ends_with("# EOF\n"), "{once}");
    manager.signal(Signal::TERM);
    assert_eq!(manager.end().0, 0);
    eventually("the manager is gone", || get(&address).contains("\nheadgate_up 0.0\n"));
    let (code, _, messages) = run(folder, &["metrics", "--once", "--name", &name]);
    assert_eq!(code, 1, "{messages}");

    let (code, _, messages) = run(folder, &["metrics", "--listen", &address]);
    assert_eq!(code, 3);
    assert!(messages.contains(&address) && messages.contains("--listen"), "{messages}");
    ends_in_order(server, Signal::TERM);
}

/// A thousand connections that say nothing: the server holds some of them, and answers.
#[test]
fn a_thousand_connections_harm_nobody() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (server, address) = serve(folder.path(), &name_of("crowd"));
    let silent: Vec<TcpStream> = (0..1000).map(|_| TcpStream::connect(&address).unwrap()).collect();
    assert!(get(&address).contains("\nheadgate_up 0.0\n"));
    let files = std::fs::read_dir(format!("/proc/{}/fd", server.0.id())).unwrap().count();
    assert!(files < 400, "{files} descriptors");
    drop(silent);
    assert!(get(&address).ends_with("# EOF\n"));
    ends_in_order(server, Signal::INT);
}
