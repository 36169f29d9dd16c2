//! Operations on names: status and attributes, listings, directories, renames; also a file's checksum
//! and block locations.

use super::failure::Failure;
use super::json::{self, Attributes, Block, Blocks, Change, Page, Rename, Status};
use super::{Answer, Asked, Place, files, reply};
use crate::config::PAGE_BYTES;
use crate::handles::{Handle, Listing, spent};
use crate::listings::{MidPage, Unfinished};
use crate::session::Session;
use crate::turns;
use crate::v2::{MAX_BLOCKS, next_page};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Response, StatusCode};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;
use strait_store::{Error, ErrorKind, FileStatus, FileSystemExt, Result as StoreResult, hex};
use strait_web::encode_path;
use tokio::sync::Mutex;

/// As JSON, an entry takes about this many times the bytes that a listing counts for it.
const JSON_EXPANSION: usize = 4;

/// A file's or directory's status.
pub async fn status(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    let place = asked.place()?;
    asked.query()?.end()?;
    Ok(reply::json(StatusCode::OK, &Status::from(&present(&place).await?)))
}

/// The status of a file or directory. A path that ends with a slash names a directory.
async fn present(place: &Place) -> StoreResult<FileStatus> {
    let status = place.fs.stat(&place.who, &place.path).await?;
    if place.is_directory && !status.is_directory() {
        let message = "the path ends with a slash, but names a file";
        return Err(Error::new(ErrorKind::NotADirectory, message).at("stat", &place.shown));
    }
    Ok(status)
}

/// Sets attributes, or truncates a file.
pub async fn set_status(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    let place = asked.place()?;
    asked.query()?.end()?;
    let change = asked.json::<Attributes>().await?.change()?;
    let held = asked.begin_change(&place)?;
    let changed = turns::to_its_end(async move {
        let _held = held;
        let Place { fs, who, path, .. } = &place;
        if place.is_directory {
            present(&place).await?;
        }
        match change {
            Change::Attributes(set) => fs.set_attributes(who, path, &set).await?,
            Change::Length(length) => fs.truncate(who, path, length).await?,
        }
        fs.stat(who, path).await
    });
    Ok(reply::json(StatusCode::OK, &Status::from(&changed.await?)))
}

/// A page of a directory. HEAD leaves the page to the GET that follows, so it has no length.
pub async fn list(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    let place = asked.place()?;
    let mut query = asked.query()?;
    let limit = query.number("limit")?;
    let cursor = query.take("after");
    query.end()?;
    let most = asked.front.shared.limits.list_page;
    let most = match limit {
        Some(0) => return Err(Error::new(ErrorKind::InvalidArgument, "limit must be at least 1").into()),
        Some(limit) => usize::try_from(limit).unwrap_or(most).min(most),
        None => most,
    };
    let granted = asked.front.account().now(PAGE_BYTES);
    let Some(memory) = granted else {
        return Err(no_memory().into());
    };
    let is_head = asked.head.method == Method::HEAD;
    let begun = match cursor {
        Some(cursor) => Begun::again(asked, &cursor)?,
        None => {
            demand_directory(&place).await?;
            if is_head {
                return Ok(reply::as_json(Answer::of("")));
            }
            Begun::new(asked, &place)?
        }
    };
    let mut taken = begun.listing.lock().await;
    if !taken.of.as_ref().is_some_and(|(store, path)| *store == place.store && *path == place.path) {
        let message = "after is the cursor of another directory";
        return Err(Error::new(ErrorKind::InvalidArgument, message).at("list", &place.shown).into());
    }
    // Without this check, a client that repeats its request would get the following page, and miss the
    // page that it asked for.
    if taken.pages != begun.page {
        return Err(spent().at("list", &place.shown).into());
    }
    if is_head {
        return Ok(reply::as_json(Answer::of("")));
    }
    taken.pages = taken.pages.saturating_add(1);
    let mid_page = MidPage::begin(&begun.session, begun.handle);
    let page = next_page(&mut taken, most, memory.bytes() / JSON_EXPANSION).await;
    mid_page.end();
    drop(taken);
    let (entries, next) = match page {
        Ok((entries, true)) => (entries, Some(begun.keep(asked)?)),
        Ok((entries, false)) => {
            begun.end(asked);
            (entries, None)
        }
        Err(error) => {
            begun.end(asked);
            return Err(error.at("list", &place.shown).into());
        }
    };
    let front = asked.front;
    let text =
        reply::line(&Page { entries: entries.iter().map(Status::from).collect(), next: next.as_deref() });
    let mut response = reply::as_json(Answer::text(text, memory, front.unsent.clone(), &front.account()));
    if let Some(next) = next {
        let limit = limit.map(|limit| format!("&limit={limit}")).unwrap_or_default();
        let target = encode_path(&place.shown);
        let link = format!("</v1/directories{target}?after={next}{limit}>; rel=\"next\"");
        response.headers_mut().extend(HeaderValue::from_str(&link).map(|link| (header::LINK, link)));
    }
    Ok(response)
}

