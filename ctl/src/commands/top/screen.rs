//! State of the screen: which chain is picked, in which order they stand, what was seen before.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::view::{ChainFrame, Frame};

/// Frames that are remembered. Our choice: the widest sparkline that a terminal of 200 columns has room for.
const HISTORY_MAX: usize = 120;

/// Order of the chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Sort {
    /// As the configuration names them
    #[default]
    File,
    /// Most packets in first
    Rate,
    /// Most dropped packets first
    Drops,
    /// Longest delay first, by its 99th percentile
    Delay,
}

impl Sort {
    /// Returns the word on the screen.
    pub const fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Rate => "rate",
            Self::Drops => "drops",
            Self::Delay => "delay",
        }
    }

    const fn next(self) -> Self {
        match self {
            Self::File => Self::Rate,
            Self::Rate => Self::Drops,
            Self::Drops => Self::Delay,
            Self::Delay => Self::File,
        }
    }

    /// Returns the order of two chains.
    pub fn compare(self, one: &ChainFrame, other: &ChainFrame) -> Ordering {
        let tail = |chain: &ChainFrame| chain.delay.map(|delay| delay.p99_ns);
        match self {
            Self::File => Ordering::Equal,
            Self::Rate => other.entered_per_second.total_cmp(&one.entered_per_second),
            Self::Drops => other.dropped_per_second.total_cmp(&one.dropped_per_second),
            Self::Delay => tail(other).cmp(&tail(one)),
        }
    }
}

/// Values of the last frames, oldest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    rates: HashMap<String, VecDeque<f64>>,
    queues: HashMap<String, VecDeque<f64>>,
}

impl History {
    fn note(&mut self, frame: &Frame) {
        let rates = frame.chains.iter().map(|chain| (&chain.name, chain.entered_per_second));
        remember(&mut self.rates, rates);
        let stages = frame.chains.iter().flat_map(|chain| &chain.stages);
        // An NF of several chains stands in each of them.
        let queues: HashMap<&String, f64> =
            stages.map(|stage| (&stage.instance, stage.fullness().unwrap_or(0.0))).collect();
        remember(&mut self.queues, queues.into_iter());
    }

    /// Returns whether nothing is remembered, as of a single frame.
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }

    /// Returns the rates of packets that entered a chain.
    pub fn rates(&self, chain: &str) -> impl DoubleEndedIterator<Item = f64> + Clone {
        self.rates.get(chain).into_iter().flatten().copied()
    }

    /// Returns how full the queue of an instance was, 0 to 1.
    pub fn queues(&self, instance: &str) -> impl DoubleEndedIterator<Item = f64> + Clone {
        self.queues.get(instance).into_iter().flatten().copied()
    }
}

/// Adds a value for each name, and forgets names that have none any more.
fn remember<'a>(past: &mut HashMap<String, VecDeque<f64>>, now: impl Iterator<Item = (&'a String, f64)>) {
    let mut next = HashMap::with_capacity(past.len());
    for (name, value) in now {
        let mut values = past.remove(name).unwrap_or_default();
        if values.len() == HISTORY_MAX {
            values.pop_front();
        }
        values.push_back(value);
        next.insert(name.clone(), values);
    }
    *past = next;
}

/// What is shown.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// Order of the chains.
    pub sort: Sort,
    /// Name of the chain whose stages are shown; the first one if there is none of it.
    pub picked: Option<String>,
    /// Number of stages that are scrolled out at the left.
    pub scrolled: usize,
    /// Whether new frames are left out.
    pub is_paused: bool,
    /// Time since the manager should have answered, in seconds; 0 while it does.
    pub late_seconds: u64,
    /// The last frame; `None` before the first.
    pub frame: Option<Frame>,
    /// Frames before.
    pub history: History,
}

impl Screen {
    /// Takes in a frame, unless it is paused.
    pub fn take(&mut self, frame: Frame) {
        if !self.is_paused {
            self.history.note(&frame);
            self.frame = Some(frame);
        }
    }

    /// Returns the chains in their order.
    pub fn chains(&self) -> Vec<&ChainFrame> {
        let mut chains: Vec<&ChainFrame> = self.frame.iter().flat_map(|frame| &frame.chains).collect();
        chains.sort_by(|one, other| self.sort.compare(one, other));
        chains
    }

    /// Returns the place of the picked chain in their order.
    pub fn picked_at(&self, chains: &[&ChainFrame]) -> usize {
        let is_picked = |chain: &&ChainFrame| Some(&chain.name) == self.picked.as_ref();
        chains.iter().position(is_picked).unwrap_or(0)
    }

    /// Does what a key asks for. Returns false once it asks for the end.
    pub fn on_key(&mut self, key: KeyEvent) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return false,
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char(' ' | 'p') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Up | KeyCode::Char('k') => self.pick(-1),
            KeyCode::Down | KeyCode::Char('j') => self.pick(1),
            KeyCode::PageUp => self.pick(-10),
            KeyCode::PageDown => self.pick(10),
            KeyCode::Left | KeyCode::Char('h') => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::Right | KeyCode::Char('l') => self.scroll_right(),
            _ => {}
        }
        true
    }

    fn pick(&mut self, step: isize) {
        let chains = self.chains();
        let Some(last) = chains.len().checked_sub(1) else { return };
        let at = self.picked_at(&chains).saturating_add_signed(step).min(last);
        let name = chains[at].name.clone();
        self.picked = Some(name);
        self.scrolled = 0;
    }

    fn scroll_right(&mut self) {
        let chains = self.chains();
        let stages = chains.get(self.picked_at(&chains)).map_or(0, |chain| chain.stages.len());
        self.scrolled = (self.scrolled + 1).min(stages.saturating_sub(1));
    }
}
