//! `responder`: an NF that makes packets. Answers ARP requests and ICMP echo requests for one address, back
//! the way they came; everything else goes on. A program of its own: `cargo run --example responder`, with
//! `HEADGATE_SOCKET` and `HEADGATE_NF` set, or as `exec` in a configuration. Its twin in C is
//! `abi/examples/responder.c`.

use std::net::Ipv4Addr;

use headgate_nf::wire::MacAddress;
use headgate_nf::wire::checksum::Change;
use headgate_nf::wire::ethernet::{Frame, ethertype};
use headgate_nf::wire::ip::protocol;
use headgate_nf::wire::ipv4;
use headgate_nf::{Burst, Context, Counter, MakeError, Maker, NetworkFunction, NfError, Packet, Way};

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;
/// Bytes of an ARP frame for IPv4 (RFC 826).
const ARP_BYTES: usize = ETHERNET + 28;
/// The words of an ARP request between the Ethernet addresses and the sender.
const ARP_REQUEST: [u8; 10] = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
/// Answers at a time: most of one burst.
const ANSWERS: u32 = 32;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    address: Ipv4Addr,
    mac: String,
}

/// The network function.
pub struct Responder {
    address: Ipv4Addr,
    mac: MacAddress,
    maker: Maker,
    arp: Counter,
    echo: Counter,
    missed: Counter,
}

/// The kinds of questions that it answers.
enum Question {
    Arp,
    Echo,
}

impl Responder {
    /// Reads the arguments, and asks for buffers.
    pub fn new(context: &mut Context) -> Result<Self, NfError> {
        let Arguments { address, mac } = context.arguments()?;
        Ok(Self {
            address,
            mac: mac.parse()?,
            maker: context.maker(ANSWERS)?,
            arp: context.counter("arp")?,
            echo: context.counter("echo")?,
            missed: context.counter("missed")?,
        })
    }

    fn question(&self, frame: &[u8]) -> Option<Question> {
        let is_arp = frame.get(12..22) == Some(&ARP_REQUEST) && frame.len() >= ARP_BYTES;
        if is_arp && frame[38..42] == self.address.octets() {
            return Some(Question::Arp);
        }
        let outer = Frame::new(frame).ok().filter(|outer| outer.ethertype() == ethertype::IPV4)?;
        let packet = ipv4::Packet::new(outer.payload()).ok()?;
        let is_whole = !packet.fragment().is_fragment() && packet.protocol() == protocol::ICMPV4;
        let is_echo = packet.payload().len() >= 8 && packet.payload()[0] == 8;
        (is_whole && is_echo && packet.destination() == self.address).then_some(Question::Echo)
    }

    fn answer(&self, packet: &Packet<'_>, question: &Question) -> Result<(), MakeError> {
        let asked = packet.data();
        let length = if matches!(question, Question::Arp) { ARP_BYTES } else { asked.len() };
        // Back the way it came, and counted in the chain of the question.
        self.maker.after(packet, Way::Port(packet.ingress()), length, |frame| {
            frame.copy_from_slice(&asked[..length]);
            match question {
                Question::Arp => self.reply_to_arp(asked, frame),
                Question::Echo => reply_to_echo(frame),
            }
            frame[..6].copy_from_slice(&asked[6..12]);
            frame[6..12].copy_from_slice(&self.mac.0);
        })
    }

    fn reply_to_arp(&self, asked: &[u8], frame: &mut [u8]) {
        frame[21] = 2;
        frame[22..28].copy_from_slice(&self.mac.0);
        frame[28..32].copy_from_slice(&self.address.octets());
        frame[32..42].copy_from_slice(&asked[22..32]);
    }
}

fn reply_to_echo(frame: &mut [u8]) {
    // Whether this is a packet was checked where the question was.
    let Ok(mut packet) = ipv4::Packet::new(&mut frame[ETHERNET..]) else { return };
    let (source, destination) = (packet.source(), packet.destination());
    // Swapped, both sums that cover them stay.
    let _ = packet.set_source(destination);
    let _ = packet.set_destination(source);
    let message = packet.payload_mut();
    message[0] = 0;
    let sum = u16::from_be_bytes([message[2], message[3]]);
    let sum = Change::new().word(8 << 8, 0).apply(sum);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}

impl NetworkFunction for Responder {
    fn process(&mut self, burst: &mut Burst, _: &mut Context) {
        for mut packet in burst.packets() {
            let Some(question) = self.question(packet.data()) else { continue };
            let counter = match (self.answer(&packet, &question), &question) {
                (Err(_), _) => &self.missed,
                (Ok(()), Question::Arp) => &self.arp,
                (Ok(()), Question::Echo) => &self.echo,
            };
            counter.add(1);
            packet.discard();
        }
    }
}

/// The whole program.
pub fn main() -> std::process::ExitCode {
    headgate_nf::run(Responder::new)
}
