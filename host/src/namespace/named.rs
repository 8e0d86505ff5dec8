//! Network namespaces with a name, as ip-netns(8) makes them: a file on which the namespace is mounted.
//!
//! Unlike those without a name they outlive all who use them, so each is to be registered as
//! [`RemoveNamespace`](crate::undo::Action::RemoveNamespace) before it is made.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{Namespace, NamespaceError, OWN_NAMESPACE};

/// Folder of the files (ip-netns(8)).
pub const FOLDER: &str = "/run/netns";

/// Returns the file of the namespace with a name.
#[must_use]
pub fn file_of(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// Makes an empty namespace with its loopback switched on, by this name. `before` is told its file before it
/// is there, and only where nobody else has the name.
///
/// # Errors
/// [`NamespaceError`]; that there is one of this name already is one.
pub fn make(name: &str, before: &mut dyn FnMut(PathBuf)) -> Result<Namespace, NamespaceError> {
    let refused = |source| NamespaceError::System { doing: "name", source };
    let path = file_of(name);
    fs::create_dir_all(FOLDER).map_err(refused)?;
    let mut options = OpenOptions::new();
    // The name belongs to the process that makes the file.
    options.read(true).write(true).create_new(true).mode(0o444).open(&path).map_err(refused)?;
    before(path.clone());
    let namespace = Namespace::new()?;
    namespace.run(|| mount(Path::new(OWN_NAMESPACE), &path))?.map_err(refused)?;
    Ok(namespace)
}

/// Opens the namespace with a name.
///
/// # Errors
/// [`NamespaceError`].
pub fn open(name: &str) -> Result<Namespace, NamespaceError> {
    let file =
        File::open(file_of(name)).map_err(|source| NamespaceError::System { doing: "enter", source })?;
    Ok(Namespace { descriptor: file.into() })
}

/// Takes a name away. The namespace is gone when nobody uses it any more.
///
/// # Errors
/// The kernel's; one that is not there counts as removed.
pub fn remove(path: &Path) -> io::Result<()> {
    let target = text_of(path)?;
    // SAFETY: a text that ends in zero.
    let refused = unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) };
    // The file alone is what is left of one that was not mounted yet (EINVAL), or none is (ENOENT).
    let error = io::Error::last_os_error();
    if refused != 0 && !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) {
        return Err(error);
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn mount(source: &Path, target: &Path) -> io::Result<()> {
    let (source, target) = (text_of(source)?, text_of(target)?);
    let (kind, data) = (c"none".as_ptr(), std::ptr::null());
    // SAFETY: texts that end in zero, and no data.
    let refused = unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, libc::MS_BIND, data) };
    if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn text_of(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_once_and_leaves_nothing() {
        let name = format!("hg-test-{}", std::process::id());
        let mut told = Vec::new();
        let made = match make(&name, &mut |path| told.push(path)) {
            Err(NamespaceError::NotPermitted { .. }) => return eprintln!("skipped: not root"),
            Err(NamespaceError::System { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                return eprintln!("skipped: not root");
            }
            made => made.unwrap(),
        };
        assert_eq!(told, [file_of(&name)]);
        made.links().unwrap().set_down("lo").unwrap();
        let opened = open(&name).unwrap();
        assert!(!opened.links().unwrap().find("lo").unwrap().is_up, "it is the same namespace");
        let again = make(&name, &mut |_| panic!("nothing of another is registered"));
        assert!(matches!(again, Err(NamespaceError::System { doing: "name", .. })), "{:?}", again.err());
        for _ in 0..2 {
            remove(&file_of(&name)).unwrap();
        }
        assert!(!file_of(&name).exists() && open(&name).is_err());
    }
}
