//! TLS on the port: certificate and key from files, read anew when they
//! change, client certificates where the operator asks for them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Where the operator keeps what TLS needs, all PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate, and those between it and the root.
    pub certificate: PathBuf,
    /// Its private key; nobody else may read it.
    pub key: PathBuf,
    /// Certificate authorities whose clients are let in; none: no client
    /// certificate is asked for.
    pub client_ca: Option<PathBuf>,
}

/// TLS as it is configured now.
pub struct Tls {
    files: TlsFiles,
    current: Mutex<Current>,
}

struct Current {
    acceptor: TlsAcceptor,
    modified: Vec<Option<SystemTime>>,
}

/// What is wrong with the files, for people.
pub type Problem = String;

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// A line for people: a file is missing, isn't PEM, or doesn't fit the
    /// others; the key can be read by others.
    pub fn load(files: TlsFiles) -> Result<Self, Problem> {
        let current = Mutex::new(read(&files)?);
        Ok(Self { files, current })
    }

    /// Reads the files anew if one has changed. Connections that are open keep
    /// what they have; where the new files are no good, so do new ones.
    ///
    /// # Errors
    /// As [`Tls::load`].
    pub fn reload_if_changed(&self) -> Result<bool, Problem> {
        if self.lock().modified == modified(&self.files) {
            return Ok(false);
        }
        let fresh = read(&self.files);
        let mut current = self.lock();
        match fresh {
            Ok(fresh) => {
                *current = fresh;
                Ok(true)
            }
            Err(problem) => {
                // Said once for a change, not at every look.
                current.modified = modified(&self.files);
                Err(problem)
            }
        }
    }

    /// For the next handshake.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.lock().acceptor.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn modified(files: &TlsFiles) -> Vec<Option<SystemTime>> {
    let all = [Some(&files.certificate), Some(&files.key), files.client_ca.as_ref()];
    let time = |path: &PathBuf| std::fs::metadata(path).and_then(|file| file.modified()).ok();
    all.into_iter().flatten().map(time).collect()
}

fn read(files: &TlsFiles) -> Result<Current, Problem> {
    let modified = modified(files);
    let chain = certificates(&files.certificate)?;
    let shown = files.key.display();
    let metadata = std::fs::metadata(&files.key).map_err(|e| format!("TLS key {shown}: {e}"))?;
    if metadata.mode() & 0o077 != 0 {
        return Err(format!("TLS key {shown}: others may read it; run `chmod 600 {shown}`"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| format!("TLS key {shown}: {e}"))?;
    let provider = Arc::new(default_provider());
    let versions = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| format!("TLS: {e}"))?;
    let asking = match &files.client_ca {
        None => versions.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(path)? {
                roots.add(root).map_err(|e| format!("client CA {}: {e}", path.display()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .map_err(|e| format!("client CA {}: {e}", path.display()))?;
            versions.with_client_cert_verifier(verifier)
        }
    };
    let config = asking
        .with_single_cert(chain, key)
        .map_err(|e| format!("TLS certificate {} with key {shown}: {e}", files.certificate.display()))?;
    Ok(Current { acceptor: TlsAcceptor::from(Arc::new(config)), modified })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let problem = |e: &dyn std::fmt::Display| format!("certificate {}: {e}", path.display());
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(|e| problem(&e))?.collect();
    match all {
        Ok(all) if all.is_empty() => Err(problem(&"no PEM certificate in it")),
        all => all.map_err(|e| problem(&e)),
    }
}
