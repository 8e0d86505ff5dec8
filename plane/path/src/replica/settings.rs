//! What files say, told to each other by nodes that were given different ones: so that both operators read
//! which key it is.

use headgate_decide::replicate::Peer;
use headgate_units::{Instant, Span};
use headgate_wire::replica::{Kind, Message, Part};

use crate::ledger::Ledger;

use super::board::Refusal;
use super::checkpoint::{Assembly, parts};
use super::common::{Clock, Common, Event};
use super::link::Links;

/// Maximum number of bytes of what a file says. Our choice: some thousand keys.
const BYTES_MAX: u32 = 256 << 10;
/// Time between two tellings of it. Our choice: a node with another file may run for days.
const TOLD_EVERY: Span = Span::from_secs(1);

/// What the file of this node says, and those of others.
pub(crate) struct Settings {
    own: Vec<u8>,
    /// When each node was told.
    sent: Vec<(Peer, Instant)>,
    /// What others say, as it comes, by their hash; none once the control loop has it.
    theirs: Vec<((Peer, u64), Option<Assembly>)>,
}

impl Settings {
    pub const fn new(own: Vec<u8>) -> Self {
        Self { own, sent: Vec::new(), theirs: Vec::new() }
    }

    /// Tells a node that was refused, now and then.
    #[cold]
    pub fn send(&mut self, clock: Clock, ledger: &mut Ledger, links: &mut Links, to: Peer) {
        let now = clock.instant();
        match self.sent.iter_mut().find(|(peer, _)| *peer == to) {
            Some((_, last)) if now < *last + TOLD_EVERY => return,
            Some((_, last)) => *last = now,
            None => self.sent.push((to, now)),
        }
        if self.own.len() > BYTES_MAX as usize {
            return;
        }
        let mut header = links.header(Kind::Settings, 0);
        header.clock = links.configuration;
        for (offset, count) in parts(self.own.len()) {
            let bytes = &self.own[offset..offset + count];
            let part = Part { offset: offset as u32, total: self.own.len() as u32, bytes };
            // A part that is lost comes the next time.
            links.send(clock.ticks, ledger, to, header, &Message::Part(part));
        }
    }

    /// Takes a part of what a node says that was refused for its configuration.
    ///
    /// # Errors
    /// Why it is not one that is wanted.
    #[cold]
    pub fn take(
        &mut self,
        common: &Common,
        from: Peer,
        configuration: u64,
        part: &Part,
    ) -> Result<(), Refusal> {
        if !common.is_foreign(from, configuration) {
            return Err(Refusal::Configuration);
        }
        let who = (from, configuration);
        let at = self.theirs.iter().position(|(of, _)| *of == who).unwrap_or_else(|| {
            self.theirs.push((who, Some(Assembly::default())));
            self.theirs.len() - 1
        });
        let Some(assembly) = &mut self.theirs[at].1 else { return Ok(()) };
        if !assembly.take(part, BYTES_MAX) {
            return Err(Refusal::Malformed);
        }
        if let Some(bytes) = assembly.whole().map(<[u8]>::to_vec) {
            self.theirs[at].1 = None;
            common.tell(Event::Settings(from, bytes));
        }
        Ok(())
    }
}
