//! Answers of requests that succeeded.

use super::Answer;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use std::time::{Duration, SystemTime};
use strait_web::{EntityTag, State};

/// Most answers have fewer bytes.
const FIRST_BYTES: usize = 512;
/// The last second that HTTP's dates can write: 9999-12-31T23:59:59Z.
const LAST_SECOND: u64 = 253_402_300_799;

/// A value as JSON.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response<Answer> {
    let mut response = as_json(Answer::of(line(value)));
    *response.status_mut() = status;
    response
}

/// A value as a line of JSON.
pub fn line(value: &impl Serialize) -> Vec<u8> {
    let mut text = Vec::with_capacity(FIRST_BYTES);
    // It fails only for objects whose names aren't text.
    let _ = serde_json::to_writer(&mut text, value);
    text.push(b'\n');
    text
}

/// An answer that is JSON, which a cache must not keep.
pub fn as_json(answer: Answer) -> Response<Answer> {
    let mut response = Response::new(answer);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// An answer that has a status and no body.
pub fn empty(status: StatusCode) -> Response<Answer> {
    let mut response = Response::new(Answer::of(""));
    *response.status_mut() = status;
    response
}

/// The description of the interface.
pub fn described(text: &'static str) -> Response<Answer> {
    let mut response = Response::new(Answer::of(text));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Adds the fields of a file's state. A cache has to ask before it uses the file again.
pub fn with_state(headers: &mut HeaderMap, state: &State) {
    tag(headers, &state.tag);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if let Ok(date) = HeaderValue::from_str(&httpdate::fmt_http_date(state.modified)) {
        headers.insert(header::LAST_MODIFIED, date);
    }
}

/// Adds a file's tag.
pub fn tag(headers: &mut HeaderMap, tag: &EntityTag) {
    headers.extend(HeaderValue::from_str(&tag.to_string()).map(|tag| (header::ETAG, tag)));
}

/// A store's time, moved into the range of HTTP's dates if it is outside.
pub fn time(ms: i64) -> SystemTime {
    let ms = u64::try_from(ms).unwrap_or(0).min(LAST_SECOND * 1_000);
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}
