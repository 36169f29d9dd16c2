//! The store at an endpoint that follows a script: answers that get lost, refusals, other programs' keys.

use crate::{ObjectStore, Options};
use bytes::Bytes;
use object_store::path::Path;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;
use strait_store::budget::Pool;
use strait_store::{CreateOptions, Error, ErrorKind, FileSystem, FileWriter, Principal, Scheme, StorePath};
use strait_testkit::wait::{eventually_task, obtained_task, stays_task};

const RESERVE: &str = "PUT /strait/f";
const LOOK: &str = "HEAD /strait/f";
const COMPLETE: &str = "POST /strait/f?uploadId=u";
const ABORT: &str = "DELETE /strait/f?uploadId=u";
/// Bytes of an answer that doesn't end by itself.
const FLOOD_BYTES: usize = 64 << 20;

enum Answer {
    /// Status, headers and body.
    Of(u16, String, &'static str),
    /// The connection ends instead.
    Lost,
    /// Status and headers, then bytes until the client stops reading.
    Flood(u16, &'static str),
    /// These bytes, and then nothing until the client ends the connection.
    Stall(String),
}

struct Request {
    /// `METHOD /bucket/key?query`.
    line: String,
    head: String,
    /// Number of earlier requests with the same line.
    before: usize,
}

struct Endpoint {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    flooded: Arc<AtomicUsize>,
}

impl Endpoint {
    /// `script` answers a request. If it returns None, the endpoint has an empty object of each name.
    fn start(script: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, flooded, script) = (Arc::default(), Arc::default(), Arc::new(script));
        let endpoint = Self { port, seen: Arc::clone(&seen), flooded: Arc::clone(&flooded) };
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, flooded, script) = (seen.clone(), flooded.clone(), script.clone());
                thread::spawn(move || serve(stream, &seen, &flooded, &*script));
            }
        });
        endpoint
    }

    fn count(&self, line: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|seen| *seen == line).count()
    }

    async fn wait_for(&self, line: &str, count: usize) {
        eventually_task(line, async || self.count(line) >= count).await;
    }

    async fn try_store(&self) -> strait_store::Result<ObjectStore> {
        self.try_store_of(Scheme::S3).await
    }

    async fn try_store_of(&self, scheme: Scheme) -> strait_store::Result<ObjectStore> {
        let url = format!("http://127.0.0.1:{}", self.port);
        let variables = [
            ("AWS_ACCESS_KEY_ID", "strait"),
            ("AWS_SECRET_ACCESS_KEY", "strait-secret"),
            ("STORAGE_EMULATOR_HOST", &url),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let options = Options { endpoint: Some(url), variables, ..Options::default() };
        ObjectStore::connect(scheme, "strait", &StorePath::root(), &options).await
    }

    async fn store(&self) -> ObjectStore {
        self.try_store().await.unwrap()
    }

    /// A new file that has reserved its name, and has more bytes than one part.
    async fn written(&self) -> Box<dyn FileWriter> {
        self.written_to(Scheme::S3).await
    }

    async fn written_to(&self, scheme: Scheme) -> Box<dyn FileWriter> {
        let created = create(&self.try_store_of(scheme).await.unwrap()).await;
        let mut file = created.unwrap_or_else(|error| panic!("{error}"));
        for _ in 0..3 {
            file.append(Bytes::from(vec![7; 3 << 20])).await.unwrap();
        }
        file
    }
}

