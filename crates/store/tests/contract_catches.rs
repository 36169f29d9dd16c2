//! Checks that the contract suite finds faults. Each fault is planted in a store that keeps the
//! contract, and the suite must find it.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use std::sync::Arc;
use strait_store::contract::{self, Fixture, Report};
use strait_store::{
    Capabilities, CreateOptions, FileReader, FileStatus, FileSystem, FileWriter, MemoryStore, Principal,
    Result, StorePath,
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// An exclusive create replaces an existing file.
    CreateReplaces,
    /// A rename without replace replaces an existing file.
    RenameReplaces,
    /// A rename that replaces a file removes that file in a step of its own.
    ReplaceRemovesFirst,
    /// A remove without recursive takes everything.
    RemoveTakesAll,
    /// A listing loses its last entry.
    ListingEndsEarly,
    /// A path's owner has no name.
    OwnerIsEmpty,
    /// A read over the file's end loses its last byte.
    ReadEndsEarly,
    /// A file that grows gets another identity.
    IdentityIsTheLength,
    /// A file in another's place gets the same identity.
    IdentityIsTheName,
    /// A flush does nothing and reports success.
    FlushDoesNothing,
    /// A concat joins the sources in the order of their names.
    ConcatSorts,
    /// Only the capabilities are wrong: they deny truncate.
    DeniesTruncate,
    /// Declares a checksum that it lacks.
    BoastsChecksum,
}

/// A store in memory with a fault, without checksums and attributes.
struct Faulty {
    sound: MemoryStore,
    fault: Fault,
}

#[async_trait]
impl FileSystem for Faulty {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            truncate: self.fault != Fault::DeniesTruncate,
            checksum: self.fault == Fault::BoastsChecksum,
            permissions: false,
            ownership: false,
            times: false,
            replication: false,
            block_locations: false,
            status: false,
            per_user: false,
            ..self.sound.capabilities()
        }
    }

    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        let status = self.sound.stat(who, path).await?;
        let owner = if self.fault == Fault::OwnerIsEmpty { String::new() } else { status.owner };
        Ok(FileStatus { owner, ..status })
    }

    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        let listing = self.sound.list(who, path);
        if self.fault != Fault::ListingEndsEarly {
            return listing;
        }
        let all = async move {
            let mut entries: Vec<_> = listing.collect().await;
            entries.pop();
            futures::stream::iter(entries)
        };
        all.flatten_stream().boxed()
    }

    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        let sound = self.sound.open(who, path).await?;
        Ok(Box::new(FaultyReader { sound, fault: self.fault }))
    }

    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        let overwrite = options.overwrite || self.fault == Fault::CreateReplaces;
        let sound = self.sound.create(who, path, &CreateOptions { overwrite, ..options.clone() }).await?;
        Ok(Box::new(FaultyWriter { sound, fault: self.fault }))
    }

    async fn append(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        self.sound.append(who, path).await
    }

    async fn truncate(&self, who: &Principal, path: &StorePath, length: u64) -> Result<()> {
        self.sound.truncate(who, path, length).await
    }

    async fn concat(&self, who: &Principal, target: &StorePath, sources: &[StorePath]) -> Result<()> {
        let mut sources = sources.to_vec();
        if self.fault == Fault::ConcatSorts {
            sources.sort();
        }
        self.sound.concat(who, target, &sources).await
    }

    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        if replace && self.fault == Fault::ReplaceRemovesFirst {
            let _ = self.sound.remove(who, to, false).await;
            tokio::task::yield_now().await;
        }
        self.sound.rename(who, from, to, replace || self.fault == Fault::RenameReplaces).await
    }

    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        self.sound.remove(who, path, recursive || self.fault == Fault::RemoveTakesAll).await
    }

    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        self.sound.mkdirs(who, path, permission).await
    }
}

struct FaultyReader {
    sound: Box<dyn FileReader>,
    fault: Fault,
}

#[async_trait]
impl FileReader for FaultyReader {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        let mut read = self.sound.read_at(offset, length).await?;
        if self.fault == Fault::ReadEndsEarly && read.len() < length {
            read.truncate(read.len().saturating_sub(1));
        }
        Ok(read)
    }

    fn length(&self) -> u64 {
        self.sound.length()
    }

    fn identity(&self) -> Option<Bytes> {
        match self.fault {
            Fault::IdentityIsTheLength => Some(Bytes::copy_from_slice(&self.sound.length().to_le_bytes())),
            Fault::IdentityIsTheName => Some(Bytes::from_static(b"f")),
            _ => self.sound.identity(),
        }
    }
}

