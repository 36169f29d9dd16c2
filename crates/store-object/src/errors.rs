//! Converts the errors of object stores to Strait's.

use crate::http::{self, Condition};
use object_store::Error as Failed;
use object_store::client::{HttpError, HttpErrorKind};
use std::error::Error as StdError;
use std::future::Future;
use strait_store::{Error, ErrorKind};

const SLOW_SENDER: &str =
    "the request's bytes came too slowly, so the endpoint gave up; check the network, and retry";
const REPLACED: &str =
    "the object was replaced or removed meanwhile; open it again, or repeat the change from its beginning";
const TOO_MANY_REQUESTS: &str =
    "the endpoint limits the request rate; retry later with fewer requests at once";

/// Error codes of S3, Google and Azure, each with the kind of error and its cause or remedy.
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
    ("AuthorizationFailure", ErrorKind::PermissionDenied, "these credentials don't permit this"),
    ("NoSuchBucket", ErrorKind::NotFound, "there is no such bucket at this endpoint"),
    ("ContainerNotFound", ErrorKind::NotFound, "there is no such container in this account"),
    ("NoSuchUpload", ErrorKind::NotFound, "the upload is gone; it was aborted, or the endpoint removed it"),
    ("SlowDown", ErrorKind::Busy, TOO_MANY_REQUESTS),
    ("ServerBusy", ErrorKind::Busy, TOO_MANY_REQUESTS),
    ("EntityTooLarge", ErrorKind::NoSpace, "the object is too large for the endpoint"),
    ("RequestTimeout", ErrorKind::TimedOut, SLOW_SENDER),
    ("NotImplemented", ErrorKind::Unsupported, "the endpoint doesn't support this"),
    ("QuotaExceeded", ErrorKind::NoSpace, "the bucket's quota is used up"),
    ("XMinioStorageFull", ErrorKind::NoSpace, "the endpoint's disks are full"),
    ("KMS.", ErrorKind::PermissionDenied, "the key that encrypts the bucket can't be used"),
];

/// The kind of a failed request. It decides whether the outcome is unknown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// A request that can be repeated without harm.
    Repeatable,
    /// A conditional change. A repetition may fail because an earlier attempt succeeded.
    Conditional,
    /// A conditional change with a lost answer: no later answer tells whether the change was executed.
    Lost,
}

/// Runs a conditional change. `condition` is a further header for its requests.
///
/// # Errors
/// OutcomeUnknown if an answer got lost, even if a later attempt was rejected.
pub async fn change<T>(
    condition: Option<Condition>,
    requests: impl Future<Output = Result<T, Failed>>,
) -> strait_store::Result<T> {
    let (outcome, lost) = http::change(condition, requests).await;
    outcome.map_err(|error| typed(error, if lost { Sent::Lost } else { Sent::Conditional }))
}

/// Converts to a typed error.
pub fn typed(failed: Failed, sent: Sent) -> Error {
    let (kind, message) = meaning(&failed);
    let lost = match sent {
        Sent::Repeatable => false,
        // An answer with a status isn't lost. `http::change` detects statuses that leave the outcome open.
        Sent::Conditional => {
            matches!(kind, ErrorKind::TimedOut | ErrorKind::Unavailable)
                && status(&failed).is_none()
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
            (ErrorKind::NotFound, REPLACED.to_owned())
        }
        Failed::InvalidPath { .. } => (ErrorKind::InvalidArgument, format!("a key isn't a path: {text}")),
        Failed::NotSupported { .. } | Failed::NotImplemented { .. } => (ErrorKind::Unsupported, text),
        Failed::PermissionDenied { .. } => by_status(403, &text),
        Failed::Unauthenticated { .. } => by_status(401, &text),
        // For listings and completions, only the error's source has the status.
        _ if is_of_key(&text) => by_status(status_of_code(&text), &text),
        _ if is_of_token(&text) || transport(failed).is_some() => by_transport(failed, &text),
        _ => match status(failed) {
            Some(status) => by_status(status, &text),
            None => by_transport(failed, &text),
        },
    }
}

