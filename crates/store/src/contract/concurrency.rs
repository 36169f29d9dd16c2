//! Several callers at once.

use super::support::{Outcome, Scene, append, ensure, ensure_eq, pattern, refused};
use crate::{CreateOptions, ErrorKind};
use bytes::Bytes;
use futures::future::{join_all, try_join};
use std::sync::atomic::{AtomicBool, Ordering};

/// Callers that compete for one name.
const RIVALS: usize = 8;
/// Files that replace each other under one name. With so many, some check falls between two steps of a
/// replacement.
const REPLACEMENTS: usize = 32;
/// New directories that several callers make at once. GlusterFS failed in about one of ten.
const NEW_DIRECTORIES: usize = 8;

super::cases! {
    of_concurrent_creates_exactly_one_wins;
    of_concurrent_renames_exactly_one_wins;
    a_replaced_name_is_never_without_a_file needs rename_replace;
    concurrent_mkdirs_of_one_path_all_succeed;
    concurrent_mkdirs_in_a_new_directory_all_succeed;
    many_files_are_written_at_once;
    a_second_writer_is_refused needs append, exclusive_writer;
    of_concurrent_appends_at_most_one_holds_the_file needs append, exclusive_writer;
    overwriting_an_open_file_harms_one_writer_at_most needs exclusive_writer;
    truncate_of_an_open_file_is_refused needs truncate, exclusive_writer;
    a_reader_keeps_up_with_a_writer needs visible_while_written;
}

async fn of_concurrent_creates_exactly_one_wins(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let outcomes = join_all((0..RIVALS).map(|_| scene.create(&path))).await;
    let mut won = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(writer) => won.push(writer),
            refusal => refused(refusal, &[ErrorKind::AlreadyExists, ErrorKind::Busy])?,
        }
    }
    ensure_eq!(won.len(), 1);
    for mut writer in won {
        append(&mut writer, b"the winner's").await?;
        writer.close().await?;
    }
    ensure_eq!(scene.content(&path).await?, b"the winner's");
    Ok(())
}

async fn of_concurrent_renames_exactly_one_wins(scene: Scene) -> Outcome {
    let target = scene.at("target")?;
    let mut sources = Vec::new();
    for n in 0..RIVALS {
        sources.push(scene.directory(&format!("d{n}")).await?);
    }
    let renames = sources.iter().map(|source| scene.fs.rename(&scene.who, source, &target, false));
    let mut won = 0;
    for outcome in join_all(renames).await {
        match outcome {
            Ok(()) => won += 1,
            refusal => refused(refusal, &[ErrorKind::AlreadyExists])?,
        }
    }
    ensure_eq!(won, 1);
    ensure_eq!(scene.names(&scene.dir).await?.len(), RIVALS);
    Ok(())
}

async fn a_replaced_name_is_never_without_a_file(scene: Scene) -> Outcome {
    let target = scene.file("target", b"first").await?;
    let names: Vec<String> = (0..REPLACEMENTS).map(|n| format!("f{n}")).collect();
    let mut sources = Vec::new();
    for source in join_all(names.iter().map(|name| scene.file(name, b"next"))).await {
        sources.push(source?);
    }
    // Without this pause, a store that never waits would make all replacements before the first check.
    let pause = tokio::task::yield_now;
    let done = AtomicBool::new(false);
    let replacing = async {
        for source in &sources {
            scene.fs.rename(&scene.who, source, &target, true).await?;
            pause().await;
        }
        done.store(true, Ordering::Relaxed);
        Ok(())
    };
    let looking = async {
        while !done.load(Ordering::Relaxed) {
            ensure!(!scene.stat(&target).await?.is_directory(), "{target} is a directory");
            pause().await;
        }
        Ok(())
    };
    try_join(replacing, looking).await.map(|_| ())
}

async fn concurrent_mkdirs_of_one_path_all_succeed(scene: Scene) -> Outcome {
    let path = scene.at("a/b/c/d")?;
    for outcome in join_all((0..RIVALS).map(|_| scene.fs.mkdirs(&scene.who, &path, None))).await {
        outcome?;
    }
    ensure!(scene.stat(&path).await?.is_directory(), "{path} isn't a directory");
    Ok(())
}

