//! The only place of the configuration that touches the file system: reading the file itself, and
//! looking whether the files it names are there.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use super::codes::Code;
use super::report::Report;
use super::resolve::{FileUse, Purpose};

/// Longest configuration, in bytes. Our choice: 10,000 chains with their rules are 2 MB; a device file
/// given by mistake has no end.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// Why a file could not be read: the byte, the text before it, what is wrong, how to mend it.
pub type Unreadable = (Option<usize>, String, String, String);

/// The text of the file at `path`.
pub fn read(path: &Path) -> Result<String, Unreadable> {
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

/// Reports the files that must be there and are not.
pub fn check(files: &[FileUse], report: &mut Report) {
    for file in files {
        let shown = file.path.display();
        let folder = file.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let (missing, message) = match file.purpose {
            Purpose::Replay => (!file.path.is_file(), format!("there is no capture `{shown}`")),
            Purpose::Run => (!file.path.is_file(), format!("there is no program `{shown}`")),
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