struct FaultyWriter {
    sound: Box<dyn FileWriter>,
    fault: Fault,
}

#[async_trait]
impl FileWriter for FaultyWriter {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        self.sound.append(data).await
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        if self.fault == Fault::FlushDoesNothing { Ok(None) } else { self.sound.flush().await }
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        self.sound.sync().await
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        self.sound.close().await
    }

    fn position(&self) -> u64 {
        self.sound.position()
    }
}

async fn report_of(fault: Fault) -> Report {
    report_with(fault, &[]).await
}

async fn report_with(fault: Fault, known: &'static [(&'static str, &'static str)]) -> Report {
    let store = Arc::new(Faulty { sound: MemoryStore::new("root"), fault });
    let root = StorePath::parse("/contract").unwrap();
    let fixture = Fixture { known, ..Fixture::new(store, root, Principal::new("root")) };
    contract::run("faulty", &fixture).await
}

#[tokio::test]
async fn each_planted_fault_is_found() {
    for (fault, case) in [
        (Fault::CreateReplaces, "create_is_exclusive"),
        (Fault::RenameReplaces, "rename_without_replace_leaves_what_is_there"),
        (Fault::ReplaceRemovesFirst, "a_replaced_name_is_never_without_a_file"),
        (Fault::RemoveTakesAll, "remove_of_a_directory_with_entries_needs_recursive"),
        (Fault::ListingEndsEarly, "list_of_many_entries_has_each_once"),
        (Fault::OwnerIsEmpty, "stat_of_a_file_tells_type_length_and_time"),
        (Fault::ReadEndsEarly, "read_over_the_end_is_cut"),
        (Fault::IdentityIsTheLength, "identity_stays_as_a_file_grows"),
        (Fault::IdentityIsTheName, "identity_is_another_of_a_file_in_its_place"),
        (Fault::FlushDoesNothing, "flushed_bytes_are_visible_to_new_readers"),
        (Fault::ConcatSorts, "concat_joins_the_sources_in_order_and_removes_them"),
        (Fault::DeniesTruncate, "truncate_is_unsupported_as_declared"),
        (Fault::BoastsChecksum, "checksum_is_equal_for_equal_files"),
    ] {
        let report = report_of(fault).await;
        assert!(
            report.failed.iter().any(|(name, _)| *name == case),
            "{fault:?} wasn't found by {case}: {report}"
        );
    }
}

#[tokio::test]
async fn every_skip_names_the_capability_that_is_absent() {
    let report = report_of(Fault::DeniesTruncate).await;
    let absent = [
        "truncate",
        "checksum",
        "permissions",
        "ownership",
        "times",
        "replication",
        "block_locations",
        "status",
        "per_user",
    ];
    for capability in absent {
        assert!(report.skipped.iter().any(|(_, lacking)| *lacking == capability), "no skip for {capability}");
    }
    assert!(report.skipped.iter().all(|(_, lacking)| absent.contains(lacking)), "{report}");
    // Only the wrong claim about truncate is a failure: absent capabilities answer Unsupported by
    // default.
    assert_eq!(report.failed.len(), 1, "{report}");
}

#[tokio::test]
async fn a_known_failure_is_counted_and_fails_once_it_passes() {
    let case = "truncate_is_unsupported_as_declared";
    let report =
        report_with(Fault::DeniesTruncate, &[("truncate_is_unsupported_as_declared", "it works")]).await;
    assert_eq!((report.known.as_slice(), report.failed.len()), (&[(case, "it works")][..], 0), "{report}");
    let told = report.to_string();
    assert!(told.contains("1 known to fail, 0 failed") && told.contains("(known): it works"), "{told}");
    // One that passes, one that is skipped, and one that doesn't exist.
    let wrong =
        &[("create_is_exclusive", ""), ("checksum_is_equal_for_equal_files", ""), ("no_such_case", "")];
    let report = report_with(Fault::DeniesTruncate, wrong).await;
    assert!(report.known.is_empty(), "{report}");
    let failed: Vec<&str> = report.failed.iter().map(|(case, _)| *case).collect();
    assert_eq!(failed, ["checksum_is_equal_for_equal_files", "create_is_exclusive", "no_such_case", case]);
}
