//! Converts the store's errors to NFS's.

use crate::wire::{M3Status, N3Status};
use strait_store::{Error, ErrorKind};
use strait_telemetry::seldom;

/// An error for the client: NFS's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault(pub N3Status);

/// The outcome of a procedure.
pub type Answer<T> = Result<T, Fault>;

/// The only table of statuses. After `Jukebox`, a client waits and repeats the call by itself. So only errors
/// after which a repeated call does no harm become `Jukebox`.
pub fn status_of(kind: ErrorKind) -> N3Status {
    match kind {
        ErrorKind::NotFound => N3Status::Noent,
        ErrorKind::AlreadyExists => N3Status::Exist,
        ErrorKind::NotADirectory => N3Status::Notdir,
        ErrorKind::IsADirectory => N3Status::Isdir,
        ErrorKind::NotEmpty => N3Status::Notempty,
        ErrorKind::PermissionDenied | ErrorKind::Unauthenticated => N3Status::Acces,
        ErrorKind::InvalidArgument => N3Status::Inval,
        ErrorKind::Unsupported => N3Status::Notsupp,
        ErrorKind::NoSpace => N3Status::Nospc,
        ErrorKind::Busy | ErrorKind::TimedOut | ErrorKind::Unavailable => N3Status::Jukebox,
        ErrorKind::Corrupt | ErrorKind::OutcomeUnknown | ErrorKind::Internal => N3Status::Io,
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::AlreadyExists | ErrorKind::NotEmpty => {
                tracing::debug!(%error, "refused");
            }
            ErrorKind::Internal
            | ErrorKind::Corrupt
            | ErrorKind::OutcomeUnknown
            | ErrorKind::Unavailable
            | ErrorKind::TimedOut => seldom!(warn, "{error}"),
            _ => seldom!(info, "{error}"),
        }
        Self(status_of(error.kind()))
    }
}

impl Fault {
    /// The error of a procedure on a handle's object: if the object is gone, the handle is stale.
    #[must_use]
    pub fn of_object(self) -> Self {
        if self.0 == N3Status::Noent { Self(N3Status::Stale) } else { self }
    }

    /// The status for MOUNT, which has only some of NFS's statuses.
    pub fn of_mount(self) -> M3Status {
        match self.0 {
            N3Status::Perm => M3Status::Perm,
            N3Status::Noent | N3Status::Stale => M3Status::Noent,
            N3Status::Acces => M3Status::Acces,
            N3Status::Notdir => M3Status::Notdir,
            N3Status::Inval => M3Status::Inval,
            N3Status::Nametoolong => M3Status::Nametoolong,
            N3Status::Notsupp => M3Status::Notsupp,
            N3Status::Io | N3Status::Jukebox => M3Status::Io,
            _ => M3Status::Serverfault,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_store::TABLE;

    #[test]
    fn clients_repeat_by_themselves_only_what_is_safe_to_repeat() {
        for row in TABLE {
            let jukebox = status_of(row.kind) == N3Status::Jukebox;
            assert_eq!(jukebox, row.retry_safe, "{}", row.name);
        }
    }

    #[test]
    fn a_status_with_the_number_of_an_errno_has_its_meaning() {
        // From 39 on NFS's numbers differ from Linux's.
        for row in TABLE.iter().filter(|row| row.errno < 39 && !row.retry_safe) {
            let status = status_of(row.kind) as i32;
            assert_eq!(status, row.errno, "{}", row.name);
        }
    }
}
