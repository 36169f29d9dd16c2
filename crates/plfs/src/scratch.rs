//! A private temporary file: in memory or, if it gets large, an unnamed file in the directory for temporary
//! files.

use async_trait::async_trait;
use bytes::Bytes;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strait_store::{ErrorKind, FileReader, FileWriter, Result, fail};

/// Most bytes that stay in memory: enough for the tables of a million writes.
const MOST_IN_MEMORY: usize = 16 << 20;

/// The file; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Scratch(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    memory: Vec<u8>,
    file: Option<Arc<File>>,
    length: u64,
}

impl Scratch {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Content {
    fn append(&mut self, data: &[u8]) -> io::Result<()> {
        if self.file.is_none() && self.memory.len() + data.len() > MOST_IN_MEMORY {
            let mut file = unnamed()?;
            file.write_all(&self.memory)?;
            self.memory = Vec::new();
            self.file = Some(Arc::new(file));
        }
        match &self.file {
            Some(file) => file.write_all_at(data, self.length)?,
            None => self.memory.extend_from_slice(data),
        }
        self.length += data.len() as u64;
        Ok(())
    }
}

/// A file that no other process can open. The kernel frees it with its last handle.
fn unnamed() -> io::Result<File> {
    let nonce = u64::from_le_bytes(strait_store::random::random());
    let path = std::env::temp_dir().join(format!(".strait-plfs-{nonce:016x}"));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[async_trait]
impl FileWriter for Scratch {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        Ok(self.content().append(&data)?)
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        Ok(None)
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        Ok(None)
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        Ok(None)
    }

    fn position(&self) -> u64 {
        self.content().length
    }
}

#[async_trait]
impl FileReader for Scratch {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        let (file, end) = {
            let content = self.content();
            let end = offset.saturating_add(length as u64).min(content.length);
            match &content.file {
                None => {
                    let start = offset.min(end) as usize;
                    return Ok(Bytes::copy_from_slice(&content.memory[start..end as usize]));
                }
                Some(file) => (file.clone(), end),
            }
        };
        let wanted = end.saturating_sub(offset) as usize;
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; wanted];
            file.read_exact_at(&mut bytes, offset).map(|()| bytes)
        });
        match read.await {
            Ok(bytes) => Ok(bytes?.into()),
            Err(error) => fail(ErrorKind::Internal, error.to_string()),
        }
    }

    fn length(&self) -> u64 {
        self.content().length
    }

    fn identity(&self) -> Option<Bytes> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_content_moves_to_a_file_and_reads_the_same() {
        let mut scratch = Scratch::default();
        let piece = |n: u8| Bytes::from(vec![n; 3 << 20]);
        for n in 0..8 {
            scratch.append(piece(n)).await.unwrap();
        }
        assert!(scratch.content().file.is_some());
        for n in 0..8_u8 {
            let read = scratch.read_at(u64::from(n) * (3 << 20), 3 << 20).await.unwrap();
            assert!(read == piece(n));
        }
        assert_eq!(scratch.read_at((24 << 20) - 1, 9).await.unwrap(), [7][..]);
        assert!(scratch.read_at(1 << 40, 9).await.unwrap().is_empty());
    }
}
