//! The programs under test.

use std::borrow::BorrowMut;
use std::fs::Permissions;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::OnceLock;

use headgate_config::Catalog;
use headgate_host::programs::Program;
use tempfile::TempDir;

/// Returns the folder in which cargo puts the binaries of this build: the folder above the test's own.
///
/// # Panics
/// Panics if this is no test of cargo's.
#[must_use]
pub fn folder() -> PathBuf {
    let this = std::env::current_exe().expect("a process knows its program");
    this.parent().and_then(Path::parent).expect("cargo puts tests in a folder of the build").to_owned()
}

/// Returns the folder of the workspace.
///
/// # Panics
/// Panics if it is gone.
#[must_use]
pub fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the sources are there")
}

/// Runs a command that must succeed. Returns what it printed.
///
/// # Panics
/// Panics if it fails, with all that it said.
pub fn must(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("the program is there");
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}{err}");
    out.into_owned()
}

/// A process that a test started. It is killed when it is dropped, so that a test that fails leaves none.
#[derive(Debug)]
pub struct Running(Option<Child>);

impl Running {
    /// Starts it.
    ///
    /// # Panics
    /// Panics if the program is not there.
    #[must_use]
    pub fn start(mut command: impl BorrowMut<Command>) -> Self {
        let command = command.borrow_mut();
        Self(Some(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"))))
    }

    /// Waits for its end. Returns what it said.
    ///
    /// # Panics
    /// Panics if its streams cannot be read.
    #[must_use]
    pub fn output(mut self) -> Output {
        let child = self.0.take().expect("it is here until its end");
        child.wait_with_output().expect("its streams can be read")
    }
}

impl Deref for Running {
    type Target = Child;
    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it is here until its end")
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it is here until its end")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the program that hosts NFs.
///
/// # Panics
/// Panics if it does not build.
#[must_use]
pub fn nfs() -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    there(Program::Nfs, &BUILT)
}

/// Returns the daemon.
///
/// # Panics
/// Panics if it does not build.
#[must_use]
pub fn manager() -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    there(Program::Manager, &BUILT)
}

/// `cargo test` builds the programs of the packages it tests, so it is mostly there; otherwise it is built
/// now.
fn there(program: Program, built: &OnceLock<()>) -> PathBuf {
    let path = folder().join(program.name());
    if !path.is_file() {
        built.get_or_init(|| build(program.name()));
    }
    assert!(path.is_file(), "{} is still missing after `cargo build`", path.display());
    path
}

/// Returns the catalog of the NFs that the NF program ships.
///
/// # Panics
/// Panics if the program cannot be asked.
#[must_use]
pub fn catalog() -> Catalog {
    Catalog::of(&nfs()).expect("the NF program lists its NFs")
}

/// A copy of a program in a folder that every user may enter, for as long as the folder's value lives.
///
/// # Panics
/// Panics if it cannot be copied.
#[must_use]
pub fn for_everybody(program: &Path) -> (TempDir, PathBuf) {
    let folder = tempfile::Builder::new().prefix("headgate-tests-").tempdir().expect("a folder can be made");
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("the folder is ours");
    let copy = folder.path().join(program.file_name().expect("a program has a name"));
    std::fs::copy(program, &copy).expect("the program can be copied");
    (folder, copy)
}

/// Returns the hostile NF, which is C and knows nothing of our libraries: `tests/hostile`.
///
/// # Panics
/// Panics if it does not compile.
#[must_use]
pub fn hostile() -> PathBuf {
    static COMPILED: OnceLock<()> = OnceLock::new();
    let program = folder().join("hostile-nf");
    COMPILED.get_or_init(|| {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile");
        let sources =
            ["main.c", "foe.c", "memory.c", "machine.c", "processes.c"].map(|name| sources.join(name));
        // Tests of another process may run it meanwhile.
        let fresh = program.with_extension(std::process::id().to_string());
        let compiled = Command::new("cc")
            .args(["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic"])
            .arg(format!("-DABI_VERSION={}", headgate_shm::control::ABI_VERSION))
            .args(sources)
            .arg("-o")
            .arg(&fresh)
            .status()
            .expect("a C compiler runs");
        assert!(compiled.success(), "the hostile NF does not compile");
        std::fs::rename(&fresh, &program).expect("the folder is ours");
    });
    program
}

/// Builds all libraries, programs and examples, and returns where a file of them lies, in the folder of this
/// build. `cargo test --workspace` has built them with the same features, which examples bring in: then
/// nothing is compiled, where a part of the workspace, or programs alone, would be with others, and anew.
///
/// # Panics
/// Panics if they do not build.
#[must_use]
pub fn built(file: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| cargo_build(&["--workspace", "--lib", "--bins", "--examples"]));
    folder().join(file)
}

/// A package has the name of its program.
fn build(package: &str) {
    cargo_build(&["-p", package]);
}

fn cargo_build(what: &[&str]) {
    let folder = folder();
    let target = folder.parent().expect("a profile's folder lies in the target folder");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.arg("build").args(what).arg("--target-dir").arg(target);
    if folder.ends_with("release") {
        command.arg("--release");
    }
    let built = command.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
    assert!(built.success(), "cargo build {} fails", what.join(" "));
}
