//! Converts Kadoop's errors to Strait's.

use strait_kadoop_core::Error as Kadoop;
use strait_kadoop_wire::Failure;
use strait_store::{Error, ErrorKind};

/// The error of a failed call.
pub(super) fn from_kadoop(failure: Failure) -> Error {
    let error = Error::new(kind_of(failure.error), failure.to_string());
    let error = match failure.error {
        // A retry can't recover a lost lease.
        Kadoop::LeaseLost => error.with_retry_safe(false),
        _ => error,
    };
    error.caused_by(failure)
}

fn kind_of(error: Kadoop) -> ErrorKind {
    match error {
        Kadoop::NotFound => ErrorKind::NotFound,
        Kadoop::AlreadyExists => ErrorKind::AlreadyExists,
        Kadoop::NotADirectory => ErrorKind::NotADirectory,
        Kadoop::IsADirectory => ErrorKind::IsADirectory,
        Kadoop::NotEmpty => ErrorKind::NotEmpty,
        Kadoop::PermissionDenied => ErrorKind::PermissionDenied,
        Kadoop::Invalid(_) => ErrorKind::InvalidArgument,
        Kadoop::Busy | Kadoop::DatanodeBusy | Kadoop::LeaseLost | Kadoop::Limit(_) => ErrorKind::Busy,
        Kadoop::NoDatanodes | Kadoop::NoReplica | Kadoop::Unavailable | Kadoop::LogBehind => {
            ErrorKind::Unavailable
        }
        Kadoop::Unauthenticated | Kadoop::TokenExpired => ErrorKind::Unauthenticated,
        Kadoop::Corrupt | Kadoop::BytesLost => ErrorKind::Corrupt,
        Kadoop::NoSpace => ErrorKind::NoSpace,
        // The namenode no longer knows the outcomes of this client's calls.
        Kadoop::UnknownClient | Kadoop::OutcomeUnknown => ErrorKind::OutcomeUnknown,
        // Errors that occur only between namenode and datanodes, errors of disks, and bugs.
        Kadoop::NotRegistered
        | Kadoop::ForeignData
        | Kadoop::OtherHistory
        | Kadoop::StaleStamp
        | Kadoop::WrongIncarnation
        | Kadoop::NotOpen
        | Kadoop::BeyondEnd
        | Kadoop::Disk
        | Kadoop::Internal(_) => ErrorKind::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_keeps_kadoops_words_and_a_lost_lease_isnt_tried_again() {
        let error = from_kadoop(Failure::new(Kadoop::LeaseLost, "by recovery"));
        assert_eq!((error.kind(), error.retry_safe()), (ErrorKind::Busy, false));
        assert_eq!(error.message(), "the lease is lost: by recovery");
        assert!(from_kadoop(Kadoop::Busy.into()).retry_safe());
    }
}
