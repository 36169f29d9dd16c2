//! One user's open files and checksums leave room for the process and for others.

mod support;
#[path = "support/up.rs"]
mod up;

use bytes::Bytes;
use futures::stream::{StreamExt, TryStreamExt, iter};
use std::sync::Arc;
use std::time::Duration;
use strait_client::{Options, StraitStore};
use strait_store::{CreateOptions, FileReader, FileSystem, FileSystemExt, FileWriter, Principal, StorePath};
use strait_wire::Secret;
use support::{Gateway, Run, command};
use up::Up;

/// Limit of the gateway's resident memory.
const MOST_MIB: u64 = 256;
/// Bytes of one call of the gateway's clients.
const MIB: usize = 1 << 20;
/// Requests of the attacker at a time.
const AT_ONCE: usize = 16;
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
        for user in ["alice", "bob"] {
            let mut passwd = command(dir);
            passwd.args(["passwd", "--file", "passwords", user]);
            Run::of(passwd, format!("{user}'s secret\n").as_bytes()).ok();
        }
        let passwords = dir.join("passwords").display().to_string();
        ["--store", &kadoop, "--kadoop-key", &key, "--passwords", &passwords].map(str::to_owned).to_vec()
    });
    Attacked { gateway, _up: up }
}

async fn login(attacked: &Attacked, user: &'static str) -> Arc<StraitStore> {
    let options = Options {
        user: Some(user.to_owned()),
        password: Some(Arc::new(move || Ok(Secret(format!("{user}'s secret"))))),
        ..Options::default()
    };
    Arc::new(StraitStore::connect(&attacked.gateway.address, options).await.unwrap())
}

/// Peak resident memory, in MiB.
fn most_mib(attacked: &Attacked) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", attacked.gateway.process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Runs another user's stat, put and read.
async fn assert_served(store: &StraitStore, name: &str) {
    let (who, at, content) = (whoever(), path(&format!("/shared/{name}")), Bytes::from(vec![7; MIB]));
    let work = async {
        store.stat(&who, &path("/shared")).await.unwrap();
        store.write_all(&who, &at, &CreateOptions::default(), content.clone()).await.unwrap();
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
    let (alice, bob) = (login(&attacked, "alice").await, login(&attacked, "bob").await);
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
    assert_served(&bob, "bobs").await;
    // Readers that were idle for long can continue.
    for reader in open.iter().step_by(100) {
        assert_eq!(reader.read_at(3 * MIB as u64, MIB).await.unwrap(), vec![3; MIB]);
    }
    let most = most_mib(&attacked);
    assert!(most < MOST_MIB, "{most} MiB with {} open files", open.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_one_user_has_begun_to_write_hold_little_and_others_are_served() {
    let attacked = attacked();
    let (alice, bob) = (login(&attacked, "alice").await, login(&attacked, "bob").await);
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
    assert_served(&bob, "bobs").await;
    let most = most_mib(&attacked);
    assert!(most < MOST_MIB, "{most} MiB with {} open files", open.len());
    let mut last = open.into_iter().next_back().unwrap();
    assert_eq!(last.position(), MIB as u64 - 1);
    last.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checksums_that_one_user_asks_for_at_once_hold_little_and_others_are_served() {
    let attacked = attacked();
    let (alice, bob) = (login(&attacked, "alice").await, login(&attacked, "bob").await);
    let file = path("/shared/file");
    put(&alice, &file, 150).await;
    let who = whoever();
    let sums = iter(0..140).map(|_| alice.checksum(&who, &file)).buffer_unordered(140);
    let (sums, ()) = tokio::join!(sums.try_collect::<Vec<_>>(), assert_served(&bob, "bobs"));
    let sums = sums.unwrap();
    assert_eq!(sums[0].algorithm, "COMPOSITE-CRC32C");
    let expected = crc32c::crc32c(&vec![3; 150 * MIB]).to_be_bytes();
    assert!(sums.iter().all(|sum| sum.value == expected), "{:02x?}", sums[0].value);
    let most = most_mib(&attacked);
    assert!(most < MOST_MIB, "{most} MiB");
}
