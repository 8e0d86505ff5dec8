//! Messages to and from the kernel's routing family of netlink sockets (netlink(7),
//! rtnetlink(7)): length-prefixed, native byte order, everything padded to four bytes.
//!
//! Why not a library: those that speak to the kernel bring an asynchronous runtime with them, and
//! running `ip` would lose the kernel's own words on what was wrong. This is all of it we need.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// Answers fit this: the kernel makes no part of a dump longer than 32 KiB (`netlink_recvmsg` in
/// its `af_netlink.c`).
const ANSWER_BYTES: usize = 32 << 10;

/// `struct nlmsghdr`: length, type, flags, sequence, port.
const HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;

// linux/netlink.h
const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;
const DUMP: u16 = 0x300;
const DUMP_INTERRUPTED: u16 = 0x10;
const ACK_WITH_ATTRIBUTES: u16 = 0x200;
const TYPE_ERROR: u16 = 2;
const TYPE_DONE: u16 = 3;
const NESTED: u16 = 1 << 15;
const ERROR_ATTRIBUTE_MESSAGE: u16 = 1;
const OPTION_CAP_ACK: libc::c_int = 10;
const OPTION_EXT_ACK: libc::c_int = 11;

/// Make what is not there, fail if it is.
pub(super) const CREATE: u16 = 0x400 | 0x200;

/// Attempts at a dump that others keep changing under our hands. Our choice: interfaces are not
/// changed ten times in a row while one list is read, or something is badly wrong.
const DUMP_ATTEMPTS: usize = 10;

/// Error in the kernel's answer.
#[derive(Debug)]
pub(super) struct NetlinkError {
    pub source: io::Error,
    /// The kernel's own explanation, where it gives one.
    pub explanation: Option<String>,
}

impl From<Errno> for NetlinkError {
    fn from(errno: Errno) -> Self {
        NetlinkError { source: errno.into(), explanation: None }
    }
}

/// A request, put together attribute by attribute.
pub(super) struct Request {
    kind: u16,
    flags: u16,
    body: Vec<u8>,
}

impl Request {
    /// `body` is the fixed structure that comes before the attributes.
    pub fn new(kind: u16, flags: u16, body: &[u8]) -> Self {
        Self { kind, flags, body: body.to_vec() }
    }

    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = (ATTRIBUTE_HEADER_BYTES + value.len()) as u16;
        self.body.extend_from_slice(&length.to_ne_bytes());
        self.body.extend_from_slice(&kind.to_ne_bytes());
        self.body.extend_from_slice(value);
        self.body.resize(padded(self.body.len()), 0);
        self
    }

    pub fn number(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    pub fn text(self, kind: u16, value: &str) -> Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes)
    }

    /// An attribute that holds what `fill` adds.
    pub fn nest(mut self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.body.len();
        self = self.attribute(kind | NESTED, &[]);
        self = fill(self);
        let length = (self.body.len() - start) as u16;
        self.body[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// Bytes that are no attribute, as a structure inside a nest.
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.body.extend_from_slice(bytes);
        self
    }

    #[cfg(test)]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    fn encode(&self, flags: u16) -> Vec<u8> {
        let mut message = Vec::with_capacity(HEADER_BYTES + self.body.len());
        let length = (HEADER_BYTES + self.body.len()) as u32;
        message.extend_from_slice(&length.to_ne_bytes());
        message.extend_from_slice(&self.kind.to_ne_bytes());
        message.extend_from_slice(&(REQUEST | self.flags | flags).to_ne_bytes());
        // Sequence and port stay zero: one conversation at a time on a socket of its own.
        message.resize(HEADER_BYTES, 0);
        message.extend_from_slice(&self.body);
        message
    }
}

/// A conversation with the kernel in the network namespace of the thread that opened it, wherever
/// that thread, or the socket, goes later.
pub(super) struct Socket {
    descriptor: OwnedFd,
}

impl Socket {
    pub fn open() -> Result<Self, Errno> {
        let descriptor = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        // Kernels before 4.12 know neither option and explain nothing.
        for option in [OPTION_CAP_ACK, OPTION_EXT_ACK] {
            let on: libc::c_int = 1;
            let bytes = size_of_val(&on) as libc::socklen_t;
            // SAFETY: the call reads the one integer that `on` is.
            unsafe {
                libc::setsockopt(
                    descriptor.as_raw_fd(),
                    libc::SOL_NETLINK,
                    option,
                    (&raw const on).cast(),
                    bytes,
                )
            };
        }
        Ok(Self { descriptor })
    }

    /// Sends a request and waits for its confirmation.
    pub fn execute(&mut self, request: Request) -> Result<(), NetlinkError> {
        self.send(&request.encode(ACK))?;
        self.receive(|_| ()).map(|_| ())
    }

