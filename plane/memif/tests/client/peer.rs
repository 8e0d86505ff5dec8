//! A client's memory, rings and words.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use headgate_memif::message::{MESSAGE_BYTES, VERSION};
use headgate_memif::{Connection, Meeting};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, sendmsg, socket_with,
};

/// The client's memory: both rings, then a buffer for each of their descriptors.
#[derive(Clone, Copy)]
pub struct Shape {
    pub log2_ring: u8,
    pub buffer_bytes: usize,
}

/// So small that a frame takes several buffers, and some frames more than there are.
pub const SMALL: Shape = Shape { log2_ring: 4, buffer_bytes: 64 };
/// As DPDK's client has it.
pub const USUAL: Shape = Shape { log2_ring: 10, buffer_bytes: 2048 };

impl Shape {
    pub const fn ring(self) -> usize {
        1 << self.log2_ring
    }

    /// Bytes of a ring.
    pub const fn ring_bytes(self) -> usize {
        128 + 16 * self.ring()
    }

    /// Returns the offset of the buffers.
    pub const fn buffers_at(self) -> usize {
        2 * self.ring_bytes()
    }

    /// Returns the offset of the buffer of a ring's slot.
    pub const fn buffer_at(self, ring: Which, slot: usize) -> usize {
        self.buffers_at() + (ring as usize * self.ring() + slot) * self.buffer_bytes
    }

    pub const fn bytes(self) -> usize {
        self.buffers_at() + 2 * self.ring() * self.buffer_bytes
    }

    /// Returns the memory's first contents.
    fn filled(self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes()];
        for ring in [Which::ToClient, Which::FromClient] {
            let start = ring as usize * self.ring_bytes();
            bytes[start..start + 4].copy_from_slice(&0x3E3_1F20u32.to_ne_bytes());
            for slot in 0..self.ring() {
                let at = start + 128 + 16 * slot;
                let buffer = self.buffer_at(ring, slot) as u32;
                bytes[at + 4..at + 8].copy_from_slice(&(self.buffer_bytes as u32).to_ne_bytes());
                bytes[at + 8..at + 12].copy_from_slice(&buffer.to_ne_bytes());
            }
        }
        bytes
    }
}

/// Ring of the client's memory.
#[derive(Clone, Copy)]
pub enum Which {
    ToClient = 0,
    FromClient = 1,
}

pub struct Client {
    socket: OwnedFd,
    file: OwnedFd,
    pub shape: Shape,
}

impl Client {
    pub fn come(meeting: &mut Meeting, seals: SealFlags, shape: Shape) -> Self {
        let name = meeting.name().rsplit('-').next().unwrap();
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        connect(&socket, &SocketAddrUnix::new_abstract_name(meeting.name().as_bytes()).unwrap()).unwrap();
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create(name, flags).unwrap();
        rustix::fs::ftruncate(&file, shape.bytes() as u64).unwrap();
        rustix::fs::fcntl_add_seals(&file, seals).unwrap();
        let client = Self { socket, file, shape };
        client.write(0, &shape.filled());
        client
    }

    pub const fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    pub fn write(&self, at: usize, bytes: &[u8]) {
        assert_eq!(rustix::io::pwrite(&self.file, bytes, at as u64), Ok(bytes.len()));
    }

    pub fn read(&self, at: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        assert_eq!(rustix::io::pread(&self.file, &mut bytes, at as u64), Ok(length));
        bytes
    }

    pub fn set_head(&self, ring: Which, head: u16) {
        self.write(ring as usize * self.shape.ring_bytes() + 6, &head.to_ne_bytes());
    }

    pub fn descriptor(&self, ring: Which, slot: usize, flags: u16, region: u16, length: u32, offset: u32) {
        let at = ring as usize * self.shape.ring_bytes() + 128 + 16 * slot;
        let fields = [flags.to_ne_bytes(), region.to_ne_bytes()].concat();
        self.write(at, &[&fields[..], &length.to_ne_bytes(), &offset.to_ne_bytes()].concat());
    }

    pub fn say(&self, fields: &[&[u8]], file: Option<BorrowedFd<'_>>) {
        let mut body = fields.concat();
        body.resize(MESSAGE_BYTES, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
        assert!(files.is_empty() || ancillary.push(SendAncillaryMessage::ScmRights(&files)));
        // It may have been thrown out already.
        let _ = sendmsg(&self.socket, &[IoSlice::new(&body)], &mut ancillary, SendFlags::NOSIGNAL);
    }

    pub fn init(&self, version: u16) {
        self.say(&[&3u16.to_ne_bytes(), &version.to_ne_bytes(), &0u32.to_ne_bytes()], None);
    }

    pub fn add_region(&self, index: u16, bytes: u64) {
        self.say(&[&4u16.to_ne_bytes(), &index.to_ne_bytes(), &bytes.to_ne_bytes()], Some(self.file.as_fd()));
    }

    pub fn add_ring(&self, ring: Which, region: u16, offset: u32, log2_size: u8) {
        let fields = [5, ring as u16, 0, region].map(u16::to_ne_bytes).concat();
        self.say(&[&fields, &offset.to_ne_bytes(), &[log2_size]], Some(self.file.as_fd()));
    }

    pub fn connect(&self) {
        self.say(&[&6u16.to_ne_bytes()], None);
    }

    /// Says all that an honest client says.
    pub fn introduce(&self) {
        self.init(VERSION);
        let Shape { log2_ring, .. } = self.shape;
        self.add_region(0, self.shape.bytes() as u64);
        self.add_ring(Which::ToClient, 0, 0, log2_ring);
        self.add_ring(Which::FromClient, 0, self.shape.ring_bytes() as u32, log2_ring);
        self.connect();
    }
}

pub fn meeting(test: &str) -> Meeting {
    let user = rustix::process::geteuid().as_raw();
    Meeting::open(&format!("headgate-test-{}-{test}", std::process::id()), user, 1024).unwrap()
}

/// Tends until there is an outcome.
pub fn outcome(meeting: &mut Meeting) -> Result<Connection, String> {
    let started = Instant::now();
    loop {
        match meeting.tend() {
            Ok(Some(cable)) => return Ok(cable),
            Ok(None) => assert!(started.elapsed() < Duration::from_secs(10), "nothing comes of it"),
            Err(error) => return Err(error.to_string()),
        }
    }
}

pub fn connected(test: &str, shape: Shape) -> (Meeting, Client, Connection) {
    let mut meeting = meeting(test);
    let client = Client::come(&mut meeting, SealFlags::SHRINK, shape);
    client.introduce();
    let cable = outcome(&mut meeting).unwrap();
    (meeting, client, cable)
}
