use super::core::Core;
use super::stores::death;
use super::*;
use crate::testing::Harness;
use headgate_session::message::{KeptState, OnChange, Part};
use headgate_shm::Memory;
use headgate_shm::state::region_bytes;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

crate::plain! {
    struct Pair {
        one: u64,
        other: u32,
        flags: [u8; 4],
    }
}

const BYTES: u64 = 16 << 10;

/// Region of an instance.
struct Region(Memory);

impl Region {
    fn new() -> Self {
        Self(headgate_shm::state::create("test", BYTES).unwrap())
    }

    fn state(&self, base: u32, on_change: OnChange) -> State {
        let file = self.0.duplicate_file().unwrap();
        let memory = Memory::attach("test", file, region_bytes(BYTES), true).unwrap();
        let told = KeptState { bytes: BYTES, base, on_change, part: Part::Alone };
        State { core: Rc::new(Core::kept(memory, &told).unwrap()), label: None }
    }
}

fn passing() -> State {
    State { core: Rc::new(Core::passing()), label: None }
}

const fn bound(entries: u32, idle_s: Option<u64>) -> Bound {
    Bound { entries, idle: if let Some(idle) = idle_s { Some(Duration::from_secs(idle)) } else { None } }
}

const SECOND: u64 = 1_000_000;

/// What is done with a table.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Insert(u16, u32),
    Edit(u16, u32),
    Remove(u16),
    Sweep(u32),
    Wait(u64),
    Return,
}

fn deeds(keys: u16, longest: usize) -> impl Strategy<Value = Vec<Deed>> {
    let key = 0..keys;
    let deed = prop_oneof![
        4 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Deed::Insert(key, value)),
        2 => (key.clone(), any::<u32>()).prop_map(|(key, value)| Deed::Edit(key, value)),
        2 => key.prop_map(Deed::Remove),
        1 => (0u32..20).prop_map(Deed::Sweep),
        1 => (1u64..4).prop_map(Deed::Wait),
        1 => Just(Deed::Return),
    ];
    prop::collection::vec(deed, 1..longest)
}

/// The same as a table, of the standard library: value and time of the last change.
#[derive(Clone, Default)]
struct Model {
    entries: HashMap<u16, (u32, u64)>,
    now: u64,
}

const ENTRIES: u32 = 12;
const IDLE_S: u64 = 3;

impl Model {
    fn fresh(&self, key: u16) -> Option<u32> {
        let (value, seen) = self.entries.get(&key)?;
        (self.now - seen < IDLE_S).then_some(*value)
    }

    fn fresh_all(&self) -> Vec<(u16, u32)> {
        let mut all: Vec<_> = self.entries.keys().filter_map(|key| Some((*key, self.fresh(*key)?))).collect();
        all.sort_unstable();
        all
    }
}

fn contents(table: &Table<u16, u32>) -> Vec<(u16, u32)> {
    let mut all: Vec<_> = table.iter().map(|(key, value)| (*key, *value)).collect();
    all.sort_unstable();
    all
}

fn open(core: &Core, model: &Model) {
    core.open(SECOND * (1 + model.now), None);
}

/// Does the same with both and compares what they say.
fn do_both(deed: Deed, table: &mut Table<u16, u32>, model: &mut Model, core: &Core, returned: &mut u32) {
    match deed {
        Deed::Insert(key, value) => {
            let known = model.fresh(key).is_some();
            let room = model.fresh_all().len() < ENTRIES as usize;
            let inserted = table.insert(key, value).is_ok();
            assert_eq!(inserted, known || room, "{key}");
            if inserted {
                model.entries.insert(key, (value, model.now));
            }
        }
        Deed::Edit(key, value) => {
            let edited = table.edit(&key).map(|old| std::mem::replace(old, value));
            assert_eq!(edited, model.fresh(key));
            if edited.is_some() {
                model.entries.insert(key, (value, model.now));
            }
        }
        Deed::Remove(key) => {
            assert_eq!(table.remove(&key), model.fresh(key).is_some());
            if model.fresh(key).is_some() {
                model.entries.remove(&key);
            }
        }
        Deed::Sweep(most) => drop(table.sweep(most)),
        Deed::Wait(seconds) => {
            model.now += seconds;
            open(core, model);
        }
        Deed::Return => {
            core.close();
            *returned += 1;
            core.note_returned(*returned);
            open(core, model);
        }
    }
}

