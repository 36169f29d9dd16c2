//! Converts Hadoop's errors to Strait's.

use super::rpc::RpcError;
use hdfs_native::HdfsError;
use std::error::Error as _;
use std::io;
use strait_store::{Error, ErrorKind, Result, fail};

/// Longest message passed on. The first line of a Java exception is shorter. The library's list of
/// failed datanodes may be longer.
const MAX_MESSAGE_CHARS: usize = 400;

/// Whether a request may have changed the store if its answer is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It only reads.
    Read,
    /// It changes the store.
    Mutation,
    /// It changes the store, but the server recognises a repetition. So it can be repeated.
    Remembered,
}

/// The error of an operation on a closed writer of `path`.
pub(super) fn closed_writer<T>(operation: &'static str, path: &str) -> Result<T> {
    fail(ErrorKind::InvalidArgument, "the writer is closed").map_err(|error: Error| error.at(operation, path))
}

/// Whether an error of this kind may mean that the namenode is down or can't be reached.
pub(super) fn is_about_the_namenode(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unavailable | ErrorKind::OutcomeUnknown | ErrorKind::TimedOut)
}

/// The error for a Java exception. `class` includes the package; `message` may include a stack trace.
pub(super) fn from_java(class: &str, message: &str) -> Error {
    let line = first_line(message);
    let simple = simple_name(class);
    let error = Error::new(kind_of(simple, line), shown(simple, line));
    match simple {
        // A retry can't recover a lost lease.
        "LeaseExpiredException" => error.with_retry_safe(false),
        _ => error,
    }
}

fn simple_name(class: &str) -> &str {
    class.rsplit(['.', '$']).next().unwrap_or(class)
}

/// The Java exception that caused an error: its class and whole message.
fn exception_of(error: &Error) -> Option<(&str, &str)> {
    let source = error.source()?;
    let by_adapter = match source.downcast_ref() {
        Some(RpcError::Java { class, message }) => Some((class, message)),
        _ => None,
    };
    let by_library = match source.downcast_ref() {
        Some(HdfsError::RPCError(class, message) | HdfsError::FatalRPCError(class, message)) => {
            Some((class, message))
        }
        _ => None,
    };
    by_adapter.or(by_library).map(|(class, message)| (class.as_str(), message.as_str()))
}

/// Whether a Java exception of this class, named without its package, caused the error.
fn is_of(error: &Error, class: &str) -> bool {
    exception_of(error).is_some_and(|(found, _)| simple_name(found) == class)
}

/// Whether the namenode is recovering the file from a writer, so that the file will be free in seconds.
pub(super) fn is_being_recovered(error: &Error) -> bool {
    is_of(error, "RecoveryInProgressException")
}

/// The namenode's words before the name of the client that has a file open.
const OWNED: &str = "this file lease is currently owned by ";

/// The lease holder that has the file open, if the file can't be opened for that reason
/// (`FSNamesystem.recoverLeaseInternal`).
pub(super) fn lease_owner(error: &Error) -> Option<&str> {
    let (_, message) = exception_of(error).filter(|_| is_of(error, "AlreadyBeingCreatedException"))?;
    // The path comes before these words, and may contain any words itself.
    let (_, owner) = message.rsplit_once(OWNED)?;
    owner.split(' ').next()
}

/// Whether too few datanodes have reported the file's last block so far.
pub(super) fn is_not_reported(error: &Error) -> bool {
    is_of(error, "NotReplicatedYetException")
}

