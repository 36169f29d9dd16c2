//! A closed set of error kinds, and the one table with each kind's representation at every border of
//! the system.

use std::borrow::Cow;
use std::{fmt, io};

/// The kinds of failure a file system reports.
///
/// The set is closed: an adapter maps each failure of its file system to one of these, and every
/// border (errno, Thrift, HTTP, exit code) maps from them by [`TABLE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No file or directory at the path.
    NotFound,
    /// The path exists, and the operation must not replace it.
    AlreadyExists,
    /// A directory was needed; the path (or a parent of it) is a file.
    NotADirectory,
    /// A file was needed; the path is a directory.
    IsADirectory,
    /// The directory still has entries, and removal wasn't recursive.
    NotEmpty,
    /// The principal isn't allowed to do this.
    PermissionDenied,
    /// The caller isn't logged in, or the credentials are wrong.
    Unauthenticated,
    /// The request itself is wrong: path, offset, length, state of a handle.
    InvalidArgument,
    /// The store has no such operation.
    Unsupported,
    /// Somebody else has a needed resource (such as a writer's lease), or a limit is reached. A later
    /// attempt may succeed.
    Busy,
    /// The store, or the principal's quota, is full.
    NoSpace,
    /// No answer within the time allowed.
    TimedOut,
    /// The store can't be reached.
    Unavailable,
    /// Stored bytes don't match their checksum, on every replica.
    Corrupt,
    /// The connection broke after a change was sent. It is unknown whether the change was executed.
    OutcomeUnknown,
    /// A defect, or an answer that makes no sense.
    Internal,
}

/// One row of the table of errors: the representation of a kind at each border.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The kind.
    pub kind: ErrorKind,
    /// Its name in messages, JSON output and the Thrift exception's `kind`.
    pub name: &'static str,
    /// Linux errno (errno(3)).
    pub errno: i32,
    /// `DfsError.code` in `idl/dfs.thrift`; never reused.
    pub thrift: i32,
    /// HTTP status in WebHDFS, as Hadoop's own server sends it.
    pub http: u16,
    /// HTTP status in the REST interface (RFC 9110, and RFC 4918 for 507). Programs retry automatically
    /// after 503 and 504.
    pub rest: u16,
    /// `RemoteException.exception` of WebHDFS.
    pub remote_exception: &'static str,
    /// Exit code of the `strait` command (1 is any other failure, 2 usage).
    pub exit: u8,
    /// Whether repeating the same request can help, and can't do harm.
    pub retry_safe: bool,
}

macro_rules! table {
    ($($kind:ident $errno:literal $thrift:literal $http:literal $rest:literal $remote:literal $exit:literal $retry:literal;)*) => {
        /// The one table of errors. Columns other than `http`, `rest` and `retry_safe` have each value only
        /// once, so each border can map the value back to the kind.
        pub const TABLE: &[Row] = &[$(Row {
            kind: ErrorKind::$kind,
            name: stringify!($kind),
            errno: $errno,
            thrift: $thrift,
            http: $http,
            rest: $rest,
            remote_exception: $remote,
            exit: $exit,
            retry_safe: $retry,
        }),*];
    };
}

// kind            errno thrift http rest RemoteException                   exit retry
table! {
    NotFound           2  1  404  404 "FileNotFoundException"                10 false;
    AlreadyExists     17  2  409  409 "FileAlreadyExistsException"           11 false;
    NotADirectory     20  3  403  409 "ParentNotDirectoryException"          12 false;
    IsADirectory      21  4  403  409 "PathIsDirectoryException"             13 false;
    NotEmpty          39  5  403  409 "PathIsNotEmptyDirectoryException"     14 false;
    PermissionDenied  13  6  403  403 "AccessControlException"               15 false;
    Unauthenticated  126  7  401  401 "SecurityException"                    16 false;
    InvalidArgument   22  8  400  400 "IllegalArgumentException"             17 false;
    Unsupported       95  9  400  400 "UnsupportedOperationException"        18 false;
    Busy              16 10  403  503 "AlreadyBeingCreatedException"         19 true;
    NoSpace           28 11  403  507 "DSQuotaExceededException"             20 false;
    TimedOut         110 12  504  504 "SocketTimeoutException"               21 true;
    Unavailable      113 13  503  503 "RetriableException"                   22 true;
    Corrupt           74 14  500  500 "ChecksumException"                    23 false;
    OutcomeUnknown   103 15  500  500 "InterruptedIOException"               24 false;
    Internal           5 16  500  500 "IOException"                          25 false;
}

