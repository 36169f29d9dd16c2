//! PLFS's index logs and merged indexes: any bytes are decoded or refused, without a panic and without
//! more memory than they have. Input: one byte that picks the kind, then the file's bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strait_plfs::block::{self, Decoder, Step};
use strait_plfs::index::{Index, Source};

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else { return };
    if *kind & 1 == 0 {
        let _ = strait_plfs::decode_merged_index(rest);
        return;
    }
    // Checksums are right, as a forger would make them.
    let mut log = rest.to_vec();
    if *kind & 2 != 0 {
        block::reseal(&mut log);
    }
    let whole = block::decode(&log);
    if let Ok(whole) = &whole {
        let mut index = Index::default();
        for change in whole.blocks.iter().flat_map(|block| &block.changes) {
            index.apply(change, Source { log: 0, offset: 0 });
        }
        drop(index.pieces(0..4096));
    }
    // In pieces it reads the same.
    let (mut decoder, mut blocks, mut seen) = (Decoder::default(), Vec::new(), 7.min(log.len()));
    loop {
        let at = decoder.position().at as usize;
        match decoder.next(&log[at..seen], seen == log.len()) {
            Ok(Step::More) => seen = (seen + 7).min(log.len()),
            Ok(Step::Head(_)) => {}
            Ok(Step::Block(block)) => blocks.push(block),
            Ok(Step::End) => break assert_eq!(whole.map(|log| log.blocks), Ok(blocks)),
            Err(_) => break assert!(whole.is_err()),
        }
    }
});
