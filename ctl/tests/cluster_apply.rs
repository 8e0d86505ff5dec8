//! One file for all nodes, or for none, over a lab with an etcd of its own; and what comes of a file before
//! it is one.

mod common;

use common::network::{Lab, exchange_all};
use common::store::{delete, has_event, put, text, the_one_that_serves};
use common::{daemon, eventually, run, signal};
use headgate_host::namespace::named;
use rustix::process::Signal;
use serde_json::Value as Json;

/// Gives all nodes of a lab another file.
fn apply(lab: &Lab, text: &str, words: &[&str]) -> (i32, Json, String) {
    let path = lab.folder.path().join("next.toml");
    std::fs::write(&path, text).unwrap();
    let words = [&["--json", "cluster", "apply", path.to_str().unwrap()], words].concat();
    // The store is where its nodes are.
    let node = named::open(&format!("{}-a", lab.name)).unwrap();
    let (code, data, messages) = node.run(|| run(lab.folder.path(), &words)).unwrap();
    (code, serde_json::from_str(&data).unwrap_or_default(), messages)
}

/// Returns the words of a document's nodes for how far they are.
fn states(document: &Json) -> Vec<(&str, &str)> {
    let nodes = document["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    nodes.iter().map(|node| (node["node"].as_str().unwrap(), node["state"].as_str().unwrap())).collect()
}

#[test]
fn all_nodes_get_another_file_or_none_of_them() {
    let Some(lab) = Lab::start("cluster-apply", text) else { return };
    let first = the_one_that_serves(&lab);
    let listener = lab.listen();
    let mut all = [lab.connect(&listener)];
    exchange_all(&mut all, 1);
    let before = text(&lab.name);
    // An NF of c alone, in front of all.
    let nf = "[[nf]]\nname = \"count\"\nnode = \"c\"\nrun = \"monitor\"\ncore = 1\n[[chain]]\nname = \"out\"";
    let longer = before
        .replace("[[chain]]\nname = \"out\"", nf)
        .replace("stages = [\"work\"]\nout = \"east\"", "stages = [\"count\", \"work\"]\nout = \"east\"");

    // What one node cannot do changes nothing at any.
    let (code, _, messages) =
        apply(&lab, &longer.replace("run = \"monitor\"\ncore = 1", "run = \"monitor\"\ncore = 999"), &[]);
    assert_eq!(code, 1, "{messages}");
    assert!(messages.contains("nothing was changed") && messages.contains("node c"), "{messages}");
    exchange_all(&mut all, 2);
    assert!(!lab.json("c", &["status"]).to_string().contains("\"count\""));

    // A question changes nothing either, and says what would.
    let demand = ["--dry-run", "--demand", "out=100", "--demand", "back=100"];
    let given = [&demand[..], &["--service-time", "count=1us", "--service-time", "work=100us"]].concat();
    let (code, document, messages) =
        apply(&lab, &longer, &[&given[..], &["--name", &format!("{}-a", lab.name)]].concat());
    let would = states(&document);
    assert_eq!(would, [("a", "could"), ("b", "could"), ("c", "could")], "{code} {document:#} {messages}");
    assert!(document["nodes"][2]["changes"].to_string().contains("count"), "{document:#}");
    assert!(document["forecast"]["is_settled"].as_bool().unwrap(), "{document:#}");
    assert!(!lab.json("c", &["status"]).to_string().contains("\"count\""));

    // One that all can go by.
    let (code, document, messages) = apply(&lab, &longer, &[]);
    assert_eq!(code, 0, "{messages} {document:#}");
    assert_eq!(states(&document), [("a", "goes by it"), ("b", "goes by it"), ("c", "goes by it")]);
    let number = document["file"].as_u64().unwrap();
    exchange_all(&mut all, 3);
    assert!(lab.json("c", &["status"]).to_string().contains("\"count\""));
    eventually("status says which file", || {
        lab.json("b", &["cluster", "status"])["store"]["file"].as_u64() == Some(number)
    });
    let (code, document, _) = apply(&lab, &longer, &[]);
    assert_eq!((code, document["file"].as_u64()), (0, Some(number)), "the same once more is nothing");

    // A node that is given another file alone says so, and gets that of all once more.
    let path = lab.folder.path().join("alone.toml");
    std::fs::write(&path, text(&lab.name)).unwrap();
    let alone = ["apply", path.to_str().unwrap(), "--node", "b"];
    let (code, _, messages) = run(lab.folder.path(), &alone);
    assert_eq!(code, 0, "{messages}");
    eventually("it is said", || {
        lab.json("a", &["cluster", "status"])["store"]["applied"].to_string().contains("another file alone")
    });
    let (code, document, messages) = apply(&lab, &longer, &[]);
    assert_eq!((code, states(&document)[1]), (0, ("b", "goes by it")), "{messages} {document:#}");
    exchange_all(&mut all, 30);

    // A node that was away goes by it when it comes, whatever its own file says.
    signal(daemon(lab.folder.path(), &format!("{}-c", lab.name)), Signal::KILL);
    eventually("the node is back with the file of all", || {
        lab.json("c", &["status"]).to_string().contains("\"count\"")
    });
    lab.wait_for_servers([the_one_that_serves(&lab).as_str()]);
    exchange_all(&mut all, 4);

    // A range that is another counts at once.
    let (code, _, messages) = apply(
        &lab,
        &longer.replace("min = 1, max = 2", "min = 2, max = 2").replace("low = 10", "low = 12"),
        &[],
    );
    assert_eq!(code, 0, "{messages}");
    lab.wait_for_servers(["b", "c"]);

    // What nobody of us wrote: the text of a file is not there, a proposal that is none.
    let wrong = r#"{"revision":4000,"digest":"0","bytes":5000000000,"parts":4000000000}"#;
    put(&lab, "spec", wrong);
    put(&lab, "proposal", r#"{"revision":-1}"#);
    eventually("it is said", || {
        let applied = lab.json("a", &["cluster", "status"])["store"]["applied"].to_string();
        applied.contains("not whole in the store") && has_event(&lab, &first, "store-problem")
    });
    exchange_all(&mut all, 5);
    delete(&lab, "proposal");
    // It is overtaken by the next file.
    let (code, document, messages) = apply(&lab, &longer, &[]);
    assert_eq!(code, 0, "{messages} {document:#}");
    assert!(document["file"].as_u64().unwrap() > 4000);
    exchange_all(&mut all, 6);
    lab.check_accounts(&["a", "b", "c"]);
    lab.end();
}

#[test]
fn a_dry_run_says_what_starts_under_a_demand_and_what_is_too_much() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("would.toml");
    std::fs::write(&path, text("would").replace("http://10.8.0.1:2379", "http://127.0.0.1:1")).unwrap();
    let dry = |words: &[&str]| {
        let words = [&["--json", "cluster", "apply", path.to_str().unwrap(), "--dry-run"], words].concat();
        let (code, data, messages) = run(folder.path(), &words);
        (code, serde_json::from_str::<Json>(&data).unwrap_or_default(), messages)
    };
    let serve = |document: &Json| document["forecast"]["nfs"][0]["nodes"].as_array().map_or(0, Vec::len);
    let time = ["--service-time", "work=10us"];
    let with = |out: &str, back: &str| dry(&[&time[..], &["--demand", out, "--demand", back]].concat());
    // A tenth of a core: one is enough. Half of one: above the band, so two.
    let (code, little, messages) = with("out=5k", "back@a=5k");
    assert_eq!((code, serve(&little)), (0, 1), "{little:#} {messages}");
    assert!(messages.contains("no node was asked"), "{messages}");
    let (code, more, _) = with("out=25k", "back=25k");
    assert_eq!((code, serve(&more)), (0, 2), "{more:#}");
    let why = more["forecast"]["changes"].to_string();
    assert!(why.contains("fewer than 1 nodes serve it") && why.contains("flows would pay"), "{why}");
    let asked: f64 = more["forecast"]["cores"]
        .as_array()
        .unwrap()
        .iter()
        .map(|core| core["asked"].as_f64().unwrap())
        .sum();
    assert!((asked - 0.5).abs() < 0.01, "{more:#}");
    // Three cores' worth for two: a third is lost.
    let (code, much, _) = with("out=150k", "back=150k");
    assert_eq!((code, serve(&much)), (5, 2), "{much:#}");
    let lost = much["forecast"]["chains"][0]["lost"].as_f64().unwrap();
    assert!((lost - 50e3).abs() < 3e3, "{much:#}");
    // What is not known is asked for, and what is not there is refused.
    for (words, message) in [
        (&["--demand", "out=5k"][..], "how many packets enter chain `back` at node `a`"),
        (&["--demand", "out=5k", "--demand", "back=5k"], "how long a packet takes at work"),
        (&["--demand", "oot=5k"], "no chain `oot`"),
        (&["--demand", "out@b=5k"], "no packets enter chain `out` at `b`"),
        (&["--demand", "out=5kbps"], "divide by the bits"),
        (&["--service-time", "wrok=5us"], "an NF `wrok`"),
        (&["--service-time", "work=5"], "write a number and its unit"),
    ] {
        let (code, _, messages) = dry(words);
        assert!(code == 2 && messages.contains(message), "{code} {messages}");
    }
}
