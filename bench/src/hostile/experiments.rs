//! Cases of `bench hostile`, and what is compared.

use std::rc::Rc;

use crate::lab::Machine;
use crate::lab::bed::TestBed;
use crate::lab::experiment::{Case, Comparison, Experiment, Measurement};

use super::attack::Attack;

/// Name of the only experiment.
pub const NAME: &str = "neighbour";
/// Attacks on what a neighbour shares with the foe: time of a core, the manager's attention, the machine.
/// Those on memory cost a foe its process, and are tested.
const MODES: [&str; 11] = [
    "scribble",
    "count-much",
    "claim-much",
    "dawdle",
    "doorbells",
    "many-messages",
    "files",
    "leave-core",
    "bomb",
    "balloon",
    "exit-soon",
];
/// What is measured, and where there is no core for a foe elsewhere.
const ABOUT: &str = "an NF of 2000 cycles, overloaded, alone and beside a hostile NF of another trust domain";
const ABOUT_ONE_CORE: &str = "an NF of 2000 cycles, overloaded, alone and beside a hostile NF of another trust \
                              domain, on one core: another one for the foe takes three cores";
/// The neighbour without a foe.
const ALONE: &str = "alone";
/// Cores that a foe elsewhere takes: the worker's, the neighbour's and its own.
const NF_CORES_ELSEWHERE: usize = 2;
/// What a neighbour keeps of what it has alone, on a core of its own, and of an even part of a shared one.
const ELSEWHERE: &str = "at least 0.95";
const BESIDE: &str = "at least 0.47, its part being 0.5";

/// Returns the experiment.
pub fn named(name: &str, machine: Machine<'_>) -> Vec<Experiment> {
    if name != NAME {
        return Vec::new();
    }
    let (places, about) = match machine.nf_cores >= NF_CORES_ELSEWHERE {
        true => (&[false, true][..], ABOUT),
        false => (&[false][..], ABOUT_ONE_CORE),
    };
    let case = |group: &str, variant, mode, elsewhere| Case {
        group: group.to_owned(),
        variant,
        bed: TestBed::of(Vec::new(), Vec::new()),
        measurement: Measurement::Own(Rc::new(Attack { mode, elsewhere, folder: machine.folder.to_owned() })),
    };
    let mut cases = vec![case("", ALONE, None, false)];
    let mut comparisons = Vec::new();
    for &elsewhere in places {
        let (place, aim) = if elsewhere { ("other_core", ELSEWHERE) } else { ("same_core", BESIDE) };
        for mode in MODES {
            let case = case(place, mode, Some(mode), elsewhere);
            comparisons.push(Comparison::over(
                format!("{place}.{mode}_over_alone"),
                &case.name(),
                ALONE,
                aim,
            ));
            cases.push(case);
        }
    }
    let mut experiment = Experiment::new(NAME, about, "no paper", cases);
    experiment.comparisons = comparisons;
    vec![experiment]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use headgate_config::{Catalog, Machine as Hardware, parse};

    use super::*;

    fn experiment(nf_cores: usize) -> Experiment {
        let machine = Machine { cycles_per_second: 3e9, folder: Path::new("/tmp"), nf_cores };
        named(NAME, machine).pop().unwrap()
    }

    #[test]
    fn every_case_has_a_name_of_its_own_and_is_compared_with_the_neighbour_alone() {
        for (nf_cores, places) in [(1, 1), (2, 2), (7, 2)] {
            let all = experiment(nf_cores);
            let names: BTreeSet<String> = all.cases.iter().map(Case::name).collect();
            assert_eq!(
                (names.len(), all.comparisons.len()),
                (places * MODES.len() + 1, places * MODES.len())
            );
        }
    }

    #[test]
    fn every_attack_is_one_that_the_program_has() {
        let sources = [
            include_str!("../../../tests/hostile/memory.c"),
            include_str!("../../../tests/hostile/machine.c"),
            include_str!("../../../tests/hostile/processes.c"),
        ];
        let is_there = |mode: &&str| sources.iter().any(|text| text.contains(&format!("{{\"{mode}\", ")));
        assert_eq!(MODES.iter().filter(|mode| !is_there(mode)).collect::<Vec<_>>(), Vec::<&&str>::new());
    }

    #[test]
    fn every_configuration_is_accepted() {
        let hardware = Hardware { cores: vec![0, 1, 2], memory_bytes: 4 << 30, ..Hardware::default() };
        for (mode, elsewhere) in [(None, false), (Some("bomb"), false), (Some("bomb"), true)] {
            let text = Attack { mode, elsewhere, folder: "/tmp".into() }.to_toml(&[0, 1, 2]);
            let text =
                text.replace("run = \"synthetic\"\nargs = { cycles = 2000 }", "exec = [\"/bin/true\"]");
            let loaded = parse("hostile.toml", &text, &Catalog::default(), &hardware);
            let loaded = loaded.unwrap_or_else(|mistakes| panic!("{mistakes}"));
            assert_eq!(loaded.warnings.to_string(), "");
            let foe = loaded.config.nfs.iter().find(|nf| nf.name == "foe");
            assert_eq!(foe.map(|foe| foe.cores[0]), mode.map(|_| if elsewhere { 2 } else { 1 }));
        }
    }
}
