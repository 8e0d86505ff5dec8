//! Packet filters as classic BPF programs: the instructions that libpcap's compiler makes of an expression,
//! checked and run.
//!
//! Instructions and their effect: S. McCanne, V. Jacobson, "The BSD Packet Filter" (USENIX 1993), table 2,
//! and the filter machine of BSD's bpf(4). Only forward jumps exist, so a program of n instructions ends
//! after at most n of them. A load beyond the bytes at hand ends it without a match, as bpf(4) says.

/// Most instructions of a program: BPF_MAXINSNS of Linux's `linux/bpf_common.h`.
const INSTRUCTIONS_MAX: usize = 4096;
/// Words of scratch memory: BPF_MEMWORDS of the same header.
const MEMORY_WORDS: u32 = 16;

const CLASS: u16 = 0x07;
const LOAD: u16 = 0x00;
const LOAD_INDEX: u16 = 0x01;
const STORE: u16 = 0x02;
const STORE_INDEX: u16 = 0x03;
const ARITHMETIC: u16 = 0x04;
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;
const MISCELLANEOUS: u16 = 0x07;

const SIZE: u16 = 0x18;
const WORD: u16 = 0x00;
const HALF: u16 = 0x08;
const BYTE: u16 = 0x10;

const MODE: u16 = 0xe0;
const IMMEDIATE: u16 = 0x00;
const ABSOLUTE: u16 = 0x20;
const INDIRECT: u16 = 0x40;
const MEMORY: u16 = 0x60;
const LENGTH: u16 = 0x80;
const HEADER_LENGTH: u16 = 0xa0;

const OPERATION: u16 = 0xf0;
const DIVIDE: u16 = 0x30;
const MODULO: u16 = 0x90;
const FROM_INDEX: u16 = 0x08;
const RETURN_ACCUMULATOR: u16 = 0x10;
const TO_ACCUMULATOR: u16 = 0x80;

/// An instruction of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip if a condition holds.
    pub if_true: u8,
    /// Instructions to skip if it does not.
    pub if_false: u8,
    /// Operand.
    pub operand: u32,
}

/// Reason why instructions are no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterError {
    /// There is none, or more than 4096.
    Length(usize),
    /// There is no such operation.
    Operation(usize),
    /// It jumps beyond the last instruction.
    Jump(usize),
    /// It names scratch memory that does not exist.
    Memory(usize),
    /// It divides by a constant zero.
    Division(usize),
    /// The last instruction does not return.
    NoReturn,
}

impl core::fmt::Display for FilterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Length(count) => {
                write!(f, "it has {count} instructions; a filter has 1 to {INSTRUCTIONS_MAX}")
            }
            Self::Operation(at) => write!(f, "instruction {at}: there is no such operation"),
            Self::Jump(at) => write!(f, "instruction {at}: it jumps beyond the last instruction"),
            Self::Memory(at) => write!(f, "instruction {at}: there are {MEMORY_WORDS} words of memory"),
            Self::Division(at) => write!(f, "instruction {at}: it divides by zero"),
            Self::NoReturn => write!(f, "its last instruction does not return"),
        }
    }
}

impl core::error::Error for FilterError {}

/// A checked program: running it ends, and touches nothing but the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter<I>(I);

impl<I: AsRef<[Instruction]>> Filter<I> {
    /// Checks instructions.
    ///
    /// # Errors
    /// [`FilterError`].
    pub fn new(instructions: I) -> Result<Self, FilterError> {
        let all = instructions.as_ref();
        if all.is_empty() || all.len() > INSTRUCTIONS_MAX {
            return Err(FilterError::Length(all.len()));
        }
        all.iter().enumerate().try_for_each(|(at, one)| check(at, *one, all.len()))?;
        match all.last() {
            Some(last) if last.code & CLASS == RETURN => Ok(Self(instructions)),
            _ => Err(FilterError::NoReturn),
        }
    }

    /// Returns whether a frame of `length` bytes matches, of which `bytes` are at hand.
    #[must_use]
    pub fn matches(&self, bytes: &[u8], length: u32) -> bool {
        Machine { bytes, length, accumulator: 0, index: 0, memory: [0; MEMORY_WORDS as usize] }
            .run(self.0.as_ref())
            .is_some_and(|kept| kept > 0)
    }
}

