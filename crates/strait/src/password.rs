//! Where passwords come from; never from the command line, which all users of
//! a host can see.

use std::io::IsTerminal;
use std::path::Path;
use strait_store::{Error, ErrorKind, Result};
use strait_wire::Secret;

/// Longest line read, in bytes: a gateway takes no longer password.
const MAX_LINE_BYTES: usize = 1_024;

/// The password of `whose`: from STRAIT_PASSWORD, else from `file`, else from
/// the terminal.
pub fn find(file: Option<&Path>, whose: &str) -> Result<Secret> {
    if let Ok(password) = std::env::var("STRAIT_PASSWORD") {
        return Ok(Secret(password));
    }
    if let Some(file) = file {
        let text = std::fs::read(file).map_err(|error| Error::from(error).at("read", shown(file)))?;
        return first_line(&text);
    }
    if !std::io::stdin().is_terminal() {
        let message = format!("no password for {whose}: set STRAIT_PASSWORD, or give --password-file");
        return Err(Error::new(ErrorKind::Unauthenticated, message));
    }
    ask(&format!("Password of {whose}: "))
}

/// A new password: asked for twice, or the first line of standard input where
/// that isn't a terminal.
pub fn new_one(user: &str) -> Result<Secret> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        let mut line = Vec::new();
        let read = std::io::Read::read_to_end(
            &mut std::io::Read::take(stdin.lock(), MAX_LINE_BYTES as u64 + 2),
            &mut line,
        );
        read.map_err(|error| Error::from(error).at("read", "standard input"))?;
        return first_line(&line);
    }
    let first = ask(&format!("New password of {user}: "))?;
    if ask("Once more: ")? != first {
        return Err(Error::new(ErrorKind::InvalidArgument, "the two differ; nothing was changed"));
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
