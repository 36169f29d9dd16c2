//! No client can keep shared resources to itself.

use crate::common::gated::Gated;
use crate::common::*;
use bytes::Bytes;
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use strait_gateway::{Config, Limits, PasswordFile};
use strait_store::{FileSystem, MemoryStore, Principal, StorePath};
use strait_testkit::sockets::is_all_read;
use strait_testkit::wait::{eventually, pause, stays};
use strait_wire::*;

/// The number of bytes that requests and answers hold.
const HELD: &str = "strait_gateway_buffered_bytes";

/// Announces a request of `bytes` and sends it slowly, just fast enough not to count as stalled.
struct Dribble {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Dribble {
    fn start(mut client: Client, bytes: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut alive = client.stream.write_all(&bytes.to_be_bytes()).is_ok();
            alive &= client.stream.write_all(&[0x80, 1, 0, 1]).is_ok();
            while alive && !stopped.load(Ordering::Relaxed) {
                alive = client.stream.write_all(&[0; 8 << 10]).is_ok();
                pause("the pace of a slow sender", Duration::from_millis(100));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Dribble {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn slow_senders_of_large_requests_keep_nobody_from_listing_and_writing_for_long() {
    let served = serve_with(|config| {
        config.limits.buffered_bytes = 32 << 20;
        config.limits.stall = Duration::from_millis(500);
    });
    let mut client = served.session();
    put(&mut client, "/f", b"x");
    let handle = create(&mut client, "/g");
    let _slow: Vec<Dribble> = (0..2).map(|_| Dribble::start(served.client(), (16 << 20) - 64)).collect();
    // Both are of one origin, which gets no more than half of all memory.
    eventually("they hold what they can", || served.number(HELD) > 15 << 20);
    let begun = Instant::now();
    let list = ListDirectoryRequest { path: Some("/".into()), ..Default::default() };
    assert_eq!(client.v2::<methods::ListDirectory>(list).unwrap().entries.unwrap().len(), 2);
    append(&mut client, handle, 0, &vec![3; 1 << 20]).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "soon, not after {:?}", begun.elapsed());
}

/// A gateway with two users only.
fn two_users() -> (tempfile::TempDir, Served) {
    two_users_with(|_| {})
}

fn two_users_with(configure: impl FnOnce(&mut Config)) -> (tempfile::TempDir, Served) {
    two_users_on(Arc::new(MemoryStore::new("tester")), configure)
}

fn two_users_on(
    store: Arc<dyn FileSystem>,
    configure: impl FnOnce(&mut Config),
) -> (tempfile::TempDir, Served) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("passwd");
    for user in ["ada", "bob"] {
        PasswordFile::set(&file, user, "secret").unwrap();
    }
    let served = serve_store(store, |config| {
        config.access.passwords = Some(PasswordFile::load(&file).unwrap());
        config.access.anonymous = None;
        configure(config);
    });
    let (root, path) = (Principal::new("tester"), StorePath::parse("/tmp").unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(served.store.mkdirs(&root, &path, Some(0o777))).unwrap();
    (dir, served)
}

fn login(user: &str) -> OpenSessionRequest {
    let password = Some(Secret("secret".into()));
    OpenSessionRequest { user: Some(user.into()), password, ..Default::default() }
}

fn logged_in(served: &Served, user: &str) -> Client {
    let mut client = served.client();
    client.token = client.v2::<methods::OpenSession>(login(user)).unwrap().token;
    client
}

/// Writes 1 MiB a few times, and returns the longest duration.
fn puts(client: &mut Client) -> Duration {
    let content = vec![3; 1 << 20];
    let put = |index| {
        let begun = Instant::now();
        put(client, &format!("/tmp/put-{index}"), &content);
        begun.elapsed()
    };
    (0..5).map(put).max().unwrap()
}

#[test]
fn requests_that_one_user_announces_and_sends_slowly_hold_no_other_user_up() {
    let (_dir, served) = two_users();
    let mut greedy = logged_in(&served, "ada");
    let attach = |client: &mut Client| {
        let request = OpenSessionRequest { token: greedy.token.clone(), ..Default::default() };
        client.v2::<methods::OpenSession>(request).unwrap();
    };
    let slow = |_| {
        let mut client = served.client();
        attach(&mut client);
        Dribble::start(client, 16 << 20)
    };
    let _slow: Vec<Dribble> = (0..40).map(slow).collect();
    let half = Limits::default().buffered_bytes as u64 / 2;
    eventually("they hold what they can", || served.number(HELD) > half - (16 << 20));
    let took = puts(&mut logged_in(&served, "bob"));
    assert!(took < Duration::from_secs(2), "{took:?}");
    // The same user's own calls also wait only briefly: the gateway ends the slow connections one
    // after the other.
    put(&mut greedy, "/tmp/own", b"x");
}

#[test]
fn strangers_that_announce_large_requests_hold_nothing_and_are_refused() {
    let (_dir, served) = two_users();
    let _slow: Vec<Dribble> = (0..40).map(|_| Dribble::start(served.client(), 16 << 20)).collect();
    let took = puts(&mut logged_in(&served, "bob"));
    assert!(took < Duration::from_secs(2), "{took:?}");
    for wire in [FRAMED, UNFRAMED] {
        let mut stranger = served.client_on(wire);
        let path = "x".repeat(100 << 10);
        let request = methods::OpenFile::call(
            wire,
            7,
            &OpenFileRequest { path: Some(path), ..Default::default() }.into(),
        )
        .to_bytes();
        // Its head suffices.
        stranger.stream.write_all(&request[..request.len() / 2]).unwrap();
        let Reply::Application(error) = stranger.receive::<methods::OpenFile>() else { panic!("no refusal") };
        assert!(error.message.contains("log in first"), "{}", error.message);
        assert!(stranger.is_closed());
    }
}

#[test]
fn a_stranger_who_lists_is_refused_without_waiting_for_memory() {
    let (_dir, served) = two_users_with(|config| {
        config.limits.buffered_bytes = 16 << 20;
        config.limits.min_rate_bytes_per_s = 0;
    });
    let _slow = Dribble::start(logged_in(&served, "ada"), 16 << 20);
    let mut waits = logged_in(&served, "bob");
    waits.stream.write_all(&(8u32 << 20).to_be_bytes()).unwrap();
    served.await_waiting_for_memory(1);
    for wire in [FRAMED, UNFRAMED] {
        let mut stranger = served.client_on(wire);
        assert!(stranger.old::<methods::ListFiles>(PathArgs { ch: None, path: Some("/".into()) }).is_err());
        let request = GetBlockLocationsRequest { path: Some("/".into()), ..Default::default() };
        assert_eq!(kind(stranger.v2::<methods::GetBlockLocations>(request)), "Unauthenticated");
    }
}

#[test]
fn a_large_request_may_follow_its_login_without_waiting_for_the_answer() {
    let (_dir, served) = two_users();
    let mut client = served.client();
    client.send::<methods::OpenSession>(&login("ada").into());
    let path = Some(format!("/{}", "x".repeat(100 << 10)));
    client.send::<methods::OpenFile>(&OpenFileRequest { path, ..Default::default() }.into());
    assert!(matches!(client.receive::<methods::OpenSession>(), Reply::Success(_)));
    let Reply::Exception(error) = client.receive::<methods::OpenFile>() else { panic!("not executed") };
    assert_eq!(error.kind.as_deref(), Some("InvalidArgument"), "as every path that is too long");
}

#[test]
fn a_client_whose_answers_wait_can_not_hide_behind_a_request_that_waits() {
    let served = serve_with(|config| {
        config.limits.buffered_bytes = 16 << 20;
        config.limits.stall = Duration::from_millis(300);
    });
    let mut writer = served.session();
    put(&mut writer, "/f", &vec![5; 4 << 20]);
    let mut greedy = served.session();
    let handle = open(&mut greedy, "/f").unwrap().handle;
    let read = ReadRangeRequest { handle, offset: Some(0), length: Some(4 << 20), ..Default::default() };
    for _ in 0..4 {
        greedy.send::<methods::ReadRange>(&read.clone().into());
    }
    // Announces a request for which there is no memory until the answers are taken.
    greedy.stream.write_all(&(16u32 << 20).to_be_bytes()).unwrap();
    greedy.stream.write_all(&[0x80, 1, 0, 1]).unwrap();
    let handle = create(&mut writer, "/g");
    let begun = Instant::now();
    append(&mut writer, handle, 0, &vec![3; 4 << 20]).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

/// A call of `stat` with a path of this many bytes, and the head of an unknown field of 8 MiB.
fn stat_with_a_second_field(path_bytes: u32) -> Vec<u8> {
    let mut request = b"\x80\x01\x00\x01\x00\x00\x00\x04stat\x00\x00\x00\x07".to_vec();
    request.extend(b"\x0b\x00\x02");
    request.extend(path_bytes.to_be_bytes());
    request.extend(vec![b'a'; path_bytes as usize]);
    request.extend(b"\x0b\x00\x63");
    request.extend((8u32 << 20).to_be_bytes());
    request
}

/// The first part of each is within a stranger's limit, and has memory before the rest comes.
#[test]
fn a_stranger_s_request_that_grows_is_refused_at_the_limit() {
    let (_dir, served) = two_users();
    let json = Wire { protocol: Protocol::Json, framed: false };
    let growing = [br#"[1,"stat",1,7,{"2":{"str":""#.to_vec(), vec![b'a'; 80 << 10]].concat();
    for (wire, request) in [(UNFRAMED, stat_with_a_second_field(40 << 10)), (json, growing)] {
        let mut stranger = served.client_on(wire);
        stranger.stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let (first, rest) = request.split_at(30 << 10);
        stranger.stream.write_all(first).unwrap();
        eventually("the first part is read", || is_all_read(&stranger.stream));
        let _ = stranger.stream.write_all(rest);
        let Reply::Application(error) = stranger.receive::<methods::Stat>() else { panic!("no refusal") };
        assert!(error.message.contains("log in first"), "{}", error.message);
        assert!(stranger.is_closed());
    }
}

#[test]
fn a_second_large_field_needs_memory_like_the_first() {
    let served = serve_with(|config| config.limits.buffered_bytes = 1 << 20);
    let mut client = served.client_on(UNFRAMED);
    client.stream.write_all(&stat_with_a_second_field(100 << 10)).unwrap();
    let Reply::Application(error) = client.receive::<methods::Stat>() else { panic!("no refusal") };
    assert!(error.message.contains("memory"), "{}", error.message);
}

/// A page of one entry of a directory with three.
fn page(client: &mut Client, cursor: Option<i64>) -> Result<ListDirectoryReply, DfsError> {
    let (path, max_entries) = (Some("/tmp".into()), Some(1));
    client.v2::<methods::ListDirectory>(ListDirectoryRequest {
        path,
        cursor,
        max_entries,
        ..Default::default()
    })
}

fn make_three_entries(client: &mut Client) {
    for path in ["/tmp/a", "/tmp/b", "/tmp/c"] {
        let request = MakeDirectoriesRequest { path: Some(path.into()), ..Default::default() };
        client.v2::<methods::MakeDirectories>(request).unwrap();
    }
}

/// Begins this many listings and leaves them.
fn leave(client: &mut Client, count: usize) -> Vec<Option<i64>> {
    (0..count).map(|_| page(client, None).unwrap().cursor).collect()
}

/// Two users, of whose listings none counts as in use between two pages.
fn two_users_with_idle_listings() -> (tempfile::TempDir, Served) {
    two_users_with(|config| config.limits.listing_in_use = Duration::ZERO)
}

/// Clients may leave an iteration early without closing it. Each such listing holds some entries in
/// memory.
#[test]
fn the_user_with_the_most_unfinished_listings_loses_the_oldest() {
    let (_dir, served) = two_users_with_idle_listings();
    let [mut ada, mut bob] = ["ada", "bob"].map(|user| logged_in(&served, user));
    make_three_entries(&mut ada);
    let of_bob = leave(&mut bob, 100);
    let mut of_ada = leave(&mut ada, 156);
    of_ada[0] = page(&mut ada, of_ada[0]).unwrap().cursor; // its second page
    let new = leave(&mut bob, 10);
    for (index, left) in of_ada.iter().enumerate() {
        // Ten listings made room. The first isn't among them, since it was used again later.
        let answer = page(&mut ada, *left);
        assert_eq!(answer.is_err(), (1..11).contains(&index), "{index}: {answer:?}");
        if let Err(error) = answer {
            assert_eq!(error.kind.as_deref(), Some("Busy"));
            assert!(error.message.unwrap().contains("list anew"));
        }
    }
    for left in of_bob.iter().chain(&new) {
        page(&mut bob, *left).unwrap();
    }
}

#[test]
fn listings_in_use_go_on_and_others_are_refused_meanwhile() {
    let (_dir, served) = two_users_with(|config| {
        config.limits.unfinished_listings = 4;
        config.limits.listing_in_use = Duration::from_secs(3_600);
    });
    let mut ada = logged_in(&served, "ada");
    make_three_entries(&mut ada);
    let begun = leave(&mut ada, 4);
    assert_eq!(kind(page(&mut ada, None)), "Busy");
    for cursor in begun {
        let second = page(&mut ada, cursor).unwrap().cursor;
        assert_eq!(page(&mut ada, second).unwrap().cursor, None);
    }
    page(&mut ada, None).unwrap();
}

/// A second gateway speaks for its users over few connections.
#[test]
fn listings_count_for_the_user_of_their_session_on_a_shared_connection() {
    let (_dir, served) = two_users_with_idle_listings();
    let [mut ada, mut bob] = ["ada", "bob"].map(|user| logged_in(&served, user));
    make_three_entries(&mut bob);
    let of_ada = leave(&mut ada, 20);
    let of_bob = ListDirectoryRequest {
        session: bob.token.clone(),
        path: Some("/tmp".into()),
        max_entries: Some(1),
        ..Default::default()
    };
    for _ in 0..236 {
        ada.v2::<methods::ListDirectory>(of_bob.clone()).unwrap();
    }
    leave(&mut ada, 20);
    for left in of_ada {
        page(&mut ada, left).unwrap();
    }
}

#[test]
fn a_user_with_many_sessions_leaves_open_files_and_listings_to_others() {
    let (_dir, served) = two_users_with(|config| config.limits.handles = 8);
    let mut bob = logged_in(&served, "bob");
    make_three_entries(&mut bob);
    put(&mut bob, "/tmp/f", b"content");
    let mut sessions: Vec<Client> = (0..4).map(|_| logged_in(&served, "ada")).collect();
    let opened: usize =
        sessions.iter_mut().map(|ada| std::iter::from_fn(|| open(ada, "/tmp/f").ok()).count()).sum();
    assert_eq!(opened, 4, "half of all");
    open(&mut bob, "/tmp/f").unwrap();
    page(&mut bob, None).unwrap();
    assert_eq!(kind(page(&mut sessions[0], None)), "Busy");
}

#[test]
fn a_user_whose_changes_wait_at_a_slow_store_leaves_places_for_those_of_others() {
    let (store, gate) = Gated::new();
    let (_dir, served) = two_users_on(store, |config| config.limits.changes_per_store = 4);
    let [mut ada, mut bob] = ["ada", "bob"].map(|user| logged_in(&served, user));
    let handles: Vec<i64> = (0..3).map(|n| create(&mut ada, &format!("/tmp/f{n}"))).collect();
    let close = |handle: &i64| CloseFileRequest {
        session: ada.token.clone(),
        handle: Some(*handle),
        ..Default::default()
    };
    let closes: Vec<CloseFileRequest> = handles.iter().map(close).collect();
    gate.shut();
    // On connections of their own: changes of one connection wait for each other.
    let mut clients: Vec<Client> = (0..3).map(|_| served.client()).collect();
    for n in 0..2 {
        clients[n].send::<methods::CloseFile>(&closes[n].clone().into());
        gate.await_waiting(n + 1);
    }
    assert_eq!(kind(clients[2].v2::<methods::CloseFile>(closes[2].clone())), "Busy", "half of all");
    make_three_entries(&mut bob);
    gate.open();
}

/// The number of whole answers that wait in a framed client's socket.
fn arrived(client: &Client) -> usize {
    let mut bytes = vec![0; 64 << 10];
    client.stream.set_nonblocking(true).unwrap();
    let count = client.stream.peek(&mut bytes).unwrap_or(0);
    client.stream.set_nonblocking(false).unwrap();
    let mut rest = &bytes[..count];
    let answers = std::iter::from_fn(|| {
        let (length, body) = rest.split_first_chunk()?;
        rest = body.get(u32::from_be_bytes(*length) as usize..)?;
        Some(())
    });
    answers.count()
}

#[test]
fn requests_before_a_login_have_a_pace() {
    let (_dir, served) = two_users_with(|config| {
        config.limits.stranger_burst = 20;
        config.limits.stranger_interval = Duration::from_secs(10);
    });
    let (mut ada, mut stranger) = (logged_in(&served, "ada"), served.client());
    for _ in 0..50 {
        stranger.send::<methods::ServerInfo>(&ServerInfoRequest::default().into());
    }
    // Ada's login was the first request of the burst. Each request after the burst waits for a second, the
    // longest wait.
    eventually("the burst is answered", || arrived(&stranger) >= 19);
    for _ in 0..100 {
        ada.v2::<methods::ServerInfo>(ServerInfoRequest::default()).unwrap();
    }
    assert!(arrived(&stranger) < 50, "a user's 100 calls take no second each, so most of the 50 still wait");
    for _ in 0..21 {
        stranger.receive::<methods::ServerInfo>();
    }
}

/// Connections of bob's, and the requests that each sends before it reads an answer.
const CONNECTIONS: usize = 40;
const BATCH: usize = 500;

/// Demands that few of bob's requests are answered during a call of ada's. Each of his requests fails at once, and
/// the gateway has thousands of them in its buffers at any time. `batch` sends [`BATCH`] requests, and counts answers.
fn leave_turns<C>(served: &Served, connect: impl Fn() -> C, batch: impl Fn(&mut C, &AtomicUsize) + Sync)
where
    C: Send,
{
    let mut ada = logged_in(served, "ada");
    let (over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            let mut bob = connect();
            let (over, answered, batch) = (&over, &answered, &batch);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    batch(&mut bob, answered);
                }
            });
        }
        eventually("bob is at it", || answered.load(Ordering::Relaxed) > CONNECTIONS * BATCH);
        let mut between: Vec<usize> = (0..31)
            .map(|_| {
                let before = answered.load(Ordering::Relaxed);
                ada.v2::<methods::GetFileInfo>(stat("/tmp")).unwrap();
                answered.load(Ordering::Relaxed) - before
            })
            .collect();
        over.store(true, Ordering::Relaxed);
        between.sort_unstable();
        assert!(between[15] < CONNECTIONS * BATCH / 10, "{between:?} of bob's during a call of ada's");
    });
}

fn stat(path: &str) -> GetFileInfoRequest {
    GetFileInfoRequest { path: Some(path.to_owned()), ..Default::default() }
}

#[test]
fn requests_that_never_wait_leave_turns_to_another_user() {
    let (_dir, served) = two_users();
    leave_turns(
        &served,
        || logged_in(&served, "bob"),
        |bob, answered| {
            for _ in 0..BATCH {
                bob.send::<methods::GetFileInfo>(&stat("relative").into());
            }
            for _ in 0..BATCH {
                bob.receive::<methods::GetFileInfo>();
                answered.fetch_add(1, Ordering::Relaxed);
            }
        },
    );
}

#[test]
fn requests_over_http_that_never_wait_leave_turns_to_another_user() {
    let (_dir, served) = two_users();
    let login = serde_json::json!({"user": "bob", "password": "secret"});
    let token = http::value(&http::json_body("POST", &served, "/v1/sessions", &login));
    let bearer = format!("Authorization: Bearer {}\r\n", token["token"].as_str().unwrap());
    let requests = http::request("GET", "/v1/status/a?unknown=1", &bearer, b"").repeat(BATCH);
    leave_turns(
        &served,
        || BufReader::new(http::connect(&served)),
        |bob, answered| {
            let sends = bob.get_ref().try_clone().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| (&sends).write_all(&requests).unwrap());
                let (mut seen, mut line) = (0, String::new());
                while seen < BATCH {
                    line.clear();
                    assert_ne!(bob.read_line(&mut line).unwrap(), 0);
                    // An answer's body ends without a newline.
                    if line.contains("HTTP/1.1 400") {
                        seen += 1;
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        },
    );
}

/// Of HTTP, also those that are refused before their sender is known.
#[test]
fn requests_over_http_before_a_login_have_a_pace() {
    let (_dir, served) = two_users_with(|config| {
        config.limits.stranger_burst = 1;
        config.limits.stranger_interval = Duration::from_secs(10);
    });
    // This login is the burst. Each later request waits for a second, the longest wait.
    let _ada = logged_in(&served, "ada");
    for (method, target, fields) in [
        ("OPTIONS", "/v1/files", ""),
        ("GET", "/openapi.json", ""),
        ("GET", "/nothing", ""),
        ("GET", "/v1/status", "Authorization: Bearer wrong\r\n"),
        ("GET", "/v1/status", "Origin: http://elsewhere.example\r\n"),
    ] {
        let mut stranger = http::connect(&served);
        stranger.set_nonblocking(true).unwrap();
        stranger.write_all(&http::request(method, target, fields, b"")).unwrap();
        stays(&format!("{method} {target} waits"), Duration::from_millis(300), || {
            stranger.peek(&mut [0]).is_err()
        });
        eventually("the answer", || stranger.peek(&mut [0]).is_ok());
    }
}

#[test]
fn a_client_that_has_sent_all_its_requests_gets_all_answers_at_its_pace() {
    let (_dir, served) = two_users();
    let mut stranger = served.client();
    for _ in 0..2_500 {
        stranger.send::<methods::ServerInfo>(&ServerInfoRequest::default().into());
    }
    stranger.stream.shutdown(std::net::Shutdown::Write).unwrap();
    for _ in 0..2_500 {
        stranger.receive::<methods::ServerInfo>();
    }
}

#[test]
fn opening_sessions_over_and_over_leaves_room_for_others() {
    let served = serve_with(|config| config.limits.sessions = 8);
    let mut client = served.client();
    for _ in 0..50 {
        client.open_session();
    }
    let _others: Vec<Client> = (0..3).map(|_| served.session()).collect();
}

/// A client handle of the 2009 service.
fn init(client: &mut Client) -> Option<ClientHandle> {
    let Reply::Success(ch) = client.call::<methods::Init>(InitArgs { uri: None }) else {
        panic!("no answer")
    };
    assert!(ch.id.is_some_and(|id| id > 0), "init failed");
    Some(ch)
}

#[test]
fn a_program_that_calls_init_over_and_over_ends_its_oldest_sessions() {
    let served = serve_with(|config| config.limits.sessions = 160);
    let mut client = served.client_on(UNFRAMED);
    for _ in 0..200 {
        init(&mut client);
    }
}

#[test]
fn files_of_the_2009_service_count_for_the_user_who_logged_in() {
    let (_dir, served) = two_users_with(|config| config.limits.handles = 8);
    let opens = |user: &str| {
        let mut client = served.client_on(UNFRAMED);
        let ch = init(&mut client);
        let (name, password) = (Some(user.into()), Some(Secret("secret".into())));
        let login = LoginArgs { ch: ch.clone(), user: name, password };
        assert!(matches!(client.call::<methods::Login>(login), Reply::Success(true)));
        let mut open = |number: usize| {
            let filename = Some(Text::from(&*format!("/tmp/{user}-{number}-{}", ch.as_ref()?.id?)));
            client.old::<methods::Open>(OpenArgs { ch: ch.clone(), filename, mode: Some(2) }).ok()
        };
        let count = (0..8).map_while(&mut open).count();
        (client, count)
    };
    let all = ["ada", "ada", "bob"].map(opens);
    assert_eq!(all.map(|(_, count)| count), [4, 0, 2]);
}

#[test]
fn a_connection_that_uses_many_sessions_keeps_its_latest_in_use() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |config| config.limits.session_linger = Duration::from_millis(50));
    let mut client = served.client();
    let mut open = || {
        client.open_session();
        client.token.clone()
    };
    let tokens: Vec<Option<Secret>> = (0..66).map(|_| open()).collect();
    let mut client = served.client();
    let of = |session: &Option<Secret>, number: usize| {
        let path = Some(format!("/{number}"));
        CreateFileRequest { session: session.clone(), path, ..Default::default() }
    };
    for (number, session) in tokens.iter().enumerate() {
        client.v2::<methods::CreateFile>(of(session, number)).unwrap();
    }
    // Those that it no longer keeps linger for a moment.
    eventually("the first two end", || gate.writers() == 64);
    stays("the others are in use", Duration::from_millis(300), || gate.writers() == 64);
}

