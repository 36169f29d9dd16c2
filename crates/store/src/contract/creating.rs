//! create: exclusive, overwriting, and its errors.

use super::support::{Outcome, Scene, append, ensure, ensure_eq, refused};
use crate::{CreateOptions, ErrorKind, FileSystemExt, StorePath};
use bytes::Bytes;

super::cases! {
    create_then_close_is_an_empty_file;
    create_is_exclusive;
    create_overwrites_where_asked;
    create_overwriting_nothing_creates;
    create_makes_missing_parents;
    create_over_a_directory_is_already_exists;
    create_beneath_a_file_is_not_a_directory;
    create_of_the_root_is_already_exists;
    create_gives_the_exact_permission needs permissions;
    create_overwriting_gives_the_exact_permission needs permissions;
    create_takes_replication needs replication;
    created_file_is_there_before_close needs visible_while_written;
}

const OVERWRITE: CreateOptions = CreateOptions {
    overwrite: true,
    permission: None,
    replication: None,
    block_size: None,
    min_replicas: None,
};

async fn create_then_close_is_an_empty_file(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let mut writer = scene.create(&path).await?;
    ensure_eq!(writer.position(), 0);
    writer.close().await?;
    ensure_eq!(scene.stat(&path).await?.length, 0);
    ensure_eq!(scene.content(&path).await?, b"");
    Ok(())
}

async fn create_is_exclusive(scene: Scene) -> Outcome {
    let path = scene.file("f", b"first").await?;
    refused(scene.create(&path).await, &[ErrorKind::AlreadyExists])?;
    ensure_eq!(scene.content(&path).await?, b"first");
    Ok(())
}

async fn create_overwrites_where_asked(scene: Scene) -> Outcome {
    let path = scene.file("f", b"a long first content").await?;
    scene.fs.write_all(&scene.who, &path, &OVERWRITE, Bytes::from_static(b"second")).await?;
    ensure_eq!(scene.content(&path).await?, b"second");
    ensure_eq!(scene.stat(&path).await?.length, 6);
    Ok(())
}

async fn create_overwriting_nothing_creates(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    scene.fs.write_all(&scene.who, &path, &OVERWRITE, Bytes::from_static(b"content")).await?;
    ensure_eq!(scene.content(&path).await?, b"content");
    Ok(())
}

async fn create_makes_missing_parents(scene: Scene) -> Outcome {
    let path = scene.file("a/b/c/f", b"deep").await?;
    ensure_eq!(scene.content(&path).await?, b"deep");
    ensure!(scene.stat(&scene.at("a/b")?).await?.is_directory(), "a/b isn't a directory");
    Ok(())
}

async fn create_over_a_directory_is_already_exists(scene: Scene) -> Outcome {
    let path = scene.directory("d").await?;
    refused(scene.create(&path).await, &[ErrorKind::AlreadyExists])?;
    refused(scene.fs.create(&scene.who, &path, &OVERWRITE).await, &[ErrorKind::AlreadyExists])?;
    ensure!(scene.stat(&path).await?.is_directory(), "the directory is gone");
    Ok(())
}

async fn create_beneath_a_file_is_not_a_directory(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    refused(scene.create(&scene.at("f/x")?).await, &[ErrorKind::NotADirectory])?;
    refused(scene.create(&scene.at("f/x/y")?).await, &[ErrorKind::NotADirectory])?;
    ensure_eq!(scene.content(&path).await?, b"content");
    Ok(())
}

async fn create_of_the_root_is_already_exists(scene: Scene) -> Outcome {
    refused(scene.create(&StorePath::root()).await, &[ErrorKind::AlreadyExists])
}

async fn create_gives_the_exact_permission(scene: Scene) -> Outcome {
    for permission in [0o600, 0o666, 0o777, 0o640] {
        let path = scene.at(&format!("f{permission:o}"))?;
        let options = CreateOptions { permission: Some(permission), ..CreateOptions::default() };
        scene.fs.write_all(&scene.who, &path, &options, Bytes::new()).await?;
        ensure_eq!(scene.stat(&path).await?.permission, permission);
    }
    Ok(())
}

async fn create_overwriting_gives_the_exact_permission(scene: Scene) -> Outcome {
    let path = scene.file("f", b"first").await?;
    let options = CreateOptions { permission: Some(0o622), ..OVERWRITE };
    scene.fs.write_all(&scene.who, &path, &options, Bytes::new()).await?;
    ensure_eq!(scene.stat(&path).await?.permission, 0o622);
    Ok(())
}

async fn create_takes_replication(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let options = CreateOptions { replication: Some(2), ..CreateOptions::default() };
    scene.fs.create(&scene.who, &path, &options).await?.close().await?;
    ensure_eq!(scene.stat(&path).await?.replication, 2);
    Ok(())
}

async fn created_file_is_there_before_close(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let mut writer = scene.create(&path).await?;
    ensure_eq!(scene.stat(&path).await?.path, path.as_str());
    ensure_eq!(scene.names(&scene.dir).await?, ["f"]);
    append(&mut writer, b"content").await?;
    writer.close().await?;
    Ok(())
}
