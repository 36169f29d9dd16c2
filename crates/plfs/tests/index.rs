//! Compares the merged index with a plain array of bytes.

use proptest::prelude::*;
use strait_plfs::block::{self, Block, Damage, Decoder, Head, Step as DecoderStep};
use strait_plfs::index::{Index, Source};
use strait_plfs::pattern::{Change, Pattern, Recorder};

/// A step of one of several writers.
#[derive(Debug, Clone)]
enum Step {
    Write { offset: u64, length: u64 },
    Strided { start: u64, length: u64, gap: u64, count: u64 },
    Truncate(u64),
    Publish,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..300_u64, 1..40_u64).prop_map(|(offset, length)| Step::Write { offset, length }),
        3 => (0..100_u64, 1..9_u64, 0..9_u64, 1..14_u64)
            .prop_map(|(start, length, gap, count)| Step::Strided { start, length, gap, count }),
        1 => (0..300_u64).prop_map(Step::Truncate),
        2 => Just(Step::Publish),
    ]
}

/// A log and the file that plain writes would have made.
#[derive(Default)]
struct Model {
    logs: Vec<Vec<u8>>,
    recorders: Vec<Recorder>,
    bytes: Vec<u8>,
}

impl Model {
    fn write(&mut self, writer: usize, offset: u64, data: &[u8]) {
        assert!(self.recorders[writer].write(offset, data.len() as u64));
        self.logs[writer].extend_from_slice(data);
        let end = offset as usize + data.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset as usize..end].copy_from_slice(data);
    }
}

fn applied(index: &mut Index, log: u32, offset: &mut u64, changes: &[Change]) {
    for change in changes {
        index.apply(change, Source { log, offset: *offset });
        if let Change::Write(pattern) = change {
            *offset += pattern.bytes();
        }
    }
}

