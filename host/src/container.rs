//! Containers: a process with a file system, process ids, and a network of its own, made by an OCI runtime.
//!
//! What is wanted of a container is told in a [`Plan`]; from it comes the runtime's `config.json` (OCI
//! runtime specification 1.0). The runtime starts the container's first process, says which it is, and
//! ends: from then on the process is watched and ended by its descriptor, as any other, and what the
//! runtime leaves (its folder, its control groups) is removed as files are.
//!
//! No process in a container has a capability, but those to its interfaces where it was given a network with
//! some. Its file system is read-only but for empty folders in memory, its network has no interface
//! otherwise, and system calls that only make sense with rights are refused.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::process::{self, Child, Launch, Output, ProcessError};

/// OCI runtimes, the one that is taken first in front.
pub const RUNTIMES: [&str; 2] = ["runc", "crun"];
/// Advice where there is no runtime.
pub const INSTALL: &str = "install an OCI runtime (Debian: apt install runc)";

/// Folders that a file system must have, for what is put there.
const FOLDERS: [&str; 4] = ["proc", "dev", "run", "tmp"];
/// Folders in memory.
const IN_MEMORY: [(&str, &str); 2] = [("/run", "mode=755"), ("/tmp", "mode=1777")];
/// Bytes of each. Our choice: a scratch for small things, not a place for data.
const IN_MEMORY_SIZE: &str = "size=16m";
/// Folders of the machine that a container never sees.
const KEPT_BACK: [&str; 6] = ["proc", "sys", "dev", "run", "tmp", "lost+found"];
/// System calls that are refused (EPERM): without rights they fail anyway, or are the ways to new ones. Our
/// choice, from the profile of the container engines.
const REFUSED_CALLS: [&str; 35] = [
    "acct",
    "add_key",
    "bpf",
    "delete_module",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "quotactl",
    "reboot",
    "request_key",
    "setdomainname",
    "sethostname",
    "setns",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "unshare",
    "userfaultfd",
];
/// The same where the caller is told that there is no such call (ENOSYS), for it has another way: the C
/// library starts threads with `clone` then, whose flags can be looked at.
const UNKNOWN_CALLS: [&str; 1] = ["clone3"];

/// Rights of a container that was given a network: to its interfaces and to raw sockets on them.
const NETWORK_RIGHTS: [&str; 2] = ["CAP_NET_ADMIN", "CAP_NET_RAW"];

/// Error of making or running a container.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// No runtime.
    #[error("there is neither `runc` nor `crun` on this machine: {INSTALL}")]
    NoRuntime,
    /// The file system lacks a folder.
    #[error("{} has no folder `{folder}`, where a container needs one; make an empty one", rootfs.display())]
    Rootfs {
        /// The file system.
        rootfs: PathBuf,
        /// The folder.
        folder: &'static str,
    },
    /// A file of the bundle cannot be written.
    #[error("{}: {source}", path.display())]
    Bundle {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The runtime did not do it.
    #[error("{runtime} made no container: {said}")]
    Refused {
        /// The runtime.
        runtime: &'static str,
        /// Output of the runtime, or the way in which it ended.
        said: String,
    },
    /// A process cannot be started or watched.
    #[error(transparent)]
    Process(#[from] ProcessError),
}

/// Description of a container.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name for the runtime and in its own eyes; also that of its control groups.
    pub name: String,
    /// The command of its first process.
    pub command: Vec<String>,
    /// The whole environment of it.
    pub environment: Vec<(String, String)>,
    /// Its user and group.
    pub user: (u32, u32),
    /// The folder with its file system; `None`: that of the machine.
    pub rootfs: Option<PathBuf>,
    /// Files of the machine that it sees: where they are, and where it sees them.
    pub files: Vec<(PathBuf, PathBuf)>,
    /// The network namespace it is in, as a file, with the rights to that namespace's interfaces; `None`: one
    /// of its own without any interface.
    pub network: Option<PathBuf>,
}

