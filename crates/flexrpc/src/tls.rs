//! TLS: a process's own identity, and the peers that it trusts. Both are read once, from PEM files.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
};
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An error in a TLS file or its content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("TLS file {}: {problem}", path.display())]
pub struct TlsError {
    /// The file.
    pub path: PathBuf,
    /// Description of the problem.
    pub problem: String,
}

/// ALPN name of ONC RPC, for TLS's handshake.
const ONC_PROTOCOL: &[u8] = b"sunrpc";

/// A certificate, the certificates between it and its root, and its private key.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The file of certificates; the process's own comes first.
    pub certificate: PathBuf,
    /// The file of the key.
    pub key: PathBuf,
}

/// The callees that a client trusts.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Callees with a certificate from an authority in this file. The certificate must be for the
    /// called address, or for the expected [name](ClientTls::expecting).
    Authorities(PathBuf),
    /// Callees that show a certificate in this file. Its names and dates don't matter then.
    Pinned(PathBuf),
}

/// A server's TLS configuration.
#[derive(Clone)]
pub struct ServerTls {
    pub(crate) config: Arc<ServerConfig>,
    /// Whether the server demands and checks callers' certificates.
    pub(crate) certified: bool,
}

/// A client's TLS configuration; also that of a server that passes chains on.
#[derive(Clone)]
pub struct ClientTls {
    pub(crate) config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl ServerTls {
    /// A configuration that serves with the certificate of `identity`. `callers` is a file of
    /// authorities: the server then accepts only callers with a certificate from one of them, and
    /// they count as authenticated.
    ///
    /// # Errors
    /// A file is missing, isn't PEM, or doesn't match the others.
    pub fn load(identity: &Identity, callers: Option<&Path>) -> Result<Self, TlsError> {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|problem| error(&identity.certificate, &problem))?;
        let builder = match callers {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots(path)?), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|problem| error(path, &problem))?)
            }
        };
        let (chain, key) = identity.read()?;
        let mut config =
            builder.with_single_cert(chain, key).map_err(|problem| identity.refused(&problem))?;
        // One ticket is enough: clients pool their handles, so a reconnecting client resumes one
        // session.
        config.send_tls13_tickets = 1;
        // Clients of RFC 9289 ask for this protocol by ALPN (section 5.1.1); FlexRPC's clients
        // don't use ALPN.
        config.alpn_protocols = vec![ONC_PROTOCOL.to_vec()];
        Ok(Self { config: Arc::new(config), certified: callers.is_some() })
    }
}

impl ClientTls {
    /// A configuration for calls to the callees that `trust` covers. `identity` is for callees that
    /// require certificates of their callers.
    ///
    /// # Errors
    /// As [`ServerTls::load`].
    pub fn load(trust: &Trust, identity: Option<&Identity>) -> Result<Self, TlsError> {
        let provider = Arc::new(default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let (Trust::Authorities(path) | Trust::Pinned(path)) = trust;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|problem| error(path, &problem))?;
        let builder = match trust {
            Trust::Authorities(path) => builder.with_root_certificates(roots(path)?),
            Trust::Pinned(path) => {
                let pinned = Pinned { certificates: certificates(path)?, algorithms };
                builder.dangerous().with_custom_certificate_verifier(Arc::new(pinned))
            }
        };
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.read()?;
                let made = builder.with_client_auth_cert(chain, key);
                made.map_err(|problem| identity.refused(&problem))?
            }
        };
        Ok(Self { config: Arc::new(config), name: None })
    }

    /// Expects callees' certificates to be for `name`, whatever the callees' addresses. If a
    /// cluster's certificates share one name, they needn't list addresses. `None` if `name` is
    /// neither a DNS name nor an address.
    pub fn expecting(self, name: &str) -> Option<Self> {
        let name = ServerName::try_from(name.to_owned()).ok()?;
        Some(Self { name: Some(name), ..self })
    }

    /// The same configuration for RPC with TLS (RFC 9289), which needs its ALPN name.
    pub(crate) fn for_onc(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![ONC_PROTOCOL.to_vec()];
        Self { config: Arc::new(config), name: self.name.clone() }
    }

    pub(crate) fn name_of(&self, callee: IpAddr) -> ServerName<'static> {
        self.name.clone().unwrap_or_else(|| ServerName::IpAddress(callee.to_canonical().into()))
    }
}

impl Identity {
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|problem| error(&self.key, &problem))?;
        Ok((chain, key))
    }

    fn refused(&self, problem: &rustls::Error) -> TlsError {
        match problem {
            rustls::Error::InconsistentKeys(_) => {
                let of = self.certificate.display();
                error(&self.key, &format!("it isn't the key of the certificate in {of}"))
            }
            problem => error(&self.certificate, problem),
        }
    }
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|problem| error(path, &problem))?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_file_iter(path).map_err(|problem| error(path, &problem))?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|problem| error(path, &problem))?;
    if all.is_empty() { Err(error(path, &"no PEM certificate in it")) } else { Ok(all) }
}

fn error(path: &Path, problem: &dyn fmt::Display) -> TlsError {
    TlsError { path: path.to_owned(), problem: problem.to_string() }
}

/// Trusts the certificates themselves, instead of authorities. The handshake's signature still
/// proves that the callee holds the private key.
#[derive(Debug)]
struct Pinned {
    certificates: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.certificates.contains(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Omits the configuration, which contains the private key.
impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("certified", &self.certified).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").field("name", &self.name).finish_non_exhaustive()
    }
}
