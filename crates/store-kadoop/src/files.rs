//! Opening files, and reading them.

use super::errors::from_kadoop;
use super::names::checked_permission;
use super::writer::KadoopWriter;
use super::{KadoopStore, Shared};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use strait_kadoop_client::Reader;
use strait_kadoop_core::messages::Caller;
use strait_store::FileReader;
use strait_store::StorePath;
use strait_store::crc::checksum;
use strait_store::work::{Work, late};
use strait_store::{Checksum, CreateOptions, Principal, arguments};
use strait_store::{Error, ErrorKind, Result, fail};

/// Permission of a new file for which the caller gives none: HDFS's own default (0666 less the
/// umask 022).
const DEFAULT_FILE_PERMISSION: u16 = 0o644;

impl Shared {
    pub(super) fn open(self: &Arc<Self>, caller: &Caller, path: &StorePath) -> Result<KadoopReader> {
        let reader = self.client().open(caller, path.as_str()).map_err(from_kadoop)?;
        Ok(KadoopReader { reader: Arc::new(reader), shared: Arc::clone(self), path: path.clone() })
    }

    pub(super) fn create(
        self: &Arc<Self>,
        caller: &Caller,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<KadoopWriter> {
        let defaults = strait_kadoop_client::CreateOptions::default();
        let chunk_bytes = match options.block_size {
            None => defaults.chunk_bytes,
            Some(bytes) => u32::try_from(bytes).or_else(|_| {
                fail(ErrorKind::InvalidArgument, format!("invalid block size {bytes}: the maximum is 2 GiB"))
            })?,
        };
        let options = strait_kadoop_client::CreateOptions {
            overwrite: options.overwrite,
            mode: options.permission.map_or(Ok(DEFAULT_FILE_PERMISSION), checked_permission)?,
            // The cluster rejects fewer replicas than its minimum, so the default must not be lower.
            replication: options
                .replication
                .unwrap_or_else(|| self.replication.max(self.client.min_replicas())),
            chunk_bytes,
            min_replicas: options.min_replicas.unwrap_or(0),
        };
        let created = self.client().create(caller, path.as_str(), &options).map_err(|failure| {
            match failure.error {
                // The trait demands AlreadyExists, whether a file or a directory has the name.
                strait_kadoop_core::Error::IsADirectory => {
                    Error::new(ErrorKind::AlreadyExists, "a directory has that name").caused_by(failure)
                }
                _ => from_kadoop(failure),
            }
        });
        Ok(KadoopWriter::new(created?, Arc::clone(self), path.clone()))
    }

    pub(super) fn append(self: &Arc<Self>, caller: &Caller, path: &StorePath) -> Result<KadoopWriter> {
        let opened = self.client().append(caller, path.as_str()).map_err(from_kadoop)?;
        Ok(KadoopWriter::new(opened, Arc::clone(self), path.clone()))
    }
}

impl KadoopStore {
    /// The datanodes compute the checksums of chunks. Each step is a separate call, which waits for its
    /// turn among all calls. If the caller drops the future, no further step begins.
    pub(super) async fn digest(&self, who: &Principal, path: &StorePath) -> Result<Checksum> {
        let at = path.clone();
        let open = move |shared: &Arc<Shared>, caller: &_| {
            shared.client().digest(caller, at.as_str()).map_err(from_kadoop)
        };
        let mut digester = self.call("checksum", path, who, open).await?;
        loop {
            let step = move |_: &Arc<Shared>, _: &_| {
                let more = digester.step().map_err(from_kadoop)?;
                Ok((digester, more))
            };
            let more;
            (digester, more) = self.call("checksum", path, who, step).await?;
            if !more {
                return Ok(checksum(digester.crc32c()));
            }
        }
    }
}

/// An open file. The library reads ahead for sequential readers.
pub(super) struct KadoopReader {
    reader: Arc<Reader>,
    shared: Arc<Shared>,
    path: StorePath,
}

#[async_trait]
impl FileReader for KadoopReader {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        let read = async {
            arguments::check_read(length)?;
            // No file is that long.
            if length == 0 || offset.checked_add(length as u64).is_none() {
                return Ok(Bytes::new());
            }
            let reader = Arc::clone(&self.reader);
            let read = move || reader.read_at_until(offset, length, Work::deadline()).map_err(from_kadoop);
            self.shared.calls.run(read).await
        };
        read.await.map_err(|error| late(error).at("read", &self.path))
    }

    fn length(&self) -> u64 {
        self.reader.length()
    }

    fn identity(&self) -> Option<Bytes> {
        Some(Bytes::copy_from_slice(&self.reader.made().to_le_bytes()))
    }

    fn stop_reading_ahead(&self) {
        self.reader.stop_reading_ahead();
    }
}
