//! A network function in C, seen as one in Rust.

use std::ffi::{CString, c_int};

use headgate_nf::{
    BURST_MAX, Burst, Context, LogId, NetworkFunction, NfError, Packet, ReadDone, Timer, Verdict, WriteDone,
};

use crate::disk::shown;
use crate::functions::Surroundings;
use crate::types::{ABI_VERSION, BLIND, HgContext, HgNf, HgPacket, HgReadFn, LONG_FRAMES};

/// The NF with what C sees of its surroundings.
pub struct Foreign {
    nf: HgNf,
    surroundings: Box<Surroundings>,
    packets: Box<[HgPacket; BURST_MAX]>,
    /// Function to call for the read at hand.
    reading: Option<HgReadFn>,
}

/// Whether a struct filled in C can be run at all.
pub fn check(nf: &HgNf) -> Result<(), String> {
    if nf.abi != ABI_VERSION {
        return Err(format!(
            "the network function was compiled for version {} of headgate_nf.h and this library is of version \
             {ABI_VERSION}; compile it again with the header of this library",
            nf.abi
        ));
    }
    if nf.process.is_none() {
        return Err("the network function has no `process`".to_owned());
    }
    Ok(())
}

impl Foreign {
    /// Lets the NF start.
    ///
    /// # Errors
    /// The text it gave to `hg_fail`, or the arguments it did not ask for.
    pub fn start(nf: HgNf, context: &mut Context) -> Result<Self, NfError> {
        let empty = HgPacket {
            data: std::ptr::null_mut(),
            length: 0,
            ingress: 0,
            verdict: 0,
            buffer: std::ptr::null_mut(),
            buffer_bytes: 0,
            long_frame: 0,
            segment_bytes: 0,
        };
        let surroundings = Box::new(Surroundings::new(context)?);
        let mut foreign = Self { nf, surroundings, packets: Box::new([empty; BURST_MAX]), reading: None };
        if let Some(start) = nf.start {
            let state = nf.state;
            // SAFETY: as the header promises: the author's function with the author's state.
            let returned = foreign.call(context, |surroundings| unsafe { start(state, surroundings) });
            foreign.surroundings.outcome(returned, "start")?;
        }
        foreign.surroundings.check_arguments()?;
        Ok(foreign)
    }

    /// Calls into C with the context at hand.
    fn call<T>(&mut self, context: &mut Context, f: impl FnOnce(*mut HgContext) -> T) -> T {
        self.surroundings.lend(context);
        let returned = f(&raw mut *self.surroundings);
        self.surroundings.take_back();
        returned
    }
}

/// Returns C's view of a packet.
fn show(packet: &Packet<'_>) -> HgPacket {
    let (buffer, bytes) = packet.buffer();
    let offset = packet.data().as_ptr().addr() - buffer.addr();
    let long = packet.long_frame();
    HgPacket {
        data: buffer.wrapping_add(offset),
        length: packet.len() as u32,
        ingress: packet.ingress().number(),
        verdict: packet.verdict().encode() as u16,
        buffer,
        buffer_bytes: bytes as u32,
        long_frame: u16::from(long.is_some()),
        segment_bytes: long.and_then(|long| long.segment_bytes()).unwrap_or(0) as u16,
    }
}

/// Takes over what C did to a packet.
///
/// # Panics
/// When C put it where no packet can be: its arithmetic is wrong, and nothing it says can be relied on.
fn take_over(packet: &mut Packet<'_>, shown: &HgPacket) {
    let offset = shown.data.addr().wrapping_sub(packet.buffer().0.addr());
    assert!(
        packet.lay(offset, shown.length as usize),
        "the network function put a packet of {} bytes at offset {} of its buffer of {} bytes; grow and trim \
         packets with hg_prepend, hg_append, hg_trim_front and hg_trim_back",
        shown.length,
        offset as isize,
        packet.buffer().1,
    );
    packet.set_verdict(Verdict::decode(u32::from(shown.verdict)));
}

