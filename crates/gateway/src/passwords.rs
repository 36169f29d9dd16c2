//! The password file: one line a user, `user:hash:epoch`. The hash is an argon2id PHC string. The
//! epoch is random, and changes whenever the user is added or the password is set, even to the same
//! one. Tokens carry it, so they end when it changes. The gateway reads the file again when it changes.
//!
//! Files of earlier versions have lines `user:hash`. Such a line's epoch is derived from the hash,
//! whose salt is random, until the user's next change writes one.

use crate::mac;
use argon2::Argon2;
use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString, rand_core::OsRng};
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strait_store::hex;
use strait_store::random::random;

/// Longest user name, in bytes.
const MAX_USER_BYTES: usize = 64;
/// Longest password, in bytes: more is no safer, and costs time to hash.
const MAX_PASSWORD_BYTES: usize = 1_024;

/// A file that changed less than this long ago isn't read yet: an editor may still be writing it,
/// and its unwritten users would be logged out.
const SETTLE: Duration = Duration::from_millis(200);

/// Distinguishes one state of a user's row from earlier ones: logins of another epoch
/// are no longer valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Epoch(pub [u8; Epoch::BYTES]);

impl Epoch {
    /// Its length in bytes.
    pub const BYTES: usize = 16;

    /// The epoch of a line without one.
    fn derived(hash: &str) -> Self {
        let digest = Sha256::digest(hash.as_bytes());
        let mut epoch = Self::default();
        epoch.0.copy_from_slice(&digest[..Self::BYTES]);
        epoch
    }

    fn parse(text: &str) -> Option<Self> {
        hex::decode(text)?.try_into().ok().map(Self)
    }
}

/// Users and the hashes of their passwords, from the file.
pub struct PasswordFile {
    path: PathBuf,
    current: Mutex<Current>,
    /// Hash checked for an unknown user, so that the time taken reveals nothing.
    decoy: String,
    verified: Verified,
}

struct Current {
    rows: Arc<Rows>,
    /// The file's state at the last read; None if there was no file.
    version: Option<Version>,
}

/// Rows by user.
type Rows = BTreeMap<String, Row>;

#[derive(Debug, Clone)]
struct Row {
    hash: String,
    epoch: Epoch,
    /// Whether the line in the file has the epoch.
    has_epoch: bool,
}

impl Row {
    /// A row with a new epoch.
    fn new(password: &str) -> Result<Self, Problem> {
        Ok(Self { hash: hash(password)?, epoch: Epoch(random()), has_epoch: true })
    }

    /// `hash` or `hash:epoch`; a PHC string has no colon.
    fn parse(text: &str) -> Option<Self> {
        let (hash, epoch) = match text.split_once(':') {
            Some((hash, epoch)) => (hash, Some(Epoch::parse(epoch)?)),
            None => (text, None),
        };
        PasswordHash::new(hash).ok()?;
        let (epoch, has_epoch) = (epoch.unwrap_or_else(|| Epoch::derived(hash)), epoch.is_some());
        Some(Self { hash: hash.to_owned(), epoch, has_epoch })
    }

    fn line(&self, user: &str) -> String {
        let Self { hash, epoch, has_epoch } = self;
        if *has_epoch { format!("{user}:{hash}:{}", hex::encode(&epoch.0)) } else { format!("{user}:{hash}") }
    }
}

/// Remembers correct passwords, so that a known user doesn't queue behind others' argon2 runs. It keeps
/// only a tag (an HMAC) of each user's password, under a key that only this process has.
struct Verified {
    key: Hmac<Sha256>,
    tags: Mutex<HashMap<String, [u8; 32]>>,
}

impl Verified {
    fn new() -> Self {
        Self { key: mac::keyed(&random()), tags: Mutex::default() }
    }

    fn tag(&self, row: &Row, password: &str) -> Hmac<Sha256> {
        let mut mac = self.key.clone();
        mac.update(row.hash.as_bytes());
        mac.update(&row.epoch.0);
        mac.update(password.as_bytes());
        mac
    }

