//! Arguments of shipped NFs: the NF is asked what is wrong with them, and each mistake gets its place in the
//! file.
//!
//! NFs of others (`exec`, `attach`) are not asked: to ask, their program would have to be started, and a
//! check starts nothing of the operator's. They refuse their arguments when they start.

use headgate_session::arguments::{ArgumentError, ArgumentErrorKind, PathStep};
use serde_json::{Map, Value as Json};

use super::super::catalog::{Argument, ShippedNf};
use super::super::codes::Code;
use super::super::read::{At, Field};
use super::super::report::Span;
use super::super::suggest;
use super::super::tree::{Node, Value};
use super::super::values::{Args, Text};
use super::Resolver;

impl Resolver<'_> {
    /// Reports everything that is wrong with the arguments that `run` gets.
    pub(super) fn check_arguments(
        &mut self,
        run: &At<Text>,
        nf: &ShippedNf,
        args: &Field<Args>,
        table: &Map<String, Json>,
    ) {
        let mut asked = table.clone();
        let misspelt = self.check_keys(run, nf, args, &mut asked);
        let mistakes = self.known.mistakes(&nf.name, &asked, &self.names);
        let top = args.value().map(|args| &args.node);
        let unknown: Vec<&ArgumentError> =
            mistakes.iter().filter(|one| one.kind == ArgumentErrorKind::UnknownKey).collect();
        for mistake in &mistakes {
            // A key at the top that is missing was reported with its description.
            let is_said = misspelt && mistake.path.is_empty();
            if !is_said && !is_meant(mistake, &unknown) {
                self.add_mistake(run, nf, top, mistake);
            }
        }
    }

    /// Compares the keys at the top with those that the NF describes: takes the unknown ones out of `asked`,
    /// and returns whether one was unknown or missing.
    fn check_keys(
        &mut self,
        run: &At<Text>,
        nf: &ShippedNf,
        args: &Field<Args>,
        asked: &mut Map<String, Json>,
    ) -> bool {
        let Some(known) = &nf.arguments else { return false };
        let mut said = false;
        let names = || known.iter().map(|argument| argument.name.as_str());
        let given = args.value().map_or(&[][..], |args| entries(&args.node));
        let mut meant = Vec::new();
        for entry in given.iter().filter(|entry| !names().any(|name| name == entry.key)) {
            said = true;
            asked.remove(&entry.key);
            meant.extend(suggest::nearest(&entry.key, names()));
            self.report
                .add(
                    Code::UnknownArgument,
                    &entry.key_span,
                    format!("the NF `{}` has no argument `{}`", nf.name, entry.key),
                )
                .label("unknown argument")
                .help(suggest::help("arguments", &entry.key, names()));
        }
        let lacks = |argument: &&Argument| {
            argument.required && !args.is_broken() && !given.iter().any(|entry| entry.key == argument.name)
        };
        for argument in known.iter().filter(lacks) {
            said = true;
            if !meant.contains(&argument.name.as_str()) {
                self.add_missing(run, nf, argument);
            }
        }
        said
    }

    fn add_missing(&mut self, run: &At<Text>, nf: &ShippedNf, argument: &Argument) {
        let Argument { name: key, kind, text, .. } = argument;
        self.report
            .add(Code::MissingArgument, &run.span, format!("the NF `{}` needs the argument `{key}`", nf.name))
            .label(format!("`{key}` is missing"))
            .help(format!("add `args = {{ {key} = … }}`: {kind}; {text}"));
    }

    fn add_mistake(&mut self, run: &At<Text>, nf: &ShippedNf, top: Option<&Node>, mistake: &ArgumentError) {
        let ArgumentError { path, kind, word, known, message } = mistake;
        let place = mistake.place();
        let span = top.map_or(&run.span, |top| place_of(top, path, *kind));
        let known = || known.iter().map(String::as_str);
        let nf = &nf.name;
        match kind {
            ArgumentErrorKind::UnknownKey => self
                .report
                .add(Code::UnknownArgument, span, format!("the NF `{nf}` has no argument `{place}`"))
                .label("unknown argument")
                .help(suggest::help("known here", word, known())),
            ArgumentErrorKind::MissingKey => self
                .report
                .add(Code::MissingArgument, span, format!("the NF `{nf}` needs `{word}` in `{place}`"))
                .label(format!("`{word}` is missing"))
                .help(format!("add `{word} = …`; `headgate-nfs list` says what each NF takes")),
            ArgumentErrorKind::UnknownWord => self
                .report
                .add(Code::ArgumentsRefused, span, format!("the NF `{nf}` refuses `{place}`: no `{word}`"))
                .label("not known")
                .help(suggest::help("known", word, known())),
            ArgumentErrorKind::BadValue => {
                let about = if place.is_empty() { "its arguments" } else { &format!("`{place}`") };
                self.report
                    .add(Code::ArgumentsRefused, span, format!("the NF `{nf}` refuses {about}: {message}"))
                    .label("refused")
                    .help("`headgate-nfs list` says what each NF takes")
            }
        };
    }
}

/// Returns whether a missing key is what an unknown one beside it was meant to be.
fn is_meant(missing: &ArgumentError, unknown: &[&ArgumentError]) -> bool {
    let beside =
        |other: &ArgumentError| other.path.split_last().is_some_and(|(_, above)| above == missing.path);
    let nearest = |other: &ArgumentError| {
        suggest::nearest(&other.word, other.known.iter().map(String::as_str)) == Some(missing.word.as_str())
    };
    missing.kind == ArgumentErrorKind::MissingKey
        && unknown.iter().any(|unknown| beside(unknown) && nearest(unknown))
}

/// The entries of a table; none of anything else.
fn entries(node: &Node) -> &[super::super::tree::Entry] {
    match &node.value {
        Value::Table(entries) => entries,
        _ => &[],
    }
}

/// Returns where a path leads: to a value, or to a key that is unknown. A path that leaves the file, as into
/// a default, ends where it leaves it.
fn place_of<'n>(top: &'n Node, path: &[PathStep], kind: ArgumentErrorKind) -> &'n Span {
    let (mut at, mut span) = (top, &top.span);
    for step in path {
        let next = match (step, &at.value) {
            (PathStep::Key(key), Value::Table(entries)) => {
                entries.iter().find(|entry| entry.key == *key).map(|entry| {
                    let is_key = kind == ArgumentErrorKind::UnknownKey;
                    (&entry.node, if is_key { &entry.key_span } else { &entry.node.span })
                })
            }
            (PathStep::Index(index), Value::List(nodes)) => nodes.get(*index).map(|node| (node, &node.span)),
            _ => None,
        };
        let Some(next) = next else { break };
        (at, span) = next;
    }
    span
}
