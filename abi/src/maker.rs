//! Packets that a network function in C makes.

use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

use crate::functions::{Surroundings, behind, from_c};
use crate::types::HgPacket;

impl Surroundings {
    /// Makes a packet behind one of the burst at hand, or by itself. Null, and the reason kept, when it
    /// cannot be.
    fn make(&mut self, follows: Option<&HgPacket>, verdict: u16, length: u32) -> *mut u8 {
        let Some(maker) = &self.maker else {
            self.fail("hg_maker was not asked for buffers at the start");
            return null_mut();
        };
        let follows = follows.map(|packet| (packet.buffer.cast_const(), packet.ingress));
        match maker.make_at(follows, verdict, length as usize) {
            Ok(frame) => frame,
            Err(error) => {
                self.fail(error);
                null_mut()
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_maker(context: *mut Surroundings, most: u32) -> c_int {
    // SAFETY: the header's contract.
    let this = unsafe { behind(context) };
    match this.context().maker(most) {
        Ok(maker) => {
            this.maker = Some(maker);
            0
        }
        Err(error) => this.fail(error),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_make_after(
    context: *mut Surroundings,
    packet: *const HgPacket,
    verdict: u16,
    length: u32,
) -> *mut u8 {
    // SAFETY: the header's contract.
    let (this, packet) = unsafe { (behind(context), packet.as_ref()) };
    if packet.is_none() {
        this.fail("hg_make_after was given no packet; hg_make makes one by itself");
        return null_mut();
    }
    this.make(packet, verdict, length)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_make(context: *mut Surroundings, verdict: u16, length: u32) -> *mut u8 {
    // SAFETY: the header's contract.
    unsafe { behind(context) }.make(None, verdict, length)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_chain(context: *mut Surroundings, name: *const c_char) -> c_int {
    // SAFETY: the header's contract.
    let (this, name) = unsafe { (behind(context), from_c(name)) };
    match this.context().chain(&name) {
        Ok(chain) => chain.number().into(),
        Err(error) => this.fail_with(error),
    }
}