fn make(state: &mut State) -> Table<u16, u32> {
    state.table("test", bound(ENTRIES, Some(IDLE_S))).unwrap()
}

proptest! {
    #[test]
    fn a_table_is_a_bounded_map_that_forgets(deeds in deeds(40, 300), kept: bool) {
        let region = Region::new();
        let mut state = if kept { region.state(0, OnChange::Discard) } else { passing() };
        let (mut table, mut model, mut returned) = (make(&mut state), Model::default(), 0);
        open(&state.core, &model);
        for deed in deeds {
            do_both(deed, &mut table, &mut model, &state.core, &mut returned);
            for key in 0..40 {
                prop_assert_eq!(table.get(&key).copied(), model.fresh(key), "{} after {:?}", key, deed);
            }
            prop_assert_eq!(contents(&table), model.fresh_all());
            prop_assert!(table.len() <= ENTRIES);
        }
    }

    /// A process dies before any store, and the one after it while it undoes and after that: both find what
    /// the last returned burst left, with everything that can be seen of it.
    #[test]
    fn a_death_at_any_store_leaves_what_was_returned(deeds in deeds(20, 60), dies in 0u32..400, again in 0u32..30) {
        let region = Region::new();
        let committed = RefCellModel::default();
        let counted = Cell::new(0);
        death::after(Some(dies), || {
            let mut state = region.state(0, OnChange::Discard);
            let (mut table, mut model) = (make(&mut state), Model::default());
            open(&state.core, &model);
            for deed in &deeds {
                let mut returned = counted.get();
                if let Deed::Return = deed {
                    committed.0.replace(model.clone());
                    counted.set(returned + 1);
                }
                do_both(*deed, &mut table, &mut model, &state.core, &mut returned);
            }
        });
        let model = committed.0.into_inner();
        for dies in [Some(again), None] {
            death::after(dies, || {
                let mut state = region.state(counted.get(), OnChange::Discard);
                let mut table = make(&mut state);
                open(&state.core, &model);
                assert_eq!(contents(&table), model.fresh_all());
                (0..20).for_each(|key| assert_eq!(table.get(&key).copied(), model.fresh(key)));
                // What it changes now is not returned either.
                for key in 0..20 {
                    let _ = table.insert(key, 77);
                    table.remove(&(key + 1));
                }
            });
        }
    }

    /// Whatever lies in a table, it ends, stays within its bytes, and can be used.
    #[test]
    fn a_forged_table_is_no_worse_than_an_empty_one(
        words in prop::collection::vec((0usize..200, prop_oneof![any::<u64>(), 0u64..40, Just(u64::MAX)]), 0..200),
        deeds in deeds(20, 50),
    ) {
        let region = Region::new();
        drop(make(&mut region.state(0, OnChange::Discard)));
        for (word, value) in words {
            // SAFETY: inside the region: the first table's words.
            unsafe { region.0.base().as_ptr().add(4096 + word * 8).cast::<u64>().write(value) };
        }
        let mut state = region.state(0, OnChange::Discard);
        let mut table = make(&mut state);
        open(&state.core, &Model::default());
        for deed in deeds {
            match deed {
                Deed::Insert(key, value) => drop(table.insert(key, value).map(|value| *value)),
                Deed::Edit(key, value) => drop(table.edit(&key).map(|old| *old = value)),
                Deed::Remove(key) => drop(table.remove(&key)),
                Deed::Sweep(most) => drop(table.sweep(most)),
                Deed::Wait(_) | Deed::Return => drop(contents(&table)),
            }
        }
    }
}

#[derive(Default)]
struct RefCellModel(std::cell::RefCell<Model>);

#[test]
fn a_value_is_what_the_last_returned_burst_left() {
    let region = Region::new();
    let add = |base: u32, returns: bool| {
        let mut state = region.state(base, OnChange::Discard);
        let mut value: Value<Pair> = state.value("pair").unwrap();
        let found = *value.get();
        state.core.open(1, None);
        value.edit().one += 1;
        value.edit().flags[3] += 1;
        state.core.close();
        if returns {
            state.core.note_returned(base + 1);
        }
        found.one
    };
    assert_eq!([add(0, true), add(1, false), add(1, false), add(1, true), add(2, true)], [0, 1, 1, 1, 2]);
}

