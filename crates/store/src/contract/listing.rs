//! stat and list.

use super::support::{Outcome, Scene, ensure, ensure_eq, refused};
use crate::clock::now_ms;
use crate::{ErrorKind, FileType, Result};
use futures::stream::{self, StreamExt, TryStreamExt};

/// Directories made at a time for the large listing.
const MAKERS: usize = 16;

super::cases! {
    stat_of_a_file_tells_type_length_and_time;
    stat_of_a_directory_tells_its_type;
    stat_of_a_missing_path_is_not_found;
    stat_beneath_a_file_finds_nothing;
    stat_of_the_root_is_a_directory;
    list_of_an_empty_directory_is_empty;
    list_names_each_entry_as_stat_does;
    list_of_a_file_is_the_file_itself;
    list_of_a_missing_path_is_not_found;
    list_of_many_entries_has_each_once;
    list_dropped_half_way_harms_nothing;
}

async fn stat_of_a_file_tells_type_length_and_time(scene: Scene) -> Outcome {
    let before = now_ms();
    let path = scene.file("f", b"12345").await?;
    let status = scene.stat(&path).await?;
    ensure_eq!(status.path, path.as_str());
    ensure_eq!(status.file_type, FileType::File);
    ensure_eq!(status.length, 5);
    ensure!(status.replication >= 1, "replication is {}", status.replication);
    ensure!(status.block_size >= 1, "block size is {}", status.block_size);
    ensure!(!status.owner.is_empty(), "the owner has no name");
    // A second of slack: coarse clocks, and stores that keep whole seconds.
    let modified = before - 1_000..=now_ms() + 1_000;
    ensure!(modified.contains(&status.modified_ms), "modified {} isn't in {modified:?}", status.modified_ms);
    Ok(())
}

async fn stat_of_a_directory_tells_its_type(scene: Scene) -> Outcome {
    let path = scene.directory("d").await?;
    let status = scene.stat(&path).await?;
    ensure_eq!(status.path, path.as_str());
    ensure_eq!(status.file_type, FileType::Directory);
    ensure_eq!(status.length, 0);
    ensure_eq!(status.replication, 0);
    ensure_eq!(status.block_size, 0);
    Ok(())
}

async fn stat_of_a_missing_path_is_not_found(scene: Scene) -> Outcome {
    refused(scene.stat(&scene.at("missing")?).await, &[ErrorKind::NotFound])?;
    refused(scene.stat(&scene.at("missing/too")?).await, &[ErrorKind::NotFound])
}

async fn stat_beneath_a_file_finds_nothing(scene: Scene) -> Outcome {
    scene.file("f", b"").await?;
    refused(scene.stat(&scene.at("f/x")?).await, &[ErrorKind::NotADirectory, ErrorKind::NotFound])
}

async fn stat_of_the_root_is_a_directory(scene: Scene) -> Outcome {
    let status = scene.stat(&crate::StorePath::root()).await?;
    ensure_eq!(status.path, "/");
    ensure!(status.is_directory(), "the root isn't a directory");
    Ok(())
}

async fn list_of_an_empty_directory_is_empty(scene: Scene) -> Outcome {
    let path = scene.directory("d").await?;
    ensure_eq!(scene.names(&path).await?, Vec::<String>::new());
    Ok(())
}

async fn list_names_each_entry_as_stat_does(scene: Scene) -> Outcome {
    let file = scene.file("f", b"123").await?;
    let directory = scene.directory("d").await?;
    let mut entries: Vec<_> = scene.fs.list(&scene.who, &scene.dir).try_collect().await?;
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    ensure_eq!(entries, [scene.stat(&directory).await?, scene.stat(&file).await?]);
    Ok(())
}

async fn list_of_a_file_is_the_file_itself(scene: Scene) -> Outcome {
    let path = scene.file("f", b"123").await?;
    let entries: Vec<_> = scene.fs.list(&scene.who, &path).try_collect().await?;
    ensure_eq!(entries, [scene.stat(&path).await?]);
    Ok(())
}

async fn list_of_a_missing_path_is_not_found(scene: Scene) -> Outcome {
    let mut listing = scene.fs.list(&scene.who, &scene.at("missing")?);
    match listing.next().await {
        Some(first) => refused(first, &[ErrorKind::NotFound])?,
        None => ensure!(false, "the listing is empty"),
    }
    ensure!(listing.next().await.is_none(), "the listing continues after NotFound");
    Ok(())
}

async fn list_of_many_entries_has_each_once(scene: Scene) -> Outcome {
    let mut expected: Vec<String> = (0..scene.scale.entries).map(|n| format!("e{n:05}")).collect();
    let paths: Vec<_> = expected.iter().map(|name| scene.at(name)).collect::<Result<_>>()?;
    let made = stream::iter(paths).map(|path| {
        let (fs, who) = (&scene.fs, &scene.who);
        async move { fs.mkdirs(who, &path, None).await }
    });
    made.buffer_unordered(MAKERS).try_collect::<()>().await?;
    let names = scene.names(&scene.dir).await?;
    expected.sort();
    ensure_eq!(names.len(), expected.len());
    ensure!(names == expected, "entries are missing, unexpected or repeated");
    Ok(())
}

async fn list_dropped_half_way_harms_nothing(scene: Scene) -> Outcome {
    for name in ["a", "b", "c"] {
        scene.directory(name).await?;
    }
    let mut listing = scene.fs.list(&scene.who, &scene.dir);
    let first = listing.next().await;
    ensure!(matches!(first, Some(Ok(_))), "the first entry is {first:?}");
    drop(listing);
    ensure_eq!(scene.names(&scene.dir).await?, ["a", "b", "c"]);
    Ok(())
}
