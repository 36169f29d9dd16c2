//! Names of users and groups, from the host's databases.

use crate::{ErrorKind, Result, fail};
use nix::unistd::{Gid, Group, Uid, User};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time for which a name is cached. Without the cache, each line of a listing may need a lookup at a
/// directory server. A renamed user shows within a minute.
const KEPT: Duration = Duration::from_secs(60);
/// Cached names of each kind, so that a tree of a million owners takes bounded memory.
const KEPT_NAMES: usize = 10_000;

/// Looks names up, and caches them for a while.
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
    /// The user's name, or the number if it has none.
    pub(super) fn user(&self, uid: u32) -> String {
        lookup(&self.users, uid, || User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name))
    }

    /// The group's name, or the number if it has none.
    pub(super) fn group(&self, gid: u32) -> String {
        lookup(&self.groups, gid, || {
            Group::from_gid(Gid::from_raw(gid)).ok().flatten().map(|group| group.name)
        })
    }
}

/// The number of the user with this name. If there is none, `name` may be a number, as [`Names::user`]
/// returns it for a user without a name.
pub(super) fn uid_of(name: &str) -> Result<u32> {
    match User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        _ => number(name, "user"),
    }
}

/// As [`uid_of`], for a group.
pub(super) fn gid_of(name: &str) -> Result<u32> {
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        _ => number(name, "group"),
    }
}

fn number(name: &str, what: &'static str) -> Result<u32> {
    match name.parse() {
        // For the kernel, this number means "leave it".
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
    // Not under the lock: a directory server may be slow.
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
        // A number without a user: outside of all ranges that distributions assign.
        assert_eq!(names.user(3_999_999_999), "3999999999");
        assert_eq!(uid_of("3999999999").unwrap(), 3_999_999_999);
        for unknown in ["", "no such user", "4294967295", "-1"] {
            assert_eq!(uid_of(unknown).unwrap_err().kind(), ErrorKind::InvalidArgument, "{unknown}");
        }
    }
}
