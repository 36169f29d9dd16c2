//! One user's open files and checksums leave room for the process and for others.

use crate::support::up::Up;
use crate::support::{Gateway, Run, command};
use bytes::Bytes;
use futures::stream::{StreamExt, TryStreamExt, iter};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_client::{Options, StraitStore};
use strait_store::{CreateOptions, FileReader, FileSystem, FileSystemExt, FileWriter, Principal, StorePath};
use strait_testkit::attacks::{Attack, log_in};
use strait_wire::Secret;

/// Limit of the gateway's resident memory.
const MOST_MIB: u64 = 256;
/// Bytes of one call of the gateway's clients.
const MIB: usize = 1 << 20;
/// Requests of the attacker at a time.
const AT_ONCE: usize = 16;
/// Time of an attack that has no end of its own.
const UNREAD_FOR: Duration = Duration::from_secs(5);
/// Time limit for serving the other user, on a loaded machine.
const SERVED: Duration = Duration::from_secs(20);

fn path(text: &str) -> StorePath {
    StorePath::parse(text).unwrap()
}

fn whoever() -> Principal {
    Principal::new("the session decides")
}

/// A cluster, and its gateway, where two users log in.
struct Attacked {
    gateway: Gateway,
    _up: Up,
}

fn attacked() -> Attacked {
    let up = Up::start();
    let (kadoop, key) = (up.kadoop(), up.data().join("kadoop.key").display().to_string());
    let shared = format!("{kadoop}/shared");
    for action in [&["mkdir", &shared][..], &["chmod", "777", &shared]] {
        up.run(["--kadoop-key", &key].into_iter().chain(action.iter().copied()), b"").ok();
    }
    let gateway = Gateway::start(|dir| {
        let cluster = ["--store", &kadoop, "--kadoop-key", &key].map(str::to_owned);
        [&cluster[..], &two_users(dir)].concat()
    });
    Attacked { gateway, _up: up }
}

fn secret(user: &str) -> String {
    format!("{user}'s secret")
}

/// The flags of a gateway where alice and bob log in.
fn two_users(dir: &Path) -> Vec<String> {
    for user in ["alice", "bob"] {
        let mut passwd = command(dir);
        passwd.args(["passwd", "--file", "passwords", user]);
        Run::of(passwd, format!("{}\n", secret(user)).as_bytes()).ok();
    }
    vec!["--passwords".to_owned(), dir.join("passwords").display().to_string()]
}

async fn login(gateway: &str, user: &'static str) -> Arc<StraitStore> {
    let options = Options {
        user: Some(user.to_owned()),
        password: Some(Arc::new(move || Ok(Secret(secret(user))))),
        ..Options::default()
    };
    Arc::new(StraitStore::connect(gateway, options).await.unwrap())
}

async fn both(gateway: &str) -> (Arc<StraitStore>, Arc<StraitStore>) {
    (login(gateway, "alice").await, login(gateway, "bob").await)
}

/// Runs another user's stat, put and read in a directory.
async fn assert_served(store: &StraitStore, directory: &str) {
    let (who, at, content) = (whoever(), path(&format!("{directory}/bobs")), Bytes::from(vec![7; MIB]));
    let options = CreateOptions { overwrite: true, ..CreateOptions::default() };
    let work = async {
        store.stat(&who, &path(directory)).await.unwrap();
        store.write_all(&who, &at, &options, content.clone()).await.unwrap();
        assert!(store.read_all(&who, &at, 2 * MIB).await.unwrap() == content, "other bytes");
    };
    tokio::time::timeout(SERVED, work).await.expect("the other user isn't served");
}

