//! A change of a configuration: as lines for people, and in the file's own tree.

use headgate_api::status::ChainStatus;
use headgate_config::Config;
use headgate_decide::profile::{CALL_BATCH, Knob, Proposal, SLICE_US_LONG};
use toml::{Table, Value};

/// A change of named NFs.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Keys of one NF.
    Keys {
        /// The NF.
        nf: String,
        /// Keys and their new values.
        keys: Vec<(&'static str, Value)>,
    },
    /// Packets of one system call of a chain's NFs.
    CallBatch {
        /// The chain.
        chain: String,
        /// Packets.
        batch: u32,
    },
    /// Several NFs become one.
    Fuse {
        /// Their names, in the order of the chain.
        nfs: Vec<String>,
    },
}

impl Change {
    /// Makes the edits of a proposal for a chain.
    pub fn of(proposal: &Proposal, chain: &ChainStatus) -> Self {
        let stages = &chain.stages;
        let nf = stages[proposal.stage].clone();
        let keys = |keys: Vec<(&'static str, Value)>| Self::Keys { nf: nf.clone(), keys };
        match proposal.knob {
            Knob::Notified => keys(vec![("loop", "notified".into())]),
            Knob::Place { core } => keys(vec![("core", i64::from(core).into())]),
            Knob::LongBatch => {
                keys(vec![("policy", "batch".into()), ("slice_us", i64::from(SLICE_US_LONG).into())])
            }
            Knob::CallBatch => Self::CallBatch { chain: chain.name.clone(), batch: CALL_BATCH },
            Knob::Fuse { last } => Self::Fuse { nfs: stages[proposal.stage..=last].to_vec() },
        }
    }

    /// The lines to write into a file.
    pub fn lines(&self, file: &Table) -> String {
        match self {
            Self::Keys { nf, keys } => {
                let lines = keys.iter().map(|(key, value)| format!("{key} = {value}\n"));
                format!("[[nf]]\nname = \"{nf}\"\n{}", lines.collect::<String>())
            }
            Self::CallBatch { chain, .. } => {
                let mut changed = file.clone();
                self.make(&mut changed);
                let io = tables_of(&mut changed, "chain").find(|table| is_named(table, chain));
                let io = io.and_then(|table| table.get("io").cloned());
                format!("[[chain]]\nname = \"{chain}\"\nio = {}\n", io.unwrap_or(Table::new().into()))
            }
            Self::Fuse { nfs } => {
                let members: Vec<String> =
                    nfs.iter().filter_map(|nf| member(file, nf)).map(|m| m.to_string()).collect();
                format!("[[nf]]\nname = \"{}\"\nfuse = [{}]\n", nfs.join("-"), members.join(", "))
            }
        }
    }

    /// Makes the change; whether everything it is about was there.
    pub fn make(&self, file: &mut Table) -> bool {
        match self {
            Self::Keys { nf, keys } => {
                let Some(table) = nfs_of(file).find(|table| is_named(table, nf)) else { return false };
                for (key, value) in keys {
                    table.insert((*key).to_owned(), value.clone());
                }
                // A cooperative loop's key means nothing to a notified one.
                if keys.iter().any(|(key, _)| *key == "loop") {
                    table.remove("yield_after");
                }
                true
            }
            Self::CallBatch { chain, batch } => {
                let table = tables_of(file, "chain").find(|table| is_named(table, chain));
                let Some(io) = table.and_then(|table| table.get_mut("io")?.as_table_mut()) else {
                    return false;
                };
                io.insert("batch".to_owned(), i64::from(*batch).into());
                true
            }
            Self::Fuse { nfs } => fuse(file, nfs),
        }
    }
}

fn fuse(file: &mut Table, nfs: &[String]) -> bool {
    let members: Vec<Value> = nfs.iter().filter_map(|nf| member(file, nf)).collect();
    let [first, others @ ..] = nfs else { return false };
    if members.len() != nfs.len() {
        return false;
    }
    let name = nfs.join("-");
    for table in nfs_of(file).filter(|table| is_named(table, first)) {
        table.insert("name".to_owned(), name.clone().into());
        table.remove("run");
        table.remove("args");
        table.insert("fuse".to_owned(), Value::Array(members.clone()));
    }
    if let Some(Value::Array(all)) = file.get_mut("nf") {
        all.retain(|nf| nf.as_table().is_none_or(|table| !others.iter().any(|other| is_named(table, other))));
    }
    for chain in tables_of(file, "chain") {
        let Some(Value::Array(stages)) = chain.get_mut("stages") else { continue };
        stages.retain(|stage| !others.iter().any(|other| stage.as_str() == Some(other)));
        for stage in stages.iter_mut().filter(|stage| stage.as_str() == Some(first)) {
            *stage = name.clone().into();
        }
    }
    true
}

/// Returns the entry of an NF in `fuse`.
fn member(file: &Table, nf: &str) -> Option<Value> {
    let all = file.get("nf")?.as_array()?.iter().filter_map(Value::as_table);
    let table = all.into_iter().find(|table| is_named(table, nf))?;
    let mut member = Table::new();
    for key in ["run", "args"] {
        if let Some(value) = table.get(key) {
            member.insert(key.to_owned(), value.clone());
        }
    }
    member.contains_key("run").then_some(Value::Table(member))
}

fn is_named(table: &Table, name: &str) -> bool {
    table.get("name").and_then(Value::as_str) == Some(name)
}

fn nfs_of(file: &mut Table) -> impl Iterator<Item = &mut Table> {
    tables_of(file, "nf")
}

fn tables_of<'a>(file: &'a mut Table, key: &str) -> impl Iterator<Item = &'a mut Table> {
    file.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_table_mut)
}

