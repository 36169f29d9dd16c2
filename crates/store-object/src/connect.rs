//! Endpoints and credentials, from the environment and files that each service's own tools read.

use crate::azure::SharedKey;
use crate::errors::{Sent, typed};
use crate::http::Connector;
use crate::options::Options;
use crate::profile::Profile;
use object_store::aws::{AmazonS3, AmazonS3Builder, AwsCredential, S3CopyIfNotExists};
use object_store::azure::{AzureConfigKey, MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::list::PaginatedListStore;
use object_store::{BackoffConfig, ObjectStore, RetryConfig, StaticCredentialProvider};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use strait_store::{Error, ErrorKind, Result, Scheme, fail};
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// After this time, no failed request is retried. The last attempt may take another 15 s, so a request to an
/// endpoint that hangs fails within 35 s.
const RETRY_FOR: Duration = Duration::from_secs(15);
/// Longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// Attempts after the first one, for an endpoint that restarts or is busy for a moment.
const RETRIES: usize = 5;
/// The default region, as in the AWS tools.
const DEFAULT_REGION: &str = "us-east-1";

/// Applies the given variables with this prefix to a builder that has read the environment.
macro_rules! configured {
    ($builder:ident, $options:expr, $prefix:literal) => {
        for (name, value) in $options.variables.iter().filter(|(name, _)| name.starts_with($prefix)) {
            if let Ok(key) = name.to_ascii_lowercase().parse() {
                $builder = $builder.with_config(key, value);
            }
        }
    };
}

/// All operations of an object store that this crate needs.
pub trait Bucket: ObjectStore + PaginatedListStore {
    /// Whether the request that completes an upload of parts may have a condition.
    fn takes_conditional_uploads(&self) -> bool {
        true
    }
}

impl Bucket for AmazonS3 {}
impl Bucket for MicrosoftAzure {}

impl Bucket for GoogleCloudStorage {
    /// Google rejects each request of a multipart upload that has a condition, with 400 `NotImplemented`
    /// (<https://cloud.google.com/storage/docs/request-preconditions>).
    fn takes_conditional_uploads(&self) -> bool {
        false
    }
}

/// Creates a client of this bucket or container. Sends no request yet. The first answer sets `server`.
pub fn bucket(
    scheme: Scheme,
    name: &str,
    options: &Options,
    server: &Arc<OnceLock<String>>,
) -> Result<Arc<dyn Bucket>> {
    let ca = options.ca.clone().or_else(|| options.variable("AWS_CA_BUNDLE").map(PathBuf::from));
    let connector = Connector { roots: ca.map(roots).transpose()?, server: server.clone(), key: None };
    let made: object_store::Result<Arc<dyn Bucket>> = match scheme {
        Scheme::S3 => s3(name, options, connector)?.map(|store| Arc::new(store) as _),
        Scheme::Gs => gs(name, options, connector).map(|store| Arc::new(store) as _),
        Scheme::Az => az(name, options, connector).map(|store| Arc::new(store) as _),
        _ => return fail(ErrorKind::InvalidArgument, format!("{scheme}: isn't an object store")),
    };
    made.map_err(|error| {
        let message = typed(error, Sent::Repeatable).message().to_owned();
        Error::new(ErrorKind::InvalidArgument, format!("the settings of {scheme}: are incomplete: {message}"))
    })
}

/// The host and port of the endpoint that serves this bucket, as the settings say.
pub fn endpoint(scheme: Scheme, name: &str, options: &Options) -> Option<(String, u16)> {
    let profile = Profile::read(options).unwrap_or_default();
    let variable = |names: &[&str]| names.iter().find_map(|name| options.variable(name));
    let url = match scheme {
        Scheme::S3 => {
            options.endpoint.clone().or_else(|| variable(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]))
        }
        Scheme::Gs => variable(&["STORAGE_EMULATOR_HOST"]),
        _ => variable(&["AZURE_STORAGE_ENDPOINT", "AZURITE_BLOB_STORAGE_URL"]),
    };
    let url = url.or(profile.endpoint.filter(|_| scheme == Scheme::S3)).unwrap_or_else(|| {
        let region = options.region.clone().or_else(|| variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]));
        let region = region.or(profile.region).unwrap_or_else(|| DEFAULT_REGION.to_owned());
        let account = variable(&["AZURE_STORAGE_ACCOUNT_NAME"]).unwrap_or_else(|| name.to_owned());
        match scheme {
            Scheme::S3 => format!("https://s3.{region}.amazonaws.com"),
            Scheme::Gs => "https://storage.googleapis.com".to_owned(),
            _ => format!("https://{account}.blob.core.windows.net"),
        }
    });
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", &url));
    let uri: hyper::Uri = format!("{scheme}://{rest}").parse().ok()?;
    let default = if scheme == "https" { 443 } else { 80 };
    Some((uri.host()?.trim_matches(['[', ']']).to_owned(), uri.port_u16().unwrap_or(default)))
}

