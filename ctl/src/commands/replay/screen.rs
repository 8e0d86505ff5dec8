//! What is shown of a record: the current step, and which steps are passed over.

use std::collections::BTreeMap;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::steps::{Step, Steps};
use crate::error::CommandError;

/// Steps of one page. Our choice: half of what a small terminal shows.
const PAGE: i64 = 10;
/// Most steps that are read to find one of a decision, in each direction. Our choice: a second of reading.
const SEARCH_MAX: usize = 200_000;

/// Position in a record.
#[derive(Debug)]
pub struct Screen {
    /// The record.
    pub steps: Steps,
    /// The current step.
    pub at: usize,
    /// Words that the decision of each step must have in its name; empty: all.
    pub only: String,
    /// What the last key could not do.
    pub message: Option<String>,
}

impl Screen {
    /// Makes the view of a record, at its first step that is to be shown.
    ///
    /// # Errors
    /// No step is.
    pub fn new(steps: Steps, only: Option<&str>) -> Result<Self, CommandError> {
        let only = only.unwrap_or_default().to_lowercase();
        let mut screen = Self { steps, at: 0, only, message: None };
        if !screen.is_shown(&screen.steps.read(0)?) && !screen.find(true, |_| true)? {
            let message = format!("no step of a decision with {:?} in its name", screen.only);
            return Err(CommandError::usage(format!("{message} is among the first {SEARCH_MAX} steps")));
        }
        Ok(screen)
    }

    fn is_shown(&self, step: &Step) -> bool {
        self.only.is_empty() || step.decision.to_lowercase().contains(&self.only)
    }

    /// Goes to the last step at or before a moment.
    pub fn go_to_moment(&mut self, since_ns: u64) {
        self.at = self.steps.at_moment(since_ns);
    }

    /// Goes forwards or back by so many steps, or as far as there are any.
    pub fn go_by(&mut self, steps: i64) {
        let last = self.steps.len() as i64 - 1;
        self.at = (self.at as i64 + steps).clamp(0, last) as usize;
    }

    /// Goes to the next, or the previous, shown step for which something holds. Returns false and stays where
    /// there is none.
    fn find(&mut self, forwards: bool, holds: impl Fn(&Step) -> bool) -> Result<bool, CommandError> {
        let mut at = self.at;
        for _ in 0..SEARCH_MAX {
            let next = if forwards { at + 1 } else { at.wrapping_sub(1) };
            if next >= self.steps.len() {
                return Ok(false);
            }
            at = next;
            let step = self.steps.read(at)?;
            if self.is_shown(&step) && holds(&step) {
                self.at = at;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn step(&mut self, forwards: bool) -> Result<bool, CommandError> {
        self.find(forwards, |_| true)
    }

    /// Obeys a key. Returns false when it asks for the end.
    ///
    /// # Errors
    /// The record cannot be read any more.
    pub fn on_key(&mut self, key: KeyEvent) -> Result<bool, CommandError> {
        self.message = None;
        let found = match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Ok(false),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(false),
            KeyCode::Right | KeyCode::Down | KeyCode::Char(' ' | 'j') => self.step(true)?,
            KeyCode::Left | KeyCode::Up | KeyCode::Char('k') => self.step(false)?,
            KeyCode::PageDown => self.pages(true)?,
            KeyCode::PageUp => self.pages(false)?,
            KeyCode::Home => {
                self.at = 0;
                true
            }
            KeyCode::End => {
                self.at = self.steps.len() - 1;
                true
            }
            KeyCode::Char('n') => self.same(true)?,
            KeyCode::Char('p') => self.same(false)?,
            KeyCode::Char('a') => self.find(true, Step::is_action)?,
            KeyCode::Char('b') => self.find(false, Step::is_action)?,
            KeyCode::Char('f') => {
                let decision = self.steps.read(self.at)?.decision.to_lowercase();
                self.only = if self.only.is_empty() { decision } else { String::new() };
                true
            }
            _ => true,
        };
        if !found {
            self.message = Some("no such step in this direction".to_owned());
        }
        Ok(true)
    }

    fn pages(&mut self, forwards: bool) -> Result<bool, CommandError> {
        for _ in 0..PAGE {
            if !self.step(forwards)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn same(&mut self, forwards: bool) -> Result<bool, CommandError> {
        let decision = self.steps.read(self.at)?.decision;
        self.find(forwards, |step| step.decision == decision)
    }

    /// Returns the shown steps up to the current one, at most so many, oldest first.
    ///
    /// # Errors
    /// The record cannot be read any more.
    pub fn steps_before(&self, most: usize) -> Result<Vec<Step>, CommandError> {
        let mut shown = Vec::new();
        for at in (0..=self.at).rev().take(SEARCH_MAX) {
            if shown.len() == most {
                break;
            }
            let step = self.steps.read(at)?;
            if self.is_shown(&step) {
                shown.push(step);
            }
        }
        shown.reverse();
        Ok(shown)
    }

    /// Returns the shown steps after the current one, at most so many.
    ///
    /// # Errors
    /// The record cannot be read any more.
    pub fn steps_after(&self, most: usize) -> Result<Vec<Step>, CommandError> {
        let mut shown = Vec::new();
        for at in (self.at + 1..self.steps.len()).take(SEARCH_MAX) {
            if shown.len() == most {
                break;
            }
            let step = self.steps.read(at)?;
            if self.is_shown(&step) {
                shown.push(step);
            }
        }
        Ok(shown)
    }

    /// Returns the latest step of each kind of the current decision: what it was made with, was told, saw and
    /// did last.
    ///
    /// # Errors
    /// The record cannot be read any more.
    pub fn latest(&self) -> Result<Vec<Step>, CommandError> {
        let decision = self.steps.read(self.at)?.decision;
        let mut latest: BTreeMap<String, Step> = BTreeMap::new();
        for at in (0..=self.at).rev().take(SEARCH_MAX) {
            let step = self.steps.read(at)?;
            if step.decision == decision {
                let begins = step.kind == "begins";
                latest.entry(step.kind.clone()).or_insert(step);
                if begins {
                    break;
                }
            }
        }
        let mut latest: Vec<Step> = latest.into_values().collect();
        latest.sort_by_key(|step| step.line);
        Ok(latest)
    }
}
