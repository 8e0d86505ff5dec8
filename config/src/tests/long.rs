//! Ports that may let long frames pass, and those that may not.

use crate::catalog::{Catalog, ShippedNf};
use crate::machine::Machine;
use crate::model::Config;
use crate::parse;

/// Long buffers for one port.
const LONG_BUFFERS: u32 = 256;

/// Two interfaces and a sink, and a chain `a` between the interfaces; `more` follows.
fn config(middle: &str, out: &str, more: &str) -> Config {
    let shipped = |(name, takes_long_frames): (&str, bool)| ShippedNf {
        name: name.to_owned(),
        takes_long_frames,
        ..ShippedNf::default()
    };
    let catalog = Catalog::new([("forward", true), ("cache", false)].map(shipped).into());
    let machine = Machine { cores: vec![0, 1], memory_bytes: 16 << 30, ..Machine::default() };
    let text = format!(
        r#"[[port]]
        name = "west"
        interface = "w"
        [[port]]
        name = "east"
        interface = "e"
        {middle}
        name = "middle"
        core = 1
        [[nf]]
        name = "last"
        run = "forward"
        core = 1
        [[port]]
        name = "sink"
        kind = "null"
        [[chain]]
        name = "a"
        stages = ["middle", "last"]
        out = "{out}"
        [[rule]]
        in = "west"
        chain = "a"
        {more}"#
    );
    parse("test.toml", &text, &catalog, &machine).unwrap_or_else(|refused| panic!("{refused}")).config
}

fn told(config: &Config, port: usize) -> String {
    config.ports[port].long_frames.as_ref().map(ToString::to_string).unwrap_or_default()
}

#[test]
fn frames_pass_whole_where_nobody_is_in_the_way() {
    let forward = "[[nf]]\nrun = \"forward\"";
    let open = config(forward, "east", "");
    assert_eq!((told(&open, 0), told(&open, 1)), ("long frames pass whole".to_owned(), String::new()));
    assert_eq!(open.domains[0].long_buffers, LONG_BUFFERS);
    for (middle, out, why) in [
        ("[[nf]]\nrun = \"cache\"", "east", "NF `middle` of chain `a` takes none"),
        (
            "[[nf]]\nfuse = [{ run = \"forward\" }, { run = \"cache\" }]",
            "east",
            "NF `middle` of chain `a` takes none",
        ),
        (forward, "sink", "chain `a` can leave by port `sink`, which is no interface"),
        (forward, "nf", "chain `a` can leave by port `sink`, which is no interface"),
    ] {
        let cut = config(middle, out, "");
        assert_eq!(told(&cut, 0), format!("long frames are cut: {why}"));
        assert_eq!(cut.domains[0].long_buffers, 0, "no memory for what never comes");
    }
}

#[test]
fn who_cannot_be_known_is_asked_and_every_domain_on_the_way_has_buffers() {
    let more = "[[domain]]\nname = \"other\"";
    let other = config("[[nf]]\nexec = [\"/bin/true\"]\ndomain = \"other\"", "east", more);
    assert_eq!(told(&other, 0), "long frames pass whole if NF `middle` takes them");
    assert!(other.domains.iter().all(|domain| domain.long_buffers == LONG_BUFFERS));
}
