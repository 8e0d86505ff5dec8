//! Programs of eBPF that an interface runs for each packet. A link holds one on the interface as long as the
//! link's descriptor is open.
//!
//! - `return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS)`: to the socket of the packet's
//!   queue, and up to the host from a queue without one;
//! - `return bpf_redirect(interface, 0)`: out of another interface, and `return XDP_PASS`: up to the host.
//!   They are what the kernel itself can do, to be compared with.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

// linux/bpf.h
const BPF_MAP_CREATE: i32 = 0;
const BPF_MAP_UPDATE_ELEM: i32 = 2;
const BPF_PROG_LOAD: i32 = 5;
const BPF_LINK_CREATE: i32 = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_FUNC_REDIRECT: i32 = 23;
const BPF_FUNC_REDIRECT_MAP: i32 = 51;
const BPF_PSEUDO_MAP_FD: u8 = 1;
const XDP_PASS: i32 = 2;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const QUEUE_OFFSET: i16 = 16;
// linux/if_link.h
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// The only queue that a socket is bound to.
pub const QUEUE: u32 = 0;

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    /// Target in the lower half, source in the upper.
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn instruction(code: u8, target: u8, source: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: target | source << 4, offset, immediate }
}

fn instructions(map: BorrowedFd<'_>) -> [Instruction; 6] {
    [
        // r2 = *(u32 *)(r1 + QUEUE_OFFSET): BPF_LDX | BPF_MEM | BPF_W
        instruction(0x61, 2, 1, QUEUE_OFFSET, 0),
        // r1 = map, in two words: BPF_LD | BPF_IMM | BPF_DW
        instruction(0x18, 1, BPF_PSEUDO_MAP_FD, 0, map.as_raw_fd()),
        instruction(0, 0, 0, 0, 0),
        // r3 = XDP_PASS: BPF_ALU64 | BPF_MOV | BPF_K
        instruction(0xb7, 3, 0, 0, XDP_PASS),
        // call: BPF_JMP | BPF_CALL
        instruction(0x85, 0, 0, 0, BPF_FUNC_REDIRECT_MAP),
        // return r0: BPF_JMP | BPF_EXIT
        instruction(0x95, 0, 0, 0, 0),
    ]
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// As long as the kernel's is down to `expected_attach_type`.
#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    log: [u64; 2],
    version_and_flags: [u32; 2],
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

/// Has an interface pass what comes by [`QUEUE`] to a bound socket, until the link is closed. The driver runs
/// the program where it can, the kernel behind it otherwise.
pub fn attach(socket: BorrowedFd<'_>, interface: u32) -> io::Result<OwnedFd> {
    let shape = MapCreate { kind: BPF_MAP_TYPE_XSKMAP, key_bytes: 4, value_bytes: 4, entries_max: QUEUE + 1 };
    let map = descriptor(BPF_MAP_CREATE, &shape)?;
    let (key, value) = (QUEUE, socket.as_raw_fd() as u32);
    let (key, value) = ((&raw const key) as u64, (&raw const value) as u64);
    let update = MapUpdate { map: map.as_raw_fd() as u32, padding: 0, key, value, flags: 0 };
    call(BPF_MAP_UPDATE_ELEM, &update)?;
    let program = load(&instructions(map.as_fd()))?;
    link(&program, interface, 0).or_else(|error| match error.raw_os_error() {
        // Of a driver that has XDP, but not with this MTU, these queues or those offloads.
        Some(libc::EINVAL | libc::ERANGE | libc::EOPNOTSUPP) => link(&program, interface, XDP_FLAGS_SKB_MODE),
        _ => Err(error),
    })
}

/// Has an interface's driver send all that comes by it out of another one, or with `None` pass it up to the
/// host, until the link is closed.
pub fn forward(interface: u32, to: Option<u32>) -> io::Result<OwnedFd> {
    // return r0: BPF_JMP | BPF_EXIT
    let end = instruction(0x95, 0, 0, 0, 0);
    // BPF_ALU64 | BPF_MOV | BPF_K
    let set = |register, value| instruction(0xb7, register, 0, 0, value);
    let program = match to {
        // r1 = interface; r2 = no flags; call: BPF_JMP | BPF_CALL
        Some(to) => {
            load(&[set(1, to as i32), set(2, 0), instruction(0x85, 0, 0, 0, BPF_FUNC_REDIRECT), end])?
        }
        None => load(&[set(0, XDP_PASS), end])?,
    };
    link(&program, interface, XDP_FLAGS_DRV_MODE)
}

fn link(program: &OwnedFd, interface: u32, flags: u32) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    descriptor(BPF_LINK_CREATE, &LinkCreate { program, interface, attach: BPF_XDP, flags })
}

fn load(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let licence = c"Apache-2.0";
    let mut name = [0; 16];
    name[..8].copy_from_slice(b"headgate");
    let program = ProgramLoad {
        kind: BPF_PROG_TYPE_XDP,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        licence: licence.as_ptr() as u64,
        log: [0; 2],
        version_and_flags: [0; 2],
        name,
        interface: 0,
        attach: BPF_XDP,
    };
    // `log` is length and level as one word, and no buffer: a program this short says nothing new.
    descriptor(BPF_PROG_LOAD, &program)
}

fn descriptor<T>(command: i32, argument: &T) -> io::Result<OwnedFd> {
    let file = call(command, argument)?;
    // SAFETY: just opened, close-on-exec as all of bpf(2), and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

fn call<T>(command: i32, argument: &T) -> io::Result<i32> {
    let (address, bytes) = (std::ptr::from_ref(argument), size_of::<T>());
    // SAFETY: the kernel reads `bytes` bytes of an argument laid out as its own, and what that points to,
    // which lives through the call; of these commands none writes.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, address, bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}
