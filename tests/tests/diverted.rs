//! An overloaded NF is no reason to shed the flows that another NF leads past it.

use headgate_api::status::Snapshot;
use headgate_tests::session::{Session, chain, drops, nf};

/// Two flows of 10,000 packets a second; the firewall leads the first past an NF that takes a millisecond for
/// each.
const CONFIGURATION: &str = r#"
[manager]
name = "tests"
cores = [{manager}]
[memory]
buffers = 16384
hugepages = "never"
[scheduler]
mode = "backpressure"
shed_by_flow = {by_flow}
[[port]]
name = "source"
kind = "generator"
rate = "20K"
flows = 2
[[port]]
name = "sink"
kind = "null"
[[nf]]
name = "fork"
run = "firewall"
core = {nf}
args = { default = "allow", rules = [{ action = { to = "last" }, source = "10.0.0.1/32" }] }
[[nf]]
name = "slow"
run = "synthetic"
core = {nf}
ring = 256
args = { cycles = 2500000 }
[[nf]]
name = "last"
run = "forward"
core = {nf}
[[chain]]
name = "all"
stages = ["fork", "slow", "last"]
out = "sink"
[[rule]]
in = "source"
chain = "all"
"#;

/// Packets entered, and those of the flow that is led past, while the slow NF is overloaded.
fn entered_and_led(by_flow: bool) -> [u64; 2] {
    let session = Session::start(&CONFIGURATION.replace("{by_flow}", &by_flow.to_string()));
    let shed = |now: &Snapshot| drops(now, "all", "throttled");
    let shed_more = |than: u64| {
        let now = session.wait_for("packets are shed at the head", |now| shed(now) >= than + 2000);
        (shed(&now), [chain(&now, "all").entered, nf(&now, "fork").counters["led"]])
    };
    let (already, before) = shed_more(0);
    let (_, after) = shed_more(already);
    session.stop();
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
fn flows_led_past_an_overloaded_nf_are_let_in() {
    let [entered, led] = entered_and_led(true);
    assert!(
        led * 100 >= entered * 45,
        "{led} of {entered}: half of what enters is the flow that is led past"
    );
}

#[test]
fn without_that_the_whole_chain_is_shed() {
    let [entered, led] = entered_and_led(false);
    assert!(led * 4 <= entered, "{led} of {entered}");
}
