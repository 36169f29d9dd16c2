//! A user as a holder of leases: the calls of its writers to the namenode, over one connection, and
//! the renewal of its leases.

use super::super::channel::{CallId, Channel};
use super::super::errors::Effect;
use super::super::namenode::Namenode;
use super::super::retry::{Backoff, PATIENCE};
use super::super::rpc::{CLIENT_PROTOCOL, RpcError};
use super::super::wire::{DatanodeId, ExtendedBlock};
use super::wire::*;
use prost::Message;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use strait_store::{Error, ErrorKind, Result};
use tokio::time::sleep;

/// Half of the namenode's soft limit (`HdfsConstants.LEASE_SOFTLIMIT_PERIOD`), as Java's
/// `LeaseRenewer`.
const RENEWAL: Duration = Duration::from_secs(30);

/// Holders kept: each may have a connection, which ends when it is idle. With more users at a time,
/// a new connection costs some hundred microseconds.
const MAX_HOLDERS: usize = 256;

/// Calls that follow a refused one without a pause, while the namenode has no report of a block yet: a
/// timer's tick is longer than most reports need.
const TRIES_AT_ONCE: u32 = 2;

/// First pause until the namenode has a block's report. Each further pause is twice as long. Datanodes report
/// a block within a millisecond or two of their acknowledgement. Java waits 400 ms
/// (`dfs.client.block.write.locateFollowingBlock.initial.delay.ms`).
const FIRST_REPORT_PAUSE: Duration = Duration::from_millis(1);

/// Part of the namenode's answer to a writer whose file the namenode itself recovers
/// (`FSNamesystem.checkLease`, `HdfsServerConstants.NAMENODE_LEASE_HOLDER`).
const OWNED_BY_NAMENODE: &str = "is not the lease owner (=HDFS_NameNode";

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
    open_files: Mutex<OpenFiles>,
}

#[derive(Debug, Default)]
struct OpenFiles {
    ids: Vec<u64>,
    is_renewing: bool,
}

/// The connection that all calls of a holder share.
#[derive(Debug, Default)]
struct Connection {
    /// It, and the index of the namenode that it leads to.
    channel: Option<(usize, Arc<Channel>)>,
    /// The last failure to connect: index, time and reason.
    failure: Option<(usize, Instant, io::Error)>,
}

/// An open file of a holder; its lease is renewed until this is dropped.
#[derive(Debug)]
pub struct OpenFile {
    pub holder: Arc<LeaseHolder>,
    pub path: String,
    pub id: u64,
}

/// The holders, by user.
#[derive(Debug, Default)]
pub struct Holders(Mutex<Cache>);

#[derive(Debug, Default)]
struct Cache {
    holders: HashMap<String, (Arc<LeaseHolder>, u64)>,
    /// Counts uses; the holder with the smallest count has been unused longest.
    clock: u64,
}

impl Holders {
    pub fn get(&self, namenode: &Arc<Namenode>, user: &str) -> Arc<LeaseHolder> {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Cache { holders, clock } = &mut *cache;
        *clock += 1;
        if let Some((holder, used)) = holders.get_mut(user) {
            *used = *clock;
            return Arc::clone(holder);
        }
        if holders.len() >= MAX_HOLDERS {
            let oldest = holders.iter().min_by_key(|(_, (_, used))| *used).map(|(user, _)| user.clone());
            oldest.map(|user| holders.remove(&user));
        }
        let holder = Arc::new(LeaseHolder::new(Arc::clone(namenode), user));
        holders.insert(user.to_owned(), (Arc::clone(&holder), *clock));
        holder
    }
}

impl LeaseHolder {
    fn new(namenode: Arc<Namenode>, user: &str) -> Self {
        Self {
            namenode,
            user: user.to_owned(),
            name: format!("strait-{}", uuid::Uuid::new_v4()),
            client_id: *uuid::Uuid::new_v4().as_bytes(),
            next_call: AtomicI32::new(0),
            connection: tokio::sync::Mutex::default(),
            open_files: Mutex::default(),
        }
    }

    /// Its name for namenode and datanodes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates a file, and its missing parents.
    pub async fn create(
        &self,
        path: &str,
        permission: u32,
        overwrite: bool,
        replication: u32,
        block_size: u64,
    ) -> Result<FileStatus> {
        let overwrite = if overwrite { create_flag::OVERWRITE } else { 0 };
        let request = CreateRequest {
            path: path.to_owned(),
            permission: Permission { bits: permission },
            client_name: self.name.clone(),
            flags: create_flag::CREATE | overwrite,
            create_parent: true,
            replication,
            block_size,
        };
        let answer: CreateResponse = self.call("create", &request).await?;
        answer.status.ok_or_else(|| strange("a created file has no status"))
    }

