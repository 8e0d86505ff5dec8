//! Ports and chains with service headers, whose ways no rule says.

use super::super::{Loaded, parse};
use super::{catalog, machine};

/// Two interfaces with MTUs, an NF, and a chain with this service path and these rules.
fn loaded(mtus: [u32; 2], nsh: &str, rules: &str) -> Result<Loaded, String> {
    let mut machine = machine();
    machine.mtus = ["west", "east"].map(str::to_owned).into_iter().zip(mtus).collect();
    let text = format!(
        "port = [{{ name = 'in', interface = 'west', nsh = true }},
                 {{ name = 'out', interface = 'east', nsh = true }}]
         nf = [{{ name = 'a', run = 'forward', domain = 'blue' }}]
         domain = [{{ name = 'blue' }}]
         chain = [{{ name = 'c', stages = ['a'], out = 'out', nsh = {nsh} }}]
         rule = [{rules}]"
    );
    parse("test.toml", &text, &catalog(), &machine).map_err(|findings| findings.to_string())
}

#[test]
fn a_chain_that_only_service_headers_lead_to_is_used() {
    let loaded = loaded([1500; 2], "{ path = 1 }", "").unwrap();
    assert_eq!(loaded.warnings.to_string(), "");
    let config = loaded.config;
    assert!(config.has_service_headers());
    assert_eq!(config.ways().len(), 2, "by either port");
    assert!(config.rules.is_empty());
    // What is no service header has no chain, and is not for the chain's NFs to read.
    assert_eq!(config.domains[config.ports[0].domain.index()].name, "default");
}

#[test]
fn the_mtu_of_the_exit_has_room_for_what_rules_lead_there() {
    let rule = "{ in = 'in', chain = 'c' }";
    let next = "{ path = 1, next = '02:00:00:00:00:01' }";
    assert!(loaded([1500, 1538], next, rule).is_ok());
    let refused = loaded([1500, 1537], next, rule).unwrap_err();
    assert!(refused.contains("error[mtu-short]") && refused.contains("raise that MTU to 1538"), "{refused}");
    // What comes with a header leaves no longer, and what leaves without one is shorter.
    assert!(loaded([1500, 1500], next, "").is_ok());
    assert!(loaded([1500, 1500], "{ path = 1 }", rule).is_ok());
    assert!(loaded([1500, 1500], next, "{ chain = 'c' }").is_err());
}

#[test]
fn an_index_may_be_as_small_as_the_number_of_stages() {
    assert!(loaded([1500; 2], "{ path = 1, index = 1 }", "").is_ok());
    let refused = loaded([1500; 2], "{ path = 1, index = 0 }", "").unwrap_err();
    assert!(refused.contains("error[out-of-range]"), "{refused}");
}
