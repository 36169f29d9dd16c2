//! A holder of leases, which renews them: a session of a user, or a user without a session.
//!
//! The names of a session's holders have the same prefix in all processes. So a session can take back a file
//! that a killed process of the session left open, without a wait for the namenode's limit.

use super::super::namenode::Namenode;
use super::super::wire::Empty;
use super::link::Link;
use super::wire::*;
use prost::Message;
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use strait_store::{Result, SessionSecret, hex};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::sleep;

/// Half of the namenode's soft limit (`HdfsConstants.LEASE_SOFTLIMIT_PERIOD`), as in Java's
/// `LeaseRenewer`.
const RENEWAL: Duration = Duration::from_secs(30);
/// Pause after a failed renewal (`LeaseRenewer.LEASE_RENEWER_SLEEP_DEFAULT`). The namenode waits 60 s for a
/// renewal.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Bytes of a secret's digest in the names of its holders. It is a digest because the namenode shows the
/// names to other users. Nobody can find another secret with the same 128 bits.
const DIGEST_BYTES: usize = 16;

/// A UUID as text, with hyphens.
const UUID_CHARACTERS: usize = 36;

/// One holder.
#[derive(Debug)]
pub struct LeaseHolder {
    link: Arc<Link>,
    /// The holder's name for the namenode.
    name: String,
    /// Prefix of the names of all holders of the session, in all processes.
    session_prefix: Option<String>,
    /// Each opening of a file locks this for reading. An order to recover a file locks it for writing.
    gate: RwLock<()>,
    open_files: Mutex<OpenFiles>,
}

#[derive(Debug, Default)]
struct OpenFiles {
    /// Each file's id, and the number of its opening.
    files: Vec<(u64, u64)>,
    /// The number of the latest opening.
    last: u64,
    is_renewing: bool,
}

impl LeaseHolder {
    /// A holder for a user without a session. It has no files.
    pub fn new(namenode: Arc<Namenode>, user: &str) -> Self {
        Self::named(Arc::new(Link::new(namenode, user)), None)
    }

    /// A holder for a session of this user. It has no files. Its calls use the same connection.
    pub fn of_session(&self, secret: &SessionSecret) -> Self {
        let digest = Sha256::new().chain_update(secret.0).chain_update(self.link.user()).finalize();
        let digest = hex::encode(&digest[..DIGEST_BYTES]);
        Self::named(Arc::clone(&self.link), Some(format!("strait-{digest}-")))
    }

    fn named(link: Arc<Link>, session_prefix: Option<String>) -> Self {
        let (prefix, unique) = (session_prefix.as_deref().unwrap_or("strait-"), uuid::Uuid::new_v4());
        Self {
            link,
            name: format!("{prefix}{unique}"),
            session_prefix,
            gate: RwLock::default(),
            open_files: Mutex::default(),
        }
    }

    /// Whether the holder with this name belongs to the same session, in this process or another one.
    pub fn is_of_same_session(&self, name: &str) -> bool {
        let unique = self.session_prefix.as_deref().and_then(|prefix| name.strip_prefix(prefix));
        // Other clients choose the rest of their names as they like, so check its length and form.
        unique.is_some_and(|unique| unique.len() == UUID_CHARACTERS && uuid::Uuid::parse_str(unique).is_ok())
    }

    /// The user.
    pub fn user(&self) -> &str {
        self.link.user()
    }

    /// The holder's name for namenode and datanodes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The id of the file at `path`.
    pub async fn file_at(&self, path: &str) -> Result<Option<u64>> {
        Ok(self.status_of(path).await?.and_then(|status| status.file_id))
    }

    /// The status of the file at `path`.
    pub async fn status_of(&self, path: &str) -> Result<Option<HdfsFileStatus>> {
        let request = GetFileInfoRequest { path: path.to_owned() };
        Ok(self.call::<_, GetFileInfoResponse>("getFileInfo", &request).await?.status)
    }

    /// Prevents recoveries from beginning. Take this before the call that opens a file, and keep it until
    /// [`LeaseHolder::opened`], so that recoveries know of the file.
    pub async fn opening(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().await
    }

    /// Makes openings wait. Take this to order the recovery of a file.
    pub async fn recovering(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().await
    }

