//! Replicas' files under other replicas' names, on real disks.

use crate::support::{Cluster, client, client_over_tcp, names, pattern, sealed_name, superuser};
use bytes::Bytes;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use strait_kadoop_client::{Client, CreateOptions};
use strait_kadoop_core::messages::Caller;
use strait_kadoop_wire::wire;
use strait_testkit::wait::{eventually, stays};

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

/// Names of the replicas' files.
fn files(cluster: &Cluster) -> [String; 2] {
    let Caller { user, .. } = superuser();
    let caller = wire::KdCaller { user: user.to_string().into(), groups: Vec::new() };
    FILES.map(|path| sealed_name(&names(cluster).nn_locate(&caller, &path.into(), 0, 1).unwrap().chunks[0]))
}

fn directories(root: &Path) -> [PathBuf; 3] {
    [0, 1, 2].map(|number| root.join(format!("datanode-{number}")))
}

fn swap(directory: &Path, [one, other]: &[String; 2]) {
    let [one, other, aside] = [one, other, "aside"].map(|file| directory.join(file));
    fs::rename(&one, &aside).unwrap();
    fs::rename(&other, &one).unwrap();
    fs::rename(&aside, &other).unwrap();
}

/// The bytes that a sealed replica's file begins with.
fn bytes_of(file: &Path, path: &str) -> Option<Bytes> {
    Some(Bytes::from(fs::read(file).ok()?).slice(..content(path).len()))
}

/// Whether a file's bytes are under their wrong name or set aside.
fn is_kept(directory: &Path, file: &str, of: &str) -> bool {
    let mut names = [file.to_owned(), aside(file)].into_iter();
    names.any(|name| bytes_of(&directory.join(name), of) == Some(content(of)))
}

fn aside(file: &str) -> String {
    format!("{file}.strange-1")
}

/// The replicas' bytes are where they were, or aside.
fn nothing_is_removed(swapped: &[PathBuf], files: &[String; 2]) -> bool {
    swapped.iter().all(|at| files.iter().zip(FILES.iter().rev()).all(|(file, of)| is_kept(at, file, of)))
}

#[test]
fn swapped_replicas_are_never_read_are_made_anew_and_nothing_is_removed() {
    let mut cluster = Cluster::start(REPLICATION.into());
    write_files(&client(&cluster.namenode));
    let (files, directories) = (files(&cluster), directories(cluster.directory.path()));
    let swapped = &directories[..2];
    cluster.restart_datanodes(|| swapped.iter().for_each(|directory| swap(directory, &files)));
    cluster.await_datanodes();
    let is_made_anew = |directory: &PathBuf, file: &String, of: &str| {
        directory.join(aside(file)).exists() && bytes_of(&directory.join(file), of) == Some(content(of))
    };
    // Clients may all pick the replica that is right. `fsck --data` reads each one.
    let verify = |client: &Client| {
        for path in FILES {
            let mut verifier = client.verify(&superuser(), path).unwrap();
            while let Ok(Some(_)) = verifier.step() {}
        }
    };
    let are_made_anew = || {
        assert!(are_right(&client(&cluster.namenode)) && are_right(&client_over_tcp(&cluster.namenode)));
        verify(&client(&cluster.namenode));
        let anew = |at| files.iter().zip(FILES).all(|(file, of)| is_made_anew(at, file, of));
        swapped.iter().all(anew) && replicas(&client(&cluster.namenode)) == [3, 3]
    };
    eventually("both are made anew", are_made_anew);
    assert!(nothing_is_removed(swapped, &files));
}

#[test]
fn replicas_swapped_under_a_running_datanode_are_never_read_nor_removed() {
    let cluster = Cluster::start(REPLICATION.into());
    write_files(&client(&cluster.namenode));
    let (files, directories) = (files(&cluster), directories(cluster.directory.path()));
    let swapped = &directories[..2];
    swapped.iter().for_each(|directory| swap(directory, &files));
    stays("all that is read is right", Duration::from_secs(2), || {
        are_right(&client(&cluster.namenode)) && are_right(&client_over_tcp(&cluster.namenode))
    });
    assert!(nothing_is_removed(swapped, &files));
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

/// Each replica had its table in a file of its own, and a name without its length. The first version's
/// tables had no claim.
#[test]
fn replicas_of_versions_before_are_read_as_ever() {
    for first in [true, false] {
        let mut cluster = Cluster::start(REPLICATION.into());
        write_files(&client(&cluster.namenode));
        let (files, root) = (files(&cluster), cluster.directory.path().to_owned());
        cluster.restart_datanodes(|| {
            for (directory, (file, path)) in
                directories(&root).iter().flat_map(|at| files.iter().zip(FILES).map(move |of| (at, of)))
            {
                let (data, length) = (fs::read(directory.join(file)).unwrap(), content(path).len());
                let stem = file.rsplit_once('_').unwrap().0;
                let table = if first { without_claim(&data[length..]) } else { data[length..].to_vec() };
                fs::write(directory.join(format!("{stem}.table")), table).unwrap();
                fs::write(directory.join(format!("{stem}.data")), &data[..length]).unwrap();
                fs::remove_file(directory.join(file)).unwrap();
            }
        });
        cluster.await_datanodes();
        for client in [client(&cluster.namenode), client_over_tcp(&cluster.namenode)] {
            assert!(are_right(&client));
            assert_eq!(replicas(&client), [3, 3]);
        }
    }
}
