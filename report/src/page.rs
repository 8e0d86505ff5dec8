//! A report as one page: no script, nothing from elsewhere.

use std::fmt::Write as _;

use crate::draw::escaped;
use crate::draw::{short, svg};
use crate::report::{Report, Value, facts};

/// Nothing may be loaded, not even by what a name would smuggle in.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1f2328;background:#fff}\
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin-top:2.2rem}\
figure{margin:1.5rem 0}svg{display:block;max-width:100%;height:auto}\
.wide{overflow-x:auto}table{border-collapse:collapse;margin:.5rem 0;font-size:.92rem}\
td,th{padding:.2rem .8rem .2rem 0;border-bottom:1px solid #d8dee4;text-align:right;font-variant-numeric:tabular-nums}\
td:first-child,th:first-child,td.w,th.w{text-align:left}td{overflow-wrap:break-word}\
.note{color:#565f69}.warn{border-left:4px solid #e69f00;padding:.2rem .8rem;margin:.5rem 0}\
code{font-size:.92em;overflow-wrap:anywhere}\
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#16191d}td,th{border-color:#30363d}.note{color:#9da7b3}}";

/// Returns the page.
pub fn page(report: &Report) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>Headgate: {name}</title>\n<style>{STYLE}</style></head>\n<body>\n<h1>{name}</h1>\n\
         <p class=\"note\">{}</p>\n",
        escaped(&report.heading),
        name = escaped(&report.name),
    );
    for note in &report.notes {
        let _ = writeln!(page, "<p class=\"warn\">{}</p>", escaped(note));
    }
    for plot in &report.plots {
        let _ = writeln!(page, "<figure>{}</figure>", svg(plot));
    }
    write_values(&mut page, &report.values);
    write_facts(&mut page, "Settings", &facts(&report.settings));
    write_facts(&mut page, "Environment", &facts(&report.environment));
    page.push_str(
        "<p class=\"note\">Beside this page: report.json (everything, each round), values.csv, rounds.csv, \
         and the plots as SVG. Two reports are compared by <code>headgate report compare A B</code>.</p>\n\
         </body></html>\n",
    );
    page
}

fn write_values(page: &mut String, values: &[Value]) {
    let mut sections: Vec<&str> = Vec::new();
    for value in values {
        if !sections.contains(&value.section.as_str()) {
            sections.push(&value.section);
        }
    }
    for section in sections {
        let title = if section.is_empty() { "Values" } else { section };
        let _ = write!(
            page,
            "<h2>{}</h2>\n<div class=\"wide\"><table><tr><th>value<th>median<th>min<th>max<th>n\
             <th class=\"w\">unit<th class=\"w\">compare with\n",
            escaped(title)
        );
        let ours = || values.iter().filter(|value| value.section == section);
        for value in ours() {
            let same = ours().filter(|other| other.unit == value.unit);
            let (unit, scale) = readable(&value.unit, same.filter_map(|other| other.max).fold(0.0, f64::max));
            let number = |number: Option<f64>| {
                number.map_or_else(|| "none".to_owned(), |number| short(number * scale))
            };
            let _ = writeln!(
                page,
                "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td class=\"w\">{}<td class=\"w note\">{}",
                escaped(&value.name),
                number(value.median),
                number(value.min),
                number(value.max),
                value.n,
                escaped(unit),
                escaped(&value.note),
            );
        }
        page.push_str("</table></div>\n");
    }
}

/// Returns the unit in which people read values of which this is the largest, and the factor.
fn readable(unit: &str, size: f64) -> (&str, f64) {
    match unit {
        "packets/s" if size >= 1e5 => ("Mpps", 1e-6),
        "bit/s" if size >= 1e8 => ("Gbit/s", 1e-9),
        "bit/s" if size >= 1e5 => ("Mbit/s", 1e-6),
        unit => (unit, 1.0),
    }
}

fn write_facts(page: &mut String, title: &str, facts: &[(String, String)]) {
    let facts: Vec<_> = facts.iter().filter(|(name, _)| !name.is_empty()).collect();
    if facts.is_empty() {
        return;
    }
    let _ = writeln!(page, "<h2>{title}</h2>\n<div class=\"wide\"><table>");
    for (name, value) in facts {
        let name = name.replace('_', " ");
        let _ = writeln!(page, "<tr><td>{}<td class=\"w\"><code>{}</code>", escaped(&name), escaped(value));
    }
    page.push_str("</table></div>\n");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_page_stands_alone_and_names_are_no_markup() {
        let hostile = "<script src=\"http://a\">";
        let report = Report {
            name: hostile.to_owned(),
            heading: hostile.to_owned(),
            environment: json!({ hostile: [hostile], "kernel": null }),
            settings: json!({ "rounds": 3 }),
            values: vec![
                Value::of(hostile, hostile, hostile, [Some(1234.5)]),
                Value::of("", "x", "", [None]),
            ],
            notes: vec![hostile.to_owned()],
            ..Report::default()
        };
        let page = page(&report);
        for outside in ["<script", "@import", "url(", "<link", "<img"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("default-src 'none'"));
        assert!(page.contains("<td>1234<td>1234<td>1234<td>1"), "{page}");
        assert!(page.contains("<td>none<td>none<td>none<td>0") && page.contains("<code>unknown</code>"));
    }
}