#[test]
fn state_changes_in_a_burst_only() {
    for mut state in [passing(), Region::new().state(0, OnChange::Discard)] {
        let (mut value, mut table): (Value<u64>, _) = (state.value("value").unwrap(), make(&mut state));
        let refused = |deed: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(deed)).is_err();
        assert!(refused(&mut || *value.edit() += 1));
        assert!(refused(&mut || assert!(table.insert(1, 1).is_ok())));
        state.core.open(1, None);
        *value.edit() += 1;
        assert!(table.insert(1, 1).is_ok());
        state.core.close();
        assert!(refused(&mut || assert!(table.remove(&1))));
        assert_eq!((*value.get(), table.get(&1)), (1, Some(&1)));
    }
}

#[test]
fn another_schema_begins_anew_or_is_refused() {
    let region = Region::new();
    let mut state = region.state(0, OnChange::Discard);
    let (mut table, mut value): (_, Value<u32>) = (make(&mut state), state.value("value").unwrap());
    state.core.open(1, None);
    table.insert(1, 1).unwrap();
    *value.edit() = 9;
    state.core.close();
    drop((table, value));
    // Two fields in place of one.
    let refusing = region.state(1, OnChange::Refuse).table::<u16, Pair>("test", bound(ENTRIES, Some(IDLE_S)));
    assert!(matches!(refusing, Err(StateError::Changed { .. })), "{:?}", refusing.err());
    let mut state = region.state(1, OnChange::Discard);
    let table = state.table::<u16, Pair>("test", bound(ENTRIES, Some(IDLE_S))).unwrap();
    assert!(table.is_empty());
    assert_eq!(*state.value::<u32>("value").unwrap().get(), 9);
    let said = state.core.start().unwrap();
    assert_eq!((said.found, said.tables, said.discarded.len()), (true, 2, 1));
    assert!(said.discarded[0].contains("`test`"), "{:?}", said.discarded);
}

#[test]
fn what_cannot_be_is_refused_with_a_sentence() {
    let mut state = Region::new().state(0, OnChange::Discard);
    let sentence = |error: Option<StateError>| error.map_or_else(String::new, |error| error.to_string());
    let mut of = |name: &str, entries| sentence(state.table::<u16, u32>(name, bound(entries, None)).err());
    assert_eq!(of("one", 4), "");
    assert!(of("one", 4).contains("two tables or values have this name"));
    assert!(of("none", 0).contains("1 to 16777216 entries, not 0"));
    assert!(of("large", 100_000).contains("raise `bytes` of `state`"), "{}", of("larger", 100_000));
    state.core.start();
    assert!(sentence(state.value::<u32>("late").err()).contains("at the start"));
}

#[test]
fn fields_are_part_of_the_schema() {
    assert_eq!(Pair::FIELDS, "{one:u64,other:u32,flags:[u8; 4],}");
}

/// An NF with tables, run as authors run theirs.
struct Counting(Table<u16, u32>);

impl crate::NetworkFunction for Counting {
    fn process(&mut self, burst: &mut crate::Burst, _: &mut crate::Context) {
        for packet in burst.packets() {
            let key = u16::from(packet.data()[0]);
            match self.0.edit(&key) {
                Some(count) => *count += 1,
                None => drop(self.0.insert(key, 1).map(|count| *count)),
            }
        }
    }

    fn message(&mut self, _: &str, context: &mut crate::Context) -> Result<(), crate::NfError> {
        Ok(context.tell(format!("{:?}", contents(&self.0)))?)
    }
}

#[test]
fn an_nf_has_its_tables_without_a_manager() {
    let build = |context: &mut crate::Context| Ok(Counting(make(&mut context.state()?)));
    let mut harness = Harness::new(crate::testing::Setup::default(), build).unwrap();
    harness.run(&[[1; 60], [2; 60], [1; 60]]);
    harness.wait(Duration::from_secs(2));
    harness.run(&[[2; 60]]);
    harness.wait(Duration::from_secs(2));
    harness.message("").unwrap();
    assert_eq!(harness.told(), ["[(2, 2)]"]);
}
