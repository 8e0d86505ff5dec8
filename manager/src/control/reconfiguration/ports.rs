//! Memory of ports in a change of configuration: a port receives into the domain that it began with.

use crate::config::Config;
use crate::config::model::{DomainId, Port};

/// Name of the domain of ports and NFs that name none.
const DEFAULT: &str = "default";

/// Lets ports whose domain the next configuration leaves open receive where they do now, whatever its rules
/// say. Returns a sentence for each that its rules would have elsewhere.
pub(super) fn keep_memory(old: &Config, next: &mut Config) -> Vec<String> {
    let mut kept = Vec::new();
    for at in 0..next.ports.len() {
        let port = &next.ports[at];
        let Some(before) = old.ports.iter().find(|one| one.name == port.name) else { continue };
        let domain = &old.domains[before.domain.index()];
        if !port.domain_is_open || next.domains[port.domain.index()].name == domain.name {
            continue;
        }
        let place = match next.domains.iter().position(|one| one.name == domain.name) {
            Some(place) => place,
            None if domain.name == DEFAULT => {
                next.domains.push(domain.clone());
                next.domains.len() - 1
            }
            // Domains differ, which is refused.
            None => continue,
        };
        let (port, domain) = (&port.name, &domain.name);
        kept.push(format!(
            "port {port} goes on receiving into the memory of domain {domain} until a restart"
        ));
        next.ports[at].domain = DomainId(place as u16);
    }
    leave_out_default(old, next);
    kept
}

/// Takes the default domain out of the next configuration if it came in for ports that stay elsewhere.
fn leave_out_default(old: &Config, next: &mut Config) {
    let is_new = old.domains.iter().all(|domain| domain.name != DEFAULT);
    let last = next.domains.len().wrapping_sub(1);
    let is_last = next.domains.last().is_some_and(|domain| domain.name == DEFAULT);
    let ports = next.ports.iter().map(|port| port.domain);
    let is_empty = ports.chain(next.nfs.iter().map(|nf| nf.domain)).all(|domain| domain.index() != last);
    if is_new && is_last && is_empty {
        next.domains.pop();
    }
}

/// Returns whether ports are the same, whether or not the file names their domains, and whatever their NFs
/// take: long frames are cut or not as the NFs at work say.
pub(super) fn are_same(old: &[Port], next: &[Port]) -> bool {
    let bare = |port: &Port| Port { domain_is_open: false, long_frames: None, ..port.clone() };
    old.iter().map(bare).eq(next.iter().map(bare))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Catalog, Machine};

    fn config(ports: &str, rules: &str) -> Config {
        let text = format!(
            "domain = [{{ name = 'blue', buffers = 8192 }}]
             port = [{{ name = 'in', kind = 'generator' {ports} }}, {{ name = 'out', kind = 'null', domain = 'blue' }}]
             nf = [{{ name = 'b', exec = ['/bin/true'], domain = 'blue' }}]
             chain = [{{ name = 'b', stages = ['b'], out = 'out' }}]
             rule = [{rules}]"
        );
        config::parse("test.toml", &text, &Catalog::default(), &Machine::observe()).unwrap().config
    }

    #[test]
    fn a_port_receives_where_it_began_whatever_the_rules_say() {
        let (all, some) = ("{ chain = 'b' }", "{ chain = 'b', protocol = 'tcp' }");
        for (before, after, domain) in [(all, some, "blue"), (some, all, "default")] {
            let (old, mut next) = (config("", before), config("", after));
            assert_ne!(old.domains, next.domains);
            let kept = keep_memory(&old, &mut next);
            let said =
                format!("port in goes on receiving into the memory of domain {domain} until a restart");
            assert_eq!(kept, [said]);
            assert!(old.domains == next.domains && are_same(&old.ports, &next.ports));
        }
    }

    #[test]
    fn a_domain_that_the_file_names_is_what_it_says() {
        let old = config("", "{ chain = 'b' }");
        let mut same = config(", domain = 'blue'", "{ chain = 'b', protocol = 'tcp' }");
        assert_eq!(keep_memory(&old, &mut same), Vec::<String>::new());
        assert!(are_same(&old.ports, &same.ports));
        let mut other = config(", domain = 'default'", "{ chain = 'b' }");
        keep_memory(&old, &mut other);
        assert!(!are_same(&old.ports, &other.ports));
    }
}
