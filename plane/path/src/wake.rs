//! Wake: calls NFs that sleep while packets wait for them, and sets which of them yield. The choices are
//! `decide::wake`; this gathers their input, and calls.

use headgate_decide::wake::Cores;
use headgate_shm::doorbell;

use crate::board::Board;
use crate::instance::Instance;
use crate::view::View;

/// Samples every instance that may sleep, calls those that are worth it, and sets which yield.
#[inline]
pub(crate) fn wake(instances: &mut [Instance], view: &View, board: &Board) {
    doorbell::published();
    let mut cores = Cores::default();
    let mut sleepers = false;
    for instance in &mut *instances {
        sleepers |= instance.link.note_core(&mut cores);
    }
    if sleepers {
        for instance in &mut *instances {
            let counts = &board.instances[instance.number.index()];
            instance.link.consider_call(view, counts, &mut cores);
        }
    }
    for instance in instances {
        instance.link.arrange_yield(view, &cores);
    }
}
