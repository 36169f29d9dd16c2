//! The files of a contest.

use crate::Result;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The files to read: one remote file for each client.
pub struct Files {
    pub clients: usize,
    /// Bytes of each file.
    pub bytes: u64,
    /// The content of each file.
    pub source: PathBuf,
    /// The remote files' common name, before `-CLIENT`.
    pub directory: String,
    /// The directory that clients write to.
    pub scratch: PathBuf,
}

impl Files {
    pub fn remote(&self, client: usize) -> String {
        format!("{}-{client}", self.directory)
    }

    pub fn local(&self, client: usize) -> PathBuf {
        self.scratch.join(format!("target-{client}"))
    }

    pub fn remove_targets(&self) {
        for client in 0..self.clients {
            // Ignore an error: the file may not exist.
            let _ = std::fs::remove_file(self.local(client));
        }
    }

    /// Checks the written files: a fast but wrong copy doesn't count.
    pub fn compare(&self) -> Result<()> {
        for client in 0..self.clients {
            if !same(&self.source, &self.local(client))? {
                return Err(format!("client {client} wrote other bytes than the file has").into());
            }
        }
        Ok(())
    }
}

fn same(a: &Path, b: &Path) -> Result<bool> {
    let (mut a, mut b) = (File::open(a)?, File::open(b)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut x, mut y) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let count = a.read(&mut x)?;
        b.read_exact(&mut y[..count])?;
        if count == 0 || x[..count] != y[..count] {
            return Ok(count == 0);
        }
    }
}