fn kind_of(class: &str, message: &str) -> ErrorKind {
    match class {
        "FileNotFoundException" if message.starts_with("Path is not a file") => ErrorKind::IsADirectory,
        "FileNotFoundException"
        | "PathNotFoundException"
        | "NoSuchFileException"
        | "XAttrNotFoundException" => ErrorKind::NotFound,
        "FileAlreadyExistsException" | "PathExistsException" => ErrorKind::AlreadyExists,
        "ParentNotDirectoryException" | "PathIsNotDirectoryException" => ErrorKind::NotADirectory,
        "PathIsDirectoryException" => ErrorKind::IsADirectory,
        "PathIsNotEmptyDirectoryException" => ErrorKind::NotEmpty,
        // The namenode's answer for a path that leads through a file.
        "AccessControlException" if message.ends_with("(is not a directory)") => ErrorKind::NotADirectory,
        "AccessControlException"
        | "TraverseAccessControlException"
        | "SnapshotAccessControlException"
        | "AuthorizationException"
        | "PathAccessDeniedException"
        | "PathPermissionException" => ErrorKind::PermissionDenied,
        "SaslException"
        | "GSSException"
        | "InvalidToken"
        | "AuthenticationException"
        | "KerberosAuthException" => ErrorKind::Unauthenticated,
        "IllegalArgumentException"
        | "HadoopIllegalArgumentException"
        | "InvalidPathException"
        | "IllegalReservedPathException"
        | "IllegalNameException"
        | "PathComponentTooLongException"
        | "FSLimitException"
        | "InvalidRequestException"
        | "SnapshotException"
        | "AclException"
        | "NoECPolicySetException" => ErrorKind::InvalidArgument,
        "UnsupportedOperationException"
        | "UnsupportedActionException"
        | "UnresolvedLinkException"
        | "UnresolvedPathException"
        | "UnknownCipherSuiteException"
        | "UnknownCryptoProtocolVersionException"
        | "RpcNoSuchMethodException"
        | "RpcNoSuchProtocolException" => ErrorKind::Unsupported,
        "AlreadyBeingCreatedException"
        | "RecoveryInProgressException"
        | "LeaseExpiredException"
        | "NotReplicatedYetException" => ErrorKind::Busy,
        "QuotaExceededException"
        | "NSQuotaExceededException"
        | "DSQuotaExceededException"
        | "QuotaByStorageTypeExceededException"
        | "ClusterStorageCapacityExceededException"
        | "MaxDirectoryItemsExceededException"
        | "DiskOutOfSpaceException" => ErrorKind::NoSpace,
        "SafeModeException"
        | "RetriableException"
        | "RetryStartFileException"
        | "StandbyException"
        | "ObserverRetryOnActiveException"
        | "NoNamenodesAvailableException"
        | "NotEnoughReplicasException"
        | "ReplicaNotFoundException"
        | "InvalidBlockTokenException"
        | "ConnectException"
        | "ConnectTimeoutException"
        | "NoRouteToHostException"
        | "CallQueueOverflowException"
        | "RpcServerException" => ErrorKind::Unavailable,
        "SocketTimeoutException" | "TimeoutException" => ErrorKind::TimedOut,
        "ChecksumException" | "BlockMissingException" => ErrorKind::Corrupt,
        _ => kind_by_message(message),
    }
}

/// Part of the namenode's answer if it can't choose a datanode for a block
/// (`BlockManager.chooseTarget4NewBlock`).
const NO_TARGETS: &str = "could only be written to 0 of the";

/// Whether the namenode couldn't choose a datanode for a block.
pub(super) fn is_without_targets(error: &Error) -> bool {
    // The reason comes after the path, and the error's own message cuts off a long path.
    let is_in = |message: &str| first_line(message).contains(NO_TARGETS);
    error.kind() == ErrorKind::Unavailable && exception_of(error).is_some_and(|(_, message)| is_in(message))
}

/// The number of running datanodes, if the namenode could choose none because all were excluded.
pub(super) fn all_excluded(error: &Error) -> Option<u64> {
    let (_, message) = exception_of(error).filter(|_| is_without_targets(error))?;
    let (_, counts) = message.split_once(NO_TARGETS)?.1.split_once("There are ")?;
    let (running, rest) = counts.split_once(" datanode(s) running and ")?;
    let (excluded, _) = rest.split_once(" node(s) are excluded")?;
    let (running, excluded): (u64, u64) = (running.parse().ok()?, excluded.parse().ok()?);
    (running > 0 && running <= excluded).then_some(running)
}

