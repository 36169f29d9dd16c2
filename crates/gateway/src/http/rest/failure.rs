//! Failed requests: a status, and the error as JSON.

use super::Answer;
use super::reply;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde_json::json;
use strait_store::Error;
use strait_web::Malformed;

/// `Retry-After`, in seconds, for requests that are safe to repeat.
const RETRY_AFTER_S: &str = "1";

/// The failure of a request.
#[derive(Debug)]
pub struct Failure {
    /// HTTP's status: that of the error's kind, or another for a condition of HTTP itself.
    pub status: StatusCode,
    error: Error,
    fields: Vec<(HeaderName, HeaderValue)>,
}

impl Failure {
    /// A failure with this status instead of its error's.
    pub fn new(status: StatusCode, error: Error) -> Self {
        Self { status, error, fields: Vec::new() }
    }

    /// Adds a field to the answer.
    pub fn with(mut self, name: HeaderName, value: &str) -> Self {
        self.fields.extend(HeaderValue::from_str(value).map(|value| (name, value)));
        self
    }

    /// The answer.
    pub fn response(self) -> Response<Answer> {
        let row = self.error.kind().row();
        let described = json!({"error": {
            "kind": row.name,
            "message": self.error.message(),
            "operation": Some(self.error.operation()).filter(|name| !name.is_empty()),
            "path": Some(self.error.path()).filter(|path| !path.is_empty()),
            "retry_safe": self.error.retry_safe(),
        }});
        tracing::debug!(status = self.status.as_u16(), error = %self.error, "request failed");
        let mut response = reply::json(self.status, &described);
        let headers = response.headers_mut();
        headers.extend(self.fields.into_iter().map(|(name, value)| (Some(name), value)).collect::<Vec<_>>());
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(self.status.as_u16(), 503 | 504) && self.error.retry_safe() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
        }
        response
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = StatusCode::from_u16(error.kind().row().rest);
        Self::new(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), error)
    }
}

impl From<Malformed> for Failure {
    fn from(malformed: Malformed) -> Self {
        Error::new(strait_store::ErrorKind::InvalidArgument, malformed.0).into()
    }
}
