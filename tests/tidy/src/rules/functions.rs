//! Functions that do too much: too long, or with too many parameters. Tests are left out, because a scenario
//! told in one piece may be long; closures and functions that macros make are not seen.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, ItemImpl, ItemTrait, Signature, TraitItemFn, Type};

use crate::offence::Offence;
use crate::tokens::{Token, group_end};
use crate::workspace::Workspace;

/// More parameters than this are too many. Our choice: one fewer than clippy allows.
const PARAMETERS_MAX: usize = 6;

/// Name of clippy's rule.
const LINT: &str = "too_many_arguments";

/// A function with a body.
struct Function {
    name: String,
    line: usize,
    /// Lines of signature and body, without attributes and doc comments.
    lines: usize,
    parameters: usize,
}

/// Returns the functions with more lines than that.
pub fn longer_than(workspace: &Workspace, limit: usize) -> Vec<Offence> {
    of_functions(workspace, |function| {
        (function.lines > limit)
            .then(|| (function.lines, format!("{}: {} lines", function.name, function.lines)))
    })
}

/// Returns the functions with more than [`PARAMETERS_MAX`] parameters.
pub fn with_many_parameters(workspace: &Workspace) -> Vec<Offence> {
    of_functions(workspace, |function| {
        let Function { name, parameters, .. } = function;
        (*parameters > PARAMETERS_MAX).then(|| (*parameters, format!("{name}: {parameters} parameters")))
    })
}

fn of_functions(workspace: &Workspace, judge: impl Fn(&Function) -> Option<(usize, String)>) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in workspace.code() {
        let mut seen = Functions { owner: String::new(), found: Vec::new() };
        file.items.iter().for_each(|item| seen.visit_item(item));
        for function in &seen.found {
            let offence = judge(function);
            offences
                .extend(offence.map(|(weight, what)| Offence::new(&file.path, function.line, weight, what)));
        }
    }
    offences
}

struct Functions {
    /// `Type::` within its `impl`.
    owner: String,
    found: Vec<Function>,
}

impl Functions {
    fn add(&mut self, signature: &Signature, body: &Block) {
        let line = signature.fn_token.span().start().line;
        self.found.push(Function {
            name: format!("{}{}", self.owner, signature.ident),
            line,
            lines: body.brace_token.span.close().end().line - line + 1,
            parameters: signature.inputs.len(),
        });
    }

    fn inside(&mut self, owner: String, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.owner, owner);
        visit(self);
        self.owner = before;
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.add(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(body) = &function.default {
            self.add(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_item_impl(&mut self, block: &'ast ItemImpl) {
        let owner = type_name(&block.self_ty).map(|name| format!("{name}::")).unwrap_or_default();
        self.inside(owner, |within| visit::visit_item_impl(within, block));
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.inside(format!("{}::", item.ident), |within| visit::visit_item_trait(within, item));
    }
}

/// Returns the last word of a type's path.
pub fn type_name(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        Type::Reference(reference) => type_name(&reference.elem),
        _ => None,
    }
}

/// Returns each place where clippy is told to let many parameters pass, tests included.
pub fn excused_from_few_arguments(workspace: &Workspace) -> Vec<Offence> {
    let mut offences = Vec::new();
    for file in workspace.files.values().filter(|file| file.text.contains(LINT)) {
        let tokens = file.tokens();
        for at in 1..tokens.len() {
            if tokens[at].is('(') && excuses(&tokens, at) {
                let what = "clippy::too_many_arguments is excused".to_owned();
                offences.push(Offence::new(&file.path, tokens[at].line(), 0, what));
            }
        }
    }
    offences
}

/// Returns whether an opening parenthesis belongs to an `expect` or `allow` of the lint.
fn excuses(tokens: &[Token], open: usize) -> bool {
    let is_excuse = matches!(tokens[open - 1].word(), Some("expect" | "allow"));
    let inside = || &tokens[open..group_end(tokens, open)];
    is_excuse && inside().iter().any(|token| token.word() == Some(LINT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::planted_file;

    fn told(offences: &[Offence]) -> Vec<String> {
        offences.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_function_counts_from_its_signature_to_its_last_brace() {
        let text = "/// Doc.\n#[inline]\nfn f(\n    a: u8,\n) -> u8 {\n    // why\n\n    a\n}\n";
        assert_eq!(told(&longer_than(&planted_file(text), 6)), ["a/src/lib.rs:3: f: 7 lines"]);
        assert_eq!(told(&longer_than(&planted_file(text), 7)), [""; 0]);
    }

    #[test]
    fn methods_and_inner_functions_are_seen_and_tests_are_not() {
        let long = "{\n\n}";
        let text = format!(
            "struct A; impl A {{ fn b(&self) {long} }}\ntrait C {{ fn d() {long} fn e(); }}
            fn f() {{ fn g() {long} }}\nmod h {{ fn i() {long} }}\n#[cfg(test)] mod tests {{ fn j() {long} }}"
        );
        let found = told(&longer_than(&planted_file(&text), 2));
        let names: Vec<&str> = found.iter().map(|line| line.split(": ").nth(1).unwrap_or_default()).collect();
        assert_eq!(names, ["A::b", "C::d", "f", "g", "i"]);
    }

    #[test]
    fn the_receiver_is_a_parameter() {
        let text = "fn f(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {}
            struct A; impl A { fn g(&self, a: u8, b: u8, c: u8, d: u8, e: u8, f: u8) {} }";
        assert_eq!(told(&with_many_parameters(&planted_file(text))), ["a/src/lib.rs:2: A::g: 7 parameters"]);
    }

    #[test]
    fn excuses_are_seen_wherever_they_stand() {
        let text = "#[expect(clippy::too_many_arguments, reason = \"x\")] fn f() {}
            #[cfg_attr(test, allow(dead_code, clippy::too_many_arguments))] fn g() {}
            m! { #[allow(clippy::too_many_arguments)] fn h() {} }
            #[allow(clippy::too_many_lines)] fn i() {} // allow(clippy::too_many_arguments)
            #[deny(clippy::too_many_arguments)] fn j() { let _ = \"allow(too_many_arguments)\"; }";
        let lines: Vec<usize> =
            excused_from_few_arguments(&planted_file(text)).iter().map(|one| one.line).collect();
        assert_eq!(lines, [1, 2, 3]);
    }
}
