use std::collections::{BTreeMap, BTreeSet};

use headgate_decide::chain_ids::{ChainIds, Direction, ID_MAX, REST, of_list};
use headgate_decide::units::{Instant, Span};
use proptest::prelude::*;

fn at(secs: u64) -> Instant {
    Instant(0) + Span::from_secs(secs)
}

#[test]
fn a_list_has_one_number_and_a_changed_list_another() {
    let mut ids = ChainIds::new(Span::from_secs(30));
    let forward = ids.allocate(at(0), &[1, 2], Direction::Forward).unwrap();
    assert_eq!(ids.allocate(at(9), &[1, 2], Direction::Forward), Some(forward));
    let others = [
        ids.allocate(at(0), &[1, 2], Direction::Reverse),
        ids.allocate(at(0), &[2, 1], Direction::Forward),
        ids.allocate(at(0), &[1, 2, 3], Direction::Forward),
    ];
    assert_eq!((forward, others), (1, [Some(2), Some(3), Some(4)]));
    assert_eq!((ids.stages(forward), ids.serving()), (Some(&[1, 2][..]), 4));
    assert_eq!(ids.stages(ID_MAX), None);
}

#[test]
fn a_number_rests_before_it_names_another_list() {
    let mut ids = ChainIds::of_size(Span::from_secs(90), 1);
    let id = ids.allocate(at(0), &[1], Direction::Forward).unwrap();
    assert_eq!(ids.allocate(at(0), &[2], Direction::Forward), None);
    ids.on_drained(at(0), id);
    assert_eq!(ids.stages(id), Some(&[1][..]), "what serves is not drained");
    ids.retire(id);
    assert_eq!((ids.stages(id), ids.serving()), (Some(&[1][..]), 0), "packets are under way");
    ids.on_drained(at(10), id);
    assert_eq!(ids.stages(id), None);
    assert_eq!(ids.allocate(at(99), &[2], Direction::Forward), None, "flows may be silent for 90 s");
    assert_eq!(ids.allocate(at(100), &[2], Direction::Forward), Some(id));
    assert!(REST.0 >= Span::from_secs(60).0);
}

proptest! {
    /// Invariant 7: no number is used again while a packet with it can be under way.
    #[test]
    fn numbers_rest(steps in prop::collection::vec((0u8..3, 0u32..6, 0u64..50), 1..120)) {
        let mut ids = ChainIds::of_size(Span::from_secs(5), 4);
        let (mut now, mut drained) = (0, BTreeMap::<u32, (u32, u64)>::new());
        let mut named: BTreeMap<u32, u32> = BTreeMap::new();
        for (what, list, wait) in steps {
            now += wait;
            let known = named.iter().find(|(_, of)| **of == list).map(|(id, _)| *id);
            match (what, known) {
                (0, _) => {
                    if let Some(id) = ids.allocate(at(now), &[list], Direction::Forward) {
                        prop_assert!((1..=4).contains(&id));
                        if let Some((of, since)) = drained.get(&id) && known != Some(id) {
                            prop_assert!(now >= since + 60, "{id} of {of} at {now}, drained at {since}");
                        }
                        named.insert(id, list);
                    }
                }
                (_, Some(id)) => {
                    ids.retire(id);
                    if what == 2 {
                        ids.on_drained(at(now), id);
                        named.remove(&id);
                        drained.insert(id, (list, now));
                    }
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_digest_gives_a_number_and_the_next_where_that_is_taken() {
    let mut taken = BTreeSet::new();
    for expected in [ID_MAX, 1, 2] {
        let id = of_list(u64::from(ID_MAX) * 9 - 1, &taken).unwrap();
        assert_eq!(id, expected);
        taken.insert(id);
    }
    assert_eq!(of_list(41, &taken), Some(42));
}
