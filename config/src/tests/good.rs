//! Good files: the examples of the guide, every key once, and what defaults become.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::machine::CoreLimits;
use super::super::model::{Backend, Load, Out, PortId, Program};
use super::super::{
    Arrivals, Config, Loaded, Machine, NfCost, Rate, Simulated, Traffic, User, parse, parse_simulated, plan,
};
use super::snapshots::{assert_snapshot, here};
use super::{catalog, machine};

fn loaded(path: &Path, machine: &Machine) -> Loaded {
    let text = fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    parse(name, &text, &catalog(), machine).unwrap_or_else(|findings| panic!("{findings}"))
}

fn config_of(text: &str) -> Config {
    parse("test.toml", text, &catalog(), &machine()).unwrap_or_else(|findings| panic!("{findings}")).config
}

fn examples() -> Vec<PathBuf> {
    let entries = fs::read_dir(here("../docs/guide/examples")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    // Of the nodes of one file each runs a part: `nodes.rs`.
    let of_nodes = ["elastic.toml", "metro.toml", "one-standby.toml", "routed.toml", "shared.toml"];
    files.retain(|path| !of_nodes.iter().any(|name| path.ends_with(name)));
    files.sort();
    assert!(files.len() >= 5);
    files
}

/// The smallest machine that Headgate promises to work on, without huge pages.
fn small_machine() -> Machine {
    Machine { cores: vec![0, 1], memory_bytes: 1 << 30, ..Machine::default() }
}

#[test]
fn examples_are_good_and_do_what_their_plan_says() {
    for path in examples() {
        let loaded = loaded(&path, &small_machine());
        assert_eq!(loaded.warnings.to_string(), "", "{}", path.display());
        let plan = plan::describe(&loaded.config, &small_machine()).to_string();
        let name = Path::new(path.file_name().unwrap()).with_extension("plan.txt");
        assert_snapshot(&here("src/tests/good").join(name), &plan);
    }
}

#[test]
fn every_key_arrives() {
    let path = here("src/tests/good/everything.toml");
    let loaded = loaded(&path, &machine());
    let json = serde_json::to_string_pretty(&loaded.config).unwrap();
    assert_snapshot(&path.with_extension("json"), &format!("{json}\n"));
    let plan = plan::describe(&loaded.config, &machine());
    assert_snapshot(&path.with_extension("plan.txt"), &plan.to_string());
    let json = serde_json::to_string_pretty(&plan).unwrap();
    assert_snapshot(&path.with_extension("plan.json"), &format!("{json}\n"));
}

/// Tests that JSON and TOML say the same.
#[test]
fn json_and_toml_are_two_spellings_of_one_thing() {
    let paths = examples().into_iter().chain([here("src/tests/good/everything.toml")]);
    for path in paths {
        let toml = loaded(&path, &machine());
        let text = fs::read_to_string(&path).unwrap();
        let tree: serde_json::Value = toml::from_str(&text).unwrap();
        let name = path.with_extension("json");
        let name = name.file_name().unwrap().to_str().unwrap();
        let json = parse(name, &format!("{tree:#}"), &catalog(), &machine());
        let json = json.unwrap_or_else(|findings| panic!("{findings}"));
        assert_eq!(json.config, toml.config, "{}", path.display());
    }
}

/// A port that names no domain receives where its packets go first, if all of them do.
#[test]
fn a_port_receives_into_the_domain_of_its_chains() {
    let domains_of = |rules: &str| {
        let config = config_of(&format!(
            "domain = [{{ name = 'blue' }}, {{ name = 'green' }}]
             port = [{{ name = 'in', kind = 'generator' }}, {{ name = 'out', kind = 'null', domain = 'green' }}]
             nf = [{{ name = 'b', run = 'hello', domain = 'blue' }}, {{ name = 'g', run = 'hello', domain = 'green' }}]
             chain = [{{ name = 'b', stages = ['b'], out = 'out' }}, {{ name = 'g', stages = ['g', 'b'], out = 'out' }},
                      {{ name = 'bg', stages = ['b', 'g'], out = 'out' }}]
             rule = [{rules}]"
        ));
        let port = config.domains[config.ports[0].domain.index()].name.clone();
        (port, config.domains.into_iter().map(|domain| domain.name).collect::<Vec<_>>().join(" "))
    };
    let is = |port: &str, all: &str| (port.to_owned(), all.to_owned());
    assert_eq!(domains_of("{ chain = 'b' }"), is("blue", "blue green"));
    assert_eq!(domains_of("{ chain = 'b', protocol = 'tcp' }, { chain = 'bg' }"), is("blue", "blue green"));
    // What no rule takes is nobody's to read.
    assert_eq!(domains_of("{ chain = 'b', protocol = 'tcp' }"), is("default", "blue green default"));
    assert_eq!(
        domains_of("{ chain = 'b', protocol = 'tcp' }, { chain = 'g' }"),
        is("default", "blue green default")
    );
}

/// A configuration of a larger machine than this one is modelled, each port with what comes by it.
#[test]
fn a_simulated_file_has_its_costs_and_its_traffic() {
    let text = "port = [{ name = 'in', interface = 'eth9' }, { name = 'gen', kind = 'generator', rate = '1M' }]
         nf = [{ name = 'a', run = 'synthetic', args = { cycles = 120 }, core = 31 }, { name = 'b', run = 'hello' },
               { name = 'unused', run = 'hello' }]
         chain = [{ name = 'c', stages = ['a', 'b'], out = 'in' }]
         rule = [{ chain = 'c' }]
         [sim]
         nf = [{ name = 'b', cycles = 300 }]
         costs = { switch_ns = 7 }
         traffic = [{ port = 'in', rate = '2M', arrivals = 'on-off', on = '1ms', off = '2ms' }]";
    let simulated =
        parse_simulated("test.toml", text, &catalog()).unwrap_or_else(|findings| panic!("{findings}"));
    let Simulated { simulation, config, warnings } = simulated;
    assert_eq!(config.nfs[0].cores, [31]);
    let codes: Vec<&str> = warnings.0.iter().map(|one| one.code.name()).collect();
    assert_eq!(codes, ["modelled-ideal", "nf-unused"], "{warnings}");
    assert_eq!(simulation.nfs, [Some(NfCost::Synthetic(120.into())), Some(NfCost::Cycles(300)), None]);
    assert_eq!(
        (simulation.seed, simulation.horizon_ns, simulation.costs.as_slice()),
        (1, 1_000_000_000, &[("switch_ns", 7)][..])
    );
    let arrivals = Arrivals::OnOff { on_ns: 1_000_000, off_ns: 2_000_000 };
    assert_eq!(
        simulation.traffic,
        [Traffic { port: PortId(0), chain: None, rate: 2_000_000, bytes: 64, arrivals }]
    );
}

#[test]
fn an_empty_file_is_a_manager_that_waits() {
    let config = config_of("");
    assert_eq!((config.manager.name.as_str(), config.manager.cores.as_slice()), ("default", &[0][..]));
    assert_eq!((config.memory.buffer_bytes, config.flows.capacity), (2048, 65_536));
    assert_eq!(config.flows.idle_timeout_ns, 30_000_000_000);
    assert!(config.domains.is_empty() && config.ports.is_empty() && config.rules.is_empty());
}

#[test]
fn defaults_are_filled_in() {
    let config = config_of(
        "port = [{ name = 'g', kind = 'generator' }, { name = 's', kind = 'null' }]
         nf = [{ name = 'n', run = 'hello' }]
         chain = [{ name = 'c', stages = ['n'], out = 's' }]
         rule = [{ chain = 'c' }]",
    );
    let [domain] = config.domains.as_slice() else { panic!("{:?}", config.domains) };
    assert_eq!((domain.name.as_str(), domain.buffers), ("default", 32_768));
    let Backend::Generator(generator) = &config.ports[0].backend else { panic!() };
    assert_eq!(generator.load, Load::Even { flows: 1, rate: Rate::Max });
    assert_eq!(
        generator.spec(),
        headgate_generator::GeneratorSpec {
            sizes: headgate_generator::Sizes::Weighted(vec![(64, 1)]),
            ..Default::default()
        }
    );
    let nf = &config.nfs[0];
    assert!(
        matches!(nf.origin.program(), Some(Program::Run(shipped)) if shipped.run == "hello" && shipped.args.is_empty())
    );
    assert_eq!((nf.ring, nf.cores.as_slice(), &nf.user), (4096, &[1][..], &User::OfDomain));
    let policy = headgate_decide::restart::Policy::default();
    assert_eq!((nf.restart.first_ns, nf.restart.longest_ns), (policy.first.0, policy.longest.0));
    assert_eq!(config.chains[0].out, Out::Port(super::super::model::PortId(1)));
}

#[test]
fn nfs_without_a_core_take_the_free_cores_in_turn() {
    let text = "manager = { cores = [1] }
        nf = [{ name = 'a', run = 'hello', instances = 2 }, { name = 'b', run = 'hello', core = 3 },
              { name = 'c', run = 'hello', instances = 2 }]";
    let cores: Vec<Vec<u32>> = config_of(text).nfs.into_iter().map(|nf| nf.cores).collect();
    assert_eq!(cores, [vec![0, 2], vec![3], vec![3, 0]]);
}

#[test]
fn on_one_core_everybody_shares_it() {
    let machine = Machine { cores: vec![0], ..small_machine() };
    let hop = loaded(&here("../docs/guide/examples/replay.toml"), &machine);
    assert_eq!(hop.warnings.0, []);
    assert_eq!((hop.config.manager.cores, &hop.config.nfs[0].cores), (vec![0], &vec![0]));
}

#[test]
fn what_names_no_core_is_put_on_those_of_the_affinity_mask() {
    let on = |mask: &[u32]| {
        let limits = CoreLimits { mask: mask.to_vec(), ..CoreLimits::default() };
        let machine = Machine { cores: vec![0, 1, 2, 3], limits, ..small_machine() };
        let hop = loaded(&here("../docs/guide/examples/replay.toml"), &machine);
        assert_eq!(hop.warnings.0, []);
        (hop.config.manager.cores, hop.config.nfs[0].cores.clone())
    };
    assert_eq!(on(&[2, 3]), (vec![2], vec![3]));
    assert_eq!(on(&[2]), (vec![2], vec![2]));
    assert_eq!(on(&[0, 1, 2, 3]), (vec![0], vec![1]));
    assert_eq!(on(&[7]), (vec![0], vec![1]), "none of them may be used");
}

#[test]
fn huge_pages_go_to_the_first_domains() {
    let text = "domain = [{ name = 'a', buffers = 4096 }, { name = 'b', buffers = 16384 }, { name = 'c', buffers = 4096 }]
        port = [{ name = 'a', kind = 'null', domain = 'a' }, { name = 'b', kind = 'null', domain = 'b' },
                { name = 'c', kind = 'null', domain = 'c' }]";
    // 2240 bytes a buffer: 5, 18 and 5 pages.
    let machine = Machine { hugepages_free: 12, ..machine() };
    let config = parse("test.toml", text, &catalog(), &machine).unwrap().config;
    let pages =
        plan::describe(&config, &machine).regions.iter().map(|region| region.huge_pages).collect::<Vec<_>>();
    assert_eq!(pages, [5, 0, 5]);
}

#[test]
fn paths_lead_from_the_folder_of_the_file() {
    let text = "port = [{ name = 'r', kind = 'pcap', read = './in.pcap', write = '/abs/out.pcapng' }]
        nf = [{ name = 'n', exec = ['bin/nf', 'in.pcap'] }]";
    let config = parse("/etc/headgate/edge.toml", text, &catalog(), &machine()).unwrap().config;
    let Backend::Pcap(pcap) = &config.ports[0].backend else { panic!() };
    assert_eq!(pcap.replay.as_ref().unwrap().file, Path::new("/etc/headgate/in.pcap"));
    assert_eq!(pcap.write.as_deref(), Some(Path::new("/abs/out.pcapng")));
    let Some(Program::Exec { command, .. }) = config.nfs[0].origin.program() else { panic!() };
    assert_eq!(command, &["/etc/headgate/bin/nf", "in.pcap"]);
}
