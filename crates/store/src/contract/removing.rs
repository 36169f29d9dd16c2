//! remove.

use super::support::{Outcome, Scene, append, ensure, ensure_eq, refused};
use crate::{CreateOptions, ErrorKind, StorePath};

super::cases! {
    remove_takes_a_file;
    remove_takes_an_empty_directory;
    remove_of_a_directory_with_entries_needs_recursive;
    remove_recursive_takes_everything;
    remove_recursive_takes_a_file_too;
    remove_of_a_missing_path_is_not_found;
    remove_beneath_a_file_finds_nothing;
    remove_of_the_root_is_refused;
    remove_of_an_open_file_harms_only_its_writer;
    removed_name_is_free_again;
}

async fn remove_takes_a_file(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    scene.fs.remove(&scene.who, &path, false).await?;
    ensure_eq!(scene.names(&scene.dir).await?, Vec::<String>::new());
    refused(scene.stat(&path).await, &[ErrorKind::NotFound])?;
    refused(scene.fs.open(&scene.who, &path).await, &[ErrorKind::NotFound])
}

async fn remove_takes_an_empty_directory(scene: Scene) -> Outcome {
    let path = scene.directory("d").await?;
    scene.fs.remove(&scene.who, &path, false).await?;
    refused(scene.stat(&path).await, &[ErrorKind::NotFound])
}

async fn remove_of_a_directory_with_entries_needs_recursive(scene: Scene) -> Outcome {
    let kept = scene.file("d/f", b"content").await?;
    let directory = scene.at("d")?;
    refused(scene.fs.remove(&scene.who, &directory, false).await, &[ErrorKind::NotEmpty])?;
    ensure_eq!(scene.content(&kept).await?, b"content");
    Ok(())
}

async fn remove_recursive_takes_everything(scene: Scene) -> Outcome {
    for name in ["d/f", "d/a/f", "d/a/b/c/f"] {
        scene.file(name, b"content").await?;
    }
    scene.directory("d/e/e/e").await?;
    scene.file("beside", b"content").await?;
    scene.fs.remove(&scene.who, &scene.at("d")?, true).await?;
    ensure_eq!(scene.names(&scene.dir).await?, ["beside"]);
    Ok(())
}

async fn remove_recursive_takes_a_file_too(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    scene.fs.remove(&scene.who, &path, true).await?;
    refused(scene.stat(&path).await, &[ErrorKind::NotFound])
}

async fn remove_of_a_missing_path_is_not_found(scene: Scene) -> Outcome {
    for recursive in [false, true] {
        for name in ["missing", "missing/too"] {
            let removed = scene.fs.remove(&scene.who, &scene.at(name)?, recursive).await;
            refused(removed, &[ErrorKind::NotFound])?;
        }
    }
    Ok(())
}

async fn remove_beneath_a_file_finds_nothing(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    let removed = scene.fs.remove(&scene.who, &scene.at("f/x")?, true).await;
    refused(removed, &[ErrorKind::NotADirectory, ErrorKind::NotFound])?;
    ensure_eq!(scene.content(&path).await?, b"content");
    Ok(())
}

async fn remove_of_the_root_is_refused(scene: Scene) -> Outcome {
    for recursive in [false, true] {
        let removed = scene.fs.remove(&scene.who, &StorePath::root(), recursive).await;
        refused(removed, &[ErrorKind::InvalidArgument])?;
    }
    ensure!(scene.stat(&scene.dir).await?.is_directory(), "the root's content is gone");
    Ok(())
}

async fn remove_of_an_open_file_harms_only_its_writer(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let mut writer = scene.create(&path).await?;
    append(&mut writer, b"content").await?;
    writer.flush().await?;
    scene.fs.remove(&scene.who, &path, false).await?;
    refused(scene.stat(&path).await, &[ErrorKind::NotFound])?;
    // The writer may continue without effect (POSIX) or get an error (HDFS).
    let _ = append(&mut writer, b"more").await;
    let _ = writer.close().await;
    refused(scene.stat(&path).await, &[ErrorKind::NotFound])?;
    scene.file("f", b"new").await?;
    ensure_eq!(scene.content(&path).await?, b"new");
    Ok(())
}

async fn removed_name_is_free_again(scene: Scene) -> Outcome {
    let path = scene.file("n", b"a file").await?;
    scene.fs.remove(&scene.who, &path, false).await?;
    scene.fs.mkdirs(&scene.who, &path, None).await?;
    scene.fs.remove(&scene.who, &path, false).await?;
    let mut writer = scene.fs.create(&scene.who, &path, &CreateOptions::default()).await?;
    writer.close().await?;
    ensure_eq!(scene.content(&path).await?, b"");
    Ok(())
}