/// The error for an HTTP status, if the answer has no known code.
fn by_status(status: u16, text: &str) -> (ErrorKind, String) {
    let (kind, why) = match status {
        401 => (ErrorKind::Unauthenticated, "the endpoint doesn't accept the credentials"),
        403 => (ErrorKind::PermissionDenied, "the credentials don't permit this at the endpoint"),
        404 | 410 => (ErrorKind::NotFound, "no such bucket, file or directory"),
        405 | 501 => (ErrorKind::Unsupported, "the endpoint doesn't support this"),
        408 => (ErrorKind::TimedOut, SLOW_SENDER),
        409 => (ErrorKind::Busy, "another change of the object is under way; retry"),
        304 | 412 => (ErrorKind::NotFound, REPLACED),
        413 | 507 => {
            (ErrorKind::NoSpace, "the object is too large for the endpoint, or the endpoint is full")
        }
        429 => (ErrorKind::Unavailable, TOO_MANY_REQUESTS),
        503 => (ErrorKind::Unavailable, "the endpoint is unavailable or overloaded; retry later"),
        300..400 => {
            (ErrorKind::InvalidArgument, "the endpoint redirects to another one; check its URL and region")
        }
        400..500 => (ErrorKind::InvalidArgument, "the endpoint doesn't accept the request"),
        500..600 => (ErrorKind::Unavailable, "the endpoint failed"),
        _ => (ErrorKind::Internal, "the endpoint sent an unknown status"),
    };
    (kind, format!("{why} ({status}): {}", shortened(text)))
}

const NO_CREDENTIALS: &str = "no credentials are set here, and the cloud's metadata service gave none; \
                              set them in the environment, or give --no-sign-request for a public bucket";

fn by_transport(failed: &Failed, text: &str) -> (ErrorKind, String) {
    let cause = innermost(failed);
    let is_of_metadata = is_of_metadata(text);
    match transport(failed) {
        Some(HttpErrorKind::Timeout) if is_of_metadata => {
            (ErrorKind::TimedOut, format!("{NO_CREDENTIALS}: {cause}"))
        }
        Some(HttpErrorKind::Timeout) => (ErrorKind::TimedOut, cause),
        Some(HttpErrorKind::Connect) if is_of_metadata => {
            (ErrorKind::Unavailable, format!("{NO_CREDENTIALS}: {cause}"))
        }
        Some(HttpErrorKind::Connect) => {
            (ErrorKind::Unavailable, format!("{cause}; check the endpoint, or run `strait doctor URI`"))
        }
        Some(_) => (ErrorKind::Unavailable, format!("the connection broke: {cause}")),
        None if is_of_metadata => {
            (ErrorKind::Unauthenticated, format!("{NO_CREDENTIALS}: {}", shortened(text)))
        }
        None if is_of_token(text) || text.contains("credentials") || text.contains("metadata") => {
            (ErrorKind::Unauthenticated, shortened(text))
        }
        None => (ErrorKind::Internal, shortened(text)),
    }
}

/// Whether the failed request was for credentials, at another server than the endpoint.
fn is_of_token(text: &str) -> bool {
    text.contains("performing token request") || is_of_metadata(text)
}

/// Whether it was for credentials at a cloud's metadata service, where the library asks if it finds no
/// others.
fn is_of_metadata(text: &str) -> bool {
    ["://169.254.", "://[fd00:ec2:"].iter().any(|sign| text.contains(sign))
}

/// Whether S3 refused one key of a request that removes many. Its answer has the status 200.
fn is_of_key(text: &str) -> bool {
    text.contains("request failed for key")
}

/// The status that the refusal of a key has if it is an answer of its own.
fn status_of_code(text: &str) -> u16 {
    let code = text.rsplit_once("(code: ").map_or("", |(_, code)| code);
    match code.split(')').next() {
        Some("AccessDenied") => 403,
        Some("InternalError") => 500,
        Some("SlowDown" | "ServiceUnavailable") => 503,
        _ => 400,
    }
}

