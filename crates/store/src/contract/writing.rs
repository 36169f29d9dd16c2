//! The four promises of a writer; append to existing files; truncate.

use super::support::{Outcome, Scene, append, ensure, ensure_eq, pattern, refused};
use crate::{ErrorKind, MAX_CHUNK_BYTES};
use bytes::Bytes;

super::cases! {
    appends_keep_their_order_and_move_the_position;
    append_of_nothing_changes_nothing;
    append_of_a_full_chunk_is_taken;
    append_over_a_chunk_is_refused;
    odd_sized_appends_add_up_byte_for_byte;
    flushed_bytes_are_visible_to_new_readers needs visible_while_written;
    synced_bytes_are_visible_to_new_readers needs visible_while_written;
    flush_and_sync_may_alternate_with_appends;
    closed_length_is_recorded;
    append_continues_an_existing_file needs append;
    append_continues_again_and_again needs append;
    append_to_a_missing_file_is_not_found needs append;
    append_to_a_directory_is_refused needs append;
    an_abandoned_writer_leaves_what_was_flushed needs append, visible_while_written;
    truncate_cuts_to_the_length needs truncate;
    truncate_to_the_same_length_changes_nothing needs truncate;
    truncate_beyond_the_end_is_refused needs truncate;
    truncate_of_missing_and_directory_is_refused needs truncate;
    truncated_file_takes_appends needs truncate, append;
}

async fn appends_keep_their_order_and_move_the_position(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let mut writer = scene.create(&path).await?;
    let mut due = Vec::new();
    for n in 0..200 {
        let line = format!("line {n}\n");
        writer.append(Bytes::from(line.clone())).await?;
        due.extend_from_slice(line.as_bytes());
        ensure_eq!(writer.position(), due.len() as u64);
    }
    writer.close().await?;
    ensure!(scene.content(&path).await? == due, "the lines are out of order, or incomplete");
    Ok(())
}

async fn append_of_nothing_changes_nothing(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let mut writer = scene.create(&path).await?;
    writer.append(Bytes::new()).await?;
    writer.append(Bytes::from_static(b"x")).await?;
    writer.append(Bytes::new()).await?;
    ensure_eq!(writer.position(), 1);
    writer.close().await?;
    ensure_eq!(scene.content(&path).await?, b"x");
    Ok(())
}

async fn append_of_a_full_chunk_is_taken(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let content = pattern(6, MAX_CHUNK_BYTES);
    let mut writer = scene.create(&path).await?;
    writer.append(Bytes::from(content.clone())).await?;
    ensure_eq!(writer.position(), MAX_CHUNK_BYTES as u64);
    writer.close().await?;
    ensure!(scene.content(&path).await? == content, "the bytes differ");
    Ok(())
}

async fn append_over_a_chunk_is_refused(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let mut writer = scene.create(&path).await?;
    let too_much = Bytes::from(vec![1; MAX_CHUNK_BYTES + 1]);
    refused(writer.append(too_much).await, &[ErrorKind::InvalidArgument])?;
    ensure_eq!(writer.position(), 0);
    Ok(())
}

async fn odd_sized_appends_add_up_byte_for_byte(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let content = pattern(7, scene.scale.file_bytes);
    let mut writer = scene.create(&path).await?;
    let (mut rest, mut size) = (&content[..], 1);
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(size.min(rest.len()));
        writer.append(Bytes::copy_from_slice(chunk)).await?;
        rest = after;
        // 1, 4, 13, … 88,573 bytes, never aligned with any block; then from 1 again.
        size = if size > 80_000 { 1 } else { 3 * size + 1 };
    }
    ensure_eq!(writer.position(), content.len() as u64);
    writer.close().await?;
    let read = scene.content(&path).await?;
    let differs = read.iter().zip(&content).position(|(read, due)| read != due);
    ensure!(read == content, "{} of {} bytes, first difference {differs:?}", read.len(), content.len());
    Ok(())
}

async fn flushed_bytes_are_visible_to_new_readers(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let mut writer = scene.create(&path).await?;
    let content = pattern(8, 150_000);
    let mut flushed = 0;
    for end in [1, 1_000, 70_000, 150_000] {
        append(&mut writer, &content[flushed..end]).await?;
        writer.flush().await?;
        flushed = end;
        let read = scene.content(&path).await?;
        ensure!(read == content[..flushed], "{} of {flushed} bytes are visible, or they differ", read.len());
    }
    writer.close().await?;
    Ok(())
}

async fn synced_bytes_are_visible_to_new_readers(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let mut writer = scene.create(&path).await?;
    append(&mut writer, b"synced").await?;
    writer.sync().await?;
    ensure_eq!(scene.content(&path).await?, b"synced");
    writer.close().await?;
    Ok(())
}

