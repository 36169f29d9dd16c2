//! The file store and the store in memory behave alike: random sequences of operations have the
//! same results on both.

use bytes::Bytes;
use futures::TryStreamExt;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use strait_store::{
    CreateOptions, ErrorKind, FileStore, FileSystem, FileSystemExt, FileType, MemoryStore, Principal, Result,
    SetAttributes, StorePath,
};

/// Sequences tried; each makes and removes a directory of the host.
const SEQUENCES: u32 = 400;
/// The same sequences on every run.
const SEED: u64 = 20_090_301;

#[derive(Debug, Clone)]
enum Operation {
    Create { at: StorePath, overwrite: bool, permission: Option<u32>, content: Vec<u8> },
    Append { at: StorePath, content: Vec<u8> },
    Truncate { at: StorePath, length: u64 },
    Rename { from: StorePath, to: StorePath, replace: bool },
    Remove { at: StorePath, recursive: bool },
    Mkdirs { at: StorePath, permission: Option<u32> },
    SetAttributes { at: StorePath, permission: Option<u32>, modified_ms: Option<i64> },
    Read { at: StorePath, offset: u64, length: usize },
    List { at: StorePath },
    Checksum { at: StorePath },
    Locate { at: StorePath, start: u64, end: u64 },
}

/// Few names, so that the operations meet one another.
fn paths() -> impl Strategy<Value = StorePath> {
    prop::collection::vec("[abc]", 0..4)
        .prop_map(|names| StorePath::parse(&format!("/{}", names.join("/"))).unwrap())
}

fn contents() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

fn permissions() -> impl Strategy<Value = Option<u32>> {
    prop::option::of(0..0o1000_u32)
}

fn operations() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        4 => (paths(), any::<bool>(), permissions(), contents())
            .prop_map(|(at, overwrite, permission, content)| Create { at, overwrite, permission, content }),
        2 => (paths(), contents()).prop_map(|(at, content)| Append { at, content }),
        1 => (paths(), 0..50_u64).prop_map(|(at, length)| Truncate { at, length }),
        4 => (paths(), paths(), any::<bool>()).prop_map(|(from, to, replace)| Rename { from, to, replace }),
        2 => (paths(), any::<bool>()).prop_map(|(at, recursive)| Remove { at, recursive }),
        3 => (paths(), permissions()).prop_map(|(at, permission)| Mkdirs { at, permission }),
        1 => (paths(), permissions(), prop::option::of(-5_000..5_000_i64))
            .prop_map(|(at, permission, modified_ms)| SetAttributes { at, permission, modified_ms }),
        1 => (paths(), 0..50_u64, 0..50_usize).prop_map(|(at, offset, length)| Read { at, offset, length }),
        1 => paths().prop_map(|at| List { at }),
        1 => paths().prop_map(|at| Checksum { at }),
        1 => (paths(), 0..50_u64, 0..50_u64).prop_map(|(at, start, end)| Locate { at, start, end }),
    ]
}

/// The answer of an operation, as text that must be equal for both stores.
async fn answer(
    fs: &dyn FileSystem,
    who: &Principal,
    operation: &Operation,
) -> std::result::Result<String, ErrorKind> {
    let answer: Result<String> = async {
        match operation {
            Operation::Create { at, overwrite, permission, content } => {
                let options =
                    CreateOptions { overwrite: *overwrite, permission: *permission, ..Default::default() };
                fs.write_all(who, at, &options, Bytes::from(content.clone())).await?;
            }
            Operation::Append { at, content } => {
                let mut writer = fs.append(who, at).await?;
                writer.append(Bytes::from(content.clone())).await?;
                let position = writer.position();
                writer.close().await?;
                return Ok(position.to_string());
            }
            Operation::Truncate { at, length } => fs.truncate(who, at, *length).await?,
            Operation::Rename { from, to, replace } => fs.rename(who, from, to, *replace).await?,
            Operation::Remove { at, recursive } => fs.remove(who, at, *recursive).await?,
            Operation::Mkdirs { at, permission } => fs.mkdirs(who, at, *permission).await?,
            Operation::SetAttributes { at, permission, modified_ms } => {
                let set = SetAttributes {
                    permission: *permission,
                    modified_ms: *modified_ms,
                    ..Default::default()
                };
                fs.set_attributes(who, at, &set).await?;
                let modified_ms = modified_ms.map(|_| fs.stat(who, at));
                if let Some(status) = modified_ms {
                    return Ok(status.await?.modified_ms.to_string());
                }
            }
            Operation::Read { at, offset, length } => {
                let reader = fs.open(who, at).await?;
                return Ok(format!("{:?} of {}", reader.read_at(*offset, *length).await?, reader.length()));
            }
            Operation::List { at } => {
                let entries = fs.list_all(who, at, 100).await?;
                let mut paths: Vec<String> = entries.into_iter().map(|entry| entry.path).collect();
                paths.sort();
                return Ok(paths.join(" "));
            }
            Operation::Checksum { at } => return Ok(format!("{:?}", fs.checksum(who, at).await?)),
            Operation::Locate { at, start, end } => {
                let blocks = fs.block_locations(who, at, *start..*end).await?;
                let extents: Vec<_> = blocks.iter().map(|block| (block.offset, block.length)).collect();
                return Ok(format!("{extents:?}"));
            }
        }
        Ok(String::new())
    }
    .await;
    answer.map_err(|error| error.kind())
}

/// Everything in a store, in the order of its paths.
async fn snapshot(fs: &dyn FileSystem, who: &Principal) -> Vec<(String, bool, u64, u32, Vec<u8>)> {
    let entries: Vec<_> = fs.walk(who, &StorePath::root()).try_collect().await.unwrap();
    let mut all = Vec::new();
    for entry in entries {
        let content = match entry.file_type {
            FileType::File => {
                let path = StorePath::parse(&entry.path).unwrap();
                fs.read_all(who, &path, 1 << 20).await.unwrap()
            }
            FileType::Directory => Vec::new(),
        };
        let directory = entry.is_directory();
        all.push((entry.path, directory, entry.length, entry.permission, content));
    }
    all.sort();
    all
}

async fn compare(sequence: &[Operation]) {
    let directory = tempfile::tempdir().unwrap();
    let file = FileStore::open(directory.path(), false).unwrap();
    // As the user of the file store: both stores deny this user the same operations.
    let memory = MemoryStore::new("root");
    let who = Principal::new("root");
    for (index, operation) in sequence.iter().enumerate() {
        let (on_file, on_memory) =
            (answer(&file, &who, operation).await, answer(&memory, &who, operation).await);
        assert_eq!(on_file, on_memory, "file against memory, operation {index}: {operation:?}");
    }
    assert_eq!(snapshot(&file, &who).await, snapshot(&memory, &who).await);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: SEQUENCES,
        rng_seed: RngSeed::Fixed(SEED),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_operations_end_alike_on_both(sequence in prop::collection::vec(operations(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(compare(&sequence));
    }
}
