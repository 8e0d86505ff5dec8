//! The report as one page: the paper's stacked bars, tables, no script, nothing from elsewhere.

use std::fmt::Write as _;

use headgate_decide::profile::Source;
use headgate_units::text as units;

use super::report::{Parts, Report, time};

/// Colours of the sources: those of memory in blues, translation in greens, the kernel in warm ones. All of
/// them differ in lightness too, for printers and for eyes that tell no colours.
const COLOURS: [(Source, &str); 9] = [
    (Source::DataL1, "#d0e1f2"),
    (Source::DataL2, "#94c4df"),
    (Source::DataL3, "#4a98c9"),
    (Source::DataDram, "#1764ab"),
    (Source::TranslationL2, "#b5e0ae"),
    (Source::TranslationWalk, "#3d9a50"),
    (Source::Switches, "#e6550d"),
    (Source::Calls, "#fdae6b"),
    (Source::Ready, "#8c6bb1"),
];

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;margin:.5rem 0}
td,th{padding:.15rem .7rem;border-bottom:1px solid #ddd;text-align:right;font-variant-numeric:tabular-nums}
td:first-child,th:first-child{text-align:left;padding-left:0}
svg{display:block;width:100%;height:auto}
.first{border-left:4px solid #3d9a50;padding:.3rem .8rem;background:#f3f8f3}
.note{color:#666}.key{display:inline-block;width:.9em;height:.9em;margin:0 .3em 0 1em;vertical-align:-.1em}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}td,th{border-color:#444}
.first{background:#1d261d}.note{color:#999}}";

/// Width of the drawing, and where bars begin: the rest is for names.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 170.0;
/// Height of a bar and from one to the next.
const BAR: f64 = 22.0;
const STEP: f64 = 30.0;

/// The page.
pub fn page(report: &Report) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Profile of {name}</title>\n\
         <style>{STYLE}</style>\n<h1>Profile of manager {name}</h1>\n\
         <p class=\"note\">{:.1} s on {}</p>\n",
        report.seconds,
        escaped(&report.machine),
        name = escaped(&report.manager),
    );
    for chain in &report.chains {
        let _ = write!(
            page,
            "<h2>Chain {}: {}</h2>\n<p>{}{}{}{}</p>\n<p class=\"first\"><b>First:</b> {}</p>\n",
            escaped(&chain.chain),
            escaped(&chain.stages.join(" → ")),
            units::packet_rate(chain.packets_per_second),
            match chain.drops_per_second {
                0.0 => String::new(),
                drops => format!(", {} dropped", units::packet_rate(drops)),
            },
            chain.stay_ns.map_or(String::new(), |ns| format!(", {} at its NFs", time(ns))),
            chain.switch_words(),
            escaped(&chain.first),
        );
        let of_nf = |stage: &String| report.nfs.iter().find(|nf| nf.nf == *stage);
        let nfs = chain.stages.iter().filter_map(of_nf);
        let mut bars: Vec<(&str, &Parts)> =
            nfs.filter_map(|nf| Some((nf.nf.as_str(), nf.latency_ns.as_ref()?))).collect();
        bars.extend(chain.latency_ns.as_ref().map(|parts| ("chain", parts)));
        write_bars(&mut page, &bars);
        if let Some(ratios) = &chain.ratios {
            let _ = writeln!(
                page,
                "<p>wait/runtime {:.2}, contention/runtime {:.2}</p>",
                ratios.wait_over_runtime, ratios.contention_over_runtime
            );
        }
    }
    write_nfs(&mut page, report);
    write_unit_costs(&mut page, report);
    for note in &report.notes {
        let _ = writeln!(page, "<p class=\"note\">{}</p>", escaped(note));
    }
    page
}

fn write_bars(page: &mut String, bars: &[(&str, &Parts)]) {
    let longest = bars.iter().map(|(_, parts)| parts.total.max(parts.run)).fold(0.0, f64::max);
    if longest == 0.0 {
        page.push_str("<p class=\"note\">No packets passed.</p>\n");
        return;
    }
    page.push_str("<p>Nanoseconds of a packet");
    for (source, colour) in COLOURS {
        if bars.iter().any(|(_, parts)| parts.at(source).is_some_and(|ns| ns > 0.0)) {
            let _ =
                write!(page, "<span class=\"key\" style=\"background:{colour}\"></span>{}", source.words());
        }
    }
    page.push_str("<span class=\"key\" style=\"border:2px solid #999\"></span>CPU time</p>\n");
    let height = bars.len() as f64 * STEP;
    let _ = writeln!(
        page,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" font-size=\"14\" fill=\"currentColor\">"
    );
    let scale = (WIDTH - LEFT - 110.0) / longest;
    for (row, (name, parts)) in bars.iter().enumerate() {
        let top = row as f64 * STEP;
        let middle = top + BAR * 0.7;
        let _ = write!(page, "<text x=\"0\" y=\"{middle:.1}\">{}</text>", escaped(name));
        let mut at = LEFT;
        for (source, colour) in COLOURS {
            let Some(ns) = parts.at(source).filter(|ns| *ns > 0.0) else { continue };
            let _ = write!(
                page,
                "<rect x=\"{at:.2}\" y=\"{top:.1}\" width=\"{:.2}\" height=\"{BAR}\" fill=\"{colour}\">\
                 <title>{}: {}</title></rect>",
                ns * scale,
                source.words(),
                time(ns),
            );
            at += ns * scale;
        }
        let _ = writeln!(
            page,
            "<rect x=\"{LEFT}\" y=\"{top:.1}\" width=\"{:.2}\" height=\"{BAR}\" fill=\"none\" stroke=\"#999\" \
             stroke-width=\"2\"><title>CPU time: {}</title></rect><text x=\"{:.1}\" y=\"{middle:.1}\">{}</text>",
            parts.run * scale,
            time(parts.run),
            at.max(LEFT + parts.run * scale) + 6.0,
            time(parts.total),
        );
    }
    page.push_str("</svg>\n");
}

fn write_nfs(page: &mut String, report: &Report) {
    page.push_str(
        "<h2>NFs</h2>\n<table><tr><th>NF<th>runs<th>core<th>policy<th>packets<th>work<th>CPU<th>stay\
         <th>wait/run<th>contention/run\n",
    );
    for nf in &report.nfs {
        let or_nothing = |ns: Option<f64>| ns.map_or(String::new(), time);
        let _ = writeln!(
            page,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}",
            escaped(&nf.nf),
            escaped(&nf.runs),
            nf.core,
            escaped(&nf.policy),
            units::packet_rate(nf.packets_per_second),
            or_nothing(nf.work_ns),
            or_nothing(nf.latency_ns.as_ref().map(|parts| parts.run)),
            or_nothing(nf.stay_ns),
            nf.ratios.map_or(String::new(), |ratios| format!("{:.2}", ratios.wait_over_runtime)),
            nf.ratios.map_or(String::new(), |ratios| format!("{:.2}", ratios.contention_over_runtime)),
        );
    }
    page.push_str("</table>\n");
    if report.nfs.iter().any(|nf| nf.simulated.is_some()) {
        page.push_str(
            "<h2>Simulated data accesses of a packet</h2>\n<table><tr><th>NF<th>L1<th>L2<th>L3<th>DRAM\n",
        );
        for nf in &report.nfs {
            let Some(simulated) = &nf.simulated else { continue };
            let cells: String = simulated.per_packet.iter().map(|count| format!("<td>{count:.2}")).collect();
            let _ = writeln!(page, "<tr><td>{}{cells}", escaped(&nf.nf));
        }
        page.push_str("</table>\n");
    }
    if !report.functions.is_empty() {
        page.push_str("<h2>Functions</h2>\n<table><tr><th>function<th>samples\n");
        for function in &report.functions {
            let _ =
                writeln!(page, "<tr><td>{}<td>{:.1} %", escaped(&function.function), function.part * 100.0);
        }
        page.push_str("</table>\n");
    }
}

fn write_unit_costs(page: &mut String, report: &Report) {
    page.push_str("<h2>What one event costs here</h2>\n<table><tr><th>event<th>ns\n");
    for (name, ns) in &report.unit_costs_ns {
        let value = ns.map_or("not measured".to_owned(), |ns| format!("{ns:.2}"));
        let _ = writeln!(page, "<tr><td>{}<td>{value}", name.replace('_', " "));
    }
    page.push_str("</table>\n");
}

/// Names come from configurations and programs: nothing in them is markup.
fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        c if c.is_control() => "\u{fffd}".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::profile::report::{ChainReport, NfReport};
    use headgate_decide::profile::{Breakdown, Counts, UnitCosts};

    #[test]
    fn the_page_stands_alone_and_names_are_no_markup() {
        let counts =
            Counts { packets: 10, run_ns: 5000, ready_ns: 1000, switches: Some(5), ..Counts::default() };
        let costs = UnitCosts { switch_ns: Some(1000.0), ..UnitCosts::default() };
        let parts = || Breakdown::of(&counts, &costs).as_ref().map(Parts::of);
        let nf = NfReport {
            nf: "fw".to_owned(),
            runs: "<script>".to_owned(),
            core: 1,
            policy: "batch".to_owned(),
            packets_per_second: 10.0,
            events_per_packet: Default::default(),
            latency_ns: parts(),
            work_ns: None,
            stay_ns: None,
            ratios: None,
            voluntary_switches_per_second: 0.0,
            involuntary_switches_per_second: 0.0,
            migrations: None,
            page_faults: [0, 0],
            simulated: None,
        };
        let chain = ChainReport {
            chain: "web".to_owned(),
            stages: vec!["fw".to_owned()],
            packets_per_second: 10.0,
            drops_per_second: 0.0,
            stay_ns: None,
            switch_ns: None,
            latency_ns: parts(),
            ratios: None,
            first: "nothing & more".to_owned(),
        };
        let report = Report {
            manager: "default".to_owned(),
            seconds: 1.0,
            chains: vec![chain],
            nfs: vec![nf],
            functions: Vec::new(),
            unit_costs_ns: Default::default(),
            machine: "one".to_owned(),
            notes: vec!["system calls were not counted".to_owned()],
        };
        let page = page(&report);
        for outside in ["<script", "http", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("&lt;script&gt;") && page.contains("nothing &amp; more"));
        // Two bars of 500 ns of switches and 100 ns of waiting each.
        assert_eq!(page.matches("context switches: 500.0 ns").count(), 2);
        assert_eq!(page.matches("scheduler wait: 100.0 ns").count(), 2);
        assert!(page.contains("system calls were not counted"));
    }
}