fn serve(
    stream: TcpStream,
    seen: &Mutex<Vec<String>>,
    flooded: &AtomicUsize,
    script: &(dyn Fn(&Request) -> Option<Answer> + Send + Sync),
) {
    let mut to = stream.try_clone().unwrap();
    let mut from = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if from.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let head = head.to_ascii_lowercase() + "\n" + head.lines().next().unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(0, |length| length.parse().unwrap());
        std::io::copy(&mut from.by_ref().take(length), &mut std::io::sink()).unwrap();
        let line = head.lines().next_back().unwrap();
        let line = line.trim_end_matches(" HTTP/1.1").to_owned();
        let before = {
            let mut seen = seen.lock().unwrap();
            seen.push(line.clone());
            seen.iter().filter(|one| **one == line).count() - 1
        };
        let request = Request { line, head, before };
        match script(&request).unwrap_or_else(|| usual(&request)) {
            Answer::Of(status, headers, body) => {
                let length = match headers.contains("Content-Length") {
                    true => String::new(),
                    false => format!("Content-Length: {}\r\n", body.len()),
                };
                let answer = format!("HTTP/1.1 {status} -\r\n{headers}{length}\r\n{body}");
                if to.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
            Answer::Lost => return,
            Answer::Stall(start) => {
                // The client's end of the connection ends this.
                let _ = to.write_all(start.as_bytes()).and_then(|()| from.read_to_end(&mut Vec::new()));
                return;
            }
            Answer::Flood(status, headers) => {
                let head = format!("HTTP/1.1 {status} -\r\n{headers}Connection: close\r\n\r\n");
                let mut piece = head.into_bytes();
                while flooded.load(Ordering::Relaxed) < FLOOD_BYTES && to.write_all(&piece).is_ok() {
                    piece = vec![b' '; 64 << 10];
                    flooded.fetch_add(piece.len(), Ordering::Relaxed);
                }
                return;
            }
        }
    }
}

/// Headers of an object.
fn object(bytes: u64, more: &str) -> String {
    let time = "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n";
    format!("Content-Length: {bytes}\r\nETag: \"empty\"\r\n{time}{more}")
}