fn retry() -> RetryConfig {
    let backoff = BackoffConfig { max_backoff: LONGEST_PAUSE, ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: RETRIES, retry_timeout: RETRY_FOR }
}

fn s3(name: &str, options: &Options, connector: Connector) -> Result<object_store::Result<AmazonS3>> {
    let mut builder = AmazonS3Builder::from_env()
        .with_bucket_name(name)
        .with_retry(retry())
        // A copy to a free name is a multipart upload, whose completion has the header If-None-Match.
        .with_copy_if_not_exists(S3CopyIfNotExists::Multipart)
        .with_http_connector(connector);
    configured!(builder, options, "AWS_");
    let profile = Profile::read(options)?;
    let in_environment = options.variable("AWS_ACCESS_KEY_ID").is_some() && options.profile.is_none();
    if let Some(way) = profile.other_way.filter(|_| !in_environment && !options.unsigned) {
        let message = format!(
            "the profile gets its keys by {way}, which isn't supported; omit the profile, and \
             set its keys in the environment by `aws configure export-credentials --format env`"
        );
        return fail(ErrorKind::Unsupported, message);
    }
    match profile.credentials.filter(|_| !in_environment) {
        Some(own) => {
            // All three, so that no session token of the environment goes with these keys.
            let own = AwsCredential { key_id: own.key, secret_key: own.secret, token: own.token };
            builder = builder.with_credentials(Arc::new(StaticCredentialProvider::new(own)));
        }
        None if options.profile.is_some() && !options.unsigned => {
            let message = "the profile has no keys; for those of the environment or the instance's role, omit \
                           --profile, and give --region and --endpoint-url";
            return fail(ErrorKind::Unauthenticated, message);
        }
        None => {}
    }
    let variable = |names: &[&str]| names.iter().find_map(|name| options.variable(name));
    let region = options.region.clone().or_else(|| variable(&["AWS_REGION", "AWS_DEFAULT_REGION"]));
    builder = builder.with_region(region.or(profile.region).unwrap_or_else(|| DEFAULT_REGION.to_owned()));
    let endpoint =
        options.endpoint.clone().or_else(|| variable(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]));
    if let Some(endpoint) = endpoint.or(profile.endpoint) {
        builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
    }
    if options.unsigned {
        builder = builder.with_skip_signature(true);
    }
    Ok(builder.build())
}

fn gs(name: &str, options: &Options, connector: Connector) -> object_store::Result<GoogleCloudStorage> {
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_bucket_name(name)
        .with_retry(retry())
        .with_http_connector(connector);
    configured!(builder, options, "GOOGLE_");
    // The variable by which Google's own tools name an emulator. An emulator needs no credentials.
    let emulator = options.variable("STORAGE_EMULATOR_HOST");
    if let Some(host) = &emulator {
        let url = if host.contains("://") { host.clone() } else { format!("http://{host}") };
        builder = builder.with_base_url(url.trim_end_matches('/'));
    }
    match emulator {
        // The emulator accepts any token, and object_store demands one for changes.
        Some(_) => builder.with_bearer_token("emulator").build(),
        None => builder.with_skip_signature(options.unsigned).build(),
    }
}

fn az(name: &str, options: &Options, mut connector: Connector) -> object_store::Result<MicrosoftAzure> {
    let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(name).with_retry(retry());
    configured!(builder, options, "AZURE_");
    let key = builder.get_config_value(&AzureConfigKey::AccessKey);
    connector.key = key.and_then(|key| SharedKey::parse(&key)).map(Arc::new);
    builder = builder.with_http_connector(connector);
    if options.unsigned {
        builder = builder.with_skip_signature(true);
    }
    builder.build()
}

fn roots(file: PathBuf) -> Result<RootCertStore> {
    let wrong = |why: String| {
        let message = format!("the certificate authorities in {}: {why}", file.display());
        Error::new(ErrorKind::InvalidArgument, message)
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(&file).map_err(|error| wrong(error.to_string()))? {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("the file has no certificate".to_owned()));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_show_no_key() {
        let variables = vec![("AWS_SECRET_ACCESS_KEY".to_owned(), "confidential".to_owned())];
        let shown = format!("{:?}", Options { variables, ..Options::default() });
        assert!(shown.contains("AWS_SECRET_ACCESS_KEY") && !shown.contains("confidential"), "{shown}");
    }
}
