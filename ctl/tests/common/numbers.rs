//! Numbered packets between two hosts: what is lost, doubled or out of order shows in the numbers.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use headgate_host::namespace::{Endpoint, Namespaces};

/// Where packets with numbers go.
const PORT: u16 = 7000;
/// Time between two of them: some wait in the kernel while nobody takes them.
const PAUSE: Duration = Duration::from_micros(200);
/// The most that are under way at once: sockets and rings have room for so many, however busy the machine is.
const UNDER_WAY_MAX: u64 = 100;
/// Times that a socket waits in vain, after the end, before no number is expected any more.
const QUIET: u32 = 10;

/// Waits until something holds, or fails with a description of it.
pub type Eventually<'a> = &'a dyn Fn(&str, &mut dyn FnMut() -> bool);

/// Numbers on their way from one host to the other.
pub struct Numbers<'a> {
    eventually: Eventually<'a>,
    sender: UdpSocket,
    to: Ipv4Addr,
    receiver: UdpSocket,
    stop: AtomicBool,
    received: AtomicU64,
}

fn socket(host: &Endpoint, port: u16) -> UdpSocket {
    let socket = host.namespace.run(|| UdpSocket::bind(("0.0.0.0", port)).unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    socket
}

fn address_of(host: &Endpoint) -> Ipv4Addr {
    let first = host.addresses.iter().find_map(|address| match address {
        IpAddr::V4(address) => Some(*address),
        IpAddr::V6(_) => None,
    });
    first.expect("a host has an address")
}

impl<'a> Numbers<'a> {
    /// Opens a socket on each host, and says something until it arrives, so that both know each other: from
    /// the left host to the right one.
    pub fn between(hosts: &Namespaces, eventually: Eventually<'a>) -> Self {
        Self::from_to([&hosts.left, &hosts.right], eventually)
    }

    /// The same from one host to another.
    pub fn from_to([from, to]: [&Endpoint; 2], eventually: Eventually<'a>) -> Self {
        let (sender, receiver, to) = (socket(from, PORT + 1), socket(to, PORT), address_of(to));
        let mut buffer = [0; 16];
        eventually("the hosts hear each other", &mut || {
            // Until the neighbour is known it may be refused.
            let _ = sender.send_to(b"hello", (to, PORT));
            receiver.recv(&mut buffer).is_ok()
        });
        while receiver.recv(&mut buffer).is_ok() {}
        Self { eventually, sender, to, receiver, stop: AtomicBool::new(false), received: AtomicU64::new(0) }
    }

    /// Sends numbers while something is done. Returns how many were sent, and those that arrived.
    pub fn while_doing(&self, work: impl FnOnce()) -> (u64, Vec<u64>) {
        thread::scope(|scope| {
            let Self { sender, to, receiver, stop, received, .. } = self;
            let sending = scope.spawn(|| send((sender, *to), stop, received));
            let receiving = scope.spawn(|| receive(receiver, stop, received));
            let ends = Ends(stop);
            work();
            drop(ends);
            (sending.join().unwrap(), receiving.join().unwrap())
        })
    }

    /// Waits until so many more have arrived, which they do not behind some that are lost.
    pub fn flow(&self, what: &str) {
        let from = self.received.load(Ordering::Relaxed);
        let arrive = &mut || self.received.load(Ordering::Relaxed) > from + 4 * UNDER_WAY_MAX;
        (self.eventually)(&format!("packets arrive: {what}"), arrive);
    }
}

/// Sends numbers until it is stopped, never more than sockets and rings hold while nobody takes any.
fn send((socket, to): (&UdpSocket, Ipv4Addr), stop: &AtomicBool, received: &AtomicU64) -> u64 {
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        if number - received.load(Ordering::Relaxed) < UNDER_WAY_MAX {
            socket.send_to(&number.to_be_bytes(), (to, PORT)).unwrap();
            number += 1;
        }
        thread::sleep(PAUSE);
    }
    number
}

/// Receives numbers until none has come for a while after the end.
fn receive(socket: &UdpSocket, stop: &AtomicBool, received: &AtomicU64) -> Vec<u64> {
    let (mut numbers, mut buffer, mut quiet) = (Vec::new(), [0; 8], 0);
    loop {
        match socket.recv(&mut buffer) {
            Ok(8) => {
                quiet = 0;
                numbers.push(u64::from_be_bytes(buffer));
                received.store(numbers.len() as u64, Ordering::Relaxed);
            }
            Ok(_) => {}
            Err(_) if stop.load(Ordering::Relaxed) && quiet > QUIET => return numbers,
            Err(_) => quiet += 1,
        }
    }
}

/// Ends both threads, also where the test fails, which would wait for them.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
