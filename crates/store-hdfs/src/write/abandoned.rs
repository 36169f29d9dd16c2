//! Makes the namenode recover files that were left open: by a dropped writer, by an opening whose answer was lost, or
//! by another process of the session.
//!
//! The namenode accepts such an order from any client that has the right to write the file. It then closes
//! the file, whichever client has it open (`FSNamesystem.recoverLease`). So a check of the lease's holder
//! comes right before each order, and an order is never repeated without another check.

use super::super::errors::is_about_the_namenode;
use super::super::recovery::OUTAGE_LIMIT;
use super::super::retry::Backoff;
use super::super::wire::Empty;
use super::holder::LeaseHolder;
use super::open_file::OpenFile;
use super::wire::{DoneResponse, FsyncRequest, Permission, RecoverLeaseRequest, SetPermissionRequest};
use std::time::Duration;
use strait_store::{ErrorKind, Result, fail};
use tokio::time::{Instant, timeout};

/// Part of the namenode's answer to a writer whose file the namenode itself is recovering
/// (`FSNamesystem.checkLease`, `HdfsServerConstants.NAMENODE_LEASE_HOLDER`).
const OWNED_BY_NAMENODE: &str = "is not the lease owner (=HDFS_NameNode";

/// Prefix of a file's path by its id (`FSDirectory.DOT_INODES_STRING`).
const INODES: &str = "/.reserved/.inodes";

/// The owner's right to write the file.
const OWNER_WRITES: u32 = 0o200;
/// The bits of a permission. Namenodes have other flags above them (`FsPermission.toExtendedShort`).
const PERMISSION_BITS: u32 = 0o7777;

/// Time limit of one order to the namenode, and of the wait for the holder's running openings before it. The
/// holder's next openings wait for both. Callers repeat an order that timed out.
const ORDER_TIMEOUT: Duration = Duration::from_secs(5);

/// If more time than this has passed since the check, the order isn't sent: it could close a file that
/// another client has opened since then.
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// Makes the namenode close `file`, whose writer is gone. Returns false while the namenode is doing so.
pub async fn recover(file: &OpenFile) -> Result<bool> {
    let OpenFile { holder, path, id, opening } = file;
    Abandoned { by: holder, lease_holder: holder.name(), path, id: *id, opening: *opening }.recover().await
}

/// Recovers the file at `path` if `holder` has it open but none of its writers does, because the answer to
/// its opening was lost. Returns false while the namenode is doing so.
pub async fn recover_unknown(holder: &LeaseHolder, path: &str) -> Result<bool> {
    recover_from(holder, holder.name(), path).await
}

/// Recovers the file at `path`, which is open by `lease_holder`, another holder of the same session. Returns
/// false while the namenode is doing so. Until then, that holder keeps the lease, so an opening gets
/// `RecoveryInProgressException`, and waits.
pub async fn recover_from(by: &LeaseHolder, lease_holder: &str, path: &str) -> Result<bool> {
    let Some(id) = by.file_at(path).await? else { return Ok(true) };
    Abandoned { by, lease_holder, path, id, opening: 0 }.recover().await
}

/// A file that is to be recovered.
struct Abandoned<'a> {
    /// The holder that orders the recovery.
    by: &'a LeaseHolder,
    /// The name of the client that has the lease.
    lease_holder: &'a str,
    /// The path at which it was opened.
    path: &'a str,
    id: u64,
    /// The number of the opening by `by`. 0 if it isn't known, or if another holder opened the file.
    opening: u64,
}

