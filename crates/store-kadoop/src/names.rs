//! Operations on names.

use super::errors::from_kadoop;
use super::{KadoopStore, Shared};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use std::ops::Range;
use std::sync::Arc;
use strait_kadoop_core::messages::{Attributes, Caller, Status};
use strait_kadoop_wire::Host;
use strait_store::StorePath;
use strait_store::work::Work;
use strait_store::{BlockLocation, FileStatus, FileType, Principal, SetAttributes, StoreStatus};
use strait_store::{Error, ErrorKind, Result, fail};

/// Permission of a new directory for which the caller gives none: HDFS's own default (0777 less the
/// umask 022).
const DEFAULT_DIRECTORY_PERMISSION: u16 = 0o755;
/// Memory for the entries of one page of a listing.
const PAGE_BYTES: usize = 128 << 10;
/// Estimated memory of an entry, without its path.
const ENTRY_BYTES: usize = 256;

impl Shared {
    pub(super) fn stat(&self, caller: &Caller, path: &StorePath) -> Result<FileStatus> {
        let status = self.client().stat(caller, path.as_str()).map_err(from_kadoop)?;
        Ok(status_of(status, path.as_str().to_owned()))
    }

    pub(super) fn truncate(&self, caller: &Caller, path: &StorePath, length: u64) -> Result<()> {
        self.client().truncate(caller, path.as_str(), length).map(drop).map_err(from_kadoop)
    }

    pub(super) fn concat(&self, caller: &Caller, target: &StorePath, sources: &[StorePath]) -> Result<()> {
        let sources: Vec<String> = sources.iter().map(|source| source.as_str().to_owned()).collect();
        self.client().concat(caller, target.as_str(), &sources).map_err(from_kadoop)
    }

    pub(super) fn rename(
        &self,
        caller: &Caller,
        from: &StorePath,
        to: &StorePath,
        replace: bool,
    ) -> Result<()> {
        if from.is_root() {
            return fail(ErrorKind::InvalidArgument, "the root can't be renamed");
        }
        if to.is_root() {
            return fail(ErrorKind::AlreadyExists, "the root always exists");
        }
        if from == to {
            self.stat(caller, from)?;
            return fail(ErrorKind::AlreadyExists, "the new name is the same as the old one");
        }
        self.client().rename(caller, from.as_str(), to.as_str(), replace).map_err(from_kadoop)
    }

    pub(super) fn remove(&self, caller: &Caller, path: &StorePath, recursive: bool) -> Result<()> {
        if path.is_root() {
            return fail(ErrorKind::InvalidArgument, "the root can't be removed");
        }
        match self.client().delete(caller, path.as_str(), recursive).map_err(from_kadoop)? {
            true => Ok(()),
            false => Err(from_kadoop(strait_kadoop_core::Error::NotFound.into())),
        }
    }

    pub(super) fn mkdirs(&self, caller: &Caller, path: &StorePath, permission: Option<u32>) -> Result<()> {
        let mode = permission.map_or(Ok(DEFAULT_DIRECTORY_PERMISSION), checked_permission)?;
        self.client().mkdirs(caller, path.as_str(), mode).map_err(from_kadoop)
    }

    pub(super) fn set_attributes(
        &self,
        caller: &Caller,
        path: &StorePath,
        set: &SetAttributes,
    ) -> Result<()> {
        let time = |at: Option<i64>| at.map(checked_time).transpose();
        let attributes = Attributes {
            mode: set.permission.map(checked_permission).transpose()?,
            owner: set.owner.as_deref().map(Into::into),
            group: set.group.as_deref().map(Into::into),
            modified_ms: time(set.modified_ms)?,
            accessed_ms: time(set.accessed_ms)?,
            replication: set.replication,
        };
        self.client().set_attributes(caller, path.as_str(), attributes).map_err(from_kadoop)
    }

    pub(super) fn block_locations(
        &self,
        caller: &Caller,
        path: &StorePath,
        range: Range<u64>,
    ) -> Result<Vec<BlockLocation>> {
        let length = range.end.saturating_sub(range.start);
        let found = self.client().locations(caller, path.as_str(), range.start, length);
        let block = |location: strait_kadoop_client::Location| BlockLocation {
            offset: location.offset,
            length: location.length,
            corrupt: location.hosts.is_empty(),
            addresses: location.hosts.iter().map(|host: &Host| host.address.to_string()).collect(),
            hosts: location.hosts.into_iter().map(|host| host.name).collect(),
        };
        Ok(found.map_err(from_kadoop)?.into_iter().map(block).collect())
    }

