//! Files as bytes: reading and removing them.

use super::super::answering::Answering;
use super::super::download::{Download, Source};
use super::failure::Failure;
use super::{Answer, Asked, Place, reply};
use crate::pool::Grant;
use crate::turns;
use hyper::header::{self, HeaderValue};
use hyper::{Method, Response, StatusCode};
use sha2::{Digest as _, Sha256};
use std::time::SystemTime;
use strait_store::{Error, ErrorKind, FileReader, FileStatus, hex};
use strait_web::{Conditions, EntityTag, Part, Range, State, Verdict};

/// Bytes of a file's tag. Among fewer than some 2^64 states, two are unlikely to have the same tag.
const TAG_BYTES: usize = 16;

/// A file as it is now.
pub struct Entity {
    pub state: State,
    pub status: FileStatus,
    pub reader: Box<dyn FileReader>,
}

/// The file at a place; none if nothing is there.
///
/// # Errors
/// IsADirectory: a directory is there. Also those of the store.
pub async fn entity(place: &Place) -> Result<Option<Entity>, Error> {
    let Some(status) = status(place).await? else { return Ok(None) };
    let reader = match place.fs.open(&place.who, &place.path).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        reader => reader?,
    };
    let mut digest = Sha256::new();
    digest.update(reader.identity().unwrap_or_default());
    digest.update(reader.length().to_be_bytes());
    digest.update(status.modified_ms.to_be_bytes());
    let tag = EntityTag(hex::encode(&digest.finalize()[..TAG_BYTES]));
    // A store's clock may be ahead of this host's (RFC 9110, section 8.8.2.1).
    let modified = reply::time(status.modified_ms).min(SystemTime::now());
    Ok(Some(Entity { state: State { tag, modified }, status, reader }))
}

/// The status of the file at a place; none if nothing is there.
///
/// # Errors
/// IsADirectory: a directory is there. Also those of the store.
pub async fn status(place: &Place) -> Result<Option<FileStatus>, Error> {
    match place.fs.stat(&place.who, &place.path).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Ok(status) if status.is_directory() => {
            let message = "this is a directory; see /v1/directories";
            Err(Error::new(ErrorKind::IsADirectory, message).at("open", &place.shown))
        }
        status => status.map(Some),
    }
}

fn missing(place: &Place) -> Failure {
    Error::new(ErrorKind::NotFound, "no such file").at("open", &place.shown).into()
}

/// Fails if the conditions of a change don't hold.
///
/// # Errors
/// The conditions don't hold: 412, with the file's current tag.
pub fn demand(conditions: &Conditions, current: Option<&State>, place: &Place) -> Result<(), Failure> {
    if conditions.decide(current, false) == Verdict::Go {
        return Ok(());
    }
    let kind = if conditions.only_creates() { ErrorKind::AlreadyExists } else { ErrorKind::InvalidArgument };
    Err(failed(kind, current, place))
}

/// The conditions of a request don't hold: 412.
pub fn failed(kind: ErrorKind, current: Option<&State>, place: &Place) -> Failure {
    let message = match (kind, current) {
        (ErrorKind::AlreadyExists, _) => "the file exists, and the request may only create it",
        (_, Some(_)) => "the file isn't in the state that the request's conditions name; read it again",
        (_, None) => "the file that the request's conditions name doesn't exist",
    };
    let failure =
        Failure::new(StatusCode::PRECONDITION_FAILED, Error::new(kind, message).at("check", &place.shown));
    match current {
        Some(state) => failure.with(header::ETAG, &state.tag.to_string()),
        None => failure,
    }
}

/// GET and HEAD.
pub async fn read(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    let place = asked.file()?;
    asked.query()?.end()?;
    let conditions = asked.conditions()?;
    let held = asked.front.shared.sessions.file_place(&asked.key)?;
    let entity = entity(&place).await?.ok_or_else(|| missing(&place))?;
    let state = entity.state.clone();
    match conditions.decide(Some(&state), true) {
        Verdict::Go => {}
        Verdict::NotModified => {
            let mut response = reply::empty(StatusCode::NOT_MODIFIED);
            reply::with_state(response.headers_mut(), &state);
            return Ok(response);
        }
        Verdict::Failed => return Err(failed(ErrorKind::InvalidArgument, Some(&state), &place)),
    }
    let length = entity.reader.length();
    let is_head = asked.head.method == Method::HEAD;
    let range = asked.field(header::RANGE)?.and_then(Range::parse);
    let range = range.filter(|_| !is_head && conditions.allow_range(&state, SystemTime::now()));
    let (status, bytes) = match range.map(|range| range.of(length)) {
        None | Some(Part::Whole) => (StatusCode::OK, 0..length),
        Some(Part::Bytes(from, to)) => (StatusCode::PARTIAL_CONTENT, from..to),
        Some(Part::None) => {
            let message = format!("the range begins after the end of the file, which has {length} bytes");
            let error = Error::new(ErrorKind::InvalidArgument, message).at("read", &place.shown);
            let failure = Failure::new(StatusCode::RANGE_NOT_SATISFIABLE, error);
            return Err(failure.with(header::CONTENT_RANGE, &format!("bytes */{length}")));
        }
    };
    let content_length = bytes.end - bytes.start;
    let place_in_file = format!("bytes {}-{}/{length}", bytes.start, bytes.end.saturating_sub(1));
    let answer = match is_head || bytes.is_empty() {
        true => Answer::of(""),
        false => download(asked, &place, entity.reader, held, bytes).await?,
    };
    let mut response = Response::new(answer);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    reply::with_state(headers, &state);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CONTENT_LENGTH, content_length.into());
    if status == StatusCode::PARTIAL_CONTENT {
        headers.extend(HeaderValue::from_str(&place_in_file).map(|value| (header::CONTENT_RANGE, value)));
    }
    Ok(response)
}

async fn download(
    asked: &Asked<'_>,
    place: &Place,
    reader: Box<dyn FileReader>,
    held: Grant,
    bytes: std::ops::Range<u64>,
) -> Result<Answer, Failure> {
    let source = Source {
        front: asked.front.clone(),
        context: asked.context.clone(),
        key: asked.key.clone(),
        id: asked.id,
        reader,
        path: place.shown.clone(),
        place: held,
        answering: Answering::new(asked.front.traffic.answers.clone()),
    };
    Ok(Answer::File(Box::new(Download::begin(source, bytes).await?)))
}

/// DELETE.
pub async fn remove(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    let place = asked.file()?;
    asked.query()?.end()?;
    let conditions = asked.conditions()?;
    let held = asked.begin_change(&place)?;
    if conditions.are_none() {
        status(&place).await?; // a directory fails; a link to nothing can be removed
    } else {
        let entity = entity(&place).await?;
        demand(&conditions, entity.as_ref().map(|entity| &entity.state), &place)?;
    }
    turns::to_its_end(async move {
        let _held = held;
        place.fs.remove(&place.who, &place.path, false).await
    })
    .await?;
    Ok(reply::empty(StatusCode::NO_CONTENT))
}
