//! An NF that runs goes on with another node's state from one packet to the next, and dies with it as with
//! its own.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use headgate_nf::state::{Bound, Table, Value};
use headgate_nf::testing::{KeptState, Manager, OnChange, Part, Welcome};
use headgate_nf::{Burst, Connection, Context, End, NetworkFunction, NfError, RunError, serve};

/// Frame that kills who works on it, as long as there are deaths left.
const DEADLY: u8 = 255;
static NONE: AtomicU32 = AtomicU32::new(0);

/// Writes into each packet how many of its kind came, and how many of all.
struct Counting {
    kinds: Table<u8, u64>,
    all: Value<u64>,
    deaths_left: &'static AtomicU32,
}

impl Counting {
    fn new(context: &mut Context, deaths_left: &'static AtomicU32) -> Result<Self, NfError> {
        let mut state = context.state()?;
        let bound = Bound { entries: 64, idle: None };
        Ok(Self { kinds: state.table("kinds", bound)?, all: state.value("all")?, deaths_left })
    }
}

impl NetworkFunction for Counting {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        for mut packet in burst.packets() {
            let kind = packet.data()[0];
            let of_kind = match self.kinds.edit(&kind) {
                Some(count) => count,
                None => self.kinds.insert(kind, 0).expect("there is room"),
            };
            *of_kind += 1;
            let of_kind = *of_kind as u8;
            let all = self.all.edit();
            *all += 1;
            let all = *all as u8;
            packet.data_mut()[1..3].copy_from_slice(&[of_kind, all]);
            if kind == DEADLY && self.deaths_left.load(Ordering::Relaxed) > 0 {
                self.deaths_left.fetch_sub(1, Ordering::Relaxed);
                panic!("a deadly packet");
            }
        }
    }
}

fn start(socket: OwnedFd, deaths_left: &'static AtomicU32) -> JoinHandle<Result<End, RunError>> {
    std::thread::spawn(move || {
        serve(Connection::from_socket(socket), |context| Counting::new(context, deaths_left))
    })
}

fn deaths(count: u32) -> &'static AtomicU32 {
    Box::leak(Box::new(AtomicU32::new(count)))
}

fn manager(part: Part) -> (Manager, OwnedFd) {
    let state = KeptState { bytes: 16 << 10, base: 0, on_change: OnChange::Refuse, part };
    Manager::new(Welcome {
        name: "nf".into(),
        arguments: "{}".into(),
        state: Some(state),
        ..Welcome::default()
    })
}

/// Sends packets of these kinds, one after the other. Returns what was counted for each.
fn counts(manager: &mut Manager, kinds: &[u8]) -> Vec<[u8; 2]> {
    let frames: Vec<Vec<u8>> = kinds.iter().map(|kind| [vec![*kind], vec![0; 59]].concat()).collect();
    manager.exchange(&frames).iter().map(|(_, frame)| [frame[1], frame[2]]).collect()
}

#[test]
fn the_next_packet_is_worked_on_with_the_other_state() {
    for part in [Part::Alone, Part::Active] {
        let [(mut there, one), (mut here, other)] = [manager(part), manager(part)];
        let running = [start(one, &NONE), start(other, &NONE)];
        there.admit().unwrap();
        here.admit().unwrap();
        assert!(here.state_said().unwrap().replaces);
        assert_eq!(counts(&mut here, &[9, 9]), [[1, 1], [2, 2]]);
        for round in 0..20 {
            let last = counts(&mut there, &[1, 2, 1]).pop().unwrap();
            assert_eq!(last, [2 * round + 2, 3 * round + 3]);
            here.give_state_of(&there);
            // It may have slept, or not.
            std::thread::sleep(Duration::from_micros(u64::from(round) * 50));
            assert_eq!(counts(&mut here, &[1, 9]), [[2 * round + 3, 3 * round + 4], [1, 3 * round + 5]]);
        }
        assert_eq!((there.stop(), here.stop()), (String::new(), String::new()));
        running.into_iter().for_each(|running| assert_eq!(running.join().unwrap().unwrap(), End::Stopped));
    }
}

#[test]
fn a_death_after_it_is_undone_in_the_other_state() {
    let [(mut there, one), (mut here, other)] = [manager(Part::Active), manager(Part::Active)];
    let deaths = deaths(1);
    let (at_work, active) = (start(one, &NONE), start(other, deaths));
    there.admit().unwrap();
    here.admit().unwrap();
    assert_eq!(counts(&mut here, &[7]), [[1, 1]]);
    assert_eq!(counts(&mut there, &[1, 2]), [[1, 1], [1, 2]]);
    let (mut standby, socket) = here.stand_by();
    let next = start(socket, deaths);
    standby.admit().unwrap();
    here.give_state_of(&there);
    standby.give_same_state(&here);
    let kinds = [1, DEADLY, 1];
    here.send(&kinds.map(|kind| [vec![kind], vec![0; 59]].concat()), 0);
    assert!(here.wait_for_goodbye().contains("panicked"));
    active.join().unwrap().unwrap_err();
    let mut came = here.promote(&mut standby, 0);
    while came.len() < kinds.len() {
        came.extend(standby.collect());
        std::thread::yield_now();
    }
    let came: Vec<_> = came.iter().map(|(_, frame)| [frame[1], frame[2]]).collect();
    assert_eq!(came, [[2, 3], [1, 4], [3, 5]]);
    assert_eq!((there.stop(), standby.stop()), (String::new(), String::new()));
    [at_work, next]
        .into_iter()
        .for_each(|running| assert_eq!(running.join().unwrap().unwrap(), End::Stopped));
}

/// Its tables are not those of the other program: it ends rather than works on what it does not know.
#[test]
fn a_process_of_another_program_ends() {
    let [(mut there, one), (mut here, other)] = [manager(Part::Alone), manager(Part::Alone)];
    let at_work = std::thread::spawn(move || {
        serve(Connection::from_socket(one), |context| {
            let _ = context.state()?.value::<[u64; 2]>("all")?;
            Ok::<_, NfError>(Idle)
        })
    });
    let active = start(other, &NONE);
    there.admit().unwrap();
    here.admit().unwrap();
    here.give_state_of(&there);
    let said = here.wait_for_goodbye();
    assert!(said.contains("has not the tables and values of this process"), "{said}");
    active.join().unwrap().unwrap_err();
    assert_eq!(there.stop(), "");
    at_work.join().unwrap().unwrap();
}

struct Idle;

impl NetworkFunction for Idle {
    fn process(&mut self, _: &mut Burst, _: &mut Context) {}
}
