//! The modules of one target, and the file each lies in.

use std::collections::BTreeMap;

use syn::{Expr, ExprLit, Item, ItemMod, Lit, Meta, UseTree, Visibility};

use crate::source::{SourceFile, is_test_only};

/// Files of the workspace by their path from its root.
pub type Files = BTreeMap<String, SourceFile>;

/// The modules of a library or program; the root is the first.
pub struct Tree<'w> {
    /// All modules, parents before their children.
    pub modules: Vec<Module<'w>>,
}

/// A module: a file, or a block in one.
pub struct Module<'w> {
    /// The file it lies in.
    pub file: &'w SourceFile,
    /// Its items.
    pub items: &'w [Item],
    /// Its place in the tree's list; the root is its own parent.
    pub parent: usize,
    /// Places of the modules in it, by their names.
    pub children: BTreeMap<String, usize>,
    /// Whether other crates reach it by its path.
    pub is_public: bool,
    /// Whether only tests see it.
    pub is_test: bool,
}

/// Folders in which the files of a module's children are searched.
#[derive(Clone)]
struct Nest {
    /// Folder of those found by their names.
    named: String,
    /// Folder of those found by `#[path]`.
    pathed: String,
}

impl Nest {
    /// Returns the folders for a file; `owns` when its children lie beside it (`lib.rs`, `mod.rs`) and not in
    /// a folder of its name.
    fn of(path: &str, owns: bool) -> Self {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let stem = name.strip_suffix(".rs").unwrap_or(name);
        let named = if owns || stem == "mod" { folder.to_owned() } else { join(folder, stem) };
        Self { named, pathed: folder.to_owned() }
    }

    fn inside(&self, name: &str) -> Self {
        Self { named: join(&self.named, name), pathed: join(&self.named, name) }
    }
}

/// Joins a folder and a path relative to it, which may begin with `..`.
fn join(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

impl<'w> Tree<'w> {
    /// Follows the `mod` items from the root file of a target. Files that are missing are left out: the
    /// compiler tells of them.
    pub fn grow(files: &'w Files, root: &str) -> Self {
        let mut tree = Self { modules: Vec::new() };
        if let Some(file) = files.get(root) {
            tree.modules.push(Module::of(file, &file.items, 0, true, file.is_test));
            tree.branch(files, 0, &Nest::of(root, true));
        }
        tree
    }

    fn branch(&mut self, files: &'w Files, at: usize, nest: &Nest) {
        let items = self.modules[at].items;
        for item in items {
            let Item::Mod(child) = item else { continue };
            let name = child.ident.to_string();
            let (file, items, nest) = match &child.content {
                Some((_, items)) => (self.modules[at].file, items.as_slice(), nest.inside(&name)),
                None => match child_file(files, nest, child) {
                    Some((file, nest)) => (file, file.items.as_slice(), nest),
                    None => continue,
                },
            };
            let is_public = self.modules[at].is_public && matches!(child.vis, Visibility::Public(_));
            let is_test = self.modules[at].is_test || is_test_only(&child.attrs);
            let place = self.modules.len();
            self.modules.push(Module::of(file, items, at, is_public, is_test));
            self.modules[at].children.insert(name, place);
            self.branch(files, place, &nest);
        }
    }
}

impl<'w> Module<'w> {
    fn of(file: &'w SourceFile, items: &'w [Item], parent: usize, is_public: bool, is_test: bool) -> Self {
        Self { file, items, parent, children: BTreeMap::new(), is_public, is_test }
    }
}

fn child_file<'w>(files: &'w Files, nest: &Nest, child: &ItemMod) -> Option<(&'w SourceFile, Nest)> {
    if let Some(path) = path_attribute(child) {
        let path = join(&nest.pathed, &path);
        return Some((files.get(&path)?, Nest::of(&path, true)));
    }
    let name = child.ident.to_string();
    let candidates = [format!("{name}.rs"), format!("{name}/mod.rs")];
    let path = candidates
        .iter()
        .map(|relative| join(&nest.named, relative))
        .find(|path| files.contains_key(path))?;
    Some((&files[&path], Nest::of(&path, false)))
}

fn path_attribute(child: &ItemMod) -> Option<String> {
    child.attrs.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) => Some(path.value()),
            _ => None,
        },
        _ => None,
    })
}

/// One name that a `use` brings in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The path as written.
    pub words: Vec<String>,
    /// The name it has here; `None`: all names of the path (`*`).
    pub name: Option<String>,
    /// Line, from 1.
    pub line: usize,
}

/// Returns the names that a `use` brings in.
pub fn imports(tree: &UseTree) -> Vec<Import> {
    let mut found = Vec::new();
    collect(tree, &[], &mut found);
    found
}

fn collect(tree: &UseTree, before: &[String], found: &mut Vec<Import>) {
    let with = |ident: &syn::Ident| {
        let mut words = before.to_vec();
        words.extend((ident != "self" || before.is_empty()).then(|| ident.to_string()));
        words
    };
    match tree {
        UseTree::Path(path) => collect(&path.tree, &with(&path.ident), found),
        UseTree::Name(name) => {
            let words = with(&name.ident);
            let line = name.ident.span().start().line;
            found.push(Import { name: words.last().cloned(), words, line });
        }
        UseTree::Rename(name) => {
            let line = name.ident.span().start().line;
            found.push(Import { words: with(&name.ident), name: Some(name.rename.to_string()), line });
        }
        UseTree::Glob(glob) => {
            let line = glob.star_token.spans[0].start().line;
            found.push(Import { words: before.to_vec(), name: None, line });
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| collect(tree, before, found)),
    }
}
