//! Burst: packets of one region that pass stations together, and the stations' working arrays for them.
//!
//! A worker keeps one and hands it from station to station, because arrays made anew for each burst would be
//! zeroed for each: some 3 ns a packet.

use headgate_shm::Descriptor;
use headgate_units::RegionId;

use crate::BURST;
use crate::flows::Home;
use crate::holders::Place;
use crate::plan::PackedHop;

/// Most groups that are gathered of one burst: each costs a pass over all packets that are left. Our choice:
/// an NF with four instances, or four ways out.
const GROUPS_MAX: usize = 4;

/// Packets on their way, and the arrays that stations need for them.
#[derive(Clone)]
pub(crate) struct Burst {
    /// The region that all of them lie in.
    pub region: RegionId,
    /// Number of packets, which are at the front of the arrays.
    pub count: usize,
    pub packets: [Descriptor; BURST],
    pub places: [Place; BURST],
    /// Place in common of packets that arrived: the port and queue they came by.
    pub from: Place,
    /// Their next hop.
    pub next: Next,
    /// Whether all of them are at one place: they go on the same way, unless flows or verdicts part them.
    pub is_one_way: bool,
    /// Next hop of each packet, when it is [`Next::Each`].
    pub hops: [PackedHop; BURST],
    /// Number of groups of packets with one next hop that were gathered.
    groups: usize,
    /// Packets that wait while others are gathered.
    later: Later,
    /// Keys that `classify` reads, and the homes of their flows.
    pub keys: [u128; BURST],
    pub homes: [Home; BURST],
}

/// Next hop of the packets of a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// The plan was not asked yet.
    Unknown,
    /// All packets have this one.
    Same(PackedHop),
    /// Each packet has its own: [`Burst::hops`].
    Each,
}

/// Packets put aside, with their places and next hops.
#[derive(Clone)]
struct Later {
    packets: [Descriptor; BURST],
    places: [Place; BURST],
    hops: [PackedHop; BURST],
}

impl Default for Later {
    fn default() -> Self {
        Self {
            packets: [Descriptor::default(); BURST],
            places: [Place::default(); BURST],
            hops: [PackedHop::default(); BURST],
        }
    }
}

/// Test whether words are all equal, without a branch for each.
pub(crate) struct Agreement {
    all: u64,
    any: u64,
}

impl Default for Agreement {
    fn default() -> Self {
        Self { all: u64::MAX, any: 0 }
    }
}

impl Agreement {
    /// Adds a word.
    #[inline(always)]
    pub const fn add(&mut self, word: u64) {
        self.all &= word;
        self.any |= word;
    }

    /// Returns whether all words are equal.
    #[inline(always)]
    pub const fn is_one(&self) -> bool {
        self.all == self.any
    }
}

impl Next {
    /// Returns the next hop of all packets when each one's is known; `first` is one of them.
    #[inline(always)]
    pub const fn agreed(hops: &Agreement, first: PackedHop) -> Self {
        if hops.is_one() { Self::Same(first) } else { Self::Each }
    }

    /// Returns whether the plan is to be asked.
    #[inline(always)]
    pub const fn is_unknown(self) -> bool {
        matches!(self, Self::Unknown)
    }
}

impl Default for Burst {
    fn default() -> Self {
        Self {
            region: RegionId(0),
            count: 0,
            packets: [Descriptor::default(); BURST],
            places: [Place::default(); BURST],
            from: Place::default(),
            next: Next::Unknown,
            is_one_way: false,
            hops: [PackedHop::default(); BURST],
            groups: 0,
            later: Later::default(),
            keys: [0; BURST],
            homes: [Home::default(); BURST],
        }
    }
}

impl Burst {
    /// Begins a burst with packets that were just written to its front.
    #[inline(always)]
    pub const fn begin(&mut self, region: RegionId, count: usize) {
        self.region = region;
        self.count = count;
        self.next = Next::Unknown;
        self.is_one_way = false;
        self.groups = 0;
    }

