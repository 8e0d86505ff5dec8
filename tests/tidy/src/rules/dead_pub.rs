//! Public items that no other crate names. The compiler warns of dead code only where nothing outside a crate
//! can reach it: what is public for nobody is never found dead, and must be kept working as if it were used.
//!
//! Judged are functions, types, traits, constants and re-exports that other crates can reach by a path, and
//! public methods of reachable types. An item is named when its name stands anywhere outside its library's
//! modules, in tests, examples and fuzz targets too, or in the signature or the public fields of an item that
//! is. For a method it must follow `.` or `::`. Names are compared as words, so one that also stands for
//! something else (`new`, `get`) hides a dead one; what only a macro makes or a derive calls is not seen;
//! modules, fields and variants are not judged.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use quote::ToTokens;
use syn::{Fields, ImplItem, Item, ItemImpl, Signature, Visibility};

use super::functions::type_name;
use super::names::item_name;
use crate::offence::Offence;
use crate::source::SourceFile;
use crate::tokens::{flat, follows_double_colon};
use crate::tree::{Module, Tree, imports};
use crate::workspace::{Package, Workspace};

/// Libraries for programs that are not ours.
const FOR_OTHERS: &[&str] =
    &["headgate-nf", "headgate-abi", "headgate-session", "headgate-shm", "headgate-wire", "headgate-units"];

type Words = BTreeSet<String>;

/// A public item or method.
struct Candidate<'w> {
    name: String,
    /// The type it is a method of.
    owner: Option<String>,
    file: &'w SourceFile,
    line: usize,
    /// Words of what others see of it.
    interface: Words,
}

/// Words of files, and those after `.` or `::`, each with the number of files they stand in.
#[derive(Default)]
struct Named<'w> {
    words: HashMap<&'w str, usize>,
    members: HashMap<&'w str, usize>,
}

/// Returns what is public and named by no other crate.
pub fn unnamed_elsewhere(workspace: &Workspace) -> Vec<Offence> {
    let words: BTreeMap<&str, FileWords> =
        workspace.files.values().map(|file| (file.path.as_str(), FileWords::of(file))).collect();
    let named = Named::by(words.values());
    let for_us = workspace.packages.iter().filter(|package| !FOR_OTHERS.contains(&package.name.as_str()));
    for_us.flat_map(|package| unnamed_of(workspace, package, &words, &named)).collect()
}

fn unnamed_of(
    workspace: &Workspace,
    package: &Package,
    words: &BTreeMap<&str, FileWords>,
    named: &Named<'_>,
) -> Vec<Offence> {
    let Some(root) = package.roots.iter().find(|root| root.ends_with("src/lib.rs")) else {
        return Vec::new();
    };
    let tree = Tree::grow(&workspace.files, root);
    let own: BTreeSet<&str> = tree.modules.iter().map(|module| module.file.path.as_str()).collect();
    let own = Named::by(own.iter().map(|path| &words[path]));
    let candidates = candidates(&tree);
    let mut live = Live { named, own: &own, interfaces: HashSet::new() };
    live.spread(&candidates);
    let dead = candidates.iter().filter(|one| !live.has(one));
    let told = |one: &Candidate<'_>| format!("{} is named by no other crate", one.told());
    dead.map(|one| Offence::new(&one.file.path, one.line, 0, told(one))).collect()
}

/// Words of one file, and those after `.` or `::`.
struct FileWords {
    words: HashSet<String>,
    members: HashSet<String>,
}

impl FileWords {
    fn of(file: &SourceFile) -> Self {
        let tokens = file.tokens();
        let mut found = Self { words: HashSet::new(), members: HashSet::new() };
        for (at, token) in tokens.iter().enumerate() {
            let Some(word) = token.word() else { continue };
            if at > 0 && tokens[at - 1].is('.') || follows_double_colon(&tokens, at) {
                found.members.insert(word.to_owned());
            }
            found.words.insert(word.to_owned());
        }
        found
    }
}

impl<'w> Named<'w> {
    fn by(files: impl Iterator<Item = &'w FileWords>) -> Self {
        let mut named = Self::default();
        for file in files {
            file.words.iter().for_each(|word| *named.words.entry(word).or_default() += 1);
            file.members.iter().for_each(|word| *named.members.entry(word).or_default() += 1);
        }
        named
    }
}