/// For some wrong requests, the namenode throws a plain IOException. Only its text shows the
/// reason.
fn kind_by_message(message: &str) -> ErrorKind {
    let invalid = ["Requested replication factor", "Specified block size", "Rename destination "];
    // An append to a file whose last block has too few live replicas.
    let is_unreplicated =
        message.starts_with("append: lastBlock=") && message.ends_with("is not sufficiently replicated yet.");
    // A new pipeline for a block whose file was removed or closed by a recovery before
    // (`FSNamesystem.checkUCBlock`).
    let is_removed = message.starts_with("BP-") && message.ends_with(" does not exist.")
        || message.ends_with(" belonged to does not exist or it is not under construction.");
    if invalid.iter().any(|start| message.starts_with(start)) {
        ErrorKind::InvalidArgument
    } else if is_removed {
        ErrorKind::NotFound
    } else if message.starts_with("Unexpected BlockUCState: ") {
        ErrorKind::Busy
    } else if message.contains(NO_TARGETS) || is_unreplicated {
        // No datanode has room, or none is running. Both may be temporary.
        ErrorKind::Unavailable
    } else {
        ErrorKind::Internal
    }
}

/// The library's message for an hsync of an erasure-coded file.
const NOT_SUPPORTED: &str = "is not supported for erasure-coded files";

/// Converts the library's error, with its first line as the message.
pub(super) fn from_library(error: HdfsError, effect: Effect) -> Error {
    let kind = match &error {
        HdfsError::RPCError(class, message) | HdfsError::FatalRPCError(class, message) => {
            return from_java(class, message).caused_by(error);
        }
        HdfsError::IOError(source) => io_kind(source, effect),
        HdfsError::AlreadyExists(_) => ErrorKind::AlreadyExists,
        HdfsError::FileNotFound(path) => {
            let message = format!("no such file or directory: {path}");
            return Error::new(ErrorKind::NotFound, message).caused_by(error);
        }
        HdfsError::IsADirectoryError(_) => ErrorKind::IsADirectory,
        HdfsError::InvalidPath(_) | HdfsError::InvalidArgument(_) | HdfsError::UrlParseError(_) => {
            ErrorKind::InvalidArgument
        }
        HdfsError::UnsupportedFeature(_) | HdfsError::UnsupportedErasureCodingPolicy(_) => {
            ErrorKind::Unsupported
        }
        HdfsError::OperationFailed(message) if message.contains(NOT_SUPPORTED) => ErrorKind::Unsupported,
        HdfsError::ChecksumError | HdfsError::BlocksNotFound(_) => ErrorKind::Corrupt,
        HdfsError::DataTransferError(_) => ErrorKind::Unavailable,
        HdfsError::SASLError(_) | HdfsError::GSSAPIError(..) | HdfsError::NoSASLMechanism => {
            ErrorKind::Unauthenticated
        }
        _ => ErrorKind::Internal,
    };
    let message = match &error {
        // The variant's own text, without the library's prefix.
        HdfsError::AlreadyExists(message) | HdfsError::OperationFailed(message) => {
            first_line(message).to_owned()
        }
        HdfsError::DataTransferError(message) => message.lines().next().unwrap_or_default().to_owned(),
        other => first_line(&other.to_string()).to_owned(),
    };
    Error::new(kind, clipped(&message)).caused_by(error)
}

/// If the connection was refused, no request was sent. If it broke, the request may have been.
fn io_kind(source: &io::Error, effect: Effect) -> ErrorKind {
    use io::ErrorKind as Io;
    match source.kind() {
        Io::ConnectionRefused | Io::HostUnreachable | Io::NetworkUnreachable | Io::AddrNotAvailable => {
            ErrorKind::Unavailable
        }
        _ if effect != Effect::Read => ErrorKind::OutcomeUnknown,
        Io::TimedOut => ErrorKind::TimedOut,
        _ => ErrorKind::Unavailable,
    }
}