fn read(index: &Index, logs: &[Vec<u8>], range: std::ops::Range<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = range.start;
    for piece in index.pieces(range) {
        assert_eq!(piece.logical.start, at, "pieces follow one another");
        at = piece.logical.end;
        let length = (piece.logical.end - piece.logical.start) as usize;
        match piece.source {
            Some(source) => {
                out.extend_from_slice(&logs[source.log as usize][source.offset as usize..][..length])
            }
            None => out.resize(out.len() + length, 0),
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Only one writer at a time has unpublished changes, so that their order is the blocks' order.
    #[test]
    fn the_index_has_what_plain_writes_leave(
        steps in prop::collection::vec((0..3_usize, step()), 1..60),
        ranges in prop::collection::vec((0..320_u64, 0..320_u64), 1..8),
    ) {
        let mut model = Model::default();
        model.logs.resize_with(3, Vec::new);
        model.recorders.resize_with(3, Recorder::default);
        let (mut index, mut offsets) = (Index::default(), [0_u64; 3]);
        let (mut current, mut fill) = (0, 0_u8);
        let mut publish = |model: &mut Model, index: &mut Index, writer: usize| {
            let changes = model.recorders[writer].take();
            applied(index, writer as u32, &mut offsets[writer], &changes);
        };
        for (writer, step) in steps {
            if writer != current {
                publish(&mut model, &mut index, current);
                current = writer;
            }
            fill = fill.wrapping_add(1).max(1);
            match step {
                Step::Write { offset, length } => model.write(writer, offset, &vec![fill; length as usize]),
                Step::Strided { start, length, gap, count } => {
                    for k in 0..count {
                        let data = vec![fill.wrapping_add(k as u8); length as usize];
                        model.write(writer, start + k * (length + gap), &data);
                    }
                }
                Step::Truncate(length) => {
                    model.recorders[writer].truncate(length);
                    model.bytes.resize(length as usize, 0);
                }
                Step::Publish => publish(&mut model, &mut index, writer),
            }
        }
        publish(&mut model, &mut index, current);
        prop_assert_eq!(index.length(), model.bytes.len() as u64);
        prop_assert_eq!(&read(&index, &model.logs, 0..u64::MAX), &model.bytes);
        for (a, b) in ranges {
            let range = a.min(b)..a.max(b);
            let end = (range.end as usize).min(model.bytes.len());
            let expected = model.bytes.get(range.start as usize..end).unwrap_or_default();
            prop_assert_eq!(read(&index, &model.logs, range), expected);
        }
    }

    #[test]
    fn a_log_is_read_as_it_was_written_and_torn_where_it_was_cut(
        changes in prop::collection::vec(prop_oneof![
            (0..1_u64 << 40, 1..1_u64 << 20).prop_map(|(o, l)| Change::Write(Pattern::single(o, l).unwrap())),
            (0..1_u64 << 40, 1..1_u64 << 20, 0..99_u64, 2..1_u64 << 20)
                .prop_map(|(o, l, gap, n)| Change::Write(Pattern::new(o, l, l + gap, n).unwrap())),
            (0..1_u64 << 62).prop_map(Change::Truncate),
        ], 0..30),
        cut in 0..200_usize,
        flip in any::<prop::sample::Index>(),
    ) {
        let head = Head { container: [7; 16], rank: 3, nonce: 9, note: "host, process 4".into() };
        let data_length = changes.iter().map(|c| match c {
            Change::Write(pattern) => pattern.bytes(),
            Change::Truncate(_) => 0,
        }).sum();
        let block = Block { epoch: 5, closed: false, data_begin: 0, data_length, data_crc: 8, changes };
        let empty = Block { data_begin: data_length, data_length: 0, changes: Vec::new(), ..block.clone() };
        let mut bytes = Vec::new();
        head.encode(&mut bytes);
        let head_bytes = bytes.len();
        block.encode(&mut bytes);
        let one = bytes.len();
        empty.encode(&mut bytes);
        let log = block::decode(&bytes).unwrap();
        prop_assert_eq!(log.head.as_ref(), Some(&head));
        prop_assert_eq!(&log.blocks, &[block.clone(), empty.clone()]);

        let kept = bytes.len() - cut.min(bytes.len());
        let torn = block::decode(&bytes[..kept]).unwrap();
        let whole = usize::from(kept >= one) + usize::from(kept >= bytes.len());
        prop_assert_eq!(torn.blocks.len(), whole);
        prop_assert_eq!(torn.head.is_some(), kept >= head_bytes);

        // A flipped bit in the first block or the head must not be taken for an incomplete end.
        let mut flipped = bytes.clone();
        flipped[flip.index(one)] ^= 1;
        prop_assert!(block::decode(&flipped).is_err());

        let mut closed = bytes.clone();
        Block { closed: true, ..empty }.encode(&mut closed);
        let end = closed.len();
        closed[end - 1] ^= 1;
        prop_assert!(!block::decode(&closed).unwrap().is_closed());
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _: Result<block::Log, Damage> = block::decode(&bytes);
        strait_plfs::decode_merged_index(&bytes);
    }

    /// A log with changed bytes and matching checksums, as a forger would make it.
    #[test]
    fn a_forged_log_reads_the_same_whole_and_in_pieces(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        step in 1..200_usize,
        resealed in any::<bool>(),
    ) {
        let mut log = Vec::new();
        Head { container: [1; 16], rank: 2, nonce: 3, note: "host 7".into() }.encode(&mut log);
        for epoch in 1..4 {
            let changes = vec![
                Change::Write(Pattern::new(epoch * 10, 5, 50, 4).unwrap()),
                Change::Truncate(100),
            ];
            let (data_begin, data_length) = ((epoch - 1) * 20, 20);
            Block { epoch, closed: false, data_begin, data_length, data_crc: 0, changes }.encode(&mut log);
        }
        for (at, bits) in &changes {
            let at = at.index(log.len());
            log[at] ^= bits;
        }
        if resealed {
            block::reseal(&mut log);
        }
        let whole = block::decode(&log);
        let (mut decoder, mut blocks, mut seen) = (Decoder::default(), Vec::new(), step.min(log.len()));
        let outcome = loop {
            let at = decoder.position().at as usize;
            match decoder.next(&log[at..seen], seen == log.len()) {
                Ok(DecoderStep::More) => seen = (seen + step).min(log.len()),
                Ok(DecoderStep::Head(_)) => {}
                Ok(DecoderStep::Block(block)) => blocks.push(block),
                Ok(DecoderStep::End) => break Ok(blocks),
                Err(damage) => break Err(damage),
            }
        };
        prop_assert_eq!(outcome, whole.map(|log| log.blocks));
    }
}

#[test]
fn a_million_strided_writes_of_64_writers_take_64_entries() {
    let (mut index, block) = (Index::default(), 47_001);
    for rank in 0..64_u64 {
        let mut recorder = Recorder::default();
        for k in 0..1_000_000 / 64 {
            recorder.write((k * 64 + rank) * block, block);
        }
        applied(&mut index, rank as u32, &mut 0, &recorder.take());
    }
    assert_eq!(index.entries(), 64);
    let piece = &index.pieces(640 * block..640 * block + 10)[0];
    assert_eq!(piece.source, Some(Source { log: 0, offset: 10 * block }));
    assert_eq!(index.length(), 1_000_000 / 64 * 64 * block);
}

#[test]
fn a_write_stays_above_a_pattern_that_was_written_again_before_it() {
    let mut index = Index::default();
    let comb = |start| Change::Write(Pattern::new(start, 1, 2, 5).unwrap());
    let single = |start| Change::Write(Pattern::single(start, 1).unwrap());
    for (change, log, offset) in
        [(comb(0), 1, 0), (comb(100), 1, 5), (single(1), 0, 0), (comb(0), 1, 10), (single(2), 0, 1)]
    {
        index.apply(&change, Source { log, offset });
    }
    let sources: Vec<_> =
        index.pieces(0..3).into_iter().map(|p| (p.logical, p.source.unwrap().log)).collect();
    assert_eq!(sources, [(0..1, 1), (1..3, 0)]);
}
