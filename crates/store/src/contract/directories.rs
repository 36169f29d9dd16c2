//! mkdirs.

use super::support::{Outcome, Scene, ensure, ensure_eq, refused};
use crate::{ErrorKind, StorePath};

super::cases! {
    mkdirs_makes_missing_parents;
    mkdirs_of_an_existing_directory_is_success;
    mkdirs_of_the_root_is_success;
    mkdirs_over_a_file_is_already_exists;
    mkdirs_beneath_a_file_is_not_a_directory;
    mkdirs_gives_the_exact_permission needs permissions;
}

async fn mkdirs_makes_missing_parents(scene: Scene) -> Outcome {
    let path = scene.directory("a/b/c").await?;
    ensure!(scene.stat(&path).await?.is_directory(), "{path} isn't a directory");
    ensure_eq!(scene.names(&scene.at("a")?).await?, ["b"]);
    Ok(())
}

async fn mkdirs_of_an_existing_directory_is_success(scene: Scene) -> Outcome {
    let kept = scene.file("d/f", b"content").await?;
    scene.directory("d").await?;
    ensure_eq!(scene.content(&kept).await?, b"content");
    Ok(())
}

async fn mkdirs_of_the_root_is_success(scene: Scene) -> Outcome {
    scene.fs.mkdirs(&scene.who, &StorePath::root(), None).await?;
    Ok(())
}

async fn mkdirs_over_a_file_is_already_exists(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    refused(scene.fs.mkdirs(&scene.who, &path, None).await, &[ErrorKind::AlreadyExists])?;
    ensure_eq!(scene.content(&path).await?, b"content");
    Ok(())
}

async fn mkdirs_beneath_a_file_is_not_a_directory(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    for name in ["f/x", "f/x/y"] {
        let made = scene.fs.mkdirs(&scene.who, &scene.at(name)?, None).await;
        refused(made, &[ErrorKind::NotADirectory])?;
    }
    ensure_eq!(scene.content(&path).await?, b"content");
    Ok(())
}

async fn mkdirs_gives_the_exact_permission(scene: Scene) -> Outcome {
    for permission in [0o700, 0o777, 0o1777, 0o755] {
        let path = scene.at(&format!("d{permission:o}"))?;
        scene.fs.mkdirs(&scene.who, &path, Some(permission)).await?;
        ensure_eq!(scene.stat(&path).await?.permission, permission);
    }
    Ok(())
}
