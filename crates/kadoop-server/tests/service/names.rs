//! The namespace over sockets.

use crate::{
    processes::{NamenodeProcess, Site},
    support::{client, client_at, namenode, namenode_options, superuser, user},
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use strait_kadoop_client::{Client, ClientOptions};
use strait_kadoop_core::{Error, messages::Attributes};
use strait_kadoop_server::NamenodeServer;
use strait_kadoop_wire::Key;
use strait_testkit::wait::{self, wait_until};

#[test]
fn names_are_made_moved_listed_and_removed() {
    let directory = tempfile::tempdir().unwrap();
    let namenode = namenode(directory.path());
    let (client, me) = (client(&namenode), superuser());
    client.mkdirs(&me, "/a/b", 0o755).unwrap();
    client.mkdirs(&me, "/a/c", 0o700).unwrap();
    assert_eq!(client.stat(&me, "/a/c").unwrap().mode, 0o700);
    let page = client.list(&me, "/a", "", 1).unwrap();
    assert_eq!((page.entries[0].name.as_str(), page.more), ("b", true));
    assert_eq!(client.list(&me, "/a", "b", 9).unwrap().entries[0].name, "c");
    client.rename(&me, "/a/b", "/d", false).unwrap();
    assert_eq!(client.stat(&me, "/a/b").unwrap_err().error, Error::NotFound);
    assert_eq!(client.rename(&me, "/d", "/a", false).unwrap_err().error, Error::AlreadyExists);
    assert_eq!(client.delete(&me, "/a", false).unwrap_err().error, Error::NotEmpty);
    assert!(client.delete(&me, "/a", true).unwrap());
    assert!(!client.delete(&me, "/a", true).unwrap(), "there was nothing any more");
    let attributes = Attributes { mode: Some(0o711), owner: Some("ada".into()), ..Attributes::default() };
    client.set_attributes(&me, "/d", attributes).unwrap();
    let status = client.stat(&me, "/d").unwrap();
    assert_eq!((status.mode, status.owner.as_str()), (0o711, "ada"));
    assert_eq!(client.summary(&me, "/").unwrap().directories, 2);
    let invalid = client.stat(&me, "relative").unwrap_err();
    assert_eq!(invalid.error, Error::Invalid("as the peer says"));
    assert!(invalid.to_string().contains("doesn't begin with /"), "{invalid}");
}

#[test]
fn users_get_only_what_they_have_rights_to() {
    let directory = tempfile::tempdir().unwrap();
    let namenode = namenode(directory.path());
    let (client, ada) = (client(&namenode), user("ada"));
    assert_eq!(client.mkdirs(&ada, "/x", 0o755).unwrap_err().error, Error::PermissionDenied);
    client.mkdirs(&superuser(), "/home", 0o1777).unwrap();
    client.mkdirs(&ada, "/home/ada", 0o700).unwrap();
    assert_eq!(client.list(&user("bob"), "/home/ada", "", 9).unwrap_err().error, Error::PermissionDenied);
    assert_eq!(client.delete(&user("bob"), "/home/ada", false).unwrap_err().error, Error::PermissionDenied);
    let admin = strait_kadoop_core::messages::Caller {
        user: "eve".into(),
        groups: vec!["supergroup".into()],
        session: None,
    };
    assert!(client.list(&admin, "/home/ada", "", 9).unwrap().entries.is_empty());
}

#[test]
fn who_has_another_key_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let namenode = namenode(directory.path());
    let connect = |key: Key| {
        let options = ClientOptions::new(namenode.address().to_string(), key.for_clients());
        Client::connect(options).map(|_| ()).unwrap_err().error
    };
    assert_eq!(connect(Key::new([8; 32])), Error::Unauthenticated);
}

