//! `headgate metrics` as Prometheus itself sees it: a server of Debian's package scrapes it, and its tool
//! finds nothing wrong with metrics and rules.

mod common;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Running, configuration, eventually, headgate, name_of, run, told, written};
use serde_json::Value as Json;

/// Longest wait for an answer; not a measurement.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether a program of the package is here; says so where it is not.
fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: there is no {program} (package prometheus)");
    }
    found
}

fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

/// The first value of a query; `None` while there is none.
fn query(address: &str, query: &str) -> Option<f64> {
    let answer: Json = serde_json::from_str(&get(address, &format!("/api/v1/query?query={query}"))?).ok()?;
    answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
}

#[test]
fn a_real_prometheus_scrapes_it() {
    if !is_there("prometheus") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("scraped"));
    let file = written(folder, &configuration(&name));
    let _manager = Running::start(headgate(folder, &["up", &file]));
    let mut metrics =
        Running::start(headgate(folder, &["metrics", "--name", &name, "--listen", "127.0.0.1:0"]));
    let mut said = String::new();
    BufReader::new(metrics.0.stderr.take().unwrap()).read_line(&mut said).unwrap();
    let target = said.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();

    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/prometheus/headgate.rules.yml");
    let settings = format!(
        "global: {{scrape_interval: 1s}}\nrule_files: [{:?}]\nscrape_configs:\n  - job_name: headgate\n    \
         static_configs: [{{targets: [{target:?}]}}]\n",
        rules.canonicalize().unwrap().display().to_string()
    );
    let settings_file = folder.join("prometheus.yml");
    fs::write(&settings_file, settings).unwrap();
    // Nobody else takes it between the two: the kernel gives ports round about.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut server = Command::new("prometheus");
    server
        .args(["--web.listen-address", &address, "--log.level", "error", "--config.file"])
        .arg(&settings_file);
    server.arg("--storage.tsdb.path").arg(folder.join("series")).stdin(Stdio::null()).stderr(Stdio::null());
    let _server = Running::start(server);

    eventually("it has scraped", || query(&address, "headgate_up") == Some(1.0));
    eventually("packets are counted", || {
        query(&address, "headgate_chain_entered_packets_total%7Bchain=%22through%22%7D") > Some(0.0)
    });
    let of_delays = "histogram_quantile(0.99,headgate_chain_delay_seconds_bucket)";
    eventually("delays have a percentile", || query(&address, of_delays).is_some_and(|value| value > 0.0));
    let targets: Json = serde_json::from_str(&get(&address, "/api/v1/targets").unwrap()).unwrap();
    assert_eq!(targets["data"]["activeTargets"][0]["lastError"], "", "{targets:#}");
    let rules: Json = serde_json::from_str(&get(&address, "/api/v1/rules").unwrap()).unwrap();
    let groups = rules["data"]["groups"].as_array().unwrap();
    let health = groups.iter().flat_map(|group| group["rules"].as_array().unwrap());
    assert!(
        health.clone().count() > 0 && health.clone().all(|rule| rule["lastError"].is_null()),
        "{rules:#}"
    );
}

/// The tool reads the older text format alone, in which a counter is named with its ending.
fn older(text: &str) -> String {
    let counters: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let line = |line: &str| {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("UNIT" | "EOF"), ..) => String::new(),
            (Some("#"), Some(kind), Some(name), Some(rest)) if counters.contains(&name) => {
                format!("# {kind} {name}_total {rest}\n")
            }
            _ => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

#[test]
fn its_tool_finds_nothing_wrong() {
    if !is_there("promtool") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("linted"));
    let file = written(folder, &configuration(&name));
    let _manager = Running::start(headgate(folder, &["up", &file]));
    let mut text = String::new();
    eventually("service times are sampled", || {
        text = run(folder, &["metrics", "--once", "--name", &name]).1;
        text.contains("headgate_nf_service_time_seconds_sum")
            && text.contains("headgate_chain_delay_seconds_sum")
    });
    let mut check = Command::new("promtool");
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.spawn().unwrap();
    check.stdin.take().unwrap().write_all(older(&text).as_bytes()).unwrap();
    let (code, data, messages) = told(check.wait_with_output().unwrap());
    assert_eq!((code, data.as_str(), messages.as_str()), (0, "", ""), "{}", older(&text));
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/prometheus/headgate.rules.yml");
    let (code, data, messages) =
        told(Command::new("promtool").args(["check", "rules"]).arg(rules).output().unwrap());
    assert!(code == 0 && data.contains("SUCCESS"), "{data} {messages}");
}
