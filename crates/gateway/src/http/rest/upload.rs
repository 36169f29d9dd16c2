//! Writing files, of any size: PUT writes a whole file, PATCH appends.
//!
//! ```text
//!   body ─ inflow ─→ pieces ─ channel ─→ a task: writer.append … close, rename
//! ```
//!
//! The request receives the body while the task writes. If the client leaves in mid-body, the channel
//! ends early. Then the task of a PUT leaves the former file as it was, and the task of an append closes
//! the file with the bytes that arrived. If the whole body has arrived, the task finishes even if the
//! client has left.

use super::super::inflow::{Inflow, Receiving};
use super::failure::Failure;
use super::files::{self, demand, entity};
use super::{Answer, Asked, Place, json, reply};
use crate::memory::Permit;
use crate::pool::Grant;
use crate::temporary::Temporary;
use crate::turns;
use bytes::Bytes;
use hyper::body::Body;
use hyper::header;
use hyper::{Response, StatusCode};
use strait_store::random::random;
use strait_store::{CreateOptions, Error, ErrorKind, FileWriter, Result as StoreResult, SetAttributes};
use strait_web::{Conditions, ContentRange, State};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// Bytes written at a time.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that an upload holds at most: one is received, one waits, one is written.
const PIECES: usize = 3;

/// Set-user-id and set-group-id.
const SET_ID_BITS: u32 = 0o6000;

/// A part of a body, or its end.
enum Piece {
    Data(Bytes),
    End,
}

/// The shared resources that an upload holds: a place for an open file, one for a change, and memory.
struct Held {
    _file: Grant,
    _change: Grant,
    memory: Option<Permit>,
}

impl Held {
    /// The part of its memory that others may wait for.
    fn units(&self) -> usize {
        Receiving::units(self.memory.as_ref())
    }
}

/// PUT. With Content-Range it continues an earlier upload, as curl does.
pub async fn write(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    let place = asked.file()?;
    let conditions = asked.conditions()?;
    if let Some(range) = asked.field(header::CONTENT_RANGE)?.map(ContentRange::parse).transpose()? {
        asked.query()?.end()?;
        return go_on(asked, place, &conditions, range).await;
    }
    let mut query = asked.query()?;
    let mut options = CreateOptions {
        permission: json::permission(query.take("permission").as_deref())?,
        replication: json::replication(query.number("replication")?)?,
        block_size: query.number("block_size")?,
        min_replicas: json::replication(query.number("min_replicas")?)?,
        overwrite: false,
    };
    query.end()?;
    let held = hold(asked, &place).await?;
    let before = present(&place, &conditions).await?;
    // The new content gets the file's former mode, so that a private file stays private. It doesn't get
    // the set-id bits: they were granted to the former content only.
    let kept = before.as_ref().map(|before| before.permission & !SET_ID_BITS);
    let mode = kept.filter(|_| options.permission.is_none());
    options.permission = options.permission.or(kept);
    let Some(directory) = place.path.parent() else {
        return Err(Error::new(ErrorKind::IsADirectory, "the root is a directory").at("put", "/").into());
    };
    let name = format!(".strait-put-{:016x}", u64::from_be_bytes(random()));
    let shown = name.clone();
    let all = &asked.front.shared.temporaries;
    let mut temporary = Temporary::new(all, place.fs.clone(), place.who.clone(), directory.join(&name)?);
    // Errors name the client's file, since the client doesn't know the temporary name.
    let to = place.path.name().to_owned();
    let readable = move |error: Error| {
        let (path, message) = (error.path().replace(&shown, &to), error.message().replace(&shown, &to));
        let renamed = Error::new(error.kind(), message).with_retry_safe(error.retry_safe());
        renamed.at("put", path).caused_by(error)
    };
    // Until the rename, only the temporary file has changed, so the request can be repeated.
    let untouched = |error: Error| match error.kind() {
        ErrorKind::OutcomeUnknown => Error::new(ErrorKind::Unavailable, error.message().to_owned())
            .caused_by(error)
            .with_retry_safe(true),
        _ => error,
    };
    let writer = temporary.create(&options).await.map_err(untouched).map_err(&readable)?;
    let ((pieces, received), units) = (mpsc::channel(1), held.units());
    let (to, checks) = (place.clone(), conditions.clone());
    let written = turns::to_its_end(async move {
        let _held = held;
        let finished = write_pieces(writer, received).await;
        finished.map_err(untouched).map_err(&readable)?;
        rename(temporary, &to, &checks, mode).await.map_err(&readable)
    });
    let sent = send(asked, pieces, units).await;
    let outcome = written.await;
    sent?;
    let (is_new, state) = (before.is_none(), outcome?);
    let state = match state {
        Ok(state) => state,
        Err(current) => {
            demand(&conditions, current.as_ref(), &place)?;
            if conditions.only_creates() {
                return Err(files::failed(ErrorKind::AlreadyExists, None, &place)); // such as a link to nothing
            }
            let message = "another client changed the file during the upload; read it again";
            return Err(Error::new(ErrorKind::Busy, message).at("put", &place.shown).into());
        }
    };
    Ok(done(if is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT }, state.as_ref()))
}

