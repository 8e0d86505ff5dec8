//! Names and what they stand for.

use std::collections::HashMap;

use super::super::codes::Code;
use super::super::read::{At, Field};
use super::super::report::{Report, Span};
use super::super::suggest;
use super::super::values::Name;

/// The names of one kind of thing, with the place of each in its list.
pub struct Names<'d> {
    what: &'static str,
    undefined: Code,
    places: HashMap<&'d str, (usize, Span)>,
    in_order: Vec<&'d str>,
    /// False when a name was broken or a table unreadable: then nothing can be called undefined.
    complete: bool,
}

impl<'d> Names<'d> {
    /// Collects the names of all tables of one kind and reports those that occur twice. `complete` is
    /// false when some of the tables could not be read.
    pub fn collect(
        what: &'static str,
        undefined: Code,
        names: impl Iterator<Item = &'d Field<Name>>,
        complete: bool,
        report: &mut Report,
    ) -> Self {
        let mut all = Self { what, undefined, places: HashMap::new(), in_order: Vec::new(), complete };
        for (place, field) in names.enumerate() {
            let Some(at) = &field.found else {
                all.complete = false;
                continue;
            };
            let name = at.value.0.as_str();
            if let Some((_, first)) = all.places.get(name) {
                report
                    .add(Code::DuplicateName, &at.span, format!("two {what}s are called `{name}`"))
                    .label("again")
                    .help("give one of them another name")
                    .beside(first.clone(), "first");
                continue;
            }
            all.places.insert(name, (place, at.span.clone()));
            all.in_order.push(name);
        }
        all
    }

    /// All names, when none of them is missing.
    pub fn all(&self) -> Option<Vec<String>> {
        self.complete.then(|| self.in_order.iter().map(|name| (*name).to_owned()).collect())
    }

    /// The place of `name`, when it is defined.
    pub fn get(&self, name: &str) -> Option<usize> {
        self.places.get(name).map(|(place, _)| *place)
    }

    /// The place of `name`, which is reported when it is not defined.
    pub fn find(&self, name: &At<Name>, report: &mut Report) -> Option<usize> {
        let text = name.value.0.as_str();
        let place = self.get(text);
        if place.is_none() && self.complete {
            let (what, defined) = (self.what, self.in_order.iter().copied());
            report
                .add(self.undefined, &name.span, format!("there is no {what} `{text}`"))
                .label("not defined")
                .help(suggest::help(&format!("defined {what}s"), text, defined));
        }
        place
    }
}
