//! Users that NFs run as.
//!
//! By default each trust domain has a user of its own, so that an NF can neither signal nor trace one of
//! another domain, nor the manager. Its number is held by a lock for as long as the manager runs
//! ([`headgate_host::users`]).

use std::collections::BTreeMap;
use std::path::PathBuf;

use headgate_host::undo::Action;
use headgate_host::users::UserNumber;
use headgate_session::launch::User as LaunchUser;

use crate::config::User;
use crate::config::model::{Config, Nf};

/// Users of a manager's domains.
#[derive(Default)]
pub struct Users {
    /// Numbers by the name of the domain.
    numbers: BTreeMap<String, UserNumber>,
}

impl Users {
    /// Returns the user and group of an NF. `None`: the manager's own, because only root can change.
    ///
    /// # Errors
    /// A sentence when the configured user does not exist, or no number is free for a domain.
    pub fn of(
        &mut self,
        nf: &Nf,
        config: &Config,
        undo: &mut dyn FnMut(Action),
    ) -> Result<Option<LaunchUser>, String> {
        if nf.user != User::OfDomain {
            return named(nf).map(Some);
        }
        if !headgate_host::credentials::is_root() {
            return Ok(None);
        }
        let domain = &config.domains[nf.domain.index()].name;
        if !self.numbers.contains_key(domain) {
            let number = UserNumber::take(&folder(), &config.manager.name, domain, undo);
            self.numbers.insert(domain.clone(), number.map_err(|error| error.to_string())?);
        }
        let uid = self.numbers[domain].number();
        Ok(Some(LaunchUser { uid, gid: uid }))
    }
}

/// Returns the folder in which the managers of this machine lock their numbers.
fn folder() -> PathBuf {
    headgate_api::place::folder().join("users")
}

/// Returns the user that an NF names.
fn named(nf: &Nf) -> Result<LaunchUser, String> {
    match &nf.user {
        User::OfDomain => Err(format!("nf {:?} names no user", nf.name)),
        User::Id(uid) => Ok(LaunchUser { uid: *uid, gid: group_of(*uid).unwrap_or(*uid) }),
        User::Name(name) => passwd(|fields| fields[0] == name.as_str()).ok_or_else(|| {
            format!("nf {:?}: there is no user {name:?} in /etc/passwd; create it or name another", nf.name)
        }),
    }
}

/// Returns the user whose processes may attach as an NF: the configured one, or the manager's own.
///
/// # Errors
/// A sentence when the configured user does not exist.
pub fn of_attached(nf: &Nf) -> Result<u32, String> {
    match &nf.user {
        User::OfDomain => Ok(rustix::process::geteuid().as_raw()),
        _ => named(nf).map(|user| user.uid),
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