/// Checks the conditions of a change. Returns the file's status before it; none if there is no file.
async fn present(
    place: &Place,
    conditions: &Conditions,
) -> Result<Option<strait_store::FileStatus>, Failure> {
    if conditions.are_none() {
        return Ok(files::status(place).await?);
    }
    let entity = entity(place).await?;
    demand(conditions, entity.as_ref().map(|entity| &entity.state), place)?;
    Ok(entity.map(|entity| entity.status))
}

/// Renames a complete upload to the file's name, if the conditions still hold. Returns the state of the
/// uploaded file, if it is known. If the conditions don't hold, returns the file's current state as an
/// inner `Err`. `mode`: the permission bits that the upload has from the file before it.
async fn rename(
    temporary: Temporary,
    place: &Place,
    conditions: &Conditions,
    mode: Option<u32>,
) -> StoreResult<Result<Option<State>, Option<State>>> {
    let state = async || StoreResult::Ok(entity(place).await?.map(|entity| entity.state));
    // After the rename, another client's file may have the name, and its tag would let this client
    // overwrite that file (RFC 9110, section 9.3.4). A rename by a copy makes another file.
    let uploaded = match place.fs.capabilities().atomic_rename {
        // The PUT succeeds even if the file can't be read.
        true => entity(&place.at(temporary.path())).await.unwrap_or(None).map(|entity| entity.state),
        false => None,
    };
    if !conditions.are_none() && !conditions.only_creates() {
        let current = state().await?;
        if conditions.decide(current.as_ref(), false) != strait_web::Verdict::Go {
            return Ok(Err(current));
        }
    }
    // The file's owner may have made it private meanwhile.
    if let Some(before) = mode
        && let Some(now) = files::status(place).await?
        && now.permission & !SET_ID_BITS != before
    {
        let permission = Some(now.permission & !SET_ID_BITS);
        let set = SetAttributes { permission, ..SetAttributes::default() };
        place.fs.set_attributes(&place.who, temporary.path(), &set).await?;
    }
    match temporary.rename(place.path.clone(), !conditions.only_creates()).await {
        Err(error) if conditions.only_creates() && error.kind() == ErrorKind::AlreadyExists => {
            Ok(Err(state().await?))
        }
        renamed => renamed.map(|()| Ok(uploaded)),
    }
}

/// PATCH: appends the body.
pub async fn append(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    let place = asked.file()?;
    let mut query = asked.query()?;
    let offset = query.number("offset")?;
    query.end()?;
    if asked.field(header::CONTENT_RANGE)?.is_some() {
        let message = "PATCH has its place in the query, as ?offset=N; a PUT may have a Content-Range";
        return Err(Error::new(ErrorKind::InvalidArgument, message).at("append", &place.shown).into());
    }
    let conditions = asked.conditions()?;
    append_at(asked, place, &conditions, offset, false).await
}

/// A PUT with Content-Range.
async fn go_on(
    asked: &mut Asked<'_>,
    place: Place,
    conditions: &Conditions,
    range: ContentRange,
) -> Result<Response<Answer>, Failure> {
    let Some(length) = asked.body.size_hint().exact() else {
        // An append can't be undone if the body turns out to be longer than its range.
        let message = "a body with Content-Range needs a Content-Length, and can't be chunked";
        let error = Error::new(ErrorKind::InvalidArgument, message).at("put", place.shown);
        return Err(Failure::new(StatusCode::LENGTH_REQUIRED, error));
    };
    if length != range.length {
        let message = "Content-Range and Content-Length contradict each other";
        return Err(Error::new(ErrorKind::InvalidArgument, message).at("put", place.shown).into());
    }
    append_at(asked, place, conditions, Some(range.first), range.first == 0).await
}

