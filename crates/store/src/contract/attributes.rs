//! set_attributes, each attribute alone and several at once.

use super::support::{Outcome, Scene, ensure_eq, refused};
use crate::{ErrorKind, SetAttributes};

/// A user and group that every Linux has.
const SOMEBODY: &str = "daemon";
/// 2001-09-09 01:46:39.123 UTC.
const LONG_AGO_MS: i64 = 999_999_999_123;

super::cases! {
    permission_is_set_alone needs permissions;
    permission_of_a_directory_is_set needs permissions;
    owner_and_group_are_set needs ownership;
    times_are_set_to_the_millisecond needs times;
    times_before_1970_are_set_or_refused needs times;
    replication_is_set needs replication;
    setting_nothing_changes_nothing needs permissions;
    attributes_of_a_missing_path_are_not_found needs permissions;
    permission_beyond_the_bits_is_refused needs permissions;
}

async fn permission_is_set_alone(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    let before = scene.stat(&path).await?;
    for permission in [0o600, 0o444, 0o777, 0o644] {
        let set = SetAttributes { permission: Some(permission), ..SetAttributes::default() };
        scene.fs.set_attributes(&scene.who, &path, &set).await?;
        let after = scene.stat(&path).await?;
        ensure_eq!(after.permission, permission);
        ensure_eq!((&after.owner, &after.group), (&before.owner, &before.group));
        ensure_eq!(after.modified_ms, before.modified_ms);
    }
    Ok(())
}

async fn permission_of_a_directory_is_set(scene: Scene) -> Outcome {
    let path = scene.directory("d").await?;
    let set = SetAttributes { permission: Some(0o1770), ..SetAttributes::default() };
    scene.fs.set_attributes(&scene.who, &path, &set).await?;
    ensure_eq!(scene.stat(&path).await?.permission, 0o1770);
    Ok(())
}

async fn owner_and_group_are_set(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    let before = scene.stat(&path).await?;
    let set = SetAttributes { owner: Some(SOMEBODY.to_owned()), ..SetAttributes::default() };
    scene.fs.set_attributes(&scene.who, &path, &set).await?;
    let status = scene.stat(&path).await?;
    ensure_eq!((status.owner.as_str(), status.group), (SOMEBODY, before.group));
    let set = SetAttributes { group: Some(SOMEBODY.to_owned()), ..SetAttributes::default() };
    scene.fs.set_attributes(&scene.who, &path, &set).await?;
    let status = scene.stat(&path).await?;
    ensure_eq!((status.owner.as_str(), status.group.as_str()), (SOMEBODY, SOMEBODY));
    ensure_eq!(status.permission, before.permission);
    Ok(())
}

async fn times_are_set_to_the_millisecond(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    let set = SetAttributes {
        modified_ms: Some(LONG_AGO_MS),
        accessed_ms: Some(LONG_AGO_MS + 4_567),
        ..SetAttributes::default()
    };
    scene.fs.set_attributes(&scene.who, &path, &set).await?;
    let status = scene.stat(&path).await?;
    ensure_eq!((status.modified_ms, status.accessed_ms), (LONG_AGO_MS, LONG_AGO_MS + 4_567));

    let set = SetAttributes { modified_ms: Some(LONG_AGO_MS + 1), ..SetAttributes::default() };
    scene.fs.set_attributes(&scene.who, &path, &set).await?;
    let status = scene.stat(&path).await?;
    ensure_eq!((status.modified_ms, status.accessed_ms), (LONG_AGO_MS + 1, LONG_AGO_MS + 4_567));
    Ok(())
}

async fn times_before_1970_are_set_or_refused(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    // Not -1, which means "leave it" to HDFS.
    let set = SetAttributes { modified_ms: Some(-1_500), ..SetAttributes::default() };
    match scene.fs.set_attributes(&scene.who, &path, &set).await {
        Ok(()) => ensure_eq!(scene.stat(&path).await?.modified_ms, -1_500),
        refusal => refused(refusal, &[ErrorKind::InvalidArgument])?,
    }
    Ok(())
}

async fn replication_is_set(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    for replication in [1, 2] {
        let set = SetAttributes { replication: Some(replication), ..SetAttributes::default() };
        scene.fs.set_attributes(&scene.who, &path, &set).await?;
        ensure_eq!(scene.stat(&path).await?.replication, replication);
    }
    Ok(())
}

async fn setting_nothing_changes_nothing(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    let before = scene.stat(&path).await?;
    scene.fs.set_attributes(&scene.who, &path, &SetAttributes::default()).await?;
    ensure_eq!(scene.stat(&path).await?, before);
    Ok(())
}

async fn attributes_of_a_missing_path_are_not_found(scene: Scene) -> Outcome {
    let set = SetAttributes { permission: Some(0o600), ..SetAttributes::default() };
    refused(scene.fs.set_attributes(&scene.who, &scene.at("missing")?, &set).await, &[ErrorKind::NotFound])
}

async fn permission_beyond_the_bits_is_refused(scene: Scene) -> Outcome {
    let path = scene.file("f", b"content").await?;
    let before = scene.stat(&path).await?.permission;
    let set = SetAttributes { permission: Some(0o10_000), ..SetAttributes::default() };
    refused(scene.fs.set_attributes(&scene.who, &path, &set).await, &[ErrorKind::InvalidArgument])?;
    ensure_eq!(scene.stat(&path).await?.permission, before);
    Ok(())
}
