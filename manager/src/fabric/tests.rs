use headgate_config::{Catalog, Machine};

use super::*;
use crate::layout::{self, Numbers};

#[test]
fn a_worker_that_ended_by_itself_is_noticed() {
    let text = "[memory]\nhugepages = \"never\"\n[[port]]\nname = \"in\"\nkind = \"null\"\n";
    let machine = Machine { cores: vec![0, 1], memory_bytes: 1 << 34, ..Machine::default() };
    let config = headgate_config::parse("test.toml", text, &Catalog::default(), &machine).unwrap().config;
    let parts = layout::first_parts(&config, &[], &mut Numbers::default());
    let mut fabric = Fabric::without_threads(&config, parts);
    assert_eq!(fabric.lost_worker(), None);
    fabric.workers[0].thread = Some(std::thread::spawn(|| {}));
    while !fabric.workers[0].thread.as_ref().unwrap().is_finished() {
        std::thread::yield_now();
    }
    assert_eq!(fabric.lost_worker(), Some(config.manager.cores[0]));
}