/// Code outside a library.
struct Live<'w> {
    named: &'w Named<'w>,
    own: &'w Named<'w>,
    /// Words of what others see of the items they name.
    interfaces: HashSet<String>,
}

impl Live<'_> {
    fn has(&self, one: &Candidate<'_>) -> bool {
        match &one.owner {
            // A type nobody names can still be had from a function; then its name is in that one's interface.
            Some(owner) => self.has_word(owner) && is_more(&self.named.members, &self.own.members, &one.name),
            None => self.has_word(&one.name),
        }
    }

    fn has_word(&self, word: &str) -> bool {
        self.interfaces.contains(word) || is_more(&self.named.words, &self.own.words, word)
    }

    /// Adds the interfaces of the items that others name, until nothing is added.
    fn spread(&mut self, candidates: &[Candidate<'_>]) {
        loop {
            let before = self.interfaces.len();
            for one in candidates {
                if self.has(one) {
                    self.interfaces.extend(one.interface.iter().cloned());
                }
            }
            if self.interfaces.len() == before {
                return;
            }
        }
    }
}

/// Returns whether a word stands in more files than in our own.
fn is_more(all: &HashMap<&str, usize>, own: &HashMap<&str, usize>, word: &str) -> bool {
    all.get(word) > own.get(word)
}

impl Candidate<'_> {
    fn told(&self) -> String {
        self.owner.as_ref().map_or_else(|| self.name.clone(), |owner| format!("{owner}::{}", self.name))
    }
}

fn candidates<'w>(tree: &Tree<'w>) -> Vec<Candidate<'w>> {
    let public = || tree.modules.iter().filter(|module| module.is_public);
    let exports: Vec<Candidate<'w>> = public().flat_map(re_exports).collect();
    let exported: Words = exports.iter().flat_map(|export| export.interface.iter().cloned()).collect();
    let items = tree.modules.iter().flat_map(|module| {
        let items = module.items.iter().filter_map(|item| public_item(module, item));
        items.filter(|one| module.is_public || exported.contains(&one.name))
    });
    let mut found: Vec<Candidate<'w>> = items.collect();
    let names: Words = found.iter().map(|one| one.name.clone()).collect();
    let is_reached = |one: &Candidate<'w>| one.owner.as_ref().is_some_and(|owner| names.contains(owner));
    found.extend(tree.modules.iter().flat_map(methods).filter(is_reached));
    // A re-export of an item of ours is judged with the item.
    found.extend(exports.into_iter().filter(|export| export.interface.is_disjoint(&names)));
    found
}

/// Returns the names that public `use` items bring in; what others see of one is the name where it comes
/// from.
fn re_exports<'w>(module: &Module<'w>) -> Vec<Candidate<'w>> {
    let uses = module.items.iter().filter_map(|item| match item {
        Item::Use(item) if is_public(&item.vis) => Some(item),
        _ => None,
    });
    let named = uses.flat_map(|item| imports(&item.tree)).filter_map(|import| {
        let interface = import.words.last().cloned().into_iter().collect();
        Some(Candidate { name: import.name?, owner: None, file: module.file, line: import.line, interface })
    });
    named.collect()
}

const fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn words(tokens: &impl ToTokens) -> Words {
    flat(tokens.to_token_stream()).iter().filter_map(|token| token.word().map(str::to_owned)).collect()
}

fn public_item<'w>(module: &Module<'w>, item: &Item) -> Option<Candidate<'w>> {
    let (visibility, interface) = match item {
        Item::Const(item) => (&item.vis, words(&item.ty)),
        Item::Static(item) => (&item.vis, words(&item.ty)),
        Item::Fn(item) => (&item.vis, words(&item.sig)),
        Item::Enum(item) => (&item.vis, words(&item.variants)),
        Item::Struct(item) => (&item.vis, public_fields(&item.fields)),
        Item::Trait(item) => (&item.vis, words(item)),
        Item::Type(item) => (&item.vis, words(&item.ty)),
        _ => return None,
    };
    let name = item_name(item).filter(|_| is_public(visibility))?;
    let line = visibility_line(visibility);
    Some(Candidate { name, owner: None, file: module.file, line, interface })
}

fn public_fields(fields: &Fields) -> Words {
    fields.iter().filter(|field| is_public(&field.vis)).flat_map(|field| words(&field.ty)).collect()
}

