//! Several NFs in one process, called one after another on the burst.

use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use crate::arguments::MemberError;
use crate::burst::{BURST_MAX, Burst};
use crate::context::{Context, Environment};
use crate::disk::{LogId, ReadDone, WriteDone};
use crate::maker::MadePacket;
use crate::state::core::Core;
use crate::{NetworkFunction, NfError};

/// Makes an NF, once its surroundings are known.
pub type Build = Box<dyn FnOnce(&mut Context) -> Result<Box<dyn NetworkFunction>, NfError>>;

/// One of the NFs that share a process, before it is made.
pub struct Member {
    /// Its name in counters, messages and errors.
    pub label: String,
    /// Makes it.
    pub build: Build,
}

/// The NFs of a process, each with its own view of their surroundings. Usually one.
pub(crate) struct Fused {
    nfs: Vec<(Box<dyn NetworkFunction>, Context)>,
    /// For packets that one of them made, on their way past the others.
    made: Option<Box<Burst>>,
    /// What they keep, if one of them keeps anything.
    state: Option<Rc<Core>>,
}

impl Fused {
    /// One NF, with the name and arguments of the process.
    pub(crate) fn alone<N: NetworkFunction + 'static>(
        environment: &Rc<Environment>,
        arguments: &str,
        build: impl FnOnce(&mut Context) -> Result<N, NfError>,
    ) -> Result<Self, NfError> {
        let mut context = Context::new(environment.clone(), None, object(arguments), 0);
        let nf = build(&mut context)?;
        let state = environment.state.get().cloned();
        Ok(Self { nfs: vec![(Box::new(nf), context)], made: None, state })
    }

    /// Several NFs; `arguments` is a JSON array with one object for each.
    pub(crate) fn together(
        environment: &Rc<Environment>,
        arguments: &str,
        members: Vec<Member>,
    ) -> Result<Self, NfError> {
        let arguments: Vec<Value> = serde_json::from_str(arguments)
            .map_err(|_| "the arguments of fused network functions are an array with one object for each")?;
        if arguments.len() != members.len() {
            return Err(format!(
                "{} network functions with arguments for {}",
                members.len(),
                arguments.len()
            )
            .into());
        }
        let mut labels = Vec::new();
        let mut nfs = Vec::new();
        for (Member { label, build }, arguments) in members.into_iter().zip(arguments) {
            let label = unlike(&labels, label);
            let mut context = Context::new(
                environment.clone(),
                Some(label.clone()),
                object(&arguments.to_string()),
                nfs.len(),
            );
            let place = nfs.len();
            let nf =
                build(&mut context).map_err(|error| MemberError { label: label.clone(), place, error })?;
            nfs.push((nf, context));
            labels.push(label);
        }
        Ok(Self { nfs, made: None, state: environment.state.get().cloned() })
    }

    #[inline]
    pub(crate) fn process(&mut self, burst: &mut Burst) {
        self.open_state(burst.time_us());
        self.process_from(0, burst);
        self.show_made();
        self.close_state();
    }

    /// Lets state change, for packets that may have a time of their own.
    #[inline(always)]
    fn open_state(&self, time_us: Option<u64>) {
        if let Some(state) = &self.state {
            state.open(self.nfs[0].1.environment.clock.logical_us(), time_us);
        }
    }

    /// Tells what is kept the time, for reading between two bursts.
    fn note_time(&self) {
        if let Some(state) = &self.state {
            state.note_time(self.nfs[0].1.environment.clock.logical_us());
        }
    }

    #[inline(always)]
    fn close_state(&self) {
        if let Some(state) = &self.state {
            state.close();
        }
    }

    /// Lets the NFs from one on work on a burst, one after the other.
    #[inline(always)]
    fn process_from(&mut self, first: usize, burst: &mut Burst) {
        let mut nfs = self.nfs[first..].iter_mut();
        if let Some((nf, context)) = nfs.next() {
            nf.process(burst, context);
        }
        for (nf, context) in nfs {
            if !burst.hide_decided() {
                return;
            }
            nf.process(burst, context);
        }
    }

    /// Shows packets that NFs made to the NFs behind them.
    #[inline(always)]
    fn show_made(&mut self) {
        if self.nfs.len() > 1
            && let Some(made) = self.nfs[0].1.environment.made.get()
            && !made.borrow().is_empty()
        {
            self.show_all_made();
        }
    }

    #[cold]
    fn show_all_made(&mut self) {
        let environment = self.nfs[0].1.environment.clone();
        let Some((made, region)) =
            environment.made.get().and_then(|made| Some((made, made.borrow().region()?)))
        else {
            return;
        };
        let mut burst = match self.made.take().filter(|burst| burst.is_of(&region)) {
            Some(burst) => burst,
            None => Box::new(Burst::new(region)),
        };
        let mut unseen = Vec::new();
        self.open_state(None);
        loop {
            unseen.clear();
            let Some(owner) = made.borrow_mut().take_unseen(&mut unseen) else { break };
            if owner + 1 == self.nfs.len() {
                continue;
            }
            for some in unseen.chunks(BURST_MAX) {
                let came = |one: &MadePacket| one.packet.with_tag(u32::from(one.ingress.number()));
                burst.load(&some.iter().map(came).collect::<Vec<_>>());
                self.process_from(owner + 1, &mut burst);
                if let Some(requests) = environment.disk.requests.get() {
                    requests.borrow_mut().absorb_some(&mut burst);
                }
                made.borrow_mut().settle(some, burst.decided());
            }
        }
        self.close_state();
        self.made = Some(burst);
    }

    /// Tells an NF of a read.
    pub(crate) fn read(&mut self, owner: u32, done: &ReadDone<'_>) {
        self.open_state(None);
        let (nf, context) = &mut self.nfs[owner as usize];
        nf.read(done, context);
        self.show_made();
        self.close_state();
    }

    /// Tells an NF of a write.
    pub(crate) fn written(&mut self, owner: u32, log: LogId, done: &WriteDone) {
        let (nf, context) = &mut self.nfs[owner as usize];
        nf.written(log, done, context);
        self.show_made();
    }

    /// Gives an NF packets back that it held; those it lets pass go on to the NFs behind it.
    pub(crate) fn resume(&mut self, owner: u32, burst: &mut Burst, done: &ReadDone<'_>) {
        self.open_state(None);
        let (nf, context) = &mut self.nfs[owner as usize];
        nf.resume(burst, done, context);
        if owner as usize + 1 < self.nfs.len() && burst.hide_decided() {
            self.process_from(owner as usize + 1, burst);
        }
        self.show_made();
        self.close_state();
    }

    pub(crate) fn takes_long_frames(&self) -> bool {
        self.nfs.iter().all(|(nf, _)| nf.takes_long_frames())
    }

    pub(crate) fn touches_packets(&self) -> bool {
        self.nfs.iter().any(|(nf, _)| nf.touches_packets())
    }

    /// Fires the timers that are due; returns when the next one will be.
    pub(crate) fn timers(&mut self, now: Duration) -> Option<Duration> {
        self.note_time();
        for (nf, context) in &mut self.nfs {
            while let Some(timer) = context.timers.take_due(now) {
                nf.timer(timer, context);
            }
        }
        self.show_made();
        self.next_due()
    }

    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.nfs.iter().filter_map(|(_, context)| context.timers.next_due()).min()
    }

    /// Hands a message to the NF it is for: the first word where several share the process.
    pub(crate) fn message(&mut self, body: &str) -> Result<(), NfError> {
        self.note_time();
        let answer = self.hand_message(body);
        self.show_made();
        answer
    }

    fn hand_message(&mut self, body: &str) -> Result<(), NfError> {
        if let [(nf, context)] = &mut self.nfs[..]
            && context.label.is_none()
        {
            return nf.message(body, context);
        }
        let (label, rest) = body.split_once(' ').unwrap_or((body, ""));
        let named = |context: &Context| context.label.as_deref() == Some(label);
        match self.nfs.iter_mut().find(|(_, context)| named(context)) {
            Some((nf, context)) => {
                nf.message(rest, context).map_err(|error| format!("{label}: {error}").into())
            }
            None => Err(format!(
                "a message to fused network functions starts with the name of one: {}",
                self.labels().join(", ")
            )
            .into()),
        }
    }

    fn labels(&self) -> Vec<String> {
        self.nfs.iter().filter_map(|(_, context)| context.label.clone()).collect()
    }

    pub(crate) fn stop(&mut self) {
        for (nf, context) in &mut self.nfs {
            nf.stop(context);
        }
        self.show_made();
    }
}

/// Arguments left out are an empty object.
fn object(arguments: &str) -> String {
    let empty = matches!(arguments.trim(), "" | "null");
    if empty { "{}".to_owned() } else { arguments.to_owned() }
}

/// `label`, or `label.2` and so on when it is taken.
fn unlike(taken: &[String], label: String) -> String {
    let again = (2..).map(|turn| format!("{label}.{turn}"));
    let mut candidates = std::iter::once(label.clone()).chain(again);
    candidates.find(|candidate| !taken.contains(candidate)).unwrap_or(label)
}

#[cfg(test)]
mod tests;
