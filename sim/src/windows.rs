//! What a worker does for delay bounds: it judges windows, keeps out what they do not let in, and watches how
//! long packets wait for instances.

use headgate_decide::bound::{self, ChainObservation};
use headgate_decide::decision::Decision as _;
use headgate_decide::relief::{Action, InstanceSample, StageSample};
use headgate_decide::units::{InstanceId, Instant, NfId, Span, Ticks};

use crate::histogram::bucket_of;
use crate::plant::{Plant, Way};
use crate::ring::{Run, cut};
use crate::sender::Fate;

/// Age at which a sample of a queue is given up: its packet ended with the NF's process.
const GIVEN_UP: Span = Span::from_secs(1);

/// Judges the windows that are due, and relieves instances.
pub(crate) fn judge(now: Instant, plant: &mut Plant) {
    if plant.bounds.chains.is_empty() {
        return;
    }
    let Plant { bounds, chains, .. } = plant;
    for (bounded, chain) in bounds.chains.iter_mut().zip(chains.iter()) {
        let Some(bounded) = bounded else { continue };
        let observed = ChainObservation { longest: bounded.longest, left: chain.left, shed: chain.late };
        let next = bounded.limit.step(Ticks(now.0), &observed, &bounded.marks);
        if next != bounded.limit {
            (bounded.limit, bounded.longest) = (next, Ticks(0));
        }
    }
    if plant.bounds.relief.is_due(now) {
        relieve(now, plant);
    }
}

/// Moves flows to faster instances in the chains whose windows are limited now.
fn relieve(now: Instant, plant: &mut Plant) {
    let (mut stages, mut actions) = (Vec::new(), Vec::new());
    for (number, chain) in plant.chains.iter().enumerate() {
        let Some(Some(bounded)) = plant.bounds.chains.get(number) else { continue };
        if bounded.limit.window().is_none() {
            continue;
        }
        for &nf in &chain.stages {
            let sample = |&instance: &usize| InstanceSample {
                instance: InstanceId(instance as u16),
                held: plant.links[instance].held.into(),
                queueing: plant.bounds.median(instance),
            };
            let instances = plant.stages[nf].running.iter().map(sample).collect();
            stages.push(StageSample { stage: NfId(nf as u16), bound: bounded.bound, instances });
        }
    }
    plant.bounds.relief.poll(now, stages.as_slice(), &mut actions);
    for Action::MoveFlows { stage, from, to } in actions {
        plant.relieve(stage.index(), from, to);
    }
}

/// Watches how long packets wait for an instance.
pub(crate) fn sample(now: Instant, instance: usize, plant: &mut Plant) {
    let Some(queueing) = plant.bounds.queueing.get_mut(instance) else { return };
    let nf = &plant.nfs[instance];
    match queueing.watched {
        None if nf.receive.is_empty() => {}
        None => {
            let last = nf.counts.taken + u64::from(nf.receive.packets());
            queueing.watched = Some((last, now));
        }
        Some((last, since)) if nf.counts.taken >= last => {
            queueing.recent.on_sample(now, bucket_of((now - since).0), 1);
            queueing.watched = None;
        }
        Some((_, since)) if now - since > GIVEN_UP => queueing.watched = None,
        Some(_) => {}
    }
}

/// Returns the packets of a run, counted into their chain already, that its window lets in, and the others.
pub(crate) fn limit(plant: &Plant, run: Run) -> (Option<Run>, Option<Run>) {
    let number = plant.flows[usize::from(run.flow)].chain;
    let Some(window) = plant.bounds.window(number) else { return (Some(run), None) };
    let chain = &plant.chains[number];
    let inside = (chain.entered - chain.gone()).saturating_sub(run.packets.into());
    let room = bound::room(window, inside, run.packets as usize) as u32;
    if room < run.packets && plant.hops(number, 0).any(|hop| hop.spreads) {
        return match has_short_queues(plant, run.flow, window) {
            true => (Some(run), None),
            false => (None, Some(run)),
        };
    }
    cut(run, room)
}

/// Returns whether each instance that a flow is spread to holds less than its even part of the window.
fn has_short_queues(plant: &Plant, flow: u16, window: u32) -> bool {
    let chain = &plant.chains[plant.flows[usize::from(flow)].chain];
    (chain.from..).zip(&chain.stages).all(|(position, nf)| {
        let running = plant.stages[*nf].running.len();
        let Way::Instance(instance) = plant.way(flow, position as u8) else { return true };
        let held = u64::from(plant.links[instance].depth());
        running < 2 || bound::is_below_its_part(held, window, running)
    })
}

/// Packets end that a window keeps out: as arrivals at the first NF, where it has one instance.
pub(crate) fn keep_out(plant: &mut Plant, run: &Run) {
    plant.tell_sender(run, Fate::Lost);
    let chain = &mut plant.chains[plant.flows[usize::from(run.flow)].chain];
    chain.late += u64::from(run.packets);
    if let Some(nf) = chain.stages.first()
        && let [instance] = plant.stages[*nf].instances.as_slice()
    {
        plant.links[*instance].counts.late += u64::from(run.packets);
    }
}
