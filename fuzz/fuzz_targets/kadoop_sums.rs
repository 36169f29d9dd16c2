//! Checksums of a replica, on disk. Input: where its data ends, the data, and the appended
//! records; the same bytes are read as a sealed replica's table, too.
#![no_main]

#[allow(dead_code)] // files alone
mod kadoop_disk;

use kadoop_disk::MemoryFile;
use libfuzzer_sys::fuzz_target;
use strait_kadoop::datanode::{Sums, provable};

const UNIT: u32 = 16;

fuzz_target!(|data: &[u8]| {
    if let Some(sums) = Sums::from_table(data, UNIT) {
        assert_eq!(sums.table(UNIT), data);
    }
    // As if its checksum were right.
    if let Some(body) = data.len().checked_sub(4).and_then(|end| data.get(..end)) {
        let mut table = body.to_vec();
        table.extend_from_slice(&crc32c::crc32c(body).to_le_bytes());
        if let Some(sums) = Sums::from_table(&table, UNIT) {
            assert_eq!(sums.table(UNIT), table);
        }
    }
    let Some((end, rest)) = data.split_first() else { return };
    let (bytes, records) = rest.split_at(rest.len().min(usize::from(*end)));
    let proven =
        provable(&MemoryFile::of(bytes), &MemoryFile::of(records), UNIT).expect("memory doesn't fail");
    assert!(proven.length as usize <= bytes.len(), "more is proven than there is");
    let units = bytes[..proven.length as usize].chunks(UNIT as usize).map(crc32c::crc32c);
    assert!(units.eq(proven.units.iter().copied()));
});
