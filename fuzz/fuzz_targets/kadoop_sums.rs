//! Checksums of a replica, on disk. Input: where its data ends, the data, and the appended
//! records; the same bytes are read as a sealed replica's table, too.
#![no_main]

#[allow(dead_code)] // files alone
mod kadoop_disk;

use kadoop_disk::MemoryFile;
use libfuzzer_sys::fuzz_target;
use strait_kadoop_core::{
    ChunkId, Stamp,
    datanode::{Claim, Sums, Unproven, provable},
};

const UNIT: u32 = 16;
const OWN: Claim = Claim { cluster: 1, chunk: ChunkId(2), stamp: Stamp(3) };
/// Bytes of the records' head, without its checksum.
const HEAD: usize = 36;

fn with_crc(body: &[u8]) -> Vec<u8> {
    [body, &crc32c::crc32c(body).to_le_bytes()].concat()
}

/// A table is what would be written, except for one of version 1.
fn check_table(table: &[u8]) {
    let claim = match Sums::from_table(table, UNIT, OWN) {
        Err(Unproven::Another(claim)) => claim,
        _ => OWN,
    };
    if let Ok(sums) = Sums::from_table(table, UNIT, claim) {
        assert!(table[4] == 1 || sums.table(UNIT, claim) == table);
    }
}

fn check_records(bytes: &[u8], records: &[u8]) {
    let (data, records) = (MemoryFile::of(bytes), MemoryFile::of(records));
    let prove = |claim| provable(&data, &records, UNIT, claim).expect("memory doesn't fail");
    let proven = prove(OWN).or_else(prove).expect("the claim is theirs");
    assert!(proven.length as usize <= bytes.len(), "more is proven than there is");
    let units = bytes[..proven.length as usize].chunks(UNIT as usize).map(crc32c::crc32c);
    assert!(units.eq(proven.units.iter().copied()));
}

fuzz_target!(|data: &[u8]| {
    check_table(data);
    // As if its checksum were right.
    if let Some(body) = data.len().checked_sub(4).and_then(|end| data.get(..end)) {
        check_table(&with_crc(body));
    }
    let Some((end, rest)) = data.split_first() else { return };
    let (bytes, records) = rest.split_at(rest.len().min(usize::from(*end)));
    check_records(bytes, records);
    if let Some((head, behind)) = records.split_at_checked(HEAD) {
        check_records(bytes, &[&with_crc(head), behind.get(4..).unwrap_or_default()].concat());
    }
});