impl Plan {
    /// Writes what the runtime reads into an empty folder.
    ///
    /// # Errors
    /// [`ContainerError`].
    fn write(&self, folder: &Path) -> Result<(), ContainerError> {
        let bundle = |path: &Path| {
            let path = path.to_owned();
            move |source| ContainerError::Bundle { path, source }
        };
        let mut mounts = vec![
            json!({ "destination": "/proc", "type": "proc", "source": "proc",
                    "options": ["nosuid", "noexec", "nodev"] }),
            json!({ "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                    "options": ["nosuid", "noexec", "strictatime", "mode=755", "size=64k"] }),
        ];
        let rootfs = match &self.rootfs {
            Some(rootfs) => {
                for needed in FOLDERS {
                    if !rootfs.join(needed).is_dir() {
                        return Err(ContainerError::Rootfs { rootfs: rootfs.clone(), folder: needed });
                    }
                }
                rootfs.clone()
            }
            None => {
                let root = folder.join("root");
                fs::create_dir(&root).map_err(bundle(&root))?;
                mounts.extend(folders_of_machine(&root).map_err(bundle(&root))?);
                root
            }
        };
        for (folder, mode) in IN_MEMORY {
            mounts.push(json!({ "destination": folder, "type": "tmpfs", "source": "tmpfs",
                "options": ["nosuid", "nodev", mode, IN_MEMORY_SIZE] }));
        }
        for (there, here) in &self.files {
            mounts.push(json!({ "destination": here, "type": "bind", "source": there,
                "options": ["bind", "ro", "nosuid", "nodev"] }));
        }
        let path = folder.join("config.json");
        let text = self.config(&rootfs, &mounts).to_string();
        fs::write(&path, text).map_err(bundle(&path))
    }

    fn config(&self, rootfs: &Path, mounts: &[Value]) -> Value {
        let environment: Vec<String> =
            self.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (uid, gid) = self.user;
        let rights: &[&str] = if self.network.is_some() { &NETWORK_RIGHTS } else { &[] };
        let mut namespaces: Vec<Value> =
            ["pid", "mount", "ipc", "uts"].map(|kind| json!({ "type": kind })).into();
        namespaces.push(match &self.network {
            Some(path) => json!({ "type": "network", "path": path }),
            None => json!({ "type": "network" }),
        });
        json!({
            "ociVersion": "1.0.2",
            "hostname": self.name,
            "process": {
                "terminal": false,
                "user": { "uid": uid, "gid": gid },
                "args": self.command,
                "env": environment,
                "cwd": "/",
                "noNewPrivileges": true,
                "capabilities": { "bounding": rights, "effective": rights, "permitted": rights,
                                  "inheritable": rights, "ambient": rights },
            },
            "root": { "path": rootfs, "readonly": true },
            "mounts": mounts,
            "linux": confined(&self.name, &namespaces),
        })
    }
}

/// What a container shares with the machine, and which calls its processes may not make.
fn confined(name: &str, namespaces: &[Value]) -> Value {
    json!({
        "cgroupsPath": format!("/{name}"),
        "namespaces": namespaces,
        "resources": { "devices": [{ "allow": false, "access": "rwm" }] },
        "maskedPaths": ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/scsi"],
        "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
        "seccomp": {
            "defaultAction": "SCMP_ACT_ALLOW",
            "architectures": ["SCMP_ARCH_X86_64"],
            "syscalls": [
                { "names": REFUSED_CALLS.as_slice(), "action": "SCMP_ACT_ERRNO" },
                { "names": UNKNOWN_CALLS, "action": "SCMP_ACT_ERRNO", "errnoRet": libc::ENOSYS },
            ],
        },
    })
}

/// The machine's own file system, read-only with all that is mounted in it. Its root itself cannot be a
/// container's: `pivot_root` refuses the root that is in force.
fn folders_of_machine(root: &Path) -> io::Result<Vec<Value>> {
    let mut mounts = Vec::new();
    for kept in FOLDERS {
        fs::create_dir(root.join(kept))?;
    }
    // What is in memory has the rights of the folder that it covers.
    fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
    for entry in fs::read_dir("/")? {
        let (name, path) = entry.map(|entry| (entry.file_name(), entry.path()))?;
        let found = fs::symlink_metadata(&path)?;
        if KEPT_BACK.iter().any(|kept| name == *kept) {
            continue;
        }
        if found.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&path)?, root.join(name))?;
        } else if found.is_dir() {
            fs::create_dir(root.join(name))?;
            mounts.push(json!({ "destination": path, "type": "bind", "source": path,
                "options": ["rbind", "rro", "nosuid", "nodev"] }));
        }
    }
    Ok(mounts)
}

