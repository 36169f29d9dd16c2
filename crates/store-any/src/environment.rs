//! Credentials from the environment, for libraries: the command's variables, without its flags.

use crate::foreign::LIBRARIES;
use crate::{ByUri, OpenOptions};
use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use strait_client::{PasswordSource, Secret, TlsOptions};
use strait_store::{Error, ErrorKind, Result, fail};
use strait_store_kadoop::Login;

/// Longest line that is read, in bytes. A gateway accepts no longer password.
const MAX_LINE_BYTES: u64 = 1_024;
/// Values of a switch that mean no.
const OFF: [&str; 4] = ["0", "false", "no", "off"];
/// Values of a switch that mean yes.
const ON: [&str; 4] = ["1", "true", "yes", "on"];
/// Longest time limit accepted: a day, which is longer than any program waits for a store.
const MAX_TIMEOUT_SECONDS: u64 = 86_400;

impl OpenOptions {
    /// Reads `STRAIT_PASSWORD`, `STRAIT_PASSWORD_FILE`, `STRAIT_GATEWAY_STORE`, `STRAIT_TIMEOUT`,
    /// `STRAIT_OPERATION_TIMEOUT`, `STRAIT_TLS`, `STRAIT_TLS_CA`, `STRAIT_CLIENT_CERT`, `STRAIT_CLIENT_KEY`,
    /// `STRAIT_KADOOP_KEY` and, if `user` is None, `STRAIT_USER`. They mean the same as for the command. Also
    /// reads `STRAIT_LIBRARIES`: `libhdfs:` URIs load only the libraries that it lists. An empty variable
    /// counts as unset.
    ///
    /// # Errors
    /// `InvalidArgument`, naming the variable with a wrong value.
    pub fn from_environment(user: Option<&str>) -> Result<Self> {
        let user = user.map(str::to_owned).or_else(|| text("STRAIT_USER"));
        let ca = path("STRAIT_TLS_CA");
        let identity = identity(path("STRAIT_CLIENT_CERT"), path("STRAIT_CLIENT_KEY"))?;
        let switch = text("STRAIT_TLS").map(|on| switch("STRAIT_TLS", &on)).transpose()?.unwrap_or(false);
        let mut options = Self::default();
        options.foreign.by_uri = ByUri::Listed(libraries()?);
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
        let limit = |name| text(name).map(|seconds| timeout(name, &seconds)).transpose();
        options.strait.timeout = limit("STRAIT_TIMEOUT")?;
        options.strait.operation_timeout = limit("STRAIT_OPERATION_TIMEOUT")?;
        options.strait.tls =
            (switch || ca.is_some() || identity.is_some()).then_some(TlsOptions { ca, identity });
        Ok(options)
    }
}

fn text(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn path(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn libraries() -> Result<Vec<PathBuf>> {
    let Some(value) = path(LIBRARIES) else { return Ok(Vec::new()) };
    let listed: Vec<PathBuf> =
        env::split_paths(&value).filter(|library| !library.as_os_str().is_empty()).collect();
    match listed.iter().find(|library| !library.is_absolute()) {
        // The loader would search its own directories for a bare name.
        Some(library) => wrong(LIBRARIES, &library.display().to_string(), "give absolute paths"),
        None => Ok(listed),
    }
}

/// A certificate and its key: both or none.
fn identity(certificate: Option<PathBuf>, key: Option<PathBuf>) -> Result<Option<(PathBuf, PathBuf)>> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        (certificate, _) => {
            let (set, missing) = match certificate {
                Some(_) => ("STRAIT_CLIENT_CERT", "STRAIT_CLIENT_KEY"),
                None => ("STRAIT_CLIENT_KEY", "STRAIT_CLIENT_CERT"),
            };
            fail(ErrorKind::InvalidArgument, format!("{set} is set, and {missing} isn't: set both, or none"))
        }
    }
}

fn switch(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        word if ON.contains(&word) => Ok(true),
        word if OFF.contains(&word) => Ok(false),
        _ => wrong(name, value, "it takes 1, true, yes or on; or 0, false, no or off"),
    }
}

fn timeout(name: &str, value: &str) -> Result<Duration> {
    time_limit(value).or_else(|why| wrong(name, value, &why))
}

/// Parses a time limit: a number of seconds, or a time with a unit, from a second to a day.
///
/// # Errors
/// A text that says what to give.
pub fn time_limit(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text.parse().ok().or_else(|| with_unit(text));
    let seconds =
        seconds.ok_or_else(|| "give a number of seconds, or a unit (s, m, h), as in 5m".to_owned())?;
    match seconds {
        1..=MAX_TIMEOUT_SECONDS => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("the time must be from 1 to {MAX_TIMEOUT_SECONDS} s")),
    }
}

/// Parses a number and `s`, `m`, `h` or `d`, as seconds. A time that is too long becomes the longest.
pub fn with_unit(text: &str) -> Option<u64> {
    let split = text.char_indices().next_back().map_or(0, |(at, _)| at);
    let seconds = match &text[split..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    Some(text[..split].parse::<u64>().ok()?.saturating_mul(seconds))
}

fn wrong<T>(name: &str, value: &str, why: &str) -> Result<T> {
    fail(ErrorKind::InvalidArgument, format!("the variable {name} has the invalid value '{value}': {why}"))
}

/// STRAIT_PASSWORD, or the first line of the file that STRAIT_PASSWORD_FILE names.
fn password() -> Result<String> {
    if let Some(password) = text("STRAIT_PASSWORD") {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_in_seconds_or_has_a_unit() {
        for (text, seconds) in [("90", 90), ("5s", 5), ("2m", 120), ("24h", 86_400), ("1d", 86_400)] {
            assert_eq!(time_limit(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "0", "0s", "s", "86401", "25h", "2w", "-1", "1.5", "5 s"] {
            assert!(time_limit(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_wrong_value_is_reported_by_its_variables_name() {
        assert_eq!(timeout("STRAIT_TIMEOUT", "5m").unwrap(), Duration::from_secs(300));
        assert!(switch("STRAIT_TLS", "YES").unwrap() && !switch("STRAIT_TLS", "off").unwrap());
        let wrong = ["soon", "0", "-1", "86401"].map(|value| timeout("STRAIT_TIMEOUT", value).unwrap_err());
        for error in wrong {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains("the variable STRAIT_TIMEOUT"), "{error}");
        }
        let alone = identity(Some("cert.pem".into()), None).unwrap_err();
        assert!(alone.to_string().contains("STRAIT_CLIENT_KEY isn't"), "{alone}");
        assert!(switch("STRAIT_TLS", "maybe").unwrap_err().to_string().contains("the variable STRAIT_TLS"));
    }
}
