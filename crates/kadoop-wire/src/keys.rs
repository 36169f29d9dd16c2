//! The cluster's key, and the keys derived from it.
//!
//! ```text
//!   Key ─┬─ clients' key ── between clients and the namenode
//!        ├─ datanodes' key ─ between datanodes and the namenode
//!        ├─ tokens' key ──── namenode makes, datanodes check
//!        └─ credentials' key ── the namenode's own, for users that log in ([`super::credentials`])
//! ```
//!
//! A host of gateways or operators needs only the clients' key. Its holder can act as any user, but can't
//! join as a datanode or make a token. A user without a key logs in, and gets a credential.
//!
//! FlexRPC tags each frame between the namenode and its callers. Calls to datanodes and their answers are
//! tagged with a token's secret ([`super::tokens`]). The tags don't cover written bytes, which have
//! checksums instead: tagging every byte at every member costs more than all the rest of a write (measured:
//! ARCHITECTURE.md). So an attacker that can alter packets on the cluster's network can alter bytes. A
//! process that merely answers in a datanode's place can't, since its answers have no valid tag. With these
//! keys, nothing is encrypted: an eavesdropper between a client and the namenode gets the client's tokens.

use super::{
    credentials::CredentialKey,
    tokens::{TokenKey, hmac},
};
use crate::directory_sync::sync_name;
use crate::random::random;
use hmac::Mac as _;
use std::{
    fmt, fs,
    io::{self, Read as _},
    path::Path,
};
use strait_flexrpc::ClusterKey;

/// Size of the key, and of each derived key: the output size of HMAC-SHA256.
pub const KEY_BYTES: usize = 32;

const CLUSTER_PREFIX: &str = "kadoop-cluster-key-1:";
const CLIENT_PREFIX: &str = "kadoop-client-key-1:";

/// Most bytes that are read of a key file. A key's line is far shorter, but an operator may name any file.
const MAX_FILE_BYTES: u64 = 4_096;

type Secret = [u8; KEY_BYTES];

/// The cluster's key, for namenode and datanodes.
#[derive(Clone)]
pub struct Key(Secret);

/// The key of clients.
#[derive(Clone)]
pub struct ClientKey(Secret);

impl Key {
    /// A new key from the system's random numbers.
    ///
    /// # Errors
    /// The system can't produce random numbers.
    pub fn generate() -> io::Result<Self> {
        crate::random::bytes().map(Self)
    }

    /// The key with these bytes, which must be random and secret.
    pub fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// Loads a file that [`Key::save`] has written.
    ///
    /// # Errors
    /// The file can't be read. InvalidData: it isn't a cluster's key.
    pub fn load(path: &Path) -> io::Result<Self> {
        Self::read(fs::File::open(path)?, path)
    }

    /// Loads the open file `path`.
    ///
    /// # Errors
    /// As [`Key::load`].
    pub fn read(file: fs::File, path: &Path) -> io::Result<Self> {
        let line = line(file)?;
        let why = match parse(&line, CLIENT_PREFIX) {
            Some(_) => "is the clients' key; namenode and datanodes need the cluster's own",
            None => "isn't a cluster's key",
        };
        parse(&line, CLUSTER_PREFIX).map(Self).ok_or_else(|| invalid(path, why))
    }

