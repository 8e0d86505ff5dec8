//! Filter expressions, compiled by the machine's libpcap: `tcp port 80 and not host 10.0.0.1`.
//!
//! It is loaded when a filter is asked for, and by nothing else: a machine with Wireshark or tcpdump has it.
//! The instructions are only data to us; who runs them checks them.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, PoisonError};

/// Names under which distributions have it: Debian's first.
const LIBRARIES: [&CStr; 2] = [c"libpcap.so.0.8", c"libpcap.so.1"];
/// LINKTYPE_ETHERNET of the tcpdump group's registry.
const ETHERNET: c_int = 1;
/// Bytes of a frame that a program may keep: those of the longest.
const SNAP_BYTES: c_int = 1 << 18;
/// Longest expression, in bytes. Our choice: libpcap's parser recurses.
const EXPRESSION_BYTES_MAX: usize = 4096;

/// Instruction of a program: code, jump if true, jump if false, operand.
pub type Instruction = (u16, u8, u8, u32);

/// Reason why there is no filter.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// The machine has no libpcap.
    #[error("filters are compiled by libpcap, which this machine does not have: install it (libpcap0.8)")]
    NoLibrary,
    /// The expression is none of its language.
    #[error("{why}\n  {expression}\n  {}{}", " ".repeat(*at), "^".repeat((*length).max(1)))]
    Expression {
        /// The expression.
        expression: String,
        /// Where it goes wrong, in characters.
        at: usize,
        /// Length of the word there, in characters.
        length: usize,
        /// Reason, in libpcap's words.
        why: String,
    },
}

/// `struct bpf_insn` of `pcap/bpf.h`.
#[repr(C)]
struct RawInstruction {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

/// `struct bpf_program` of `pcap/bpf.h`.
#[repr(C)]
struct RawProgram {
    length: c_uint,
    instructions: *mut RawInstruction,
}

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut c_void;
type Compile = unsafe extern "C" fn(*mut c_void, *mut RawProgram, *const c_char, c_int, u32) -> c_int;
type FreeCode = unsafe extern "C" fn(*mut RawProgram);
type GetError = unsafe extern "C" fn(*mut c_void) -> *const c_char;
type Close = unsafe extern "C" fn(*mut c_void);

/// The functions of libpcap.
struct Library {
    open_dead: OpenDead,
    compile: Compile,
    free_code: FreeCode,
    get_error: GetError,
    close: Close,
}

/// `PCAP_NETMASK_UNKNOWN` of `pcap.h`.
const NETMASK_UNKNOWN: u32 = u32::MAX;

impl Library {
    fn load() -> Option<Self> {
        let open = |name: &&CStr| {
            // SAFETY: the name ends in a zero byte. libpcap's initialisers do nothing but set variables.
            NonNull::new(unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) })
        };
        let library = LIBRARIES.iter().find_map(open)?;
        let find = |name: &CStr| {
            // SAFETY: the handle is one of `dlopen`, which is never closed; the name ends in a zero byte.
            NonNull::new(unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) })
        };
        let [open_dead, compile, free_code, get_error, close] =
            [c"pcap_open_dead", c"pcap_compile", c"pcap_freecode", c"pcap_geterr", c"pcap_close"].map(find);
        // SAFETY: the functions have these types since libpcap 0.8 (pcap.h); both sides are one pointer wide.
        unsafe {
            Some(Self {
                open_dead: std::mem::transmute::<*mut c_void, OpenDead>(open_dead?.as_ptr()),
                compile: std::mem::transmute::<*mut c_void, Compile>(compile?.as_ptr()),
                free_code: std::mem::transmute::<*mut c_void, FreeCode>(free_code?.as_ptr()),
                get_error: std::mem::transmute::<*mut c_void, GetError>(get_error?.as_ptr()),
                close: std::mem::transmute::<*mut c_void, Close>(close?.as_ptr()),
            })
        }
    }

    /// Compiles an expression, or says what is wrong with it.
    fn compile(&self, expression: &CStr) -> Result<Vec<Instruction>, String> {
        // SAFETY: opens no device; returns null or a handle that is closed below.
        let Some(handle) = NonNull::new(unsafe { (self.open_dead)(ETHERNET, SNAP_BYTES) }) else {
            return Err("there is no memory left".to_owned());
        };
        let mut program = RawProgram { length: 0, instructions: null_mut() };
        // SAFETY: the handle is open, the program is ours to be filled, the expression ends in a zero byte.
        let result = unsafe {
            (self.compile)(handle.as_ptr(), &raw mut program, expression.as_ptr(), 1, NETMASK_UNKNOWN)
        };
        let compiled = if result == 0 && !program.instructions.is_null() {
            // SAFETY: it succeeded, so there are `length` instructions until they are freed.
            let all = unsafe { std::slice::from_raw_parts(program.instructions, program.length as usize) };
            Ok(all.iter().map(|one| (one.code, one.jt, one.jf, one.k)).collect())
        } else {
            // SAFETY: the handle is open; its text ends in a zero byte and is copied before it is closed.
            let text = unsafe { CStr::from_ptr((self.get_error)(handle.as_ptr())) };
            Err(text.to_string_lossy().into_owned())
        };
        // SAFETY: filled or zeroed by us; afterwards neither is used any more.
        unsafe {
            (self.free_code)(&raw mut program);
            (self.close)(handle.as_ptr());
        }
        compiled
    }
}

