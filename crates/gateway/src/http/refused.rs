//! Requests that reach no method.

use super::answer::Answer;
use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};
use strait_store::ErrorKind;
use strait_web::BadHead;

/// The reason why a request doesn't reach a method.
pub struct Refusal {
    /// HTTP's status.
    pub status: StatusCode,
    /// The kind of the error, as DfsV2 names them.
    pub kind: ErrorKind,
    /// Text for people. It is never a client's own text, so JSON needs no escapes for it.
    pub message: &'static str,
}

impl Refusal {
    /// A refusal with these parts.
    pub fn new(status: StatusCode, kind: ErrorKind, message: &'static str) -> Self {
        Self { status, kind, message }
    }
}

impl From<BadHead> for Refusal {
    fn from(bad: BadHead) -> Self {
        let (status, message) = match bad {
            BadHead::TooLarge(message) => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, message),
            BadHead::TargetTooLong(message) => (StatusCode::URI_TOO_LONG, message),
            BadHead::Malformed(message) => (StatusCode::BAD_REQUEST, message),
        };
        Self::new(status, ErrorKind::InvalidArgument, message)
    }
}

/// A request that is wrong in itself.
pub fn bad(message: &'static str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, ErrorKind::InvalidArgument, message)
}

/// A refusal as JSON.
pub fn refused(refusal: &Refusal) -> Response<Answer> {
    let text =
        format!("{{\"error\":{{\"kind\":\"{:?}\",\"message\":\"{}\"}}}}\n", refusal.kind, refusal.message);
    let mut response = Response::new(Answer::of(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    as_refusal(response, refusal.status)
}

/// Adds status and fields of a refusal. It ends the connection, since the body may not have been read.
pub fn as_refusal(mut response: Response<Answer>, status: StatusCode) -> Response<Answer> {
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
