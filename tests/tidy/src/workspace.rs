//! The files of the workspace, their packages, and which of them only tests see.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use proc_macro2::TokenStream;
use serde::Deserialize;

use crate::source::{SourceFile, without_tests};
use crate::tree::{Files, Tree};

/// Packages that hold nothing but tests.
const TEST_PACKAGES: &[&str] = &["headgate-tests", "headgate-fuzz"];

/// Every package below one folder, with its Rust files parsed.
pub struct Workspace {
    /// The packages.
    pub packages: Vec<Package>,
    /// The Rust files of all packages.
    pub files: Files,
    /// Texts of C files and headers, by their paths. Only lines are counted of them.
    pub c_files: BTreeMap<String, String>,
}

/// A package of ours.
pub struct Package {
    /// Its name, as in its manifest.
    pub name: String,
    /// Root files of what is not a test: libraries, programs, examples and build scripts, in their usual
    /// places or where a `[[bin]]` says.
    pub roots: Vec<String>,
    /// Folder from the root of the workspace.
    folder: String,
}

/// Reason why the workspace cannot be measured.
#[derive(Debug)]
pub struct TidyError {
    place: String,
    what: String,
}

impl fmt::Display for TidyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.what)
    }
}

impl std::error::Error for TidyError {}

fn error(place: impl fmt::Display, what: impl fmt::Display) -> TidyError {
    TidyError { place: place.to_string(), what: what.to_string() }
}

#[derive(Deserialize)]
struct Manifest {
    package: Option<Named>,
    #[serde(default)]
    bin: Vec<Target>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Target {
    path: Option<String>,
}

impl Workspace {
    /// Reads the workspace that lies in a folder.
    ///
    /// # Errors
    /// Fails if a file cannot be read or is no Rust, or belongs to no target.
    pub fn read(root: &Path) -> Result<Self, TidyError> {
        let mut texts = BTreeMap::new();
        gather(root, "", &mut texts)?;
        Self::of(texts)
    }

    /// Makes a workspace of the texts of its manifests, Rust files and C files, by their paths.
    ///
    /// # Errors
    /// Fails if one is not what its name says, or belongs to no target.
    pub fn of(texts: BTreeMap<String, String>) -> Result<Self, TidyError> {
        let is_manifest = |path: &str| path == "Cargo.toml" || path.ends_with("/Cargo.toml");
        let (c_files, texts): (BTreeMap<_, _>, BTreeMap<_, _>) =
            texts.into_iter().partition(|(path, _)| is_c(path));
        let (manifests, rust): (Vec<_>, Vec<_>) = texts.into_iter().partition(|(path, _)| is_manifest(path));
        let paths: Vec<&str> = rust.iter().map(|(path, _)| path.as_str()).collect();
        let mut packages = Vec::new();
        for (path, text) in manifests {
            let folder = path.strip_suffix("Cargo.toml").unwrap_or_default();
            let manifest: Manifest = toml::from_str(&text).map_err(|why| error(&path, why))?;
            packages.extend(Package::of(folder, manifest, &paths));
        }
        let mut files = Files::new();
        for (path, text) in rust {
            let is_test = is_test(&packages, &path);
            files.insert(path.clone(), parsed(path, text, is_test)?);
        }
        leave_tests_out(&packages, &mut files)?;
        Ok(Self { packages, files, c_files })
    }

