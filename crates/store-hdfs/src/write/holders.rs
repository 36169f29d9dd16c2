//! The lease holders of a store, one for each user and each session.

use super::super::by_user::ByUser;
use super::super::namenode::Namenode;
use super::holder::LeaseHolder;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use strait_store::{Principal, SessionSecret};

/// Number of users' holders that are kept. With more users at a time, some calls need a new connection, which
/// costs some hundred microseconds.
const MAX_HOLDERS: usize = 256;

/// The cache searches for sessions without files when it has this many more sessions than twice those that
/// had files at the previous search. Because of the factor, a search costs constant time per new session.
const IDLE_SESSIONS: usize = 256;

/// The holders, by user and session.
#[derive(Debug, Default)]
pub struct Holders(Mutex<Cache>);

#[derive(Debug)]
struct Cache {
    users: ByUser<Arc<LeaseHolder>>,
    sessions: HashMap<(String, SessionSecret), Arc<LeaseHolder>>,
    /// The number of sessions that had files at the previous search.
    with_files: usize,
}

impl Holders {
    pub fn get(&self, namenode: &Arc<Namenode>, who: &Principal) -> Arc<LeaseHolder> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match who.session {
            None => cache.of_user(namenode, &who.user),
            Some(secret) => cache.of_session(namenode, &who.user, secret),
        }
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self { users: ByUser::new(MAX_HOLDERS), sessions: HashMap::new(), with_files: 0 }
    }
}

impl Cache {
    fn of_session(
        &mut self,
        namenode: &Arc<Namenode>,
        user: &str,
        secret: SessionSecret,
    ) -> Arc<LeaseHolder> {
        let key = (user.to_owned(), secret);
        if let Some(holder) = self.sessions.get(&key) {
            return Arc::clone(holder);
        }
        let holder = Arc::new(self.of_user(namenode, user).of_session(&secret));
        if self.sessions.len() >= IDLE_SESSIONS + 2 * self.with_files {
            self.sessions.retain(|_, holder| Arc::strong_count(holder) > 1);
            self.with_files = self.sessions.len();
        }
        self.sessions.insert(key, Arc::clone(&holder));
        holder
    }

    fn of_user(&mut self, namenode: &Arc<Namenode>, user: &str) -> Arc<LeaseHolder> {
        let make = || Ok::<_, Infallible>(Arc::new(LeaseHolder::new(Arc::clone(namenode), user)));
        let Ok(holder) = self.users.get_or_make(user, make);
        holder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_without_files_go_and_those_with_files_stay() {
        let (holders, namenode) =
            (Holders::default(), Arc::new(Namenode::new(vec!["127.0.0.1:1".to_owned()])));
        let holder = |number: u32| {
            let mut secret = [0; 32];
            secret[..4].copy_from_slice(&number.to_le_bytes());
            holders.get(
                &namenode,
                &Principal { session: Some(SessionSecret(secret)), ..Principal::new("alice") },
            )
        };
        let with_file = holder(0);
        for number in 1..10_000 {
            holder(number);
            let known = holders.0.lock().unwrap().sessions.len();
            assert!(known <= IDLE_SESSIONS + 2, "{known} sessions");
        }
        assert_eq!(with_file.name(), holder(0).name());
    }
}
