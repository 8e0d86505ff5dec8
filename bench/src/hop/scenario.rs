//! The configuration of one variant: generator, one chain or many, null.

use std::fmt::Write as _;

use headgate_host::cores::Placement;

/// Source address of flow 0, as a number; flow `n` has the `n`th after it (the generator's default).
const FIRST_SOURCE: u32 = u32::from_be_bytes([10, 0, 0, 1]);

/// Packet buffers where pages are compared. Our choice: half of the default, which takes half of the pages.
const PAGED_BUFFERS: u32 = 16_384;
/// Pages of 2 MiB that so many buffers take at most: 4 KiB for each.
pub const HUGE_PAGES: u64 = (PAGED_BUFFERS as u64 * 4096) >> 21;

/// Work of an NF on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// `forward`: nothing.
    Forward,
    /// `mac-swap`: it reads and writes each packet's header.
    MacSwap,
    /// `synthetic`: it takes so many TSC cycles.
    Cycles(u32),
}

/// Arrangement of the NFs in processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Each a process, which sleeps while it has nothing to do.
    Isolated,
    /// Each a process, which never sleeps.
    Polling,
    /// All NFs in one process.
    Fused,
    /// All NFs in the thread of the worker.
    Worker,
}

/// Pages of packet memory, flow table and holder table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// 2 MiB, or it does not start.
    Huge,
    /// 4 KiB.
    Ordinary,
}

/// Traffic, chains and NFs of one variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The NFs, in the order of the path.
    pub work: &'static [Work],
    /// Arrangement in processes.
    pub shape: Shape,
    /// Flows; each packet belongs to the next.
    pub flows: u32,
    /// Flows that the manager can remember; `None` leaves its default.
    pub flow_capacity: Option<u32>,
    /// Chains, all over the same NFs; each takes the flows whose number is its own.
    pub chains: u32,
    /// Packets per second; `None`: as many as are taken.
    pub rate: Option<f64>,
    /// Whether packets carry the time by which the null port measures latency.
    pub timestamps: bool,
    /// Pages; `None` leaves the manager's default.
    pub pages: Option<Pages>,
}

impl Scenario {
    /// Makes a scenario of one flow through one chain at overload.
    #[must_use]
    pub const fn plain(work: &'static [Work], shape: Shape) -> Self {
        Self {
            work,
            shape,
            flows: 1,
            flow_capacity: None,
            chains: 1,
            rate: None,
            timestamps: false,
            pages: None,
        }
    }

    /// Returns the configuration file.
    #[must_use]
    pub fn to_toml(&self, placement: Placement) -> String {
        self.named("bench", placement)
    }

    /// Returns the configuration file of a manager of this name.
    #[must_use]
    pub fn named(&self, name: &str, placement: Placement) -> String {
        let mut text = format!("[manager]\nname = \"{name}\"\ncores = [{}]\n", placement.manager);
        if let Some(capacity) = self.flow_capacity {
            let _ = write!(text, "\n[flows]\ncapacity = {capacity}\n");
        }
        if let Some(pages) = self.pages {
            let word = if pages == Pages::Huge { "require" } else { "never" };
            let _ = write!(text, "\n[memory]\nbuffers = {PAGED_BUFFERS}\nhugepages = \"{word}\"\n");
        }
        self.write_ports(&mut text);
        let stages = self.write_nfs(&mut text, placement.nfs);
        self.write_chains(&mut text, &stages);
        text
    }

    fn write_ports(&self, text: &mut String) {
        // The rate is rounded: a configuration has whole packets per second.
        let rate = self.rate.map_or("\"max\"".to_owned(), |rate| format!("{rate:.0}"));
        let _ = write!(
            text,
            "\n[[port]]\nname = \"source\"\nkind = \"generator\"\nsize = 64\nflows = {}\nrate = {rate}\n\
             timestamps = {}\n\n[[port]]\nname = \"sink\"\nkind = \"null\"\n",
            self.flows, self.timestamps
        );
    }

    /// Returns the stages of every chain.
    fn write_nfs(&self, text: &mut String, core: u32) -> String {
        let run = |work: &Work| match work {
            Work::Forward => "run = \"forward\"".to_owned(),
            Work::MacSwap => "run = \"mac-swap\"".to_owned(),
            Work::Cycles(cycles) => format!("run = \"synthetic\", args = {{ cycles = {cycles} }}"),
        };
        if matches!(self.shape, Shape::Fused | Shape::Worker) {
            let all: Vec<_> = self.work.iter().map(|work| format!("{{ {} }}", run(work))).collect();
            let all = all.join(", ");
            let place = match self.shape {
                Shape::Worker => "fused = \"worker\"".to_owned(),
                _ => format!("core = {core}"),
            };
            let _ = write!(text, "\n[[nf]]\nname = \"all\"\nfuse = [{all}]\n{place}\n");
            return "\"all\"".to_owned();
        }
        let waits = if self.shape == Shape::Polling { "polling" } else { "notified" };
        let mut stages = Vec::new();
        for (number, work) in self.work.iter().enumerate() {
            let run = run(work).replace(", ", "\n");
            let _ =
                write!(text, "\n[[nf]]\nname = \"nf-{number}\"\n{run}\ncore = {core}\nloop = \"{waits}\"\n");
            stages.push(format!("\"nf-{number}\""));
        }
        stages.join(", ")
    }

