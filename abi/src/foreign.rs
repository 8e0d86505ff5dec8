//! A network function in C, seen as one in Rust.

use std::ffi::{CString, c_int};

use headgate_nf::{BURST_MAX, Burst, Context, Failure, NetworkFunction, Packet, Timer, Verdict};

use crate::functions::Surroundings;
use crate::types::{ABI_VERSION, BLIND, HgContext, HgNf, HgPacket};

/// The NF with what C sees of its surroundings.
pub struct Foreign {
    nf: HgNf,
    surroundings: Box<Surroundings>,
    packets: Box<[HgPacket; BURST_MAX]>,
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
    /// What it gave to `hg_fail`, or the arguments it did not ask for.
    pub fn start(nf: HgNf, context: &mut Context) -> Result<Self, Failure> {
        let empty = HgPacket {
            data: std::ptr::null_mut(),
            length: 0,
            ingress: 0,
            verdict: 0,
            buffer: std::ptr::null_mut(),
            buffer_bytes: 0,
            reserved: 0,
        };
        let surroundings = Box::new(Surroundings::new(context)?);
        let mut foreign = Self { nf, surroundings, packets: Box::new([empty; BURST_MAX]) };
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

/// What C sees of a packet.
fn show(packet: &Packet<'_>) -> HgPacket {
    let (buffer, bytes) = packet.buffer();
    let offset = packet.data().as_ptr().addr() - buffer.addr();
    HgPacket {
        data: buffer.wrapping_add(offset),
        length: packet.len() as u32,
        ingress: packet.ingress().number(),
        verdict: packet.verdict().encode() as u16,
        buffer,
        buffer_bytes: bytes as u32,
        reserved: 0,
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

impl NetworkFunction for Foreign {
    fn process(&mut self, burst: &mut Burst, context: &mut Context) {
        let count = burst.len();
        for (shown, packet) in self.packets.iter_mut().zip(burst.packets()) {
            *shown = show(&packet);
        }
        let (nf, packets) = (self.nf, self.packets.as_mut_ptr());
        if let Some(process) = nf.process {
            // SAFETY: as the header promises; `packets` has `count` entries, each of a packet of this burst.
            self.call(context, |surroundings| unsafe {
                process(nf.state, packets, count as u32, surroundings);
            });
        }
        for (shown, mut packet) in self.packets.iter().zip(burst.packets()) {
            take_over(&mut packet, shown);
        }
    }

    fn message(&mut self, body: &str, context: &mut Context) -> Result<(), Failure> {
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
}
