//! The C library as C programmers use it: installed, and compiled against as `pkg-config` says.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

pub const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

pub fn must(command: &mut Command) {
    let (code, out, err) = run(command);
    assert_eq!(code, 0, "{command:?}\n{out}{err}");
}

/// An installation by the Makefile: header, libraries, pkg-config file.
pub fn installed() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let libraries = std::env::current_exe().unwrap().parent().unwrap().display().to_string();
    let prefix = folder.path().display();
    must(Command::new("make").args(["-s", "-C"]).arg(root()).args([
        format!("LIBRARIES={libraries}"),
        format!("PREFIX={prefix}"),
        "install".to_owned(),
    ]));
    folder
}

/// Compiles a C file against the installation, as `pkg-config` says.
pub fn compiled(installation: &Path, source: &Path, linking: Linking) -> PathBuf {
    let program = installation.join(source.file_stem().unwrap());
    let mut ask = Command::new("pkg-config");
    ask.env("PKG_CONFIG_PATH", installation.join("lib/pkgconfig")).args([
        "--cflags",
        "--libs",
        "headgate_nf",
    ]);
    if linking == Linking::Static {
        ask.arg("--static");
    }
    let (code, flags, err) = run(&mut ask);
    assert_eq!(code, 0, "{err}");
    let mut command = Command::new("cc");
    command.arg("-O2").args(WARNINGS).arg(source).args(flags.split_whitespace()).arg("-o").arg(&program);
    must(match linking {
        Linking::Static => command.arg("-static"),
        Linking::Shared => command.arg(format!("-Wl,-rpath,{}", installation.join("lib").display())),
    });
    program
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Linking {
    Shared,
    Static,
}