async fn flush_and_sync_may_alternate_with_appends(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let mut writer = scene.create(&path).await?;
    writer.flush().await?;
    writer.sync().await?;
    for piece in ["a", "b", "c"] {
        append(&mut writer, piece.as_bytes()).await?;
        writer.flush().await?;
        writer.flush().await?;
        append(&mut writer, piece.as_bytes()).await?;
        writer.sync().await?;
    }
    ensure_eq!(writer.position(), 6);
    writer.close().await?;
    ensure_eq!(scene.content(&path).await?, b"aabbcc");
    Ok(())
}

async fn closed_length_is_recorded(scene: Scene) -> Outcome {
    let path = scene.file("f", &pattern(9, 54_321)).await?;
    ensure_eq!(scene.stat(&path).await?.length, 54_321);
    Ok(())
}

async fn append_continues_an_existing_file(scene: Scene) -> Outcome {
    let path = scene.file("f", b"begun").await?;
    let mut writer = scene.fs.append(&scene.who, &path).await?;
    ensure_eq!(writer.position(), 5);
    append(&mut writer, b", continued").await?;
    ensure_eq!(writer.position(), 16);
    writer.close().await?;
    ensure_eq!(scene.content(&path).await?, b"begun, continued");
    ensure_eq!(scene.stat(&path).await?.length, 16);
    Ok(())
}

async fn append_continues_again_and_again(scene: Scene) -> Outcome {
    let content = pattern(10, 10_000);
    let path = scene.file("f", &content[..1_000]).await?;
    for (start, end) in [(1_000, 1_001), (1_001, 5_000), (5_000, 10_000)] {
        let mut writer = scene.fs.append(&scene.who, &path).await?;
        ensure_eq!(writer.position(), start as u64);
        append(&mut writer, &content[start..end]).await?;
        writer.close().await?;
    }
    ensure!(scene.content(&path).await? == content, "the bytes differ");
    Ok(())
}

async fn append_to_a_missing_file_is_not_found(scene: Scene) -> Outcome {
    refused(scene.fs.append(&scene.who, &scene.at("missing")?).await, &[ErrorKind::NotFound])?;
    refused(scene.stat(&scene.at("missing")?).await, &[ErrorKind::NotFound])
}

async fn append_to_a_directory_is_refused(scene: Scene) -> Outcome {
    let path = scene.directory("d").await?;
    refused(scene.fs.append(&scene.who, &path).await, &[ErrorKind::IsADirectory])
}

async fn an_abandoned_writer_leaves_what_was_flushed(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let content = pattern(11, 100_000);
    let mut abandoned = scene.create(&path).await?;
    append(&mut abandoned, &content).await?;
    abandoned.flush().await?;
    append(&mut abandoned, b"not flushed").await?;
    drop(abandoned);

    let mut writer = scene.append_when_recovered(&path).await?;
    let length = usize::try_from(writer.position()).unwrap_or(usize::MAX);
    ensure!(length >= content.len(), "{length} bytes are left, fewer than {}", content.len());
    append(&mut writer, b"the end").await?;
    writer.close().await?;

    let mut due = content;
    // Unflushed bytes may have arrived or not. Those that arrived must be the first ones.
    due.extend_from_slice(&b"not flushed"[..(length - due.len()).min(11)]);
    due.extend_from_slice(b"the end");
    ensure!(scene.content(&path).await? == due, "flushed bytes changed");
    Ok(())
}

async fn truncate_cuts_to_the_length(scene: Scene) -> Outcome {
    let content = pattern(12, 50_000);
    let path = scene.file("f", &content).await?;
    for length in [49_999, 4_096, 1, 0] {
        scene.fs.truncate(&scene.who, &path, length).await?;
        ensure_eq!(scene.stat(&path).await?.length, length);
        ensure!(scene.content(&path).await? == content[..length as usize], "at {length} the bytes differ");
    }
    Ok(())
}

async fn truncate_to_the_same_length_changes_nothing(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    scene.fs.truncate(&scene.who, &path, 7).await?;
    ensure_eq!(scene.content(&path).await?, b"content");
    Ok(())
}

async fn truncate_beyond_the_end_is_refused(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    for length in [8, i64::MAX as u64, u64::MAX] {
        refused(scene.fs.truncate(&scene.who, &path, length).await, &[ErrorKind::InvalidArgument])?;
    }
    ensure_eq!(scene.content(&path).await?, b"content");
    Ok(())
}

async fn truncate_of_missing_and_directory_is_refused(scene: Scene) -> Outcome {
    let directory = scene.directory("d").await?;
    refused(scene.fs.truncate(&scene.who, &scene.at("missing")?, 0).await, &[ErrorKind::NotFound])?;
    refused(scene.fs.truncate(&scene.who, &directory, 0).await, &[ErrorKind::IsADirectory])
}

async fn truncated_file_takes_appends(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    scene.fs.truncate(&scene.who, &path, 3).await?;
    let mut writer = scene.append_when_recovered(&path).await?;
    ensure_eq!(writer.position(), 3);
    append(&mut writer, b"dition").await?;
    writer.close().await?;
    ensure_eq!(scene.content(&path).await?, b"condition");
    Ok(())
}
