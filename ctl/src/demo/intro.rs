//! Drawing of the demo's chains, and what will happen, for somebody who sees it for the first time.

use headgate_api::status::{ChainStatus, Snapshot};

use super::scene::{BACKGROUND_CHAIN, MAIN_CHAIN, VICTIM};
use crate::output::{Ink, Paint};

/// Lines and corners of boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pen {
    corners: [char; 4],
    across: &'static str,
    down: char,
    arrow: &'static str,
}

impl Pen {
    const UNICODE: Self =
        Self { corners: ['┌', '┐', '└', '┘'], across: "─", down: '│', arrow: "──>" };
    const ASCII: Self = Self { corners: ['+'; 4], across: "-", down: '|', arrow: "-->" };

    /// The pen that the characters of this locale allow (locale(7): the first of these that is set).
    pub fn of_locale() -> Self {
        let variables = ["LC_ALL", "LC_CTYPE", "LANG"];
        let set =
            variables.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        let charset = set.unwrap_or_default().to_lowercase();
        if charset.contains("utf-8") || charset.contains("utf8") { Self::UNICODE } else { Self::ASCII }
    }

    /// Boxes with an arrow from each to the next: three lines.
    fn boxes(self, names: &[&str]) -> String {
        let Self { corners: [top_left, top_right, bottom_left, bottom_right], across, down, arrow } = self;
        let gap = " ".repeat(arrow.chars().count());
        let side = |left: char, right: char| {
            let edge = |name: &&str| format!("{left}{}{right}", across.repeat(name.chars().count() + 2));
            names.iter().map(edge).collect::<Vec<_>>().join(&gap)
        };
        let middle: Vec<String> = names.iter().map(|name| format!("{down} {name} {down}")).collect();
        let (top, bottom) = (side(top_left, top_right), side(bottom_left, bottom_right));
        format!("  {top}\n  {}\n  {bottom}\n", middle.join(arrow))
    }
}

/// What is there, before anything happens.
#[derive(Clone, Copy, Debug)]
pub struct Intro<'a> {
    /// First sample of the manager.
    pub ready: &'a Snapshot,
    /// Whether there are two hosts.
    pub hosts: bool,
    /// Length of the demo, in seconds.
    pub seconds: u64,
    /// Second in which an NF is killed.
    pub kill_at: u64,
}

impl Intro<'_> {
    /// The text.
    pub fn render(&self, pen: Pen, paint: Paint) -> String {
        let (from, to, head) = match self.hosts {
            true => ("left", "right", "Two hosts, and the chain between them, for both directions:"),
            false => ("capture", "sink", "A capture, played again and again, and the chain that it passes:"),
        };
        let boxes = pen.boxes(&self.stations([from, MAIN_CHAIN, to]));
        let beside = self.stations(["generator", BACKGROUND_CHAIN, "sink"]).join(&format!(" {} ", pen.arrow));
        format!(
            "{}\n\n{boxes}  {beside}   (generated packets)\n\n{}\n",
            paint.ink(Ink::Bold, head),
            self.sentences(paint)
        )
    }

    /// A chain between its two ends.
    fn stations<'a>(&'a self, [from, name, to]: [&'a str; 3]) -> Vec<&'a str> {
        let chain: Option<&ChainStatus> = self.ready.chains.iter().find(|chain| chain.name == name);
        let stages = chain.into_iter().flat_map(|chain| chain.stages.iter().map(String::as_str));
        [from].into_iter().chain(stages).chain([to]).collect()
    }

    fn sentences(&self, paint: Paint) -> String {
        let mut cores: Vec<u32> = self.ready.nfs.iter().map(|nf| nf.core).collect();
        cores.sort_unstable();
        cores.dedup();
        let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
        let what = if self.hosts { "TCP runs between the hosts" } else { "The capture runs" };
        let sentences = [
            format!(
                "Each of the {} NFs (network functions) is a process of its own, on core {}. Packets stay where \
                 they are: the NFs find them in shared memory.",
                self.ready.nfs.len(),
                cores.join(", ")
            ),
            format!(
                "{what} for {} s; after {} s the {VICTIM} is killed (kill -9). Ctrl-C ends the demo at any \
                 time, and it leaves nothing behind.",
                self.seconds, self.kill_at
            ),
            "busy: worked on packets; waited: was ready to, and others had its core; queue: how full the ring of \
             packets before it is."
                .to_owned(),
        ];
        sentences.map(|sentence| paint.wrap(&sentence, 0) + "\n").concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headgate_api::status::NfStatus;

    fn ready() -> Snapshot {
        let chain = |name: &str, stages: &[&str]| ChainStatus {
            name: name.into(),
            stages: stages.iter().map(|&stage| stage.into()).collect(),
            ..ChainStatus::default()
        };
        let nf = NfStatus { core: 1, ..NfStatus::default() };
        Snapshot {
            chains: vec![
                chain(MAIN_CHAIN, &["firewall", "monitor", "router"]),
                chain(BACKGROUND_CHAIN, &["firewall", "monitor"]),
            ],
            nfs: vec![nf.clone(), nf.clone(), nf],
            ..Snapshot::default()
        }
    }

    #[test]
    fn the_chain_is_drawn_in_80_columns() {
        let ready = ready();
        for hosts in [true, false] {
            let intro = Intro { ready: &ready, hosts, seconds: 16, kill_at: 6 };
            for pen in [Pen::UNICODE, Pen::ASCII] {
                let text = intro.render(pen, Paint::default().or_columns(80));
                let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
                assert!(wide.is_empty(), "{wide:#?}");
                assert_eq!(pen == Pen::ASCII, text.is_ascii());
            }
        }
        let intro = Intro { ready: &ready, hosts: true, seconds: 16, kill_at: 6 };
        let text = intro.render(Pen::ASCII, Paint::default().or_columns(80));
        assert_eq!(text, include_str!("tests/intro.txt"), "{text}");
    }
}
