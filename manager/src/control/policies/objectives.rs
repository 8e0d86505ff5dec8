//! Gathers the counts that objectives need, and reports their events.

use headgate_decide::objectives::{ChainSample, CoreSample, FloorSample, Sample};
use headgate_decide::units::{ChainId, CoreId, Rate};
use headgate_path::drop::DropReason;

use crate::config::model::NfId;
use crate::control::Control;
use crate::control::instance::Instance;
use crate::control::objectives::Told;

impl Control {
    /// Counts the service of chains with a rate floor, and reports when a floor is missed or kept again.
    pub(in crate::control) fn tend_objectives(&mut self) {
        let now = self.now();
        if !self.objectives.is_due(now) {
            return;
        }
        let sample = Sample { chains: self.floor_counts(), cores: self.floors_of_cores() };
        let parts = &self.fabric.parts;
        let name = |chain: ChainId| {
            let chain = parts.chains.get(chain.index()).and_then(Option::as_ref);
            chain.map_or_else(String::new, |chain| chain.name.clone())
        };
        for Told { code, who, what } in self.objectives.poll(now, &sample, name) {
            self.log(code, &who, what);
        }
    }

    /// Returns the counts of chains with rate floors.
    fn floor_counts(&self) -> Vec<ChainSample> {
        let mut all = Vec::new();
        for chain in &self.config.chains {
            let (Some(floor), Some(&number)) = (chain.rate_floor, self.numbers.chains.get(&chain.name))
            else {
                continue;
            };
            let number = ChainId(number);
            let boards = || self.fabric.workers.iter().map(|worker| &worker.board);
            let ring = |stage: &NfId| self.config.nfs[stage.index()].ring;
            all.push(ChainSample {
                chain: number,
                floor: Rate(floor as f64),
                ring: chain.stages.iter().map(ring).max().unwrap_or(0),
                left: boards().map(|board| board.chains[number.index()].left.get()).sum(),
                ended: boards().map(|board| board.dropped_all(number)).sum(),
                refused: boards().map(|board| board.dropped(number, DropReason::NfVerdict)).sum(),
            });
        }
        all
    }

    /// Returns the rate floors of each core whose NFs may have time slices.
    fn floors_of_cores(&self) -> Vec<CoreSample> {
        let mut cores: Vec<u32> = self.instances.iter().map(|instance| instance.seat.core).collect();
        cores.sort_unstable();
        cores.dedup();
        let sample = |core: u32| CoreSample { core: CoreId(core as u16), floors: self.floors_of(core) };
        cores.into_iter().map(sample).collect()
    }

    fn floors_of(&self, core: u32) -> Vec<FloorSample> {
        let mut all = Vec::new();
        for chain in &self.config.chains {
            let (Some(floor), Some(&number)) = (chain.rate_floor, self.numbers.chains.get(&chain.name))
            else {
                continue;
            };
            for nf in chain.stages.iter().map(|stage| &self.config.nfs[stage.index()]) {
                let here = |one: &&Instance| {
                    let seat = &one.seat;
                    let is_here = seat.nf.name == nf.name && seat.core == core && !one.is_gone();
                    is_here && self.slices.gives(&seat.nf, core)
                };
                all.extend(self.instances.iter().filter(here).map(|one| FloorSample {
                    chain: ChainId(number),
                    floor: Rate(floor as f64 / nf.cores.len() as f64),
                    cost_ns: self.slices.figures(one.seat.number).cost_ns.unwrap_or(0.0),
                }));
            }
        }
        all
    }
}