/// Appends the body at this offset, which must be the file's end. `may_create`: a missing file counts
/// as an empty one.
async fn append_at(
    asked: &mut Asked<'_>,
    place: Place,
    conditions: &Conditions,
    offset: Option<u64>,
    may_create: bool,
) -> Result<Response<Answer>, Failure> {
    let held = hold(asked, &place).await?;
    present(&place, conditions).await?;
    // Only for the answer's tag, so that a user without the right to read can append.
    let before = place.fs.open(&place.who, &place.path).await.ok().and_then(|reader| reader.identity());
    let (to, only_creates) = (place.clone(), conditions.only_creates());
    let opened = turns::to_its_end(async move {
        // Another client may just have made the file, which isn't this one's to append to.
        let appended = match only_creates {
            true => Err(Error::new(ErrorKind::NotFound, "no such file").at("append", &to.shown)),
            false => to.fs.append(&to.who, &to.path).await,
        };
        let (mut writer, status) = match appended {
            Err(error) if may_create && error.kind() == ErrorKind::NotFound => {
                (to.fs.create(&to.who, &to.path, &CreateOptions::default()).await?, StatusCode::CREATED)
            }
            writer => (writer?, StatusCode::NO_CONTENT),
        };
        let position = writer.position();
        if offset.is_some_and(|offset| offset != position) {
            writer.close().await?;
            return Ok(Err(position));
        }
        // Even if the client has left, the request holds its places while the store opens the file.
        Ok(Ok((writer, status, held)))
    });
    let (writer, status, held) = match opened.await {
        Ok(Ok(opened)) => opened,
        Err(error) if only_creates && error.kind() == ErrorKind::AlreadyExists => {
            return Err(files::failed(ErrorKind::AlreadyExists, None, &place));
        }
        Err(error) => return Err(error.into()),
        Ok(Err(position)) => {
            let message = format!("the file has {position} bytes; send those from offset {position} on");
            let error = Error::new(ErrorKind::InvalidArgument, message).at("append", &place.shown);
            return Err(Failure::new(StatusCode::CONFLICT, error));
        }
    };
    let ((pieces, received), units) = (mpsc::channel(1), held.units());
    let to = place.clone();
    let written = turns::to_its_end(async move {
        let _held = held;
        let appended = append_pieces(writer, received).await;
        let length = appended.map_err(|error| error.at("append", &to.shown))?;
        // Another client may have appended since, or replaced the file.
        let after = entity(&to).await.unwrap_or(None);
        let own = after.filter(|after| {
            let same_file = before.is_some() && before == after.reader.identity();
            same_file && after.reader.length() == length
        });
        Ok(own.map(|own| own.state))
    });
    let sent = send(asked, pieces, units).await;
    let outcome = written.await;
    sent?;
    Ok(done(status, outcome?.as_ref()))
}

/// The body is stored as it is. So it is refused if its bytes are clearly not the file's.
fn check_form(asked: &Asked<'_>, place: &Place) -> Result<(), Failure> {
    asked.demand_no_encoding()?;
    if asked.media_type()? != "multipart/form-data" {
        return Ok(());
    }
    let message = "a form with parts isn't a file's bytes; send those as the body (curl --upload-file)";
    let error = Error::new(ErrorKind::InvalidArgument, message).at("put", &place.shown);
    Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error))
}

/// Takes an upload's places for an open file and for a change, and waits for its memory.
async fn hold(asked: &Asked<'_>, place: &Place) -> Result<Held, Failure> {
    check_form(asked, place)?;
    let file = asked.front.shared.sessions.file_place(&asked.key)?;
    let change = asked.begin_change(place)?;
    let announced = asked.body.size_hint().upper().map_or(usize::MAX, |bytes| bytes as usize);
    let needed = announced.min(PIECES * PIECE_BYTES);
    let memory = asked.front.memory(needed).await;
    Ok(Held { _file: file, _change: change, memory })
}

/// Receives the body, and sends it to the task that writes it. Returns early without an error if the
/// task has failed: the task's outcome has the reason. The upload holds `units` of the shared memory.
async fn send(asked: &mut Asked<'_>, pieces: Sender<Piece>, units: usize) -> Result<(), Failure> {
    let (flow, holder) = {
        let account = asked.front.account();
        (account.flow().clone(), account.holder().clone())
    };
    let mut inflow = Inflow::new(asked.body, &asked.front.shared.limits);
    loop {
        let piece = {
            let _receiving = Receiving::new(flow.clone(), holder.clone(), units);
            tokio::select! {
                piece = inflow.piece(PIECE_BYTES) => piece?,
                () = pieces.closed() => return Ok(()),
            }
        };
        asked.context.check_login()?;
        let piece = if piece.is_empty() { Piece::End } else { Piece::Data(piece) };
        let ends = matches!(piece, Piece::End);
        if pieces.send(piece).await.is_err() || ends {
            return Ok(());
        }
    }
}

fn cut_short() -> Error {
    Error::new(ErrorKind::Unavailable, "the client left before the end of the body")
}

/// Writes a whole body, and closes the file unless the body is cut short.
async fn write_pieces(mut writer: Box<dyn FileWriter>, mut pieces: Receiver<Piece>) -> StoreResult<()> {
    loop {
        match pieces.recv().await.ok_or_else(cut_short)? {
            Piece::Data(data) => writer.append(data).await?,
            Piece::End => return writer.close().await.map(drop),
        }
    }
}

/// Appends a body, and returns the file's length. If the body is cut short, closes the file with the bytes
/// that arrived: the client can look at the file's length, and continue there.
async fn append_pieces(mut writer: Box<dyn FileWriter>, mut pieces: Receiver<Piece>) -> StoreResult<u64> {
    loop {
        match pieces.recv().await {
            Some(Piece::Data(data)) => writer.append(data).await?,
            Some(Piece::End) => return writer.close().await.map(|_| writer.position()),
            None => {
                writer.close().await?;
                return Err(cut_short());
            }
        }
    }
}

fn done(status: StatusCode, state: Option<&State>) -> Response<Answer> {
    let mut response = reply::empty(status);
    if let Some(state) = state {
        reply::tag(response.headers_mut(), &state.tag);
    }
    response
}
