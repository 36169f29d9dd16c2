//! Joining files without copying.

use super::support::{Outcome, Scene, append, ensure, ensure_eq, pattern, refused};
use crate::{ErrorKind, MAX_CONCAT_SOURCES, Principal, SetAttributes, StorePath};

super::cases! {
    concat_joins_the_sources_in_order_and_removes_them needs concat;
    concat_takes_sources_of_any_length needs concat;
    concat_keeps_the_target_s_attributes needs concat, permissions;
    concat_into_an_empty_target_makes_it_the_sources needs concat;
    concatenated_files_can_be_appended_to_cut_and_joined_again needs concat, append, truncate;
    concat_without_sources_or_with_one_named_twice_is_refused needs concat;
    concat_of_empty_missing_and_directory_is_refused needs concat;
    concat_of_an_open_file_is_refused needs concat, exclusive_writer;
    concat_needs_rights_to_every_file needs concat, per_user, permissions;
    concat_appears_at_once_to_readers needs concat;
}

async fn concat_joins_the_sources_in_order_and_removes_them(scene: Scene) -> Outcome {
    let target = scene.file("target", b"one ").await?;
    let sources = [scene.file("z", b"two ").await?, scene.file("a", b"three").await?];
    scene.fs.concat(&scene.who, &target, &sources).await?;
    ensure_eq!(scene.content(&target).await?, b"one two three");
    ensure_eq!(scene.stat(&target).await?.length, 13);
    ensure_eq!(scene.names(&scene.dir).await?, ["target"]);
    Ok(())
}

async fn concat_takes_sources_of_any_length(scene: Scene) -> Outcome {
    let parts = [1, 511, 70_001, 1, 4_096, 200_003].map(|length| pattern(length as u64, length));
    let target = scene.file("target", &parts[0]).await?;
    let mut sources = Vec::new();
    for (number, part) in parts.iter().enumerate().skip(1) {
        sources.push(scene.file(&format!("part-{number}"), part).await?);
    }
    scene.fs.concat(&scene.who, &target, &sources).await?;
    let due = parts.concat();
    ensure!(scene.content(&target).await? == due, "the joined bytes differ");
    let reader = scene.fs.open(&scene.who, &target).await?;
    for offset in [0, 1, 510, 512, 70_512, 70_514, 74_608] {
        let read = reader.read_at(offset, 5_000).await?;
        let offset = offset as usize;
        ensure!(read == due[offset..offset + 5_000], "at {offset} the joined bytes differ");
    }
    Ok(())
}

async fn concat_keeps_the_target_s_attributes(scene: Scene) -> Outcome {
    let (target, source) = (scene.file("target", b"one ").await?, scene.file("source", b"two").await?);
    let set = SetAttributes { permission: Some(0o640), ..SetAttributes::default() };
    scene.fs.set_attributes(&scene.who, &target, &set).await?;
    let before = scene.stat(&target).await?;
    scene.fs.concat(&scene.who, &target, &[source]).await?;
    let after = scene.stat(&target).await?;
    ensure_eq!((after.permission, &after.owner, &after.group), (0o640, &before.owner, &before.group));
    ensure_eq!((after.replication, after.block_size), (before.replication, before.block_size));
    Ok(())
}

async fn concat_into_an_empty_target_makes_it_the_sources(scene: Scene) -> Outcome {
    let (target, source) = (scene.file("target", b"").await?, scene.file("source", b"content").await?);
    scene.fs.concat(&scene.who, &target, &[source]).await?;
    ensure_eq!(scene.content(&target).await?, b"content");
    Ok(())
}

async fn concatenated_files_can_be_appended_to_cut_and_joined_again(scene: Scene) -> Outcome {
    let target = scene.file("target", b"one ").await?;
    scene.fs.concat(&scene.who, &target, &[scene.file("a", b"two ").await?]).await?;
    let mut writer = scene.append_when_recovered(&target).await?;
    ensure_eq!(writer.position(), 8);
    append(&mut writer, b"three ").await?;
    writer.close().await?;
    scene.fs.concat(&scene.who, &target, &[scene.file("a", b"four").await?]).await?;
    ensure_eq!(scene.content(&target).await?, b"one two three four");
    scene.fs.truncate(&scene.who, &target, 6).await?;
    ensure_eq!(scene.content(&target).await?, b"one tw");
    scene.fs.concat(&scene.who, &target, &[scene.file("a", b"!").await?]).await?;
    ensure_eq!(scene.content(&target).await?, b"one tw!");
    Ok(())
}

