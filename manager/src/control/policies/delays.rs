//! Gathers samples of delays, and moves flows for those that are long.

use headgate_decide::relief::{Action, InstanceSample, StageSample};
use headgate_decide::spread;
use headgate_decide::units::{ChainId, InstanceId, Span};
use headgate_path::plan::Stage;

use crate::control::Control;
use crate::status::{EventCode, StageDelayStatus};

impl Control {
    /// Takes in the samples of the workers.
    pub(in crate::control) fn tend_delays(&mut self) {
        let now = self.now();
        self.delays.read(now, self.fabric.workers.iter().map(|worker| &worker.board.delays));
    }

    /// Moves flows to faster instances in the chains whose windows are limited for their bounds now.
    pub(in crate::control) fn tend_relief(&mut self) {
        let now = self.now();
        if !self.delays.is_relief_due(now) {
            return;
        }
        let stages = self.held_back();
        for Action::MoveFlows { stage, from, to } in self.delays.relieve(now, &stages) {
            let Some(stage) = self.fabric.parts.stages[stage.index()].as_mut() else { continue };
            if spread::relieve(&mut stage.table, from, to) > 0 {
                self.fabric.publish();
                let [from, to] = [from, to].map(|one| self.instances[one.index()].seat.name.clone());
                let what = format!("is slow for a chain's delay bound: some of its flows move to {to}");
                self.log(EventCode::FlowsMoved, &from, what);
            }
        }
    }

    /// Returns the stages of chains whose windows are limited for their bounds.
    fn held_back(&self) -> Vec<StageSample> {
        let parts = &self.fabric.parts;
        let instance = |&instance: &InstanceId| {
            let worker = self.instances[instance.index()].seat.worker;
            let board = &self.fabric.workers[worker.index()].board;
            let held = board.instances[instance.index()].held.get();
            InstanceSample { instance, held, queueing: self.delays.queueing(instance) }
        };
        let mut all = Vec::new();
        for (number, chain) in parts.chains.iter().enumerate() {
            let Some(chain) = chain else { continue };
            let is_held_back = self.fabric.signals.bounds.window(ChainId(number as u16)).is_some();
            let Some(bound_us) = chain.delay_bound_us.filter(|_| is_held_back) else { continue };
            let bound = Span::from_micros(bound_us.into());
            for &stage in &chain.stages {
                let Some(running) = parts.stages[stage.index()].as_ref().map(|stage| &stage.running) else {
                    continue;
                };
                let instances = running.iter().map(instance).collect();
                all.push(StageSample { stage, bound, instances });
            }
        }
        all
    }

    /// Returns delays in the queue and in the hands of each stage, by number: once for all chains that pass
    /// it.
    pub(in crate::control) fn stage_delays(&self) -> Vec<Option<StageDelayStatus>> {
        let of_stage = |stage: &Option<Stage>| {
            let stage = stage.as_ref()?;
            let (queueing, processing) = self.delays.of_instances(&stage.running);
            Some(StageDelayStatus { stage: stage.name.clone(), queueing, processing })
        };
        self.fabric.parts.stages.iter().map(of_stage).collect()
    }
}