/// The first line of a Java exception's text, without the stack trace.
pub(super) fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or_default().trim_end()
}

/// The exception's message, and advice.
fn shown(class: &str, line: &str) -> String {
    let text = if line.is_empty() { class.to_owned() } else { clipped(line) };
    let advice = match class {
        "SafeModeException" => "safe mode ends by itself after a start, or by hdfs dfsadmin -safemode leave",
        "AlreadyBeingCreatedException" if line.contains(OWNED) => {
            "that client is writing it, or has died; HDFS frees it 60 s after the client's last renewal; \
             hdfs debug recoverLease -path PATH frees it sooner"
        }
        "InvalidPathException" if line.contains(':') => "HDFS accepts no names with a colon",
        _ => return text,
    };
    format!("{text}; {advice}")
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_to_do() {
        let cases = [
            ("SafeModeException", "Cannot create /f. Name node is in safe mode.", "-safemode leave"),
            ("AlreadyBeingCreatedException", "this file lease is currently owned by a on b", "recoverLease"),
            ("InvalidPathException", "Invalid file name: /a:b", "no names with a colon"),
        ];
        for (class, message, advice) in cases {
            let error = from_java(class, message);
            assert!(error.message().starts_with(message) && error.message().contains(advice), "{error}");
        }
    }

    #[test]
    fn java_classes_become_kinds_and_stack_traces_one_line() {
        let cases = [
            ("java.io.FileNotFoundException", "File does not exist: /a", ErrorKind::NotFound),
            ("java.io.FileNotFoundException", "Path is not a file: /a", ErrorKind::IsADirectory),
            ("org.apache.hadoop.security.AccessControlException", "no", ErrorKind::PermissionDenied),
            ("org.apache.hadoop.hdfs.protocol.RecoveryInProgressException", "x", ErrorKind::Busy),
            ("org.apache.hadoop.security.token.SecretManager$InvalidToken", "x", ErrorKind::Unauthenticated),
            ("java.io.IOException", "Requested replication factor of 9", ErrorKind::InvalidArgument),
            ("java.io.IOException", "BP-1-127.0.0.1-2:blk_3_4 does not exist.", ErrorKind::NotFound),
            (
                "java.io.IOException",
                "The file blk_3_4 belonged to does not exist or it is not under construction.",
                ErrorKind::NotFound,
            ),
            (
                "java.io.IOException",
                "Unexpected BlockUCState: BP-1-127.0.0.1-2:blk_3_4 is COMPLETE but not UNDER_CONSTRUCTION",
                ErrorKind::Busy,
            ),
            ("java.io.IOException", "something else", ErrorKind::Internal),
        ];
        for (class, message, kind) in cases {
            let error = from_java(class, &format!("{message}\n\tat org.apache.Foo.bar(Foo.java:1)"));
            assert_eq!(error.kind(), kind, "{class}: {message}");
            assert_eq!(error.message(), message);
        }
    }

    #[test]
    fn each_of_hadoops_exceptions_has_a_kind() {
        let cases = [
            ("hdfs.protocol.NSQuotaExceededException", ErrorKind::NoSpace),
            ("hdfs.protocol.DSQuotaExceededException", ErrorKind::NoSpace),
            ("hdfs.protocol.QuotaByStorageTypeExceededException", ErrorKind::NoSpace),
            ("fs.ClusterStorageCapacityExceededException", ErrorKind::NoSpace),
            ("hdfs.protocol.FSLimitException$MaxDirectoryItemsExceededException", ErrorKind::NoSpace),
            ("hdfs.protocol.FSLimitException$PathComponentTooLongException", ErrorKind::InvalidArgument),
            ("fs.InvalidPathException", ErrorKind::InvalidArgument),
            ("HadoopIllegalArgumentException", ErrorKind::InvalidArgument),
            ("hdfs.protocol.AclException", ErrorKind::InvalidArgument),
            ("hdfs.protocol.NoECPolicySetException", ErrorKind::InvalidArgument),
            ("fs.ParentNotDirectoryException", ErrorKind::NotADirectory),
            ("fs.PathIsNotEmptyDirectoryException", ErrorKind::NotEmpty),
            ("hdfs.server.namenode.SafeModeException", ErrorKind::Unavailable),
            ("hdfs.protocol.SafeModeException", ErrorKind::Unavailable),
            ("ipc.RetriableException", ErrorKind::Unavailable),
            ("hdfs.server.namenode.RetryStartFileException", ErrorKind::Unavailable),
            ("hdfs.protocol.UnresolvedPathException", ErrorKind::Unsupported),
            ("fs.UnresolvedLinkException", ErrorKind::Unsupported),
            ("hdfs.server.namenode.UnsupportedActionException", ErrorKind::Unsupported),
            ("hdfs.UnknownCryptoProtocolVersionException", ErrorKind::Unsupported),
            ("hdfs.server.namenode.LeaseExpiredException", ErrorKind::Busy),
            ("hdfs.protocol.AlreadyBeingCreatedException", ErrorKind::Busy),
            ("hdfs.protocol.NotReplicatedYetException", ErrorKind::Busy),
            ("security.authorize.AuthorizationException", ErrorKind::PermissionDenied),
            (
                "hdfs.server.namenode.FSPermissionChecker$TraverseAccessControlException",
                ErrorKind::PermissionDenied,
            ),
        ];
        for (class, kind) in cases {
            let error = from_java(&format!("org.apache.hadoop.{class}"), "x");
            assert_eq!(error.kind(), kind, "{class}");
        }
        let unreplicated = "append: lastBlock=blk_1_2(size=3, blockType=CONTIGUOUS) of src=/f is not sufficiently replicated yet.";
        assert_eq!(from_java("java.io.IOException", unreplicated).kind(), ErrorKind::Unavailable);
        let unsynced = HdfsError::OperationFailed("hsync is not supported for erasure-coded files".into());
        assert_eq!(from_library(unsynced, Effect::Mutation).kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn a_recovery_is_known_by_its_exception_and_not_by_a_files_name() {
        let message = |why| format!("Failed to APPEND_FILE /recovered for a on 127.0.0.1 because {why}");
        let thrown = |class: &str, message: String| {
            let class = format!("org.apache.hadoop.hdfs.protocol.{class}");
            let by_library = HdfsError::RPCError(class.clone(), message.clone());
            let by_adapter = from_java(&class, &message).caused_by(RpcError::Java { class, message });
            [by_adapter, from_library(by_library, Effect::Mutation)]
        };
        let busy = message("this file lease is currently owned by b on 127.0.0.1");
        let busy = thrown("AlreadyBeingCreatedException", busy);
        assert!(!busy.iter().any(is_being_recovered));
        assert!(busy.iter().all(|error| lease_owner(error) == Some("b")));
        let soon = message("lease recovery is in progress. Try again later.");
        let soon = thrown("RecoveryInProgressException", soon);
        assert!(soon.iter().all(|error| is_being_recovered(error) && lease_owner(error).is_none()));
    }

    #[test]
    fn a_broken_connection_leaves_a_mutation_unknown_but_a_refused_one_does_not() {
        let broken = || HdfsError::IOError(io::ErrorKind::ConnectionAborted.into());
        assert_eq!(from_library(broken(), Effect::Mutation).kind(), ErrorKind::OutcomeUnknown);
        assert_eq!(from_library(broken(), Effect::Read).kind(), ErrorKind::Unavailable);
        let refused = HdfsError::IOError(io::ErrorKind::ConnectionRefused.into());
        assert_eq!(from_library(refused, Effect::Mutation).kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn a_long_message_is_clipped() {
        let error = from_library(HdfsError::DataTransferError("ü".repeat(10_000)), Effect::Read);
        assert!(error.message().chars().count() <= MAX_MESSAGE_CHARS + 1);
    }
}
