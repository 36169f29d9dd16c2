//! Names that are hard to encode: each must come back unchanged from stat and list.

use super::support::{Outcome, Scene, ensure_eq};
use crate::StorePath;

super::cases! {
    names_with_blanks_come_back;
    names_in_every_script_come_back;
    names_with_separators_of_urls_and_shells_come_back;
    the_longest_name_comes_back;
    names_that_differ_in_case_are_two_files;
    deep_paths_come_back;
}

/// Makes, finds, reads, renames and removes one file for each name.
async fn ensure_round_trip(scene: &Scene, names: &[&str]) -> Outcome {
    for name in names {
        let path = scene.dir.join(name)?;
        scene.fs.create(&scene.who, &path, &Default::default()).await?.close().await?;
        ensure_eq!(scene.stat(&path).await?.path, path.as_str());
        ensure_eq!(scene.content(&path).await?, b"");
    }
    let mut expected: Vec<&str> = names.to_vec();
    expected.sort_unstable();
    ensure_eq!(scene.names(&scene.dir).await?, expected);
    for name in names {
        let (path, plain) = (scene.dir.join(name)?, scene.dir.join("plain")?);
        scene.fs.rename(&scene.who, &path, &plain, false).await?;
        scene.fs.rename(&scene.who, &plain, &path, false).await?;
        scene.fs.remove(&scene.who, &path, false).await?;
    }
    ensure_eq!(scene.names(&scene.dir).await?, Vec::<String>::new());
    Ok(())
}

async fn names_with_blanks_come_back(scene: Scene) -> Outcome {
    ensure_round_trip(&scene, &["a b", " a", "a ", "a\tb", "a\nb", "  "]).await
}

async fn names_in_every_script_come_back(scene: Scene) -> Outcome {
    // The third is "é" in two code points, which no store may compose.
    ensure_round_trip(&scene, &["grüße", "é", "e\u{301}", "文件", "ملف", "🗂"]).await
}

async fn names_with_separators_of_urls_and_shells_come_back(scene: Scene) -> Outcome {
    ensure_round_trip(
        &scene,
        &[
            "-rf", "%", "%2F", "a%20b", "a+b", "a&b=c", "a?b", "#a", "a;b", "*", "[a]", "{a}", "\\", "'",
            "\"", "$a", "~",
        ],
    )
    .await
}

async fn the_longest_name_comes_back(scene: Scene) -> Outcome {
    let (ascii, wide) = ("x".repeat(255), "ß".repeat(127));
    ensure_round_trip(&scene, &[&ascii, &wide]).await
}

async fn names_that_differ_in_case_are_two_files(scene: Scene) -> Outcome {
    let (lower, upper) = (scene.file("name", b"lower").await?, scene.file("NAME", b"upper").await?);
    ensure_eq!(scene.content(&lower).await?, b"lower");
    ensure_eq!(scene.content(&upper).await?, b"upper");
    Ok(())
}

async fn deep_paths_come_back(scene: Scene) -> Outcome {
    let path = StorePath::parse(&format!("{}{}", scene.dir, "/d".repeat(100)))?;
    scene.fs.mkdirs(&scene.who, &path, None).await?;
    ensure_eq!(scene.stat(&path).await?.path, path.as_str());
    Ok(())
}
