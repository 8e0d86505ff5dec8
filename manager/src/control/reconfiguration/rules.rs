//! Rules of the configuration in force: their hits, and one more or less without a file.

use std::collections::HashMap;
use std::sync::mpsc::Sender;

use headgate_api::configuration::{RuleStatus, RulesStatus, RunningConfiguration};
use headgate_api::request::{Applied, NOTHING_TO_CHANGE};
use headgate_path::drop::DropReason;
use headgate_path::plan::UNCLAIMED;
use headgate_path::rules::Rules;

use super::super::Control;
use super::Source;
use super::difference::rules_of;
use crate::api::{Answer, RequestError};
use crate::config::edit::{self, EditError};
use crate::config::{Config, plan};

impl Control {
    /// Returns the text in force, without secrets.
    pub(in super::super) fn running_configuration(&self) -> Result<RunningConfiguration, RequestError> {
        let Source { name, text, edited } = &self.source;
        let (text, count) = edit::without_secrets(name, text).map_err(|error| refused(&error))?;
        Ok(RunningConfiguration { name: name.clone(), text, secrets_left_out: count as u64, edited: *edited })
    }

    /// Returns the rules in force and how many flows each has decided on.
    pub(in super::super) fn rules_status(&self) -> RulesStatus {
        let hits = self.fabric.parts.rules.hits();
        let rules = self.config.rules.iter().zip(hits).enumerate().map(|(at, (rule, flows))| RuleStatus {
            place: at as u64 + 1,
            matches: plan::matches(&self.config, rule),
            chain: self.config.chains[rule.chain.index()].name.clone(),
            flows,
        });
        let unmatched = self.drops_of(UNCLAIMED, DropReason::NoRule);
        RulesStatus { rules: rules.collect(), unmatched_packets: unmatched }
    }

    fn drops_of(&self, chain: headgate_decide::units::ChainId, reason: DropReason) -> u64 {
        let of_board = |worker: &crate::fabric::WorkerHome| worker.board.dropped(chain, reason);
        self.fabric.workers.iter().map(of_board).sum()
    }

    /// Lets rules of the next configuration that are in force already go on counting.
    pub(super) fn keep_hits(&self, rules: &Rules, next: &Config) {
        let hits = self.fabric.parts.rules.hits();
        let mut before: HashMap<String, u64> = HashMap::new();
        // Of two that are the same only the first can have hits.
        for (rule, hits) in rules_of(&self.config).into_iter().zip(hits) {
            before.entry(rule).or_insert(hits);
        }
        for (at, rule) in rules_of(next).iter().enumerate() {
            if let Some(hits) = before.remove(rule) {
                rules.begin_hits(at, hits);
            }
        }
    }

    /// Adds a rule to the text in force, and begins to change to that.
    pub(in super::super) fn add_rule(
        &mut self,
        rule: &str,
        place: Option<usize>,
        reply: Sender<Answer>,
    ) -> Result<(), RequestError> {
        self.edit(|name, text| edit::add_rule(name, text, rule, place), reply)
    }

    /// Deletes a rule from the text in force, and begins to change to that.
    pub(in super::super) fn delete_rule(
        &mut self,
        place: usize,
        reply: Sender<Answer>,
    ) -> Result<(), RequestError> {
        self.edit(|name, text| edit::delete_rule(name, text, place), reply)
    }

    fn edit(
        &mut self,
        edit: impl Fn(&str, &str) -> Result<String, EditError>,
        reply: Sender<Answer>,
    ) -> Result<(), RequestError> {
        let Source { name, text, .. } = &self.source;
        let text = edit(name, text).map_err(|error| refused(&error))?;
        self.begin_change(Source { name: name.clone(), text, edited: true }, reply)
    }

    /// Returns what applying a text would change.
    pub(in super::super) fn diff(&self, name: &str, text: &str) -> Result<Applied, RequestError> {
        let source = Source { name: name.to_owned(), text: text.to_owned(), edited: false };
        let mut changes = self.difference(&source)?.summary;
        if changes.is_empty() {
            changes.push(NOTHING_TO_CHANGE.to_owned());
        }
        Ok(Applied { changes })
    }
}

fn refused(error: &EditError) -> RequestError {
    RequestError { code: 4, message: error.to_string() }
}