    /// Begins to renew the lease of a file. Returns the number of its opening, above 0.
    pub fn opened(self: &Arc<Self>, id: u64) -> u64 {
        let mut open = self.open_files();
        open.last += 1;
        let opening = open.last;
        open.files.push((id, opening));
        if !std::mem::replace(&mut open.is_renewing, true) {
            tokio::spawn(renew(Arc::downgrade(self)));
        }
        opening
    }

    /// Ends the renewal that [`LeaseHolder::opened`] began.
    pub fn closed(&self, opening: u64) {
        self.open_files().files.retain(|(_, other)| *other != opening);
    }

    /// Whether a later opening than this has the file open.
    pub fn has_opened_again(&self, id: u64, opening: u64) -> bool {
        self.open_files().files.iter().any(|(other, later)| *other == id && *later > opening)
    }

    fn open_files(&self) -> MutexGuard<'_, OpenFiles> {
        self.open_files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`Link::is_busy`].
    pub fn is_busy(&self) -> bool {
        self.link.is_busy()
    }

    /// See [`Link::call_once`].
    pub async fn call_once<Q: Message, A: Message + Default>(
        &self,
        method: &'static str,
        request: &Q,
    ) -> Result<A> {
        self.link.call_once(method, request).await
    }

    /// See [`Link::call`].
    pub async fn call<Q: Message, A: Message + Default>(
        &self,
        method: &'static str,
        request: &Q,
    ) -> Result<A> {
        self.link.call(method, request).await
    }
}

/// Renews the holder's leases, with one call for all, for as long as it has open files.
async fn renew(holder: Weak<LeaseHolder>) {
    let mut pause = RENEWAL;
    loop {
        sleep(pause).await;
        let Some(holder) = holder.upgrade() else { return };
        let files = {
            let mut open = holder.open_files();
            if open.files.is_empty() {
                open.is_renewing = false;
                return;
            }
            open.files.len()
        };
        let request = RenewLeaseRequest { client_name: holder.name.clone() };
        pause = match holder.call::<_, Empty>("renewLease", &request).await {
            Ok(Empty {}) => RENEWAL,
            Err(error) => {
                let (user, holder) = (holder.user(), holder.name());
                tracing::warn!(user, holder, files, %error, "leases couldn't be renewed; other clients can take \
                    the files over 60 s after the last renewal");
                RETRY_PAUSE
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake;
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use tokio::sync::mpsc::unbounded_channel;
    use tokio::time::timeout;

    #[tokio::test]
    async fn a_failed_renewal_is_repeated_soon() {
        let (sender, mut calls) = unbounded_channel();
        let refuses = AtomicBool::new(true);
        let answer = move |method: &str, _: &[u8]| {
            sender.send(method.to_owned()).unwrap();
            match refuses.swap(false, Ordering::Relaxed) {
                true => fake::Answer::failure("not now"),
                false => fake::Answer::Message(Vec::new()),
            }
        };
        let namenode = Arc::new(Namenode::new(vec![fake::namenode(answer).await]));
        let holder = Arc::new(LeaseHolder::new(namenode, "alice"));
        tokio::time::pause();
        holder.opened(7);
        // Starts the task, and ends its first pause.
        tokio::task::yield_now().await;
        tokio::time::advance(RENEWAL + RETRY_PAUSE).await;
        tokio::time::resume();
        for _ in 0..2 {
            let call = timeout(RENEWAL / 2, calls.recv()).await.expect("no renewal");
            assert_eq!(call.unwrap(), "renewLease");
        }
    }

    #[tokio::test]
    async fn only_holders_of_one_session_and_user_know_each_other() {
        let namenode = Arc::new(Namenode::new(vec!["127.0.0.1:1".to_owned()]));
        let of = |user, secret| {
            LeaseHolder::new(Arc::clone(&namenode), user).of_session(&SessionSecret([secret; 32]))
        };
        let (one, again) = (of("alice", 7), of("alice", 7));
        assert!(one.name() != again.name() && one.is_of_same_session(again.name()));
        assert!(!one.is_of_same_session(&format!("{}-x", again.name())), "not a name of ours");
        for other in [of("alice", 8), of("bob", 7), LeaseHolder::new(Arc::clone(&namenode), "alice")] {
            assert!(!one.is_of_same_session(other.name()) && !other.is_of_same_session(one.name()));
        }
    }
}
