//! Circles between files of a crate: files none of which can be read, tested or moved without the others.
//!
//! A file depends on another when a path in it leads there, through re-exports to where the name is defined.
//! What only lists does not tie: `mod child;`, `pub use child::Name` of a name that the file does not use
//! itself, and tests. Not seen are methods: a type whose `impl` blocks lie in several files ties them by
//! calls that no path shows.

use std::collections::{BTreeMap, BTreeSet};

use quote::ToTokens;
use syn::{Item, Visibility};

use super::names::{Names, Target};
use crate::offence::Offence;
use crate::tokens::{Path, flat, paths};
use crate::tree::{Import, Module, Tree, imports};
use crate::workspace::Workspace;

/// A tie of one file to another: the names used, and the line of the first use.
struct Tie {
    names: BTreeSet<String>,
    line: usize,
}

/// Ties by the file that uses and the file that is used.
type Ties<'t> = BTreeMap<(&'t str, &'t str), Tie>;

/// Returns each circle of the workspace; its number is that of its files.
pub fn circles(workspace: &Workspace) -> Vec<Offence> {
    let roots = workspace.packages.iter().flat_map(|package| &package.roots);
    let mut offences: Vec<Offence> = Vec::new();
    for root in roots {
        let tree = Tree::grow(&workspace.files, root);
        let ties = ties(&tree);
        let found = in_circles(&ties).into_iter().map(|circle| offence(&circle, &ties));
        // A file that two targets share is one file.
        offences.extend(found.filter(|one| !offences.contains(one)).collect::<Vec<_>>());
    }
    offences
}

fn ties<'t>(tree: &'t Tree<'t>) -> Ties<'t> {
    let names = Names::of(tree);
    let mut ties = Ties::new();
    for (at, module) in tree.modules.iter().enumerate() {
        for path in module_paths(module) {
            let Some((target, name)) = tied(&names, at, &path) else { continue };
            let (from, to) = (module.file.path.as_str(), tree.modules[target].file.path.as_str());
            if from != to {
                let tie =
                    ties.entry((from, to)).or_insert_with(|| Tie { names: BTreeSet::new(), line: path.line });
                tie.names.insert(name.to_owned());
            }
        }
    }
    ties
}

/// Returns the module whose item a path uses, and the item's name.
fn tied<'p>(names: &Names<'_>, at: usize, path: &'p Path) -> Option<(usize, &'p str)> {
    match names.resolve(at, &path.words) {
        Target::Module(target) if path.is_glob => Some((target, "*")),
        Target::Module(_) | Target::Outside => None,
        Target::Item(target) => {
            let leads_to_it = |end: usize| names.resolve(at, &path.words[..=end]) == Target::Item(target);
            let name = path.words.iter().enumerate().find(|(end, _)| leads_to_it(*end));
            name.map(|(_, name)| (target, name.as_str()))
        }
    }
}

/// Returns the paths that tie a module to others. Modules in the same file have their own.
fn module_paths(module: &Module<'_>) -> Vec<Path> {
    let mut uses = Vec::new();
    let mut tokens = Vec::new();
    for item in module.items {
        match item {
            Item::Mod(_) => {}
            Item::Use(item) => uses.push(item),
            item => tokens.extend(flat(item.to_token_stream())),
        }
    }
    let mut found = paths(&tokens);
    for item in uses {
        let is_used = |name: &str| tokens.iter().any(|token| token.word() == Some(name));
        let is_private = matches!(item.vis, Visibility::Inherited);
        let ties = |import: &Import| is_private || import.name.as_deref().is_some_and(is_used);
        let all = imports(&item.tree).into_iter().filter(ties);
        let path =
            |import: Import| Path { is_glob: import.name.is_none(), words: import.words, line: import.line };
        found.extend(all.map(path));
    }
    found
}

/// Returns the sets of more than one file of which each is reached from every other.
fn in_circles<'t>(ties: &Ties<'t>) -> Vec<BTreeSet<&'t str>> {
    let mut next: BTreeMap<&str, Vec<&'t str>> = BTreeMap::new();
    ties.keys().for_each(|(from, to)| next.entry(from).or_default().push(to));
    let reached = |from: &'t str| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            open.extend(next.get(file).into_iter().flatten().filter(|to| seen.insert(**to)));
        }
        seen
    };
    let files: BTreeSet<&'t str> = ties.keys().map(|(from, _)| *from).collect();
    let reach: BTreeMap<&'t str, BTreeSet<&'t str>> =
        files.into_iter().map(|file| (file, reached(file))).collect();
    let leads = |from: &str, to: &str| reach.get(from).is_some_and(|seen| seen.contains(to));
    let circle_of =
        |file: &'t str| reach.keys().copied().filter(|other| leads(file, other) && leads(other, file));
    let circles: BTreeSet<BTreeSet<&'t str>> = reach.keys().map(|file| circle_of(file).collect()).collect();
    circles.into_iter().filter(|circle: &BTreeSet<&str>| circle.len() > 1).collect()
}

