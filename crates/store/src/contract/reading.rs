//! open and positional reads.

use super::support::{Outcome, Scene, ensure, ensure_eq, pattern, refused};
use crate::{ErrorKind, MAX_CHUNK_BYTES};
use futures::stream::{self, StreamExt, TryStreamExt};

super::cases! {
    read_of_a_range_is_exactly_that;
    read_at_and_past_the_end_is_empty;
    read_over_the_end_is_cut;
    read_of_nothing_is_empty;
    read_of_a_full_chunk_is_full;
    read_over_a_chunk_is_refused;
    read_of_an_empty_file_is_empty;
    read_keeps_every_byte_value;
    read_by_many_at_once_on_one_reader;
    read_in_small_steps_gives_the_whole;
    reader_tells_the_length;
    identity_stays_as_a_file_grows needs append;
    identity_is_another_of_a_file_in_its_place needs rename_replace;
    open_of_a_missing_file_is_not_found;
    open_of_a_directory_is_refused;
}

async fn read_of_a_range_is_exactly_that(scene: Scene) -> Outcome {
    let content = pattern(1, 100_000);
    let path = scene.file("f", &content).await?;
    let reader = scene.fs.open(&scene.who, &path).await?;
    for (start, length) in [(0, 1), (0, 100_000), (99_999, 1), (1, 4_096), (65_535, 2), (70_001, 29_999)] {
        let read = reader.read_at(start as u64, length).await?;
        ensure!(read == content[start..start + length], "{length} bytes from {start} differ");
    }
    Ok(())
}

async fn read_at_and_past_the_end_is_empty(scene: Scene) -> Outcome {
    let path = scene.file("f", b"0123456789").await?;
    let reader = scene.fs.open(&scene.who, &path).await?;
    for offset in [10, 11, 5_000_000_000, i64::MAX as u64, u64::MAX] {
        ensure!(reader.read_at(offset, 10).await?.is_empty(), "there is something at {offset}");
    }
    Ok(())
}

async fn read_over_the_end_is_cut(scene: Scene) -> Outcome {
    let path = scene.file("f", b"0123456789").await?;
    let reader = scene.fs.open(&scene.who, &path).await?;
    ensure_eq!(&reader.read_at(0, 11).await?[..], b"0123456789");
    ensure_eq!(&reader.read_at(9, 100_000).await?[..], b"9");
    ensure_eq!(&reader.read_at(4, MAX_CHUNK_BYTES).await?[..], b"456789");
    Ok(())
}

async fn read_of_nothing_is_empty(scene: Scene) -> Outcome {
    let path = scene.file("f", b"0123456789").await?;
    let reader = scene.fs.open(&scene.who, &path).await?;
    for offset in [0, 5, 10, 11] {
        ensure!(reader.read_at(offset, 0).await?.is_empty(), "a read of 0 bytes at {offset} returned bytes");
    }
    Ok(())
}

async fn read_of_a_full_chunk_is_full(scene: Scene) -> Outcome {
    let content = pattern(2, MAX_CHUNK_BYTES + 10);
    let path = scene.file("f", &content).await?;
    let reader = scene.fs.open(&scene.who, &path).await?;
    let read = reader.read_at(5, MAX_CHUNK_BYTES).await?;
    ensure_eq!(read.len(), MAX_CHUNK_BYTES);
    ensure!(read == content[5..5 + MAX_CHUNK_BYTES], "the bytes differ");
    Ok(())
}

async fn read_over_a_chunk_is_refused(scene: Scene) -> Outcome {
    let path = scene.file("f", b"0123456789").await?;
    let reader = scene.fs.open(&scene.who, &path).await?;
    refused(reader.read_at(0, MAX_CHUNK_BYTES + 1).await, &[ErrorKind::InvalidArgument])?;
    ensure_eq!(&reader.read_at(0, 3).await?[..], b"012");
    Ok(())
}

