//! TLS connections to a gateway.

use super::Options;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strait_store::{Error, ErrorKind, Result};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, AlertDescription, CertificateError, ClientConfig, RootCertStore};

/// `openssl x509 -req` makes such certificates if no extensions are given.
const VERSION_1: &str = "it is an X.509 certificate of version 1; make one of version 3, with any extension \
                         (openssl: -extfile with basicConstraints=CA:FALSE)";

/// Trusted authorities, and our own identity; all files PEM.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// File of certificate authorities, one of which must have issued the gateway's certificate; none: the
    /// authorities that this system trusts.
    pub ca: Option<PathBuf>,
    /// Our own certificate (with its chain) and its key, for gateways that require one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// TLS state, loaded once for a session's connections.
pub(super) struct Tls {
    connector: TlsConnector,
    server: ServerName<'static>,
}

impl Tls {
    /// For connections to `address`, `host:port`.
    pub(super) fn new(options: &TlsOptions, address: &str) -> Result<Self> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
        let server = ServerName::try_from(host.to_owned())
            .map_err(|_| invalid(format!("{host:?} can't be a certificate's host name")))?;
        let roots = match &options.ca {
            Some(path) => roots_of(path)?,
            None => system_roots()?,
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| invalid(format!("TLS: {e}")))?
            .with_root_certificates(roots);
        let config = match &options.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(certificate)?;
                let private =
                    PrivateKeyDer::from_pem_file(key).map_err(|error| about(key, &described(error)))?;
                builder.with_client_auth_cert(chain, private).map_err(|e| {
                    let version_1 = e.to_string().contains("UnsupportedCertVersion");
                    match e {
                        _ if version_1 => about(certificate, &VERSION_1),
                        rustls::Error::InconsistentKeys(_) => {
                            let of = certificate.display();
                            about(key, &format!("it isn't the key of the certificate in {of}"))
                        }
                        e => about(key, &e),
                    }
                })?
            }
        };
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), server })
    }

    pub(super) async fn handshake(&self, socket: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.server.clone(), socket).await
    }
}

/// Keeps passwords and tokens on this host unless they are encrypted.
///
/// # Errors
/// Unauthenticated: the login would leave this host without TLS. Nothing has been sent.
pub(super) fn check_secrecy(options: &Options, peer: Option<IpAddr>) -> Result<()> {
    let local = peer.is_some_and(|peer| peer.is_loopback());
    if local || options.tls.is_some() || options.user.is_none() && options.token.is_none() {
        return Ok(());
    }
    let message = "a login is sent in clear text over loopback only; elsewhere use TLS (strait --tls)";
    Err(Error::new(ErrorKind::Unauthenticated, message))
}

/// The error of a failed handshake, with the remedy. A bad certificate is Unauthenticated, since a
/// retry would change nothing.
pub(super) fn refused(error: std::io::Error) -> Error {
    if let Some(why) = refusal(&error) {
        return Error::new(ErrorKind::Unauthenticated, format!("TLS: {why}")).caused_by(error);
    }
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let (kind, why) = match cause {
        Some(rustls::Error::InvalidCertificate(wrong)) => {
            (ErrorKind::Unauthenticated, about_certificate(wrong))
        }
        // A gateway without TLS recognises a TLS client by its first bytes, and sends HandshakeFailure.
        Some(
            rustls::Error::InvalidMessage(_)
            | rustls::Error::AlertReceived(AlertDescription::HandshakeFailure),
        ) => (
            ErrorKind::Unavailable,
            "the gateway serves clear text on this port; connect without TLS (no --tls), or have its \
             operator serve TLS (--tls-cert)"
                .to_owned(),
        ),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => (
            ErrorKind::Unavailable,
            "the gateway closed the connection at once; it may lack TLS (--tls-cert), or have no free \
             connection"
                .to_owned(),
        ),
        _ => (ErrorKind::Unavailable, error.to_string()),
    };
    Error::new(kind, format!("TLS: {why}")).caused_by(error)
}

/// The reason why a gateway rejected us as a TLS client, if it did. In TLS 1.3 it does so only
/// after the handshake.
pub(super) fn refusal(error: &std::io::Error) -> Option<String> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::AlertReceived(alert) => about_our_certificate(*alert).map(str::to_owned),
        _ => None,
    }
}

fn about_our_certificate(alert: AlertDescription) -> Option<&'static str> {
    match alert {
        AlertDescription::CertificateRequired => {
            Some("the gateway wants a client certificate; give one with --client-cert FILE --client-key FILE")
        }
        AlertDescription::CertificateExpired => {
            Some("our client certificate has expired, or isn't valid yet; get a new one (--client-cert FILE)")
        }
        AlertDescription::CertificateRevoked => {
            Some("our client certificate was revoked (--client-cert FILE)")
        }
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::DecryptError
        | AlertDescription::AccessDenied => Some(
            "the gateway doesn't accept our client certificate; use one from an authority that the \
             gateway trusts (--client-cert FILE --client-key FILE)",
        ),
        _ => None,
    }
}

fn about_certificate(wrong: &CertificateError) -> String {
    match wrong {
        // Another authority issued it, perhaps one with the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the gateway's certificate isn't signed by an authority trusted here; \
             name its authority, or the certificate itself if it is self-signed (--tls-ca FILE)"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!(
                "the gateway's certificate doesn't have this host name among its subjectAltNames ({wrong})"
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the gateway's certificate has expired".to_owned()
        }
        // The verifier's own error has no public name.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the gateway's certificate is an authority's (CA:TRUE) and can't be a server's too; its operator \
             makes one with `openssl req -x509 … -addext basicConstraints=critical,CA:FALSE`"
                .to_owned()
        }
        other => format!("the gateway's certificate is invalid: {other}"),
    }
}

fn roots_of(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|e| about(path, &e))?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 {
        return Err(invalid(
            "this system trusts no certificate authority; name one (strait --tls-ca FILE)".into(),
        ));
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let all =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
    match all {
        Ok(all) if all.is_empty() => Err(about(path, &"no PEM certificate in it")),
        all => all.map_err(|error| about(path, &described(error))),
    }
}

/// The reason in our words: the parser's own text is only "I/O error" for every file that can't be read, and
/// doesn't say which PEM item a file lacks.
fn described(error: pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        pem::Error::NoItemsFound => "no PEM private key in it".to_owned(),
        error => error.to_string(),
    }
}

fn about(path: &Path, what: &dyn std::fmt::Display) -> Error {
    invalid(format!("TLS file {}: {what}", path.display()))
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_wire::Secret;

    #[test]
    fn a_login_leaves_this_host_only_encrypted() {
        let far = Some("192.0.2.1".parse().unwrap());
        let near = Some("127.0.0.1".parse().unwrap());
        let user = Options { user: Some("alice".to_owned()), ..Options::default() };
        let token = Options { token: Some(Secret("s1.0".to_owned())), ..Options::default() };
        for login in [user, token] {
            assert_eq!(check_secrecy(&login, far).unwrap_err().kind(), ErrorKind::Unauthenticated);
            assert_eq!(check_secrecy(&login, None).unwrap_err().kind(), ErrorKind::Unauthenticated);
            check_secrecy(&login, near).unwrap();
            check_secrecy(&Options { tls: Some(TlsOptions::default()), ..login }, far).unwrap();
        }
        check_secrecy(&Options::default(), far).unwrap();
    }
}
