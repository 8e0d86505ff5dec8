//! Resolution of paths: the module or file that a name of a crate stands for, through `use` and re-exports.

use std::collections::{BTreeMap, BTreeSet};

use syn::Item;

use crate::tree::{Import, Tree, imports};

/// Names of every module of a tree.
pub struct Names<'t> {
    tree: &'t Tree<'t>,
    modules: Vec<Scope>,
}

/// Names of one module.
#[derive(Default)]
struct Scope {
    items: BTreeSet<String>,
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
}

/// Item that a path stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A module.
    Module(usize),
    /// An item of that module.
    Item(usize),
    /// Something of another crate.
    Outside,
}

/// Largest number of imports that are followed one after another. Our choice: more than any crate here has.
const DEPTH_MAX: usize = 16;

impl<'t> Names<'t> {
    /// Reads the names of a tree.
    pub fn of(tree: &'t Tree<'t>) -> Self {
        Self { tree, modules: tree.modules.iter().map(|module| Scope::of(module.items)).collect() }
    }

    /// Returns what a path written in a module stands for.
    pub fn resolve(&self, module: usize, words: &[String]) -> Target {
        self.follow(module, words, DEPTH_MAX)
    }

    fn follow(&self, module: usize, words: &[String], depth: usize) -> Target {
        let Some((first, rest)) = words.split_first() else { return Target::Outside };
        let start = match first.as_str() {
            "crate" => Target::Module(0),
            "self" => Target::Module(module),
            "super" => Target::Module(self.tree.modules[module].parent),
            // A name that nothing here defines is that of another crate, or the language's own.
            name => self.look_up(module, name, rest.is_empty(), depth).unwrap_or(Target::Outside),
        };
        let step = |target, (at, word): (usize, &String)| match target {
            Target::Item(_) | Target::Outside => target,
            Target::Module(inside) => match word.as_str() {
                "self" => target,
                "super" => Target::Module(self.tree.modules[inside].parent),
                // What a macro made is in no list of ours, but it is an item of that module.
                name => {
                    self.look_up(inside, name, at + 1 == rest.len(), depth).unwrap_or(Target::Item(inside))
                }
            },
        };
        rest.iter().enumerate().fold(start, step)
    }

    fn look_up(&self, module: usize, name: &str, is_last: bool, depth: usize) -> Option<Target> {
        let depth = depth.checked_sub(1)?;
        let scope = &self.modules[module];
        let child = self.tree.modules[module].children.get(name).map(|child| Target::Module(*child));
        let item = || scope.items.contains(name).then_some(Target::Item(module));
        let import = || scope.imports.get(name).map(|words| self.follow(module, words, depth));
        let found =
            if is_last { item().or(child).or_else(import) } else { child.or_else(item).or_else(import) };
        found.or_else(|| scope.globs.iter().find_map(|glob| self.in_glob(module, glob, name, is_last, depth)))
    }

    fn in_glob(
        &self,
        module: usize,
        glob: &[String],
        name: &str,
        is_last: bool,
        depth: usize,
    ) -> Option<Target> {
        match self.follow(module, glob, depth) {
            Target::Module(inside) if inside != module => self.look_up(inside, name, is_last, depth),
            Target::Module(_) | Target::Item(_) | Target::Outside => None,
        }
    }
}

impl Scope {
    fn of(items: &[Item]) -> Self {
        let mut scope = Self::default();
        for item in items {
            if let Item::Use(item) = item {
                imports(&item.tree).into_iter().for_each(|import| scope.import(import));
            }
            scope.items.extend(item_name(item));
        }
        scope
    }

    fn import(&mut self, import: Import) {
        match import.name {
            Some(name) => {
                self.imports.insert(name, import.words);
            }
            None => self.globs.push(import.words),
        }
    }
}

/// Returns the name an item defines, modules and `use` apart.
pub fn item_name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
