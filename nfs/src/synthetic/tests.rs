use super::*;
use headgate_nf::testing::{Harness, Setup, check};
use proptest::prelude::*;

fn cost(text: &str) -> Cost {
    let cost: Cost = serde_json::from_str(text).unwrap();
    cost.check().unwrap();
    cost
}

fn drawn(text: &str, count: usize) -> Vec<u64> {
    let (cost, mut random) = (cost(text), Random(7));
    (0..count).map(|_| cost.of(64, &mut random)).collect()
}

fn mean(costs: &[u64]) -> f64 {
    costs.iter().sum::<u64>() as f64 / costs.len() as f64
}

#[test]
fn steps_follow_the_packet_s_size() {
    let steps = cost(r#"{"steps":[{"from":64,"cycles":120},{"from":512,"cycles":550}]}"#);
    let of = |bytes| steps.of(bytes, &mut Random(1));
    assert_eq!([0, 63, 64, 511, 512, 9000].map(of), [0, 0, 120, 120, 550, 550]);
}

#[test]
fn draws_have_the_mean_and_the_range_they_should() {
    let uniform = drawn(r#"{"uniform":{"min":100,"max":300}}"#, 20_000);
    assert!(uniform.iter().all(|cycles| (100..=300).contains(cycles)));
    assert!(uniform.contains(&100) && uniform.contains(&300));
    assert!((mean(&uniform) - 200.0).abs() < 2.0);
    let exponential = drawn(r#"{"exponential":{"mean":500}}"#, 50_000);
    assert!((mean(&exponential) - 500.0).abs() < 10.0);
    let above = exponential.iter().filter(|cycles| **cycles > 500).count() as f64 / 50_000.0;
    assert!((above - (-1f64).exp()).abs() < 0.01, "{above}");
    let choice = drawn(
        r#"{"choice":[{"cycles":10,"weight":3},{"cycles":99,"weight":0},{"cycles":20,"weight":1}]}"#,
        20_000,
    );
    let cheap = choice.iter().filter(|cycles| **cycles == 10).count() as f64 / 20_000.0;
    assert!((cheap - 0.75).abs() < 0.02, "{cheap}");
    assert!(!choice.contains(&99));
}

#[test]
fn it_sleeps_as_often_as_its_packets_say() {
    let of = |text: &str| Synthetic::of(serde_json::from_str(text).unwrap());
    let mut nf = of(r#"{"cycles":0,"sleep":{"every":100,"us":2000}}"#).unwrap();
    let sleeps = |nf: &mut Synthetic, packets| {
        let began = std::time::Instant::now();
        nf.sleep_after(packets);
        began.elapsed().as_micros() / 2000
    };
    nf.sleep_after(64);
    assert_eq!(nf.awake_for, 64);
    assert!(sleeps(&mut nf, 64) >= 1);
    assert_eq!(nf.awake_for, 28);
    assert!(sleeps(&mut nf, 272) >= 3);
    assert_eq!(nf.awake_for, 0);
    for wrong in [r#"{"every":0,"us":9}"#, r#"{"every":9,"us":0}"#, r#"{"every":9,"us":1000001}"#] {
        assert!(of(&format!(r#"{{"cycles":0,"sleep":{wrong}}}"#)).is_err(), "{wrong}");
    }
}

#[test]
fn the_same_seed_draws_the_same_costs() {
    let text = r#"{"exponential":{"mean":1000}}"#;
    assert_eq!(drawn(text, 100), drawn(text, 100));
}

proptest! {
    /// No accepted cost draws more than the limit, whatever the seed.
    #[test]
    fn costs_stay_below_the_limit(min in 0..=CYCLES_MAX, max in 0..=CYCLES_MAX, seed: u64) {
        let text = format!(r#"{{"uniform":{{"min":{min},"max":{max}}}}}"#);
        let cost: Cost = serde_json::from_str(&text).unwrap();
        if cost.check().is_ok() {
            prop_assert!((min..=max).contains(&cost.of(64, &mut Random(seed))));
        } else {
            prop_assert!(min > max);
        }
    }
}

#[test]
fn at_least_the_asked_cycles_are_spent_on_each_packet() {
    let mut harness = Harness::new(Setup::with(r#"{"cycles":20000}"#), Synthetic::new).unwrap();
    let from = cycles();
    harness.run(&vec![[0u8; 60]; 10]);
    assert!(cycles() - from >= 200_000);
    harness.message(r#"{"cycles":0}"#).unwrap();
    harness.message(r#"{"cycles":{"exponential":{"mean":10}},"seed":3}"#).unwrap();
    assert!(harness.message(r#"{"cycle":1}"#).is_err());
}

#[test]
fn wrong_costs_are_refused() {
    for (arguments, why) in [
        ("{}", "missing field `cycles`"),
        (r#"{"cycles":-1}"#, "`cycles` is a number, or"),
        (r#"{"cycles":{"unifrom":{"min":1,"max":2}}}"#, "`cycles` is a number, or"),
        (r#"{"cycles":2000000000}"#, "2000000000 cycles a packet are more than 1000000000"),
        (r#"{"cycles":{"uniform":{"min":2,"max":1}}}"#, "min 2 above max 1"),
        (r#"{"cycles":{"choice":[]}}"#, "at least one entry"),
        (r#"{"cycles":{"steps":[]}}"#, "`steps` is empty"),
        (r#"{"cycles":{"steps":[{"from":2,"cycles":1},{"from":1,"cycles":1}]}}"#, "must rise"),
    ] {
        let error = check(arguments, Synthetic::new).unwrap_err().to_string();
        assert!(error.contains(why), "{arguments}: {error}");
    }
}