    /// Returns packets from `start` on that go to one next hop, and that hop. Where hops alternate from
    /// packet to packet, those with the hop of the first one are gathered in front of the others, each group
    /// in its order.
    #[inline(always)]
    pub fn run_from(&mut self, start: usize) -> (PackedHop, Run<'_>) {
        let (hop, end) = match self.next {
            Next::Same(hop) => (hop, self.count),
            Next::Each | Next::Unknown => (self.hops[start], self.gather(start)),
        };
        let (packets, places) = (&mut self.packets[start..end], &mut self.places[start..end]);
        (hop, Run { region: self.region, is_one_way: self.is_one_way, packets, places })
    }

    /// Returns the end of the packets that go where the one at `start` goes.
    fn gather(&mut self, start: usize) -> usize {
        debug_assert!(!self.next.is_unknown(), "the plan was not asked");
        let hop = self.hops[start];
        if self.groups >= GROUPS_MAX {
            let others = self.hops[start..self.count].iter();
            return start + others.take_while(|&&other| other == hop).count();
        }
        self.groups += 1;
        let (mut end, mut later) = (start, 0);
        // Each packet is written to both places and counted in one: a branch here would be predicted wrong.
        for at in start..self.count.min(BURST) {
            let (packet, place, next) = (self.packets[at], self.places[at], self.hops[at]);
            (self.packets[end], self.places[end]) = (packet, place);
            self.later.packets[later] = packet;
            self.later.places[later] = place;
            self.later.hops[later] = next;
            end += usize::from(next == hop);
            later += usize::from(next != hop);
        }
        self.packets[end..end + later].copy_from_slice(&self.later.packets[..later]);
        self.places[end..end + later].copy_from_slice(&self.later.places[..later]);
        self.hops[end..end + later].copy_from_slice(&self.later.hops[..later]);
        end
    }

    /// Puts a packet aside as the one with this number of those.
    pub fn put_aside(&mut self, number: usize, packet: Descriptor, place: Place) {
        (self.later.packets[number], self.later.places[number]) = (packet, place);
    }

    /// Appends so many packets that were put aside. There is room: they were of this burst.
    pub fn append(&mut self, count: usize) {
        let end = self.count + count;
        self.packets[self.count..end].copy_from_slice(&self.later.packets[..count]);
        self.places[self.count..end].copy_from_slice(&self.later.places[..count]);
        self.count = end;
        self.see_places();
    }

    /// Sees whether all packets are at one place.
    #[inline(always)]
    pub fn see_places(&mut self) {
        let mut places = Agreement::default();
        self.places[..self.count].iter().for_each(|place| places.add(place.bits()));
        self.is_one_way = places.is_one();
    }

    /// Returns all packets.
    #[inline(always)]
    pub fn all(&mut self) -> Run<'_> {
        let (packets, places) = (&mut self.packets[..self.count], &mut self.places[..self.count]);
        Run { region: self.region, is_one_way: self.is_one_way, packets, places }
    }
}

/// Consecutive packets of a burst.
pub(crate) struct Run<'a> {
    pub region: RegionId,
    /// Whether all of them are at one place, so that what holds of one chain is asked once.
    pub is_one_way: bool,
    pub packets: &'a mut [Descriptor],
    pub places: &'a mut [Place],
}

impl<'a> Run<'a> {
    /// Returns how many there are.
    #[inline(always)]
    pub const fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns whether there is none.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Cuts the run in two, before the packet with this number.
    #[inline(always)]
    pub fn split_at(self, at: usize) -> (Run<'a>, Run<'a>) {
        let (packets, more_packets) = self.packets.split_at_mut(at);
        let (places, more_places) = self.places.split_at_mut(at);
        let Run { region, is_one_way, .. } = self;
        let more = Run { region, is_one_way, packets: more_packets, places: more_places };
        (Run { region, is_one_way, packets, places }, more)
    }

    /// Cuts off the packets beyond this many.
    #[inline(always)]
    pub fn split_at_most(self, most: usize) -> (Run<'a>, Run<'a>) {
        let at = self.len().min(most);
        self.split_at(at)
    }

    /// Returns its packets with their places.
    #[inline(always)]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Descriptor, Place)> + '_ {
        self.packets.iter().copied().zip(self.places.iter().copied())
    }
}
