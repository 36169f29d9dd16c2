//! The password file: one line a user, `user:hash`, the hash an argon2id PHC
//! string.

use crate::random::random;
use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString, rand_core::OsRng};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Longest user name, in bytes.
const MAX_USER_BYTES: usize = 64;
/// Longest password, in bytes: more is no safer, and costs time to hash.
const MAX_PASSWORD_BYTES: usize = 1_024;

/// Users and the hashes of their passwords.
pub struct PasswordFile {
    hashes: BTreeMap<String, String>,
    /// Checked in place of an unknown user's, so that time tells nothing.
    decoy: String,
}

/// Why a password file can't be used, for people.
pub type Problem = String;

impl PasswordFile {
    /// Reads the file.
    ///
    /// # Errors
    /// A line for people: the file is missing, others may read or write it, or
    /// a line in it isn't `user:hash`.
    pub fn load(path: &Path) -> Result<Self, Problem> {
        let shown = path.display();
        let metadata = std::fs::metadata(path).map_err(|e| {
            format!("password file {shown}: {e}; make it with `strait passwd --file {shown} USER`")
        })?;
        if metadata.mode() & 0o077 != 0 {
            return Err(format!("password file {shown}: others may read it; run `chmod 600 {shown}`"));
        }
        let text = std::fs::read_to_string(path).map_err(|e| format!("password file {shown}: {e}"))?;
        let mut hashes = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = line.split_once(':').filter(|(_, hash)| PasswordHash::new(hash).is_ok());
            let Some((user, hash)) = entry else {
                return Err(format!("password file {shown}, line {number}: not user:hash"));
            };
            hashes.insert(user.to_owned(), hash.to_owned());
        }
        Ok(Self { hashes, decoy: hash("decoy")? })
    }

    /// Sets a user's password in the file, which is made if it is missing, in
    /// one step (a temporary file renamed).
    ///
    /// # Errors
    /// A line for people.
    pub fn set(path: &Path, user: &str, password: &str) -> Result<(), Problem> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        if user.is_empty() || user.len() > MAX_USER_BYTES || !user.chars().all(plain) {
            return Err("a user name has letters, digits and . _ - @ only, 64 at most".to_owned());
        }
        if password.is_empty() || password.len() > MAX_PASSWORD_BYTES {
            return Err("a password has 1 to 1,024 bytes".to_owned());
        }
        let mut hashes = if path.exists() { Self::load(path)?.hashes } else { BTreeMap::new() };
        hashes.insert(user.to_owned(), hash(password)?);
        let write = || -> io::Result<()> {
            // A name that nothing else has: a file that is there already may
            // be somebody's, or be readable by others.
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{:016x}", u64::from_be_bytes(random())));
            let temporary = Path::new(&name);
            let mut file =
                std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)?;
            for (user, hash) in &hashes {
                writeln!(file, "{user}:{hash}")?;
            }
            file.sync_all()?;
            std::fs::rename(temporary, path)
        };
        write().map_err(|e| format!("password file {}: {e}", path.display()))
    }

    /// Whether the password is the user's. Takes some 20 ms of a core: call
    /// it on the blocking pool, few at a time.
    pub fn verify(&self, user: &str, password: &str) -> bool {
        let known = self.hashes.get(user);
        let Ok(hash) = PasswordHash::new(known.unwrap_or(&self.decoy)) else { return false };
        let right = password.len() <= MAX_PASSWORD_BYTES
            && Argon2::default().verify_password(password.as_bytes(), &hash).is_ok();
        right && known.is_some()
    }
}

fn hash(password: &str) -> Result<String, Problem> {
    let salt = SaltString::generate(&mut OsRng);
    Argon2::default()
        .hash_password(password.as_bytes(), &salt)
        .map(|hash| hash.to_string())
        .map_err(|e| format!("hashing a password: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_the_right_password_of_a_known_user_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passwd");
        PasswordFile::set(&path, "alice", "first").unwrap();
        PasswordFile::set(&path, "bob", "other").unwrap();
        PasswordFile::set(&path, "alice", "second").unwrap();
        let file = PasswordFile::load(&path).unwrap();
        assert!(file.verify("alice", "second"));
        assert!(file.verify("bob", "other"));
        assert!(!file.verify("alice", "first"));
        assert!(!file.verify("carol", "decoy"), "an unknown user has no password");
        assert!(!std::fs::read_to_string(&path).unwrap().contains("second"));
    }

    #[test]
    fn setting_a_password_touches_no_other_file() {
        let dir = tempfile::tempdir().unwrap();
        let neighbour = dir.path().join("strait.new");
        std::fs::write(&neighbour, "mine").unwrap();
        PasswordFile::set(&dir.path().join("strait.passwords"), "alice", "x").unwrap();
        assert_eq!(std::fs::read_to_string(&neighbour).unwrap(), "mine");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "and leaves none");
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passwd");
        PasswordFile::set(&path, "alice", "x").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let problem = PasswordFile::load(&path).err().unwrap();
        assert!(problem.contains("chmod 600"), "{problem}");
    }

    #[test]
    fn names_that_would_break_the_file_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passwd");
        for user in ["", "a:b", "a\nb", "a b"] {
            assert!(PasswordFile::set(&path, user, "x").is_err(), "{user:?}");
        }
    }
}
