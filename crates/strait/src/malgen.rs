//! MalGen's records: events of a synthetic log, `EVENT|TIMESTAMP|SITE|FLAG|ENTITY`.
//!
//! | field | bytes | |
//! | --- | --- | --- |
//! | event id | 31 | 11 digits in sequence, 20 of the host's hash |
//! | timestamp | 26 | `YYYY-MM-DD HH:MM:SS.ffffff` |
//! | site id | 19 | drawn for each event from a few sites |
//! | flag | 1 | 1: the entity was marked later |
//! | entity id | 19 | |
//!
//! With four bars and a newline, a record has 101 bytes.

/// Bytes of one record, including its newline.
pub const RECORD_BYTES: usize = 101;
/// Largest number of records: the sequence has 11 digits.
pub const MAX_RECORDS: u64 = 100_000_000_000;

/// One in this many events is flagged.
const FLAGGED_ONE_IN: u64 = 100;
/// Number of entities.
const ENTITIES: u64 = 1_000_000;
/// Events are spread over this time, in microseconds from the start of 2009.
const YEAR_MICROS: u64 = 365 * 86_400 * 1_000_000;
/// Days before each month, in a year that isn't a leap year.
const MONTH_STARTS: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];

/// Generates records; equal seeds and sites give equal records.
pub struct Generator {
    random: SplitMix64,
    sites: u64,
    next: u64,
    /// A record with its constant parts filled in.
    template: [u8; RECORD_BYTES],
}

impl Generator {
    /// A generator that begins with the first record.
    pub fn new(seed: u64, sites: u64) -> Self {
        let mut random = SplitMix64(seed);
        let mut template = [b'0'; RECORD_BYTES];
        for bar in [31, 58, 78, 80] {
            template[bar] = b'|';
        }
        template[RECORD_BYTES - 1] = b'\n';
        decimal(&mut template[11..31], random.next());
        template[32..58].copy_from_slice(b"2009-01-01 00:00:00.000000");
        Self { random, sites: sites.max(1), next: 0, template }
    }

    /// Appends one record.
    pub fn record(&mut self, to: &mut Vec<u8>) {
        let event = self.random.next();
        let record = &mut self.template;
        decimal(&mut record[..11], self.next);
        timestamp(&mut record[32..58], scaled(event, YEAR_MICROS));
        decimal(&mut record[59..78], scaled(self.random.next(), self.sites));
        let entity = self.random.next();
        record[79] = b'0' + u8::from(entity.is_multiple_of(FLAGGED_ONE_IN));
        decimal(&mut record[81..100], scaled(entity, ENTITIES));
        to.extend_from_slice(record);
        self.next += 1;
    }
}

/// `random` scaled to `0..below` (Lemire's multiplication).
fn scaled(random: u64, below: u64) -> u64 {
    ((u128::from(random) * u128::from(below)) >> 64) as u64
}

/// Fills `field` with the last digits of `value`, zero-padded.
fn decimal(field: &mut [u8], mut value: u64) {
    for digit in field.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

fn timestamp(field: &mut [u8], micros: u64) {
    let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let month = MONTH_STARTS.iter().rposition(|start| *start <= day).unwrap_or(0);
    decimal(&mut field[5..7], month as u64 + 1);
    decimal(&mut field[8..10], day - MONTH_STARTS[month] + 1);
    decimal(&mut field[11..13], second / 3_600);
    decimal(&mut field[14..16], second / 60 % 60);
    decimal(&mut field[17..19], second % 60);
    decimal(&mut field[20..26], micros);
}

/// SplitMix64 (Steele, Lea and Flood 2014): eight lines that never change, so that a seed gives the
/// same records in every version.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(seed: u64, sites: u64, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut generator = Generator::new(seed, sites);
        (0..count).for_each(|_| generator.record(&mut bytes));
        bytes
    }

    #[test]
    fn a_record_has_five_fields_in_101_bytes() {
        let bytes = records(7, 50, 1_000);
        assert_eq!(bytes.len(), 1_000 * RECORD_BYTES);
        let text = String::from_utf8(bytes).unwrap();
        let mut flagged = 0;
        for (number, line) in text.lines().enumerate() {
            let fields: Vec<&str> = line.split('|').collect();
            assert_eq!(fields.iter().map(|field| field.len()).collect::<Vec<_>>(), [31, 26, 19, 1, 19]);
            assert_eq!(fields[0][..11].parse::<usize>().unwrap(), number);
            let time = chrono::NaiveDateTime::parse_from_str(fields[1], "%Y-%m-%d %H:%M:%S%.6f");
            assert!(time.is_ok(), "{}", fields[1]);
            assert!(fields[2].parse::<u64>().unwrap() < 50);
            flagged += fields[3].parse::<u32>().unwrap();
        }
        assert!((1..100).contains(&flagged), "{flagged}");
    }

    #[test]
    fn a_seed_gives_the_same_records_and_another_seed_others() {
        assert_eq!(records(1, 1_000, 100), records(1, 1_000, 100));
        assert_ne!(records(1, 1_000, 100), records(2, 1_000, 100));
        assert_eq!(
            String::from_utf8(records(1, 1_000, 1)).unwrap(),
            "0000000000010451216379200822465|2009-09-30 05:02:53.497036|0000000000000000971|0|0000000000000444359\n",
            "records are the same in every version"
        );
    }
}
