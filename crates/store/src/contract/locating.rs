//! block_locations, checksum, status.

use super::support::{Outcome, Scene, ensure, ensure_eq, pattern, refused};
use crate::{BlockLocation, ErrorKind, StorePath};

super::cases! {
    blocks_cover_the_file_in_order needs block_locations;
    blocks_of_a_range_cover_the_range needs block_locations;
    blocks_past_the_end_are_none needs block_locations;
    blocks_of_an_empty_file_are_none needs block_locations;
    blocks_of_a_missing_file_are_not_found needs block_locations;
    checksum_is_equal_for_equal_files needs checksum;
    checksum_differs_for_different_files needs checksum;
    checksum_of_a_missing_file_is_not_found needs checksum;
    status_adds_up needs status;
}

/// Fails unless `blocks` cover `start..end` without a gap, in order, on hosts.
fn ensure_cover(blocks: &[BlockLocation], start: u64, end: u64) -> Outcome {
    ensure!(!blocks.is_empty(), "there are no blocks");
    ensure!(blocks[0].offset <= start, "the first block begins at {}", blocks[0].offset);
    let mut covered = blocks[0].offset;
    for block in blocks {
        ensure_eq!(block.offset, covered);
        ensure!(block.length > 0, "the block at {covered} is empty");
        ensure!(!block.hosts.is_empty(), "the block at {covered} has no host");
        ensure!(block.hosts.iter().all(|host| !host.is_empty()), "a host of block {covered} has no name");
        ensure!(!block.corrupt, "the block at {covered} is corrupt");
        ensure!(block.addresses.is_empty() || block.addresses.len() == block.hosts.len(), "{block:?}");
        covered += block.length;
    }
    ensure!(covered >= end, "the blocks end at {covered}, before {end}");
    Ok(())
}

async fn blocks_cover_the_file_in_order(scene: Scene) -> Outcome {
    let path = scene.file("f", &pattern(14, 100_000)).await?;
    let blocks = scene.fs.block_locations(&scene.who, &path, 0..100_000).await?;
    ensure_cover(&blocks, 0, 100_000)?;
    let all = scene.fs.block_locations(&scene.who, &path, 0..u64::MAX).await?;
    ensure_eq!(all.iter().map(|block| block.length).sum::<u64>(), 100_000);
    Ok(())
}

async fn blocks_of_a_range_cover_the_range(scene: Scene) -> Outcome {
    let path = scene.file("f", &pattern(15, 100_000)).await?;
    for (start, end) in [(0, 1), (50_000, 50_001), (99_999, 100_000), (10, 90_000)] {
        let blocks = scene.fs.block_locations(&scene.who, &path, start..end).await?;
        ensure_cover(&blocks, start, end)?;
    }
    let blocks = scene.fs.block_locations(&scene.who, &path, 99_999..200_000).await?;
    ensure_cover(&blocks, 99_999, 100_000)
}

async fn blocks_past_the_end_are_none(scene: Scene) -> Outcome {
    let path = scene.file("f", b"0123456789").await?;
    for range in [10..20, 1_000_000..2_000_000, 5..5] {
        let blocks = scene.fs.block_locations(&scene.who, &path, range.clone()).await?;
        ensure!(blocks.is_empty(), "{range:?} has blocks: {blocks:?}");
    }
    Ok(())
}

async fn blocks_of_an_empty_file_are_none(scene: Scene) -> Outcome {
    let path = scene.file("f", b"").await?;
    ensure_eq!(scene.fs.block_locations(&scene.who, &path, 0..10).await?, []);
    Ok(())
}

async fn blocks_of_a_missing_file_are_not_found(scene: Scene) -> Outcome {
    let blocks = scene.fs.block_locations(&scene.who, &scene.at("missing")?, 0..10).await;
    refused(blocks, &[ErrorKind::NotFound])
}

async fn checksum(scene: &Scene, path: &StorePath) -> crate::Result<crate::Checksum> {
    scene.fs.checksum(&scene.who, path).await
}

async fn checksum_is_equal_for_equal_files(scene: Scene) -> Outcome {
    let content = pattern(16, 300_000);
    let (a, b) = (scene.file("a", &content).await?, scene.file("b", &content).await?);
    let sum = checksum(&scene, &a).await?;
    ensure!(!sum.algorithm.is_empty() && !sum.value.is_empty(), "the checksum {sum:?} is empty");
    ensure_eq!(sum, checksum(&scene, &b).await?);
    Ok(())
}

async fn checksum_differs_for_different_files(scene: Scene) -> Outcome {
    let mut content = pattern(17, 300_000);
    let a = scene.file("a", &content).await?;
    content[200_000] ^= 1;
    let b = scene.file("b", &content).await?;
    let c = scene.file("c", &content[..200_000]).await?;
    let sums = [checksum(&scene, &a).await?, checksum(&scene, &b).await?, checksum(&scene, &c).await?];
    ensure!(sums[0] != sums[1] && sums[1] != sums[2] && sums[0] != sums[2], "{sums:?}");
    Ok(())
}

async fn checksum_of_a_missing_file_is_not_found(scene: Scene) -> Outcome {
    refused(checksum(&scene, &scene.at("missing")?).await, &[ErrorKind::NotFound])
}

async fn status_adds_up(scene: Scene) -> Outcome {
    let status = scene.fs.status(&scene.who).await?;
    ensure!(status.capacity > 0, "no capacity");
    ensure!(status.used <= status.capacity, "{status:?}");
    ensure!(status.remaining <= status.capacity, "{status:?}");
    Ok(())
}
