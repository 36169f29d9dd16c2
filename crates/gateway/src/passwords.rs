//! The password file: one line a user, `user:hash`, the hash an argon2id PHC
//! string. Read anew when it changes.

use crate::random::random;
use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString, rand_core::OsRng};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longest user name, in bytes.
const MAX_USER_BYTES: usize = 64;
/// Longest password, in bytes: more is no safer, and costs time to hash.
const MAX_PASSWORD_BYTES: usize = 1_024;

/// A file that changed less than so long ago isn't taken up yet: an editor may be
/// in the middle of writing it, and users that it hasn't written would be out.
const SETTLE: Duration = Duration::from_millis(200);

/// Users and the hashes of their passwords, as the file has them now.
pub struct PasswordFile {
    path: PathBuf,
    current: Mutex<Current>,
    /// Checked in place of an unknown user's, so that time tells nothing.
    decoy: String,
}

struct Current {
    hashes: Arc<Hashes>,
    /// The file that was last looked at; none: there was none.
    version: Option<Version>,
}

/// By user.
type Hashes = BTreeMap<String, String>;

/// Tells one state of a file from another. The time of change stands for mode
/// and owner, which leave the time of modification as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version {
    device: u64,
    inode: u64,
    size_bytes: u64,
    /// Seconds and nanoseconds since 1970.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Version {
    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            size_bytes: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }

    fn at(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().as_ref().map(Self::of)
    }

    /// Whether it changed just now, as far as the clock can be trusted.
    fn is_fresh(&self) -> bool {
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(self.changed.0), u32::try_from(self.changed.1))
        else {
            return false;
        };
        let changed = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        SystemTime::now().duration_since(changed).is_ok_and(|age| age < SETTLE)
    }
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
        let current = Mutex::new(read(path)?);
        Ok(Self { path: path.to_owned(), current, decoy: hash("decoy")? })
    }

    /// Reads the file anew if it has changed. Where it is no good, what was
    /// read before stays in force. Blocks for a small local file.
    ///
    /// # Errors
    /// As [`PasswordFile::load`], once for a change.
    pub fn reload_if_changed(&self) -> Result<bool, Problem> {
        let version = Version::at(&self.path);
        if self.lock().version == version || version.is_some_and(|version| version.is_fresh()) {
            return Ok(false);
        }
        match read(&self.path) {
            Ok(fresh) => {
                *self.lock() = fresh;
                Ok(true)
            }
            Err(problem) => {
                self.lock().version = version;
                Err(problem)
            }
        }
    }

    /// Whether the file names this user.
    pub fn contains(&self, user: &str) -> bool {
        self.lock().hashes.contains_key(user)
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
        let hash = hash(password)?;
        let _turn = turn(path, true)?;
        let mut hashes = (*read(path)?.hashes).clone();
        hashes.insert(user.to_owned(), hash);
        write(path, &hashes)
    }

    /// Whom the file names, in no order.
    ///
    /// # Errors
    /// A line for people.
    pub fn users(path: &Path) -> Result<Vec<String>, Problem> {
        Ok(read(path)?.hashes.keys().cloned().collect())
    }

    /// Takes a user out of the file, in one step.
    ///
    /// # Errors
    /// A line for people, also where the file doesn't name the user.
    pub fn remove(path: &Path, user: &str) -> Result<(), Problem> {
        let _turn = turn(path, false)?;
        let mut hashes = (*read(path)?.hashes).clone();
        match hashes.remove(user) {
            Some(_) => write(path, &hashes),
            None => Err(format!("password file {}: there is no user {user} in it", path.display())),
        }
    }

    /// Whether the password is the user's. Takes some 20 ms of a core: call
    /// it on the blocking pool, few at a time.
    pub fn verify(&self, user: &str, password: &str) -> bool {
        // Taken out of the lock, which the check is too long to hold.
        let hashes = self.lock().hashes.clone();
        let known = hashes.get(user);
        let Ok(hash) = PasswordHash::new(known.unwrap_or(&self.decoy)) else { return false };
        let right = password.len() <= MAX_PASSWORD_BYTES
            && Argon2::default().verify_password(password.as_bytes(), &hash).is_ok();
        right && known.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        // Every critical section here leaves both fields whole.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until nobody else changes the file, until what it gives is dropped: two
/// changes at once would each leave the other's out. Makes an empty file where
/// there is none, if told to.
fn turn(path: &Path, make: bool) -> Result<File, Problem> {
    loop {
        // Open to write, which locks by network file systems take.
        let file = File::options().read(true).write(true).create(make).mode(0o600).open(path);
        let file = file.map_err(|e| if make { problem(path, &e) } else { missing(path, &e) })?;
        file.lock().map_err(|e| problem(path, &e))?;
        let locked = file.metadata().map_err(|e| problem(path, &e))?;
        let is_current =
            std::fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (locked.dev(), locked.ino()));
        // Otherwise whoever had it before has put another in its place.
        if is_current {
            return Ok(file);
        }
    }
}

