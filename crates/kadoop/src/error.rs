//! Why something was refused.

use thiserror::Error;

/// A refusal. Nothing was changed, unless a kind says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Error {
    /// No such file or directory.
    #[error("no such file or directory")]
    NotFound,
    /// Something has that name already.
    #[error("it exists already")]
    AlreadyExists,
    /// A component of the path, or the target, is a file.
    #[error("not a directory")]
    NotADirectory,
    /// A file was asked for.
    #[error("it is a directory")]
    IsADirectory,
    /// A directory with entries.
    #[error("the directory isn't empty")]
    NotEmpty,
    /// The caller lacks a right.
    #[error("permission denied")]
    PermissionDenied,
    /// The request makes no sense.
    #[error("invalid: {0}")]
    Invalid(&'static str),
    /// Another writer has the file; ask again, recovery may be under way.
    #[error("another writer has the file")]
    Busy,
    /// The lease that the request stands on is gone.
    #[error("the lease is lost")]
    LeaseLost,
    /// Too few datanodes to hold what was asked for; ask again.
    #[error("not enough datanodes")]
    NoDatanodes,
    /// The namenode doesn't know the client: it was away too long, and whether its
    /// last requests were executed can't be told any more.
    #[error("the client isn't known any more")]
    UnknownClient,
    /// The datanode has to register (anew) before anything else.
    #[error("the datanode isn't registered")]
    NotRegistered,
    /// A datanode reports what was never handed out: the namenode's log is older
    /// than the data.
    #[error("the datanode holds what this namenode never handed out")]
    ForeignData,
    /// The datanode has no such replica.
    #[error("no such replica")]
    NoReplica,
    /// A higher stamp has been seen.
    #[error("the stamp is stale")]
    StaleStamp,
    /// Meant for an earlier run of the datanode.
    #[error("meant for another incarnation")]
    WrongIncarnation,
    /// The replica isn't open for writing.
    #[error("the replica isn't open")]
    NotOpen,
    /// The replica doesn't reach that far, or too much is waiting before it.
    #[error("beyond the replica's end")]
    BeyondEnd,
    /// Bytes and checksum don't agree, or a repeated write differs.
    #[error("the bytes are damaged")]
    Corrupt,
    /// The disk refused.
    #[error("the disk failed")]
    Disk,
    /// A limit of the namenode is reached.
    #[error("limit reached: {0}")]
    Limit(&'static str),
    /// No replica, or nobody to ask, could be had before the deadline.
    #[error("not available")]
    Unavailable,
    /// The caller lacks the cluster's key, or its token isn't for what it asks.
    #[error("not authenticated")]
    Unauthenticated,
    /// The token was good once; the namenode gives another.
    #[error("the token has expired")]
    TokenExpired,
    /// Every member of a pipeline has restarted before a sync, and what is left doesn't reach as
    /// far as was acknowledged. What was synced is there.
    #[error("bytes that were acknowledged and not synced are lost: no datanode has them any more")]
    BytesLost,
    /// The disk is full.
    #[error("no space left")]
    NoSpace,
    /// Executed or not: nobody can tell.
    #[error("whether it was done isn't known")]
    OutcomeUnknown,
    /// A peer answered what can't be, or refused for a reason that isn't known here.
    #[error("internal: {0}")]
    Internal(&'static str),
}

/// With this crate's refusal.
pub type Result<T, E = Error> = std::result::Result<T, E>;
