//! Credentials from the environment, for libraries: the command's variables, without its flags.

use crate::OpenOptions;
use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use strait_client::{PasswordSource, Secret, TlsOptions};
use strait_store::{Error, ErrorKind, Result, fail};
use strait_store_kadoop::Login;

/// Longest line read, in bytes: a gateway accepts no longer password.
const MAX_LINE_BYTES: u64 = 1_024;
/// Values of a switch that mean no.
const OFF: [&str; 5] = ["", "0", "false", "no", "off"];

impl OpenOptions {
    /// By `STRAIT_USER` (or `user`, if there is one), `STRAIT_PASSWORD`, `STRAIT_PASSWORD_FILE`,
    /// `STRAIT_GATEWAY_STORE`, `STRAIT_TIMEOUT`, `STRAIT_TLS`, `STRAIT_TLS_CA`,
    /// `STRAIT_CLIENT_CERT`, `STRAIT_CLIENT_KEY` and `STRAIT_KADOOP_KEY`, which mean the same as
    /// for the command.
    #[must_use]
    pub fn from_environment(user: Option<&str>) -> Self {
        let user = user.map(str::to_owned).or_else(|| text("STRAIT_USER"));
        let (ca, identity) =
            (path("STRAIT_TLS_CA"), path("STRAIT_CLIENT_CERT").zip(path("STRAIT_CLIENT_KEY")));
        let switch = text("STRAIT_TLS").is_some_and(|on| !OFF.contains(&on.to_ascii_lowercase().as_str()));
        let mut options = Self::default();
        options.kadoop.key_file = path("STRAIT_KADOOP_KEY");
        options.kadoop.login = user.clone().map(|user| Login {
            user,
            password: Arc::new(password),
            ca: ca.clone(),
            identity: identity.clone(),
        });
        options.strait.password =
            user.is_some().then(|| -> PasswordSource { Arc::new(|| password().map(Secret)) });
        options.strait.user = user;
        options.strait.store = text("STRAIT_GATEWAY_STORE");
        options.strait.timeout = text("STRAIT_TIMEOUT").and_then(|s| s.parse().ok()).map(Duration::from_secs);
        options.strait.tls =
            (switch || ca.is_some() || identity.is_some()).then_some(TlsOptions { ca, identity });
        options
    }
}

fn text(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn path(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// STRAIT_PASSWORD, or the first line of the file that STRAIT_PASSWORD_FILE names.
fn password() -> Result<String> {
    if let Ok(password) = env::var("STRAIT_PASSWORD") {
        return Ok(password);
    }
    let Some(file) = path("STRAIT_PASSWORD_FILE") else {
        return fail(ErrorKind::Unauthenticated, "no password: set STRAIT_PASSWORD or STRAIT_PASSWORD_FILE");
    };
    let failed = |error: std::io::Error| Error::from(error).at("read", file.display().to_string());
    let mut line = String::new();
    let mut start = BufReader::new(File::open(&file).map_err(failed)?.take(MAX_LINE_BYTES));
    start.read_line(&mut line).map_err(failed)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}