fn usual(request: &Request) -> Answer {
    let of = |body| Answer::Of(200, String::new(), body);
    match request.line.split_once(' ').unwrap() {
        ("GET", _) => of("<ListBucketResult></ListBucketResult>"),
        ("HEAD", _) => Answer::Of(200, object(0, ""), ""),
        ("PUT", _) => Answer::Of(200, "ETag: \"empty\"\r\n".to_owned(), ""),
        ("POST", target) if target.contains("uploads") => {
            of("<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
        }
        ("POST", target) if target.contains("uploadId") => {
            of("<CompleteMultipartUploadResult><ETag>whole</ETag></CompleteMultipartUploadResult>")
        }
        _ => Answer::Of(204, String::new(), ""),
    }
}

fn refusal(status: u16, body: &'static str) -> Option<Answer> {
    Some(Answer::Of(status, String::new(), body))
}

async fn create(store: &ObjectStore) -> Result<Box<dyn FileWriter>, Error> {
    create_as(&ann(), store).await
}

async fn create_as(who: &Principal, store: &ObjectStore) -> Result<Box<dyn FileWriter>, Error> {
    store.create(who, &path("/f"), &CreateOptions::default()).await
}

fn ann() -> Principal {
    Principal::new("ann")
}

fn path(path: &str) -> StorePath {
    StorePath::parse(path).unwrap()
}

#[tokio::test]
async fn a_completion_whose_answer_got_lost_has_an_unknown_outcome() {
    // The endpoint completed the upload by the first request, and knows no such upload any more.
    let endpoint = Endpoint::start(|request| match (request.line.as_str(), request.before) {
        (COMPLETE, 0) => Some(Answer::Lost),
        (COMPLETE, _) => refusal(404, "<Error><Code>NoSuchUpload</Code></Error>"),
        _ => None,
    });
    let error = endpoint.written().await.close().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert_eq!(endpoint.count(COMPLETE), 2);
}

#[tokio::test]
async fn a_completion_that_succeeds_when_repeated_is_a_success() {
    let endpoint = Endpoint::start(|request| match (request.line.as_str(), request.before) {
        (COMPLETE, 0) => Some(Answer::Lost),
        _ => None,
    });
    endpoint.written().await.close().await.unwrap();
}

#[tokio::test]
async fn a_name_that_a_lost_request_may_have_reserved_isnt_called_taken() {
    let endpoint = Endpoint::start(|request| match (request.line.as_str(), request.before) {
        (RESERVE, 0) => refusal(500, ""),
        (RESERVE, _) => refusal(412, ""),
        _ => None,
    });
    let Err(error) = create(&endpoint.store().await).await else { panic!("it was refused") };
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
}

#[tokio::test]
async fn a_refused_completion_leaves_no_parts() {
    let endpoint = Endpoint::start(|request| match request.line.as_str() {
        COMPLETE => refusal(412, ""),
        _ => None,
    });
    let mut file = endpoint.written().await;
    assert_eq!(file.close().await.unwrap_err().kind(), ErrorKind::NotFound);
    drop(file);
    endpoint.wait_for(ABORT, 1).await;
}

#[tokio::test]
async fn a_cancelled_completion_leaves_no_parts() {
    let (answer, answers) = mpsc::channel::<()>();
    let answers = Mutex::new(answers);
    let endpoint = Endpoint::start(move |request| match request.line.as_str() {
        COMPLETE => {
            // The endpoint answers only when the sender is gone.
            let _ = answers.lock().unwrap().recv();
            refusal(412, "")
        }
        _ => None,
    });
    let mut file = endpoint.written().await;
    tokio::select! {
        closed = file.close() => panic!("{closed:?} before the endpoint's answer"),
        () = endpoint.wait_for(COMPLETE, 1) => {}
    }
    drop((file, answer));
    endpoint.wait_for(ABORT, 1).await;
}

/// Half of the process's budget, which is all that one user gets.
const SHARE_BYTES: u64 = 32 << 20;

#[tokio::test]
async fn an_abandoned_writer_returns_its_memory() {
    let endpoint = Endpoint::start(|_| None);
    let (store, bob) = (endpoint.store().await, Principal::new("bob"));
    let mut file = create_as(&bob, &store).await.unwrap();
    for _ in 0..3 {
        file.append(Bytes::from(vec![7; 3 << 20])).await.unwrap();
    }
    let share = Pool::of_process().share(&bob.user);
    assert!(share.reserve(SHARE_BYTES).is_none());
    drop(file);
    eventually_task("all memory is free", async || share.reserve(SHARE_BYTES).is_some()).await;
}

#[tokio::test]
async fn a_writer_without_memory_sends_parts_of_legal_size() {
    let lengths = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lengths);
    let endpoint = Endpoint::start(move |request| {
        if request.line.contains("?partNumber=") {
            let length = request.head.lines().find_map(|line| line.strip_prefix("content-length: "));
            seen.lock().unwrap().push(length.unwrap().parse::<usize>().unwrap() >> 20);
        }
        None
    });
    let (store, eve) = (endpoint.store().await, Principal::new("eve"));
    let share = Pool::of_process().share(&eve.user);
    let all = obtained_task("all memory", async || share.reserve(SHARE_BYTES)).await;
    let mut file = create_as(&eve, &store).await.unwrap();
    for _ in 0..7 {
        file.append(Bytes::from(vec![7; 3 << 20])).await.unwrap();
    }
    file.close().await.unwrap();
    drop(all);
    let mut lengths = lengths.lock().unwrap().clone();
    lengths.sort_unstable();
    assert_eq!(lengths, [5, 8, 8], "all but the last have 8 MiB");
}

#[tokio::test]
async fn a_look_that_fails_isnt_called_a_replacement() {
    let endpoint = Endpoint::start(|request| match request.line.as_str() {
        LOOK => refusal(403, ""),
        _ => None,
    });
    let error = endpoint.written().await.close().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert_eq!(endpoint.count(COMPLETE), 0);
}

#[tokio::test]
async fn credentials_that_expire_are_unauthenticated_in_each_operation() {
    // The answer to HEAD has no body.
    let (lists, code) = (AtomicUsize::new(0), "<Error><Code>ExpiredToken</Code></Error>");
    let endpoint = Endpoint::start(move |request| match request.line.split_once(' ') {
        Some(("GET", _)) if lists.fetch_add(1, Ordering::Relaxed) == 0 => None,
        Some(("HEAD", _)) => refusal(400, ""),
        _ => refusal(400, code),
    });
    let store = endpoint.store().await;
    let made = store.mkdirs(&ann(), &path("/d/e"), None).await;
    let found = store.stat(&ann(), &path("/f")).await.map(drop);
    for outcome in [made, found, create(&store).await.map(drop)] {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{error}");
    }
}

