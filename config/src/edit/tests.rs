use super::*;

const TEXT: &str = r#"# My chains.
[[chain]]
name = "web" # the shop

# What comes first.
[[rule]]
protocol = "tcp"
destination_port = 80 # plain
chain = "web"

# What comes second.
[[ rule ]]
chain = "rest"

[flows]
capacity = 10
"#;

fn add(rule: &str, place: Option<usize>) -> Result<String, EditError> {
    add_rule("a.toml", TEXT, rule, place)
}

#[test]
fn a_rule_comes_in_and_all_else_stays_as_it_was() {
    let added = add("protocol = \"udp\", chain = \"web\"", Some(2)).unwrap();
    let rule = "[[rule]]\nchain = \"web\"\nprotocol = \"udp\"\n\n";
    assert_eq!(added, TEXT.replace("# What comes second", &format!("{rule}# What comes second")));
    let last = add("chain = \"web\",", None).unwrap();
    assert_eq!(last, format!("{}\n\n[[rule]]\nchain = \"web\"\n", TEXT.trim_end()));
    assert_eq!(add("chain = \"web\"", Some(3)).unwrap(), last);
}

#[test]
fn a_rule_goes_and_what_belongs_to_others_stays() {
    let gone = delete_rule("a.toml", TEXT, 1).unwrap();
    let rule = "[[rule]]\nprotocol = \"tcp\"\ndestination_port = 80 # plain\nchain = \"web\"\n\n";
    assert_eq!(gone, TEXT.replace(rule, ""));
    assert_eq!(
        delete_rule("a.toml", &gone, 1).unwrap(),
        gone.replace("[[ rule ]]\nchain = \"rest\"\n\n", "")
    );
}

#[test]
fn rules_that_no_line_begins_are_written_anew() {
    let text = "rule = [{ chain = \"a\" }, { chain = \"b\" }] # in a line\n[flows]\ncapacity = 1\n";
    let gone = delete_rule("a.toml", text, 1).unwrap();
    let read: Table = toml::from_str(&gone).unwrap();
    assert_eq!((read["rule"].as_array().unwrap().len(), read["rule"][0]["chain"].as_str()), (1, Some("b")));
    assert_eq!(read["flows"]["capacity"].as_integer(), Some(1));
    // A header in a string is none.
    let text = "note = \"\"\"\n[[rule]]\n\"\"\"\n[[rule]]\nchain = \"a\"\n";
    let gone: Table = toml::from_str(&delete_rule("a.toml", text, 1).unwrap()).unwrap();
    assert_eq!((gone["note"].as_str(), gone.contains_key("rule")), (Some("[[rule]]\n"), true));
    let json = add_rule("a.json", r#"{"rule": [{"chain": "a"}]}"#, "chain = \"b\"", Some(1)).unwrap();
    let read: Json = serde_json::from_str(&json).unwrap();
    assert_eq!(read["rule"][0]["chain"], "b");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (rule, place, words) in [
        ("", None, "it is empty"),
        ("tcp", None, "not written as in a file"),
        ("chain = web", None, "not written as in a file"),
        ("chain = \"a\" }\n[memory]\nbuffers = 1", None, "more than one line"),
        ("chain = \"a\" }, other = { a = 1", None, "not written as in a file"),
        ("chain = \"a\"", Some(0), "there is no rule 0; rules are 1 to 2"),
        ("chain = \"a\"", Some(4), "there is no rule 4"),
    ] {
        let why = add(rule, place).unwrap_err().to_string();
        assert!(why.contains(words), "{rule}: {why}");
    }
    assert!(delete_rule("a.toml", TEXT, 3).unwrap_err().to_string().contains("there is no rule 3"));
    let none = delete_rule("a.toml", "", 1).unwrap_err().to_string();
    assert_eq!(none, "there is no rule 1; there are none");
}

#[test]
fn secrets_are_left_out_and_nothing_else() {
    let text = "[[nf]]\nname = \"key\" # mine\nargs = { psk = \"abc\", api_key = 'd', keys = [\"e\"], \
                keyboard = \"qwerty\", peers = [{ name = \"x\", \"pre-shared.secret\" = 7 }] }\n";
    let (left, count) = without_secrets("a.toml", text).unwrap();
    assert_eq!(count, 4);
    for secret in ["abc", "'d'", "\"e\"", "= 7"] {
        assert!(!left.contains(secret), "{secret}: {left}");
    }
    for kept in ["name = \"key\" # mine", "keyboard = \"qwerty\"", "name = \"x\""] {
        assert!(left.contains(kept), "{kept}: {left}");
    }
    let text = "exec = [\"./prog\", \"--api-token\", \"abc\", \"--password=def\", \"--verbose\", \"ghi\"]\n";
    let (left, count) = without_secrets("a.toml", text).unwrap();
    assert_eq!(
        (count, left.contains("abc"), left.contains("def"), left.contains("ghi")),
        (2, false, false, true)
    );
    let json = r#"{"nf": [{"name": "a", "args": {"token": "s3cret", "n": 1}}]}"#;
    let (left, count) = without_secrets("a.json", json).unwrap();
    assert_eq!((count, left), (1, json.replace("s3cret", LEFT_OUT)));
}