fn offence(circle: &BTreeSet<&str>, ties: &Ties<'_>) -> Offence {
    let inside = ties.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
    let told = inside.map(|((from, to), tie)| {
        let names: Vec<&str> = tie.names.iter().map(String::as_str).collect();
        format!("\n    {from}:{} needs {to} for {}", tie.line, names.join(", "))
    });
    let what = format!("a circle of {} files{}", circle.len(), told.collect::<String>());
    let first = circle.first().copied().unwrap_or_default();
    Offence { count: circle.len(), ..Offence::new(first, 1, circle.len(), what) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::planted;

    /// Returns what is found in a library of these files, a line for each circle and tie.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<String> = files.iter().map(|(name, _)| format!("a/src/{name}.rs")).collect();
        let mut texts = vec![("a/Cargo.toml", "[package]\nname = 'a'")];
        texts.extend(paths.iter().map(String::as_str).zip(files.iter().map(|(_, text)| *text)));
        let offences = circles(&planted(&texts));
        offences
            .iter()
            .flat_map(|one| one.what.lines().map(|line| line.trim().replace("a/src/", "")))
            .collect()
    }

    #[test]
    fn two_files_that_need_each_other_are_a_circle_and_a_third_that_needs_them_is_not_in_it() {
        let root = "mod x;\nmod y;\nmod z;\npub use x::X;";
        let x = "use crate::y::Y;\npub struct X(Y);";
        let y = "pub struct Y;\nimpl Y {\n fn f() { super::x::X::new() } }";
        let z = "use super::x::X;\nfn f(_: X) { crate::y::Y }";
        let told = ["a circle of 2 files", "x.rs:1 needs y.rs for Y", "y.rs:3 needs x.rs for X"];
        assert_eq!(found(&[("lib", root), ("x", x), ("y", y), ("z", z)]), told);
    }

    #[test]
    fn names_are_followed_through_imports_re_exports_and_macros() {
        let root = "mod x;\nmod y;\nmod made;\npub use y::inner::Y as Renamed;";
        let x = "use crate::made;\npub fn x() { m!(made::gone, crate::Renamed) }";
        let y = "pub mod inner { pub struct Y; fn f() { super::super::x::x() } }";
        let made = "make! { gone(crate::x::x) }";
        let told = [
            "a circle of 3 files",
            "made.rs:1 needs x.rs for x",
            "x.rs:2 needs made.rs for gone",
            "x.rs:2 needs y.rs for Renamed",
            "y.rs:1 needs x.rs for x",
        ];
        assert_eq!(found(&[("lib", root), ("x", x), ("y", y), ("made", made)]), told);
    }

    #[test]
    fn a_parent_that_uses_its_child_is_tied_and_one_that_only_lists_it_is_not() {
        let child = "use super::Parent;\npub struct Child(Parent);";
        let lists = "mod child;\npub use child::Child;\npub struct Parent;\n#[cfg(test)] fn f(_: Child) {}";
        assert_eq!(found(&[("lib", lists), ("child", child)]), [""; 0]);
        let uses = "mod child;\npub use child::Child;\npub enum Parent { A(Box<Child>) }";
        let told = [
            "a circle of 2 files",
            "child.rs:1 needs lib.rs for Parent",
            "lib.rs:2 needs child.rs for Child",
        ];
        assert_eq!(found(&[("lib", uses), ("child", child)]), told);
        let glob = "mod child;\npub struct Parent;\nuse child::*;";
        assert_eq!(found(&[("lib", glob), ("child", child)])[2], "lib.rs:3 needs child.rs for *");
    }

    #[test]
    fn names_of_other_crates_and_of_folders_tie_nothing() {
        let root = "mod x;\nuse other as config;\nuse std::x::X;\nfn f() { x::f() }";
        let x = "pub mod inner;\npub fn f() { crate::config::g(); inner::h() }";
        let inner = "pub fn h() { std::f(); other::x::f(); self::i() } fn i() {}";
        assert_eq!(found(&[("lib", root), ("x", x), ("x/inner", inner)]), [""; 0]);
    }

    #[test]
    fn every_file_of_a_circle_counts() {
        let text = |next: &str| format!("pub fn f() {{ crate::{next}::f() }}");
        let (b, c, a) = (text("b"), text("c"), text("a"));
        let texts = [
            ("a/Cargo.toml", "[package]\nname = 'a'"),
            ("a/src/lib.rs", "mod a; mod b; mod c;"),
            ("a/src/a.rs", &b),
        ];
        let all = [&texts[..], &[("a/src/b.rs", &c), ("a/src/c.rs", &a)]].concat();
        assert_eq!(circles(&planted(&all)).iter().map(|one| one.count).collect::<Vec<_>>(), [3]);
    }
}
