//! Tells the NFs of a process what became of their requests, between two bursts.

use std::cell::RefCell;

use super::requests::{Event, Requests};
use super::{LogId, ReadDone};
use crate::burst::Burst;
use crate::fuse::Fused;

/// Tells everything there is to tell. Packets that were held come back through `give_back`, in their order
/// and a burst at a time. No borrow of the requests is kept while an NF is at work: it may ask for more.
pub fn tell<E>(
    requests: &RefCell<Requests>,
    nfs: &mut Fused,
    burst: &mut Burst,
    mut give_back: impl FnMut(&mut Burst) -> Result<(), E>,
) -> Result<(), E> {
    loop {
        let event = requests.borrow_mut().next_event();
        match event {
            None => return Ok(()),
            Some(Event::Written { owner, log, done }) => nfs.written(owner, LogId(log), &done),
            Some(Event::Read { owner, word, result, buffer }) => {
                let bytes = result.as_ref().map(|bytes| &buffer[..*bytes]);
                let done = ReadDone { word, result: bytes };
                nfs.read(owner, &done);
                let line = requests.borrow_mut().end_read(owner, word);
                if let Some(mut line) = line {
                    while requests.borrow_mut().release(&mut line, burst) {
                        nfs.resume(owner, burst, &done);
                        requests.borrow_mut().absorb(burst);
                        give_back(burst)?;
                    }
                }
                requests.borrow_mut().recycle(buffer);
            }
        }
    }
}
