//! DfsV2's sessions and queries; [`crate::mutate`] has the changes.

use crate::config::{ConfiguredStore, PAGE_BYTES, SWEEP_PERIOD};
use crate::context::Context;
use crate::errors::{required, signed, unsigned};
use crate::handles::{Handle, Listing, OpenFile, cursor, spent};
use crate::listings::{MidPage, Unfinished};
use crate::session::{Identity, Session};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Instant;
use strait_store::{
    Error, ErrorKind, FileStatus, FileType, MAX_CHUNK_BYTES, MAX_PATH_BYTES, Result, StorePath, fail,
};
use strait_wire as wire;
use strait_wire::Secret;

/// Bytes of an entry of a page on the wire, beside its path.
const INFO_BYTES: usize = 128;
/// Most blocks of one answer: as many as fit its memory with three replicas each. For a file with
/// more, a client asks in ranges.
pub const MAX_BLOCKS: usize = 1_024;

/// Parses a request's path.
pub fn path(text: Option<String>) -> Result<StorePath> {
    StorePath::parse(&required(text, "path")?)
}

fn limits(context: &Context) -> wire::Limits {
    let limits = &context.shared.limits;
    wire::Limits {
        max_chunk_bytes: Some(MAX_CHUNK_BYTES as i32),
        max_message_bytes: i32::try_from(limits.message_bytes).ok(),
        max_path_bytes: Some(MAX_PATH_BYTES as i32),
        max_list_page: i32::try_from(limits.list_page).ok(),
        max_handles_per_session: i32::try_from(limits.handles_per_session).ok(),
        session_idle_ms: i64::try_from(limits.session_idle.as_millis()).ok(),
    }
}

/// Only clients that may use a store learn its URI. `recovery_ms` is the time for which a lost client's
/// files stay open: until its session ends, and then as long as the store needs to close them.
fn store_info(context: &Context, store: &ConfiguredStore, may_use_it: bool) -> wire::StoreInfo {
    let capabilities = store.fs.capabilities();
    let lingers = context.shared.limits.session_linger + SWEEP_PERIOD;
    let names = capabilities.flags().into_iter().filter(|(_, has)| *has).map(|(name, _)| name.to_owned());
    wire::StoreInfo {
        name: Some(store.name.clone()),
        uri: may_use_it.then(|| store.uri.clone()),
        capabilities: Some(names.collect()),
        recovery_ms: i32::try_from(u128::from(capabilities.recovery_ms) + lingers.as_millis()).ok(),
    }
}

pub fn server_info(context: &Context) -> wire::ServerInfoReply {
    let sessions = &context.shared.sessions;
    let logged_in = context.attached().is_some_and(|session| session.principal().is_ok());
    let may_use_them = logged_in || matches!(sessions.stranger(&context.peer), Identity::Anonymous(_));
    wire::ServerInfoReply {
        version: Some(wire::ProtocolVersion::V1),
        server: Some(concat!("strait ", env!("CARGO_PKG_VERSION")).to_owned()),
        stores: Some(
            sessions.stores().iter().map(|store| store_info(context, store, may_use_them)).collect(),
        ),
        limits: Some(limits(context)),
    }
}

pub async fn open_session(
    context: &Context,
    request: wire::OpenSessionRequest,
) -> Result<wire::OpenSessionReply> {
    let sessions = &context.shared.sessions;
    let from = context.peer.origin();
    let asked = request.store.as_deref().unwrap_or_default();
    let (lend_ms, lent) = (request.lend_ms, request.lent);
    let session = match (request.token, request.user, request.password) {
        // A given password is always checked. A token beside it only finds the session again.
        (token, Some(user), Some(password)) => {
            let store = sessions.store(asked)?;
            let login = context.log_in(user.as_bytes(), &password.0).await?;
            let earlier = token.and_then(|token| sessions.by_token(&token.0, &context.peer).ok());
            // A lent session stays lent, whatever its holder knows.
            let is_own = |session: &Arc<Session>| {
                session.is_of(&user) && !session.is_lent() && session.store.name == store.name
            };
            match earlier.filter(is_own) {
                Some(session) => {
                    // The session lasts as long as this login, not as the one before.
                    session.set_identity(Identity::User(login));
                    session
                }
                None => sessions.open(store, Identity::User(login), from)?,
            }
        }
        (Some(token), user, _) => {
            let session = sessions.by_token(&token.0, &context.peer)?;
            if user.is_some_and(|user| session.is_of_another(&user)) {
                return fail(ErrorKind::Unauthenticated, "the token is another user's; log in by password");
            }
            session
        }
        (None, Some(_), None) => {
            return fail(ErrorKind::Unauthenticated, "the login has a user but no password");
        }
        (None, None, _) => {
            let stranger = sessions.stranger(&context.peer);
            stranger.principal()?;
            sessions.open(sessions.store(asked)?, stranger, from)?
        }
    };
    let session = match lend_ms {
        Some(ms) => sessions.lend(&session, ms, lent.as_ref().map(|lent| &*lent.0), &context.peer)?,
        None => session,
    };
    let (token, expires_ms) = sessions.token(&session);
    let reply = wire::OpenSessionReply {
        token: Some(Secret(token)),
        expires_ms: Some(expires_ms),
        user: session.principal().ok().map(|principal| principal.user.to_string()),
        store: Some(store_info(context, &session.store, true)),
        version: Some(wire::ProtocolVersion::V1),
        limits: Some(limits(context)),
        incarnation: Some(session.incarnation),
    };
    context.attach(Some(session));
    Ok(reply)
}