impl ErrorKind {
    /// This kind's row of [`TABLE`].
    pub fn row(self) -> &'static Row {
        // The rows have the order of the enum (a test checks it).
        &TABLE[self as usize]
    }

    /// The kind with this name in [`TABLE`].
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.kind)
    }

    /// The kind behind a Thrift exception's code.
    pub fn from_thrift(code: i32) -> Option<Self> {
        TABLE.iter().find(|row| row.thrift == code).map(|row| row.kind)
    }

    /// The kind for a Linux errno: the table's own, and other numbers with the same meaning for a
    /// file system.
    pub fn from_errno(errno: i32) -> Self {
        match errno {
            1 | 30 => Self::PermissionDenied, // EPERM, EROFS
            9 | 36 => Self::InvalidArgument,  // EBADF, ENAMETOOLONG
            // EXDEV and ELOOP: openat2's errors for a link that leads out of the root.
            18 | 40 => Self::PermissionDenied,
            11 | 26 | 23 | 24 => Self::Busy, // EAGAIN, ETXTBSY, ENFILE, EMFILE
            27 | 122 => Self::NoSpace,       // EFBIG, EDQUOT
            38 => Self::Unsupported,         // ENOSYS
            84 => Self::Corrupt,             // EILSEQ
            100 | 101 | 104 | 107 | 111 | 112 | 32 => Self::Unavailable, // errors of the network
            // ESTALE and EBADFD, of network file systems. Not NotFound: the name may exist, and only this handle be
            // invalid. GlusterFS gives the latter after its server was lost.
            116 | 77 => Self::Unavailable,
            _ => TABLE.iter().find(|row| row.errno == errno).map_or(Self::Internal, |row| row.kind),
        }
    }
}

impl From<ErrorKind> for io::ErrorKind {
    /// The standard library's kind for the same failure. It is never one that the standard library retries or
    /// interprets itself (`Interrupted`, `WouldBlock`, `UnexpectedEof`).
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::AlreadyExists => Self::AlreadyExists,
            ErrorKind::NotADirectory => Self::NotADirectory,
            ErrorKind::IsADirectory => Self::IsADirectory,
            ErrorKind::NotEmpty => Self::DirectoryNotEmpty,
            ErrorKind::PermissionDenied | ErrorKind::Unauthenticated => Self::PermissionDenied,
            ErrorKind::InvalidArgument => Self::InvalidInput,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::Busy => Self::ResourceBusy,
            ErrorKind::NoSpace => Self::StorageFull,
            ErrorKind::TimedOut => Self::TimedOut,
            ErrorKind::Unavailable => Self::HostUnreachable,
            ErrorKind::Corrupt => Self::InvalidData,
            ErrorKind::OutcomeUnknown => Self::ConnectionAborted,
            ErrorKind::Internal => Self::Other,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}

