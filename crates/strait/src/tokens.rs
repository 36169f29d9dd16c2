//! Tokens of earlier logins, kept in files so that later commands needn't log in again.

use crate::failure::Failure;
use crate::messages::Messages;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use strait_client::Token;
use strait_store::clock::now_ms;
use strait_wire::Secret;

/// A token that expires sooner than this isn't used. Must be less than the shortest `--token-lifetime` of a
/// gateway.
const MIN_LIFE_MS: i64 = 10_000;
/// Prefix of the names of all token files.
const PREFIX: &str = "token_";
/// Longest file read; tokens are some hundred bytes.
const MAX_FILE_BYTES: u64 = 4_096;

/// Cache file of one user's token at one gateway (and store there).
#[derive(Debug, Clone)]
pub struct CachedToken {
    file: PathBuf,
}

impl CachedToken {
    /// `None` if there is no directory for the file: neither XDG_CACHE_HOME nor HOME is set.
    pub fn new(address: &str, user: &str, store: Option<&str>) -> Option<Self> {
        Some(Self { file: directory()?.join(file_name(address, user, store)) })
    }

    /// Whether a token is stored, even an expired one.
    pub fn exists(&self) -> bool {
        self.file.exists()
    }

    /// The stored token. `None` if there is none, it expires within [`MIN_LIFE_MS`], or another user could
    /// have read or written the file.
    pub fn load(&self, messages: Messages) -> Option<Secret> {
        let file = std::fs::File::open(&self.file).ok()?;
        let metadata = file.metadata().ok()?;
        if metadata.mode() & 0o077 != 0 || metadata.uid() != nix::unistd::geteuid().as_raw() {
            let shown = self.file.display();
            messages.warn(&format!(
                "ignored the kept login in {shown}: other users can read or change it; run `rm {shown}`"
            ));
            return None;
        }
        let mut text = String::new();
        file.take(MAX_FILE_BYTES).read_to_string(&mut text).ok()?;
        let (expires_ms, token) = text.split_once('\n')?;
        let token = token.strip_suffix('\n')?;
        (expires_ms.parse::<i64>().ok()? > now_ms() + MIN_LIFE_MS).then(|| Secret(token.to_owned()))
    }

    /// Stores a token. If that fails, the next command logs in again.
    pub fn keep(&self, token: &Token) {
        if let Err(error) = self.write(token) {
            tracing::debug!(file = %self.file.display(), %error, "can't store the token");
        }
    }

    fn write(&self, token: &Token) -> io::Result<()> {
        let directory = self.file.parent().unwrap_or(Path::new("."));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        // In a temporary file with a unique name, so that concurrent logins don't mix their tokens.
        let mut file = tempfile::Builder::new().prefix(".").suffix(".new").tempfile_in(directory)?;
        write!(file, "{}\n{}\n", token.expires_ms, token.token.0)?;
        file.persist(&self.file).map(drop).map_err(|error| error.error)
    }
}

/// Removes the tokens of this gateway, user and store; None means any. Returns their number.
pub fn forget(address: Option<&str>, user: Option<&str>, store: Option<&str>) -> Result<usize, Failure> {
    directory().map_or(Ok(0), |directory| forget_in(&directory, [address, user, store]))
}

fn forget_in(directory: &Path, wanted: [Option<&str>; 3]) -> Result<usize, Failure> {
    let failed = |error, path: &Path| Failure::local(error, "forget", path);
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(failed(error, directory)),
    };
    let mut forgotten = 0;
    for entry in entries {
        let path = entry.map_err(|error| failed(error, directory))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(parts) = name.strip_prefix(PREFIX) else { continue };
        let mut pairs = parts.split('_').zip(wanted);
        if pairs.all(|(part, wanted)| wanted.is_none_or(|wanted| plain(wanted) == part)) {
            std::fs::remove_file(&path).map_err(|error| failed(error, &path))?;
            forgotten += 1;
        }
    }
    Ok(forgotten)
}

/// This user's cache directory of `strait`; `None` if neither XDG_CACHE_HOME nor HOME is an absolute path.
pub fn directory() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("strait"))
}

/// A file name for the three values. Different values give different names.
fn file_name(address: &str, user: &str, store: Option<&str>) -> String {
    format!("{PREFIX}{}_{}_{}", plain(address), plain(user), plain(store.unwrap_or_default()))
}

/// `text` with only characters that a name can have, and without `_`.
fn plain(text: &str) -> String {
    let bytes = text.bytes();
    bytes
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b':' => char::from(byte).to_string(),
            other => format!("%{other:02x}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const MESSAGES: Messages = Messages { json: true };

    fn cached(dir: &Path) -> CachedToken {
        CachedToken { file: dir.join("strait").join(file_name("gw:9090", "alice", None)) }
    }

    fn token(expires_ms: i64) -> Token {
        Token { token: Secret("s1.00".to_owned()), expires_ms, user: None }
    }

    #[test]
    fn a_token_is_found_again_until_it_expires() {
        let dir = tempfile::tempdir().unwrap();
        let cached = cached(dir.path());
        assert!(cached.load(MESSAGES).is_none());
        cached.keep(&token(now_ms() + 10 * MIN_LIFE_MS));
        assert_eq!(cached.load(MESSAGES).map(|token| token.0).as_deref(), Some("s1.00"));
        assert_eq!(std::fs::metadata(&cached.file).unwrap().mode() & 0o777, 0o600);
        cached.keep(&token(now_ms()));
        assert!(cached.load(MESSAGES).is_none());
    }

    #[test]
    fn logins_kept_at_the_same_time_are_not_mixed_up() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|threads| {
            for gateway in 0..4 {
                let file = dir.path().join(file_name(&format!("gw-{gateway}:9090"), "alice", None));
                threads.spawn(move || {
                    let (cached, own) = (CachedToken { file }, format!("s2.{gateway}"));
                    for _ in 0..500 {
                        cached.keep(&Token { token: Secret(own.clone()), expires_ms: i64::MAX, user: None });
                        assert_eq!(cached.load(MESSAGES).map(|token| token.0).as_ref(), Some(&own));
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4, "and no other file is left");
    }

    #[test]
    fn a_token_that_others_could_read_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let cached = cached(dir.path());
        cached.keep(&token(i64::MAX));
        std::fs::set_permissions(&cached.file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(cached.load(MESSAGES).is_none());
    }

    #[test]
    fn a_logout_forgets_what_it_names_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            file_name("gw:1", "alice", None),
            file_name("gw:1", "bob", None),
            file_name("gw:1", "bob", Some("lab_1")),
            file_name("gw:11", "bob", None),
            "notes".to_owned(),
        ] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let forget = |address, user, store| forget_in(dir.path(), [address, user, store]).unwrap();
        assert_eq!(forget(Some("gw:2"), None, None), 0);
        assert_eq!(forget(Some("gw:1"), Some("bob"), Some("lab_1")), 1);
        assert_eq!(forget(Some("gw:1"), None, None), 2);
        assert_eq!(forget(None, None, None), 1);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "the notes");
    }

    #[test]
    fn no_two_logins_share_a_file_and_none_leaves_the_directory() {
        assert_ne!(file_name("a", "b_c", None), file_name("a_b", "c", None));
        assert!(!file_name("../x", "/y", Some("hdfs://nn/")).contains('/'));
    }
}
