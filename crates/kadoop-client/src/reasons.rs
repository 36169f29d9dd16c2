//! Why a file's latest calls failed, in the peers' words. The cores know only the kinds of errors.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use strait_kadoop_core::error::Error;
use strait_kadoop_wire::failure::Failure;

/// Age at which a datanode's failure no longer explains an error: longer than the 45 s for which a core
/// retries without progress.
const RECENT: Duration = Duration::from_secs(60);

/// The latest failures of one file's calls.
#[derive(Debug, Default)]
pub(super) struct Reasons(Mutex<Latest>);

#[derive(Debug, Default)]
struct Latest {
    namenode: Option<Failure>,
    datanode: Option<(Instant, Failure)>,
}

impl Reasons {
    /// Notes the outcome of a request to the namenode: its failure, or None.
    pub(super) fn set_namenode(&self, failure: Option<Failure>) {
        self.latest().namenode = failure;
    }

    /// Notes the failure of a call to a datanode. Returns its kind.
    pub(super) fn add_datanode(&self, failure: Failure) -> Error {
        let error = failure.error;
        self.latest().datanode = Some((Instant::now(), failure));
        error
    }

    /// The failure of the latest request to the namenode, if it failed.
    pub(super) fn of_namenode(&self) -> Option<Failure> {
        self.latest().namenode.clone()
    }

    /// The latest failure of a call to a datanode, unless it is old.
    pub(super) fn of_datanode(&self) -> Option<Failure> {
        let latest = self.latest();
        latest.datanode.as_ref().filter(|(at, _)| at.elapsed() < RECENT).map(|(_, failure)| failure.clone())
    }

    /// Unavailable since datanodes fail, as `what` says: with the latest failure, if it is known.
    pub(super) fn of_datanodes(&self, what: &str) -> Failure {
        let told = self.of_datanode().map(|failure| match failure.error {
            Error::Unavailable => failure.why,
            _ => failure.to_string(),
        });
        let told = told.map(|told| format!(" ({told})")).unwrap_or_default();
        Failure::new(Error::Unavailable, format!("{what}{told}; see `strait datanodes`"))
    }

    /// A core's error, with the failure that led to it.
    pub(super) fn explain(&self, error: Error) -> Failure {
        // If the core has given up, the namenode's failure comes first, whatever its kind.
        let datanode = self.of_datanode().filter(|_| error != Error::Unavailable);
        let namenode = self.of_namenode();
        let same = [&namenode, &datanode].into_iter().flatten().find(|failure| failure.error == error);
        if let Some(same) = same {
            return same.clone();
        }
        let cause = match error {
            // The core has retried until its time was over.
            Error::Unavailable => namenode,
            // The core knows by a stale stamp that the lease is lost.
            Error::LeaseLost => datanode.filter(|failure| failure.error == Error::StaleStamp),
            _ => None,
        };
        cause.map_or_else(|| error.into(), |cause| Failure::new(error, cause.to_string()))
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_datanode(error: Error) -> Failure {
        Failure::new(error, "at 127.0.0.1:9")
    }

    #[test]
    fn an_error_has_the_words_of_the_failure_of_its_kind() {
        let reasons = Reasons::default();
        reasons.set_namenode(Some(Failure::new(Error::PermissionDenied, "ada can't read /a")));
        reasons.add_datanode(of_datanode(Error::Corrupt));
        let told = |error| reasons.explain(error).to_string();
        assert_eq!(told(Error::PermissionDenied), "permission denied: ada can't read /a");
        assert_eq!(told(Error::Corrupt), "the bytes are damaged: at 127.0.0.1:9");
        assert_eq!(told(Error::NotFound), "no such file or directory", "no call failed so");
    }

    #[test]
    fn a_core_that_gives_up_has_the_namenodes_or_a_datanodes_words() {
        let reasons = Reasons::default();
        reasons.set_namenode(Some(Error::Limit("chunks").into()));
        let limit = "not available: limit reached: chunks";
        assert_eq!(reasons.explain(Error::Unavailable).to_string(), limit);
        let told = || reasons.of_datanodes("none has it").to_string();
        assert_eq!(told(), "not available: none has it; see `strait datanodes`");
        reasons.add_datanode(of_datanode(Error::Disk));
        let disk = "not available: none has it (the disk failed: at 127.0.0.1:9); see `strait datanodes`";
        assert_eq!(told(), disk);
        reasons.add_datanode(Failure::new(Error::Unavailable, "datanode 127.0.0.1:9: it hangs"));
        assert_eq!(reasons.explain(Error::Unavailable).to_string(), limit, "not the datanode's");
        let hangs = "not available: none has it (datanode 127.0.0.1:9: it hangs); see `strait datanodes`";
        assert_eq!(told(), hangs);
    }

    #[test]
    fn a_lease_is_lost_by_a_stale_stamp() {
        let reasons = Reasons::default();
        reasons.add_datanode(of_datanode(Error::Disk));
        assert_eq!(reasons.explain(Error::LeaseLost), Error::LeaseLost.into());
        reasons.add_datanode(of_datanode(Error::StaleStamp));
        let told = reasons.explain(Error::LeaseLost).to_string();
        assert_eq!(told, "the lease is lost: the stamp is stale: at 127.0.0.1:9");
    }
}
