//! A namenode's directory: a log, or a checkpoint, of any bytes. Input: one byte that says
//! which and whether its checksums are made to fit, which a fuzzer hardly finds by itself;
//! then the file, or its records.
#![no_main]

mod kadoop_disk;

use kadoop_disk::MemoryDisk;
use libfuzzer_sys::fuzz_target;
use strait_kadoop_core::{
    Config,
    faults::Faults,
    log::{CheckpointWriter, Journal},
    namenode::load,
};

const CLUSTER: u64 = 7;
const SEGMENT_BYTES: u64 = 1 << 16;

fuzz_target!(|data: &[u8]| {
    let Some((selector, rest)) = data.split_first() else { return };
    let disk = match selector % 4 {
        0 => MemoryDisk::with("log-00000000000000000001", rest),
        1 => MemoryDisk::with("checkpoint-00000000000000000001", rest),
        2 => log(rest),
        _ => checkpoint(rest),
    };
    // Any outcome will do, but no panic.
    let _ = load(&disk, CLUSTER, &Config::default());
});

/// Records of at most 255 bytes, each after its length.
fn records(mut rest: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let Some((length, behind)) = rest.split_first() {
        let (record, behind) = behind.split_at(behind.len().min(usize::from(*length)));
        records.push(record.to_vec());
        rest = behind;
    }
    records
}

fn log(rest: &[u8]) -> MemoryDisk {
    let disk = MemoryDisk::default();
    let journal = Journal::start(disk.clone(), CLUSTER, 1, SEGMENT_BYTES, Faults::NONE);
    let mut journal = journal.expect("memory doesn't fail");
    for record in records(rest) {
        journal.push(record);
        journal.commit().expect("memory doesn't fail");
    }
    disk
}

fn checkpoint(rest: &[u8]) -> MemoryDisk {
    let disk = MemoryDisk::default();
    let writer = CheckpointWriter::create(&disk, CLUSTER, 1, Faults::NONE);
    let mut writer = writer.expect("memory doesn't fail");
    for item in records(rest) {
        writer.item(&item).expect("memory doesn't fail");
    }
    writer.finish().expect("memory doesn't fail");
    disk
}
