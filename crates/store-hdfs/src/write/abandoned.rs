//! Makes the namenode recover a holder's files that none of its writers has open any more.

use super::super::errors::is_about_the_namenode;
use super::super::recovery::OUTAGE_LIMIT;
use super::super::retry::Backoff;
use super::super::wire::Empty;
use super::holder::LeaseHolder;
use super::open_file::OpenFile;
use super::wire::{DoneResponse, FsyncRequest, Permission, RecoverLeaseRequest, SetPermissionRequest};
use std::time::Duration;
use strait_store::{ErrorKind, Result, fail};
use tokio::time::timeout;

/// Part of the namenode's answer to a writer whose file the namenode itself recovers
/// (`FSNamesystem.checkLease`, `HdfsServerConstants.NAMENODE_LEASE_HOLDER`).
const OWNED_BY_NAMENODE: &str = "is not the lease owner (=HDFS_NameNode";

/// The name of any file, by its id (`FSDirectory.DOT_INODES_STRING`).
const INODES: &str = "/.reserved/.inodes";

/// The right to write, for a file's owner.
const OWNER_WRITES: u32 = 0o200;
/// The bits of a permission. Above them namenodes have others (`FsPermission.toExtendedShort`).
const PERMISSION_BITS: u32 = 0o7777;

/// Time limit of one order to the namenode, since the user's openings wait meanwhile. The recovery is repeated
/// later.
const ORDER_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes the namenode close `file`, whose writer is gone. False while it is doing so.
pub async fn recover(file: &OpenFile) -> Result<bool> {
    let OpenFile { holder, path, id, opening } = file;
    Left { holder, owner: holder.name(), path, id: *id, opening: *opening }.recover().await
}

/// Recovers the file at `path` if `holder` has it open, and none of its writers does: the answer to its
/// opening was lost. False while the namenode is doing so.
pub async fn recover_unknown(holder: &LeaseHolder, path: &str) -> Result<bool> {
    recover_from(holder, holder.name(), path).await
}

/// Recovers the file at `path`, which `owner`, another holder of the session, has open. False while the namenode
/// is doing so. The file stays the other's until then, so whoever opens it learns that it is being recovered.
pub async fn recover_from(holder: &LeaseHolder, owner: &str, path: &str) -> Result<bool> {
    let Some(id) = holder.file_at(path).await? else { return Ok(true) };
    Left { holder, owner, path, id, opening: 0 }.recover().await
}

/// A file that nobody writes any more, and that the namenode hasn't closed.
struct Left<'a> {
    /// Who orders the recovery.
    holder: &'a LeaseHolder,
    /// Name of the holder that has the file open.
    owner: &'a str,
    path: &'a str,
    id: u64,
    /// The opening by `holder`; 0 if it isn't known, or another's.
    opening: u64,
}

impl Left<'_> {
    /// Recovers the file, unless it is closed, or open by others than its owner, or by a later opening of the
    /// holder.
    async fn recover(self) -> Result<bool> {
        let Self { holder, owner, path, id, opening } = self;
        if holder.has_opened_again(id, opening) || !is_left_open(holder, owner, path, id).await? {
            return Ok(true);
        }
        // It may have been renamed, and its path may lead to another file.
        let number = format!("{INODES}/{id}");
        let path = if holder.file_at(path).await? == Some(id) { path } else { &number };
        let left = Left { path, ..self };
        match left.order().await {
            Err(refusal) if refusal.kind() == ErrorKind::PermissionDenied => {
                let Some(bits) = bits_without_write(holder, &number).await? else { return Err(refusal) };
                // Only the owner may do this. Without it the file would stay open for as long as the holder
                // writes others.
                let ordered = match set_permission(holder, &number, bits | OWNER_WRITES).await {
                    Ok(()) => left.order().await,
                    Err(error) => Err(error),
                };
                restore_permission(holder, &number, bits).await;
                ordered
            }
            outcome => outcome,
        }
    }

    /// Orders the recovery, unless the holder has opened the file again.
    async fn order(&self) -> Result<bool> {
        let order = async {
            let _recovering = self.holder.recovering().await;
            // From here on, the holder opens no file.
            if self.holder.has_opened_again(self.id, self.opening) {
                return Ok(true);
            }
            let (path, client_name) = (self.path.to_owned(), self.owner.to_owned());
            let request = RecoverLeaseRequest { path, client_name };
            Ok(self.holder.call::<_, DoneResponse>("recoverLease", &request).await?.done)
        };
        match timeout(ORDER_TIMEOUT, order).await {
            Ok(outcome) => outcome,
            Err(_) => fail(ErrorKind::TimedOut, "the namenode doesn't take the order to recover a file"),
        }
    }
}

/// The permission of a file whose owner may not write it.
async fn bits_without_write(holder: &LeaseHolder, path: &str) -> Result<Option<u32>> {
    let bits = holder.status_of(path).await?.map(|status| status.permission.bits & PERMISSION_BITS);
    Ok(bits.filter(|bits| bits & OWNER_WRITES == 0))
}

