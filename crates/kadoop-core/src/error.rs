//! Reasons for refusals.

use thiserror::Error;

/// A refusal. It means that nothing was changed, unless a kind says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Error {
    /// No such file or directory.
    #[error("no such file or directory")]
    NotFound,
    /// The name is taken already.
    #[error("it exists already")]
    AlreadyExists,
    /// A component of the path, or the target, is a file.
    #[error("not a directory")]
    NotADirectory,
    /// The request needs a file.
    #[error("it is a directory")]
    IsADirectory,
    /// A directory with entries.
    #[error("the directory isn't empty")]
    NotEmpty,
    /// The caller lacks a right.
    #[error("permission denied")]
    PermissionDenied,
    /// The request is invalid.
    #[error("{0}")]
    Invalid(&'static str),
    /// Another writer has the file. Ask again: recovery may be under way.
    #[error("another writer has the file")]
    Busy,
    /// The request's lease is gone.
    #[error("the lease is lost")]
    LeaseLost,
    /// Too few datanodes for the request. Ask again.
    #[error("not enough datanodes")]
    NoDatanodes,
    /// The namenode doesn't know the client any more: it was silent for too long. Nobody can tell
    /// whether the namenode executed its last requests.
    #[error("the client isn't known any more")]
    UnknownClient,
    /// The datanode has to register (again) first.
    #[error("the datanode isn't registered")]
    NotRegistered,
    /// A datanode reports a chunk or stamp that this namenode never handed out: the log is older
    /// than the data.
    #[error("the datanode holds what this namenode never handed out")]
    ForeignData,
    /// The log ends before a record that a datanode has heard of: records are lost, or an older copy
    /// of the namenode's directory was put back.
    #[error("the namenode's log lacks records that a datanode has heard of")]
    LogBehind,
    /// The log lacks a record that the datanode remembers: the datanode belongs to another history of
    /// the cluster.
    #[error("the datanode has heard of records that aren't in the namenode's log")]
    OtherHistory,
    /// The datanode has no such replica.
    #[error("no such replica")]
    NoReplica,
    /// The datanode has seen a higher stamp.
    #[error("the stamp is stale")]
    StaleStamp,
    /// Meant for another run of the datanode.
    #[error("meant for another incarnation")]
    WrongIncarnation,
    /// The replica isn't open for writing.
    #[error("the replica isn't open")]
    NotOpen,
    /// The replica doesn't reach that far, or holds too much out of order already.
    #[error("beyond the replica's end")]
    BeyondEnd,
    /// Bytes and checksum don't agree, or a repeated write differs.
    #[error("the bytes are damaged")]
    Corrupt,
    /// The disk failed.
    #[error("the disk failed")]
    Disk,
    /// A limit of the namenode is reached.
    #[error("limit reached: {0}")]
    Limit(&'static str),
    /// No replica or server could be reached before the deadline.
    #[error("not available")]
    Unavailable,
    /// The caller lacks the cluster's key, or its token doesn't cover the request.
    #[error("not authenticated")]
    Unauthenticated,
    /// The token was valid once; the namenode gives another.
    #[error("the token has expired")]
    TokenExpired,
    /// Every member of a pipeline has restarted before a sync, and the bytes left are fewer than
    /// were acknowledged. Synced bytes are still there.
    #[error("bytes that were acknowledged and not synced are lost: no datanode has them any more")]
    BytesLost,
    /// The disk is full.
    #[error("no space left")]
    NoSpace,
    /// Nobody can tell whether the request was executed.
    #[error("whether it was done isn't known")]
    OutcomeUnknown,
    /// A peer's answer is impossible, or its reason for refusing is unknown here.
    #[error("internal: {0}")]
    Internal(&'static str),
}

/// A result with this crate's refusal.
pub type Result<T, E = Error> = std::result::Result<T, E>;
