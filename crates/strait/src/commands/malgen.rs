//! `malgen`.

use crate::cli::Malgen;
use crate::failure::Failure;
use crate::malgen::{Generator, MAX_RECORDS, RECORD_BYTES};
use std::io::Write;

/// Number of records in one write of about 200 KiB.
const RECORDS_AT_ONCE: u64 = 2_048;

/// Writes records to standard output.
pub fn malgen(malgen: Malgen) -> Result<(), Failure> {
    if malgen.records > MAX_RECORDS {
        return Err(Failure::usage("malgen: the maximum is 100,000,000,000 records: ids have 11 digits"));
    }
    let mut out = std::io::stdout().lock();
    let mut generator = Generator::new(malgen.seed, malgen.sites);
    let mut buffer = Vec::with_capacity(RECORDS_AT_ONCE as usize * RECORD_BYTES);
    let mut left = malgen.records;
    while left > 0 {
        buffer.clear();
        let records = left.min(RECORDS_AT_ONCE);
        (0..records).for_each(|_| generator.record(&mut buffer));
        out.write_all(&buffer).map_err(Failure::output)?;
        left -= records;
    }
    out.flush().map_err(Failure::output)
}
