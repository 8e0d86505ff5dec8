//! The terminal: draws the screen, hears keys, and is given back on every way out.

use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use headgate_api::status::Snapshot;
use headgate_host::signals::Wish;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::text::Text;

use super::feed::Heard;
use super::glyphs::Glyphs;
use super::page;
use super::screen::Screen;
use crate::error::{CommandError, Exit};
use crate::view::{Frame, Interval};

/// Longest time until a signal or a snapshot is seen. Our choice: nobody notices it.
pub const POLL_EVERY: Duration = Duration::from_millis(100);
/// Time beyond the interval after which a manager is late. Our choice: a busy one answers within it.
const LATE: Duration = Duration::from_secs(2);

/// Gives the terminal back, however the screen ends.
pub struct Held(pub DefaultTerminal);

impl Held {
    /// Takes the terminal: keys one by one, the other screen. A panic gives it back before its message.
    pub fn take() -> Result<Self, CommandError> {
        let taken = ratatui::try_init();
        if taken.is_err() {
            ratatui::restore();
        }
        taken.map(Self).map_err(unusable)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Of a terminal that is gone there is nothing to give back.
        let _ = ratatui::try_restore();
    }
}

/// A screen that follows a manager.
pub struct Live {
    /// The screen.
    pub screen: Screen,
    /// Characters and colours.
    pub glyphs: Glyphs,
    /// The last snapshot.
    pub before: Box<Snapshot>,
    /// Time between two snapshots.
    pub every: Duration,
}

impl Live {
    /// Runs until a key or a signal asks for the end, or the manager has ended.
    pub fn run(mut self, feed: &Receiver<Heard>, wish: &Wish) -> Result<Exit, CommandError> {
        let mut terminal = Held::take()?;
        let mut heard_at = Instant::now();
        let mut is_new = true;
        while wish.count() == 0 {
            if self.hear(feed)? {
                (heard_at, is_new) = (Instant::now(), true);
            }
            is_new |= self.note_late(heard_at.elapsed());
            if is_new {
                self.draw(&mut terminal.0).map_err(unusable)?;
            }
            is_new = event::poll(POLL_EVERY).map_err(unusable)?;
            if is_new && !self.on_event(&event::read().map_err(unusable)?) {
                break;
            }
        }
        Ok(Exit::Ok)
    }

    /// Takes in a snapshot, if there is one. Returns whether there was.
    fn hear(&mut self, feed: &Receiver<Heard>) -> Result<bool, CommandError> {
        let after = match feed.try_recv() {
            Ok(heard) => heard?,
            Err(TryRecvError::Empty) => return Ok(false),
            Err(TryRecvError::Disconnected) => {
                return Err(CommandError::new(Exit::Failed, "the thread that asks the manager has ended"));
            }
        };
        self.screen.take(Frame::of(Interval::between(&self.before, &after)));
        self.before = after;
        Ok(true)
    }

    /// Notes how long the manager has not answered. Returns whether that is to be shown anew.
    fn note_late(&mut self, since: Duration) -> bool {
        let late = if since > self.every + LATE { since.as_secs() } else { 0 };
        std::mem::replace(&mut self.screen.late_seconds, late) != late
    }

    fn on_event(&mut self, event: &Event) -> bool {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.screen.on_key(*key),
            _ => true,
        }
    }

    fn draw(&self, terminal: &mut DefaultTerminal) -> io::Result<()> {
        terminal.draw(|frame| {
            let area = frame.area();
            let (width, height) = (usize::from(area.width), usize::from(area.height));
            frame.render_widget(Text::from(page::lines(&self.screen, self.glyphs, width, height)), area);
        })?;
        Ok(())
    }
}

/// A terminal that cannot be drawn on.
pub fn unusable(error: io::Error) -> CommandError {
    CommandError::environment(format!(
        "cannot draw on this terminal: {error}; `headgate top --once` and `headgate replay FILE --at 0` print text and \
         need none"
    ))
}