/// A container that is being made.
#[derive(Debug)]
pub struct Making {
    runtime: &'static str,
    process: Child,
    folder: PathBuf,
}

/// Returns the arguments with which a runtime makes a container of a bundle.
fn arguments(name: &str, folder: &Path) -> Vec<OsString> {
    let path = |file: &str| folder.join(file).into_os_string();
    [
        "--root".into(),
        path("state"),
        "--log".into(),
        path("log"),
        "--log-format".into(),
        "json".into(),
        "run".into(),
        "--detach".into(),
        "--bundle".into(),
        folder.into(),
        "--pid-file".into(),
        path("pid"),
        name.into(),
    ]
    .into()
}

impl Making {
    /// Starts a container with a runtime. The folder is there, is empty, and is nobody else's; the first
    /// process gets `stdin`, `output` for both of its other streams, which the runtime writes to as well, and
    /// the cores of the calling thread.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub fn start(
        plan: &Plan,
        folder: &Path,
        stdin: OwnedFd,
        output: OwnedFd,
    ) -> Result<Self, ContainerError> {
        let found = RUNTIMES.into_iter().find_map(|name| Some((name, process::find_program(name)?)));
        let (runtime, program) = found.ok_or(ContainerError::NoRuntime)?;
        plan.write(folder)?;
        let (stdout, stderr) =
            Output::both(output).map_err(|source| ProcessError::System { call: "dup", source })?;
        let launch = Launch {
            program,
            arguments: arguments(&plan.name, folder),
            // It looks for programs of its own, and keeps files of its own below what this names.
            environment: vec![
                ("PATH".into(), "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin".into()),
                ("XDG_RUNTIME_DIR".into(), folder.into()),
            ],
            stdin,
            stdout,
            stderr,
        };
        Ok(Self { runtime, process: launch.spawn()?, folder: folder.to_owned() })
    }

    /// The runtime's process.
    pub fn process(&self) -> &Child {
        &self.process
    }

    /// The container, once the runtime has ended.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub fn finish(&mut self) -> Result<Container, ContainerError> {
        let exit = self.process.wait()?;
        if !exit.is_success() {
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            let said = said(&log).unwrap_or_else(|| exit.to_string());
            return Err(ContainerError::Refused { runtime: self.runtime, said });
        }
        let path = self.folder.join("pid");
        let text = fs::read_to_string(&path);
        let text = text.map_err(|source| ContainerError::Bundle { path: path.clone(), source })?;
        let pid = text.trim().parse().ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| ContainerError::Bundle {
            path,
            source: io::Error::other(format!("{text:?} is no process id")),
        })?;
        Ok(Container { pid, pidfd: process::open(pid)? })
    }
}

/// The last message of a runtime's log.
fn said(log: &str) -> Option<String> {
    let entry: Value = serde_json::from_str(log.lines().next_back()?).ok()?;
    Some(entry.get("msg")?.as_str()?.to_owned())
}

/// The first process of a container. With it all others of the container end.
#[derive(Debug)]
pub struct Container {
    pid: Pid,
    pidfd: OwnedFd,
}

impl Container {
    /// Returns the process id here; no other process has it while [`Container::is_alive`].
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns whether the process runs (or is stopped).
    ///
    /// # Errors
    /// [`ProcessError`].
    pub fn is_alive(&self) -> Result<bool, ProcessError> {
        Ok(!process::has_ended(self.pidfd.as_fd())?)
    }

    /// Sends a signal. A process that has ended is no error.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        process::send_signal(self.pidfd.as_fd(), signal)
    }
}

impl AsFd for Container {
    /// The process as a descriptor: readable once it has ended.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

#[cfg(test)]
mod tests;
