//! Replicas' files under other replicas' names, on real disks.

use crate::support::{
    Cluster, DEADLINE, client, client_over_tcp, key, namenode_options, names, pattern, superuser,
};
use bytes::Bytes;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use strait_kadoop::{
    Client, Config,
    messages::Caller,
    service::{CreateOptions, NamenodeOptions},
    wire,
};
use strait_testkit::wait_until;

const REPLICATION: u16 = 3;
/// Two files of one chunk and one length.
const FILES: [&str; 2] = ["/one", "/other"];

/// Begins reads of different bytes.
fn content(path: &str) -> Bytes {
    let from = path.len();
    pattern(200_000 + from).slice(from..)
}

fn write_files(client: &Client) {
    for path in FILES {
        let options = CreateOptions { replication: REPLICATION, ..CreateOptions::default() };
        let mut writer = client.create(&superuser(), path, &options).unwrap();
        writer.write(content(path)).unwrap();
        writer.close().unwrap();
    }
}

fn are_right(client: &Client) -> bool {
    let read = |path: &str| {
        let reader = client.open(&superuser(), path).unwrap();
        reader.read_at(0, content(path).len() + 1).unwrap()
    };
    FILES.iter().all(|path| read(path) == content(path))
}

/// Number of replicas that count, as `strait fsck` shows them.
fn replicas(client: &Client) -> [usize; 2] {
    FILES.map(|path| client.locations(&superuser(), path, 0, 1).unwrap()[0].hosts.len())
}

/// Names of the replicas' files, without their kinds.
fn stems(cluster: &Cluster) -> [String; 2] {
    let Caller { user, .. } = superuser();
    let caller = wire::KdCaller { user: user.to_string().into(), groups: Vec::new() };
    FILES.map(|path| {
        let chunk = names(cluster).nn_locate(&caller, &path.into(), 0, 1).unwrap().chunks.remove(0);
        format!("{:016x}_{:016x}", chunk.chunk, chunk.stamp)
    })
}

fn directories(root: &Path) -> [PathBuf; 3] {
    [0, 1, 2].map(|number| root.join(format!("datanode-{number}")))
}

fn swap(directory: &Path, [one, other]: &[String; 2]) {
    for kind in ["data", "table"] {
        let [one, other] = [one, other].map(|stem| directory.join(format!("{stem}.{kind}")));
        let aside = directory.join("aside");
        fs::rename(&one, &aside).unwrap();
        fs::rename(&other, &one).unwrap();
        fs::rename(&aside, &other).unwrap();
    }
}

#[test]
fn swapped_replicas_are_never_read_are_missed_and_made_anew_and_nothing_is_removed() {
    // It copies nothing, so the swapped replicas stay missed.
    let idle = |options: NamenodeOptions| NamenodeOptions {
        config: Config { copies_per_node: 0, ..options.config },
        ..options
    };
    let mut cluster = Cluster::start_with(REPLICATION.into(), key(), idle);
    write_files(&client(&cluster.namenode));
    let (stems, root) = (stems(&cluster), cluster.directory.path().to_owned());
    let swapped = &directories(&root)[..2];
    cluster.restart_datanodes(|| swapped.iter().for_each(|directory| swap(directory, &stems)));
    cluster.await_datanodes();
    for client in [client(&cluster.namenode), client_over_tcp(&cluster.namenode)] {
        assert!(are_right(&client));
        assert_eq!(replicas(&client), [1, 1]);
    }
    cluster.restart_with(namenode_options(&root.join("namenode")));
    let client = client(&cluster.namenode);
    assert!(wait_until(DEADLINE, || replicas(&client) == [3, 3]), "{:?}", replicas(&client));
    for directory in swapped {
        for (stem, of_other) in stems.iter().zip(FILES.iter().rev()) {
            let aside = directory.join(format!("{stem}.data.strange-1"));
            assert!(fs::read(aside).unwrap() == content(of_other));
        }
    }
    for directory in directories(&root) {
        for (stem, own) in stems.iter().zip(FILES) {
            assert!(fs::read(directory.join(format!("{stem}.data"))).unwrap() == content(own));
        }
    }
}

#[test]
fn replicas_swapped_under_a_running_datanode_are_never_read_nor_removed() {
    let cluster = Cluster::start(REPLICATION.into());
    write_files(&client(&cluster.namenode));
    let (stems, directories) = (stems(&cluster), directories(cluster.directory.path()));
    let swapped = &directories[..2];
    swapped.iter().for_each(|directory| swap(directory, &stems));
    let is_there = |directory: &Path, file: String, path: &str| {
        fs::read(directory.join(file)).is_ok_and(|data| data == content(path))
    };
    // New clients, since each picks a datanode and stays with it. Those that pick a swapped replica
    // report it.
    for _ in 0..20 {
        assert!(are_right(&client(&cluster.namenode)) && are_right(&client_over_tcp(&cluster.namenode)));
        std::thread::sleep(Duration::from_millis(100));
    }
    for directory in swapped {
        for (stem, of_other) in stems.iter().zip(FILES.iter().rev()) {
            let mut names = ["data", "data.strange-1"].into_iter().map(|kind| format!("{stem}.{kind}"));
            assert!(names.any(|name| is_there(directory, name, of_other)));
        }
    }
}

/// Version 1 of a table, which names no replica.
fn without_claim(table: &[u8]) -> Vec<u8> {
    let mut before = table[..16].to_vec();
    before[4] = 1;
    before.extend_from_slice(&table[40..table.len() - 4]);
    let crc = crc32c::crc32c(&before);
    before.extend_from_slice(&crc.to_le_bytes());
    before
}

#[test]
fn replicas_of_the_version_before_are_read_as_ever() {
    let mut cluster = Cluster::start(REPLICATION.into());
    write_files(&client(&cluster.namenode));
    let (stems, root) = (stems(&cluster), cluster.directory.path().to_owned());
    cluster.restart_datanodes(|| {
        for (directory, stem) in directories(&root).iter().flat_map(|at| stems.iter().map(move |of| (at, of)))
        {
            let file = directory.join(format!("{stem}.table"));
            let table = fs::read(&file).unwrap();
            fs::write(&file, without_claim(&table)).unwrap();
        }
    });
    cluster.await_datanodes();
    for client in [client(&cluster.namenode), client_over_tcp(&cluster.namenode)] {
        assert!(are_right(&client));
        assert_eq!(replicas(&client), [3, 3]);
    }
}
