//! Cases that are measured.

use clap::ValueEnum;

use crate::statistics::Name;

/// Case that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Case {
    /// No watcher: how much of the others is noise
    Nothing,
    /// A scrape of the metrics each second
    Scrape,
    /// `headgate top`, ten frames a second
    Top,
    /// A client of the API that watches snapshots, as the page does
    Page,
    /// These three together
    Views,
    /// `headgate capture any`, written to nowhere
    Capture,
    /// `headgate observe`, written to nowhere
    Log,
    /// Views of a manager of 10,000 chains
    ManyChains,
    /// Views of a manager that knows a million flows
    ManyFlows,
}

impl Case {
    /// Those that are compared with windows without watchers.
    pub const WATCHED: [Self; 7] =
        [Self::Nothing, Self::Scrape, Self::Top, Self::Page, Self::Views, Self::Capture, Self::Log];

    /// Its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Scrape => "scrape",
            Self::Top => "top",
            Self::Page => "page",
            Self::Views => "views",
            Self::Capture => "capture",
            Self::Log => "log",
            Self::ManyChains => "chains_10000",
            Self::ManyFlows => "flows_1m",
        }
    }

    /// Name of the windows without watchers around those of a case.
    pub fn without(self) -> Name {
        format!("{}.without", self.name()).into()
    }

    /// Aim of issue 15 of the project.
    pub const fn aim(self) -> &'static str {
        match self {
            Self::Scrape | Self::Top | Self::Page | Self::Views => "at least 0.99",
            Self::Capture => "at least 0.95",
            _ => "",
        }
    }

    /// Whether it needs a terminal to draw on.
    pub const fn draws(self) -> bool {
        matches!(self, Self::Top | Self::Views)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> =
            Case::value_variants().iter().map(|case| case.name()).collect();
        assert_eq!(names.len(), Case::WATCHED.len() + 2);
    }
}