    /// Writes the key to a new file that only its owner can read, and syncs the file.
    ///
    /// # Errors
    /// The file exists already, or can't be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        save(path, CLUSTER_PREFIX, &self.0)
    }

    /// The key for clients.
    pub fn for_clients(&self) -> ClientKey {
        ClientKey(self.derive("clients"))
    }

    /// The FlexRPC key for calls between datanodes and the namenode.
    pub fn between_nodes(&self) -> Option<ClusterKey> {
        ClusterKey::new(&self.derive("datanodes")).ok()
    }

    /// The key for tokens.
    ///
    /// # Errors
    /// The system can't produce random numbers.
    pub fn for_tokens(&self) -> io::Result<TokenKey> {
        TokenKey::new(&self.derive("tokens"))
    }

    /// The key for credentials.
    pub fn for_credentials(&self) -> CredentialKey {
        CredentialKey::new(&self.derive("credentials"))
    }

    fn derive(&self, purpose: &str) -> Secret {
        let mut mac = hmac(&self.0);
        mac.update(b"kadoop 1 ");
        mac.update(purpose.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

impl ClientKey {
    /// Loads a file that [`ClientKey::save`] has written. From a cluster's key, derives the clients' key.
    ///
    /// # Errors
    /// The file can't be read. InvalidData: it is neither a clients' key nor a cluster's.
    pub fn load(path: &Path) -> io::Result<Self> {
        let line = line(fs::File::open(path)?)?;
        let cluster = parse(&line, CLUSTER_PREFIX).map(|secret| Key(secret).for_clients());
        cluster
            .or_else(|| parse(&line, CLIENT_PREFIX).map(Self))
            .ok_or_else(|| invalid(path, "is neither a client's key nor a cluster's"))
    }

    /// Writes the key to a new file that only its owner can read, and syncs the file.
    ///
    /// # Errors
    /// The file exists already, or can't be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        save(path, CLIENT_PREFIX, &self.0)
    }

    /// The FlexRPC key for calls from clients to the namenode.
    pub fn to_namenode(&self) -> Option<ClusterKey> {
        ClusterKey::new(&self.0).ok()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientKey(secret)")
    }
}

fn invalid(path: &Path, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} {why}", path.display()))
}

/// The file's first [`MAX_FILE_BYTES`] as text. Bytes that aren't UTF-8 become text that isn't a key.
fn line(file: fs::File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn parse(line: &str, prefix: &str) -> Option<Secret> {
    let digits = line.trim().strip_prefix(prefix)?.as_bytes();
    if digits.len() != 2 * KEY_BYTES {
        return None;
    }
    let mut secret = [0; KEY_BYTES];
    for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(secret)
}

/// Writes and syncs the file under a temporary name first, since other processes may look for `path` at the
/// same time.
fn save(path: &Path, prefix: &str, secret: &Secret) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{:016x}.tmp", random()?));
    let written = write(Path::new(&beside), prefix, secret);
    // A hard link fails if `path` exists. A rename would replace it.
    let named = written.and_then(|()| fs::hard_link(&beside, path));
    let _ = fs::remove_file(&beside);
    named.and_then(|()| sync_name(path))
}

fn write(path: &Path, prefix: &str, secret: &Secret) -> io::Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(format!("{prefix}{digits}\n").as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_their_files_and_a_clients_isnt_the_clusters() {
        let directory = tempfile::tempdir().unwrap();
        let (cluster, client) = (directory.path().join("cluster"), directory.path().join("client"));
        let key = Key::generate().unwrap();
        key.save(&cluster).unwrap();
        key.for_clients().save(&client).unwrap();
        assert!(key.save(&cluster).is_err(), "a key is never overwritten");
        assert_eq!(Key::load(&cluster).unwrap().0, key.0);
        assert_eq!(ClientKey::load(&client).unwrap().0, key.for_clients().0);
        assert_eq!(ClientKey::load(&cluster).unwrap().0, key.for_clients().0);
        let refused = Key::load(&client).unwrap_err().to_string();
        assert!(refused.contains("client is the clients' key; namenode and datanodes need"), "{refused}");
        assert_ne!(key.for_clients().0, key.derive("datanodes"));
    }

    /// Once, the file got its name before its contents: slower processes found it empty, and so did
    /// a start after a crash.
    #[test]
    fn of_many_who_make_a_key_at_once_all_get_the_same_whole_one() {
        for _ in 0..50 {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("key");
            let make = || match Key::generate().unwrap().save(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => panic!("{error}"),
                _ => Key::load(&path).unwrap().0,
            };
            let keys: Vec<Secret> = std::thread::scope(|scope| {
                let makers: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
                makers.into_iter().map(|maker| maker.join().unwrap()).collect()
            });
            assert!(keys.windows(2).all(|pair| pair[0] == pair[1]));
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");
        }
    }

    #[test]
    fn a_file_of_random_bytes_is_named_as_no_key() {
        let directory = tempfile::tempdir().unwrap();
        let random = directory.path().join("random");
        fs::write(&random, [0xff, 0, 0xfe]).unwrap();
        for refused in [Key::load(&random).map(drop), ClientKey::load(&random).map(drop)] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
            assert!(refused.to_string().starts_with(&random.display().to_string()), "{refused}");
        }
    }
}
