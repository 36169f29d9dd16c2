//! Names of users and groups, as the host's databases know them.

use crate::{ErrorKind, Result, fail};
use nix::unistd::{Gid, Group, Uid, User};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a name is kept: a lookup may ask a directory server, an entry a
/// line in a listing; a renamed user shows within a minute.
const KEPT: Duration = Duration::from_secs(60);
/// Names kept of each kind at a time, so that a tree of a million owners takes
/// bounded memory.
const KEPT_NAMES: usize = 10_000;

/// Looks names up, and keeps them for a while.
#[derive(Default)]
pub(super) struct Names {
    users: Mutex<Kept>,
    groups: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    names: HashMap<u32, String>,
    since: Option<Instant>,
}

impl Names {
    /// The user's name; the number where it has none.
    pub(super) fn user(&self, uid: u32) -> String {
        lookup(&self.users, uid, || User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name))
    }

    /// The group's name; the number where it has none.
    pub(super) fn group(&self, gid: u32) -> String {
        lookup(&self.groups, gid, || {
            Group::from_gid(Gid::from_raw(gid)).ok().flatten().map(|group| group.name)
        })
    }
}

/// The number of the user of this name (or of this number, as [`Names::user`]
/// gives where there is no name).
pub(super) fn uid_of(name: &str) -> Result<u32> {
    match User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        _ => number(name, "user"),
    }
}

/// As [`uid_of`], of a group.
pub(super) fn gid_of(name: &str) -> Result<u32> {
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        _ => number(name, "group"),
    }
}

fn number(name: &str, what: &'static str) -> Result<u32> {
    match name.parse() {
        // The kernel's word for "leave it".
        Ok(u32::MAX) | Err(_) => {
            fail(ErrorKind::InvalidArgument, format!("this host knows no {what} {name:?}"))
        }
        Ok(id) => Ok(id),
    }
}

fn lookup(kept: &Mutex<Kept>, id: u32, ask: impl FnOnce() -> Option<String>) -> String {
    let lock = || kept.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    if let Kept { names, since: Some(since) } = &*lock()
        && now.duration_since(*since) < KEPT
        && let Some(name) = names.get(&id)
    {
        return name.clone();
    }
    // Not under the lock: a directory server may take its time.
    let name = ask().unwrap_or_else(|| id.to_string());
    let mut kept = lock();
    let expired = kept.since.is_none_or(|since| now.duration_since(since) >= KEPT);
    if expired || kept.names.len() >= KEPT_NAMES {
        kept.names.clear();
        kept.since = Some(now);
    }
    kept.names.insert(id, name.clone());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_go_both_ways() {
        let names = Names::default();
        assert_eq!(names.user(0), "root");
        assert_eq!(names.user(0), "root", "from memory too");
        assert_eq!(uid_of("root").unwrap(), 0);
        assert_eq!(gid_of(&names.group(0)).unwrap(), 0);
        // Nobody's number: out of every range that distributions hand out.
        assert_eq!(names.user(3_999_999_999), "3999999999");
        assert_eq!(uid_of("3999999999").unwrap(), 3_999_999_999);
        for unknown in ["", "no such user", "4294967295", "-1"] {
            assert_eq!(uid_of(unknown).unwrap_err().kind(), ErrorKind::InvalidArgument, "{unknown}");
        }
    }
}
