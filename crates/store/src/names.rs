//! Users and groups: numbers on this host, names in the store.

use crate::Principal;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The number for names that this host doesn't know: nobody and nogroup.
pub const UNKNOWN: u32 = 65_534;
/// Time for which answers of the host's user database are cached. A new user waits no longer than this.
const LIFETIME: Duration = Duration::from_secs(60);
/// At most this many names are cached. A directory has few owners, but a hostile store may have many.
const MOST: usize = 4_096;

/// Answers of the host's user database.
#[derive(Default)]
pub struct Names {
    users: Mutex<Cache<String, u32>>,
    groups: Mutex<Cache<String, u32>>,
    principals: Mutex<Cache<(u32, Option<u32>), Principal>>,
    /// The store's name for this process's user, and the user's numbers. This host may not know the name.
    own: Option<(String, u32, u32)>,
}

type Cache<K, V> = HashMap<K, (V, Instant)>;

impl Names {
    /// The store's `user` stands for the user of this process, unless this host has a user of that name.
    pub fn new(user: &str) -> Self {
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        Self { own: Some((user.to_owned(), uid, gid)), ..Self::default() }
    }

    /// The number of an owner.
    pub fn uid(&self, name: &str) -> u32 {
        cached(&self.users, &name.to_owned(), || match User::from_name(name) {
            Ok(Some(user)) => user.uid.as_raw(),
            _ => match &self.own {
                Some((own, uid, _)) if own == name => *uid,
                _ => name.parse().unwrap_or(UNKNOWN),
            },
        })
    }

    /// The number of a group.
    pub fn gid(&self, name: &str) -> u32 {
        cached(&self.groups, &name.to_owned(), || match Group::from_name(name) {
            Ok(Some(group)) => group.gid.as_raw(),
            _ => match &self.own {
                Some((own, _, gid)) if own == name => *gid,
                _ => name.parse().unwrap_or(UNKNOWN),
            },
        })
    }

    /// The principal for a user of this host, whose groups the store looks up.
    pub fn user(&self, uid: u32) -> Principal {
        cached(&self.principals, &(uid, None), || Principal::new(&user_name(uid)))
    }

    /// The principal for a process of this host.
    pub fn principal(&self, uid: u32, gid: u32) -> Principal {
        cached(&self.principals, &(uid, Some(gid)), || {
            let user = user_name(uid);
            let mut groups: Vec<String> = vec![group_name(gid)];
            if let Ok(name) = CString::new(user.as_bytes())
                && let Ok(more) = getgrouplist(&name, Gid::from_raw(gid))
            {
                groups.extend(more.into_iter().map(|group| group_name(group.as_raw())));
            }
            groups.dedup();
            Principal { groups: groups.into(), ..Principal::new(&user) }
        })
    }
}

/// A user's name, or the number if the user has none.
pub fn user_name(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

/// A group's name, or the number if the group has none.
pub fn group_name(gid: u32) -> String {
    match Group::from_gid(Gid::from_raw(gid)) {
        Ok(Some(group)) => group.name,
        _ => gid.to_string(),
    }
}

fn cached<K: std::hash::Hash + Eq + Clone, V: Clone>(
    cache: &Mutex<Cache<K, V>>,
    key: &K,
    find: impl FnOnce() -> V,
) -> V {
    let lock = || cache.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((value, at)) = lock().get(key)
        && at.elapsed() < LIFETIME
    {
        return value.clone();
    }
    // Outside the lock: the database may be on another host.
    let value = find();
    let mut cache = lock();
    if cache.len() >= MOST {
        cache.clear();
    }
    cache.insert(key.clone(), (value.clone(), Instant::now()));
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_map_both_ways() {
        let names = Names::new("somebody-elsewhere");
        assert_eq!((names.uid("root"), names.gid("root")), (0, 0));
        assert_eq!((user_name(0), group_name(0)), ("root".to_owned(), "root".to_owned()));
        assert_eq!(names.uid("somebody-elsewhere"), nix::unistd::geteuid().as_raw());
        assert_eq!(names.uid("4711"), 4711);
        assert_eq!(names.uid("no such user"), UNKNOWN);
        assert_eq!(&*names.principal(0, 0).user, "root");
    }
}