/// Returns whether a checked configuration has a stage that may be fused with the one behind it: both
/// shipped, one instance each on one core, of one domain and user, waiting alike, and visited by no other
/// chain.
pub fn may_fuse(config: &Config, one: &str, two: &str) -> bool {
    use headgate_config::model::{Nf, Program};
    let find = |name: &str| config.nfs.iter().position(|nf| nf.name == name);
    let (Some(one), Some(two)) = (find(one), find(two)) else { return false };
    let visits = |nf: usize| {
        config.chains.iter().filter(|chain| chain.stages.iter().any(|stage| stage.index() == nf)).count()
    };
    let (a, b) = (&config.nfs[one], &config.nfs[two]);
    let shipped = |nf: &Nf| matches!(nf.origin.program(), Some(Program::Run(_)));
    shipped(a)
        && shipped(b)
        && (a.cores.len(), &a.cores) == (1, &b.cores)
        && (a.domain, &a.user, a.waits, a.on_failure) == (b.domain, &b.user, b.waits, b.on_failure)
        && visits(one) == 1
        && visits(two) == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
[[nf]]
name = "a"
run = "firewall"
core = 1
args = { default = "pass" }
[[nf]]
name = "b"
run = "monitor"
loop = "cooperative"
yield_after = 8
[[nf]]
name = "c"
exec = ["./c"]
[[chain]]
name = "web"
stages = ["a", "b", "c"]
out = "sink"
"#;

    fn changed(change: &Change) -> Table {
        let mut file: Table = FILE.parse().unwrap();
        assert!(change.make(&mut file));
        file
    }

    #[test]
    fn keys_of_one_nf_change_and_nothing_else() {
        let change = Change::Keys { nf: "b".into(), keys: vec![("loop", "notified".into())] };
        let (before, after): (Table, Table) = (FILE.parse().unwrap(), changed(&change));
        assert_eq!(after["nf"][1]["loop"].as_str(), Some("notified"));
        assert!(after["nf"][1].get("yield_after").is_none());
        assert_eq!((&after["nf"][0], &after["nf"][2]), (&before["nf"][0], &before["nf"][2]));
        assert_eq!(after["chain"], before["chain"]);
        assert_eq!(change.lines(&before), "[[nf]]\nname = \"b\"\nloop = \"notified\"\n");
        let absent = Change::Keys { nf: "z".into(), keys: vec![] };
        assert!(!absent.make(&mut before.clone()));
    }

    #[test]
    fn packets_of_one_call_change_and_the_rest_of_io_stays() {
        let file = "[[chain]]\nname = \"edge\"\nstages = [\"a\"]\nio = { in = \"lan0\", out = \"wan0\", batch = 1 }\n";
        let change = Change::CallBatch { chain: "edge".into(), batch: 32 };
        let lines = change.lines(&file.parse().unwrap());
        let io = lines.strip_prefix("[[chain]]\nname = \"edge\"\n").unwrap();
        let io: Table = io.parse().unwrap();
        assert_eq!(io["io"]["batch"].as_integer(), Some(32));
        assert_eq!(io["io"]["in"].as_str(), Some("lan0"));
        // A chain on rings has none.
        assert!(!change.make(&mut FILE.parse().unwrap()));
    }

    #[test]
    fn fused_nfs_become_one_that_keeps_the_firsts_keys() {
        let change = Change::Fuse { nfs: vec!["a".into(), "b".into()] };
        let after = changed(&change);
        let nfs = after["nf"].as_array().unwrap();
        assert_eq!(nfs.len(), 2);
        assert_eq!((nfs[0]["name"].as_str(), nfs[0]["core"].as_integer()), (Some("a-b"), Some(1)));
        assert!(nfs[0].get("run").is_none() && nfs[0].get("args").is_none());
        assert_eq!(nfs[0]["fuse"][0]["args"]["default"].as_str(), Some("pass"));
        assert_eq!(nfs[0]["fuse"][1]["run"].as_str(), Some("monitor"));
        let stages: Vec<&str> =
            after["chain"][0]["stages"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(stages, ["a-b", "c"]);
        let lines = change.lines(&FILE.parse().unwrap());
        assert!(lines.contains("name = \"a-b\"\nfuse = [{ "), "{lines}");
        // What was written can be read.
        let text = toml::to_string(&after).unwrap();
        assert_eq!(text.parse::<Table>().unwrap(), after);
    }

    #[test]
    fn programs_of_others_are_not_fused() {
        let mut file: Table = FILE.parse().unwrap();
        assert!(!Change::Fuse { nfs: vec!["b".into(), "c".into()] }.make(&mut file));
        assert_eq!(file, FILE.parse::<Table>().unwrap());
    }
}
