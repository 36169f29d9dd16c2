//! Principals as callers of the namenode.

use nix::unistd::{Gid, Group, User, getgrouplist};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use strait_kadoop_core::messages::{Caller, Session};
use strait_store::{Principal, SessionSecret};

/// Time for which a user's groups stay cached (HDFS: `hadoop.security.groups.cache.secs`).
const REMEMBERED: Duration = Duration::from_secs(300);
/// Number of users whose groups are cached. A full cache is emptied.
const MAX_USERS: usize = 10_000;

/// A cache of users' groups. Kadoop trusts a client that has its key to name them. If a principal has no
/// groups, they come from this host's user database.
#[derive(Debug, Default)]
pub struct Callers {
    known: Mutex<HashMap<String, (Instant, Vec<String>)>>,
}

impl Callers {
    /// Converts a principal to Kadoop's caller. May block, to query the user database.
    pub(super) fn of(&self, who: &Principal) -> Caller {
        let groups = if who.groups.is_empty() { self.groups(&who.user) } else { who.groups.to_vec() };
        Caller {
            user: (&*who.user).into(),
            groups: groups.iter().map(|group| group.as_str().into()).collect(),
            session: who.session.map(|SessionSecret(secret)| Session(secret)),
        }
    }

    /// A user's groups in this host's user database. May block.
    pub fn groups(&self, user: &str) -> Vec<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, groups)) = known.get(user)
            && since.elapsed() < REMEMBERED
        {
            return groups.clone();
        }
        drop(known);
        let groups = look_up(user).unwrap_or_default();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_USERS {
            known.clear();
        }
        known.insert(user.to_owned(), (Instant::now(), groups.clone()));
        groups
    }
}

/// None if this host doesn't know the user.
fn look_up(user: &str) -> Option<Vec<String>> {
    let primary = User::from_name(user).ok()??.gid;
    let all = getgrouplist(&CString::new(user).ok()?, primary).ok()?;
    let name = |gid: Gid| Some(Group::from_gid(gid).ok()??.name);
    Some(all.into_iter().filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_the_principals_own_or_else_the_hosts() {
        let callers = Callers::default();
        let told = Principal { user: "root".into(), groups: ["staff".to_owned()].into(), session: None };
        assert_eq!(callers.of(&told).groups, ["staff"]);
        let root = callers.of(&Principal::new("root"));
        assert_eq!((root.user.as_str(), root.groups.contains(&"root".into())), ("root", true));
        assert!(callers.of(&Principal::new("no-such-user")).groups.is_empty());
    }
}