#[test]
fn a_connection_that_never_asks_gives_its_place_back() {
    let served = serve_with(|config| {
        config.limits.stall = Duration::from_millis(100);
        config.limits.greeting = Duration::from_millis(300);
    });
    let mut silent = served.client();
    let mut quiet = served.session();
    assert!(silent.is_closed());
    pause("longer than a silent connection may last", Duration::from_millis(500));
    quiet.v2::<methods::ServerInfo>(ServerInfoRequest::default()).unwrap();
}

#[test]
fn a_connection_that_asks_once_and_never_logs_in_gives_its_place_back() {
    let (_dir, served) = two_users_with(|config| {
        config.limits.stall = Duration::from_millis(100);
        config.limits.greeting = Duration::from_millis(300);
    });
    let mut stranger = served.client();
    stranger.v2::<methods::ServerInfo>(ServerInfoRequest::default()).unwrap();
    let mut user = logged_in(&served, "ada");
    assert!(stranger.is_closed());
    user.v2::<methods::ServerInfo>(ServerInfoRequest::default()).unwrap();
}

#[test]
fn what_is_remembered_for_retries_is_bounded_for_all_together() {
    let served = serve_with(|config| config.limits.remembered_bytes = 64 << 10);
    let mut client = served.session();
    let failing = |id: u32| {
        let mut request_id = vec![0; 12];
        request_id.extend(id.to_be_bytes());
        RemovePathRequest {
            request_id: Some(Bytes::from(request_id)),
            path: Some(format!("/{id}{}", "/longer".repeat(500))),
            ..Default::default()
        }
    };
    for id in 0..200 {
        assert_eq!(kind(client.v2::<methods::RemovePath>(failing(id))), "NotFound");
    }
    // If the first were remembered, its repetition would fail again.
    let forgotten = RemovePathRequest { is_retry: Some(true), ..failing(0) };
    client.v2::<methods::RemovePath>(forgotten).unwrap();
    let remembered = RemovePathRequest { is_retry: Some(true), ..failing(199) };
    assert_eq!(kind(client.v2::<methods::RemovePath>(remembered)), "NotFound");
}