    fn knows(&self, user: &str, row: &Row, password: &str) -> bool {
        let tag = self.lock().get(user).copied();
        tag.is_some_and(|tag| self.tag(row, password).verify_slice(&tag).is_ok())
    }

    fn keep(&self, user: &str, row: &Row, password: &str) {
        let tag = self.tag(row, password).finalize().into_bytes().into();
        self.lock().insert(user.to_owned(), tag);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, [u8; 32]>> {
        self.tags.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Distinguishes states of a file. The time of change covers mode and owner, which don't affect the
/// time of modification.
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

    /// Whether the file changed just now, if the clock can be trusted.
    fn is_fresh(&self) -> bool {
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(self.changed.0), u32::try_from(self.changed.1))
        else {
            return false;
        };
        let changed = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        SystemTime::now().duration_since(changed).is_ok_and(|age| age < SETTLE)
    }
}

/// The reason why a password file can't be used, for people.
pub type Problem = String;

impl PasswordFile {
    /// Reads the file.
    ///
    /// # Errors
    /// A line for people: the file is missing, other users can read or write it, or
    /// a line in it isn't `user:hash:epoch`.
    pub fn load(path: &Path) -> Result<Self, Problem> {
        let current = Mutex::new(read(path)?);
        Ok(Self { path: path.to_owned(), current, decoy: hash("decoy")?, verified: Verified::new() })
    }

    /// Reads the file again if it has changed. If it has an error, the former contents stay in
    /// force. Blocks for a small local file.
    ///
    /// # Errors
    /// As [`PasswordFile::load`], once for a change.
    pub fn reload_if_changed(&self) -> Result<bool, Problem> {
        let version = Version::at(&self.path);
        if self.lock().version == version || version.is_some_and(|version| version.is_fresh()) {
            return Ok(false);
        }
        self.reload().map(|()| true).inspect_err(|_| self.lock().version = version)
    }

    /// Rereads the file, changed or not. If it has an error, the former contents stay in
    /// force.
    ///
    /// # Errors
    /// As [`PasswordFile::load`].
    pub fn reload(&self) -> Result<(), Problem> {
        let fresh = read(&self.path)?;
        // Drops the tags of removed users, so that they don't pile up.
        self.verified.lock().retain(|user, _| fresh.rows.contains_key(user));
        *self.lock() = fresh;
        Ok(())
    }

    /// The epoch of a user's row; none for a user whom the file doesn't name.
    pub fn epoch(&self, user: &str) -> Option<Epoch> {
        self.lock().rows.get(user).map(|row| row.epoch)
    }

    /// Sets a user's password in the file in one step (a temporary file renamed), and makes the
    /// file if it is missing. All the user's earlier logins end.
    ///
    /// # Errors
    /// A line for people: the name or the password is invalid, or the file can't be read or written.
    pub fn set(path: &Path, user: &str, password: &str) -> Result<(), Problem> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        if user.is_empty() || user.len() > MAX_USER_BYTES || !user.chars().all(plain) {
            return Err("a user name must have 1 to 64 characters: letters, digits and . _ - @".to_owned());
        }
        if user.starts_with('.') {
            return Err(format!("{user} can't be a user name: it begins with a dot"));
        }
        if password.is_empty() || password.len() > MAX_PASSWORD_BYTES {
            return Err("a password must have 1 to 1,024 bytes".to_owned());
        }
        let row = Row::new(password)?;
        let _turn = turn(path, true)?;
        let mut rows = (*read(path)?.rows).clone();
        rows.insert(user.to_owned(), row);
        write(path, &rows)
    }

    /// The users that the file names, in no order.
    ///
    /// # Errors
    /// A line for people: the file can't be read.
    pub fn users(path: &Path) -> Result<Vec<String>, Problem> {
        Ok(read(path)?.rows.keys().cloned().collect())
    }

