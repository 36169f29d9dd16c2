//! rename, with and without replace.

use super::support::{Outcome, Scene, append, ensure, ensure_eq, refused};
use crate::{ErrorKind, Result, StorePath};

super::cases! {
    rename_moves_a_file;
    rename_moves_a_directory_with_all_in_it;
    rename_to_another_directory_keeps_the_content;
    rename_without_replace_leaves_what_is_there;
    rename_replaces_a_file needs rename_replace;
    rename_replaces_nothing_too needs rename_replace;
    rename_replaces_an_empty_directory_by_a_directory needs rename_replace;
    rename_never_replaces_a_directory_with_entries needs rename_replace;
    rename_never_mixes_files_and_directories needs rename_replace;
    rename_never_moves_into_a_directory_of_the_name;
    rename_of_a_missing_source_is_not_found;
    rename_to_a_missing_parent_is_not_found;
    rename_beneath_a_file_is_not_a_directory;
    rename_of_a_directory_into_itself_is_refused;
    rename_onto_itself_is_already_exists;
    rename_of_and_onto_the_root_is_refused;
    renamed_open_file_is_written_on_or_fails_alone needs visible_while_written;
}

async fn rename(scene: &Scene, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
    scene.fs.rename(&scene.who, from, to, replace).await
}

async fn rename_moves_a_file(scene: Scene) -> Outcome {
    let (from, to) = (scene.file("from", b"content").await?, scene.at("to")?);
    rename(&scene, &from, &to, false).await?;
    ensure_eq!(scene.names(&scene.dir).await?, ["to"]);
    ensure_eq!(scene.content(&to).await?, b"content");
    refused(scene.stat(&from).await, &[ErrorKind::NotFound])
}

async fn rename_moves_a_directory_with_all_in_it(scene: Scene) -> Outcome {
    scene.file("from/a/f", b"content").await?;
    rename(&scene, &scene.at("from")?, &scene.at("to")?, false).await?;
    ensure_eq!(scene.content(&scene.at("to/a/f")?).await?, b"content");
    ensure_eq!(scene.names(&scene.dir).await?, ["to"]);
    Ok(())
}

async fn rename_to_another_directory_keeps_the_content(scene: Scene) -> Outcome {
    let from = scene.file("a/f", b"content").await?;
    scene.directory("b").await?;
    rename(&scene, &from, &scene.at("b/g")?, false).await?;
    ensure_eq!(scene.content(&scene.at("b/g")?).await?, b"content");
    ensure_eq!(scene.names(&scene.at("a")?).await?, Vec::<String>::new());
    Ok(())
}

async fn rename_without_replace_leaves_what_is_there(scene: Scene) -> Outcome {
    let (from, to) = (scene.file("from", b"new").await?, scene.file("to", b"old").await?);
    refused(rename(&scene, &from, &to, false).await, &[ErrorKind::AlreadyExists])?;
    ensure_eq!(scene.content(&from).await?, b"new");
    ensure_eq!(scene.content(&to).await?, b"old");
    Ok(())
}

async fn rename_replaces_a_file(scene: Scene) -> Outcome {
    let (from, to) = (scene.file("from", b"new").await?, scene.file("to", b"old").await?);
    rename(&scene, &from, &to, true).await?;
    ensure_eq!(scene.content(&to).await?, b"new");
    ensure_eq!(scene.names(&scene.dir).await?, ["to"]);
    Ok(())
}

async fn rename_replaces_nothing_too(scene: Scene) -> Outcome {
    let (from, to) = (scene.file("from", b"new").await?, scene.at("to")?);
    rename(&scene, &from, &to, true).await?;
    ensure_eq!(scene.content(&to).await?, b"new");
    Ok(())
}

async fn rename_replaces_an_empty_directory_by_a_directory(scene: Scene) -> Outcome {
    scene.file("from/f", b"content").await?;
    let to = scene.directory("to").await?;
    rename(&scene, &scene.at("from")?, &to, true).await?;
    ensure_eq!(scene.names(&to).await?, ["f"]);
    Ok(())
}

async fn rename_never_replaces_a_directory_with_entries(scene: Scene) -> Outcome {
    let from = scene.directory("from").await?;
    let kept = scene.file("to/f", b"content").await?;
    refused(rename(&scene, &from, &scene.at("to")?, true).await, &[ErrorKind::NotEmpty])?;
    ensure_eq!(scene.content(&kept).await?, b"content");
    Ok(())
}