pub async fn close_session(
    context: &Context,
    request: wire::CloseSessionRequest,
) -> Result<wire::CloseSessionReply> {
    let caller = context.caller(&request.session)?;
    // Close the session first, so that no call opens a file in it while its files are closed.
    context.shared.sessions.close(&caller.session);
    let closed = caller.session.close_files().await;
    if context.attached().is_some_and(|own| own.id == caller.session.id) {
        context.attach(None);
    }
    closed.map(|()| wire::CloseSessionReply {})
}

pub async fn get_file_info(
    context: &Context,
    request: wire::GetFileInfoRequest,
) -> Result<wire::GetFileInfoReply> {
    let caller = context.caller(&request.session)?;
    let status = caller.fs().stat(&caller.who, &path(request.path)?).await?;
    Ok(wire::GetFileInfoReply { info: Some(info(status)) })
}

fn info(status: FileStatus) -> wire::FileInfo {
    wire::FileInfo {
        file_type: Some(match status.file_type {
            FileType::File => wire::FileType::File,
            FileType::Directory => wire::FileType::Directory,
        }),
        path: Some(status.path),
        length: Some(signed(status.length)),
        block_size: Some(signed(status.block_size)),
        replication: Some(i16::try_from(status.replication).unwrap_or(i16::MAX)),
        modified_ms: Some(status.modified_ms),
        accessed_ms: Some(status.accessed_ms),
        permission: i32::try_from(status.permission).ok(),
        owner: Some(status.owner),
        group: Some(status.group),
        link: status.link.then_some(true),
    }
}

pub async fn list_directory(
    context: &Context,
    request: wire::ListDirectoryRequest,
    allowed_bytes: usize,
) -> Result<wire::ListDirectoryReply> {
    let caller = context.caller(&request.session)?;
    let handles = &caller.session.handles;
    let most = context.shared.limits.list_page;
    let most = match request.max_entries {
        Some(asked) => usize::try_from(unsigned(asked.into(), "max_entries")?).unwrap_or(most).clamp(1, most),
        None => most,
    };
    let listing = match request.cursor {
        None => {
            let path = path(request.path)?;
            let place = handles.place()?;
            let entries = caller.fs().list(&caller.who, &path);
            Arc::new(tokio::sync::Mutex::new(Listing::new(entries, place)))
        }
        Some(cursor) => handles.listing(cursor)?,
    };
    let mut taken = listing.lock().await;
    if request.cursor.is_some_and(|asked| asked != cursor(asked, taken.pages)) {
        return Err(spent());
    }
    taken.pages = taken.pages.wrapping_add(1);
    let pages = taken.pages;
    let mid_page = MidPage::begin(&caller.session, request.cursor);
    let page = next_page(&mut taken, most, allowed_bytes.min(PAGE_BYTES)).await;
    mid_page.end();
    drop(taken);
    let (entries, more) = match page {
        Ok((entries, more)) => (entries.into_iter().map(info).collect(), more),
        Err(error) => {
            request.cursor.map(|cursor| handles.remove(cursor));
            return Err(error);
        }
    };
    if !more {
        request.cursor.map(|cursor| handles.remove(cursor));
        return Ok(wire::ListDirectoryReply { entries: Some(entries), cursor: None });
    }
    let handle = match request.cursor {
        Some(cursor) => cursor,
        None => caller.session.add_handle(&caller.who, Handle::Listing(listing.clone()))?,
    };
    let (key, session) = (context.key_of_session(&caller.session), Arc::downgrade(&caller.session));
    let (used, listing) = (Instant::now(), Arc::downgrade(&listing));
    let unfinished = Unfinished { key, session, cursor: handle, used, alone: None, listing };
    if let Err(error) = context.shared.listings.has_more(unfinished) {
        let _ = handles.remove(handle);
        return Err(error);
    }
    let cursor = Some(cursor(handle, pages));
    Ok(wire::ListDirectoryReply { entries: Some(entries), cursor })
}

