//! The program `headgate-bench` by itself. That it is tested here also has `cargo test` build it anew: tests
//! of other crates start it.

use std::process::Command;

#[test]
fn an_experiment_that_there_is_not_is_refused_before_anything_runs() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_headgate-bench"));
    let output = bench.args(["nfvnice", "no-such-experiment"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let messages = String::from_utf8(output.stderr).unwrap();
    assert!(messages.contains("no-such-experiment"), "{messages}");
}