async fn rename_never_mixes_files_and_directories(scene: Scene) -> Outcome {
    let (file, directory) = (scene.file("f", b"content").await?, scene.directory("d").await?);
    refused(rename(&scene, &file, &directory, true).await, &[ErrorKind::IsADirectory])?;
    refused(rename(&scene, &directory, &file, true).await, &[ErrorKind::NotADirectory])?;
    ensure_eq!(scene.content(&file).await?, b"content");
    ensure_eq!(scene.names(&directory).await?, Vec::<String>::new());
    Ok(())
}

async fn rename_never_moves_into_a_directory_of_the_name(scene: Scene) -> Outcome {
    let (file, directory) = (scene.file("f", b"content").await?, scene.directory("d").await?);
    refused(rename(&scene, &file, &directory, false).await, &[ErrorKind::AlreadyExists])?;
    ensure_eq!(scene.names(&directory).await?, Vec::<String>::new());
    Ok(())
}

async fn rename_of_a_missing_source_is_not_found(scene: Scene) -> Outcome {
    let kept = scene.file("to", b"content").await?;
    refused(rename(&scene, &scene.at("from")?, &scene.at("new")?, false).await, &[ErrorKind::NotFound])?;
    if scene.fs.capabilities().rename_replace {
        refused(rename(&scene, &scene.at("from")?, &kept, true).await, &[ErrorKind::NotFound])?;
    }
    ensure_eq!(scene.content(&kept).await?, b"content");
    Ok(())
}

async fn rename_to_a_missing_parent_is_not_found(scene: Scene) -> Outcome {
    let from = scene.file("from", b"content").await?;
    refused(rename(&scene, &from, &scene.at("missing/to")?, false).await, &[ErrorKind::NotFound])?;
    ensure_eq!(scene.content(&from).await?, b"content");
    Ok(())
}

async fn rename_beneath_a_file_is_not_a_directory(scene: Scene) -> Outcome {
    let from = scene.file("from", b"content").await?;
    scene.file("f", b"").await?;
    refused(rename(&scene, &from, &scene.at("f/to")?, false).await, &[ErrorKind::NotADirectory])?;
    ensure_eq!(scene.content(&from).await?, b"content");
    Ok(())
}

async fn rename_of_a_directory_into_itself_is_refused(scene: Scene) -> Outcome {
    let directory = scene.directory("d").await?;
    scene.directory("d/e").await?;
    for target in ["d/x", "d/e/x"] {
        refused(rename(&scene, &directory, &scene.at(target)?, false).await, &[ErrorKind::InvalidArgument])?;
    }
    // A sibling whose name has the same prefix isn't inside.
    rename(&scene, &directory, &scene.at("dd")?, false).await?;
    ensure_eq!(scene.names(&scene.dir).await?, ["dd"]);
    Ok(())
}

async fn rename_onto_itself_is_already_exists(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    refused(rename(&scene, &path, &path, false).await, &[ErrorKind::AlreadyExists])?;
    if scene.fs.capabilities().rename_replace {
        refused(rename(&scene, &path, &path, true).await, &[ErrorKind::AlreadyExists])?;
    }
    ensure_eq!(scene.content(&path).await?, b"content");
    Ok(())
}

async fn rename_of_and_onto_the_root_is_refused(scene: Scene) -> Outcome {
    let (root, from) = (StorePath::root(), scene.file("from", b"content").await?);
    refused(rename(&scene, &root, &scene.at("to")?, false).await, &[ErrorKind::InvalidArgument])?;
    refused(rename(&scene, &from, &root, false).await, &[ErrorKind::AlreadyExists])?;
    ensure_eq!(scene.content(&from).await?, b"content");
    Ok(())
}

async fn renamed_open_file_is_written_on_or_fails_alone(scene: Scene) -> Outcome {
    let (from, to) = (scene.at("from")?, scene.at("to")?);
    let mut writer = scene.create(&from).await?;
    append(&mut writer, b"flushed").await?;
    writer.flush().await?;
    rename(&scene, &from, &to, false).await?;
    // A store that addresses files by path in each call (as HDFS may) loses the writer.
    let written_on = match append(&mut writer, b", more").await {
        Ok(()) => writer.close().await.is_ok(),
        Err(_) => false,
    };
    let content = scene.content(&to).await?;
    ensure!(content.starts_with(b"flushed"), "flushed bytes are lost");
    ensure!(!written_on || content == b"flushed, more", "the writer's bytes are lost without an error");
    refused(scene.stat(&from).await, &[ErrorKind::NotFound])
}
