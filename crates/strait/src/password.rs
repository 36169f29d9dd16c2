//! Sources of passwords; never the command line, which all users of a host can see.

use crate::messages::Messages;
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use strait_store::{Error, ErrorKind, Result};
use strait_wire::Secret;

/// The permission bits of a file's group and of others.
const OTHERS_BITS: u32 = 0o077;
/// Longest line read, in bytes: a gateway accepts no longer password.
const MAX_LINE_BYTES: usize = 1_024;

/// The variable that may hold a password.
const VARIABLE: &str = "STRAIT_PASSWORD";

/// A file with a password, and the source of its name.
#[derive(Debug, Clone)]
pub struct PasswordSource {
    /// The file.
    pub file: PathBuf,
    /// The command line named it, not the environment. Then it takes precedence over STRAIT_PASSWORD.
    pub is_explicit: bool,
    messages: Messages,
    /// A warning about the file was printed. Reading the file again doesn't repeat it.
    has_warned: Arc<AtomicBool>,
}

impl PasswordSource {
    /// A source with this file; `messages` prints the warning about its mode.
    pub fn new(file: PathBuf, is_explicit: bool, messages: Messages) -> Self {
        Self { file, is_explicit, messages, has_warned: Arc::default() }
    }
}

/// Whether a password is available without asking a person.
pub fn is_given(file: Option<&PasswordSource>) -> bool {
    file.is_some() || of_environment().is_some()
}

/// The variable's password; an empty variable counts as unset.
fn of_environment() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|password| !password.is_empty())
}

/// The password of `whose`, from the first of these: a file that the command line names,
/// STRAIT_PASSWORD, a file that the environment names, the terminal.
pub fn find(file: Option<&PasswordSource>, whose: &str) -> Result<Secret> {
    if let Some(source) = file.filter(|source| source.is_explicit) {
        return read(source);
    }
    if let Some(password) = of_environment() {
        return Ok(Secret(password));
    }
    if let Some(source) = file {
        return read(source);
    }
    if !std::io::stdin().is_terminal() {
        let message = format!("no password for {whose}: set STRAIT_PASSWORD, or give --password-file");
        return Err(Error::new(ErrorKind::Unauthenticated, message));
    }
    ask(&format!("Password of {whose}: "))
}

/// The first line of a file, with a warning if other users may read the file.
fn read(source: &PasswordSource) -> Result<Secret> {
    let path = source.file.as_path();
    let failed = |error: std::io::Error| Error::from(error).at("read", shown(path));
    let mut file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    // A pipe such as `<(command)` has a mode, too, but other users can't open it.
    let is_open = metadata.is_file() && metadata.mode() & OTHERS_BITS != 0;
    if is_open && !source.has_warned.swap(true, Ordering::Relaxed) {
        let shown = shown(path);
        source
            .messages
            .warn(&format!("password file {shown}: others can read or change it; run `chmod 600 {shown}`"));
    }
    let mut text = Vec::new();
    file.by_ref().take(MAX_LINE_BYTES as u64 + 2).read_to_end(&mut text).map_err(failed)?;
    first_line(&text)
}

/// A new password: typed twice, or the first line of standard input if that isn't a terminal.
pub fn new_one(user: &str) -> Result<Secret> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        let mut line = Vec::new();
        let read = std::io::Read::read_to_end(
            &mut std::io::Read::take(stdin.lock(), MAX_LINE_BYTES as u64 + 2),
            &mut line,
        );
        read.map_err(|error| Error::from(error).at("read", "standard input"))?;
        return match first_line(&line) {
            Err(error) if line.is_empty() => {
                let why = "standard input is empty; give the new password as its first line, or run this on \
                           a terminal";
                Err(Error::new(error.kind(), why))
            }
            password => password,
        };
    }
    let first = ask(&format!("New password of {user}: "))?;
    if ask("Repeat the password: ")? != first {
        return Err(Error::new(ErrorKind::InvalidArgument, "the two passwords differ; nothing was changed"));
    }
    Ok(first)
}

fn ask(prompt: &str) -> Result<Secret> {
    let asked = rpassword::prompt_password(prompt);
    asked.map(Secret).map_err(|error| Error::from(error).at("ask for", "the password"))
}

fn first_line(bytes: &[u8]) -> Result<Secret> {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let refuse = |why| Err(Error::new(ErrorKind::InvalidArgument, why));
    match std::str::from_utf8(line) {
        Ok("") => refuse("the password is empty"),
        Ok(text) if text.len() > MAX_LINE_BYTES => refuse("a password has at most 1,024 bytes"),
        Ok(text) => Ok(Secret(text.to_owned())),
        Err(_) => refuse("the password isn't UTF-8"),
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line() {
        assert_eq!(first_line(b"top secret\r\nmore\n").unwrap().0, "top secret");
        assert_eq!(first_line(b"x").unwrap().0, "x");
        for bad in [&b""[..], b"\nx", b"\xff", &[b'x'; 1_025]] {
            assert!(first_line(bad).is_err());
        }
    }
}