    fn write_chains(&self, text: &mut String, stages: &str) {
        for chain in 0..self.chains {
            let source = match self.chains {
                1 => String::new(),
                _ => format!("source = \"{}\"\n", std::net::Ipv4Addr::from(FIRST_SOURCE + chain)),
            };
            let _ = write!(
                text,
                "\n[[chain]]\nname = \"chain-{chain}\"\nstages = [{stages}]\nout = \"sink\"\n\
                 \n[[rule]]\nin = \"source\"\n{source}chain = \"chain-{chain}\"\n"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_config::model::{Config, Program};
    use headgate_config::{Catalog, Machine, ShippedNf, parse};

    const PLACEMENT: Placement = Placement { manager: 0, nfs: 1 };

    fn shipped() -> Catalog {
        let nf = |name: &str| ShippedNf { name: name.to_owned(), ..ShippedNf::default() };
        Catalog::new(vec![nf("forward"), nf("synthetic")])
    }

    fn accepted(scenario: &Scenario) -> Config {
        let machine = Machine { cores: vec![0, 1], memory_bytes: 16 << 30, ..Machine::default() };
        let text = scenario.to_toml(PLACEMENT);
        match parse("bench.toml", &text, &shipped(), &machine) {
            Ok(loaded) => loaded.config,
            Err(refused) => panic!("{refused}\n{text}"),
        }
    }

    #[test]
    fn isolated_nfs_are_processes_on_the_second_core() {
        const WORK: &[Work] = &[Work::Cycles(120), Work::Cycles(270), Work::Cycles(550)];
        let config = accepted(&Scenario::plain(WORK, Shape::Isolated));
        assert_eq!(config.nfs.len(), 3);
        assert!(config.nfs.iter().all(|nf| nf.cores == [1]));
        assert_eq!(config.manager.cores, [0]);
        assert_eq!((config.chains.len(), config.rules.len()), (1, 1));
        assert_eq!(config.chains[0].stages.len(), 3);
    }

    #[test]
    fn fused_nfs_are_one_process() {
        const WORK: &[Work] = &[Work::Cycles(120), Work::Forward];
        let config = accepted(&Scenario::plain(WORK, Shape::Fused));
        assert_eq!(config.nfs.len(), 1);
        assert!(matches!(config.nfs[0].origin.program(), Some(Program::Fuse(all)) if all.len() == 2));
    }

    #[test]
    fn nfs_in_the_worker_have_no_core_of_their_own() {
        const WORK: &[Work] = &[Work::Forward; 3];
        let config = accepted(&Scenario::plain(WORK, Shape::Worker));
        assert!(config.nfs[0].is_resident());
        assert_eq!(config.nfs[0].cores, config.manager.cores);
    }

    #[test]
    fn every_flow_has_a_chain_of_its_own() {
        let many = Scenario {
            flows: 300,
            chains: 300,
            flow_capacity: Some(100_000),
            ..Scenario::plain(&[Work::Forward], Shape::Isolated)
        };
        let config = accepted(&many);
        assert_eq!((config.chains.len(), config.rules.len()), (300, 300));
        assert_eq!(config.flows.capacity, 100_000);
        let source = |rule: usize| config.rules[rule].source.unwrap().address.to_string();
        // Flow 255 is the one whose address does not end where that of flow 0 does.
        assert_eq!([source(0), source(255)], ["10.0.0.1", "10.0.1.0"]);
    }

    #[test]
    fn pages_are_asked_for_and_what_is_reserved_is_enough() {
        let plain = Scenario::plain(&[Work::Forward], Shape::Isolated);
        let free = |pages| Machine {
            hugepages_free: pages,
            cores: vec![0, 1],
            memory_bytes: 16 << 30,
            ..Machine::default()
        };
        let text = |pages| Scenario { pages: Some(pages), ..plain.clone() }.to_toml(PLACEMENT);
        let of = |pages, huge| parse("bench.toml", &text(pages), &shipped(), &free(huge));
        assert!(of(Pages::Huge, HUGE_PAGES).is_ok() && of(Pages::Ordinary, 0).is_ok());
        assert!(of(Pages::Huge, 0).is_err());
        assert!(!plain.to_toml(PLACEMENT).contains("hugepages"));
    }

    #[test]
    fn rate_and_timestamps_reach_the_generator() {
        let slow = Scenario {
            rate: Some(2_700_000.4),
            timestamps: true,
            ..Scenario::plain(&[Work::Forward], Shape::Polling)
        };
        let text = slow.to_toml(PLACEMENT);
        accepted(&slow);
        assert!(text.contains("rate = 2700000\n") && text.contains("timestamps = true"), "{text}");
    }
}