    /// Opens a file to append to it. Returns its last block, too, which may be full.
    pub async fn append(&self, path: &str) -> Result<(FileStatus, Option<TargetedBlock>)> {
        let request = AppendRequest {
            path: path.to_owned(),
            client_name: self.name.clone(),
            flags: Some(create_flag::APPEND),
        };
        let answer: AppendResponse = self.call("append", &request).await?;
        let status = answer.status.ok_or_else(|| strange("an opened file has no status"))?;
        Ok((status, answer.block))
    }

    /// Makes the namenode close the file at `path`, even if another client writes it. False while that is in
    /// progress.
    async fn recover_lease(&self, path: &str) -> Result<bool> {
        let request = RecoverLeaseRequest { path: path.to_owned(), client_name: self.name.clone() };
        let answer: DoneResponse = self.call("recoverLease", &request).await?;
        Ok(answer.done)
    }

    /// Recovers the file at `path` if this holder has it open, and none of its writers does: the answer
    /// to its opening was lost. False while the namenode is doing so.
    pub async fn recover_unknown(self: &Arc<Self>, path: &str) -> Result<bool> {
        let Some(id) = self.file_at(path).await? else { return Ok(true) };
        if self.open_files().ids.contains(&id) {
            return Ok(true);
        }
        OpenFile::new(self, path, id).recover().await
    }

    /// The id of the file at `path`.
    async fn file_at(&self, path: &str) -> Result<Option<u64>> {
        let request = GetFileInfoRequest { path: path.to_owned() };
        let answer: GetFileInfoResponse = self.call("getFileInfo", &request).await?;
        Ok(answer.status.and_then(|status| status.file_id))
    }

