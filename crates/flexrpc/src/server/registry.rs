//! A server's programs: several, in several versions each (section IV.C).
//!
//! Each thread remembers its latest search. Otherwise every call would take a read lock and a
//! reference, and both write to shared memory. Moving those cache lines between busy threads costs
//! more than the search.

use crate::proto::ids::Procedure;
use crate::proto::status::Refusal;
use crate::server::service::Service;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

pub(crate) struct Registry {
    programs: RwLock<HashMap<u32, Versions>>,
    /// A number that no other registry has. Every change of the registry draws a new one.
    edition: AtomicU64,
}

type Versions = BTreeMap<u32, Arc<dyn Service>>;

/// The next edition of any registry.
static EDITIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// This thread's latest search.
    static LAST: Cell<Option<Entry>> = const { Cell::new(None) };
}

/// The service for a program and version, in one edition of a registry.
struct Entry {
    edition: u64,
    program: u32,
    version: u32,
    service: Arc<dyn Service>,
}

/// Forgets this thread's latest search. Call it before a long sleep, so that a replaced service can
/// be dropped.
pub(crate) fn forget_last() {
    drop(LAST.take());
}

fn next_edition() -> u64 {
    EDITIONS.fetch_add(1, Ordering::Relaxed)
}

impl Default for Registry {
    fn default() -> Self {
        Self { programs: RwLock::default(), edition: AtomicU64::new(next_edition()) }
    }
}

impl Registry {
    /// Adds a program's version, or replaces it.
    pub(crate) fn register(&self, program: u32, version: u32, service: Arc<dyn Service>) {
        let mut programs = self.programs.write().unwrap_or_else(PoisonError::into_inner);
        programs.entry(program).or_default().insert(version, service);
        self.edition.store(next_edition(), Ordering::Release);
    }

    /// All programs, in all their versions.
    pub(crate) fn programs(&self) -> Vec<(u32, u32)> {
        let programs = self.programs.read().unwrap_or_else(PoisonError::into_inner);
        let versions = |(program, versions): (&u32, &Versions)| {
            versions.keys().map(|version| (*program, *version)).collect::<Vec<_>>()
        };
        programs.iter().flat_map(versions).collect()
    }

    /// Calls `call` with the service of that program and version.
    pub(crate) fn with<T>(
        &self,
        procedure: Procedure,
        call: impl FnOnce(&dyn Service) -> T,
    ) -> Result<T, Refusal> {
        // Read before the search: an entry found during a change has the old edition, so only
        // this call uses it.
        let edition = self.edition.load(Ordering::Acquire);
        let Procedure { program, version, .. } = procedure;
        // Take it out, because a service may make another call on this thread.
        let last = LAST
            .take()
            .filter(|last| (last.edition, last.program, last.version) == (edition, program, version));
        let entry = match last {
            Some(last) => last,
            None => Entry { edition, program, version, service: self.search(program, version)? },
        };
        let result = call(&*entry.service);
        LAST.set(Some(entry));
        Ok(result)
    }

    #[inline(never)]
    fn search(&self, program: u32, version: u32) -> Result<Arc<dyn Service>, Refusal> {
        let programs = self.programs.read().unwrap_or_else(PoisonError::into_inner);
        let versions = programs.get(&program).ok_or(Refusal::ProgramUnavailable)?;
        versions.get(&version).cloned().ok_or_else(|| Refusal::VersionMismatch {
            lowest: versions.keys().next().copied().unwrap_or_default(),
            highest: versions.keys().next_back().copied().unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::service::Reply;

    #[test]
    fn a_service_is_found_by_program_and_version() {
        let registry = Registry::default();
        for version in [2, 4] {
            registry.register(7, version, Arc::new(|_: &_, _: &mut _| Ok(())));
        }
        assert!(registry.with(Procedure::new(7, 4, 99), |_| ()).is_ok());
        let mismatch = Refusal::VersionMismatch { lowest: 2, highest: 4 };
        assert_eq!(registry.with(Procedure::new(7, 3, 0), |_| ()).err(), Some(mismatch));
        assert_eq!(registry.with(Procedure::new(8, 2, 0), |_| ()).err(), Some(Refusal::ProgramUnavailable));
    }

    #[test]
    fn a_service_that_is_replaced_is_found_no_more_nor_kept() {
        let (registry, other) = (Registry::default(), Registry::default());
        // Not empty, because empty closures have no address of their own.
        let service = |marker: u8| -> Arc<dyn Service> {
            Arc::new(move |_: &_, reply: &mut Reply| {
                reply.put(&[marker]);
                Ok(())
            })
        };
        let (old, new) = (service(1), service(2));
        let procedure = Procedure::new(7, 1, 1);
        let finds = |registry: &Registry, service: &Arc<dyn Service>| {
            let is = |found: &dyn Service| std::ptr::addr_eq(found, Arc::as_ptr(service));
            registry.with(procedure, is).unwrap()
        };
        registry.register(7, 1, Arc::clone(&old));
        other.register(7, 1, Arc::clone(&new));
        assert!(finds(&registry, &old) && finds(&registry, &old));
        assert!(finds(&other, &new), "another server's");
        assert!(finds(&registry, &old));
        registry.register(7, 1, Arc::clone(&new));
        assert!(finds(&registry, &new));
        let is_gone = |service: Arc<dyn Service>| {
            let left = Arc::downgrade(&service);
            drop(service);
            left.upgrade().is_none()
        };
        assert!(is_gone(old));
        forget_last();
        drop((registry, other));
        assert!(is_gone(new), "only the registries had it");
    }
}