#[tokio::test]
async fn a_name_reserved_anew_belongs_to_another_writer() {
    // All empty objects have the same entity tag. In a bucket that keeps versions, their versions differ.
    let endpoint = Endpoint::start(|request| match request.line.as_str() {
        RESERVE => Some(Answer::Of(200, "ETag: \"empty\"\r\nx-amz-version-id: 1\r\n".to_owned(), "")),
        LOOK => Some(Answer::Of(200, object(0, "x-amz-version-id: 2\r\n"), "")),
        _ => None,
    });
    let mut file = endpoint.written().await;
    assert_eq!(file.close().await.unwrap_err().kind(), ErrorKind::NotFound);
    drop(file);
    endpoint.wait_for(LOOK, 2).await;
    let untouched = async || (endpoint.count(COMPLETE), endpoint.count("DELETE /strait/f")) == (0, 0);
    stays_task("the other's file is untouched", Duration::from_millis(200), untouched).await;
}

#[tokio::test]
async fn a_long_file_gets_a_new_name_only_if_it_is_free() {
    let endpoint = Endpoint::start(|request| match request.line.as_str() {
        "HEAD /strait/b" => refusal(404, ""),
        "HEAD /strait/a" => Some(Answer::Of(200, object(3, ""), "")),
        "GET /strait/a" => Some(Answer::Of(206, object(3, "Content-Range: bytes 0-2/3\r\n"), "abc")),
        "POST /strait/b?uploadId=u" if request.head.contains("if-none-match: *") => refusal(412, ""),
        _ => None,
    });
    let (store, from, to) = (endpoint.store().await, Path::from("a"), Path::from("b"));
    let error = store.copy_through(&from, 3, &to, false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    store.copy_through(&from, 3, &to, true).await.unwrap();
    let error = store.copy_through(&from, 313 << 30, &to, true).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

/// As Google, rejects each request of a multipart upload that has a condition.
fn google(request: &Request) -> Option<Answer> {
    let conditions = ["if-match: ", "if-none-match: ", "x-goog-if-generation-match: "];
    let is_conditional = conditions.iter().any(|condition| request.head.contains(&format!("\n{condition}")));
    let is_of_upload = request.line.contains("?uploads") || request.line.contains("uploadId=");
    match request.line.split_once(' ') {
        _ if is_of_upload && is_conditional => refusal(400, "<Error><Code>NotImplemented</Code></Error>"),
        Some(("PUT", target)) if !target.contains('?') => {
            Some(Answer::Of(200, "ETag: \"empty\"\r\nx-goog-generation: 1\r\n".to_owned(), ""))
        }
        Some(("HEAD", _)) => Some(Answer::Of(200, object(0, "x-goog-generation: 1\r\n"), "")),
        _ => None,
    }
}

#[tokio::test]
async fn a_new_file_of_several_parts_goes_to_google_without_a_condition_that_google_refuses() {
    let endpoint = Endpoint::start(google);
    endpoint.written_to(Scheme::Gs).await.close().await.unwrap();
    assert_eq!((endpoint.count(RESERVE), endpoint.count(COMPLETE)), (1, 1));
}

#[tokio::test]
async fn at_google_a_name_is_checked_before_an_upload_takes_it() {
    let endpoint = Endpoint::start(|request| match request.line.as_str() {
        LOOK => Some(Answer::Of(200, object(0, "x-goog-generation: 2\r\n"), "")),
        _ => google(request),
    });
    let mut file = endpoint.written_to(Scheme::Gs).await;
    assert_eq!(file.close().await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(endpoint.count(COMPLETE), 0);
}

#[tokio::test]
async fn at_google_a_long_file_reserves_its_new_name() {
    let taken = Arc::new(AtomicUsize::new(0));
    let is_taken = Arc::clone(&taken);
    let endpoint = Endpoint::start(move |request| match request.line.as_str() {
        "HEAD /strait/a" => Some(Answer::Of(200, object(3, "x-goog-generation: 7\r\n"), "")),
        "GET /strait/a" => Some(Answer::Of(206, object(3, "Content-Range: bytes 0-2/3\r\n"), "abc")),
        "PUT /strait/b" if is_taken.load(Ordering::Relaxed) == 1 => refusal(412, ""),
        "POST /strait/b?uploadId=u" if is_taken.load(Ordering::Relaxed) == 2 => refusal(403, ""),
        _ => google(request),
    });
    let store = endpoint.try_store_of(Scheme::Gs).await.unwrap();
    let (from, to) = (Path::from("a"), Path::from("b"));
    store.copy_through(&from, 3, &to, false).await.unwrap();
    assert_eq!((endpoint.count("PUT /strait/b"), endpoint.count("DELETE /strait/b")), (1, 0));
    taken.store(1, Ordering::Relaxed);
    let error = store.copy_through(&from, 3, &to, false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    taken.store(2, Ordering::Relaxed);
    let error = store.copy_through(&from, 3, &to, false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert_eq!(endpoint.count("DELETE /strait/b"), 1, "the name is free again");
}

#[tokio::test]
async fn refusals_have_the_kind_of_their_status_in_each_request() {
    // No answer has a body, and so none has a code. For listings and completions, object_store has
    // separate types of errors.
    let refusals = [
        (400, ErrorKind::InvalidArgument),
        (401, ErrorKind::Unauthenticated),
        (403, ErrorKind::PermissionDenied),
        (405, ErrorKind::Unsupported),
    ];
    for (scheme, (status, kind)) in
        [Scheme::S3, Scheme::Gs].into_iter().flat_map(|scheme| refusals.map(|refused| (scheme, refused)))
    {
        let refused = Arc::new(Mutex::new("none"));
        let refuses = Arc::clone(&refused);
        let endpoint = Endpoint::start(move |request| match *refuses.lock().unwrap() {
            of if request.line.starts_with(of) => refusal(status, ""),
            _ => google(request).filter(|_| scheme == Scheme::Gs),
        });
        let store = endpoint.try_store_of(scheme).await.unwrap();
        let mut file = endpoint.written_to(scheme).await;
        *refused.lock().unwrap() = "POST";
        let completed = file.close().await;
        *refused.lock().unwrap() = "GET";
        let listed = store.stat(&ann(), &path("/f")).await.map(drop);
        let opened = endpoint.try_store_of(scheme).await.map(drop);
        *refused.lock().unwrap() = "PUT";
        let created = create(&store).await.map(drop);
        for (outcome, of) in
            [(completed.map(drop), "POST"), (listed, "GET"), (opened, "open"), (created, "PUT")]
        {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), kind, "{scheme} {of}: {error}");
        }
    }
}

#[tokio::test]
async fn a_consoles_folder_stays_a_directory_in_a_renamed_one() {
    const KEYS: &str = "<ListBucketResult>\
        <Contents><Key>x/a/</Key><Size>0</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>\
        <Contents><Key>x/b/</Key><Size>0</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>\
        <Contents><Key>x/b</Key><Size>3</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>\
        </ListBucketResult>";
    let emptied = Arc::new(AtomicUsize::new(0));
    let empties = Arc::clone(&emptied);
    let endpoint = Endpoint::start(move |request| match request.line.as_str() {
        "PUT /strait/y/b" if !request.head.contains("x-amz-copy-source") => {
            empties.fetch_add(1, Ordering::Relaxed);
            None
        }
        "HEAD /strait/x/b" => Some(Answer::Of(200, object(3, ""), "")),
        line if line.starts_with("HEAD ") => refusal(404, ""),
        line if line.starts_with("GET ") && line.contains("prefix=x%2F") => {
            Some(Answer::Of(200, String::new(), KEYS))
        }
        // The copies are made. The test isn't about the removals, so they fail.
        line if line.contains("?delete") => refusal(403, ""),
        _ => None,
    });
    let store = endpoint.store().await;
    store.rename(&ann(), &path("/x"), &path("/y"), false).await.unwrap_err();
    assert_eq!(endpoint.count("PUT /strait/y/a"), 0, "an empty file hides the directory's entries");
    assert_eq!(endpoint.count("PUT /strait/y/a/.strait-directory"), 1);
    assert_eq!(emptied.load(Ordering::Relaxed), 0, "an empty object replaced y/b, a file's copy");
    assert!(endpoint.count("PUT /strait/y/b") > 0);
}

#[tokio::test]
async fn a_bucket_opens_whatever_keys_other_programs_made() {
    let endpoint = Endpoint::start(|request| match request.line.split_once(' ') {
        Some(("GET", _)) => refusal(
            200,
            "<ListBucketResult><Contents><Key>a//b</Key><Size>0</Size>\
             <LastModified>2026-01-01T00:00:00Z</LastModified></Contents></ListBucketResult>",
        ),
        _ => None,
    });
    endpoint.store().await;
}

#[tokio::test]
async fn a_read_ends_where_the_endpoint_sends_more_than_it_announced() {
    let endpoint = Endpoint::start(|request| match request.line.as_str() {
        LOOK => Some(Answer::Of(200, object(100, ""), "")),
        "GET /strait/f" => Some(Answer::Flood(
            206,
            "Content-Range: bytes 0-99/100\r\nETag: \"empty\"\r\n\
             Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n",
        )),
        _ => None,
    });
    let file = endpoint.store().await.open(&ann(), &path("/f")).await.unwrap();
    let error = file.read_at(0, 100).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
    assert!(endpoint.flooded.load(Ordering::Relaxed) < FLOOD_BYTES / 2);
}

#[tokio::test]
async fn an_answer_of_any_length_costs_bounded_memory() {
    let endpoint = Endpoint::start(|request| match request.line.split_once(' ') {
        Some(("GET", _)) => Some(Answer::Flood(200, "")),
        _ => None,
    });
    let Err(error) = endpoint.try_store().await else { panic!("that was no page") };
    assert!(error.message().contains("more than 32 MiB"), "{error}");
}

/// Longest wait of a call whose endpoint falls silent: one limit of an answer, and the retries before it.
const IN_TIME: Duration = Duration::from_secs(100);

#[tokio::test]
async fn an_endpoint_that_falls_silent_amid_a_read_is_a_timeout() {
    let endpoint = Endpoint::start(|request| match request.line.as_str() {
        LOOK => Some(Answer::Of(200, object(100, ""), "")),
        "GET /strait/f" => {
            let head = object(100, "Content-Range: bytes 0-99/100\r\n");
            Some(Answer::Stall(format!("HTTP/1.1 206 -\r\n{head}\r\nten bytes.")))
        }
        _ => None,
    });
    let file = endpoint.store().await.open(&ann(), &path("/f")).await.unwrap();
    let read = tokio::time::timeout(IN_TIME, file.read_at(0, 100)).await;
    let error = read.expect("the read ends in time").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
}

#[tokio::test]
async fn an_endpoint_that_falls_silent_amid_an_upload_leaves_no_wrong_success() {
    // A part changes no file. Whether a completion did is unknown.
    for (silent, kind) in
        [("PUT /strait/f?partNumber", ErrorKind::TimedOut), (COMPLETE, ErrorKind::OutcomeUnknown)]
    {
        let endpoint = Endpoint::start(move |request| {
            request.line.starts_with(silent).then(|| Answer::Stall(String::new()))
        });
        let mut file = endpoint.written().await;
        let closed = tokio::time::timeout(IN_TIME, file.close()).await;
        let error = closed.expect("the close ends in time").unwrap_err();
        assert_eq!(error.kind(), kind, "{silent}: {error}");
    }
}
