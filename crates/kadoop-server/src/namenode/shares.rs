//! Fair shares of the workers: a user's calls hold at most as many workers as stay free. Calls wait for
//! the log's disk, and one user's calls could otherwise hold all workers and block all other users.

use super::{CLIENT_WORKERS, logins};
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};
use strait_flexrpc::{Reply, Request, Service, stub::ServiceError};

/// A service whose users share its workers. It refuses a call beyond the user's share as Overloaded;
/// clients retry such calls.
pub(super) struct Fair<S> {
    pub service: S,
    pub shares: Shares,
}

impl<S: Service> Service for Fair<S> {
    fn call(&self, request: &Request, reply: &mut Reply) -> Result<(), ServiceError> {
        let _held = self.shares.take(Owner::of(request)).ok_or(ServiceError::Overloaded)?;
        self.service.call(request, reply)
    }
}

/// The user of a call; its host's address, if the call names no user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Owner {
    User(String),
    Host(IpAddr),
}

impl Owner {
    fn of(request: &Request) -> Self {
        let user = match logins::user_of(request) {
            Some(user) => Some(user),
            None => named(request),
        };
        user.map_or_else(|| Self::Host(request.peer.ip().to_canonical()), |user| Self::User(user.into()))
    }
}

/// The user in a call whose arguments begin with a `kd_caller`.
fn named(request: &Request) -> Option<&str> {
    if !matches!(request.procedure.number, 3..=7 | 13..=15 | 18 | 21..=23) {
        return None;
    }
    let (length, rest) = request.args.split_first_chunk::<4>()?;
    std::str::from_utf8(rest.get(..u32::from_be_bytes(*length) as usize)?).ok()
}

/// Number of calls under way for each user.
#[derive(Debug, Default)]
pub(super) struct Shares(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by: HashMap<Owner, usize>,
}

/// A call under way.
struct Held<'a>(&'a Shares, Owner);

impl Shares {
    fn take(&self, owner: Owner) -> Option<Held<'_>> {
        let mut taken = self.taken();
        let own = taken.by.get(&owner).copied().unwrap_or(0);
        if own >= CLIENT_WORKERS.saturating_sub(taken.all) {
            return None;
        }
        taken.all += 1;
        taken.by.insert(owner.clone(), own + 1);
        Some(Held(self, owner))
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut taken = self.0.taken();
        taken.all -= 1;
        if let Some(own) = taken.by.get_mut(&self.1) {
            *own -= 1;
            if *own == 0 {
                taken.by.remove(&self.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_gets_half_of_what_others_leave_and_some_are_always_left() {
        let shares = Shares::default();
        let user = |name: &str| Owner::User(name.into());
        let all = |name: &str| std::iter::from_fn(|| shares.take(user(name))).collect::<Vec<_>>();
        let (first, second, third) = (all("a"), all("b"), all("c"));
        assert_eq!([first.len(), second.len(), third.len()], [128, 64, 32]);
        drop(first);
        assert!(shares.take(user("b")).is_some(), "there is room again");
        drop((second, third));
        assert!(shares.taken().by.is_empty() && shares.taken().all == 0);
    }
}