/// A failed operation: its name, its path, the cause, and whether a retry is safe.
#[derive(Debug, thiserror::Error)]
pub struct Error {
    kind: ErrorKind,
    operation: &'static str,
    path: String,
    message: Cow<'static, str>,
    retry_safe: bool,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Result of file-system operations.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind` with a message for people: the cause and, unless obvious, the remedy.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            operation: "",
            path: String::new(),
            message: message.into(),
            retry_safe: kind.row().retry_safe,
            source: None,
        }
    }

    /// Adds the operation and the path, if the error has none yet. So the innermost ones stay, which are
    /// the most exact.
    pub fn at(mut self, operation: &'static str, path: impl AsRef<str>) -> Self {
        if self.operation.is_empty() {
            self.operation = operation;
        }
        if self.path.is_empty() {
            self.path = path.as_ref().to_owned();
        }
        self
    }

    /// Keeps the underlying error for logs and [`std::error::Error::source`].
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Overrides the table's `retry_safe`.
    pub fn with_retry_safe(mut self, safe: bool) -> Self {
        self.retry_safe = safe;
        self
    }

    /// A copy of the error for another caller, without the underlying error.
    #[must_use]
    pub fn again(&self) -> Self {
        Self {
            kind: self.kind,
            operation: self.operation,
            path: self.path.clone(),
            message: self.message.clone(),
            retry_safe: self.retry_safe,
            source: None,
        }
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The operation that failed, for example `"rename"`; empty if unnamed.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The path that it failed on; empty if there is none.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The cause, without operation and path.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether repeating the same request can help, and can't do harm.
    pub fn retry_safe(&self) -> bool {
        self.retry_safe
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.operation.is_empty() {
            write!(f, "{} ", self.operation)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        } else if !self.operation.is_empty() {
            f.write_str("failed: ")?;
        }
        write!(f, "{} ({})", self.message, self.kind)
    }
}

impl From<Error> for io::Error {
    /// An error of the standard library with this one inside: `get_ref` and `downcast` return it, and a
    /// conversion back restores it. The message stays the same.
    fn from(error: Error) -> Self {
        Self::new(error.kind.into(), error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind as Io;
        let error = match error.downcast::<Self>() {
            Ok(own) => return own,
            Err(error) => error,
        };
        let kind = match error.raw_os_error() {
            Some(errno) => ErrorKind::from_errno(errno),
            None => match error.kind() {
                Io::NotFound => ErrorKind::NotFound,
                Io::AlreadyExists => ErrorKind::AlreadyExists,
                Io::NotADirectory => ErrorKind::NotADirectory,
                Io::IsADirectory => ErrorKind::IsADirectory,
                Io::PermissionDenied => ErrorKind::PermissionDenied,
                Io::TimedOut => ErrorKind::TimedOut,
                Io::ConnectionRefused | Io::ConnectionReset | Io::UnexpectedEof => ErrorKind::Unavailable,
                Io::InvalidInput => ErrorKind::InvalidArgument,
                _ => ErrorKind::Internal,
            },
        };
        Self::new(kind, error.to_string()).caused_by(error)
    }
}

/// `Err` with an error of `kind`.
pub fn fail<T>(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Result<T> {
    Err(Error::new(kind, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_every_border_and_back() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(row.kind as usize, index, "rows stand in the order of the enum");
            assert_eq!(row.kind.row().kind, row.kind);
            assert_eq!(ErrorKind::from_name(row.name), Some(row.kind));
            assert_eq!(ErrorKind::from_errno(row.errno), row.kind);
            assert_eq!(ErrorKind::from_thrift(row.thrift), Some(row.kind));
            let same =
                |other: &&Row| other.remote_exception == row.remote_exception || other.exit == row.exit;
            assert_eq!(
                TABLE.iter().filter(same).count(),
                1,
                "another kind's exception or exit code: {row:?}"
            );
        }
        assert_eq!(TABLE.last().map(|row| row.kind), Some(ErrorKind::Internal), "no kind without a row");
    }

    #[test]
    fn a_stale_handle_of_a_network_file_system_is_unavailable() {
        let error = Error::from(std::io::Error::from_raw_os_error(116));
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn an_error_of_the_standard_library_keeps_kind_message_and_path() {
        for row in TABLE {
            let error = io::Error::from(Error::new(row.kind, "why").at("read", "/a"));
            assert_eq!(error.to_string(), format!("read /a: why ({})", row.name));
            let retried =
                [io::ErrorKind::Interrupted, io::ErrorKind::WouldBlock, io::ErrorKind::UnexpectedEof];
            assert!(!retried.contains(&error.kind()), "{error}");
            let again = Error::from(error);
            assert_eq!((again.kind(), again.path(), again.message()), (row.kind, "/a", "why"));
        }
        // The kernel's errno means the same kind, if it has one.
        for row in TABLE.iter().filter(|row| row.kind != ErrorKind::Unsupported) {
            let by_errno = io::Error::from_raw_os_error(row.errno).kind();
            let own = io::ErrorKind::from(row.kind);
            assert!(
                by_errno == own || format!("{by_errno:?}") == "Uncategorized",
                "{by_errno:?} for {own:?}"
            );
        }
    }

    #[test]
    fn the_message_names_operation_path_and_kind() {
        let error = Error::new(ErrorKind::NotFound, "no such file").at("stat", "/a").at("open", "/b");
        assert_eq!(error.to_string(), "stat /a: no such file (NotFound)");
    }
}
