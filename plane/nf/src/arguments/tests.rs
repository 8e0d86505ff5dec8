use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read, and not looked at")]
struct Arguments {
    rules: Vec<Rule>,
    #[serde(default)]
    limit: u8,
    #[serde(default)]
    interfaces: BTreeMap<String, Interface>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read, and not looked at")]
struct Rule {
    action: Action,
    protocol: Option<String>,
    port: Option<u16>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "read, and not looked at")]
enum Action {
    Allow,
    Deny,
    To(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "read, and not looked at")]
struct Interface {
    mac: String,
}

/// Each mistake as text.
fn mistakes_of(text: &str) -> Vec<String> {
    let refused = read::<Arguments>(text).unwrap_err();
    refused.list().iter().map(|one| ArgumentErrors(vec![one.clone()]).to_string()).collect()
}

#[test]
fn arguments_that_are_right_are_read() {
    let arguments: Arguments =
        read(r#"{"rules":[{"action":{"to":"x"}},{"action":"deny","port":80}]}"#).unwrap();
    assert_eq!(arguments.rules.len(), 2);
}

/// Every mistake has the path that it has in the file, also behind elements that were taken out.
#[test]
fn every_mistake_is_found_at_its_place() {
    let text = r#"{
        "rules": [
            {"action": "alow"},
            {"action": "allow", "protcol": "tcp", "port": 70000},
            {"protocol": "udp"},
            {"action": {"to": 5}},
            {"action": "deny", "port": "web"}
        ],
        "limit": 300,
        "interfaces": {"east": {"mac": 1}, "west": {"mc": "x"}}
    }"#;
    let mut found = mistakes_of(text);
    found.sort();
    assert_eq!(
        found,
        [
            "interfaces.east.mac: expected a string, found integer `1`",
            "interfaces.west.mc: unknown field `mc`, expected `mac`",
            "interfaces.west: missing field `mac`",
            "limit: expected a whole number, 0 to 255, found integer `300`",
            "rules[0].action: unknown variant `alow`, expected one of `allow`, `deny`, `to`",
            "rules[1].port: expected a whole number, 0 to 65535, found integer `70000`",
            "rules[1].protcol: unknown field `protcol`, expected one of `action`, `protocol`, `port`",
            "rules[2]: missing field `action`",
            "rules[3].action.to: expected a string, found integer `5`",
            "rules[4].port: expected a whole number, 0 to 65535, found string \"web\"",
        ]
    );
}

#[test]
fn words_that_might_be_meant_are_told() {
    let refused = read::<Arguments>(r#"{"rules":[{"acton":"allow"}]}"#).unwrap_err();
    let kinds: Vec<_> = refused.list().iter().map(|one| (one.kind, one.word.as_str())).collect();
    assert_eq!(kinds, [(ArgumentErrorKind::UnknownKey, "acton"), (ArgumentErrorKind::MissingKey, "action")]);
    assert_eq!(refused.list()[0].known, ["action", "protocol", "port"]);
    assert_eq!(refused.list()[0].path, ["rules".into(), 0.into(), PathStep::from("acton")]);
}

#[test]
fn text_that_is_no_object_has_one_mistake() {
    for (text, why) in [("{", "EOF while parsing"), ("[]", "invalid length 0"), ("5", "expected a table")] {
        let found = mistakes_of(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(why), "{found:?}");
    }
}

/// Ten thousand wrong rules are neither an endless list nor an endless search.
#[test]
fn the_search_ends() {
    let rules = vec![r#"{"action":"no"}"#; 10_000].join(",");
    assert_eq!(mistakes_of(&format!(r#"{{"rules":[{rules}]}}"#)).len(), MISTAKES_MAX);
}
