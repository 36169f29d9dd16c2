//! The lent logins that this process received: a helper of `run` gets them from its dispatcher, and a command
//! from its helper.

use super::secret::parsed;
use crate::failure::Failure;
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use strait_client::{Options, StraitStore, TlsOptions};
use strait_dispatch::frame::Lent;
use strait_store::{Error, ErrorKind, Result, StoreUri};
use tempfile::NamedTempFile;

/// Largest text of logins that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Attempts to read the logins: the helper may be replacing their text at that moment.
const READS: usize = 3;

/// The lent logins, by store.
#[derive(Default)]
pub struct Received {
    lent: HashMap<String, Lent>,
    opened: HashMap<String, Arc<StraitStore>>,
    /// Certificates (PEM) of the authorities to trust, in temporary files. They are no secrets.
    authorities: Vec<(String, NamedTempFile)>,
    /// The file in memory with the logins. Commands inherit its descriptor.
    shared: Option<File>,
}

impl Received {
    /// The logins that this command's helper lends, read at the inherited descriptor. Empty if none can be
    /// read.
    pub fn of_environment(descriptor: Option<i32>) -> Self {
        let mut received = Self::default();
        let Some(descriptor) = descriptor else { return received };
        let path = PathBuf::from(format!("/proc/self/fd/{descriptor}"));
        for _ in 0..READS {
            // A file that is opened again has its own read position.
            let Ok(file) = File::open(&path) else { break };
            let mut text = String::new();
            if file.take(MAX_BYTES).read_to_string(&mut text).is_ok()
                && let Ok(logins) = serde_json::from_str(text.trim_end_matches('\0'))
            {
                received.replace(logins);
                break;
            }
        }
        received
    }

    /// Options for connecting to the gateway of `uri` with its lent login; `None` if no login for it was
    /// lent.
    pub fn options(&self, uri: &StoreUri) -> Result<Option<Options>> {
        let Some(lent) = self.lent.get(&uri.store()) else { return Ok(None) };
        let unusable = |why| Error::new(ErrorKind::Unauthenticated, why).at("connect to", uri.store());
        let Some((token, tls)) = parsed(lent) else {
            return Err(unusable("the lent login can't be read; both hosts need the same version of strait"));
        };
        let authority = |pem: &String| match self.authorities.iter().find(|(known, _)| known == pem) {
            Some((_, file)) => Ok(file.path().to_owned()),
            None => {
                Err(unusable("can't write the authorities' certificates (PEM) to the temporary directory"))
            }
        };
        let trusting = |ca: Option<String>| -> Result<TlsOptions> {
            Ok(TlsOptions { ca: ca.as_ref().map(authority).transpose()?, identity: None })
        };
        let tls = tls.map(trusting).transpose()?;
        let store = uri.gateway_store().map(str::to_owned);
        Ok(Some(Options { store, token: Some(token), tls, ..Options::default() }))
    }

    /// Remembers a store that was opened with its lent login, so that [`Self::replace`] renews its token.
    pub fn opened(&mut self, store: String, opened: Arc<StraitStore>) {
        self.opened.insert(store, opened);
    }

    /// Replaces the logins of the same stores by these, also in stores that are open.
    pub fn replace(&mut self, logins: Vec<Lent>) {
        for lent in logins {
            if let Some((token, tls)) = parsed(&lent) {
                if let Some(open) = self.opened.get(&lent.store) {
                    open.replace_token(token);
                }
                if let Some(Some(pem)) = tls {
                    self.keep_authority(pem);
                }
            }
            self.lent.insert(lent.store.clone(), lent);
        }
        self.write_shared();
    }

    /// Writes certificates to a temporary file. If that fails, a later connection reports the error.
    fn keep_authority(&mut self, pem: String) {
        if self.authorities.iter().any(|(known, _)| *known == pem) {
            return;
        }
        let written = NamedTempFile::new().and_then(|mut file| file.write_all(pem.as_bytes()).map(|()| file));
        if let Ok(file) = written {
            self.authorities.push((pem, file));
        }
    }

    /// Writes the logins to a file in memory, whose descriptor the children of this process inherit.
    pub fn share(&mut self) -> std::result::Result<(), Failure> {
        let made = memfd_create("strait-logins", MemfdFlags::empty());
        let memory = made.map_err(|error| {
            Failure::other(format!("can't pass the lent logins to commands (memfd_create): {error}"))
        })?;
        self.shared = Some(memory.into());
        self.write_shared();
        Ok(())
    }

    /// The descriptor of the file that [`Self::share`] created; `None` before that call.
    pub fn shared(&self) -> Option<i32> {
        self.shared.as_ref().map(AsRawFd::as_raw_fd)
    }

    fn write_shared(&self) {
        let Some(memory) = &self.shared else { return };
        let all: Vec<&Lent> = self.lent.values().collect();
        let mut text = serde_json::to_vec(&all).unwrap_or_default();
        // NULs overwrite the rest of a longer previous text. Readers ignore them.
        let length = memory.metadata().map_or(0, |metadata| metadata.len());
        text.resize(text.len().max(usize::try_from(length).unwrap_or(0)), 0);
        if let Err(error) = memory.write_all_at(&text, 0) {
            tracing::warn!(%error, "can't pass the lent logins to commands");
        }
    }
}