    /// Returns the files that are not tests.
    pub fn code(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.values().filter(|file| !file.is_test)
    }
}

impl Package {
    fn of(folder: &str, manifest: Manifest, paths: &[&str]) -> Option<Self> {
        let name = manifest.package?.name;
        let named: Vec<String> = manifest.bin.into_iter().filter_map(|target| target.path).collect();
        let is_root = |rest: &str| {
            let is_program = ["src/bin/", "examples/"].iter().any(|folder| {
                let inside = rest.strip_prefix(folder);
                inside.is_some_and(|inside| !inside.contains('/') || inside.ends_with("/main.rs"))
            });
            is_program
                || ["src/lib.rs", "src/main.rs", "build.rs"].contains(&rest)
                || named.iter().any(|one| one == rest)
        };
        let roots = paths.iter().filter(|path| path.strip_prefix(folder).is_some_and(is_root));
        let roots = roots.map(|path| (*path).to_owned()).collect();
        Some(Self { name, roots, folder: folder.to_owned() })
    }
}

fn is_c(path: &str) -> bool {
    path.ends_with(".c") || path.ends_with(".h")
}

/// Returns whether a file lies where only tests lie.
fn is_test(packages: &[Package], path: &str) -> bool {
    let around = packages.iter().filter(|package| path.starts_with(&package.folder));
    around.max_by_key(|package| package.folder.len()).is_some_and(|package| {
        let rest = &path[package.folder.len()..];
        TEST_PACKAGES.contains(&package.name.as_str())
            || rest.starts_with("tests/")
            || rest.starts_with("benches/")
    })
}

fn parsed(path: String, text: String, is_test: bool) -> Result<SourceFile, TidyError> {
    let line = |span: proc_macro2::Span| format!("{path}:{}", span.start().line);
    let stream: TokenStream =
        text.parse().map_err(|why: proc_macro2::LexError| error(line(why.span()), why))?;
    let items = if is_test {
        Vec::new()
    } else {
        syn::parse2::<syn::File>(stream.clone()).map_err(|why| error(line(why.span()), why))?.items
    };
    Ok(SourceFile { path, text, stream, items, is_test })
}

/// Follows each target's modules; what only tests reach is a test from here on.
fn leave_tests_out(packages: &[Package], files: &mut Files) -> Result<(), TidyError> {
    let mut code = BTreeSet::new();
    let mut tests = BTreeSet::new();
    for root in packages.iter().flat_map(|package| &package.roots) {
        for module in Tree::grow(files, root).modules {
            let seen = if module.is_test { &mut tests } else { &mut code };
            seen.insert(module.file.path.clone());
        }
    }
    for file in files.values_mut().filter(|file| !file.is_test) {
        if code.contains(&file.path) {
            without_tests(&mut file.items);
        } else if tests.contains(&file.path) {
            file.is_test = true;
            file.items.clear();
        } else {
            return Err(error(&file.path, "belongs to no target: declare it with `mod`, or delete it"));
        }
    }
    Ok(())
}

/// Reads manifests, Rust files and C files below a folder, hidden folders and build output apart.
fn gather(root: &Path, folder: &str, texts: &mut BTreeMap<String, String>) -> Result<(), TidyError> {
    let place = root.join(folder);
    for entry in std::fs::read_dir(&place).map_err(|why| error(place.display(), why))? {
        let entry = entry.map_err(|why| error(place.display(), why))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}{name}");
        if entry.path().is_dir() {
            if !name.starts_with('.') && name != "target" {
                gather(root, &format!("{path}/"), texts)?;
            }
        } else if name == "Cargo.toml" || name.ends_with(".rs") || is_c(&name) {
            let text = std::fs::read_to_string(entry.path()).map_err(|why| error(&path, why))?;
            texts.insert(path, text);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::planted;

    const MANIFEST: (&str, &str) =
        ("a/Cargo.toml", "[package]\nname = 'a'\n[[bin]]\nname = 'c'\npath = 'src/c/go.rs'");

    #[test]
    fn code_and_tests_are_told_apart_by_the_modules_that_lead_to_them() {
        let texts = [
            MANIFEST,
            ("a/src/lib.rs", "mod b; #[path = \"../examples/hello.rs\"] mod hello; #[cfg(test)] mod tests;"),
            ("a/src/b.rs", "mod deep { mod er; } #[cfg(test)] #[path = \"b_tests.rs\"] mod tests;"),
            ("a/src/b/deep/er.rs", ""),
            ("a/src/b_tests.rs", ""),
            ("a/src/tests.rs", "mod one;"),
            ("a/src/tests/one.rs", ""),
            ("a/src/c/go.rs", "mod aside;"),
            ("a/src/c/aside.rs", ""),
            ("a/src/bin/d/main.rs", ""),
            ("a/examples/hello.rs", ""),
            ("a/tests/e/main.rs", "this is no item"),
        ];
        let workspace = planted(&texts);
        let code: Vec<&str> = workspace.code().map(|file| file.path.as_str()).collect();
        let own = ["a/src/b.rs", "a/src/b/deep/er.rs", "a/src/bin/d/main.rs"];
        let others = ["a/src/c/aside.rs", "a/src/c/go.rs", "a/src/lib.rs"];
        assert_eq!(code, [&["a/examples/hello.rs"][..], &own, &others].concat());
        assert_eq!(workspace.files.len(), texts.len() - 1);
    }

    #[test]
    fn what_cannot_be_measured_is_an_error_with_its_place() {
        let told = |path: &str, text: &str| {
            let texts = [MANIFEST, ("a/src/lib.rs", ""), (path, text)];
            let texts = texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
            Workspace::of(texts.collect()).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(told("a/src/lost.rs", "").starts_with("a/src/lost.rs: belongs to no target"));
        assert!(told("a/src/lib.rs", "fn f() {}\nfn g( {}").starts_with("a/src/lib.rs:2: "));
        assert!(told("a/src/lib.rs", "fn f() {}\nfn").starts_with("a/src/lib.rs:"));
        assert!(told("b/Cargo.toml", "[package").starts_with("b/Cargo.toml: "));
    }
}
