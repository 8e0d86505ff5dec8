//! Values of a scene that are changed on the command line: `--set KEY=VALUE`.

use headgate_sim::Scene;
use serde_json::Value as Json;

use crate::error::CommandError;

/// Returns a scene with these changes.
///
/// # Errors
/// All mistakes of the changes, and of the scene that they lead to.
pub fn apply(scene: &Scene, changes: &[String]) -> Result<Scene, CommandError> {
    let mut json = serde_json::to_value(scene).map_err(CommandError::environment)?;
    let mistakes: Vec<String> = changes.iter().filter_map(|change| set(&mut json, change).err()).collect();
    if !mistakes.is_empty() {
        return Err(CommandError::usage(mistakes.join("; ")));
    }
    let scene: Scene = serde_json::from_value(json).map_err(|error| {
        CommandError::usage(format!("--set: a value is not of the kind its key has: {error}"))
    })?;
    match scene.mistakes().as_slice() {
        [] => Ok(scene),
        mistakes => Err(CommandError::usage(mistakes.join("; "))),
    }
}

/// Returns the changes of a sweep: so many whole values of a key, evenly from the first to the last.
///
/// # Errors
/// It is not of the form KEY=A..B with A below B.
pub fn sweep(sweep: &str, steps: u64) -> Result<Vec<String>, CommandError> {
    let range = sweep.split_once('=').and_then(|(key, range)| Some((key, range.split_once("..")?)));
    let bounds = range.and_then(|(key, (from, to))| Some((key, from.parse().ok()?, to.parse().ok()?)));
    let Some((key, from, to)) = bounds.filter(|(_, from, to): &(&str, u64, u64)| from < to) else {
        let message = format!(
            "--sweep {sweep}: give a key and two whole numbers, the lower first, as in costs.switch_ns=1000..5000"
        );
        return Err(CommandError::usage(message));
    };
    let value = |step: u64| {
        let part = u128::from(to - from) * u128::from(step) / u128::from(steps - 1);
        format!("{key}={}", from + part as u64)
    };
    Ok((0..steps).map(value).collect())
}

/// Sets one value, which must be there.
fn set(json: &mut Json, change: &str) -> Result<(), String> {
    let Some((key, text)) = change.split_once('=') else {
        return Err(format!("--set {change}: give a key and a value, as in costs.switch_ns=5000"));
    };
    let mut place = json;
    for part in key.split('.') {
        let known = keys(place);
        let next = match place {
            Json::Object(all) => all.get_mut(part),
            Json::Array(all) => part.parse().ok().and_then(|number: usize| all.get_mut(number)),
            _ => None,
        };
        place = next.ok_or_else(|| format!("--set {key}: there is no `{part}`{known}"))?;
    }
    // A word need not be quoted.
    *place = serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.to_owned()));
    Ok(())
}

/// Returns the keys that are there, in words.
fn keys(place: &Json) -> String {
    match place {
        Json::Object(all) => format!(": there are {}", all.keys().cloned().collect::<Vec<_>>().join(", ")),
        Json::Array(all) => format!(": there are 0 to {}", all.len().saturating_sub(1)),
        _ => ": this is a value and not a table".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_sim::scenarios;

    fn changed(changes: &[&str]) -> Result<Scene, String> {
        let scene = scenarios::named("nfvnice-chain").expect("it is there").cases.swap_remove(0).1;
        let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
        apply(&scene, &changes).map_err(|error| error.to_string())
    }

    #[test]
    fn a_sweep_goes_from_the_first_to_the_last() {
        assert_eq!(sweep("seed=1..4", 4).expect("right"), ["seed=1", "seed=2", "seed=3", "seed=4"]);
        assert_eq!(
            sweep("costs.switch_ns=0..9", 3).expect("right"),
            ["costs.switch_ns=0", "costs.switch_ns=4", "costs.switch_ns=9"]
        );
        for wrong in ["seed", "seed=1", "seed=4..1", "seed=1..x", "seed=-1..1"] {
            let error = sweep(wrong, 3).expect_err("it is wrong").to_string();
            assert!(error.contains("the lower first"), "{error}");
        }
    }

    #[test]
    fn a_value_is_set_and_a_wrong_one_is_refused_with_its_cure() {
        let scene =
            changed(&["costs.switch_ns=7", "nfs.1.policy=fifo", "scheduler.pending=0"]).expect("right");
        assert_eq!((scene.costs.switch_ns, scene.scheduler.pending), (7, 0));
        for (changes, wanted) in [
            (&["costs.switsch=7", "x"][..], "there is no `switsch`: there are"),
            (&["costs.switsch=7", "x"], "--set x: give a key and a value"),
            (&["nfs.7.ring=64"], "there is no `7`: there are 0 to 2"),
            (&["nfs.0.ring=65"], "nfs[0].ring: 65 is no power of two"),
            (&["costs.tick=often"], "not of the kind"),
            (&["costs.switch_ns=-1"], "not of the kind"),
            (&["horizon=999999999999999"], "more than an hour"),
            (&["seed.x=1"], "this is a value"),
        ] {
            let error = changed(changes).expect_err("it is wrong");
            assert!(error.contains(wanted), "{changes:?}: {error}");
        }
    }
}