fn no_memory() -> Error {
    Error::new(ErrorKind::Busy, "no memory for the answer; try again later")
}

async fn demand_directory(place: &Place) -> Result<(), Failure> {
    let status = place.fs.stat(&place.who, &place.path).await?;
    match status.is_directory() {
        true => Ok(()),
        false => {
            let message = "this is a file; see /v1/status and /v1/files";
            Err(Error::new(ErrorKind::NotADirectory, message).at("list", &place.shown).into())
        }
    }
}

/// A listing that a request continues, and the session that keeps it between two pages.
struct Begun {
    listing: Arc<Mutex<Listing>>,
    session: Arc<Session>,
    /// The listing's handle in the session, if it has one already.
    handle: Option<i64>,
    /// The number of the page.
    page: u32,
}

impl Begun {
    /// Begins a listing at its first entry.
    fn new(asked: &Asked<'_>, place: &Place) -> Result<Self, Failure> {
        let session = match asked.context.0.attached() {
            Some(session) => session,
            None => {
                // A client without a login has no session yet; its token is in the cursor.
                let sessions = &asked.front.shared.sessions;
                let stranger = sessions.stranger(&asked.front.peer);
                sessions.open(sessions.store_named(None)?, stranger, asked.front.peer.origin())?
            }
        };
        let held = session.handles.place()?;
        let mut listing = Listing::new(place.fs.list(&place.who, &place.path), held);
        listing.of = Some((place.store.clone(), place.path.clone()));
        Ok(Self { listing: Arc::new(Mutex::new(listing)), session, handle: None, page: 0 })
    }

    /// Continues a listing at a cursor: the listing's handle in the request's session, and the number of
    /// the page, in hex. If the request has no session, the token of the listing's session and `~` come
    /// first.
    fn again(asked: &Asked<'_>, cursor: &str) -> Result<Self, Failure> {
        let wrong = || Error::new(ErrorKind::InvalidArgument, "after isn't a cursor of an earlier page");
        let (token, digits) = match cursor.rsplit_once('~') {
            Some((token, digits)) => (Some(token), digits),
            None => (None, cursor),
        };
        let bytes = hex::decode(digits).ok_or_else(wrong)?;
        let (handle, page) = bytes.split_first_chunk().ok_or_else(wrong)?;
        let handle = i64::from_be_bytes(*handle);
        let page = u32::from_be_bytes(page.try_into().map_err(|_| wrong())?);
        let session = match (token, asked.context.0.attached()) {
            (Some(token), None) => asked.front.shared.sessions.by_token(token, &asked.front.peer)?,
            (None, Some(session)) => session,
            _ => return Err(wrong().into()),
        };
        let listing = session.handles.listing(handle).map_err(|error| {
            if token.is_none() {
                return error;
            }
            // The session was opened for this listing alone, and is now a new one of the same number.
            asked.front.shared.sessions.end(session.id);
            let message = "the listing has ended, or had to make room for others: list anew";
            Error::new(ErrorKind::InvalidArgument, message)
        })?;
        Ok(Self { listing, session, handle: Some(handle), page })
    }

    /// Keeps the listing for the next page, and returns that page's cursor.
    fn keep(self, asked: &Asked<'_>) -> Result<String, Failure> {
        let handle = match self.handle {
            Some(handle) => handle,
            None => {
                let listing = Handle::Listing(self.listing.clone());
                self.session.add_handle(&self.session.principal()?, listing)?
            }
        };
        let (key, session) = (asked.key.clone(), Arc::downgrade(&self.session));
        let (used, listing) = (Instant::now(), Arc::downgrade(&self.listing));
        let sessions = &asked.front.shared.sessions;
        let alone = asked.context.0.attached().is_none().then(|| Arc::downgrade(sessions));
        let unfinished = Unfinished { key, session, cursor: handle, used, alone, listing };
        if let Err(error) = asked.front.shared.listings.has_more(unfinished) {
            Self { handle: Some(handle), ..self }.end(asked);
            return Err(error.into());
        }
        let page = self.page.saturating_add(1);
        let cursor = hex::encode(&[&handle.to_be_bytes()[..], &page.to_be_bytes()].concat());
        Ok(match asked.context.0.attached() {
            Some(_) => cursor,
            None => format!("{}~{cursor}", asked.front.shared.sessions.token(&self.session).0),
        })
    }

