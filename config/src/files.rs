//! Access to files, the only place of the configuration that has any: reading the file itself, and checking
//! whether the files it names are there.

use std::collections::HashMap;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use headgate_host::process::find_program;

use super::codes::Code;
use super::report::Report;
use super::resolve::{FileUse, Purpose, ToolUse};

/// Longest configuration, in bytes. Our choice: 10,000 chains with their rules are 2 MB; a device file
/// given by mistake has no end.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// Error of reading a file: the byte, the text before it, what is wrong, how to mend it.
pub type FileError = (Option<usize>, String, String, String);

/// The text of the file at `path`.
pub fn read(path: &Path) -> Result<String, FileError> {
    let about_file = |message: String, help: &str| (None, String::new(), message, help.to_owned());
    let mut bytes = Vec::new();
    let result = fs::File::open(path).and_then(|file| file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes));
    if let Err(error) = result {
        let help = match error.kind() {
            ErrorKind::NotFound => "give the path of a configuration; docs/guide/examples has some",
            ErrorKind::PermissionDenied => "make it readable for this user",
            ErrorKind::IsADirectory => "give a file in it",
            _ => "give a file that can be read",
        };
        return Err(about_file(format!("the file cannot be read: {error}"), help));
    }
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        let message = format!("the file is longer than {} MiB", TEXT_BYTES_MAX >> 20);
        return Err(about_file(message, "give a configuration"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
        (Some(at), text, "the file is not UTF-8 text".to_owned(), "save it as UTF-8".to_owned())
    })
}

/// Reports the files and programs that must be there and are not, and files that are one although their names
/// differ.
pub fn check(files: &[FileUse], tools: &[ToolUse], report: &mut Report) {
    refuse_one_by_two_names(files, report);
    for ToolUse { span, programs, any, install } in tools {
        let (_, missing): (Vec<_>, Vec<&str>) =
            programs.iter().partition(|program| find_program(program).is_some());
        if if *any { missing.len() == programs.len() } else { !missing.is_empty() } {
            let (no, between) = if *any { ("neither", "` nor `") } else { ("no", "`, `") };
            let names = missing.join(between);
            let message = format!("there is {no} `{names}` on this machine");
            report.add(Code::ProgramMissing, span, message).label("takes it").help(*install);
        }
    }
    for file in files {
        let shown = file.path.display();
        let folder = file.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let (missing, message) = match file.purpose {
            Purpose::Replay => (!file.path.is_file(), format!("there is no capture `{shown}`")),
            Purpose::Run => (!file.path.is_file(), format!("there is no program `{shown}`")),
            Purpose::Folder => (!file.path.is_dir(), format!("there is no folder `{shown}`")),
            Purpose::Writable => (!file.path.exists(), format!("there is no file or folder `{shown}`")),
            Purpose::Write => (
                folder.is_some_and(|folder| !folder.is_dir()),
                format!("there is no folder to write `{shown}` into"),
            ),
        };
        if missing {
            let help = "relative paths lead from the folder of the configuration";
            report.add(Code::FileMissing, &file.span, message).help(help);
        }
    }
}

/// Identity of a file: its inode when it is there, else its folder's true name and its own.
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    Inode(u64, u64),
    Name(PathBuf),
}

fn identity(path: &Path) -> Option<Identity> {
    match fs::metadata(path) {
        // Devices, such as /dev/null, take what many write.
        Ok(found) => found.is_file().then(|| Identity::Inode(found.dev(), found.ino())),
        Err(_) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
            Some(Identity::Name(folder.join(path.file_name()?)))
        }
    }
}

/// Captures that are one file by a link or a roundabout way. Equal names were seen before.
fn refuse_one_by_two_names(files: &[FileUse], report: &mut Report) {
    let mut seen: HashMap<Identity, Vec<&FileUse>> = HashMap::new();
    for file in files.iter().filter(|file| file.purpose.is_capture()) {
        let Some(identity) = identity(&file.path) else { continue };
        let same = seen.entry(identity).or_default();
        let is_clash = |other: &&&FileUse| {
            other.path != file.path && (other.purpose, file.purpose) != (Purpose::Replay, Purpose::Replay)
        };
        if let Some(first) = same.iter().find(is_clash) {
            let what = if first.purpose == file.purpose { "written twice" } else { "written and read" };
            let (shown, other) = (file.path.display(), first.path.display());
            report
                .add(Code::FileTwice, &file.span, format!("`{shown}` is {what}: it is the file `{other}`"))
                .help("write to another file")
                .beside(first.span.clone(), "the same file");
        }
        same.push(file);
    }
}