/// The next entries, and whether there are more. Gives at least one entry, however little memory is
/// free.
pub async fn next_page(listing: &mut Listing, most: usize, bytes: usize) -> Result<(Vec<FileStatus>, bool)> {
    let mut entries = Vec::new();
    let mut used = 0;
    loop {
        let next = match listing.held.take() {
            Some(held) => Some(Ok(held)),
            None => listing.entries.next().await,
        };
        let Some(status) = next.transpose()? else { return Ok((entries, false)) };
        used += INFO_BYTES + status.path.len() + status.owner.len() + status.group.len();
        if entries.len() == most || used > bytes && !entries.is_empty() {
            listing.held = Some(status);
            return Ok((entries, true));
        }
        entries.push(status);
    }
}

pub async fn get_block_locations(
    context: &Context,
    request: wire::GetBlockLocationsRequest,
) -> Result<wire::GetBlockLocationsReply> {
    let caller = context.caller(&request.session)?;
    let path = path(request.path)?;
    let start = unsigned(request.offset.unwrap_or(0), "offset")?;
    let end = match request.length {
        Some(length) => start.saturating_add(unsigned(length, "length")?),
        // HDFS's offsets are i64.
        None => i64::MAX as u64,
    };
    let found = caller.fs().block_locations(&caller.who, &path, start..end).await?;
    if found.len() > MAX_BLOCKS {
        let message = format!("the range has {} blocks; ask for {MAX_BLOCKS} at most", found.len());
        return Err(Error::new(ErrorKind::InvalidArgument, message).at("locate", &path));
    }
    let blocks = found.into_iter().map(|block| wire::BlockLocation {
        offset: Some(signed(block.offset)),
        length: Some(signed(block.length)),
        hosts: Some(block.hosts),
        addresses: Some(block.addresses),
        corrupt: Some(block.corrupt),
    });
    Ok(wire::GetBlockLocationsReply { blocks: Some(blocks.collect()) })
}

pub async fn get_checksum(
    context: &Context,
    request: wire::GetChecksumRequest,
) -> Result<wire::GetChecksumReply> {
    let caller = context.caller(&request.session)?;
    let checksum = caller.fs().checksum(&caller.who, &path(request.path)?).await?;
    Ok(wire::GetChecksumReply { algorithm: Some(checksum.algorithm), value: Some(checksum.value.into()) })
}

pub async fn get_store_status(
    context: &Context,
    request: wire::GetStoreStatusRequest,
) -> Result<wire::GetStoreStatusReply> {
    let caller = context.caller(&request.session)?;
    let status = caller.fs().status(&caller.who).await?;
    Ok(wire::GetStoreStatusReply {
        store: Some(store_info(context, &caller.session.store, true)),
        capacity: Some(signed(status.capacity)),
        used: Some(signed(status.used)),
        remaining: Some(signed(status.remaining)),
        settling: Some(status.settling),
    })
}

pub async fn open_file(context: &Context, request: wire::OpenFileRequest) -> Result<wire::OpenFileReply> {
    let caller = context.caller(&request.session)?;
    let path = path(request.path)?;
    let place = caller.session.handles.place()?;
    let reader = caller.fs().open(&caller.who, &path).await?;
    let (length, identity) = (signed(reader.length()), reader.identity());
    let file = Handle::File(Arc::new(OpenFile::reader(path, reader, place)));
    let handle = caller.session.add_handle(&caller.who, file)?;
    Ok(wire::OpenFileReply { handle: Some(handle), length: Some(length), identity })
}

pub async fn read_range(
    context: &Context,
    request: wire::ReadRangeRequest,
    allowed_bytes: usize,
) -> Result<wire::ReadRangeReply> {
    let caller = context.caller(&request.session)?;
    let file = caller.session.handles.file(required(request.handle, "handle")?)?;
    let offset = unsigned(required(request.offset, "offset")?, "offset")?;
    let length = unsigned(required(request.length, "length")?.into(), "length")?;
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(MAX_CHUNK_BYTES).min(allowed_bytes);
    let reader = file.current_reader(caller.fs(), &caller.who).await?;
    let data = reader.read_at(offset, length).await.map_err(|e| e.at("read", &file.path))?;
    Ok(wire::ReadRangeReply { data: Some(data) })
}