/// Checks the instruction at a place among so many.
const fn check(at: usize, one: Instruction, count: usize) -> Result<(), FilterError> {
    if !is_known(one) {
        return Err(FilterError::Operation(at));
    }
    let uses_memory = matches!(one.code & CLASS, STORE | STORE_INDEX)
        || matches!(one.code & CLASS, LOAD | LOAD_INDEX) && one.code & MODE == MEMORY;
    if uses_memory && one.operand >= MEMORY_WORDS {
        return Err(FilterError::Memory(at));
    }
    let divides = one.code & CLASS == ARITHMETIC && matches!(one.code & OPERATION, DIVIDE | MODULO);
    if divides && one.code & FROM_INDEX == 0 && one.operand == 0 {
        return Err(FilterError::Division(at));
    }
    if one.code & CLASS == JUMP {
        let furthest = match one.code & OPERATION {
            0 => one.operand as usize,
            _ if one.if_true > one.if_false => one.if_true as usize,
            _ => one.if_false as usize,
        };
        if furthest >= count - at - 1 {
            return Err(FilterError::Jump(at));
        }
    }
    Ok(())
}

/// Returns whether there is such an operation.
const fn is_known(one: Instruction) -> bool {
    let is_known = match one.code & CLASS {
        LOAD => match one.code & MODE {
            ABSOLUTE | INDIRECT => matches!(one.code & SIZE, WORD | HALF | BYTE),
            IMMEDIATE | MEMORY | LENGTH => one.code & SIZE == WORD,
            _ => false,
        },
        LOAD_INDEX => match one.code & MODE {
            IMMEDIATE | MEMORY | LENGTH => one.code & SIZE == WORD,
            HEADER_LENGTH => one.code & SIZE == BYTE,
            _ => false,
        },
        STORE | STORE_INDEX => one.code & !CLASS == 0,
        ARITHMETIC => one.code & OPERATION <= 0xa0,
        JUMP => one.code & OPERATION <= 0x40,
        RETURN => matches!(one.code & !CLASS, 0 | RETURN_ACCUMULATOR),
        _ => matches!(one.code & !CLASS, 0 | TO_ACCUMULATOR),
    };
    is_known && one.code <= 0xff
}

/// The filter machine.
struct Machine<'a> {
    bytes: &'a [u8],
    length: u32,
    accumulator: u32,
    index: u32,
    memory: [u32; MEMORY_WORDS as usize],
}

