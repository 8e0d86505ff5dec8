//! The program `headgate-manager` by itself. That it is tested here also has `cargo test` build it: tests
//! of other crates start it.

use std::process::Command;

#[test]
fn without_a_configuration_it_says_what_it_wants() {
    let output = Command::new(env!("CARGO_BIN_EXE_headgate-manager")).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let messages = String::from_utf8(output.stderr).unwrap();
    assert!(messages.contains("headgate-manager <FILE>"), "{messages}");
}
