//! The control messages: a type and its fields in a fixed block, in the byte order of the machine.

/// Bytes of every message.
pub const MESSAGE_BYTES: usize = 128;
/// Major version 2, minor version 0.
pub const VERSION: u16 = 2 << 8;

const ACK: u16 = 1;
const HELLO: u16 = 2;
const INIT: u16 = 3;
const ADD_REGION: u16 = 4;
const ADD_RING: u16 = 5;
const CONNECT: u16 = 6;
const CONNECTED: u16 = 7;
const DISCONNECT: u16 = 8;

/// A ring from the client to the server.
const CLIENT_TO_SERVER: u16 = 1;
/// Packets are Ethernet frames.
const MODE_ETHERNET: u8 = 0;
const NAME_BYTES: usize = 32;
const REASON_BYTES: usize = 96;

/// Message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromClient {
    /// The client's version and wishes.
    Init {
        /// Its version of the protocol.
        version: u16,
        /// Number of the server's interface that it wants.
        interface: u32,
        /// Whether packets are Ethernet frames.
        ethernet: bool,
    },
    /// Memory, as a file beside the message.
    AddRegion {
        /// Its number.
        index: u16,
        /// Its size.
        bytes: u64,
    },
    /// A ring in that memory. Beside the message is a bell that we do not ring.
    AddRing {
        /// Whether the client sends by it.
        from_client: bool,
        /// Its number among those of its direction.
        index: u16,
        /// The memory it lies in.
        region: u16,
        /// Its offset in the memory.
        offset: u32,
        /// Its size.
        log2_size: u8,
    },
    /// The setup is complete.
    Connect,
    /// It goes.
    Disconnect {
        /// Why.
        reason: String,
    },
    /// Message that a server does not ask for and ignores.
    Ack,
}

/// The bytes of a message in the order they stand in.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (first, rest) = self.0.split_first_chunk().expect("every message has the bytes of the longest");
        self.0 = rest;
        *first
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }
}

impl FromClient {
    /// Reads a message; `None` for a type that no client sends.
    #[must_use]
    pub fn read(bytes: &[u8; MESSAGE_BYTES]) -> Option<Self> {
        let mut reader = Reader(bytes);
        Some(match reader.u16() {
            ACK => Self::Ack,
            INIT => Self::Init {
                version: reader.u16(),
                interface: reader.u32(),
                ethernet: reader.take::<1>()[0] == MODE_ETHERNET,
            },
            ADD_REGION => Self::AddRegion { index: reader.u16(), bytes: u64::from_ne_bytes(reader.take()) },
            ADD_RING => {
                let from_client = reader.u16() & CLIENT_TO_SERVER != 0;
                let (index, region, offset) = (reader.u16(), reader.u16(), reader.u32());
                Self::AddRing { from_client, index, region, offset, log2_size: reader.take::<1>()[0] }
            }
            CONNECT => Self::Connect,
            DISCONNECT => {
                reader.u32();
                let text: [u8; REASON_BYTES] = reader.take();
                let end = text.iter().position(|&byte| byte == 0).unwrap_or(REASON_BYTES);
                Self::Disconnect { reason: String::from_utf8_lossy(&text[..end]).into_owned() }
            }
            _ => return None,
        })
    }
}

/// Message of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromServer<'a> {
    /// The server's versions and limits.
    Hello {
        /// The largest number of a region.
        region_max: u16,
        /// The largest rings.
        log2_ring_max: u8,
    },
    /// The last message was understood.
    Ack,
    /// Packets may come.
    Connected,
    /// It is over.
    Disconnect(&'a str),
}

impl FromServer<'_> {
    /// Writes a message.
    #[must_use]
    pub fn write(self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = Vec::with_capacity(MESSAGE_BYTES);
        let mut put = |field: &[u8]| bytes.extend_from_slice(field);
        match self {
            Self::Hello { region_max, log2_ring_max } => {
                put(&HELLO.to_ne_bytes());
                put(&text::<NAME_BYTES>("headgate"));
                // The oldest and the newest version; the largest numbers of regions and of rings each way.
                for field in [VERSION, VERSION, region_max, 0, 0] {
                    put(&field.to_ne_bytes());
                }
                put(&[log2_ring_max]);
            }
            Self::Ack => put(&ACK.to_ne_bytes()),
            Self::Connected => {
                put(&CONNECTED.to_ne_bytes());
                put(&text::<NAME_BYTES>("headgate"));
            }
            Self::Disconnect(reason) => {
                put(&DISCONNECT.to_ne_bytes());
                put(&0u32.to_ne_bytes());
                put(&text::<REASON_BYTES>(reason));
            }
        }
        let mut message = [0; MESSAGE_BYTES];
        message[..bytes.len()].copy_from_slice(&bytes);
        message
    }
}

/// A text, cut to what leaves room for the zero that ends it.
fn text<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let length = text.len().min(N - 1);
    field[..length].copy_from_slice(&text.as_bytes()[..length]);
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_read_from_where_the_protocol_has_it() {
        let mut bytes = [0; MESSAGE_BYTES];
        // type, flags, index, region: u16; offset: u32; log2 size: u8
        bytes[..13].copy_from_slice(&[5, 0, 1, 0, 0, 0, 2, 0, 0x80, 0, 1, 0, 10]);
        let ring =
            FromClient::AddRing { from_client: true, index: 0, region: 2, offset: 0x1_0080, log2_size: 10 };
        assert_eq!(FromClient::read(&bytes), Some(ring));
    }

    #[test]
    fn whatever_comes_is_read_or_refused() {
        for kind in 0..=u8::MAX {
            let _ = FromClient::read(&[kind; MESSAGE_BYTES]);
            let mut bytes = [0xff; MESSAGE_BYTES];
            bytes[..2].copy_from_slice(&u16::from(kind).to_ne_bytes());
            assert_eq!(FromClient::read(&bytes).is_some(), matches!(kind, 1 | 3..=6 | 8), "{kind}");
        }
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let message = FromServer::Disconnect(&"x".repeat(200)).write();
        assert_eq!(message[6 + REASON_BYTES - 1], 0);
        assert_eq!(message[6 + REASON_BYTES - 2], b'x');
    }
}
