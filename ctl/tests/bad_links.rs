//! A group whose links lose, double, delay and reorder frames, are cut one way, and come and go: real
//! managers in namespaces of their own, between two hosts that go on talking.

mod common;

use std::thread;
use std::time::Duration;

use common::is_root;
use common::lab::Lab;
use common::numbers::Numbers;
use headgate_host::cable::{Cable, Quality};

const MS: Duration = Duration::from_millis(1);
const GOOD: Quality =
    Quality { delay: Duration::ZERO, jitter: Duration::ZERO, rate: None, lost: 0, doubled: 0, is_cut: false };
const CUT: Quality = Quality { is_cut: true, ..GOOD };

/// What all links are, one after the other.
const BAD: [(&str, Quality); 6] = [
    ("lose a third", Quality { lost: 300, ..GOOD }),
    ("double a third", Quality { doubled: 300, ..GOOD }),
    ("take 50 ms", Quality { delay: Duration::from_millis(50), ..GOOD }),
    ("reorder", Quality { jitter: Duration::from_millis(2), ..GOOD }),
    ("carry 20 Mbit/s", Quality { rate: Some(20_000_000), ..GOOD }),
    (
        "do all of it",
        Quality {
            delay: Duration::from_millis(5),
            jitter: Duration::from_millis(2),
            rate: Some(50_000_000),
            lost: 50,
            doubled: 50,
            is_cut: false,
        },
    ),
];

fn all(cables: &[Cable], qualities: [Quality; 2]) {
    cables.iter().for_each(|cable| cable.set(qualities));
}

#[test]
fn bad_links_delay_and_lose_nothing() {
    if !is_root() {
        println!("bad_links_delay_and_lose_nothing: skipped: namespaces take root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (lab, cables) = Lab::on_cables(folder.path(), "bad-links");
    lab.up_all();
    let eventually = |what: &str, holds: &mut dyn FnMut() -> bool| lab.eventually(what, holds);
    let numbers = Numbers::between(&lab.hosts, &eventually);
    let is_protected = || lab.group("gate")["protected"] == true;
    let went = numbers.while_doing(|| {
        for (what, quality) in BAD {
            all(&cables, [quality; 2]);
            numbers.flow(&format!("links {what}"));
            numbers.flow(&format!("links still {what}"));
        }
        all(&cables, [GOOD; 2]);
        lab.eventually("the group is protected after all that", is_protected);
        // One way each, of each link.
        for (link, cable) in ["gate - left", "gate - right", "left - right"].iter().zip(&cables) {
            for (way, qualities) in [("there", [CUT, GOOD]), ("back", [GOOD, CUT])] {
                cable.set(qualities);
                thread::sleep(1500 * MS);
                numbers.flow(&format!("{link} is cut on the way {way}"));
                cable.set([GOOD; 2]);
                lab.eventually("the group is protected again", is_protected);
                numbers.flow(&format!("{link} was cut on the way {way}"));
            }
        }
        // They come and go, faster and slower than it is noticed.
        for pause in [50, 300, 700] {
            for (at, cable) in cables.iter().cycle().take(9).enumerate() {
                cable.set([CUT; 2]);
                thread::sleep(pause * MS);
                cable.set([GOOD; 2]);
                thread::sleep(pause * MS * (at as u32 % 2));
            }
            numbers.flow(&format!("links went for {pause} ms each"));
        }
        lab.eventually("the group is protected at the end", is_protected);
        numbers.flow("at the end");
    });
    lab.assert_all_in_order(&went);
    lab.down(&["gate", "left", "right"]);
}
