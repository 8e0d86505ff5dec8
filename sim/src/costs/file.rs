//! Cost files: a line for each cost, `name = whole number`, with the measurement it comes from as a comment.

use std::fmt::Write as _;

use super::Costs;

/// The names of all costs, in the order of the file.
pub const NAMES: [&str; 22] = [
    "cycles_per_micro",
    "worker_enter_ps",
    "worker_shed_ps",
    "worker_hop_ps",
    "worker_leave_ps",
    "worker_pass_ns",
    "nf_packet_ps",
    "nf_burst_ns",
    "switch_ns",
    "refill_ns",
    "refill_after_ns",
    "yield_ns",
    "call_awake_ns",
    "call_idle_ns",
    "wake_idle_ns",
    "slice_switch_ns",
    "start_ns",
    "tick",
    "tick_least_ns",
    "tick_most_ns",
    "base_slice",
    "round_robin",
];
/// Longest file that is read, in lines. Our choice: each cost once, and a page of words.
const LINES_MAX: usize = 1_000;

impl Costs {
    /// Returns a cost by its name: nanoseconds, picoseconds where the name ends so, and cycles.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.clone().cost(name).copied()
    }

    /// Reads a cost file over these costs, which hold where it says nothing.
    ///
    /// # Errors
    /// Everything that is wrong with it, each a sentence with its line and what to do.
    pub fn read(&self, text: &str) -> Result<Self, Vec<String>> {
        let (mut costs, mut mistakes, mut seen) = (self.clone(), Vec::new(), Vec::new());
        for (number, line) in text.lines().enumerate().take(LINES_MAX + 1) {
            if number == LINES_MAX {
                mistakes.push(format!("there are more than {LINES_MAX} lines: this is no cost file"));
            }
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Err(what) = costs.take(line, &mut seen) {
                mistakes.push(format!("line {}: {what}", number + 1));
            }
        }
        if mistakes.is_empty() { Ok(costs) } else { Err(mistakes) }
    }

    fn take(&mut self, line: &str, seen: &mut Vec<String>) -> Result<(), String> {
        let (name, value) =
            line.split_once('=').ok_or("write a name and a whole number, as in `switch_ns = 2000`")?;
        let (name, value) = (name.trim(), value.trim());
        let cost = self
            .cost(name)
            .ok_or_else(|| format!("there is no cost `{name}`: there are {}", NAMES.join(", ")))?;
        *cost = value
            .replace('_', "")
            .parse()
            .map_err(|_| format!("`{value}` of {name} is no whole number from 0 on"))?;
        if seen.iter().any(|known| known == name) {
            return Err(format!("{name} stands there twice: leave one out"));
        }
        seen.push(name.to_owned());
        Ok(())
    }

    /// Returns a cost file of these costs. `source` says where each comes from.
    #[must_use]
    pub fn write(&self, heading: &str, source: impl Fn(&str) -> String) -> String {
        let mut text: String = heading.lines().map(|line| format!("# {line}\n")).collect();
        for name in NAMES {
            let value = self.get(name).unwrap_or_default();
            let _ = writeln!(text, "{:28} # {}", format!("{name} = {value}"), source(name));
        }
        text
    }

    fn cost(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "cycles_per_micro" => &mut self.cycles_per_micro,
            "worker_enter_ps" => &mut self.worker_enter_ps,
            "worker_shed_ps" => &mut self.worker_shed_ps,
            "worker_hop_ps" => &mut self.worker_hop_ps,
            "worker_leave_ps" => &mut self.worker_leave_ps,
            "worker_pass_ns" => &mut self.worker_pass_ns,
            "nf_packet_ps" => &mut self.nf_packet_ps,
            "nf_burst_ns" => &mut self.nf_burst_ns,
            "switch_ns" => &mut self.switch_ns,
            "refill_ns" => &mut self.refill_ns,
            "refill_after_ns" => &mut self.refill_after_ns,
            "yield_ns" => &mut self.yield_ns,
            "call_awake_ns" => &mut self.call_awake_ns,
            "call_idle_ns" => &mut self.call_idle_ns,
            "wake_idle_ns" => &mut self.wake_idle_ns,
            "slice_switch_ns" => &mut self.slice_switch_ns,
            "start_ns" => &mut self.start_ns,
            "tick" => &mut self.tick.0,
            "tick_least_ns" => &mut self.tick_least_ns,
            "tick_most_ns" => &mut self.tick_most_ns,
            "base_slice" => &mut self.base_slice.0,
            "round_robin" => &mut self.round_robin.0,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut costs = Costs::default();
        for (number, name) in NAMES.into_iter().enumerate() {
            *costs.cost(name).expect("it is one") = 1_000 + number as u64;
        }
        let text = costs.write("This machine\non a day", |name| format!("{name}: measured"));
        assert!(
            text.starts_with("# This machine\n# on a day\ncycles_per_micro = 1000      # cycles"),
            "{text}"
        );
        assert_eq!(Costs::default().read(&text), Ok(costs));
    }

    #[test]
    fn every_mistake_is_told_with_its_line() {
        let text = "# mine\nswitch_ns = 5_000\nswich_ns = 1\nyield_ns\ntick = -4 # ?\nswitch_ns = 9\n";
        let found = Costs::default().read(text).expect_err("it is wrong");
        let wanted = [
            "line 3: there is no cost `swich_ns`: there are",
            "line 4: write a name",
            "line 5: `-4` of tick",
            "line 6: switch_ns stands there twice",
        ];
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        assert!(found.iter().zip(wanted).all(|(found, wanted)| found.starts_with(wanted)), "{found:?}");
        assert!(Costs::default().read(&"\n".repeat(2_000)).is_err());
        let read = Costs::default().read("switch_ns = 5_000 # mine").expect("right");
        assert_eq!((read.switch_ns, read.yield_ns), (5_000, Costs::default().yield_ns));
    }
}