async fn concurrent_mkdirs_in_a_new_directory_all_succeed(scene: Scene) -> Outcome {
    for round in 0..NEW_DIRECTORIES {
        let mut paths = Vec::new();
        for n in 0..RIVALS {
            paths.push(scene.at(&format!("new{round}/d{n}"))?);
        }
        for outcome in join_all(paths.iter().map(|path| scene.fs.mkdirs(&scene.who, path, None))).await {
            outcome?;
        }
        ensure_eq!(scene.names(&scene.at(&format!("new{round}"))?).await?.len(), RIVALS);
    }
    Ok(())
}

async fn many_files_are_written_at_once(scene: Scene) -> Outcome {
    let contents: Vec<Vec<u8>> = (0..RIVALS).map(|n| pattern(100 + n as u64, 200_000 + n)).collect();
    let names: Vec<String> = (0..RIVALS).map(|n| format!("f{n}")).collect();
    let writes = names.iter().zip(&contents).map(|(name, content)| scene.file(name, content));
    let paths = join_all(writes).await;
    for (path, content) in paths.into_iter().zip(&contents) {
        let path = path?;
        ensure!(scene.content(&path).await? == *content, "{path} has other bytes");
    }
    Ok(())
}

async fn a_second_writer_is_refused(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let mut first = scene.create(&path).await?;
    append(&mut first, b"first").await?;
    first.flush().await?;
    refused(scene.fs.append(&scene.who, &path).await, &[ErrorKind::Busy])?;
    first.close().await?;

    let mut second = scene.fs.append(&scene.who, &path).await?;
    refused(scene.fs.append(&scene.who, &path).await, &[ErrorKind::Busy])?;
    append(&mut second, b" second").await?;
    second.close().await?;
    ensure_eq!(scene.content(&path).await?, b"first second");
    Ok(())
}

async fn of_concurrent_appends_at_most_one_holds_the_file(scene: Scene) -> Outcome {
    let path = scene.file("f", b"").await?;
    let outcomes = join_all((0..RIVALS).map(|_| scene.fs.append(&scene.who, &path))).await;
    let mut won = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(writer) => won.push(writer),
            refusal => refused(refusal, &[ErrorKind::Busy])?,
        }
    }
    ensure_eq!(won.len(), 1);
    for mut writer in won {
        append(&mut writer, b"once").await?;
        writer.close().await?;
    }
    ensure_eq!(scene.content(&path).await?, b"once");
    Ok(())
}

async fn overwriting_an_open_file_harms_one_writer_at_most(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let mut first = scene.create(&path).await?;
    append(&mut first, b"first").await?;
    first.flush().await?;
    let options = CreateOptions { overwrite: true, ..CreateOptions::default() };
    match scene.fs.create(&scene.who, &path, &options).await {
        Ok(mut second) => {
            append(&mut second, b"second").await?;
            second.close().await?;
            let late = match append(&mut first, b"late").await {
                Ok(()) => first.close().await.map(drop),
                error => error,
            };
            ensure!(late.is_err(), "both writers succeed on one name");
            ensure_eq!(scene.content(&path).await?, b"second");
        }
        refusal => {
            refused(refusal, &[ErrorKind::Busy])?;
            first.close().await?;
            ensure_eq!(scene.content(&path).await?, b"first");
        }
    }
    Ok(())
}

async fn truncate_of_an_open_file_is_refused(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let mut writer = scene.create(&path).await?;
    append(&mut writer, b"content").await?;
    writer.flush().await?;
    refused(scene.fs.truncate(&scene.who, &path, 0).await, &[ErrorKind::Busy])?;
    writer.close().await?;
    ensure_eq!(scene.content(&path).await?, b"content");
    Ok(())
}

async fn a_reader_keeps_up_with_a_writer(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let mut writer = scene.create(&path).await?;
    let content = pattern(13, 100_000);
    for (round, chunk) in content.chunks(10_000).enumerate() {
        let flushed = round * 10_000;
        // Reads the flushed bytes while the next chunk is being appended.
        let read = async {
            let reader = scene.fs.open(&scene.who, &path).await?;
            reader.read_at(0, flushed).await
        };
        let (read, appended) = futures::join!(read, writer.append(Bytes::copy_from_slice(chunk)));
        appended?;
        ensure!(read? == content[..flushed], "in round {round} the bytes differ");
        writer.flush().await?;
    }
    writer.close().await?;
    ensure!(scene.content(&path).await? == content, "in the end the bytes differ");
    Ok(())
}