    /// Requests a list of everything of a kind; returns the body of each message.
    pub fn dump(&mut self, request: Request) -> Result<Vec<Vec<u8>>, NetlinkError> {
        for _ in 0..DUMP_ATTEMPTS {
            self.send(&request.encode(DUMP))?;
            let mut found = Vec::new();
            let complete = self.receive(|body| found.push(body.to_vec()))?;
            if complete {
                return Ok(found);
            }
        }
        Err(Errno::AGAIN.into())
    }

    fn send(&self, message: &[u8]) -> Result<(), Errno> {
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.descriptor, message, SendFlags::empty(), &kernel).map(|_| ())
    }

    /// Reads to the end of an answer. False if the list changed while it was being told.
    fn receive(&self, mut each: impl FnMut(&[u8])) -> Result<bool, NetlinkError> {
        let mut buffer = vec![0; ANSWER_BYTES];
        let mut complete = true;
        loop {
            let read = || recv(&self.descriptor, &mut buffer[..], RecvFlags::empty());
            let (length, _) = rustix::io::retry_on_intr(read)?;
            for message in messages(&buffer[..length]) {
                complete &= message.flags & DUMP_INTERRUPTED == 0;
                match message.kind {
                    TYPE_ERROR | TYPE_DONE => return outcome(&message).map(|()| complete),
                    _ => each(message.body),
                }
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

struct Message<'a> {
    kind: u16,
    flags: u16,
    body: &'a [u8],
}

fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = u32_at(bytes, 0)? as usize;
        let body = bytes.get(HEADER_BYTES..length)?;
        let message = Message { kind: u16_at(bytes, 4)?, flags: u16_at(bytes, 6)?, body };
        bytes = bytes.get(padded(length)..).unwrap_or_default();
        Some(message)
    })
}

/// An error message starts with a negative error number, zero if all went well; a "done" message
/// ends a dump in the same way.
fn outcome(message: &Message<'_>) -> Result<(), NetlinkError> {
    let number = u32_at(message.body, 0).unwrap_or(0) as i32;
    if number == 0 {
        return Ok(());
    }
    // Behind an error number stands the header of the request, shorn of its body (CAP_ACK).
    let explained = message.kind == TYPE_ERROR && message.flags & ACK_WITH_ATTRIBUTES != 0;
    let explanation = message
        .body
        .get(4 + HEADER_BYTES..)
        .filter(|_| explained)
        .and_then(|rest| attribute(rest, ERROR_ATTRIBUTE_MESSAGE))
        .map(text_of);
    Err(NetlinkError { source: io::Error::from_raw_os_error(-number), explanation })
}

/// The attributes in `bytes`: kind and value.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let value = bytes.get(ATTRIBUTE_HEADER_BYTES..length)?;
        let kind = u16_at(bytes, 2)? & !NESTED;
        bytes = bytes.get(padded(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

pub(super) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(k, _)| *k == kind).map(|(_, value)| value)
}

pub(super) fn number(bytes: &[u8], kind: u16) -> Option<u32> {
    u32_at(attribute(bytes, kind)?, 0)
}

/// A text as the kernel writes it, up to its terminating zero.
pub(super) fn text_of(bytes: &[u8]) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

pub(super) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

pub(super) fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    let bytes = bytes.get(offset..offset + 2)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_out_as_they_went_in() {
        let request = Request::new(1, 0, &[])
            .text(3, "veth0")
            .nest(18, |nest| nest.text(1, "veth").nest(2, |data| data.raw(&[7; 4]).number(4, 9)));
        let body = request.body();
        assert_eq!(attribute(body, 3).map(text_of).as_deref(), Some("veth0"));
        let nest = attribute(body, 18).unwrap();
        assert_eq!(attribute(nest, 1).map(text_of).as_deref(), Some("veth"));
        let data = attribute(nest, 2).unwrap();
        assert_eq!(number(&data[4..], 4), Some(9));
        assert_eq!(body.len() % 4, 0);
    }

    #[test]
    fn a_truncated_answer_ends_the_list_and_nothing_else() {
        let whole = Request::new(16, 0, &[]).number(1, 5).number(2, 6).encode(0);
        for length in 0..whole.len() {
            assert_eq!(messages(&whole[..length]).count(), 0);
            assert!(attributes(&whole[HEADER_BYTES..length.max(HEADER_BYTES)]).count() < 2);
        }
        assert_eq!(messages(&whole).count(), 1);
    }

    #[test]
    fn a_length_of_zero_does_not_loop() {
        assert_eq!(messages(&[0; 64]).count(), 0);
        assert_eq!(attributes(&[0; 64]).count(), 0);
    }
}