    /// Ends the listing. Also ends its session, if that was opened for this listing.
    fn end(self, asked: &Asked<'_>) {
        let _ = self.handle.map(|handle| self.session.handles.remove(handle));
        if asked.context.0.attached().is_none() {
            asked.front.shared.sessions.end(self.session.id);
        }
    }
}

/// Makes a directory and its missing parents.
pub async fn make_directory(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    let place = asked.place()?;
    let mut query = asked.query()?;
    let permission = json::permission(query.take("permission").as_deref())?;
    query.end()?;
    let held = asked.begin_change(&place)?;
    let made = turns::to_its_end(async move {
        let _held = held;
        let Place { fs, who, path, .. } = &place;
        let is_new = !fs.exists(who, path).await?;
        fs.mkdirs(who, path, permission).await?;
        Ok(is_new)
    });
    Ok(reply::empty(if made.await? { StatusCode::CREATED } else { StatusCode::NO_CONTENT }))
}

/// Removes a directory.
pub async fn remove_directory(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    let place = asked.place()?;
    let mut query = asked.query()?;
    let recursive = query.switch("recursive")?;
    query.end()?;
    let held = asked.begin_change(&place)?;
    let removed = turns::to_its_end(async move {
        let _held = held;
        let Place { fs, who, path, .. } = &place;
        if !fs.stat(who, path).await?.is_directory() {
            let message = "this is a file; see /v1/files";
            return Err(Error::new(ErrorKind::NotADirectory, message).at("remove", &place.shown));
        }
        fs.remove(who, path, recursive).await
    });
    removed.await?;
    Ok(reply::empty(StatusCode::NO_CONTENT))
}

/// Renames a file or directory.
pub async fn rename(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    let who = asked.who()?;
    asked.query()?.end()?;
    let Rename { from, to, replace } = asked.json().await?;
    let (from, to) = (asked.place_of(who.clone(), &from)?, asked.place_of(who, &to)?);
    if from.store != to.store {
        let message = "both paths must be in one store; copy the bytes instead";
        return Err(Error::new(ErrorKind::InvalidArgument, message).at("rename", &from.shown).into());
    }
    let held = asked.begin_change(&from)?;
    let renamed = turns::to_its_end(async move {
        let _held = held;
        if from.is_directory || to.is_directory {
            present(&Place { is_directory: true, ..from.clone() }).await?;
        }
        from.fs.rename(&from.who, &from.path, &to.path, replace).await
    });
    renamed.await?;
    Ok(reply::empty(StatusCode::NO_CONTENT))
}

/// The store's own checksum of a file.
pub async fn checksum(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    let place = asked.file()?;
    asked.query()?.end()?;
    let checksum = place.fs.checksum(&place.who, &place.path).await?;
    let value = json!({"algorithm": checksum.algorithm, "value": hex::encode(&checksum.value)});
    Ok(reply::json(StatusCode::OK, &value))
}

/// The blocks of a file, or of a range of it, and their hosts.
pub async fn locations(asked: &mut Asked<'_>) -> Result<Response<Answer>, Failure> {
    let place = asked.file()?;
    let mut query = asked.query()?;
    let start = query.number("offset")?.unwrap_or(0);
    // HDFS's offsets are i64.
    const MOST: u64 = i64::MAX as u64;
    let length = query.number("length")?.unwrap_or(MOST);
    query.end()?;
    let end = start.saturating_add(length).min(MOST);
    // An empty range isn't passed to the store: stores may answer it differently.
    let found: StoreResult<_> = match start < end {
        true => place.fs.block_locations(&place.who, &place.path, start..end).await,
        false => files::status(&place).await.map(|_| Vec::new()),
    };
    let found = found?;
    if found.len() > MAX_BLOCKS {
        let message = format!("the range has {} blocks; ask for {MAX_BLOCKS} at most", found.len());
        return Err(Error::new(ErrorKind::InvalidArgument, message).at("locate", &place.shown).into());
    }
    let text = reply::line(&Blocks { blocks: found.iter().map(Block::from).collect() });
    let Some(memory) = asked.front.account().now(text.len()) else { return Err(no_memory().into()) };
    Ok(reply::as_json(Answer::text(text, memory, asked.front.unsent.clone(), &asked.front.account())))
}
