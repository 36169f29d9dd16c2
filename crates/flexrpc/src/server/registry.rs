//! Programs of a server: several, in several versions each (section IV.C).

use crate::proto::ids::Procedure;
use crate::proto::status::Refusal;
use crate::server::service::Service;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

#[derive(Default)]
pub(crate) struct Registry(RwLock<HashMap<u32, Versions>>);

type Versions = BTreeMap<u32, Arc<dyn Service>>;

impl Registry {
    /// A program registered again is replaced.
    pub(crate) fn register(&self, program: u32, version: u32, service: Arc<dyn Service>) {
        let mut programs = self.0.write().unwrap_or_else(PoisonError::into_inner);
        programs.entry(program).or_default().insert(version, service);
    }

    /// All programs, in all their versions.
    pub(crate) fn programs(&self) -> Vec<(u32, u32)> {
        let programs = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let versions = |(program, versions): (&u32, &Versions)| {
            versions.keys().map(|version| (*program, *version)).collect::<Vec<_>>()
        };
        programs.iter().flat_map(versions).collect()
    }

    pub(crate) fn find(&self, procedure: Procedure) -> Result<Arc<dyn Service>, Refusal> {
        let programs = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let versions = programs.get(&procedure.program).ok_or(Refusal::ProgramUnavailable)?;
        versions.get(&procedure.version).cloned().ok_or_else(|| Refusal::VersionMismatch {
            lowest: versions.keys().next().copied().unwrap_or_default(),
            highest: versions.keys().next_back().copied().unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_found_by_program_and_version() {
        let registry = Registry::default();
        for version in [2, 4] {
            registry.register(7, version, Arc::new(|_: &_, _: &mut _| Ok(())));
        }
        assert!(registry.find(Procedure::new(7, 4, 99)).is_ok());
        let mismatch = Refusal::VersionMismatch { lowest: 2, highest: 4 };
        assert_eq!(registry.find(Procedure::new(7, 3, 0)).err(), Some(mismatch));
        assert_eq!(registry.find(Procedure::new(8, 2, 0)).err(), Some(Refusal::ProgramUnavailable));
    }
}
