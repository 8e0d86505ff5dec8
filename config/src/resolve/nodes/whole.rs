//! A file for several nodes, all of which runs on this machine: a laptop's view of a cluster.
//!
//! Nodes, links and what goes by them are left out, and what is left is resolved as the file of one machine.
//! An NF that several nodes share runs once, for one machine has no others to choose among.

use super::super::super::codes::Code;
use super::super::super::document::{Document, Instances};
use super::super::super::read::Field;
use super::super::{Resolver, items};
use super::topology::Topology;

impl Resolver<'_> {
    /// Makes of a document for several nodes that of one machine, and says so.
    pub fn keep_whole(&mut self, document: &mut Document, topology: &Topology) {
        let Some(first) = topology.nodes.first() else { return };
        let names = topology.nodes.join("`, `");
        self.report
            .add_about_file(
                Code::OneMachine,
                format!("the file is for the nodes `{names}`, and all of it runs on this machine"),
            )
            .help(format!("to run the part of one node, name it, like `--node {first}`"));
        for at in items(&document.group) {
            let Some(name) = at.value.name.value() else { continue };
            self.report
                .add(
                    Code::OneMachine,
                    &at.span,
                    format!("group `{}` protects nothing on one machine", name.0),
                )
                .help("`standby = \"local\"` of its NFs does all the same");
        }
        document.node = Field::ABSENT;
        document.link = Field::ABSENT;
        document.group = Field::ABSENT;
        document.steering = Field::ABSENT;
        document.cluster = Field::ABSENT;
        for port in document.port.found.iter_mut().flat_map(|many| &mut many.value.items) {
            port.value.common.node = Field::ABSENT;
        }
        for nf in document.nf.found.iter_mut().flat_map(|many| &mut many.value.items) {
            nf.value.node = Field::ABSENT;
            nf.value.nodes = Field::ABSENT;
            if let Some(instances) = &mut nf.value.instances.found {
                let Instances(count, range) = &mut instances.value;
                *count = range.take().and_then(|range| Some(range.min.value()?.0)).unwrap_or(*count);
            }
        }
    }
}
