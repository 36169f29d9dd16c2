//! Listings, page by page.

use crate::keys::MARKER;
use crate::{Found, ObjectStore, directory_status, file_status};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::list::{PaginatedListOptions, PaginatedListResult};
use object_store::{Error as Failed, ObjectMeta};
use std::collections::HashSet;
use std::collections::VecDeque;
use strait_store::{Error, ErrorKind, FileStatus, Principal, Result, StorePath, fail};

/// Keys of a page: the maximum of S3.
const PAGE_KEYS: usize = 1_000;

/// The entries of a directory, or the file itself.
pub fn entries(
    store: ObjectStore,
    who: Principal,
    path: StorePath,
) -> BoxStream<'static, Result<FileStatus>> {
    let listing = Listing { store, who, path, ready: VecDeque::new(), next: Next::First };
    let steps = stream::try_unfold(listing, |mut listing| async move {
        loop {
            if let Some(entry) = listing.ready.pop_front() {
                return Ok(Some((entry, listing)));
            }
            if matches!(listing.next, Next::Nothing) {
                return Ok(None);
            }
            listing.turn_page().await.map_err(|error: Error| error.at("list", &listing.path))?;
        }
    });
    // try_unfold continues after an error, so this ends the stream.
    let mut has_failed = false;
    steps
        .take_while(move |step| {
            let goes_on = !has_failed;
            has_failed |= step.is_err();
            std::future::ready(goes_on)
        })
        .boxed()
}

struct Listing {
    store: ObjectStore,
    who: Principal,
    path: StorePath,
    ready: VecDeque<FileStatus>,
    next: Next,
}

enum Next {
    First,
    Page(String),
    Nothing,
}

impl Listing {
    async fn turn_page(&mut self) -> Result<()> {
        let token = match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::First => None,
            Next::Page(token) => Some(token),
            Next::Nothing => return Ok(()),
        };
        let is_first = token.is_none();
        let page = self.store.page(&self.path, Some("/"), PAGE_KEYS, token).await;
        let page = page.map_err(ObjectStore::read_error)?;
        let is_empty = page.result.objects.is_empty() && page.result.common_prefixes.is_empty();
        self.ready = self.entries_of(&page);
        match page.page_token {
            Some(token) => self.next = Next::Page(token),
            None if is_first && is_empty => self.ready.extend(self.file_itself().await?),
            None => {}
        }
        Ok(())
    }

    fn entries_of(&self, page: &PaginatedListResult) -> VecDeque<FileStatus> {
        let own = self.path.to_string();
        let plain = |path: &String| *path != own && !path.ends_with(&format!("/{MARKER}"));
        let path = |key| self.store.keys.path(key).filter(plain);
        let files = page.result.objects.iter().filter_map(|meta| Some((path(&meta.location)?, meta)));
        let files: VecDeque<_> = files.map(|(path, meta)| file_status(&self.who, path, meta)).collect();
        let names: HashSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let directories = page.result.common_prefixes.iter().filter_map(path);
        // Other programs may make a file and a directory of one name. This lists the file, as stat finds it.
        let directories = directories.filter(|path| !names.contains(path.as_str()));
        let directories: Vec<_> = directories.map(|path| directory_status(&self.who, path)).collect();
        files.into_iter().chain(directories).collect()
    }

    async fn file_itself(&self) -> Result<Option<FileStatus>> {
        match self.store.find(&self.path).await? {
            Found::File(_, meta) => Ok(Some(file_status(&self.who, self.path.to_string(), &meta))),
            Found::Directory => Ok(None),
            Found::Nothing => fail(ErrorKind::NotFound, "no such file or directory"),
        }
    }
}

impl ObjectStore {
    async fn page(
        &self,
        directory: &StorePath,
        delimiter: Option<&'static str>,
        keys: usize,
        token: Option<String>,
    ) -> object_store::Result<PaginatedListResult> {
        let prefix = self.keys.directory(directory);
        let options = PaginatedListOptions {
            delimiter: delimiter.map(Into::into),
            max_keys: Some(keys),
            page_token: token,
            ..PaginatedListOptions::default()
        };
        let prefix = Some(prefix.as_str()).filter(|prefix| !prefix.is_empty());
        self.bucket.list_paginated(prefix, options).await
    }

    /// Whether any key begins with the directory's prefix.
    pub(crate) async fn has_entries(&self, directory: &StorePath) -> Result<bool> {
        self.has_key(directory, 1, |_| true).await
    }

    /// Whether the directory has other keys than its marker.
    pub(crate) async fn is_filled(&self, directory: &StorePath) -> Result<bool> {
        let marker = self.keys.marker(directory)?;
        self.has_key(directory, 2, |meta| meta.location != marker).await
    }

    /// Whether the directory's prefix has such a key. The first page has this many keys, or fewer: object_store
    /// leaves out Azure's entries of directories.
    async fn has_key(
        &self,
        directory: &StorePath,
        keys: usize,
        is_such: impl Fn(&ObjectMeta) -> bool,
    ) -> Result<bool> {
        let (mut keys, mut token) = (keys, None);
        loop {
            let page = match self.page(directory, None, keys, token).await {
                Ok(page) => page,
                // There is a key that object_store can't represent, such as another program's a//b.
                Err(Failed::InvalidPath { .. }) => return Ok(true),
                Err(error) => return Err(Self::read_error(error)),
            };
            if page.result.objects.iter().any(&is_such) {
                return Ok(true);
            }
            token = page.page_token;
            if token.is_none() {
                return Ok(false);
            }
            keys = PAGE_KEYS;
        }
    }

    /// All objects beneath a directory, a page at a time.
    pub(crate) fn pages(&self, directory: &StorePath) -> BoxStream<'static, Result<Vec<ObjectMeta>>> {
        let start = (self.clone(), directory.clone(), Next::First);
        let steps = stream::try_unfold(start, |(store, directory, next)| async move {
            let token = match next {
                Next::First => None,
                Next::Page(token) => Some(token),
                Next::Nothing => return Ok(None),
            };
            let page = store.page(&directory, None, PAGE_KEYS, token).await.map_err(Self::read_error)?;
            let next = page.page_token.map_or(Next::Nothing, Next::Page);
            Ok(Some((page.result.objects, (store, directory, next))))
        });
        steps.boxed()
    }

    /// Removes those objects of a directory that may go. Its marker goes last, so the directory exists until then.
    /// Returns whether it has removed all.
    pub(crate) async fn remove_tree(
        &self,
        directory: &StorePath,
        may_go: impl Fn(&ObjectMeta) -> bool,
    ) -> Result<bool> {
        let marker = self.keys.marker(directory)?;
        let mut pages = self.pages(directory);
        let mut is_whole = true;
        while let Some(page) = pages.try_next().await? {
            let mut keys = Vec::with_capacity(page.len());
            for meta in page.into_iter().filter(|meta| meta.location != marker) {
                match may_go(&meta) {
                    true => keys.push(Ok(meta.location)),
                    false => is_whole = false,
                }
            }
            let keys = stream::iter(keys).boxed();
            let mut deleted = self.bucket.delete_stream(keys);
            while let Some(outcome) = deleted.next().await {
                match outcome.map_err(Self::read_error) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        if is_whole {
            self.delete(&marker).await?;
        }
        Ok(is_whole)
    }
}