/// In one step: a temporary file renamed.
fn write(path: &Path, hashes: &Hashes) -> Result<(), Problem> {
    let write = || -> io::Result<()> {
        // A name that nothing else has: a file that is there already may
        // be somebody's, or be readable by others.
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{:016x}", u64::from_be_bytes(random())));
        let temporary = Path::new(&name);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(temporary)?;
        for (user, hash) in hashes {
            writeln!(file, "{user}:{hash}")?;
        }
        file.sync_all()?;
        std::fs::rename(temporary, path)
    };
    write().map_err(|e| problem(path, &e))
}

fn read(path: &Path) -> Result<Current, Problem> {
    let shown = path.display();
    // One open file, so that mode, version and text are the same one's.
    let mut file = File::open(path).map_err(|e| missing(path, &e))?;
    let metadata = file.metadata().map_err(|e| problem(path, &e))?;
    if metadata.mode() & 0o077 != 0 {
        return Err(format!("password file {shown}: others may read it; run `chmod 600 {shown}`"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|e| problem(path, &e))?;
    let mut hashes = Hashes::new();
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
    Ok(Current { hashes: Arc::new(hashes), version: Some(Version::of(&metadata)) })
}

fn problem(path: &Path, error: &io::Error) -> Problem {
    format!("password file {}: {error}", path.display())
}

fn missing(path: &Path, error: &io::Error) -> Problem {
    format!("{}; make it with `strait passwd --file {} USER`", problem(path, error), path.display())
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
    fn a_file_that_is_being_written_is_not_taken_up_before_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passwd");
        PasswordFile::set(&path, "alice", "x").unwrap();
        let file = PasswordFile::load(&path).unwrap();
        File::create(&path).unwrap();
        assert_eq!(file.reload_if_changed(), Ok(false), "cut to nothing, for now");
        assert!(file.contains("alice"));
        std::thread::sleep(SETTLE);
        assert_eq!(file.reload_if_changed(), Ok(true));
        assert!(!file.contains("alice"), "it stayed so");
    }

    #[test]
    fn a_removed_user_is_out_and_the_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passwd");
        PasswordFile::set(&path, "alice", "x").unwrap();
        PasswordFile::set(&path, "bob", "x").unwrap();
        PasswordFile::remove(&path, "alice").unwrap();
        let file = PasswordFile::load(&path).unwrap();
        assert!(!file.contains("alice") && file.contains("bob"));
        let problem = PasswordFile::remove(&path, "alice").unwrap_err();
        assert!(problem.contains("no user alice"), "{problem}");
    }

    #[test]
    fn of_many_changes_at_once_none_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passwd");
        let change = |path: &Path, index: usize| {
            PasswordFile::set(path, &format!("user-{index}"), "x").unwrap();
            if index % 2 == 1 {
                PasswordFile::remove(path, &format!("user-{index}")).unwrap();
            }
        };
        std::thread::scope(|threads| {
            for index in 0..32 {
                let path = &path;
                threads.spawn(move || change(path, index));
            }
        });
        let mut users = PasswordFile::users(&path).unwrap();
        users.sort();
        let mut expected: Vec<_> = (0..32).step_by(2).map(|index| format!("user-{index}")).collect();
        expected.sort();
        assert_eq!(users, expected);
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
