//! Reasons for refusals.

use thiserror::Error;

/// The reason for a refusal. The refused request changed nothing, unless a variant says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Error {
    /// No such file or directory.
    #[error("no such file or directory")]
    NotFound,
    /// The name is already in use.
    #[error("the path already exists")]
    AlreadyExists,
    /// A component of the path, or the target, is a file.
    #[error("not a directory")]
    NotADirectory,
    /// The path leads to a directory, and the request needs a file.
    #[error("it is a directory")]
    IsADirectory,
    /// The request needs an empty directory, and this one has entries.
    #[error("the directory isn't empty")]
    NotEmpty,
    /// The caller lacks a right.
    #[error("permission denied")]
    PermissionDenied,
    /// The request is invalid.
    #[error("{0}")]
    Invalid(&'static str),
    /// Another writer has the file. Ask again: recovery may be under way.
    #[error(
        "the file is open for writing; retry after its writer closes it; if the writer is gone, keep trying"
    )]
    Busy,
    /// The datanode has reached a limit, or another operation uses the replica. On the wire this is `Busy`.
    #[error("the datanode is busy: too many replicas are being written, or another operation uses this one")]
    DatanodeBusy,
    /// The client no longer has the lease that the request needs.
    #[error("the lease is lost")]
    LeaseLost,
    /// Too few datanodes can take part in the request. Ask again.
    #[error("not enough datanodes")]
    NoDatanodes,
    /// The namenode no longer knows the client, which sent no request for too long. It is unknown
    /// whether the namenode executed the client's latest requests.
    #[error("the namenode no longer knows this client")]
    UnknownClient,
    /// The datanode has to register (again) first.
    #[error("the datanode isn't registered")]
    NotRegistered,
    /// A datanode reports a chunk or stamp that this namenode never issued: the log is older than
    /// the data.
    #[error("the datanode holds a chunk or stamp that this namenode never issued")]
    ForeignData,
    /// The log ends before a record that a datanode knows of: records are lost, or an older copy of
    /// the namenode's directory was restored.
    #[error("the namenode's log lacks records that a datanode knows of")]
    LogBehind,
    /// The log has another record in place of one that the datanode remembers: the datanode belongs to
    /// another history of the cluster.
    #[error("the datanode knows of records that aren't in the namenode's log")]
    OtherHistory,
    /// The datanode has no such replica.
    #[error("no such replica")]
    NoReplica,
    /// The datanode has seen a higher stamp for the chunk.
    #[error("the stamp is stale")]
    StaleStamp,
    /// The request names another incarnation of the datanode, which has restarted or lost a directory
    /// since.
    #[error("the request is for another incarnation of the datanode")]
    WrongIncarnation,
    /// The replica isn't open for writing.
    #[error("the replica isn't open")]
    NotOpen,
    /// The replica ends before the requested offset, or already holds too many bytes out of order.
    #[error("beyond the replica's end")]
    BeyondEnd,
    /// The bytes don't match their checksum, or a repeated write has other bytes than the first.
    #[error("the bytes are damaged")]
    Corrupt,
    /// The disk failed.
    #[error("the disk failed")]
    Disk,
    /// A limit of the namenode is reached.
    #[error("limit reached: {0}")]
    Limit(&'static str),
    /// No replica or server answered before the deadline. Ask again.
    #[error("not available")]
    Unavailable,
    /// The caller doesn't have the cluster's key, or its token doesn't cover the request.
    #[error("not authenticated")]
    Unauthenticated,
    /// The token was valid earlier. Ask the namenode for a new one.
    #[error("the token has expired")]
    TokenExpired,
    /// Every member of a pipeline restarted before a sync, and none has all acknowledged bytes any
    /// more. Synced bytes are still there.
    #[error("acknowledged bytes that weren't synced are lost: no datanode has them any more")]
    BytesLost,
    /// The disk is full.
    #[error("no space left")]
    NoSpace,
    /// It is unknown whether the request was executed.
    #[error("it is unknown whether the request was executed")]
    OutcomeUnknown,
    /// A peer's answer breaks the protocol, or its error code is unknown to this version.
    #[error("internal: {0}")]
    Internal(&'static str),
}

/// A result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
