//! The API that NFs are written against, in Rust and in C, beside committed listings: `tests/api` has one for
//! each crate that is published, and one for the C library. A change of it cannot go unnoticed: it is a
//! difference that its author commits, and CONTRIBUTING.md says what it means for the version.
//!
//! The listing of a crate is made of rustdoc's JSON, whose format each version of Rust may change. rustdoc
//! writes it for the one process that asks (`RUSTC_BOOTSTRAP`), so no nightly toolchain is needed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use headgate_tests::machine::skip;
use headgate_tests::programs::{self, must, top};
use quote::ToTokens;
use serde_json::Value as Json;

/// The format of rustdoc's JSON that `public-api` reads: the last version of Rust that is known to write it.
const FORMAT: u64 = 57;
/// Set where a test that cannot be run is to fail.
const MUST: &str = "HEADGATE_API_MUST";
const UPDATE: &str = "HEADGATE_UPDATE_SNAPSHOTS";

/// Returns the lines in which a listing differs from the committed one of this name.
fn changes(name: &str, now: &BTreeSet<String>) -> String {
    let path = top().join("tests/api").join(format!("{name}.txt"));
    if std::env::var_os(UPDATE).is_some() {
        let text: String = now.iter().map(|line| format!("{line}\n")).collect();
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return String::new();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let committed: BTreeSet<String> = committed.lines().map(str::to_owned).collect();
    let gone = committed.difference(now).map(|line| format!("- {line}\n"));
    let new = now.difference(&committed).map(|line| format!("+ {line}\n"));
    let changes: String = gone.chain(new).collect();
    if changes.is_empty() { changes } else { format!("tests/api/{name}.txt:\n{changes}") }
}

fn assert_none(changes: &str) {
    assert!(
        changes.is_empty(),
        "the public API is another one:\n{changes}\
         If that is meant, accept it and commit the difference:\n  \
         {UPDATE}=1 cargo test -p headgate-tests --test public_api\n\
         A line with - breaks those who use it: CONTRIBUTING.md, \"A public API\"."
    );
}

/// Returns the names of the packages that are published.
fn published() -> Vec<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(top());
    let metadata: Json = serde_json::from_str(&must(&mut cargo)).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    // `publish` is null where it may be published anywhere, and a list of registries otherwise.
    let published = packages.iter().filter(|package| package["publish"].is_null());
    published.map(|package| package["name"].as_str().unwrap().to_owned()).collect()
}

/// Has rustdoc describe packages with all their features, and returns the folder with a file of each.
fn described(packages: &[String]) -> PathBuf {
    let target = programs::folder().join("api");
    fs::create_dir_all(&target).unwrap();
    let rustdoc = target.join("rustdoc");
    fs::write(&rustdoc, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n").unwrap();
    fs::set_permissions(&rustdoc, fs::Permissions::from_mode(0o755)).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["doc", "--quiet", "--offline", "--no-deps", "--all-features", "--target-dir"]).arg(&target);
    cargo.args(packages.iter().flat_map(|name| ["--package", name])).current_dir(top());
    cargo.env("RUSTDOC", rustdoc);
    cargo.env("RUSTDOCFLAGS", "-Zunstable-options --output-format=json --cap-lints=allow");
    must(&mut cargo);
    target.join("doc")
}

/// Returns the public items of a package that is described there; what every type has is left out, but
/// whether it may be sent and shared.
fn items(folder: &Path, package: &str) -> BTreeSet<String> {
    let json = folder.join(package.replace('-', "_")).with_extension("json");
    let api = public_api::Builder::from_rustdoc_json(&json).omit_blanket_impls(true).build();
    let api = api.unwrap_or_else(|error| panic!("{}: {error}", json.display()));
    let lines = api.items().map(|item| item.to_string());
    lines.filter(|line| !is_automatic(line)).collect()
}

/// Returns whether a line says of a type that it has one of the traits that the compiler gives types by
/// itself, those apart that others count on.
fn is_automatic(line: &str) -> bool {
    let traits = [
        "core::marker::Freeze",
        "core::marker::Unpin",
        "core::marker::UnsafeUnpin",
        "core::panic::unwind_safe::RefUnwindSafe",
        "core::panic::unwind_safe::UnwindSafe",
    ];
    line.starts_with("impl") && traits.iter().any(|name| line.contains(&format!("{name} for ")))
}

