//! Scenes in which something did not hold once: what the swarm found, shrunk, each named after what it was.
//!
//! - `throttled-for-a-moment`, `throttled-again-and-again`: the checker took four short states, each with a
//!   cause of its own, for one without.
//! - `throttled-while-nothing-comes`: the model's worker rested until the next packet, so that nobody opened
//!   an NF whose queue was empty.
//! - `began-alone`: an NF that began a slice of 93 ms while it was alone runs it to its end, as the kernel
//!   does, although its slice was shortened when another one came.
//! - `real-time-between-all-looks`: the checker took a core for one without real-time tasks because there was
//!   none at any of its looks; turns of time slices lay between them.
//! - `blocked-between-all-looks`, `called-for-nothing`: an NF that is called, and blocked again before it
//!   wakes, idles beside its packets. That is as its orders are; what comes of it the guide tells
//!   (docs/guide/simulator.md, what the swarm found).

use std::fs;
use std::path::Path;

use headgate_sim::{Scene, swarm};

#[test]
fn what_was_found_holds_now() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenes");
    let mut scenes = 0;
    for file in fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("it can be read").path())
    {
        let text = fs::read_to_string(&file).expect("it can be read");
        let scene: Scene = serde_json::from_str(&text).expect("it is a scene");
        assert_eq!(scene.mistakes(), [] as [String; 0], "{}", file.display());
        assert_eq!(swarm::judge(&scene), [], "{}", file.display());
        scenes += 1;
    }
    assert!(scenes >= 7);
}
