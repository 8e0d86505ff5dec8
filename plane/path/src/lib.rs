//! The packet path: the stations a packet passes, one file each, in this order.
//!
//! 1. [`arrive`]: a port's queue hands over a burst;
//! 2. [`classify`]: headers -> flow -> chain;
//! 3. [`admit`]: a doomed packet ends here, before any work is spent on it;
//! 4. [`deliver`]: into the receive ring of the next stage's instance;
//! 5. [`hop`]: out of an NF's transmit ring, checked, and on to the next stage;
//! 6. [`emit`]: out of a port;
//! 7. [`drop`]: every other way to end, with its reason.
//!
//! A stage that is a black box is [`given`](black_box) packets by an interface, in place of 4, and what it sends
//! goes on from there, in place of 5.
//!
//! Beside the way: [`worker`] makes the turns, [`plan`] is what it works by, [`holders`] knows who holds
//! each buffer, [`flows`] and [`rules`] answer classification, [`links`] join workers, [`wake`] calls
//! sleeping NFs, [`pressure`] closes chains whose NFs cannot keep up, [`bound`] those whose packets take too long,
//! [`divert`] knows which flows leave out stages,
//! [`mark`] tells senders before that, [`delay`] measures how long packets take, [`reclaim`] takes back from the dead, [`audit`] proves that nothing is lost.
#![forbid(unsafe_code)]

pub mod admit;
pub mod arrive;
pub mod audit;
pub mod black_box;
pub mod board;
pub mod bound;
pub mod classify;
pub mod delay;
pub mod deliver;
pub mod divert;
pub mod drop;
pub mod emit;
pub mod flows;
pub mod holders;
pub mod hop;
pub mod instance;
pub mod links;
pub mod mark;
pub mod plan;
pub mod pressure;
pub mod reclaim;
pub mod rules;
mod sync;
pub mod wake;
pub mod worker;

/// Packets handled together. Our choice after `headgate bench hop`: what is paid once a burst, above all the
/// indices of rings that the NFs' cores write, costs 4 ns a packet with 64 and 2 with 128; the tables of one
/// more doubling no longer fit the first cache.
pub const BURST: usize = 128;
