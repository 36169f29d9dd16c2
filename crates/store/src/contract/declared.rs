//! Inverse cases: operations whose capability the store doesn't declare must answer `Unsupported`.

use super::support::{Outcome, Scene, ensure_eq, refused};
use crate::{CreateOptions, ErrorKind, FileSystemExt, SetAttributes};
use bytes::Bytes;

super::cases! {
    append_is_unsupported_as_declared lacks append;
    truncate_is_unsupported_as_declared lacks truncate;
    concat_is_unsupported_as_declared lacks concat;
    rename_replace_is_unsupported_as_declared lacks rename_replace;
    permissions_are_unsupported_as_declared lacks permissions;
    ownership_is_unsupported_as_declared lacks ownership;
    times_are_unsupported_as_declared lacks times;
    replication_is_unsupported_as_declared lacks replication;
    create_ignores_replication_it_has_no_notion_of lacks replication;
    block_locations_are_unsupported_as_declared lacks block_locations;
    checksum_is_unsupported_as_declared lacks checksum;
    status_is_unsupported_as_declared lacks status;
}

const UNSUPPORTED: &[ErrorKind] = &[ErrorKind::Unsupported];

async fn append_is_unsupported_as_declared(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    refused(scene.fs.append(&scene.who, &path).await, UNSUPPORTED)
}

async fn truncate_is_unsupported_as_declared(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    refused(scene.fs.truncate(&scene.who, &path, 0).await, UNSUPPORTED)?;
    ensure_eq!(scene.content(&path).await?, b"content");
    Ok(())
}

async fn concat_is_unsupported_as_declared(scene: Scene) -> Outcome {
    let (target, source) = (scene.file("target", b"one").await?, scene.file("source", b"two").await?);
    refused(scene.fs.concat(&scene.who, &target, std::slice::from_ref(&source)).await, UNSUPPORTED)?;
    ensure_eq!(scene.content(&target).await?, b"one");
    ensure_eq!(scene.content(&source).await?, b"two");
    Ok(())
}

async fn rename_replace_is_unsupported_as_declared(scene: Scene) -> Outcome {
    let (from, to) = (scene.file("from", b"new").await?, scene.file("to", b"old").await?);
    refused(scene.fs.rename(&scene.who, &from, &to, true).await, UNSUPPORTED)?;
    ensure_eq!(scene.content(&to).await?, b"old");
    Ok(())
}

/// Checks that the store sets nothing of `set`, not even attributes that it supports.
async fn ensure_unset(scene: &Scene, set: SetAttributes) -> Outcome {
    let path = scene.file("f", b"content").await?;
    let before = scene.stat(&path).await?;
    refused(scene.fs.set_attributes(&scene.who, &path, &set).await, UNSUPPORTED)?;
    ensure_eq!(scene.stat(&path).await?, before);
    Ok(())
}

async fn permissions_are_unsupported_as_declared(scene: Scene) -> Outcome {
    ensure_unset(&scene, SetAttributes { permission: Some(0o600), ..Default::default() }).await
}

async fn ownership_is_unsupported_as_declared(scene: Scene) -> Outcome {
    ensure_unset(&scene, SetAttributes { owner: Some("daemon".to_owned()), ..Default::default() }).await
}

async fn times_are_unsupported_as_declared(scene: Scene) -> Outcome {
    ensure_unset(&scene, SetAttributes { modified_ms: Some(0), ..Default::default() }).await
}

async fn replication_is_unsupported_as_declared(scene: Scene) -> Outcome {
    let permission = scene.fs.capabilities().permissions.then_some(0o600);
    ensure_unset(&scene, SetAttributes { permission, replication: Some(2), ..Default::default() }).await
}

async fn create_ignores_replication_it_has_no_notion_of(scene: Scene) -> Outcome {
    let path = scene.at("f")?;
    let options = CreateOptions { replication: Some(3), ..CreateOptions::default() };
    scene.fs.write_all(&scene.who, &path, &options, Bytes::from_static(b"content")).await?;
    ensure_eq!(scene.content(&path).await?, b"content");
    Ok(())
}

async fn block_locations_are_unsupported_as_declared(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    refused(scene.fs.block_locations(&scene.who, &path, 0..7).await, UNSUPPORTED)
}

async fn checksum_is_unsupported_as_declared(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    refused(scene.fs.checksum(&scene.who, &path).await, UNSUPPORTED)
}

async fn status_is_unsupported_as_declared(scene: Scene) -> Outcome {
    refused(scene.fs.status(&scene.who).await, UNSUPPORTED)
}