#[test]
fn two_namenodes_dont_share_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let first = namenode(directory.path());
    let second = NamenodeServer::start(namenode_options(directory.path())).err().unwrap();
    assert_eq!(second.kind(), std::io::ErrorKind::ResourceBusy, "{second}");
    client(&first).mkdirs(&superuser(), "/still-here", 0o755).unwrap();
    drop(first);
    let again = namenode(directory.path());
    assert!(client(&again).stat(&superuser(), "/still-here").is_ok());
}

#[test]
fn nothing_acknowledged_is_lost_when_the_namenode_is_killed_and_nothing_is_done_twice() {
    /// Some tenths of a second of four clients.
    const MOVED_BETWEEN_KILLS: usize = 100;
    let directory = tempfile::tempdir().unwrap();
    let mut process = NamenodeProcess::start(Site::new(directory.path()));
    let address = process.address.clone();
    let client = client_at(&address);
    let (stop, moved) = (AtomicBool::new(false), AtomicUsize::new(0));
    let made = std::thread::scope(|scope| {
        let worker = |of: usize| {
            let (client, stop, moved) = (client.clone(), &stop, &moved);
            move || {
                let mut made = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let path = format!("/{of}-{}", made.len());
                    client.mkdirs(&superuser(), &path, 0o755).unwrap();
                    // If executed twice, this would find nothing to move, or an existing target.
                    client.rename(&superuser(), &path, &format!("{path}-moved"), false).unwrap();
                    made.push(format!("{path}-moved"));
                    moved.fetch_add(1, Ordering::Relaxed);
                }
                made
            }
        };
        let workers: Vec<_> = (0..4).map(|of| scope.spawn(worker(of))).collect();
        for _ in 0..3 {
            let before = moved.load(Ordering::Relaxed);
            // Asserted once the clients have ended.
            wait_until(wait::DEADLINE, || moved.load(Ordering::Relaxed) >= before + MOVED_BETWEEN_KILLS);
            process.kill_and_start();
        }
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<String>>()
    });
    assert!(made.len() >= 3 * MOVED_BETWEEN_KILLS, "{} made", made.len());
    for path in &made {
        assert!(client.stat(&superuser(), path).is_ok(), "{path} is gone");
    }
    assert_eq!(client.summary(&superuser(), "/").unwrap().directories, made.len() as u64 + 1);
}

#[test]
fn a_checkpoint_is_written_beside_the_service_and_a_start_takes_it_up() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = namenode_options(directory.path());
    options.checkpoint_records = 10;
    let namenode = NamenodeServer::start(options).unwrap();
    let client = client(&namenode);
    let checkpoints = || {
        let entries = std::fs::read_dir(directory.path()).unwrap();
        entries
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("checkpoint-0"))
            .count()
    };
    // Records are logged while the checkpoint is made. Once, it took those for lost.
    let done = AtomicBool::new(false);
    let made = std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let mut made = 0;
            while !done.load(Ordering::Relaxed) {
                client.mkdirs(&superuser(), &format!("/{made}"), 0o755).unwrap();
                made += 1;
            }
            made
        });
        let written = wait_until(wait::DEADLINE, || checkpoints() >= 2);
        done.store(true, Ordering::Relaxed);
        assert!(written);
        busy.join().unwrap()
    });
    drop(namenode);
    let again = crate::support::namenode(directory.path());
    let summary = crate::support::client(&again).summary(&superuser(), "/").unwrap();
    assert_eq!(summary.directories, made + 1);
}

#[test]
fn after_a_clean_end_a_start_reads_what_was_logged_and_no_blank_space() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let namenode = crate::support::namenode(directory.path());
        let client = crate::support::client(&namenode);
        client.mkdirs(&superuser(), &format!("/{round}"), 0o755).unwrap();
        assert_eq!(client.summary(&superuser(), "/").unwrap().directories, round + 2);
    }
    let entries = std::fs::read_dir(directory.path()).unwrap().map(Result::unwrap);
    let log = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("log-"));
    let bytes: u64 = log.map(|entry| entry.metadata().unwrap().len()).sum();
    assert!(bytes < 64 << 10, "{bytes} bytes of log");
}