    /// Total capacity and use of the live datanodes.
    pub(super) fn status(&self) -> Result<StoreStatus> {
        let cluster = self.client().status().map_err(from_kadoop)?;
        let alive = cluster.nodes.iter().filter(|node| node.alive);
        let (mut capacity, mut used) = (0, 0);
        for node in alive {
            capacity += node.capacity_bytes;
            used += node.used_bytes;
        }
        let remaining = u64::saturating_sub(capacity, used);
        Ok(StoreStatus { capacity, used, remaining, settling: cluster.safe_mode })
    }
}

/// Lists a directory, a page at a time.
pub(super) fn entries(
    store: KadoopStore,
    who: Principal,
    path: StorePath,
) -> BoxStream<'static, Result<FileStatus>> {
    stream::try_unfold(Some(Place::Top), move |place| {
        let (store, who, path) = (store.clone(), who.clone(), path.clone());
        async move {
            let Some(place) = place else { return Ok(None) };
            let request = |place: Place| {
                let at = path.clone();
                let page = move |shared: &Arc<Shared>, caller: &Caller| shared.page(caller, &at, place);
                store.call("list", &path, &who, page)
            };
            let begun = Work::deadline();
            let mut page = request(place.clone()).await;
            let away = page.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable);
            if away && Work::deadline() != begun {
                // An earlier call requested this page in advance, and its deadline ended the request. The call
                // that waits for the page has a time of its own.
                page = request(place).await;
            }
            let (entries, next) = page?;
            let page = stream::iter(entries.into_iter().map(Ok::<_, Error>));
            Ok::<_, Error>(Some((page, next)))
        }
    })
    .try_flatten()
    .boxed()
}

/// The position at which a listing continues.
#[derive(Clone)]
enum Place {
    Top,
    Behind(String),
}

impl Shared {
    /// One page of entries, and the position of the next page, if there is one.
    fn page(
        &self,
        caller: &Caller,
        path: &StorePath,
        place: Place,
    ) -> Result<(Vec<FileStatus>, Option<Place>)> {
        let after = match place {
            Place::Top => {
                // A page looks the same for a file and for a directory with one entry of the same name.
                let status = self.stat(caller, path)?;
                if !status.is_directory() {
                    return Ok((vec![status], None));
                }
                String::new()
            }
            Place::Behind(name) => name,
        };
        let entries = (PAGE_BYTES / (ENTRY_BYTES + path.as_str().len())) as u32;
        let page = self.client().list(caller, path.as_str(), &after, entries).map_err(from_kadoop)?;
        let last = page.entries.last().map(|entry| entry.name.to_string());
        let above = path.as_str().trim_end_matches('/');
        let entry = |status: Status| {
            let path = format!("{above}/{}", status.name);
            status_of(status, path)
        };
        let next = last.filter(|_| page.more).map(Place::Behind);
        Ok((page.entries.into_iter().map(entry).collect(), next))
    }
}

fn status_of(status: Status, path: String) -> FileStatus {
    FileStatus {
        path,
        file_type: if status.directory { FileType::Directory } else { FileType::File },
        length: status.length,
        replication: status.replication,
        block_size: status.chunk_bytes.into(),
        modified_ms: i64::try_from(status.modified_ms).unwrap_or(i64::MAX),
        accessed_ms: i64::try_from(status.accessed_ms).unwrap_or(i64::MAX),
        permission: status.mode.into(),
        owner: status.owner.into(),
        group: status.group.into(),
        link: false,
    }
}

/// Checks that the mode has only permission bits.
pub(super) fn checked_permission(permission: u32) -> Result<u16> {
    match u16::try_from(permission) {
        Ok(bits) if bits <= 0o7777 => Ok(bits),
        _ => fail(ErrorKind::InvalidArgument, format!("invalid mode {permission:o}: the maximum is 7777")),
    }
}

fn checked_time(at_ms: i64) -> Result<u64> {
    u64::try_from(at_ms)
        .map_err(|_| from_kadoop(strait_kadoop_core::Error::Invalid("a time before 1970").into()))
}