impl Machine<'_> {
    /// Runs checked instructions. Returns what the program does; `None` where a load misses the frame.
    fn run(&mut self, all: &[Instruction]) -> Option<u32> {
        let mut at = 0;
        while let Some(one) = all.get(at) {
            at += 1;
            match one.code & CLASS {
                LOAD => self.accumulator = self.load(*one)?,
                LOAD_INDEX => self.index = self.load(*one)?,
                STORE => self.memory[one.operand as usize] = self.accumulator,
                STORE_INDEX => self.memory[one.operand as usize] = self.index,
                ARITHMETIC => self.accumulator = self.arithmetic(*one)?,
                JUMP => at += self.jump(*one),
                MISCELLANEOUS if one.code & TO_ACCUMULATOR != 0 => self.accumulator = self.index,
                MISCELLANEOUS => self.index = self.accumulator,
                _ if one.code & RETURN_ACCUMULATOR != 0 => return Some(self.accumulator),
                _ => return Some(one.operand),
            }
        }
        None
    }

    fn load(&self, one: Instruction) -> Option<u32> {
        match one.code & MODE {
            ABSOLUTE => self.read(one.operand, one.code & SIZE),
            INDIRECT => self.read(self.index.checked_add(one.operand)?, one.code & SIZE),
            MEMORY => Some(self.memory[one.operand as usize]),
            LENGTH => Some(self.length),
            HEADER_LENGTH => Some((self.read(one.operand, BYTE)? & 0xf) * 4),
            _ => Some(one.operand),
        }
    }

    fn read(&self, at: u32, size: u16) -> Option<u32> {
        let rest = self.bytes.get(at as usize..)?;
        match size {
            WORD => rest.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)),
            HALF => rest.first_chunk().map(|bytes| u16::from_be_bytes(*bytes).into()),
            _ => rest.first().map(|byte| (*byte).into()),
        }
    }

    fn arithmetic(&self, one: Instruction) -> Option<u32> {
        let a = self.accumulator;
        let b = if one.code & FROM_INDEX != 0 { self.index } else { one.operand };
        Some(match one.code & OPERATION {
            0x00 => a.wrapping_add(b),
            0x10 => a.wrapping_sub(b),
            0x20 => a.wrapping_mul(b),
            DIVIDE => a.checked_div(b)?,
            0x40 => a | b,
            0x50 => a & b,
            0x60 => a.checked_shl(b).unwrap_or(0),
            0x70 => a.checked_shr(b).unwrap_or(0),
            0x80 => a.wrapping_neg(),
            MODULO => a.checked_rem(b)?,
            _ => a ^ b,
        })
    }

    /// Returns how many instructions are skipped.
    const fn jump(&self, one: Instruction) -> usize {
        let a = self.accumulator;
        let b = if one.code & FROM_INDEX != 0 { self.index } else { one.operand };
        let holds = match one.code & OPERATION {
            0 => return one.operand as usize,
            0x10 => a == b,
            0x20 => a > b,
            0x30 => a >= b,
            _ => a & b != 0,
        };
        if holds { one.if_true as usize } else { one.if_false as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn one(code: u16, if_true: u8, if_false: u8, operand: u32) -> Instruction {
        Instruction { code, if_true, if_false, operand }
    }

    /// `tcpdump -d -y EN10MB 'udp port 53'`, the half for IPv4.
    const UDP_53: [Instruction; 13] = [
        one(0x28, 0, 0, 12),
        one(0x15, 0, 10, 0x800),
        one(0x30, 0, 0, 23),
        one(0x15, 0, 8, 17),
        one(0x28, 0, 0, 20),
        one(0x45, 6, 0, 0x1fff),
        one(0xb1, 0, 0, 14),
        one(0x48, 0, 0, 14),
        one(0x15, 2, 0, 53),
        one(0x48, 0, 0, 16),
        one(0x15, 0, 1, 53),
        one(0x06, 0, 0, 262_144),
        one(0x06, 0, 0, 0),
    ];

    fn udp(from: u16, to: u16) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[23] = 17;
        frame[34..36].copy_from_slice(&from.to_be_bytes());
        frame[36..38].copy_from_slice(&to.to_be_bytes());
        frame
    }

    #[test]
    fn a_filter_of_ports_takes_those_and_no_others() {
        let filter = Filter::new(UDP_53).unwrap();
        for (frame, expected) in [(udp(53, 9), true), (udp(9, 53), true), (udp(9, 9), false)] {
            assert_eq!(filter.matches(&frame, 60), expected);
        }
        assert!(!filter.matches(&udp(9, 53)[..36], 60), "what is not at hand matches nothing");
        let long = Filter::new([one(0x80, 0, 0, 0), one(0x25, 0, 1, 99), one(6, 0, 0, 1), one(6, 0, 0, 0)]);
        assert!(long.unwrap().matches(&[], 100) && !long.unwrap().matches(&[], 99));
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let refused = |all: &[Instruction]| Filter::new(all).unwrap_err();
        assert_eq!(refused(&[]), FilterError::Length(0));
        assert_eq!(refused(&[one(0x28, 0, 0, 12)]), FilterError::NoReturn);
        assert_eq!(refused(&[one(0x15, 1, 0, 1), one(6, 0, 0, 0)]), FilterError::Jump(0));
        assert_eq!(refused(&[one(0x05, 0, 0, u32::MAX), one(6, 0, 0, 0)]), FilterError::Jump(0));
        assert_eq!(refused(&[one(0x02, 0, 0, 16), one(6, 0, 0, 0)]), FilterError::Memory(0));
        assert_eq!(refused(&[one(0x34, 0, 0, 0), one(6, 0, 0, 0)]), FilterError::Division(0));
        assert_eq!(refused(&[one(0xf4, 0, 0, 1), one(6, 0, 0, 0)]), FilterError::Operation(0));
    }

    proptest! {
        #[test]
        fn whatever_passes_the_check_runs_to_an_end(
            all in prop::collection::vec((0u16..0x100, 0u8..4, 0u8..4, 0u32..40), 1..24),
            bytes in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut all: Vec<Instruction> =
                all.into_iter().map(|(code, yes, no, operand)| one(code, yes, no, operand)).collect();
            all.push(one(6, 0, 0, 1));
            if let Ok(program) = Filter::new(&all) {
                let _ = program.matches(&bytes, bytes.len() as u32);
            }
        }
    }
}