    /// Removes a user from the file, in one step.
    ///
    /// # Errors
    /// A line for people: the file can't be read or written, or doesn't name the user.
    pub fn remove(path: &Path, user: &str) -> Result<(), Problem> {
        let _turn = turn(path, false)?;
        let mut rows = (*read(path)?.rows).clone();
        match rows.remove(user) {
            Some(_) => write(path, &rows),
            None => Err(format!("password file {}: there is no user {user} in it", path.display())),
        }
    }

    /// The epoch of the user's row, if the password is right. Takes some 20 ms of a core: call it
    /// on the blocking pool, few at a time.
    pub fn verify(&self, user: &str, password: &str) -> Option<Epoch> {
        // Cloned, since the check is too long to hold the lock.
        let rows = self.lock().rows.clone();
        let row = rows.get(user);
        let hash = PasswordHash::new(row.map_or(&self.decoy, |row| &row.hash)).ok()?;
        let right = password.len() <= MAX_PASSWORD_BYTES
            && Argon2::default().verify_password(password.as_bytes(), &hash).is_ok();
        let row = row.filter(|_| right)?;
        self.verified.keep(user, row, password);
        Some(row.epoch)
    }

    /// As [`PasswordFile::verify`], but takes only microseconds, and knows only passwords that were right
    /// before. None for any other.
    pub fn verify_again(&self, user: &str, password: &str) -> Option<Epoch> {
        if password.len() > MAX_PASSWORD_BYTES {
            return None;
        }
        let rows = self.lock().rows.clone();
        let row = rows.get(user)?;
        self.verified.knows(user, row, password).then_some(row.epoch)
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        // A poisoned lock is harmless: every critical section leaves both fields consistent.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks the file against other changes, until the returned file is dropped. Without the lock, one of
/// two changes at once could undo the other. Makes an empty file if there is none and `make` is set.
fn turn(path: &Path, make: bool) -> Result<File, Problem> {
    loop {
        // Open to write: locks on network file systems need that.
        let file = File::options().read(true).write(true).create(make).mode(0o600).open(path);
        let file = file.map_err(|e| if make { problem(path, &e) } else { missing(path, &e) })?;
        file.lock().map_err(|e| problem(path, &e))?;
        let locked = file.metadata().map_err(|e| problem(path, &e))?;
        let is_current =
            std::fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (locked.dev(), locked.ino()));
        // Otherwise the former lock holder has replaced the file, and this lock is on the old one.
        if is_current {
            return Ok(file);
        }
    }
}

/// Writes the file in one step: a temporary file renamed.
fn write(path: &Path, rows: &Rows) -> Result<(), Problem> {
    let write = || -> io::Result<()> {
        // An unused name: an existing file may belong to another user, or be readable by others.
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{:016x}", u64::from_be_bytes(random())));
        let temporary = Path::new(&name);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(temporary)?;
        for (user, row) in rows {
            writeln!(file, "{}", row.line(user))?;
        }
        file.sync_all()?;
        std::fs::rename(temporary, path)
    };
    write().map_err(|e| problem(path, &e))
}

fn read(path: &Path) -> Result<Current, Problem> {
    let shown = path.display();
    // All from one open file, so that mode, version and text belong together.
    // If it is a FIFO, opening it doesn't wait for a writer.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let opened = File::options().read(true).custom_flags(nonblocking).open(path);
    let mut file = opened.map_err(|e| missing(path, &e))?;
    let metadata = file.metadata().map_err(|e| problem(path, &e))?;
    if !metadata.is_file() {
        return Err(format!("password file {shown}: not a regular file"));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(format!("password file {shown}: others may read it; run `chmod 600 {shown}`"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|e| problem(path, &e))?;
    let mut rows = Rows::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = line.split_once(':').and_then(|(user, rest)| Some((user, Row::parse(rest)?)));
        let Some((user, row)) = entry else {
            return Err(format!("password file {shown}, line {number}: not user:hash:epoch"));
        };
        rows.insert(user.to_owned(), row);
    }
    Ok(Current { rows: Arc::new(rows), version: Some(Version::of(&metadata)) })
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
    use strait_testkit::wait::eventually;

    #[test]
    fn only_the_right_password_of_a_known_user_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passwd");
        PasswordFile::set(&path, "alice", "first").unwrap();
        PasswordFile::set(&path, "bob", "other").unwrap();
        PasswordFile::set(&path, "alice", "second").unwrap();
        let file = PasswordFile::load(&path).unwrap();
        assert!(file.verify("alice", "second").is_some());
        assert!(file.verify("bob", "other").is_some());
        assert!(file.verify("alice", "first").is_none());
        assert!(file.verify("carol", "decoy").is_none(), "an unknown user has no password");
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
        assert!(file.epoch("alice").is_some());
        eventually("it is taken up once it has stayed so", || file.reload_if_changed() == Ok(true));
        assert!(file.epoch("alice").is_none());
    }

    #[test]
    fn an_epoch_ends_with_the_password_and_with_the_row() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passwd");
        let epoch = |user: &str| PasswordFile::load(&path).unwrap().epoch(user);
        PasswordFile::set(&path, "alice", "x").unwrap();
        let first = epoch("alice").unwrap();
        PasswordFile::set(&path, "bob", "x").unwrap();
        assert_eq!(epoch("alice"), Some(first), "another user's change leaves it");
        PasswordFile::set(&path, "alice", "x").unwrap();
        let second = epoch("alice").unwrap();
        assert_ne!(second, first, "the same password set again");
        PasswordFile::remove(&path, "alice").unwrap();
        assert_eq!(epoch("alice"), None);
        PasswordFile::set(&path, "alice", "x").unwrap();
        assert!(![first, second].contains(&epoch("alice").unwrap()), "removed and added again");
    }

