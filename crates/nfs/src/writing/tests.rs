use super::losses::MOST_LOSSES;
use super::*;
use async_trait::async_trait;
use strait_store::{MemoryStore, SetAttributes};
use tokio::time::timeout;

#[tokio::test(start_paused = true)]
async fn a_file_without_writes_is_closed_after_a_while() {
    let store = Arc::new(MemoryStore::new("root"));
    let writings = Writings::new(store.clone());
    let (who, path) = (Principal::new("root"), StorePath::parse("/f").unwrap());
    writings.create(&who, &path, None, None).await.unwrap();
    for (offset, pause) in [(0, 4), (1, 4), (2, 6)] {
        let written = writings.write(&who, &path, piece(offset, N3Stable::Not), |_| true).await;
        assert_eq!(written, Ok(N3Stable::Not));
        tokio::time::advance(Duration::from_secs(pause)).await;
        writings.sweep().await;
        assert_eq!(writings.end(&path), (pause < 5).then_some(offset + 1));
    }
    assert_eq!(store.append(&who, &path).await.unwrap().position(), 3, "others may write");
}

/// A new file in memory.
async fn created() -> (Writings, Principal, StorePath) {
    let writings = Writings::new(Arc::new(MemoryStore::new("root")));
    let (who, path) = (Principal::new("root"), StorePath::parse("/f").unwrap());
    writings.create(&who, &path, None, None).await.unwrap();
    (writings, who, path)
}

fn piece(offset: u64, stable: N3Stable) -> Piece {
    Piece { offset, data: "x".into(), stable }
}

#[tokio::test(start_paused = true)]
async fn a_stable_write_behind_a_hole_is_refused_in_the_end() {
    let (writings, who, path) = created().await;
    for (pause, status) in [(0, N3Status::Jukebox), (10, N3Status::Jukebox), (10, N3Status::Inval)] {
        tokio::time::advance(Duration::from_secs(pause)).await;
        writings.sweep().await;
        let written = writings.write(&who, &path, piece(9, N3Stable::File), |_| true).await;
        assert_eq!(written, Err(Fault(status)));
    }
    assert_eq!(writings.write(&who, &path, piece(0, N3Stable::File), |_| true).await, Ok(N3Stable::File));
}

