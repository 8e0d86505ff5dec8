//! Whom an NF runs as.
//!
//! By default each trust domain has a user of its own, so that an NF can neither signal nor trace one of
//! another domain, nor the manager. The numbers need no entry in `/etc/passwd`; they lie where neither
//! people nor systemd's dynamic users (61184-65519) nor containers' subordinate users usually are.

use headgate_session::launch::User as LaunchUser;

use crate::config::User;
use crate::config::model::{Config, Nf};

/// First number: "hg" in ASCII, shifted up. 256 managers of one machine with 256 domains each.
const FIRST: u32 = 0x6867_0000;

/// The user and group of an NF. `None`: nobody else than the manager's own, because only root can change.
///
/// # Errors
/// A sentence when the configured user does not exist or only root could become it.
pub fn of(nf: &Nf, config: &Config, root: bool) -> Result<Option<LaunchUser>, String> {
    match &nf.user {
        User::OfDomain if !root => Ok(None),
        User::OfDomain => {
            let manager =
                config.manager.name.bytes().fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte));
            let uid = FIRST | u32::from(manager) << 8 | u32::from(nf.domain.0 & 0xff);
            Ok(Some(LaunchUser { uid, gid: uid }))
        }
        User::Id(uid) => Ok(Some(LaunchUser { uid: *uid, gid: group_of(*uid).unwrap_or(*uid) })),
        User::Name(name) => {
            let found = passwd(|fields| fields[0] == name.as_str());
            found.map(Some).ok_or_else(|| {
                format!(
                    "nf {:?}: there is no user {name:?} in /etc/passwd; create it or name another",
                    nf.name
                )
            })
        }
    }
}

/// The user whose processes may attach as an NF: the configured one, or the manager's own.
///
/// # Errors
/// A sentence when the configured user does not exist.
pub fn of_attached(nf: &Nf, config: &Config) -> Result<u32, String> {
    match &nf.user {
        User::OfDomain => Ok(rustix::process::geteuid().as_raw()),
        _ => of(nf, config, true).map(|user| user.map_or(u32::MAX, |user| user.uid)),
    }
}

fn group_of(uid: u32) -> Option<u32> {
    passwd(|fields| fields[2].parse() == Ok(uid)).map(|user| user.gid)
}

fn passwd(matches: impl Fn(&[&str]) -> bool) -> Option<LaunchUser> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut users = text.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let fields = users.find(|fields| fields.len() >= 4 && matches(fields))?;
    Some(LaunchUser { uid: fields[2].parse().ok()?, gid: fields[3].parse().ok()? })
}