async fn concat_without_sources_or_with_one_named_twice_is_refused(scene: Scene) -> Outcome {
    let (target, source) = (scene.file("target", b"one").await?, scene.file("source", b"two").await?);
    let many = vec![source.clone(); MAX_CONCAT_SOURCES + 1];
    let lists: [&[StorePath]; 4] =
        [&[], std::slice::from_ref(&target), &[source.clone(), source.clone()], &many];
    for list in lists {
        refused(scene.fs.concat(&scene.who, &target, list).await, &[ErrorKind::InvalidArgument])?;
    }
    ensure_eq!(scene.content(&target).await?, b"one");
    ensure_eq!(scene.content(&source).await?, b"two");
    Ok(())
}

async fn concat_of_empty_missing_and_directory_is_refused(scene: Scene) -> Outcome {
    let (target, source) = (scene.file("target", b"one").await?, scene.file("source", b"two").await?);
    let (empty, directory) = (scene.file("empty", b"").await?, scene.directory("directory").await?);
    let missing = scene.at("missing")?;
    for (wrong, kind) in [
        (&empty, ErrorKind::InvalidArgument),
        (&missing, ErrorKind::NotFound),
        (&directory, ErrorKind::IsADirectory),
    ] {
        let sources = [source.clone(), wrong.clone()];
        refused(scene.fs.concat(&scene.who, &target, &sources).await, &[kind])?;
    }
    let sources = std::slice::from_ref(&source);
    refused(scene.fs.concat(&scene.who, &missing, sources).await, &[ErrorKind::NotFound])?;
    refused(scene.fs.concat(&scene.who, &directory, sources).await, &[ErrorKind::IsADirectory])?;
    ensure_eq!(scene.content(&target).await?, b"one");
    ensure_eq!(scene.content(&source).await?, b"two");
    Ok(())
}

async fn concat_of_an_open_file_is_refused(scene: Scene) -> Outcome {
    let (closed, open) = (scene.file("closed", b"one").await?, scene.at("open")?);
    let mut writer = scene.create(&open).await?;
    append(&mut writer, b"two").await?;
    writer.sync().await?;
    for (target, source) in [(&closed, &open), (&open, &closed)] {
        let sources = std::slice::from_ref(source);
        refused(scene.fs.concat(&scene.who, target, sources).await, &[ErrorKind::Busy])?;
    }
    writer.close().await?;
    ensure_eq!(scene.content(&closed).await?, b"one");
    ensure_eq!(scene.content(&open).await?, b"two");
    Ok(())
}

/// Neither a superuser nor in a group of the case's own principal.
fn stranger() -> Principal {
    Principal::new("contract-stranger")
}

async fn chmod(scene: &Scene, path: &StorePath, permission: u32) -> crate::Result<()> {
    let set = SetAttributes { permission: Some(permission), ..SetAttributes::default() };
    scene.fs.set_attributes(&scene.who, path, &set).await
}

async fn concat_needs_rights_to_every_file(scene: Scene) -> Outcome {
    let (target, source) = (scene.file("d/target", b"one ").await?, scene.file("d/source", b"two").await?);
    let directory = scene.at("d")?;
    let open = [(&directory, 0o777), (&target, 0o666), (&source, 0o644)];
    for (path, permission) in open {
        chmod(&scene, path, permission).await?;
    }
    for ((path, granted), closed) in open.into_iter().zip([0o755, 0o644, 0o600]) {
        chmod(&scene, path, closed).await?;
        let denied = scene.fs.concat(&stranger(), &target, std::slice::from_ref(&source)).await;
        refused(denied, &[ErrorKind::PermissionDenied])?;
        chmod(&scene, path, granted).await?;
    }
    scene.fs.concat(&stranger(), &target, &[source]).await?;
    ensure_eq!(scene.content(&target).await?, b"one two");
    Ok(())
}

async fn concat_appears_at_once_to_readers(scene: Scene) -> Outcome {
    let target = scene.file("target", b"0").await?;
    let mut sources = Vec::new();
    for number in 1..9 {
        sources.push(scene.file(&format!("part-{number}"), number.to_string().as_bytes()).await?);
    }
    let reads = async {
        let mut seen = Vec::new();
        for _ in 0..20 {
            seen.push(scene.content(&target).await?);
        }
        crate::Result::Ok(seen)
    };
    let (joined, seen) = futures::join!(scene.fs.concat(&scene.who, &target, &sources), reads);
    joined?;
    for content in seen? {
        ensure!(content == b"0" || content == b"012345678", "a reader saw {content:?}");
    }
    ensure_eq!(scene.content(&target).await?, b"012345678");
    Ok(())
}
