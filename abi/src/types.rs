//! The structs of `headgate_nf.h`, field by field. The asserts at the end stand there too.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

/// `HG_ABI_VERSION`.
pub const ABI_VERSION: u32 = 1;
/// `HG_BLIND`.
pub const BLIND: u32 = 1;
/// `HG_LONG_FRAMES`.
pub const LONG_FRAMES: u32 = 2;

/// `struct hg_packet`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HgPacket {
    pub data: *mut u8,
    pub length: u32,
    pub ingress: u16,
    pub verdict: u16,
    pub buffer: *mut u8,
    pub buffer_bytes: u32,
    pub long_frame: u16,
    pub segment_bytes: u16,
}

/// `hg_context`: opaque to C.
pub use crate::functions::Surroundings as HgContext;

/// `struct hg_nf`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HgNf {
    pub abi: u32,
    pub flags: u32,
    pub state: *mut c_void,
    pub start: Option<unsafe extern "C" fn(*mut c_void, *mut HgContext) -> c_int>,
    pub process: Option<unsafe extern "C" fn(*mut c_void, *mut HgPacket, u32, *mut HgContext)>,
    pub message: Option<unsafe extern "C" fn(*mut c_void, *const c_char, *mut HgContext) -> c_int>,
    pub timer: Option<unsafe extern "C" fn(*mut c_void, u32, *mut HgContext)>,
    pub stop: Option<unsafe extern "C" fn(*mut c_void, *mut HgContext)>,
}

/// `HG_HELD`.
pub const HELD: u16 = 0x1fff;

/// `struct hg_log_settings`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HgLogSettings {
    pub buffer_bytes: u64,
    pub flush_ns: u64,
    pub burst_bytes: u64,
}

/// `struct hg_written`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HgWritten {
    pub word: u64,
    pub first: u64,
    pub count: u64,
    pub lost: u64,
    pub error: i32,
    pub log: u32,
}

/// `struct hg_done`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HgDone {
    pub word: u64,
    pub bytes: *const u8,
    pub result: i64,
}

/// `hg_written_fn`.
pub type HgWrittenFn = unsafe extern "C" fn(*mut c_void, *const HgWritten, *mut HgContext);
/// `hg_read_fn`.
pub type HgReadFn = unsafe extern "C" fn(*mut c_void, *const HgDone, *mut HgPacket, u32, *mut HgContext);

/// `struct hg_tally`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HgTally {
    pub packets: u64,
    pub next: u64,
    pub dropped: u64,
    pub sent: u64,
    pub diverted: u64,
}

const _: () = {
    assert!(size_of::<HgPacket>() == 32);
    assert!(offset_of!(HgPacket, length) == 8);
    assert!(offset_of!(HgPacket, ingress) == 12);
    assert!(offset_of!(HgPacket, verdict) == 14);
    assert!(offset_of!(HgPacket, buffer) == 16);
    assert!(offset_of!(HgPacket, buffer_bytes) == 24);
    assert!(offset_of!(HgPacket, long_frame) == 28);
    assert!(size_of::<HgNf>() == 56);
    assert!(offset_of!(HgNf, state) == 8);
    assert!(offset_of!(HgNf, start) == 16);
    assert!(offset_of!(HgNf, process) == 24);
    assert!(offset_of!(HgNf, message) == 32);
    assert!(offset_of!(HgNf, timer) == 40);
    assert!(offset_of!(HgNf, stop) == 48);
    assert!(size_of::<HgTally>() == 40);
    assert!(size_of::<HgLogSettings>() == 24);
    assert!(offset_of!(HgLogSettings, flush_ns) == 8);
    assert!(offset_of!(HgLogSettings, burst_bytes) == 16);
    assert!(size_of::<HgWritten>() == 40);
    assert!(offset_of!(HgWritten, lost) == 24);
    assert!(offset_of!(HgWritten, error) == 32);
    assert!(offset_of!(HgWritten, log) == 36);
    assert!(size_of::<HgDone>() == 24);
    assert!(offset_of!(HgDone, bytes) == 8);
    assert!(offset_of!(HgDone, result) == 16);
    assert!(headgate_nf::Verdict::Drop.encode() == 0x1000);
    assert!(headgate_nf::Verdict::Port(5).encode() == 0x2005);
    assert!(headgate_nf::Verdict::Stage(5).encode() == 0x3005);
    assert!(headgate_nf::BURST_MAX == 64);
};
