//! A user as a holder of leases: the calls of its writers to the namenode, over one connection, and
//! the renewal of its leases.

use super::super::channel::{CallId, Channel};
use super::super::errors::Effect;
use super::super::namenode::Namenode;
use super::super::retry::PATIENCE;
use super::super::rpc::{CLIENT_PROTOCOL, RpcError};
use super::super::wire::Empty;
use super::wire::*;
use prost::Message;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use strait_store::Result;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::time::sleep;

/// Half of the namenode's soft limit (`HdfsConstants.LEASE_SOFTLIMIT_PERIOD`), as Java's
/// `LeaseRenewer`.
const RENEWAL: Duration = Duration::from_secs(30);
/// Pause after a failed renewal (`LeaseRenewer.LEASE_RENEWER_SLEEP_DEFAULT`): the namenode waits for one for
/// 60 s.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// One user.
#[derive(Debug)]
pub struct LeaseHolder {
    namenode: Arc<Namenode>,
    user: String,
    /// The leases' holder, for the namenode.
    name: String,
    client_id: [u8; 16],
    next_call: AtomicI32,
    connection: tokio::sync::Mutex<Connection>,
    /// An opening of a file locks it for reading; an order to recover a file locks it for writing.
    openings: RwLock<()>,
    open_files: Mutex<OpenFiles>,
}

#[derive(Debug, Default)]
struct OpenFiles {
    /// Each one's id, and the number of its opening.
    files: Vec<(u64, u64)>,
    /// Openings so far.
    openings: u64,
    is_renewing: bool,
}

/// The connection that all calls of a holder share.
#[derive(Debug, Default)]
struct Connection {
    /// The index of a namenode, and the channel to it.
    channel: Option<(usize, Arc<Channel>)>,
    /// The last failure to connect: index, time and reason.
    failure: Option<(usize, Instant, io::Error)>,
}

impl LeaseHolder {
    /// A holder without files.
    pub fn new(namenode: Arc<Namenode>, user: &str) -> Self {
        Self {
            namenode,
            user: user.to_owned(),
            name: format!("strait-{}", uuid::Uuid::new_v4()),
            client_id: *uuid::Uuid::new_v4().as_bytes(),
            next_call: AtomicI32::new(0),
            connection: tokio::sync::Mutex::default(),
            openings: RwLock::default(),
            open_files: Mutex::default(),
        }
    }

    /// Its name for namenode and datanodes.
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

    /// Keeps recoveries from beginning. Take it before the call that opens a file, and keep it until
    /// [`LeaseHolder::opened`], so that recoveries know of the file.
    pub async fn opening(&self) -> RwLockReadGuard<'_, ()> {
        self.openings.read().await
    }

    /// Keeps openings waiting. Take it to order the recovery of a file.
    pub async fn recovering(&self) -> RwLockWriteGuard<'_, ()> {
        self.openings.write().await
    }

    /// Begins to renew the lease of a file. Returns the number of its opening, above 0.
    pub fn opened(self: &Arc<Self>, id: u64) -> u64 {
        let mut open = self.open_files();
        open.openings += 1;
        let opening = open.openings;
        open.files.push((id, opening));
        if !std::mem::replace(&mut open.is_renewing, true) {
            tokio::spawn(renew(Arc::downgrade(self)));
        }
        opening
    }

    /// Ends what [`LeaseHolder::opened`] began.
    pub fn closed(&self, opening: u64) {
        self.open_files().files.retain(|(_, other)| *other != opening);
    }

    /// Whether the file is open by a later opening than this.
    pub fn has_opened_again(&self, id: u64, opening: u64) -> bool {
        self.open_files().files.iter().any(|(other, later)| *other == id && *later > opening)
    }

    fn open_files(&self) -> MutexGuard<'_, OpenFiles> {
        self.open_files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call that the namenode may get twice: it remembers the outcome, or the outcome is the same.
    pub async fn call<Q: Message, A: Message + Default>(
        &self,
        method: &'static str,
        request: &Q,
    ) -> Result<A> {
        let call = self.next_call.fetch_add(1, Ordering::Relaxed) & i32::MAX;
        let attempt = |index, retry| async move {
            let id = CallId { client: self.client_id, call, retry };
            self.channel(index).await?.call(id, CLIENT_PROTOCOL, method, request).await
        };
        self.namenode.ask(Effect::Remembered, PATIENCE, attempt).await
    }

    /// The connection to the namenode with this index, which all calls share.
    async fn channel(&self, index: usize) -> std::result::Result<Arc<Channel>, RpcError> {
        let asked = Instant::now();
        let mut connection = self.connection.lock().await;
        if let Some((to, channel)) = &connection.channel
            && *to == index
            && !channel.has_ended()
        {
            return Ok(Arc::clone(channel));
        }
        // Without this, each call would try after all those before it, for seconds each.
        if let Some((to, at, error)) = &connection.failure
            && *to == index
            && *at >= asked
        {
            return Err(RpcError::NotSent(io::Error::new(error.kind(), error.to_string())));
        }
        let address = self.namenode.address(index);
        match Channel::open(address, &self.user, CLIENT_PROTOCOL, &self.client_id).await {
            Ok(channel) => {
                let channel = Arc::new(channel);
                connection.channel = Some((index, Arc::clone(&channel)));
                Ok(channel)
            }
            Err(RpcError::NotSent(error)) => {
                let again = io::Error::new(error.kind(), error.to_string());
                connection.failure = Some((index, Instant::now(), again));
                Err(RpcError::NotSent(error))
            }
            Err(error) => Err(error),
        }
    }
}