/// Takes the right to write from the owner again, if nobody has set another permission meanwhile. Waits for a
/// namenode that is away.
async fn restore_permission(holder: &LeaseHolder, path: &str, bits: u32) {
    let mut backoff = Backoff::within(OUTAGE_LIMIT);
    loop {
        let restored = async {
            match holder.status_of(path).await? {
                Some(status) if status.permission.bits & PERMISSION_BITS == bits | OWNER_WRITES => {
                    set_permission(holder, path, bits).await
                }
                _ => Ok(()),
            }
        };
        match restored.await {
            Ok(()) => return,
            Err(error) if is_about_the_namenode(error.kind()) && backoff.pause().await => {}
            Err(error) => return tracing::warn!(path, %error, "a recovered file's owner may still write it"),
        }
    }
}

async fn set_permission(holder: &LeaseHolder, path: &str, bits: u32) -> Result<()> {
    let request = SetPermissionRequest { path: path.to_owned(), permission: Permission { bits } };
    holder.call::<_, Empty>("setPermission", &request).await.map(drop)
}

/// Whether the file waits for a recovery: nobody has closed it, and no other client than `owner` has opened it.
async fn is_left_open(holder: &LeaseHolder, owner: &str, path: &str, id: u64) -> Result<bool> {
    let request = FsyncRequest {
        path: path.to_owned(),
        client_name: owner.to_owned(),
        last_block_length: None,
        file_id: id,
    };
    match holder.call::<_, Empty>("fsync", &request).await {
        Ok(Empty {}) => Ok(true),
        // A recovery has begun.
        Err(error) if error.kind() == ErrorKind::Busy && is_owned_by_namenode(error.message()) => Ok(true),
        // It is closed, or another client writes it, which a recovery would cut off.
        Err(error) if error.kind() == ErrorKind::Busy => Ok(false),
        Err(error) => Err(error),
    }
}

/// The file's path comes after the owner's name, and may have any words.
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
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    const PATH: &str = "/f";
    const ID: u64 = 7;

    /// A holder, and the paths that the namenode gets orders to recover. The namenode has the file with the
    /// id `at_path` at each path, and gives this `answer` to an order.
    async fn holder(at_path: u64, answer: Answer) -> (Arc<LeaseHolder>, UnboundedReceiver<String>) {
        let (sender, recovered) = unbounded_channel();
        let status =
            move |file_id| Some(HdfsFileStatus { file_id: Some(file_id), ..HdfsFileStatus::default() });
        let answer = move |method: &str, request: &[u8]| match method {
            "fsync" => Answer::of(&Empty {}),
            "getFileInfo" => Answer::of(&GetFileInfoResponse { status: status(at_path) }),
            "append" => Answer::of(&AppendResponse { block: None, status: status(ID + 1) }),
            "recoverLease" => {
                sender.send(RecoverLeaseRequest::decode(request).unwrap().path).unwrap();
                answer.clone()
            }
            _ => Answer::failure("not now"),
        };
        let namenode = Arc::new(Namenode::new(vec![fake::namenode(answer).await]));
        (Arc::new(LeaseHolder::new(namenode, "alice")), recovered)
    }

    fn done(done: bool) -> Answer {
        Answer::of(&DoneResponse { done })
    }

    #[tokio::test]
    async fn a_file_that_its_holder_has_opened_again_is_left_alone() {
        let (holder, mut recovered) = holder(ID, done(false)).await;
        let abandoned = OpenFile::new(&holder, PATH, ID);
        let next = OpenFile::new(&holder, PATH, ID);
        assert!(recover(&abandoned).await.unwrap(), "nothing is left to do");
        assert!(recover_unknown(&holder, PATH).await.unwrap(), "a writer has it");
        assert!(recovered.try_recv().is_err(), "the next writer would lose its lease");
        // Then the next one is abandoned, too.
        assert!(!recover(&next).await.unwrap());
        assert_eq!(recovered.recv().await.unwrap(), PATH);
        drop(next);
        assert!(!recover(&abandoned).await.unwrap());
        assert_eq!(recovered.recv().await.unwrap(), PATH);
        drop(abandoned);
        assert!(!recover_unknown(&holder, PATH).await.unwrap());
        assert_eq!(recovered.recv().await.unwrap(), PATH);
    }

    #[tokio::test]
    async fn a_renamed_file_is_recovered_by_its_number() {
        let (holder, mut recovered) = holder(ID + 1, done(true)).await;
        assert!(recover(&OpenFile::new(&holder, PATH, ID)).await.unwrap());
        assert_eq!(recovered.recv().await.unwrap(), "/.reserved/.inodes/7");
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
        let (holder, mut recovered) = holder(ID, Answer::Silence).await;
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
