//! TLS on the port. Certificate and key come from files that are read again when they change. The
//! operator may require client certificates.

use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime,
};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::{self, RootCertStore, ServerConfig};
use x509_parser::extensions::GeneralName;
use x509_parser::time::ASN1Time;

/// Paths of the operator's TLS files, all PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate, followed by the intermediate ones.
    pub certificate: PathBuf,
    /// Its private key; only its owner may have access to the file.
    pub key: PathBuf,
    /// Certificate authorities whose clients are admitted. None: the gateway asks for no client
    /// certificate.
    pub client_ca: Option<PathBuf>,
    /// Revoked client certificates, one list for each of those authorities.
    pub client_crl: Option<PathBuf>,
}

/// TLS with the latest valid contents of the files.
pub struct Tls {
    files: TlsFiles,
    current: Mutex<Current>,
    /// Tells connections to check their certificates again when the files have changed.
    changed: watch::Sender<()>,
}

struct Current {
    acceptor: TlsAcceptor,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    certificate: CertificateFacts,
    /// The earliest nextUpdate of the revocation lists.
    lists_end: Option<SystemTime>,
    modified: Vec<Option<SystemTime>>,
}

/// Facts about the gateway's certificate, for its operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The names and addresses that the certificate covers.
    pub names: Vec<String>,
    /// Its first valid time.
    pub begins: SystemTime,
    /// Its time of expiry.
    pub expires: SystemTime,
}

/// The reason why the files can't be used, for people.
pub type Problem = String;

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// A line for people: a file is missing, isn't PEM, or doesn't fit the others, or other users
    /// may read the key.
    pub fn load(files: TlsFiles) -> Result<Self, Problem> {
        demand_regular("TLS certificate", Some(&files.certificate))?;
        demand_regular("TLS key", Some(&files.key))?;
        demand_regular("--tls-client-ca", files.client_ca.as_deref())?;
        demand_regular("--tls-client-crl", files.client_crl.as_deref())?;
        let current = Mutex::new(read(&files)?);
        Ok(Self { files, current, changed: watch::Sender::new(()) })
    }

    /// Reads the files again if one has changed. Open connections keep the former certificate; new
    /// authorities and revocations apply to them at once. If the new files have an error, the former
    /// ones stay in force.
    ///
    /// # Errors
    /// As [`Tls::load`].
    pub fn reload_if_changed(&self) -> Result<bool, Problem> {
        // Taken before the files are read: a file that changes meanwhile is read again at the next check.
        let found = modified(&self.files);
        if self.lock().modified == found {
            return Ok(false);
        }
        // Reports an error once for a change, not at every check.
        self.reload().map(|()| true).inspect_err(|_| self.lock().modified = found)
    }

    /// Reads the files again, changed or not.
    ///
    /// # Errors
    /// As [`Tls::load`]; the former files stay in force.
    pub fn reload(&self) -> Result<(), Problem> {
        *self.lock() = read(&self.files)?;
        self.changed.send_replace(());
        Ok(())
    }

    /// Whether clients must present a certificate.
    pub fn asks_for_certificates(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// The gateway's own certificate.
    pub fn certificate(&self) -> CertificateFacts {
        self.lock().certificate.clone()
    }

    /// The earliest nextUpdate of the revocation lists; none if no list has one. A list stays in force
    /// after it.
    pub fn lists_end(&self) -> Option<SystemTime> {
        self.lock().lists_end
    }

    /// Returns once a client's certificate is no longer valid: it is revoked, or its authority is
    /// no longer trusted.
    pub async fn distrusted(&self, chain: &[CertificateDer<'_>]) {
        let mut changes = self.changed.subscribe();
        while self.trusts(chain) {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }

    fn trusts(&self, chain: &[CertificateDer<'_>]) -> bool {
        let verifier = self.lock().verifier.clone();
        match (verifier, chain.split_first()) {
            (Some(verifier), Some((own, above))) => {
                verifier.verify_client_cert(own, above, UnixTime::now()).is_ok()
            }
            // The gateway asks for no client certificate.
            (None, _) => true,
            (Some(_), None) => false,
        }
    }

    /// Acceptor for the next handshake.
    pub fn acceptor(&self) -> TlsAcceptor {
        self.lock().acceptor.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn modified(files: &TlsFiles) -> Vec<Option<SystemTime>> {
    let all =
        [Some(&files.certificate), Some(&files.key), files.client_ca.as_ref(), files.client_crl.as_ref()];
    let time = |path: &PathBuf| std::fs::metadata(path).and_then(|file| file.modified()).ok();
    all.into_iter().flatten().map(time).collect()
}

fn read(files: &TlsFiles) -> Result<Current, Problem> {
    let modified = modified(files);
    let chain = certificates("TLS certificate", &files.certificate)?;
    let shown = files.key.display();
    let metadata = std::fs::metadata(&files.key).map_err(|e| format!("TLS key {shown}: {e}"))?;
    if metadata.mode() & 0o077 != 0 {
        return Err(format!("TLS key {shown}: others may read it; run `chmod 600 {shown}`"));
    }
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|e| format!("TLS key {shown}: {}", described(e)))?;
    let provider = Arc::new(default_provider());
    let versions = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| format!("TLS: {e}"))?;
    let mut lists_end = None;
    let verifier = match &files.client_ca {
        None => None,
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in certificates("--tls-client-ca", path)? {
                roots.add(root).map_err(|e| format!("--tls-client-ca {}: {e}", path.display()))?;
            }
            let lists = files.client_crl.as_deref().map(revocations).transpose()?.unwrap_or_default();
            lists_end = lists.iter().filter_map(|list| next_update(list)).min();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .with_crls(lists)
                .only_check_end_entity_revocation()
                .build()
                .map_err(|e| format!("--tls-client-ca {}: {e}", path.display()))?;
            Some(verifier)
        }
    };
    let asking = match verifier.clone() {
        None => versions.with_no_client_auth(),
        Some(verifier) => versions.with_client_cert_verifier(verifier),
    };
    let certificate = facts(&chain)
        .ok_or_else(|| format!("certificate {}: not an X.509 certificate", files.certificate.display()))?;
    let config = asking.with_single_cert(chain, key).map_err(|e| {
        let certificate = files.certificate.display();
        match e {
            rustls::Error::InconsistentKeys(_) => {
                format!("TLS key {shown}: it isn't the key of the certificate in {certificate}")
            }
            e => format!("TLS certificate {certificate} with key {shown}: {e}"),
        }
    })?;
    Ok(Current { acceptor: TlsAcceptor::from(Arc::new(config)), verifier, certificate, lists_end, modified })
}

fn facts(chain: &[CertificateDer<'_>]) -> Option<CertificateFacts> {
    let (_, certificate) = x509_parser::parse_x509_certificate(chain.first()?).ok()?;
    let validity = certificate.validity();
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|names| &names.value.general_names).filter_map(name).collect();
    Some(CertificateFacts { names, begins: time(validity.not_before), expires: time(validity.not_after) })
}

fn time(at: ASN1Time) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(at.timestamp()).unwrap_or(0))
}