/// Renews the holder's leases, one call for all, as long as it has open files.
async fn renew(holder: Weak<LeaseHolder>) {
    let mut pause = RENEWAL;
    loop {
        sleep(pause).await;
        let Some(holder) = holder.upgrade() else { return };
        {
            let mut open = holder.open_files();
            if open.files.is_empty() {
                open.is_renewing = false;
                return;
            }
        }
        let request = RenewLeaseRequest { client_name: holder.name.clone() };
        pause = match holder.call::<_, Empty>("renewLease", &request).await {
            Ok(Empty {}) => RENEWAL,
            Err(error) => {
                tracing::warn!(user = holder.user, %error, "leases aren't renewed");
                RETRY_PAUSE
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::rpc::CONNECT_TIMEOUT;
    use super::super::fake;
    use super::*;
    use futures::future::join_all;
    use std::sync::atomic::AtomicBool;
    use strait_store::ErrorKind;
    use tokio::sync::mpsc::unbounded_channel;
    use tokio::time::timeout;

    #[tokio::test]
    async fn calls_wait_together_for_a_namenode_whose_host_is_down() {
        let down = fake::host_that_is_down().await;
        let active = fake::namenode(|_, _| fake::Answer::Message(Vec::new())).await;
        let namenode = Arc::new(Namenode::new(vec![down.address.to_string(), active]));
        let holder = LeaseHolder::new(namenode, "alice");
        let request = RenewLeaseRequest { client_name: holder.name.clone() };
        let begin = Instant::now();
        for outcome in join_all((0..16).map(|_| holder.call("renewLease", &request))).await {
            let Empty {} = outcome.unwrap();
        }
        assert!(begin.elapsed() < 3 * CONNECT_TIMEOUT, "{:?}", begin.elapsed());
    }

    #[tokio::test]
    async fn a_user_whom_the_namenode_refuses_learns_it_at_once() {
        let class = "org.apache.hadoop.security.authorize.AuthorizationException";
        let namenode = fake::refusing_namenode(class, "User alice is not authorized").await;
        let namenode = Arc::new(Namenode::new(vec![namenode]));
        let holder = LeaseHolder::new(Arc::clone(&namenode), "alice");
        let begin = Instant::now();
        // Each time the answer may overtake the call, or not.
        for _ in 0..20 {
            let request = GetFileInfoRequest { path: "/f".to_owned() };
            let own = holder.call::<_, GetFileInfoResponse>("getFileInfo", &request).await.unwrap_err();
            let other = namenode.statistics("alice").await.unwrap_err();
            for error in [own, other] {
                assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
                assert_eq!(error.message(), "User alice is not authorized");
            }
        }
        assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    }

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
}