impl Foreign {
    /// Shows C the packets of a burst, and takes over what it did to them.
    fn with_packets(
        &mut self,
        burst: &mut Burst,
        context: &mut Context,
        f: impl FnOnce(*mut HgPacket, u32, *mut HgContext),
    ) {
        let count = burst.len();
        for (shown, packet) in self.packets.iter_mut().zip(burst.packets()) {
            *shown = show(&packet);
        }
        let packets = self.packets.as_mut_ptr();
        self.call(context, |surroundings| f(packets, count as u32, surroundings));
        for (shown, mut packet) in self.packets.iter().zip(burst.packets()) {
            take_over(&mut packet, shown);
            // After the verdict, which it replaces.
            self.surroundings.files.hold(&mut packet, shown);
        }
        self.surroundings.files.forget_wishes();
    }
}

impl NetworkFunction for Foreign {
    fn process(&mut self, burst: &mut Burst, context: &mut Context) {
        let nf = self.nf;
        let Some(process) = nf.process else { return };
        self.with_packets(burst, context, |packets, count, surroundings| {
            // SAFETY: as the header promises; `packets` has `count` entries, each of a packet of this burst.
            unsafe { process(nf.state, packets, count, surroundings) }
        });
    }

    fn read(&mut self, done: &ReadDone<'_>, context: &mut Context) {
        self.reading = self.surroundings.files.reader(done.word);
        if let Some(function) = self.reading {
            let (state, done) = (self.nf.state, shown(done));
            // SAFETY: as the header promises; what was read stays until the call returns.
            self.call(context, |surroundings| unsafe {
                function(state, &raw const done, std::ptr::null_mut(), 0, surroundings);
            });
        }
    }

    /// Always follows the call of `read` for the same request.
    fn resume(&mut self, held: &mut Burst, done: &ReadDone<'_>, context: &mut Context) {
        let Some(function) = self.reading else { return };
        let (state, done) = (self.nf.state, shown(done));
        self.with_packets(held, context, |packets, count, surroundings| {
            // SAFETY: as in `process`, and what was read stays until the call returns.
            unsafe { function(state, &raw const done, packets, count, surroundings) }
        });
    }

    fn written(&mut self, log: LogId, done: &WriteDone, context: &mut Context) {
        if let Some((function, done)) = self.surroundings.files.written(log, done) {
            let state = self.nf.state;
            // SAFETY: as the header promises.
            self.call(context, |surroundings| unsafe { function(state, &raw const done, surroundings) });
        }
    }

    fn message(&mut self, body: &str, context: &mut Context) -> Result<(), NfError> {
        let Some(message) = self.nf.message else {
            return Err("this network function takes no messages".into());
        };
        let body = CString::new(body).map_err(|_| "a message in C has no zero bytes")?;
        let state = self.nf.state;
        // SAFETY: as the header promises; `body` lives until the call returns.
        let returned: c_int =
            self.call(context, |surroundings| unsafe { message(state, body.as_ptr(), surroundings) });
        self.surroundings.outcome(returned, "message")
    }

    fn timer(&mut self, timer: Timer, context: &mut Context) {
        let state = self.nf.state;
        if let Some(due) = self.nf.timer {
            // SAFETY: as the header promises.
            self.call(context, |surroundings| unsafe { due(state, timer.number(), surroundings) });
        }
    }

    fn stop(&mut self, context: &mut Context) {
        let state = self.nf.state;
        if let Some(stop) = self.nf.stop {
            // SAFETY: as the header promises.
            self.call(context, |surroundings| unsafe { stop(state, surroundings) });
        }
    }

    fn touches_packets(&self) -> bool {
        self.nf.flags & BLIND == 0
    }

    fn takes_long_frames(&self) -> bool {
        self.nf.flags & LONG_FRAMES != 0
    }
}