    fn open_files(&self) -> MutexGuard<'_, OpenFiles> {
        self.open_files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call that the namenode may get twice: it remembers the outcome, or the outcome is the same.
    async fn call<Q: Message, A: Message + Default>(&self, method: &'static str, request: &Q) -> Result<A> {
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

impl OpenFile {
    /// A file that `holder` has just opened for writing.
    pub fn new(holder: &Arc<LeaseHolder>, path: &str, id: u64) -> Self {
        let mut open = holder.open_files();
        open.ids.push(id);
        if !std::mem::replace(&mut open.is_renewing, true) {
            tokio::spawn(renew(Arc::downgrade(holder)));
        }
        drop(open);
        Self { holder: Arc::clone(holder), path: path.to_owned(), id }
    }

    /// Allocates a block after `previous`, on none of the `excluded` datanodes.
    pub async fn add_block(
        &self,
        previous: Option<ExtendedBlock>,
        excluded: Vec<Target>,
    ) -> Result<TargetedBlock> {
        let request = AddBlockRequest {
            path: self.path.clone(),
            client_name: self.holder.name.clone(),
            previous,
            excluded,
            file_id: self.id,
        };
        let mut backoff = Backoff::starting_at(FIRST_REPORT_PAUSE, PATIENCE).at_once(TRIES_AT_ONCE);
        loop {
            match self.holder.call::<_, BlockResponse>("addBlock", &request).await {
                Ok(answer) => return Ok(answer.block),
                // NotReplicatedYetException: no datanode has reported the previous block.
                Err(error) if is_not_reported(&error) && backoff.pause().await => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub async fn abandon_block(&self, block: ExtendedBlock) -> Result<()> {
        let request = AbandonBlockRequest {
            block,
            path: self.path.clone(),
            client_name: self.holder.name.clone(),
            file_id: self.id,
        };
        self.holder.call::<_, EmptyResponse>("abandonBlock", &request).await.map(drop)
    }

    /// Asks for another datanode for a pipeline. The answer has all its datanodes.
    pub async fn additional_datanode(
        &self,
        block: &ExtendedBlock,
        existing: Vec<Target>,
        existing_storage_ids: Vec<String>,
        excluded: Vec<Target>,
    ) -> Result<TargetedBlock> {
        let request = GetAdditionalDatanodeRequest {
            path: self.path.clone(),
            block: block.clone(),
            existing,
            excluded,
            wanted: 1,
            client_name: self.holder.name.clone(),
            existing_storage_ids,
            file_id: self.id,
        };
        Ok(self.holder.call::<_, BlockResponse>("getAdditionalDatanode", &request).await?.block)
    }

    /// A new generation stamp for a block whose pipeline is set up again.
    pub async fn update_block(&self, block: &ExtendedBlock) -> Result<TargetedBlock> {
        let request =
            UpdateBlockForPipelineRequest { block: block.clone(), client_name: self.holder.name.clone() };
        Ok(self.holder.call::<_, BlockResponse>("updateBlockForPipeline", &request).await?.block)
    }

    /// Records a pipeline that was set up again.
    pub async fn update_pipeline(
        &self,
        old_block: ExtendedBlock,
        new_block: ExtendedBlock,
        new_nodes: Vec<DatanodeId>,
        storage_ids: Vec<String>,
    ) -> Result<()> {
        let client_name = self.holder.name.clone();
        let request = UpdatePipelineRequest { client_name, old_block, new_block, new_nodes, storage_ids };
        self.holder.call::<_, EmptyResponse>("updatePipeline", &request).await.map(drop)
    }

    /// Records the file's blocks, and the length of the last one.
    pub async fn fsync(&self, last_block_length: Option<u64>) -> Result<()> {
        let request = FsyncRequest {
            path: self.path.clone(),
            client_name: self.holder.name.clone(),
            last_block_length: last_block_length.map(|length| length as i64),
            file_id: self.id,
        };
        self.holder.call::<_, EmptyResponse>("fsync", &request).await.map(drop)
    }

    /// Closes the file; waits until enough datanodes have reported its last block.
    pub async fn complete(&self, last: Option<ExtendedBlock>) -> Result<()> {
        let request = CompleteRequest {
            path: self.path.clone(),
            client_name: self.holder.name.clone(),
            last,
            file_id: self.id,
        };
        let mut backoff = Backoff::starting_at(FIRST_REPORT_PAUSE, PATIENCE).at_once(TRIES_AT_ONCE);
        while !self.holder.call::<_, DoneResponse>("complete", &request).await?.done {
            if !backoff.pause().await {
                let message = "too few datanodes have reported the last block to the namenode";
                return Err(Error::new(ErrorKind::Unavailable, message));
            }
        }
        Ok(())
    }

    /// Makes the namenode close the file, whose writer is gone. False while it is doing so.
    pub async fn recover(&self) -> Result<bool> {
        match self.is_left_open().await? {
            true => self.holder.recover_lease(&self.path).await,
            false => Ok(true),
        }
    }

    /// Whether the file waits at its path for a recovery: nobody has closed it or opened it again.
    async fn is_left_open(&self) -> Result<bool> {
        match self.fsync(None).await {
            Ok(()) => {}
            // A recovery has begun.
            Err(error) if error.kind() == ErrorKind::Busy && error.message().contains(OWNED_BY_NAMENODE) => {}
            // It is closed, or another client writes it, which a recovery would cut off.
            Err(error) if error.kind() == ErrorKind::Busy => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(self.holder.file_at(&self.path).await? == Some(self.id))
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let ids = &mut self.holder.open_files().ids;
        ids.iter().position(|id| *id == self.id).map(|at| ids.swap_remove(at));
    }
}

/// Renews the holder's leases, one call for all, as long as it has open files.
async fn renew(holder: Weak<LeaseHolder>) {
    loop {
        sleep(RENEWAL).await;
        let Some(holder) = holder.upgrade() else { return };
        {
            let mut open = holder.open_files();
            if open.ids.is_empty() {
                open.is_renewing = false;
                return;
            }
        }
        let request = RenewLeaseRequest { client_name: holder.name.clone() };
        if let Err(error) = holder.call::<_, EmptyResponse>("renewLease", &request).await {
            tracing::warn!(user = holder.user, %error, "leases aren't renewed");
        }
    }
}

fn is_not_reported(error: &Error) -> bool {
    error.kind() == ErrorKind::Busy && error.message().starts_with("Not replicated yet")
}

fn strange(what: &'static str) -> Error {
    Error::new(ErrorKind::Internal, what)
}

#[cfg(test)]
mod tests {
    use super::super::super::rpc::CONNECT_TIMEOUT;
    use super::super::fake;
    use super::*;
    use futures::future::join_all;
    use tokio::net::{TcpSocket, TcpStream};
    use tokio::time::timeout;

    #[tokio::test]
    async fn calls_wait_together_for_a_namenode_whose_host_is_down() {
        // As a host that is down, it never answers a connection: its queue is full.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let silent = socket.listen(1).unwrap();
        let address = silent.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(connected) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
            queued.push(connected.unwrap());
        }
        let active = fake::namenode(|_, _| Ok(Vec::new())).await;
        let namenode = Arc::new(Namenode::new(vec![address.to_string(), active]));
        let holder = LeaseHolder::new(namenode, "alice");
        let request = RenewLeaseRequest { client_name: holder.name.clone() };
        let begin = Instant::now();
        for outcome in join_all((0..16).map(|_| holder.call("renewLease", &request))).await {
            let EmptyResponse {} = outcome.unwrap();
        }
        assert!(begin.elapsed() < 3 * CONNECT_TIMEOUT, "{:?}", begin.elapsed());
    }
}