/// The HTTP status of a rejected request. object_store has no type for it, so this parses the text.
fn status(failed: &Failed) -> Option<u16> {
    const REFUSED: &str = "Server returned non-2xx status code: ";
    /// A redirection without a destination, as S3 sends it for a bucket of another region.
    const REDIRECTED: &str = "Received redirect without LOCATION";
    chain(failed).find_map(|cause| {
        let text = cause.to_string();
        if text.starts_with(REDIRECTED) {
            return Some(301);
        }
        text.strip_prefix(REFUSED)?.get(..3)?.parse().ok()
    })
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

/// Shortens text for a message: an endpoint may answer with a whole page.
fn shortened(text: &str) -> String {
    /// A line or two.
    const MOST: usize = 300;
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Cause(&'static str);

    impl std::fmt::Display for Cause {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl StdError for Cause {}

    fn generic(text: &'static str) -> Failed {
        Failed::Generic { store: "GCS", source: Box::new(Cause(text)) }
    }

    #[test]
    fn a_refused_key_of_a_bulk_removal_has_the_kind_of_its_code() {
        for (code, kind) in
            [("AccessDenied", ErrorKind::PermissionDenied), ("InternalError", ErrorKind::Unavailable)]
        {
            let text =
                format!("DeleteObjects request failed for key table/metadata/v1.json: no (code: {code})");
            assert_eq!(typed(generic(text.leak()), Sent::Repeatable).kind(), kind);
        }
    }

    #[test]
    fn a_refusal_without_a_known_code_has_the_kind_of_its_status() {
        let refused = [
            ("400 Bad Request", ErrorKind::InvalidArgument),
            ("401 Unauthorized", ErrorKind::Unauthenticated),
            ("403 Forbidden", ErrorKind::PermissionDenied),
            ("404 Not Found", ErrorKind::NotFound),
            ("405 Method Not Allowed", ErrorKind::Unsupported),
            ("408 Request Timeout", ErrorKind::TimedOut),
            ("409 Conflict", ErrorKind::Busy),
            ("412 Precondition Failed", ErrorKind::NotFound),
            ("413 Payload Too Large", ErrorKind::NoSpace),
            ("429 Too Many Requests", ErrorKind::Unavailable),
            ("500 Internal Server Error", ErrorKind::Unavailable),
            ("503 Service Unavailable", ErrorKind::Unavailable),
        ];
        for (status, kind) in refused {
            let text = format!("Server returned non-2xx status code: {status}: <Error/>").leak();
            for sent in [Sent::Repeatable, Sent::Conditional] {
                assert_eq!(typed(generic(text), sent).kind(), kind, "{status}");
            }
            assert_eq!(typed(generic(text), Sent::Lost).kind(), ErrorKind::OutcomeUnknown, "{status}");
        }
        let region = "Received redirect without LOCATION, this normally indicates a wrong region";
        assert_eq!(typed(generic(region), Sent::Repeatable).kind(), ErrorKind::InvalidArgument);
    }

    #[test]
    fn a_refused_request_for_credentials_is_no_refusal_of_the_object() {
        let text = "Error performing token request: Server returned non-2xx status code: 404 Not Found: ";
        assert_eq!(typed(generic(text), Sent::Repeatable).kind(), ErrorKind::Unauthenticated);
    }

    #[test]
    fn missing_credentials_are_named_with_a_remedy() {
        let text = "Error performing PUT http://169.254.169.254/latest/api/token in 5 ms - \
                    Server returned non-2xx status code: 403 Forbidden: ";
        let error = typed(generic(text), Sent::Repeatable);
        assert_eq!(error.kind(), ErrorKind::Unauthenticated);
        assert!(error.message().starts_with("no credentials are set here"), "{error}");
    }
}
