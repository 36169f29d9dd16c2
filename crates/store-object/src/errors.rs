//! Failures of object stores in the one table of errors.

use crate::http::{self, Condition};
use object_store::Error as Failed;
use object_store::client::{HttpError, HttpErrorKind};
use std::error::Error as StdError;
use std::future::Future;
use strait_store::{Error, ErrorKind};

/// The meaning of an endpoint's error code, and the remedy. Codes of S3, Google and Azure.
const CODES: &[(&str, ErrorKind, &str)] = &[
    (
        "ExpiredToken",
        ErrorKind::Unauthenticated,
        "the credentials have expired; get new ones, as by `aws sso login`",
    ),
    ("TokenRefreshRequired", ErrorKind::Unauthenticated, "the credentials have expired; get new ones"),
    ("InvalidToken", ErrorKind::Unauthenticated, "the session token is wrong; see AWS_SESSION_TOKEN"),
    ("InvalidClientTokenId", ErrorKind::Unauthenticated, "the access key is unknown; see AWS_ACCESS_KEY_ID"),
    (
        "InvalidAccessKeyId",
        ErrorKind::Unauthenticated,
        "the access key is unknown; see AWS_ACCESS_KEY_ID and the endpoint",
    ),
    (
        "SignatureDoesNotMatch",
        ErrorKind::Unauthenticated,
        "the secret key is wrong; see AWS_SECRET_ACCESS_KEY",
    ),
    (
        "AuthorizationHeaderMalformed",
        ErrorKind::InvalidArgument,
        "the region is wrong; see AWS_REGION or --region",
    ),
    (
        "RequestTimeTooSkewed",
        ErrorKind::Unauthenticated,
        "this host's clock differs too much from the endpoint's; set it",
    ),
    ("AuthenticationFailed", ErrorKind::Unauthenticated, "the credentials are wrong or expired"),
    ("AuthorizationFailure", ErrorKind::PermissionDenied, "these credentials may not do this"),
    ("NoSuchBucket", ErrorKind::NotFound, "there is no such bucket at this endpoint"),
    ("ContainerNotFound", ErrorKind::NotFound, "there is no such container in this account"),
    ("NoSuchUpload", ErrorKind::NotFound, "the upload is gone; it was aborted, or the endpoint removed it"),
    ("SlowDown", ErrorKind::Busy, "the endpoint asks for fewer requests"),
    ("ServerBusy", ErrorKind::Busy, "the endpoint asks for fewer requests"),
    ("EntityTooLarge", ErrorKind::NoSpace, "the endpoint takes no object of this size"),
    ("QuotaExceeded", ErrorKind::NoSpace, "the bucket's quota is used up"),
    ("XMinioStorageFull", ErrorKind::NoSpace, "the endpoint's disks are full"),
    ("KMS.", ErrorKind::PermissionDenied, "the key that encrypts the bucket can't be used"),
];

/// Whether the failed request changed something, if it was executed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// A request that may be repeated.
    Repeatable,
    /// A conditional change: repeated, it may fail because it succeeded before.
    Conditional,
    /// As before, and an answer got lost: no later answer tells whether this change was executed.
    Lost,
}

/// Makes a conditional change. `condition` is a further header for its requests.
///
/// # Errors
/// OutcomeUnknown if an answer got lost, also if a repeated request was refused.
pub async fn change<T>(
    condition: Option<Condition>,
    requests: impl Future<Output = Result<T, Failed>>,
) -> strait_store::Result<T> {
    let (outcome, lost) = http::change(condition, requests).await;
    outcome.map_err(|error| typed(error, if lost { Sent::Lost } else { Sent::Conditional }))
}

/// The typed error.
pub fn typed(failed: Failed, sent: Sent) -> Error {
    let (kind, message) = meaning(&failed);
    let lost = match sent {
        Sent::Repeatable => false,
        Sent::Conditional => {
            matches!(kind, ErrorKind::TimedOut | ErrorKind::Unavailable)
                && transport(&failed).is_none_or(|kind| kind != HttpErrorKind::Connect)
        }
        Sent::Lost => true,
    };
    let kind = if lost { ErrorKind::OutcomeUnknown } else { kind };
    Error::new(kind, message).caused_by(failed)
}

fn meaning(failed: &Failed) -> (ErrorKind, String) {
    let text = failed.to_string();
    if let Some((code, kind, remedy)) = CODES.iter().find(|(code, ..)| has_code(&text, code)) {
        return (*kind, format!("{remedy} ({code})"));
    }
    match failed {
        Failed::NotFound { .. } => (ErrorKind::NotFound, "no such file or directory".to_owned()),
        Failed::AlreadyExists { .. } => (ErrorKind::AlreadyExists, "the name is taken".to_owned()),
        Failed::Precondition { .. } | Failed::NotModified { .. } => {
            (ErrorKind::NotFound, "the object was replaced or removed meanwhile".to_owned())
        }
        Failed::InvalidPath { .. } => (ErrorKind::InvalidArgument, format!("a key that is no path: {text}")),
        Failed::NotSupported { .. } | Failed::NotImplemented { .. } => (ErrorKind::Unsupported, text),
        Failed::PermissionDenied { .. } => {
            (ErrorKind::PermissionDenied, "the endpoint refuses this with these credentials (403)".to_owned())
        }
        Failed::Unauthenticated { .. } => {
            (ErrorKind::Unauthenticated, "the endpoint wants other credentials (401)".to_owned())
        }
        _ => by_transport(failed, &text),
    }
}

fn by_transport(failed: &Failed, text: &str) -> (ErrorKind, String) {
    let cause = innermost(failed);
    match transport(failed) {
        Some(HttpErrorKind::Timeout) => (ErrorKind::TimedOut, cause),
        Some(HttpErrorKind::Connect) => {
            (ErrorKind::Unavailable, format!("{cause}; see the endpoint, and `strait doctor URI`"))
        }
        Some(_) => (ErrorKind::Unavailable, format!("the connection broke: {cause}")),
        None if text.contains("token request")
            || text.contains("credentials")
            || text.contains("metadata") =>
        {
            (ErrorKind::Unauthenticated, shortened(text))
        }
        None if text.contains("status code: 5") || text.contains("status code: 429") => {
            (ErrorKind::Unavailable, shortened(text))
        }
        None => (ErrorKind::Internal, shortened(text)),
    }
}

/// Whether an answer has this code: in XML, JSON or Azure's text, a code stands alone.
fn has_code(text: &str, code: &str) -> bool {
    text.contains(&format!("<Code>{code}")) || text.contains(&format!("\"{code}\""))
}

fn transport(failed: &Failed) -> Option<HttpErrorKind> {
    chain(failed).find_map(|cause| cause.downcast_ref::<HttpError>()).map(HttpError::kind)
}

fn innermost(failed: &Failed) -> String {
    chain(failed).last().map_or_else(String::new, ToString::to_string)
}

fn chain(failed: &Failed) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let mut next = Some(failed as &(dyn StdError + 'static));
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
}

/// An endpoint may answer a page of text.
fn shortened(text: &str) -> String {
    /// A line or two.
    const MOST: usize = 300;
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).take(MOST).collect()
}
