//! Numbers that may only fall, in `ratchets.toml`.

use std::collections::BTreeMap;

use crate::offence::Measured;

/// Path of the ratchets, from the root of the workspace.
pub const FILE: &str = "tests/tidy/ratchets.toml";

/// Numbers by the names of rules.
pub type Ratchets = BTreeMap<String, usize>;

/// Reads the ratchets.
///
/// # Errors
/// A sentence, when the text is not a list of numbers.
pub fn read(text: &str) -> Result<Ratchets, String> {
    toml::from_str(text).map_err(|error| format!("{FILE}: {error}"))
}

/// Returns what is wrong with the measured numbers, and how to mend it; nothing when each is what its ratchet
/// says.
pub fn judge(ratchets: &Ratchets, measured: &[Measured]) -> Vec<String> {
    let known = |name: &String| measured.iter().any(|one| one.rule.name == *name);
    let unknown = ratchets.keys().filter(|name| !known(name));
    let unknown = unknown.map(|name| format!("{FILE}: there is no rule '{name}': remove the line"));
    measured
        .iter()
        .filter_map(|one| judge_one(ratchets.get(one.rule.name).copied(), one))
        .chain(unknown)
        .collect()
}

fn judge_one(ratchet: Option<usize>, measured: &Measured) -> Option<String> {
    let (name, number) = (measured.rule.name, measured.number);
    match ratchet {
        None => Some(format!("{FILE}: no ratchet for {name}: add the line `{name} = {number}`")),
        Some(ratchet) if number > ratchet => Some(format!(
            "{}{name}: {number} offences (above, worst first), but the ratchet is {ratchet}: mend {} of them",
            measured.report(),
            number - ratchet,
        )),
        Some(ratchet) if number < ratchet => Some(format!(
            "{name}: {number} offences, but the ratchet is {ratchet}: lower it to {number} in {FILE}, \
             or run the test again with HEADGATE_UPDATE_RATCHETS=1"
        )),
        Some(_) => None,
    }
}

/// Returns the text of the ratchets with each number lowered to what was measured; none is raised.
pub fn lowered(text: &str, measured: &[Measured]) -> String {
    let lower = |line: &str| {
        let (name, number) = line.split_once(" = ")?;
        let number: usize = number.parse().ok()?;
        let found = measured.iter().find(|one| one.rule.name == name)?;
        Some(format!("{name} = {}\n", number.min(found.number)))
    };
    text.lines().map(|line| lower(line).unwrap_or_else(|| format!("{line}\n"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offence::{Offence, Rule};
    use crate::rules::planted_file;

    static RULE: Rule = Rule {
        name: "rule",
        asks: "nothing",
        find: |_| {
            vec![
                Offence::new("a.rs", 1, 1, "less".to_owned()),
                Offence::new("b.rs", 2, 2, "worse".to_owned()),
            ]
        },
    };

    fn two() -> Vec<Measured> {
        vec![Measured::of(&RULE, &planted_file(""))]
    }

    fn judged(text: &str) -> Vec<String> {
        judge(&read(text).expect("numbers"), &two())
    }

    #[test]
    fn only_the_very_number_holds() {
        assert_eq!(judged("# why\nrule = 2"), [""; 0]);
        let above = &judged("rule = 1")[0];
        assert!(above.contains("mend 1 of them"), "{above}");
        assert!(above.find("b.rs:2: worse") < above.find("a.rs:1: less"), "{above}");
        let below = &judged("rule = 3")[0];
        assert!(below.contains("lower it to 2"), "{below}");
    }

    #[test]
    fn a_rule_without_ratchet_and_a_ratchet_without_rule_are_told() {
        let found = judged("other = 2");
        assert!(found[0].contains("add the line `rule = 2`"), "{found:?}");
        assert!(found[1].contains("no rule 'other'"), "{found:?}");
        assert!(read("rule = -1").is_err());
    }

    #[test]
    fn numbers_are_lowered_and_never_raised() {
        assert_eq!(lowered("# why\nrule = 3\nother = 9\n", &two()), "# why\nrule = 2\nother = 9\n");
        assert_eq!(lowered("rule = 1\n", &two()), "rule = 1\n");
    }
}
