//! `headgate top` beside a manager: one frame as a document, and a terminal that is given back.

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use common::{
    HEADGATE, Running, configuration, descendants, eventually, headgate, name_of, run, signal, written,
};
use rustix::process::Signal;
use serde_json::Value as Json;

/// Control sequences of xterm: take the other screen, give it back.
const TAKEN: &str = "\x1b[?1049h";
const GIVEN_BACK: &str = "\x1b[?1049l";

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("not one JSON document: {error}: {text}"))
}

/// A manager that is ready.
fn started(folder: &Path, name: &str) -> Running {
    let file = written(folder, &configuration(name));
    let running = Running::start(headgate(folder, &["up", &file]));
    eventually("packets leave", || {
        let (code, data, _) = run(folder, &["--json", "status", "--name", name]);
        code == 0 && json(&data)["chains"][1]["left"].as_u64() > Some(0)
    });
    running
}

#[test]
fn one_frame_is_a_document_with_every_stage() {
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("top"));
    let manager = started(folder, &name);
    let top = |words: &[&str]| {
        let common = ["top", "--once", "--interval", "300", "--name", &name];
        run(folder, &[&common[..], words].concat())
    };

    let (code, data, messages) = top(&["--json"]);
    assert_eq!((code, messages.as_str()), (0, ""));
    let frame = json(&data);
    assert_eq!(frame["manager"], Json::from(name.as_str()));
    assert!(frame["interval_ns"].as_u64() >= Some(300_000_000), "{data}");
    let chain = &frame["chains"][0];
    assert_eq!((&chain["name"], &chain["out"]), (&Json::from("through"), &Json::from("sink")));
    assert_eq!(chain["path"], serde_json::json!(["first", "second"]));
    // The generator gives 10,000 a second; on a busy machine fewer.
    let rate = chain["entered_per_second"].as_f64().unwrap();
    assert!((100.0..100_000.0).contains(&rate), "{data}");
    for (at, stage) in ["first", "second"].iter().enumerate() {
        let shown = &chain["stages"][at];
        assert_eq!(shown["instance"], Json::from(*stage));
        assert!(["running", "asleep", "throttled"].contains(&shown["state"].as_str().unwrap()), "{shown}");
        // Four fifths and three fifths of its ring, as `high_watermark` and `low_watermark` are by default.
        let marks = (shown["high_watermark"].as_u64(), shown["low_watermark"].as_u64());
        assert_eq!((shown["queue_room"].as_u64(), marks), (Some(512), (Some(409), Some(307))), "{shown}");
        assert!(shown["delivered_per_second"].as_f64() > Some(100.0), "{shown}");
        assert!(shown["service_time_ns_mean"].as_f64() > Some(0.0), "{shown}");
    }

    let (code, text, _) = top(&[]);
    assert_eq!(code, 0);
    assert!(text.contains("through: first > second > sink") && !text.contains('\u{1b}'), "{text}");
    let (code, _, messages) = top(&["--chain", "trough"]);
    assert_eq!(code, 2, "{messages}");
    assert!(messages.contains("did you mean `through`?"), "{messages}");
    let (code, data, _) = top(&["--chain", "through", "--json"]);
    assert_eq!((code, json(&data)["chains"].as_array().map(Vec::len)), (0, Some(1)));

    manager.signal(Signal::TERM);
    assert_eq!(manager.end().0, 0);
    let (code, _, messages) = top(&[]);
    assert_eq!(code, 1);
    assert!(messages.contains("no manager named"), "{messages}");
}

/// A shell on a terminal of 80 columns and 24 rows, which runs `headgate top`, and then says how it ended and
/// what the terminal is set to.
struct Shell {
    script: Running,
    said: Arc<Mutex<String>>,
}

impl Shell {
    fn start(folder: &Path, name: &str) -> Self {
        // A caller that ignores signals, such as a background job of a shell, has its children ignore them.
        let line = format!(
            "stty rows 24 cols 80; env --default-signal=INT,HUP {HEADGATE} top --interval 100 --name {name}; echo ended with $?; stty -a"
        );
        let mut command = Command::new("script");
        command.args(["--quiet", "--command", &line, "/dev/null"]);
        command.env("XDG_RUNTIME_DIR", folder).env("TERM", "xterm").env("LC_ALL", "C.UTF-8");
        command.env("SHELL", "/bin/sh").env_remove("NO_COLOR");
        let mut script = Running::start({
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            command
        });
        let said = Arc::<Mutex<String>>::default();
        let (mut stdout, heard) = (script.0.stdout.take().unwrap(), said.clone());
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut bytes) {
                heard.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { script, said }
    }

    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    fn press(&mut self, keys: &str) {
        self.script.0.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// The process of `headgate top`.
    fn top(&self) -> u32 {
        let is_top = |pid: &u32| {
            let program = fs::read_link(format!("/proc/{pid}/exe"));
            program.is_ok_and(|program| program == Path::new(HEADGATE))
        };
        descendants(self.script.0.id()).into_iter().find(is_top).expect("it runs")
    }

    /// Waits for the end, which must come with this exit code and leave the terminal as it was.
    fn ends_with(self, code: i32) -> String {
        eventually("the screen is closed", || self.said().contains("iexten"));
        let said = self.said();
        assert!(said.contains(&format!("ended with {code}")), "{said}");
        assert!(said.rfind(GIVEN_BACK) > said.rfind(TAKEN), "{said}");
        let mut settings = said[said.find("ended with").unwrap()..].split_whitespace();
        for setting in ["opost", "isig", "icanon", "echo"] {
            assert!(settings.any(|word| word == setting), "{setting} is not set: {said}");
        }
        said
    }
}

#[test]
fn the_terminal_is_given_back_on_every_way_out() {
    if Command::new("script").arg("--version").output().is_err() {
        eprintln!("skipped: there is no script(1) to make a terminal");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (folder, name) = (folder.path(), name_of("screen"));
    let manager = started(folder, &name);
    let open = || {
        let shell = Shell::start(folder, &name);
        eventually("the chain is shown", || shell.said().contains("through"));
        shell
    };

    for keys in ["q", "\x03"] {
        let mut shell = open();
        shell.press(keys);
        shell.ends_with(0);
    }
    for asked in [Signal::TERM, Signal::INT, Signal::HUP] {
        let shell = open();
        signal(shell.top(), asked);
        shell.ends_with(0);
    }
    let shell = open();
    manager.signal(Signal::TERM);
    assert_eq!(manager.end().0, 0);
    let said = shell.ends_with(1);
    assert!(said.contains("has ended"), "{said}");
}