/// Returns the format of rustdoc's JSON in a folder.
fn format_in(folder: &Path) -> u64 {
    let first = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let json =
        first.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "json")).unwrap();
    let json: Json = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    json["format_version"].as_u64().unwrap()
}

#[test]
fn the_crates_for_authors_have_the_api_that_is_committed() {
    const TEST: &str = "the_crates_for_authors_have_the_api_that_is_committed";
    let packages = published();
    assert!(packages.contains(&"headgate-nf".to_owned()), "{packages:?}");
    let folder = described(&packages);
    let format = format_in(&folder);
    if format != FORMAT {
        let why = format!(
            "rustdoc writes format {format} here and `public-api` of Cargo.lock reads {FORMAT}: run it with Rust {}, \
             or `cargo update -p public-api` and change FORMAT",
            env!("CARGO_PKG_RUST_VERSION")
        );
        assert!(std::env::var_os(MUST).is_none(), "{why}");
        return skip(TEST, &why);
    }
    let all: String = packages.iter().map(|package| changes(package, &items(&folder, package))).collect();
    assert_none(&all);
}

/// Returns what the headers declare, as a compiler of C sees it, with sizes and offsets; the bodies of inline
/// functions are left out, and so are comments.
fn declarations() -> BTreeSet<String> {
    let folder = top().join("abi");
    let mut builder = bindgen::Builder::default();
    for header in ["headgate_nf.h", "headgate_wire.h"] {
        builder = builder.header(folder.join(header).display().to_string());
    }
    let bindings = builder
        .allowlist_item("(hg|HG)_.*")
        .generate_comments(false)
        .derive_copy(false)
        .derive_debug(false)
        .generate_inline_functions(true)
        .generate()
        .unwrap_or_else(|error| panic!("the headers: {error}"));
    let file = syn::parse_file(&bindings.to_string()).expect("bindgen writes Rust");
    file.items.iter().flat_map(lines_of).collect()
}

/// Returns an item in one line; functions of an `extern` block, and sizes and offsets that belong to one
/// struct, in one each.
fn lines_of(item: &syn::Item) -> Vec<String> {
    fn all<T: ToTokens>(parts: &[T]) -> Vec<String> {
        parts.iter().map(|part| part.to_token_stream().to_string()).collect()
    }
    match item {
        syn::Item::ForeignMod(block) => all(&block.items),
        syn::Item::Const(constant) => match &*constant.expr {
            syn::Expr::Block(block) => all(&block.block.stmts),
            _ => all(&[item]),
        },
        item => all(&[item]),
    }
}

/// Returns the macros of the headers, whose values are not all declarations to a compiler.
fn macros() -> BTreeSet<String> {
    let headers = ["headgate_nf.h", "headgate_files.h", "headgate_wire.h"];
    let text = headers.map(|header| fs::read_to_string(top().join("abi").join(header)).unwrap()).concat();
    let lines = text.lines().filter(|line| line.starts_with("#define HG_") && !line.contains("HG_ASSERT"));
    // Without the comment behind it.
    lines.map(|line| line.split("/*").next().unwrap().trim().to_owned()).collect()
}

/// Returns what programs find in the shared library.
fn symbols() -> BTreeSet<String> {
    let library = programs::built("libheadgate_abi.so");
    let listed =
        must(Command::new("nm").args(["--dynamic", "--defined-only", "--format=posix"]).arg(library));
    let name = |line: &str| line.split(' ').next().unwrap().to_owned();
    listed.lines().map(name).collect()
}

#[test]
fn the_library_for_c_has_the_api_that_is_committed() {
    let symbols = symbols();
    assert!(symbols.iter().all(|name| name.starts_with("hg_")), "the library exports more: {symbols:?}");
    let symbols: BTreeSet<String> = symbols.iter().map(|name| format!("symbol {name}")).collect();
    let now = [declarations(), macros(), symbols].into_iter().flatten().collect();
    assert_none(&changes("c", &now));
}
