//! What the gate says to its operator.

use headgate_decide::replicate::gate::Report;

/// Reports of the gate, all of which are the same.
#[derive(Clone, Debug, Default)]
pub struct Reports(Vec<Report>);

impl Reports {
    pub fn push(&mut self, report: Report) {
        self.0.push(report);
    }

    pub fn has(&self, wanted: impl Fn(&Report) -> bool) -> bool {
        self.0.iter().any(wanted)
    }
}

impl PartialEq for Reports {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Reports {}