/// libpcap before 1.8 keeps the state of its parser in variables of the library.
static ALONE: Mutex<()> = Mutex::new(());

/// Compiles a filter expression for Ethernet frames (pcap-filter(7)).
///
/// # Errors
/// [`FilterError`], with the place in the expression from which on it is not understood.
pub fn compile(expression: &str) -> Result<Vec<Instruction>, FilterError> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let library = Library::load().ok_or(FilterError::NoLibrary)?;
    let refused = |at: usize, length: usize, why: String| FilterError::Expression {
        expression: expression.replace(char::is_control, " "),
        at: expression[..at].chars().count(),
        length,
        why: format!("this filter is not understood: {why}"),
    };
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(refused(0, 1, format!("it is longer than {EXPRESSION_BYTES_MAX} bytes")));
    }
    let of = |text: &str| CString::new(text).map_err(|_| "it has a zero byte in it".to_owned());
    let whole = of(expression).and_then(|text| library.compile(&text));
    whole.map_err(|why| {
        // libpcap does not say where: it is behind the longest beginning that it understands.
        let words: Vec<(usize, &str)> = words(expression).collect();
        let understood = |end: usize| of(&expression[..end]).is_ok_and(|text| library.compile(&text).is_ok());
        let ends = words.iter().map(|(at, word)| at + word.len());
        let known = ends.rev().skip(1).find(|end| understood(*end)).unwrap_or(0);
        let (at, word) = words.iter().find(|(at, _)| *at >= known).copied().unwrap_or((known, ""));
        refused(at, word.chars().count(), why)
    })
}

/// Words of an expression and where they begin.
fn words(expression: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = expression.as_ptr() as usize;
    expression.split_whitespace().map(move |word| (word.as_ptr() as usize - start, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(expression: &str) -> Option<(usize, usize)> {
        match compile(expression) {
            Err(FilterError::Expression { at, length, .. }) => Some((at, length)),
            Err(FilterError::NoLibrary) => {
                eprintln!("skipped: this machine has no libpcap");
                None
            }
            Ok(program) => panic!("{expression:?} was compiled: {program:?}"),
        }
    }

    #[test]
    fn an_expression_becomes_the_program_that_tcpdump_makes_of_it() {
        let Ok(program) = compile("len > 100") else { return };
        assert_eq!(program, [(0x80, 0, 0, 0), (0x25, 0, 1, 100), (6, 0, 0, 1 << 18), (6, 0, 0, 0)]);
        assert!(compile("tcp port 80 and not host 10.0.0.1").is_ok_and(|program| program.len() > 4));
        assert!(compile("").is_ok(), "no expression takes everything");
    }

    #[test]
    fn a_broken_expression_shows_where() {
        for (expression, expected) in [
            ("tcp prot 80", (4, 4)),
            ("host 10.0.0.1 and prot 80", (14, 3)),
            ("tcp port 80 and (udp", (12, 3)),
            ("nonsense", (0, 8)),
            ("udp port 99999", (4, 4)),
            ("ip6 h\u{f6}st", (4, 4)),
        ] {
            let Some(found) = wrong(expression) else { return };
            assert_eq!(found, expected, "{expression}");
        }
        let Some(_) = wrong("tcp\0") else { return };
        let Some(_) = wrong(&"(".repeat(5000)) else { return };
        let message = compile("tcp prot 80").unwrap_err().to_string();
        assert!(message.ends_with("\n  tcp prot 80\n      ^^^^"), "{message}");
    }
}
