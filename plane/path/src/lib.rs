//! The packet path: the stations a packet passes, one file each, in this order.
//!
//! 1. [`arrive`]: a port's queue hands over a burst;
//! 2. [`classify`]: headers -> flow -> chain; beside it [`decap`]: service header -> chain, position;
//! 3. [`admit`]: a doomed packet ends here, before any work is spent on it;
//! 4. [`deliver`]: to the instance of the next stage, by its [`link`];
//! 5. [`hop`]: what the instance returned, and where it goes next;
//! 6. [`commit`]: where output waits that may not be seen outside yet;
//! 7. [`emit`]: out of a port, maybe through a [`tunnel`], with a service header by [`encap`];
//! 8. [`mod@drop`]: every other way to end, with its reason.
//!
//! A [`worker`] composes them: [`intake`] has the state of 1 to 3, [`stages`] of 4 and 5, [`exits`] of 6 and
//! 7, [`ports`] the queues that 1 and 7 share, [`ledger`] buffers and counters, in which every station may
//! end a packet. A [`burst`] travels from one to the next as one value; state that all of them see and none
//! may change is a [`view`].
//!
//! Beside the way: [`plan`] is the arrangement that workers follow, [`route`] asks it, [`holders`] records
//! who holds each buffer, [`flows`] and [`rules`] answer classification, [`mesh`] joins workers, [`signals`]
//! has the words they share, [`wake`] calls sleeping NFs, [`pressure`] closes chains whose NFs cannot keep
//! up, [`bound`] those whose packets take too long, [`divert`] remembers which flows leave out stages,
//! [`mark`] marks packets before that, [`delay`] and [`probe`] measure how long packets take, [`trace`]
//! watches them, [`audit`] proves that nothing is lost.
#![forbid(unsafe_code)]

pub mod admit;
pub mod arrive;
pub mod audit;
pub mod board;
pub mod bound;
pub mod burst;
pub mod classify;
pub mod commit;
pub mod decap;
pub mod delay;
pub mod deliver;
pub mod divert;
pub mod drop;
pub mod emit;
pub mod encap;
mod event;
pub mod exits;
pub mod flows;
pub mod holders;
pub mod hop;
mod instance;
pub mod intake;
pub mod ledger;
pub mod link;
pub mod mark;
pub mod mesh;
pub mod plan;
pub mod ports;
pub mod pressure;
pub mod probe;
pub mod replica;
pub mod resident;
pub mod route;
pub mod rules;
pub mod signals;
pub mod stages;
mod sync;
pub mod totals;
pub mod trace;
pub mod tunnel;
pub mod view;
pub mod wake;
pub mod worker;

/// Most packets handled together. Our choice after `headgate bench hop`: costs that are paid once a burst,
/// above all the indices of rings that the NFs' cores write, are 4 ns a packet with 64 and 2 with 128; the
/// tables of one more doubling no longer fit the first cache.
pub const BURST: usize = 128;
/// Most bursts drained from one instance or ring in one pass. Our choice: enough to catch up with an NF that
/// ran a whole slice, short enough that ports wait for no more than some microseconds.
pub(crate) const DRAIN_BURSTS: usize = 4;