impl Abandoned<'_> {
    /// Recovers the file, unless it is closed, or another client or a later opening has it open.
    async fn recover(&self) -> Result<bool> {
        match self.order().await {
            Err(refusal) if refusal.kind() == ErrorKind::PermissionDenied => {
                let Some(bits) = self.bits_without_write().await? else { return Err(refusal) };
                // Only the owner can do this. Otherwise the file would stay open for as long as the holder
                // has other files open.
                let ordered = match self.set_permission(bits | OWNER_WRITES).await {
                    Ok(()) => self.order().await,
                    Err(error) => Err(error),
                };
                self.restore_permission(bits).await;
                ordered
            }
            outcome => outcome,
        }
    }

    /// The file's path by its id. Its usual path may lead to another file by now, or when the order arrives.
    fn number(&self) -> String {
        format!("{INODES}/{}", self.id)
    }

    /// Orders the recovery, unless another client has the file open: the namenode would close that file, too.
    async fn order(&self) -> Result<bool> {
        let Self { by, lease_holder, path, id, opening } = *self;
        let Ok(_recovering) = timeout(ORDER_TIMEOUT, by.recovering()).await else { return Ok(false) };
        // From here on, the holder opens no file.
        if by.has_opened_again(id, opening) {
            return Ok(true);
        }
        let order = async {
            let begin = Instant::now();
            if !self.is_left_open().await? {
                return Ok(true);
            }
            if begin.elapsed() > LONGEST_LOOK {
                return Ok(false);
            }
            let request = RecoverLeaseRequest { path: self.number(), client_name: lease_holder.to_owned() };
            // The call isn't repeated without another check, since it could close the file of the next
            // writer.
            Ok(by.call_once::<_, DoneResponse>("recoverLease", &request).await?.done)
        };
        timeout(ORDER_TIMEOUT, order).await.unwrap_or_else(|_| {
            let limit = ORDER_TIMEOUT.as_secs();
            fail(
                ErrorKind::TimedOut,
                format!(
                    "{path}: the namenode didn't confirm within {limit} s that it closes this file, which may have \
                     been left open; Strait may try again"
                ),
            )
        })
    }

    /// Whether the file waits for a recovery: it isn't closed, and no other client than `lease_holder` has it
    /// open.
    async fn is_left_open(&self) -> Result<bool> {
        let request = FsyncRequest {
            path: self.path.to_owned(),
            client_name: self.lease_holder.to_owned(),
            last_block_length: None,
            file_id: self.id,
        };
        match self.by.call::<_, Empty>("fsync", &request).await {
            Ok(Empty {}) => Ok(true),
            // A recovery has begun.
            Err(error) if error.kind() == ErrorKind::Busy && is_owned_by_namenode(error.message()) => {
                Ok(true)
            }
            // The file is closed, or another client is writing it, and would lose it by a recovery.
            Err(error) if error.kind() == ErrorKind::Busy => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The permission of the file, if its owner has no right to write it.
    async fn bits_without_write(&self) -> Result<Option<u32>> {
        let status = self.by.status_of(&self.number()).await?;
        let bits = status.map(|status| status.permission.bits & PERMISSION_BITS);
        Ok(bits.filter(|bits| bits & OWNER_WRITES == 0))
    }

    /// Removes the owner's right to write again, unless the permission has changed since. Waits for a
    /// namenode that can't be reached.
    async fn restore_permission(&self, bits: u32) {
        let mut backoff = Backoff::within(OUTAGE_LIMIT);
        loop {
            let restored = async {
                match self.by.status_of(&self.number()).await? {
                    Some(status) if status.permission.bits & PERMISSION_BITS == bits | OWNER_WRITES => {
                        self.set_permission(bits).await
                    }
                    _ => Ok(()),
                }
            };
            match restored.await {
                Ok(()) => return,
                Err(error) if is_about_the_namenode(error.kind()) && backoff.pause().await => {}
                Err(error) => {
                    let (path, mode) = (self.path, format!("{bits:o}"));
                    return tracing::warn!(path, mode, %error, "couldn't restore a recovered file's mode, so \
                        its owner can write it; hdfs dfs -chmod sets the mode");
                }
            }
        }
    }

    async fn set_permission(&self, bits: u32) -> Result<()> {
        let request = SetPermissionRequest { path: self.number(), permission: Permission { bits } };
        self.by.call::<_, Empty>("setPermission", &request).await.map(drop)
    }
}

/// The file's path follows the owner's name, and may contain any words.
fn is_owned_by_namenode(message: &str) -> bool {
    message.split_once(": ").is_some_and(|(owner, _)| owner.contains(OWNED_BY_NAMENODE))
}

#[cfg(test)]
mod tests {
    use super::super::super::namenode::Namenode;
    use super::super::fake::{self, Answer};
    use super::super::wire::{AppendResponse, GetFileInfoResponse, HdfsFileStatus};
    use super::*;
    use prost::Message;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    const PATH: &str = "/f";
    const ID: u64 = 7;
    const NUMBER: &str = "/.reserved/.inodes/7";

    /// A holder, and the orders that its namenode receives. The namenode has the file [`ID`] at each path. It
    /// gives this `answer` to an order, and `to_look` to the check before it.
    async fn holder_with(
        to_look: impl Fn(&FsyncRequest) -> Answer + Send + Sync + 'static,
        answer: Answer,
    ) -> (Arc<LeaseHolder>, UnboundedReceiver<RecoverLeaseRequest>) {
        let (sender, recovered) = unbounded_channel();
        let status =
            move |file_id| Some(HdfsFileStatus { file_id: Some(file_id), ..HdfsFileStatus::default() });
        let answer = move |method: &str, request: &[u8]| match method {
            "fsync" => to_look(&FsyncRequest::decode(request).unwrap()),
            "getFileInfo" => Answer::of(&GetFileInfoResponse { status: status(ID) }),
            "append" => Answer::of(&AppendResponse { block: None, status: status(ID + 1) }),
            "recoverLease" => {
                sender.send(RecoverLeaseRequest::decode(request).unwrap()).unwrap();
                answer.clone()
            }
            _ => Answer::failure("not now"),
        };
        let namenode = Arc::new(Namenode::new(vec![fake::namenode(answer).await]));
        (Arc::new(LeaseHolder::new(namenode, "alice")), recovered)
    }

    /// The same, for a file that is still open.
    async fn holder(answer: Answer) -> (Arc<LeaseHolder>, UnboundedReceiver<RecoverLeaseRequest>) {
        holder_with(|_| Answer::of(&Empty {}), answer).await
    }

    /// The namenode's answer for a file that this client has open.
    fn owned_by(client: &str, path: &str) -> Answer {
        let class = "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException";
        Answer::Exception(
            class,
            format!("Client (=a) is not the lease owner (={client}: {path} (inode {ID}) b"),
        )
    }

    fn done(done: bool) -> Answer {
        Answer::of(&DoneResponse { done })
    }

    #[tokio::test]
    async fn a_file_that_its_holder_has_opened_again_is_left_alone() {
        let (holder, mut recovered) = holder(done(false)).await;
        let abandoned = OpenFile::new(&holder, PATH, ID);
        let next = OpenFile::new(&holder, PATH, ID);
        assert!(recover(&abandoned).await.unwrap(), "nothing is left to do");
        assert!(recover_unknown(&holder, PATH).await.unwrap(), "a writer has it");
        assert!(recovered.try_recv().is_err(), "the next writer would lose its lease");
        // Then the next one is abandoned, too.
        assert!(!recover(&next).await.unwrap());
        assert_eq!(recovered.recv().await.unwrap().path, NUMBER);
        drop(next);
        assert!(!recover(&abandoned).await.unwrap());
        assert_eq!(recovered.recv().await.unwrap().path, NUMBER);
        drop(abandoned);
        assert!(!recover_unknown(&holder, PATH).await.unwrap());
        assert_eq!(recovered.recv().await.unwrap().path, NUMBER);
    }

    #[tokio::test]
    async fn a_recovery_leaves_the_file_alone_that_took_the_path_meanwhile() {
        let (holder, mut recovered) = holder(done(true)).await;
        let abandoned = OpenFile::new(&holder, PATH, ID);
        let opening = holder.opening().await;
        let recovery = tokio::spawn(async move { recover(&abandoned).await });
        tokio::task::yield_now().await;
        let _new = OpenFile::new(&holder, PATH, ID + 1);
        drop(opening);
        assert!(recovery.await.unwrap().unwrap());
        assert_eq!(recovered.recv().await.unwrap().path, NUMBER);
    }

    #[tokio::test]
    async fn the_look_for_another_writer_comes_right_before_the_order() {
        let has_other = Arc::new(AtomicBool::new(false));
        let look = Arc::clone(&has_other);
        let to_look = move |_: &FsyncRequest| match look.load(Ordering::Relaxed) {
            true => owned_by("b", PATH),
            false => Answer::of(&Empty {}),
        };
        let (holder, mut recovered) = holder_with(to_look, done(true)).await;
        let opening = holder.opening().await;
        let by = Arc::clone(&holder);
        let recovery = tokio::spawn(async move { recover_from(&by, "a", PATH).await });
        // The recovery waits for the opening. Before that ends, another client opens the file.
        strait_testkit::wait::pause_task("the recovery waits", Duration::from_millis(200)).await;
        has_other.store(true, Ordering::Relaxed);
        drop(opening);
        assert!(recovery.await.unwrap().unwrap(), "nothing is left to do");
        assert!(recovered.try_recv().is_err(), "the other client would lose the file");
    }

    #[tokio::test]
    async fn an_order_whose_answer_is_lost_is_not_repeated_without_another_look() {
        let looks = AtomicU32::new(0);
        let to_look = move |_: &FsyncRequest| match looks.fetch_add(1, Ordering::Relaxed) {
            0 => Answer::of(&Empty {}),
            _ => owned_by("b", PATH),
        };
        let (holder, mut recovered) = holder_with(to_look, Answer::HangUp).await;
        let abandoned = OpenFile::new(&holder, PATH, ID);
        assert_eq!(recover(&abandoned).await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        recovered.recv().await.unwrap();
        assert!(recover(&abandoned).await.unwrap(), "nothing is left to do");
        assert!(recovered.try_recv().is_err(), "the next writer would lose the file");
    }

    #[tokio::test]
    async fn a_recovery_is_in_the_name_of_the_client_that_has_the_lease() {
        let to_look = |look: &FsyncRequest| match look.client_name == "a" {
            // The namenode is already recovering the file.
            true => owned_by("HDFS_NameNode-2026", PATH),
            false => owned_by("b", PATH),
        };
        let (holder, mut recovered) = holder_with(to_look, done(true)).await;
        assert!(recover_from(&holder, "a", PATH).await.unwrap());
        let order = recovered.recv().await.unwrap();
        assert_eq!((&*order.client_name, &*order.path), ("a", NUMBER));
        // The words of the path don't matter.
        let (holder, mut recovered) =
            holder_with(|_| owned_by("b", &format!("/x: {OWNED_BY_NAMENODE}")), done(true)).await;
        assert!(recover_from(&holder, "a", PATH).await.unwrap());
        assert!(recovered.try_recv().is_err(), "b has it open");
    }

    #[tokio::test]
    async fn a_file_that_its_owner_may_not_write_is_recovered_and_keeps_its_permission() {
        let (sender, mut calls) = unbounded_channel();
        let bits = AtomicU32::new(0o440);
        let answer = move |method: &str, request: &[u8]| {
            let permission = Permission { bits: bits.load(Ordering::Relaxed) };
            match method {
                "getFileInfo" => {
                    let status =
                        HdfsFileStatus { file_id: Some(ID), permission, ..HdfsFileStatus::default() };
                    return Answer::of(&GetFileInfoResponse { status: Some(status) });
                }
                "setPermission" => {
                    let set = SetPermissionRequest::decode(request).unwrap().permission.bits;
                    bits.store(set, Ordering::Relaxed);
                    sender.send(format!("{set:o}")).unwrap();
                }
                "recoverLease" if permission.bits & OWNER_WRITES == 0 => {
                    let class = "org.apache.hadoop.security.AccessControlException";
                    return Answer::Exception(
                        class,
                        "Permission denied: user=alice, access=WRITE".to_owned(),
                    );
                }
                "recoverLease" => {
                    sender.send("recovered".to_owned()).unwrap();
                    return done(true);
                }
                _ => {}
            }
            Answer::of(&Empty {})
        };
        let namenode = Arc::new(Namenode::new(vec![fake::namenode(answer).await]));
        let holder = Arc::new(LeaseHolder::new(namenode, "alice"));
        assert!(recover(&OpenFile::new(&holder, PATH, ID)).await.unwrap());
        for due in ["640", "recovered", "440"] {
            assert_eq!(calls.recv().await.unwrap(), due);
        }
    }

    #[tokio::test]
    async fn openings_do_not_wait_for_an_order_that_the_namenode_does_not_take() {
        let (holder, mut recovered) = holder(Answer::Silence).await;
        let abandoned = OpenFile::new(&holder, PATH, ID);
        let recovery = tokio::spawn(async move { recover(&abandoned).await });
        recovered.recv().await.unwrap();
        let opening = tokio::spawn(async move { OpenFile::append(&holder, "/other").await });
        tokio::time::pause();
        tokio::time::advance(ORDER_TIMEOUT).await;
        tokio::time::resume();
        let ended = timeout(ORDER_TIMEOUT, recovery).await.expect("the order has no limit").unwrap();
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::TimedOut);
        let opened = timeout(ORDER_TIMEOUT, opening).await.expect("the opening waits").unwrap();
        assert_eq!(opened.unwrap().file.id, ID + 1);
    }
}
