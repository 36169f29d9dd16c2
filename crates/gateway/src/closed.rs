//! Sessions that were closed before their tokens expired. Such a token no longer opens a session.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The user who closed a session. None stands for all clients without a login.
type Owner = Option<Arc<str>>;

/// The numbers of closed sessions, kept until their tokens have expired. A user may hold as many places
/// as are free, so at most half of all. A further number displaces that user's oldest, never one of
/// another user.
pub struct Closed {
    known: HashSet<u128>,
    /// Oldest first; all are kept for the same time.
    by_owner: HashMap<Owner, VecDeque<(Instant, u128)>>,
    keep: Duration,
    limit: usize,
}

impl Closed {
    /// Remembers each number for `keep`, and at most `limit` numbers in all. Beyond the limit, each user
    /// still has one place.
    pub fn new(keep: Duration, limit: usize) -> Self {
        Self { known: HashSet::new(), by_owner: HashMap::new(), keep, limit }
    }

    /// Whether this session was closed.
    pub fn contains(&self, id: u128) -> bool {
        self.known.contains(&id)
    }

    /// Remembers a closed session.
    pub fn add(&mut self, owner: Option<&str>, id: u128, now: Instant) {
        if self.known.contains(&id) {
            return;
        }
        if self.known.len() >= self.limit {
            self.forget_expired(now);
        }
        let room = self.limit.saturating_sub(self.known.len());
        let own = self.by_owner.entry(owner.map(Into::into)).or_default();
        own.push_back((now, id));
        self.known.insert(id);
        while own.len() > room.max(1) {
            let Some((_, oldest)) = own.pop_front() else { break };
            self.known.remove(&oldest);
        }
    }

    fn forget_expired(&mut self, now: Instant) {
        self.by_owner.retain(|_, own| {
            let expired = own.iter().take_while(|(since, _)| now.duration_since(*since) > self.keep).count();
            for (_, id) in own.drain(..expired) {
                self.known.remove(&id);
            }
            !own.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_secs(10);

    #[test]
    fn one_is_remembered_until_its_token_has_expired_and_others_need_its_place() {
        let (mut closed, start) = (Closed::new(KEEP, 4), Instant::now());
        for (second, id) in [(0, 1), (9, 2), (9, 3)] {
            closed.add(Some("ada"), id, start + Duration::from_secs(second));
        }
        assert!(!closed.contains(1) && closed.contains(2) && closed.contains(3), "half of the places");
        closed.add(Some("bob"), 4, start + Duration::from_secs(9));
        closed.add(Some("eve"), 5, start + Duration::from_secs(9));
        closed.add(Some("eve"), 6, start + Duration::from_secs(20));
        assert!(!closed.contains(2) && closed.contains(6));
    }

    #[test]
    fn one_user_closing_many_forgets_only_its_own() {
        let (mut closed, now) = (Closed::new(KEEP, 100), Instant::now());
        closed.add(Some("ada"), 0, now);
        for id in 1..10_000 {
            closed.add(None, id, now);
        }
        for id in 10_000..20_000 {
            closed.add(Some("eve"), id, now);
        }
        assert!(closed.contains(0) && closed.known.len() <= 100);
        closed.add(Some("bob"), 20_000, now);
        assert!(closed.contains(20_000), "a newcomer finds room");
        for id in 20_001..20_200 {
            closed.add(Some(&id.to_string()), id, now);
        }
        assert!(closed.contains(0) && closed.known.len() <= 300, "each has one");
    }
}