/// A list's nextUpdate: the time by which its authority issues another list.
fn next_update(list: &[u8]) -> Option<SystemTime> {
    let (_, list) = x509_parser::parse_x509_crl(list).ok()?;
    list.next_update().map(time)
}

/// A name of a server in a certificate.
fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(octets) => {
            let v4 = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
            v4.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from)).ok().map(|ip| ip.to_string())
        }
        _ => None,
    }
}

fn revocations(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, Problem> {
    let problem = |why: String| format!("--tls-client-crl {}: {why}", path.display());
    let all =
        CertificateRevocationListDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match all {
        Ok(all) if all.is_empty() => Err(problem("no PEM list (X509 CRL) in it".to_owned())),
        all => all.map_err(|e| problem(described(e))),
    }
}

/// Refuses a FIFO and the like, since opening it could wait for ever. The error of a missing file comes later.
fn demand_regular(named: &str, path: Option<&Path>) -> Result<(), Problem> {
    let Some(path) = path else { return Ok(()) };
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(format!("{named} {}: not a regular file", path.display())),
        _ => Ok(()),
    }
}

fn certificates(named: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let problem = |why: String| format!("{named} {}: {why}", path.display());
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match all {
        Ok(all) if all.is_empty() => Err(problem("no PEM certificate in it".to_owned())),
        all => all.map_err(|e| problem(described(e))),
    }
}

/// The reason. The parser's own text is only "I/O error" for every file that can't be read.
fn described(error: pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}