async fn put(store: &StraitStore, at: &StorePath, mib: usize) {
    let mut writer = store.create(&whoever(), at, &CreateOptions::default()).await.unwrap();
    for _ in 0..mib {
        writer.append(Bytes::from(vec![3; MIB])).await.unwrap();
    }
    writer.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_one_user_has_begun_to_read_hold_little_and_others_are_served() {
    let attacked = attacked();
    let (alice, bob) = both(&attacked.gateway.address).await;
    let file = path("/shared/file");
    put(&alice, &file, 12).await;
    let begin = |_| {
        let (alice, file) = (Arc::clone(&alice), file.clone());
        async move {
            let reader = alice.open(&whoever(), &file).await?;
            for at in 0..3 {
                reader.read_at((at * MIB) as u64, MIB).await?;
            }
            strait_store::Result::Ok(reader)
        }
    };
    let open: Vec<Box<dyn FileReader>> =
        iter(0..900).map(begin).buffer_unordered(AT_ONCE).try_collect().await.unwrap();
    assert_served(&bob, "/shared").await;
    // Readers that were idle for long can continue.
    for reader in open.iter().step_by(100) {
        assert_eq!(reader.read_at(3 * MIB as u64, MIB).await.unwrap(), vec![3; MIB]);
    }
    let most = attacked.gateway.process.most_mib().unwrap();
    assert!(most < MOST_MIB, "{most} MiB with {} open files", open.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_one_user_has_begun_to_write_hold_little_and_others_are_served() {
    let attacked = attacked();
    let (alice, bob) = both(&attacked.gateway.address).await;
    let begin = |number: usize| {
        let alice = Arc::clone(&alice);
        async move {
            let at = path(&format!("/shared/{number}"));
            let mut writer = alice.create(&whoever(), &at, &CreateOptions::default()).await?;
            // Less than a full write stays buffered until more bytes come.
            writer.append(Bytes::from(vec![3; MIB - 1])).await?;
            strait_store::Result::Ok(writer)
        }
    };
    let open: Vec<Box<dyn FileWriter>> =
        iter(0..400).map(begin).buffer_unordered(AT_ONCE).try_collect().await.unwrap();
    assert_served(&bob, "/shared").await;
    let most = attacked.gateway.process.most_mib().unwrap();
    assert!(most < MOST_MIB, "{most} MiB with {} open files", open.len());
    let mut last = open.into_iter().next_back().unwrap();
    assert_eq!(last.position(), MIB as u64 - 1);
    last.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checksums_that_one_user_asks_for_at_once_hold_little_and_others_are_served() {
    let attacked = attacked();
    let (alice, bob) = both(&attacked.gateway.address).await;
    let file = path("/shared/file");
    put(&alice, &file, 150).await;
    let who = whoever();
    let sums = iter(0..140).map(|_| alice.checksum(&who, &file)).buffer_unordered(140);
    let (sums, ()) = tokio::join!(sums.try_collect::<Vec<_>>(), assert_served(&bob, "/shared"));
    let sums = sums.unwrap();
    assert_eq!(sums[0].algorithm, "COMPOSITE-CRC32C");
    let expected = crc32c::crc32c(&vec![3; 150 * MIB]).to_be_bytes();
    assert!(sums.iter().all(|sum| sum.value == expected), "{:02x?}", sums[0].value);
    let most = attacked.gateway.process.most_mib().unwrap();
    assert!(most < MOST_MIB, "{most} MiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_whose_answers_one_user_never_takes_hold_little_and_others_are_served() {
    // All of a cluster in one process.
    let up = Up::start_after(two_users);
    let (alice, bob) = both(&up.address).await;
    put(&alice, &path("/tmp/file"), 1).await;
    let address = up.address.parse().unwrap();
    let token = log_in(address, "alice", &secret("alice")).unwrap().token;
    let _unread = Attack::unread_reads(address, &token, 100, "/tmp/file").unwrap();
    // Answers fill the connections one after the other.
    let end = Instant::now() + UNREAD_FOR;
    while Instant::now() < end {
        assert_served(&bob, "/tmp").await;
    }
    let most = up.process.most_mib().unwrap();
    assert!(most < MOST_MIB, "{most} MiB");
}