async fn read_of_an_empty_file_is_empty(scene: Scene) -> Outcome {
    let path = scene.file("f", b"").await?;
    let reader = scene.fs.open(&scene.who, &path).await?;
    ensure_eq!(reader.length(), 0);
    ensure!(reader.read_at(0, 4_096).await?.is_empty(), "an empty file has content");
    Ok(())
}

async fn read_keeps_every_byte_value(scene: Scene) -> Outcome {
    let content: Vec<u8> = (0..=255).chain([0, 0, 0xff, 0xc3, 0x28, b'\r', b'\n']).collect();
    let path = scene.file("f", &content).await?;
    ensure_eq!(scene.content(&path).await?, content);
    Ok(())
}

async fn read_by_many_at_once_on_one_reader(scene: Scene) -> Outcome {
    let content = pattern(3, 1_000_000);
    let path = scene.file("f", &content).await?;
    let reader = scene.fs.open(&scene.who, &path).await?;
    let (reader, content) = (&reader, &content);
    let reads = stream::iter(0..64).map(|n| async move {
        // Scattered offsets, and lengths of all sizes.
        let (offset, length) = ((n * 137_351) % 1_000_000, 1 + (n * 7_919) % 100_000);
        let read = reader.read_at(offset as u64, length).await?;
        let due = &content[offset..(offset + length).min(content.len())];
        ensure!(read == due, "{length} bytes from {offset} differ");
        Ok(())
    });
    reads.buffer_unordered(16).try_collect().await
}

async fn read_in_small_steps_gives_the_whole(scene: Scene) -> Outcome {
    let content = pattern(4, 300_001);
    let path = scene.file("f", &content).await?;
    let reader = scene.fs.open(&scene.who, &path).await?;
    let mut read = Vec::new();
    loop {
        let chunk = reader.read_at(read.len() as u64, 4_096).await?;
        if chunk.is_empty() {
            break;
        }
        read.extend_from_slice(&chunk);
    }
    ensure!(read == content, "{} bytes were read of {}, or they differ", read.len(), content.len());
    Ok(())
}

async fn reader_tells_the_length(scene: Scene) -> Outcome {
    let path = scene.file("f", &pattern(5, 12_345)).await?;
    ensure_eq!(scene.fs.open(&scene.who, &path).await?.length(), 12_345);
    Ok(())
}

async fn identity_stays_as_a_file_grows(scene: Scene) -> Outcome {
    let path = scene.file("f", b"some").await?;
    let first = scene.fs.open(&scene.who, &path).await?.identity();
    let mut writer = scene.fs.append(&scene.who, &path).await?;
    writer.append("more".into()).await?;
    writer.close().await?;
    ensure_eq!(scene.fs.open(&scene.who, &path).await?.identity(), first);
    Ok(())
}

/// A store without identities passes.
async fn identity_is_another_of_a_file_in_its_place(scene: Scene) -> Outcome {
    let path = scene.file("f", b"some").await?;
    let Some(first) = scene.fs.open(&scene.who, &path).await?.identity() else { return Ok(()) };
    ensure_eq!(scene.fs.open(&scene.who, &path).await?.identity().as_ref(), Some(&first));
    let other = scene.file("g", b"some").await?;
    scene.fs.rename(&scene.who, &other, &path, true).await?;
    let second = scene.fs.open(&scene.who, &path).await?.identity();
    ensure!(second.is_some_and(|second| second != first), "the new file passes for the old");
    Ok(())
}

async fn open_of_a_missing_file_is_not_found(scene: Scene) -> Outcome {
    refused(scene.fs.open(&scene.who, &scene.at("missing")?).await, &[ErrorKind::NotFound])
}

async fn open_of_a_directory_is_refused(scene: Scene) -> Outcome {
    let path = scene.directory("d").await?;
    refused(scene.fs.open(&scene.who, &path).await, &[ErrorKind::IsADirectory])
}