    #[test]
    fn a_file_without_epochs_is_read_and_gets_them_as_its_users_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passwd");
        let old = |user: &str, password: &str| format!("{user}:{}\n", hash(password).unwrap());
        let (alice, bob) = (old("alice", "x"), old("bob", "y"));
        std::fs::write(&path, format!("# users\n{alice}{bob}")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let file = PasswordFile::load(&path).unwrap();
        let derived = file.verify("alice", "x").unwrap();
        assert_eq!(file.epoch("alice"), Some(derived));
        PasswordFile::set(&path, "alice", "x").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(&bob), "bob's line is as it was: {text}");
        let file = PasswordFile::load(&path).unwrap();
        assert_ne!(file.epoch("alice").unwrap(), derived, "written by the change");
        assert!(file.verify("bob", "y").is_some());
    }

    #[test]
    fn a_password_is_known_again_until_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passwd");
        PasswordFile::set(&path, "alice", "x").unwrap();
        let file = PasswordFile::load(&path).unwrap();
        assert_eq!(file.verify_again("alice", "x"), None, "nobody has logged in yet");
        let epoch = file.verify("alice", "x");
        assert_eq!(file.verify_again("alice", "x"), epoch);
        assert_eq!(file.verify_again("alice", "y"), None);
        assert_eq!(file.verify("alice", "y"), None);
        PasswordFile::set(&path, "alice", "z").unwrap();
        file.reload().unwrap();
        assert_eq!(file.verify_again("alice", "x"), None);
    }

    #[test]
    fn a_removed_user_is_out_and_the_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passwd");
        PasswordFile::set(&path, "alice", "x").unwrap();
        PasswordFile::set(&path, "bob", "x").unwrap();
        PasswordFile::remove(&path, "alice").unwrap();
        let file = PasswordFile::load(&path).unwrap();
        assert!(file.epoch("alice").is_none() && file.epoch("bob").is_some());
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
        for user in ["", "a:b", "a\nb", "a b", ".", ".."] {
            assert!(PasswordFile::set(&path, user, "x").is_err(), "{user:?}");
        }
    }
}
