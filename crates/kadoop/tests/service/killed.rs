//! Processes that are killed at random moments, as kill -9 does, under writers that keep
//! what they were told is on disk.

use crate::{
    processes::{DatanodeProcess, NamenodeProcess},
    support::{DEADLINE, client_at, pattern, superuser},
};
use std::{
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use strait_kadoop::{Client, service::CreateOptions};
use strait_testkit::wait_until;

/// Rounds of killing: more with KADOOP_KILLS.
const KILLS: usize = 4;
const DATANODES: usize = 4;
const WRITERS: usize = 3;

/// What a writer may rely on: a file, and how much of it was acknowledged as synced.
struct Acknowledged {
    path: String,
    length: usize,
}

struct Processes {
    directory: PathBuf,
    namenode: NamenodeProcess,
    datanodes: Vec<DatanodeProcess>,
}

impl Processes {
    fn start(directory: PathBuf) -> Self {
        let namenode = NamenodeProcess::start(&directory.join("namenode"), "127.0.0.1:0");
        let datanodes = (0..DATANODES)
            .map(|number| DatanodeProcess::start(&directory.join(format!("{number}")), &namenode.address))
            .collect();
        Self { directory, namenode, datanodes }
    }

    /// Kills one of them and starts it again.
    fn kill(&mut self, which: usize) {
        if which == DATANODES {
            let address = self.namenode.address.clone();
            self.namenode.kill();
            self.namenode = NamenodeProcess::start(&self.directory.join("namenode"), &address);
        } else {
            self.datanodes[which].kill();
            let directory = self.directory.join(format!("{which}"));
            self.datanodes[which] = DatanodeProcess::start(&directory, &self.namenode.address);
        }
    }
}

/// Writes files one after another; what it was told is on disk.
fn write(client: &Client, of: usize, stop: &AtomicBool) -> Vec<Acknowledged> {
    let bytes = pattern(1 << 20);
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let path = format!("/{of}-{number}");
        let options = CreateOptions { replication: 3, chunk_bytes: 400_000, ..CreateOptions::default() };
        let Ok(mut writer) = client.create(&superuser(), &path, &options) else { continue };
        let mut length = 0;
        for part in bytes.chunks(150_000) {
            let written = writer.write(bytes.slice_ref(part)).and_then(|()| writer.sync());
            if written.is_err() {
                break;
            }
            length += part.len();
        }
        if length == bytes.len() {
            // If that fails, it is recovered; what was synced stays either way.
            let _ = writer.close();
        }
        acknowledged.push(Acknowledged { path, length });
    }
    acknowledged
}

#[test]
fn no_synced_byte_is_lost_however_processes_are_killed() {
    let rounds = std::env::var("KADOOP_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let directory = tempfile::tempdir().unwrap();
    let mut processes = Processes::start(directory.path().to_owned());
    let client = client_at(&processes.namenode.address);
    assert!(wait_until(DEADLINE, || {
        client.status().is_ok_and(|status| status.nodes.len() == DATANODES && !status.safe_mode)
    }));
    let stop = AtomicBool::new(false);
    let acknowledged: Vec<Acknowledged> = std::thread::scope(|scope| {
        let (client, stop) = (&client, &stop);
        let writers: Vec<_> = (0..WRITERS).map(|of| scope.spawn(move || write(client, of, stop))).collect();
        for round in 0..rounds {
            std::thread::sleep(Duration::from_millis(400 + 137 * (round as u64 % 5)));
            processes.kill((round * 3 + 4) % (DATANODES + 1));
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let bytes = pattern(1 << 20);
    let synced: usize = acknowledged.iter().map(|file| file.length).sum();
    assert!(synced > bytes.len(), "only {synced} bytes were written");
    for file in &acknowledged {
        let mut last = String::new();
        let whole = wait_until(2 * DEADLINE, || {
            match client.open(&superuser(), &file.path).and_then(|reader| reader.read_at(0, file.length)) {
                Ok(read) if read == bytes[..file.length] => true,
                Ok(read) => {
                    last = format!("{} of {} bytes", read.len(), file.length);
                    false
                }
                Err(failure) => {
                    last = failure.to_string();
                    false
                }
            }
        });
        assert!(whole, "{}: {last}", file.path);
    }
    println!("{} files, {synced} bytes, {rounds} kills", acknowledged.len());
}