#[tokio::test]
async fn early_pieces_take_bounded_memory_however_small_they_are() {
    let (writings, who, path) = created().await;
    let most = (ALL_AHEAD_BYTES / PIECE_BYTES) as u64;
    let mut kept = 0;
    while writings.write(&who, &path, piece(2 * kept + 1, N3Stable::Not), |_| true).await.is_ok() {
        kept += 1;
        assert!(kept <= most);
    }
    writings.close_below(&path, |_| true).await;
    assert_eq!(writings.ahead_bytes.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn an_early_piece_that_does_not_fit_is_a_loss() {
    let (writings, who, path) = created().await;
    let other_path = StorePath::parse("/g").unwrap();
    let before = [&path, &other_path].map(|path| writings.verifier(path));
    let early = Piece { data: "yz".into(), ..piece(2, N3Stable::Not) };
    assert_eq!(writings.write(&who, &path, early, |_| true).await, Ok(N3Stable::Not));
    let other = Piece { data: "abc".into(), ..piece(0, N3Stable::Not) };
    assert_eq!(writings.write(&who, &path, other, |_| true).await, Err(Fault(N3Status::Inval)));
    assert_ne!(writings.verifier(&path), before[0]);
    assert_eq!(writings.verifier(&other_path), before[1], "another file's writers aren't disturbed");
}

#[tokio::test]
async fn the_file_that_is_idle_longest_makes_room_for_another() {
    let store = Arc::new(MemoryStore::new("root"));
    let writings = Writings::new(store);
    let who = Principal::new("root");
    let path = |number: usize| StorePath::parse(&format!("/f{number}")).unwrap();
    for number in 0..=MOST_FILES {
        writings.create(&who, &path(number), None, None).await.unwrap();
    }
    let open = (0..=MOST_FILES).filter(|number| writings.end(&path(*number)).is_some());
    assert_eq!(open.collect::<Vec<_>>(), (1..=MOST_FILES).collect::<Vec<_>>());
}

#[tokio::test]
async fn nobody_closes_the_files_of_others_by_opening_many() {
    let writings = Writings::new(Arc::new(MemoryStore::new("root")));
    let (who, path) = (Principal::new("alice"), StorePath::parse("/hers").unwrap());
    let root = Principal::new("root");
    let for_all = SetAttributes { permission: Some(0o777), ..SetAttributes::default() };
    writings.store.set_attributes(&root, &StorePath::root(), &for_all).await.unwrap();
    writings.create(&who, &path, None, None).await.unwrap();
    for number in 0..MOST_FILES + 4 {
        let path = StorePath::parse(&format!("/f{number}")).unwrap();
        writings.create(&root, &path, None, None).await.unwrap();
    }
    assert!(writings.end(&path).is_some());
}

#[tokio::test]
async fn an_early_piece_that_comes_again_shorter_keeps_the_bytes_behind() {
    let (writings, who, path) = created().await;
    for (offset, data) in [(2, "cdef"), (2, "CD"), (0, "ab")] {
        let early = Piece { data: data.into(), ..piece(offset, N3Stable::Not) };
        assert_eq!(writings.write(&who, &path, early, |_| true).await, Ok(N3Stable::Not));
    }
    assert_eq!(writings.ahead_bytes.load(Ordering::Relaxed), 0);
    writings.close(&who, &path, false).await.unwrap();
    let reader = writings.store.open(&who, &path).await.unwrap();
    assert_eq!(reader.read_at(0, 9).await.unwrap(), "abCDef");
}

#[tokio::test(start_paused = true)]
async fn refused_writes_do_not_keep_a_file_open() {
    let store = Arc::new(MemoryStore::new("root"));
    let writings = Writings::new(store.clone());
    let (who, path) = (Principal::new("root"), StorePath::parse("/d/f").unwrap());
    store.mkdirs(&who, &StorePath::parse("/d").unwrap(), Some(0o700)).await.unwrap();
    writings.create(&who, &path, None, None).await.unwrap();
    for _ in 0..2 {
        tokio::time::advance(Duration::from_secs(3)).await;
        let eves = writings.write(&Principal::new("eve"), &path, piece(0, N3Stable::Not), |_| true).await;
        assert_eq!(eves, Err(Fault(N3Status::Acces)));
    }
    writings.sweep().await;
    assert_eq!(writings.end(&path), None);
}

#[tokio::test(start_paused = true)]
async fn each_of_two_stable_writes_behind_a_hole_is_refused_in_the_end() {
    let (writings, who, path) = created().await;
    for (pause, status) in [(0, N3Status::Jukebox), (10, N3Status::Jukebox), (10, N3Status::Inval)] {
        tokio::time::advance(Duration::from_secs(pause)).await;
        for offset in [9, 8] {
            let written = writings.write(&who, &path, piece(offset, N3Stable::File), |_| true).await;
            assert_eq!(written, Err(Fault(status)));
        }
    }
    // If the file was filled and emptied in between, the same hole counts as a new one.
    writings.write(&who, &path, piece(0, N3Stable::File), |_| true).await.unwrap();
    writings.close(&who, &path, false).await.unwrap();
    writings.store.truncate(&who, &path, 0).await.unwrap();
    let written = writings.write(&who, &path, piece(9, N3Stable::File), |_| true).await;
    assert_eq!(written, Err(Fault(N3Status::Jukebox)));
}

#[tokio::test]
async fn a_reader_ends_only_its_own_writer_and_only_if_it_may_go_on() {
    let (who, path) = (Principal::new("root"), StorePath::parse("/f").unwrap());
    for (append, user, is_ended) in [(true, "root", true), (true, "eve", false), (false, "root", false)] {
        // A store that shows files only after their close.
        let mut writings = Writings::new(Arc::new(MemoryStore::new("root")));
        writings.capabilities =
            Capabilities { append, visible_while_written: false, ..writings.capabilities };
        writings.create(&who, &path, None, None).await.unwrap();
        writings.write(&who, &path, piece(0, N3Stable::Not), |_| true).await.unwrap();
        let shown = writings.show(&Principal::new(user), &path, 1).await;
        assert_eq!(shown, if is_ended { Ok(true) } else { Err(Fault(N3Status::Jukebox)) });
        assert_eq!(writings.end(&path).is_none(), is_ended);
        writings.close(&who, &path, false).await.unwrap();
        assert_eq!(writings.show(&Principal::new(user), &path, 1).await, Ok(false), "it isn't open");
    }
}

#[test]
fn more_losses_than_are_remembered_change_all_verifiers() {
    let writings = Writings::new(Arc::new(MemoryStore::new("root")));
    let path = |number: usize| StorePath::parse(&format!("/f{number}")).unwrap();
    let before = writings.verifier(&path(0));
    let mut seen = vec![before];
    for number in 1..=MOST_LOSSES {
        writings.lose(&path(number));
    }
    seen.push(writings.verifier(&path(1)));
    assert_eq!(writings.verifier(&path(0)), before);
    writings.lose(&path(MOST_LOSSES + 1));
    for number in [0, 1, MOST_LOSSES + 1] {
        assert!(!seen.contains(&writings.verifier(&path(number))));
    }
    assert_eq!(writings.losses().of_files.len(), 1);
}

/// A writer whose close never returns, or panics.
struct Broken {
    panics: bool,
}

#[async_trait]
impl FileWriter for Broken {
    async fn append(&mut self, _data: Bytes) -> Result<()> {
        Ok(())
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        Ok(None)
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        Ok(None)
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        assert!(!self.panics, "on purpose");
        std::future::pending().await
    }

    fn position(&self) -> u64 {
        0
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_close_keeps_no_other_file_open() {
    let writings = Writings::new(Arc::new(MemoryStore::new("root")));
    let who = Principal::new("root");
    let path = |name: &str| StorePath::parse(name).unwrap();
    for (name, panics) in [("/stuck", false), ("/panics", true)] {
        let slot = writings.claim(&who, &path(name)).await.unwrap();
        let mut state = slot.state.lock().await;
        state.file = Some(Writing::new(&who, Box::new(Broken { panics })));
        slot.note_end(&state);
    }
    writings.create(&who, &path("/f"), None, None).await.unwrap();
    let open = |names: [&str; 3]| names.map(|name| writings.end(&path(name)).is_some());
    assert_eq!(open(["/stuck", "/panics", "/f"]), [true; 3]);
    tokio::time::advance(IDLE).await;
    let mut first = std::pin::pin!(writings.sweep());
    assert!(timeout(IDLE, first.as_mut()).await.is_err(), "it is stuck");
    assert_eq!(open(["/stuck", "/panics", "/f"]), [true, false, false]);
    writings.create(&who, &path("/g"), None, None).await.unwrap();
    tokio::time::advance(IDLE).await;
    assert!(timeout(IDLE, writings.sweep()).await.is_ok(), "the stuck one is the first's");
    assert_eq!(open(["/stuck", "/panics", "/g"]), [true, false, false]);
}

#[tokio::test]
async fn a_server_that_ends_opens_no_more_files() {
    let store = Arc::new(MemoryStore::new("root"));
    let writings = Writings::new(store.clone());
    let who = Principal::new("root");
    let [path, other] = ["/f", "/g"].map(|name| StorePath::parse(name).unwrap());
    writings.create(&who, &path, None, None).await.unwrap();
    writings.write(&who, &path, piece(0, N3Stable::Not), |_| true).await.unwrap();
    writings.close_for_good().await;
    let written = writings.write(&who, &path, piece(1, N3Stable::Not), |_| true).await;
    assert_eq!(written, Err(Fault(N3Status::Jukebox)));
    assert_eq!(writings.create(&who, &other, None, None).await, Err(Fault(N3Status::Jukebox)));
    assert_eq!(store.append(&who, &path).await.unwrap().position(), 1, "the successor may write");
}
