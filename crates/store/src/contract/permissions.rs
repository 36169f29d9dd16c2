//! Acting as each call's principal: rights of another user.

use super::support::{Outcome, Scene, ensure_eq, refused};
use crate::{CreateOptions, ErrorKind, FileSystemExt, Principal, SetAttributes, StorePath};
use bytes::Bytes;

/// Neither a superuser nor in a group of the case's own principal.
const STRANGER: &str = "contract-stranger";

super::cases! {
    a_stranger_reads_only_what_is_readable needs per_user, permissions;
    a_stranger_appends_only_to_what_is_writable needs per_user, permissions, append;
    a_stranger_changes_no_closed_directory needs per_user, permissions;
    a_stranger_owns_what_it_creates needs per_user, permissions;
    a_stranger_sets_no_attributes needs per_user, permissions;
    a_closed_directory_hides_its_entries needs per_user, permissions;
}

fn stranger() -> Principal {
    Principal::new(STRANGER)
}

async fn chmod(scene: &Scene, path: &StorePath, permission: u32) -> crate::Result<()> {
    let set = SetAttributes { permission: Some(permission), ..SetAttributes::default() };
    scene.fs.set_attributes(&scene.who, path, &set).await
}

async fn a_stranger_reads_only_what_is_readable(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    chmod(&scene, &path, 0o644).await?;
    ensure_eq!(scene.fs.read_all(&stranger(), &path, 100).await?, b"content");
    chmod(&scene, &path, 0o600).await?;
    refused(scene.fs.read_all(&stranger(), &path, 100).await, &[ErrorKind::PermissionDenied])
}

async fn a_stranger_appends_only_to_what_is_writable(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    chmod(&scene, &path, 0o644).await?;
    refused(scene.fs.append(&stranger(), &path).await, &[ErrorKind::PermissionDenied])?;
    chmod(&scene, &path, 0o666).await?;
    scene.fs.append(&stranger(), &path).await?.close().await?;
    Ok(())
}

async fn a_stranger_changes_no_closed_directory(scene: Scene) -> Outcome {
    let path = scene.file("d/f", b"content").await?;
    chmod(&scene, &scene.at("d")?, 0o755).await?;
    let denied = &[ErrorKind::PermissionDenied];
    let options = CreateOptions::default();
    refused(scene.fs.create(&stranger(), &scene.at("d/g")?, &options).await, denied)?;
    refused(scene.fs.mkdirs(&stranger(), &scene.at("d/e")?, None).await, denied)?;
    refused(scene.fs.remove(&stranger(), &path, false).await, denied)?;
    refused(scene.fs.rename(&stranger(), &path, &scene.at("d/g")?, false).await, denied)?;
    ensure_eq!(scene.names(&scene.at("d")?).await?, ["f"]);
    Ok(())
}

async fn a_stranger_owns_what_it_creates(scene: Scene) -> Outcome {
    let directory = scene.directory("d").await?;
    chmod(&scene, &directory, 0o777).await?;
    let path = scene.at("d/f")?;
    let options = CreateOptions::default();
    scene.fs.write_all(&stranger(), &path, &options, Bytes::from_static(b"mine")).await?;
    ensure_eq!(scene.stat(&path).await?.owner, STRANGER);
    Ok(())
}

async fn a_stranger_sets_no_attributes(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    chmod(&scene, &path, 0o666).await?;
    let set = SetAttributes { permission: Some(0o777), ..SetAttributes::default() };
    refused(scene.fs.set_attributes(&stranger(), &path, &set).await, &[ErrorKind::PermissionDenied])?;
    ensure_eq!(scene.stat(&path).await?.permission, 0o666);
    Ok(())
}

async fn a_closed_directory_hides_its_entries(scene: Scene) -> Outcome {
    let path = scene.file("d/f", b"content").await?;
    chmod(&scene, &scene.at("d")?, 0o700).await?;
    let denied = &[ErrorKind::PermissionDenied];
    refused(scene.fs.stat(&stranger(), &path).await, denied)?;
    refused(scene.fs.open(&stranger(), &path).await, denied)?;
    refused(scene.fs.list_all(&stranger(), &scene.at("d")?, 10).await, denied)
}
