//! Certificate authorities for tests of TLS.

use crate::Result;
use crate::failure::Failure;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa,
    KeyIdMethod, KeyPair, RevokedCertParams,
};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use time::{Duration, OffsetDateTime};

/// A new certificate authority, which no program trusts by default.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM files.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate: PathBuf,
    /// The certificate's private key, which only the owner can read.
    pub key: PathBuf,
    /// The certificate's serial number.
    pub serial: u64,
}

impl Authority {
    /// Makes a new authority.
    ///
    /// # Errors
    /// The library can't make a key or a certificate.
    pub fn new() -> Result<Self> {
        let make = || {
            let mut params = CertificateParams::new(Vec::new())?;
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            // A distinct name: a certificate whose issuer has its own name counts as self-signed.
            params.distinguished_name.push(DnType::CommonName, "an authority for tests");
            CertifiedIssuer::self_signed(params, KeyPair::generate()?)
        };
        make().map(Self).map_err(|error| Failure::new(format!("making an authority: {error}")))
    }

    /// The authority's certificate, for programs that should trust it.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Writes the authority's certificate to a file in `dir`.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn write(&self, dir: &Path) -> Result<PathBuf> {
        let path = dir.join("ca.pem");
        write(&path, &self.pem())?;
        Ok(path)
    }

    /// Issues a certificate for `localhost` and 127.0.0.1, into files in `dir`. Replaces an earlier one
    /// there.
    ///
    /// # Errors
    /// The library's, or a file can't be written.
    pub fn issue(&self, dir: &Path) -> Result<Identity> {
        self.issue_for(dir, 3_650)
    }

    /// As [`Authority::issue`], with a certificate that is valid for `days` from now. With a negative number,
    /// it has expired.
    ///
    /// # Errors
    /// As [`Authority::issue`].
    pub fn issue_for(&self, dir: &Path, days: i64) -> Result<Identity> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        let make = || {
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
            let now = OffsetDateTime::now_utc();
            params.serial_number = Some(serial.into());
            params.not_after = now + Duration::days(days);
            params.not_before = params.not_after.min(now) - Duration::days(30);
            Ok((params.signed_by(&key, &self.0)?.pem(), key.serialize_pem()))
        };
        let made: std::result::Result<_, rcgen::Error> = make();
        let (certificate, key) =
            made.map_err(|error| Failure::new(format!("issuing a certificate: {error}")))?;
        let identity = Identity { certificate: dir.join("cert.pem"), key: dir.join("key.pem"), serial };
        write(&identity.key, &key)?;
        write(&identity.certificate, &certificate)?;
        Ok(identity)
    }
}

impl Authority {
    /// Writes a list of revoked certificates to a file in `dir`. Replaces an earlier list there.
    ///
    /// # Errors
    /// The library's, or the file can't be written.
    pub fn revoke(&self, dir: &Path, revoked: &[&Identity]) -> Result<PathBuf> {
        self.revoke_for(dir, revoked, 30)
    }

    /// As [`Authority::revoke`], with a list that says that the next one is due in `days`. With a negative
    /// number, the list is overdue.
    ///
    /// # Errors
    /// As [`Authority::revoke`].
    pub fn revoke_for(&self, dir: &Path, revoked: &[&Identity], days: i64) -> Result<PathBuf> {
        let now = OffsetDateTime::now_utc();
        let revoke = |identity: &&Identity| RevokedCertParams {
            serial_number: identity.serial.into(),
            revocation_time: now,
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: now.min(now + Duration::days(days)) - Duration::days(1),
            next_update: now + Duration::days(days),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(revoke).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let pem = params.signed_by(&self.0).and_then(|list| list.pem());
        let pem = pem.map_err(|error| Failure::new(format!("making a revocation list: {error}")))?;
        let path = dir.join("revoked.pem");
        write(&path, &pem)?;
        Ok(path)
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    let open = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    let written = open.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}