fn visibility_line(visibility: &Visibility) -> usize {
    match visibility {
        Visibility::Public(word) => word.span.start().line,
        _ => 0,
    }
}

fn methods<'w>(module: &Module<'w>) -> Vec<Candidate<'w>> {
    let blocks = module.items.iter().filter_map(|item| match item {
        Item::Impl(block) if block.trait_.is_none() => Some(block),
        _ => None,
    });
    blocks.flat_map(|block| methods_of(module, block)).collect()
}

fn methods_of<'w>(module: &Module<'w>, block: &ItemImpl) -> Vec<Candidate<'w>> {
    let Some(owner) = type_name(&block.self_ty) else { return Vec::new() };
    let public = block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(item) if is_public(&item.vis) => Some((&item.vis, &item.sig)),
        _ => None,
    });
    let candidate = |(visibility, signature): (&Visibility, &Signature)| Candidate {
        name: signature.ident.to_string(),
        owner: Some(owner.clone()),
        file: module.file,
        line: visibility_line(visibility),
        interface: words(signature),
    };
    public.map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::planted;

    /// Returns what is dead in a library, beside a program that has this text.
    fn dead(library: &str, program: &str) -> Vec<String> {
        let manifests =
            [("a/Cargo.toml", "[package]\nname = 'a'"), ("b/Cargo.toml", "[package]\nname = 'b'")];
        let files = [("a/src/lib.rs", library), ("b/src/main.rs", program)];
        let offences = unnamed_elsewhere(&planted(&[manifests, files].concat()));
        offences.iter().map(|one| one.what.split(' ').next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn what_nobody_names_is_dead_and_what_somebody_names_is_not() {
        let library = "pub fn used() {} pub fn unused() {} pub const UNUSED: u8 = 0; fn private() {}
            pub(crate) fn ours() {} #[cfg(test)] pub fn tested() {}";
        assert_eq!(dead(library, "fn main() { a::used() }"), ["unused", "UNUSED"]);
        assert_eq!(dead(library, "fn main() { m!(used(unused, UNUSED)) }"), [""; 0]);
        assert_eq!(dead("pub fn used() {}", "// used\n/// used\nfn main() { \"used\" }"), ["used"]);
    }

    #[test]
    fn what_is_seen_of_a_living_item_lives() {
        let library = "pub fn open() -> Door { Door } pub struct Door { pub lock: Lock, key: Key }
            pub struct Lock; pub struct Key; pub struct Roof { pub tile: Tile } pub struct Tile;";
        assert_eq!(dead(library, "fn main() { a::open(); }"), ["Key", "Roof", "Tile"]);
    }

    #[test]
    fn methods_are_named_after_a_dot_or_colons() {
        let library =
            "pub struct A; impl A { pub fn one(&self) {} pub fn two() {} pub fn three() {} fn four() {} }
            impl B for A { fn five() {} } struct Private; impl Private { pub fn six() {} }";
        assert_eq!(dead(library, "fn main() { A; a.one(); A::two(); three(); }"), ["A::three"]);
        assert_eq!(
            dead(library, "fn main() { b.one(); B::two(); b.three(); }"),
            ["A", "A::one", "A::two", "A::three"]
        );
    }

    #[test]
    fn private_modules_are_judged_by_what_is_re_exported_of_them() {
        let inner = "mod inner { pub struct Inner; pub struct Hidden; }";
        let library = format!("{inner} pub use inner::Inner; pub use other::Gone as Away;");
        assert_eq!(dead(&library, "fn main() {}"), ["Inner", "Away"]);
        assert_eq!(dead(&library, "fn main() { a::Inner; a::Away }"), [""; 0]);
        assert_eq!(dead(&format!("pub {inner}"), "fn main() { a::inner::Inner }"), ["Hidden"]);
    }

    #[test]
    fn libraries_for_others_and_programs_are_not_judged() {
        let manifest = "[package]\nname = 'headgate-wire'";
        let texts = [
            ("a/Cargo.toml", manifest),
            ("a/src/lib.rs", "pub fn f() {}"),
            ("a/src/main.rs", "pub fn g() {}"),
        ];
        assert_eq!(unnamed_elsewhere(&planted(&texts)), []);
        let ours = [("a/Cargo.toml", "[package]\nname = 'a'"), texts[1], texts[2]];
        assert_eq!(unnamed_elsewhere(&planted(&ours)).len(), 1);
    }
}
