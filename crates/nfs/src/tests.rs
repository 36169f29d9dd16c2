//! The server, called by the client that frpcgen writes from the same interface, over plain ONC RPC.

use crate::procedures::NOTHING;
use crate::wire::*;
use crate::{Options, Rules, Server, TRANSFER_BYTES};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use strait_flexrpc::proto::onc::message::{Answer, Call};
use strait_flexrpc::proto::onc::record::mark;
use strait_flexrpc::{AuthSys, Client, ClientOptions, Credentials, Procedure, Transport};
use strait_store::{FileSystem, FileSystemExt, MemoryStore, Principal, StorePath};
use strait_testkit::wait::eventually;
use tokio::runtime::Runtime;

/// A server over a store in memory, whose root user is the user of the tests.
struct Served {
    runtime: Runtime,
    store: Arc<MemoryStore>,
    server: Option<Server>,
    client: NfsV3Client,
    root: N3Handle<'static>,
}

impl Served {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let store = Arc::new(MemoryStore::new("root"));
        let (server, client) = start(&runtime, &store);
        let mut served = Self { runtime, store, server: Some(server), client, root: N3Handle::default() };
        served.root = served.mount();
        served
    }

    /// Another server on the same store.
    fn restart(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.end());
        }
        let (server, client) = start(&self.runtime, &self.store);
        (self.server, self.client) = (Some(server), client);
    }

    /// From now on, calls without credentials, which act as nobody. Returns the user's client.
    fn as_nobody(&mut self) -> NfsV3Client {
        let address = self.server.as_ref().unwrap().address();
        let nobody = NfsV3Client::new(Client::default().onc_handle(address, Transport::Tcp));
        std::mem::replace(&mut self.client, nobody)
    }

    fn mount(&self) -> N3Handle<'static> {
        let address = self.server.as_ref().unwrap().address();
        let mut mount = MountV3Client::new(client().onc_handle(address, Transport::Tcp));
        assert_eq!(mount.m3_mnt(&"/missing".into()).unwrap(), M3MntResult::Default(M3Status::Noent));
        assert_eq!(mount.m3_export().unwrap()[0].path, "/");
        match mount.m3_mnt(&"/".into()).unwrap() {
            M3MntResult::Ok(root) => root.handle.into_owned(),
            refused => panic!("{refused:?}"),
        }
    }

    fn at(&self, name: &str) -> N3Entry<'static> {
        N3Entry { directory: self.root.clone(), name: name.to_owned().into() }
    }

    fn create(&mut self, name: &str, how: N3CreateHow) -> Result<N3Handle<'static>, N3Status> {
        let create = N3Create { at: self.at(name), how };
        match self.client.n3_create(&create).unwrap() {
            N3MadeResult::Ok(made) => Ok(made.handle.unwrap().into_owned()),
            N3MadeResult::Default(status, _) => Err(status),
        }
    }

    fn new_file(&mut self, name: &str) -> N3Handle<'static> {
        self.create(name, N3CreateHow::Guarded(NOTHING)).unwrap()
    }

    fn new_directory(&mut self, name: &str) -> N3Handle<'static> {
        let mkdir = N3Mkdir { at: self.at(name), set: N3Settings { mode: Some(0o755), ..NOTHING } };
        match self.client.n3_mkdir(&mkdir).unwrap() {
            N3MadeResult::Ok(made) => made.handle.unwrap().into_owned(),
            N3MadeResult::Default(status, _) => panic!("{status:?}"),
        }
    }

    fn write(
        &mut self,
        file: &N3Handle<'static>,
        offset: u64,
        data: &[u8],
        stable: N3Stable,
    ) -> Result<N3Written, N3Status> {
        let count = data.len() as u32;
        let write = N3Write { file: file.clone(), offset, count, stable, data: data.into() };
        match self.client.n3_write(&write).unwrap() {
            N3WriteResult::Ok(written) => Ok(written),
            N3WriteResult::Default(status, _) => Err(status),
        }
    }

    fn read(
        &mut self,
        file: &N3Handle<'static>,
        offset: u64,
        count: u32,
    ) -> Result<(Vec<u8>, bool), N3Status> {
        let read = N3Read { file: file.clone(), offset, count };
        match self.client.n3_read(&read).unwrap() {
            N3ReadResult::Ok(bytes) => Ok((bytes.data.to_vec(), bytes.at_end)),
            N3ReadResult::Default(status, _) => Err(status),
        }
    }

    fn commit(&mut self, file: &N3Handle<'static>) -> Result<N3Verifier, N3Status> {
        let commit = N3Commit { file: file.clone(), offset: 0, count: 0 };
        match self.client.n3_commit(&commit).unwrap() {
            N3CommitResult::Ok(committed) => Ok(committed.verifier),
            N3CommitResult::Default(status, _) => Err(status),
        }
    }

    fn attributes(&mut self, object: &N3Handle<'static>) -> Result<N3Attributes, N3Status> {
        match self.client.n3_getattr(object).unwrap() {
            N3AttributesResult::Ok(attributes) => Ok(attributes),
            N3AttributesResult::Default(status) => Err(status),
        }
    }

    fn lookup(&mut self, at: &N3Entry<'static>) -> Result<N3Handle<'static>, N3Status> {
        match self.client.n3_lookup(at).unwrap() {
            N3LookupResult::Ok(found) => Ok(found.object.into_owned()),
            N3LookupResult::Default(status, _) => Err(status),
        }
    }

    fn set(&mut self, object: &N3Handle<'static>, set: N3Settings, guard: Option<N3Time>) -> N3Status {
        self.client.n3_setattr(&N3Setattr { object: object.clone(), set, guard }).unwrap().status
    }

    /// The names of a whole directory, in pages of this size.
    fn names(&mut self, directory: &N3Handle<'static>, bytes: u32) -> Result<Vec<String>, N3Status> {
        let (mut names, mut cookie) = (Vec::new(), 0);
        loop {
            let (directory, verifier) = (directory.clone(), [0; 8]);
            let wanted = N3Readdirplus { directory, cookie, verifier, name_bytes: bytes, bytes };
            let page = match self.client.n3_readdirplus(&wanted).unwrap() {
                N3ReaddirplusResult::Ok(page) => page,
                N3ReaddirplusResult::Default(status, _) => return Err(status),
            };
            for item in &page.items {
                let attributes = item.attributes.as_ref().unwrap();
                assert_eq!((attributes.fileid, item.handle.is_some()), (item.fileid, true));
                names.push(item.name.to_string());
            }
            cookie = page.items.last().map_or(cookie, |item| item.cookie);
            if page.at_end {
                return Ok(names);
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.end());
        }
    }
}

fn credentials() -> Credentials {
    let uid = nix::unistd::geteuid().as_raw();
    Credentials::Sys(AuthSys { machine: "test".into(), uid, ..AuthSys::default() })
}

fn client() -> Client {
    Client::new(ClientOptions { credentials: credentials(), ..ClientOptions::default() })
}

fn start(runtime: &Runtime, store: &Arc<MemoryStore>) -> (Server, NfsV3Client) {
    let users = vec![(nix::unistd::geteuid().as_raw(), "root".to_owned())];
    let options = Options {
        listen: ([127, 0, 0, 1], 0).into(),
        store: "memory:".into(),
        rpcbind: false,
        rules: Rules { users, ..Rules::default() },
    };
    let _inside = runtime.enter();
    let server = Server::start(store.clone(), StorePath::root(), options).unwrap();
    let client = NfsV3Client::new(client().onc_handle(server.address(), Transport::Tcp));
    (server, client)
}

#[test]
fn handles_survive_a_restart_and_are_stale_when_their_object_is_gone() {
    let mut served = Served::new();
    let (file, directory) = (served.new_file("f"), served.new_directory("d"));
    served.restart();
    assert_eq!(served.attributes(&file).unwrap().kind, N3Kind::File);
    assert_eq!(served.lookup(&served.at("f")), Ok(file.clone()));
    assert_eq!(served.lookup(&served.at("..")), Ok(served.root.clone()));
    assert_eq!(served.lookup(&served.at("missing")), Err(N3Status::Noent));
    assert_eq!(served.client.n3_remove(&served.at("f")).unwrap().status, N3Status::Ok);
    assert_eq!(served.client.n3_rmdir(&served.at("d")).unwrap().status, N3Status::Ok);
    assert_eq!(served.attributes(&file), Err(N3Status::Stale));
    assert_eq!(served.read(&file, 0, 1), Err(N3Status::Stale));
    assert_eq!(served.write(&file, 0, b"x", N3Stable::Not).unwrap_err(), N3Status::Stale);
    assert_eq!(served.commit(&file), Err(N3Status::Stale));
    let below = N3Entry { directory: directory.clone(), name: "x".into() };
    assert_eq!(served.lookup(&below), Err(N3Status::Stale));
    assert_eq!(served.names(&directory, 4_096), Err(N3Status::Stale));
    assert_eq!(served.attributes(&b"invented"[..].into()), Err(N3Status::Stale));
    assert_eq!(served.attributes(&b"?"[..].into()), Err(N3Status::Badhandle));
}

#[test]
fn each_way_to_create_treats_an_existing_file_as_it_says() {
    let mut served = Served::new();
    let file = served.new_file("f");
    served.write(&file, 0, b"text", N3Stable::File).unwrap();
    assert_eq!(served.create("f", N3CreateHow::Guarded(NOTHING)), Err(N3Status::Exist));
    let before = served.attributes(&file).unwrap().mode;
    let kept = N3CreateHow::Unchecked(N3Settings { mode: Some(0o666), ..NOTHING });
    assert_eq!(served.create("f", kept), Ok(file.clone()));
    let attributes = served.attributes(&file).unwrap();
    assert_eq!((attributes.size, attributes.mode), (4, before), "the mode is one for new files");
    let emptied = N3CreateHow::Unchecked(N3Settings { size: Some(0), ..NOTHING });
    assert_eq!(served.create("f", emptied), Ok(file.clone()));
    assert_eq!(served.attributes(&file).unwrap().size, 0);
    let first = served.create("g", N3CreateHow::Exclusive([1; 8])).unwrap();
    assert_eq!(served.create("g", N3CreateHow::Exclusive([1; 8])), Ok(first), "a call that was repeated");
    assert_eq!(served.create("g", N3CreateHow::Exclusive([2; 8])), Err(N3Status::Exist));
    served.new_directory("d");
    assert_eq!(served.create("d", N3CreateHow::Unchecked(NOTHING)), Err(N3Status::Exist));
    for (name, status) in [("", N3Status::Inval), ("a/b", N3Status::Inval), ("..", N3Status::Inval)] {
        assert_eq!(served.create(name, N3CreateHow::Guarded(NOTHING)), Err(status), "{name:?}");
    }
    let long = served.create(&"x".repeat(256), N3CreateHow::Guarded(NOTHING));
    assert_eq!(long, Err(N3Status::Nametoolong));
}

#[test]
fn writes_that_come_early_wait_for_those_before_them() {
    let mut served = Served::new();
    let file = served.new_file("f");
    let first = served.write(&file, 6, b"third", N3Stable::Not).unwrap();
    served.write(&file, 3, b"two", N3Stable::Not).unwrap();
    let stable = served.write(&file, 3, b"two", N3Stable::File);
    assert_eq!(stable.unwrap_err(), N3Status::Jukebox, "it can't be stable yet");
    served.write(&file, 0, b"one", N3Stable::Not).unwrap();
    assert_eq!(served.read(&file, 0, 100), Ok((b"onetwothird".to_vec(), true)));
    assert_eq!(served.commit(&file), Ok(first.verifier), "nothing was lost");
    assert_eq!(served.attributes(&file).unwrap().size, 11);
}

#[test]
fn repeated_writes_succeed_and_others_before_the_end_do_not() {
    let mut served = Served::new();
    let file = served.new_file("f");
    for _ in 0..2 {
        served.write(&file, 0, b"first", N3Stable::Not).unwrap();
    }
    assert_eq!(served.write(&file, 1, b"xx", N3Stable::Not).unwrap_err(), N3Status::Inval);
    served.write(&file, 3, b"st and more", N3Stable::Not).unwrap();
    served.commit(&file).unwrap();
    // After a crash, the file may have bytes that aren't on stable storage: a COMMIT syncs them.
    let again = served.write(&file, 0, b"first", N3Stable::Not).unwrap();
    assert_eq!(again.stable, N3Stable::Not);
    assert_eq!(served.commit(&file), Ok(again.verifier));
    assert_eq!(served.write(&file, 0, b"first", N3Stable::Data).unwrap().stable, N3Stable::File);
    assert_eq!(served.write(&file, 0, b"other", N3Stable::Not).unwrap_err(), N3Status::Inval);
    assert_eq!(served.write(&file, u64::MAX, b"x", N3Stable::Not).unwrap_err(), N3Status::Fbig);
    assert_eq!(served.read(&file, 0, 100), Ok((b"first and more".to_vec(), true)));
}

#[test]
fn a_hole_is_an_error_of_commit_and_changes_the_verifier() {
    let mut served = Served::new();
    let (file, other) = (served.new_file("f"), served.new_file("g"));
    let before = served.write(&file, 100, b"far", N3Stable::Not).unwrap().verifier;
    assert_eq!(served.commit(&file), Err(N3Status::Inval));
    assert_ne!(served.commit(&file).unwrap(), before, "its clients repeat what they haven't committed");
    assert_eq!(served.commit(&other), Ok(before), "nothing of this one was lost");
    let beyond = served.write(&file, 1 << 40, b"far", N3Stable::Not);
    assert_eq!(beyond.unwrap_err(), N3Status::Inval);
}

#[test]
fn bytes_that_a_restart_lost_are_asked_for_again() {
    let mut served = Served::new();
    let file = served.new_file("f");
    served.write(&file, 0, b"one", N3Stable::Not).unwrap();
    let early = served.write(&file, 6, b"third", N3Stable::Not).unwrap().verifier;
    served.restart();
    let late = served.write(&file, 11, b"last", N3Stable::Not).unwrap().verifier;
    let now = served.commit(&file).unwrap();
    assert!(now != early && now != late, "the client repeats all that it hasn't committed");
    for (offset, data) in [(0, &b"one"[..]), (3, b"two"), (6, b"third"), (11, b"last")] {
        served.write(&file, offset, data, N3Stable::Not).unwrap();
    }
    assert_eq!(served.commit(&file), Ok(now));
    assert_eq!(served.read(&file, 0, 99), Ok((b"onetwothirdlast".to_vec(), true)));
    // If the client doesn't fill a hole, its next COMMIT finds the same hole.
    served.write(&file, 100, b"far", N3Stable::Not).unwrap();
    assert_ne!(served.commit(&file).unwrap(), now);
    served.write(&file, 100, b"far", N3Stable::Not).unwrap();
    assert_eq!(served.commit(&file), Err(N3Status::Inval));
}

#[test]
fn strangers_do_not_disturb_a_file_that_is_being_written() {
    let mut served = Served::new();
    let file = served.new_file("f");
    let at = served.at("f");
    let before = served.write(&file, 0, b"one", N3Stable::Not).unwrap().verifier;
    let own = served.as_nobody();
    assert_eq!(served.commit(&file), Ok(before), "synced for a client with several users");
    let nobodys = std::mem::replace(&mut served.client, own);
    served.write(&file, 6, b"third", N3Stable::Not).unwrap();
    let own = std::mem::replace(&mut served.client, nobodys);
    assert_eq!(served.commit(&file), Err(N3Status::Jukebox));
    assert_eq!(served.write(&file, 99, b"x", N3Stable::Not).unwrap_err(), N3Status::Jukebox);
    let other = N3Entry { name: "g".into(), ..at.clone() };
    let rename = N3Rename { from: at.clone(), to: other };
    assert_eq!(served.client.n3_rename(&rename).unwrap().status, N3Status::Acces);
    assert_eq!(served.client.n3_remove(&at).unwrap().status, N3Status::Acces);
    for set in [
        N3Settings { size: Some(0), ..NOTHING },
        N3Settings { modified: N3SetTime::Given(N3Time { seconds: 1, nanoseconds: 0 }), ..NOTHING },
    ] {
        assert_ne!(served.set(&file, set, None), N3Status::Ok);
    }
    served.client = own;
    served.write(&file, 3, b"two", N3Stable::Not).unwrap();
    assert_eq!(served.commit(&file), Ok(before), "nothing was lost");
    assert_eq!(served.read(&file, 0, 99), Ok((b"onetwothird".to_vec(), true)));
    assert_eq!(served.set(&file, N3Settings { mode: Some(0o600), ..NOTHING }, None), N3Status::Ok);
    served.as_nobody();
    assert_eq!(served.write(&file, 11, b"x", N3Stable::Not).unwrap_err(), N3Status::Acces);
}

#[test]
fn only_those_who_may_read_a_file_make_its_writer_flush() {
    let mut served = Served::new();
    let private = N3Settings { mode: Some(0o600), ..NOTHING };
    let file = served.create("f", N3CreateHow::Guarded(private)).unwrap();
    served.write(&file, 0, b"one", N3Stable::Not).unwrap();
    let own = served.as_nobody();
    assert_eq!(served.read(&file, 0, 99), Err(N3Status::Acces));
    let (who, path) = (Principal::new("root"), StorePath::parse("/f").unwrap());
    let shown = served.runtime.block_on(served.store.read_all(&who, &path, 99)).unwrap();
    assert_eq!(shown, b"", "the bytes aren't flushed");
    served.client = own;
    assert_eq!(served.read(&file, 0, 99), Ok((b"one".to_vec(), true)));
}

#[test]
fn a_groups_rights_let_nobody_else_end_a_file_that_is_being_written() {
    let mut served = Served::new();
    let for_group = N3Settings { mode: Some(0o775), ..NOTHING };
    assert_eq!(served.set(&served.root.clone(), for_group.clone(), None), N3Status::Ok);
    let file = served.create("f", N3CreateHow::Guarded(for_group)).unwrap();
    let at = served.at("f");
    let before = served.write(&file, 6, b"third", N3Stable::Not).unwrap().verifier;
    let own = served.as_nobody();
    assert_eq!(served.write(&file, 99, b"x", N3Stable::Not).unwrap_err(), N3Status::Jukebox);
    assert_eq!(served.client.n3_remove(&at).unwrap().status, N3Status::Acces);
    let rename = N3Rename { from: at.clone(), to: N3Entry { name: "g".into(), ..at } };
    assert_eq!(served.client.n3_rename(&rename).unwrap().status, N3Status::Acces);
    let size = N3Settings { size: Some(0), ..NOTHING };
    assert_eq!(served.set(&file, size, None), N3Status::Jukebox);
    served.client = own;
    served.write(&file, 0, b"onetwo", N3Stable::Not).unwrap();
    assert_eq!(served.commit(&file), Ok(before), "nothing was lost");
}

#[test]
fn a_reader_whose_rights_end_reads_no_more_after_a_second() {
    let mut served = Served::new();
    let file = served.new_file("f");
    served.write(&file, 0, b"text", N3Stable::File).unwrap();
    served.commit(&file).unwrap();
    let own = served.as_nobody();
    assert_eq!(served.read(&file, 0, 4), Ok((b"text".to_vec(), true)));
    let nobodys = std::mem::replace(&mut served.client, own);
    assert_eq!(served.set(&file, N3Settings { mode: Some(0o600), ..NOTHING }, None), N3Status::Ok);
    served.client = nobodys;
    eventually("the server asks for the rights again", || served.read(&file, 0, 4) == Err(N3Status::Acces));
}

#[test]
fn stable_writes_are_answered_as_stable_and_a_commit_lets_others_write() {
    let mut served = Served::new();
    let file = served.new_file("f");
    assert_eq!(served.write(&file, 0, b"a", N3Stable::Data).unwrap().stable, N3Stable::File);
    assert_eq!(served.write(&file, 1, b"b", N3Stable::Not).unwrap().stable, N3Stable::Not);
    served.commit(&file).unwrap();
    let (who, path) = (Principal::new("root"), StorePath::parse("/f").unwrap());
    served.runtime.block_on(async {
        let mut writer = served.store.append(&who, &path).await.unwrap();
        writer.append(b"c"[..].into()).await.unwrap();
        writer.close().await.unwrap();
    });
    assert_eq!(served.read(&file, 0, 3), Ok((b"abc".to_vec(), true)));
    served.write(&file, 3, b"d", N3Stable::Not).unwrap();
    served.restart();
    assert_eq!(served.read(&file, 0, 9), Ok((b"abcd".to_vec(), true)), "the end closes files");
}

#[test]
fn large_reads_are_cut_and_tell_the_end() {
    let mut served = Served::new();
    let file = served.new_file("f");
    let piece = vec![7; TRANSFER_BYTES];
    for at in 0..2 {
        served.write(&file, at * TRANSFER_BYTES as u64, &piece, N3Stable::Not).unwrap();
    }
    let (bytes, at_end) = served.read(&file, 0, u32::MAX).unwrap();
    assert_eq!((bytes.len(), at_end), (TRANSFER_BYTES, false));
    let (bytes, at_end) = served.read(&file, TRANSFER_BYTES as u64, u32::MAX).unwrap();
    assert_eq!((bytes.len(), at_end), (TRANSFER_BYTES, true));
    assert_eq!(served.read(&file, 5 << 20, 1), Ok((Vec::new(), true)));
    assert_eq!(served.read(&served.root.clone(), 0, 1), Err(N3Status::Isdir));
}

#[test]
fn pages_of_a_directory_have_each_entry_once() {
    let mut served = Served::new();
    let mut expected: Vec<String> = (0..300).map(|number| format!("entry{number}")).collect();
    for name in &expected {
        served.new_directory(name);
    }
    expected.extend([".".to_owned(), "..".to_owned()]);
    expected.sort();
    let root = served.root.clone();
    for bytes in [1_000, 8_192, 1 << 20] {
        let mut names = served.names(&root, bytes).unwrap();
        names.sort();
        assert_eq!(names, expected, "{bytes} bytes");
    }
    assert_eq!(served.names(&root, 150), Err(N3Status::Toosmall));
    let file = served.new_file("f");
    assert_eq!(served.names(&file, 8_192), Err(N3Status::Notdir));
    let wanted = N3Readdir { directory: root, cookie: 0, verifier: [0; 8], bytes: 512 };
    let N3ReaddirResult::Ok(page) = served.client.n3_readdir(&wanted).unwrap() else { panic!() };
    assert!(page.items.len() > 5 && !page.at_end);
}

#[test]
fn attributes_are_set_unless_the_object_changed_since() {
    let mut served = Served::new();
    let file = served.new_file("f");
    served.write(&file, 0, b"some text", N3Stable::File).unwrap();
    let changed = served.attributes(&file).unwrap().changed;
    let other = N3Time { seconds: 1, nanoseconds: 0 };
    let shorter = N3Settings { size: Some(4), mode: Some(0o600), ..NOTHING };
    assert_eq!(served.set(&file, shorter.clone(), Some(other)), N3Status::NotSync);
    assert_eq!(served.set(&file, shorter, Some(changed)), N3Status::Ok);
    assert_eq!(served.set(&file, N3Settings { size: Some(6), ..NOTHING }, None), N3Status::Ok);
    let time = N3Time { seconds: 981_173_106, nanoseconds: 7_000_000 };
    let modified = N3SetTime::Given(time);
    assert_eq!(served.set(&file, N3Settings { modified, ..NOTHING }, None), N3Status::Ok);
    let attributes = served.attributes(&file).unwrap();
    assert_eq!((attributes.size, attributes.mode, attributes.modified), (6, 0o600, time));
    assert_eq!(served.read(&file, 0, 9), Ok((b"some\0\0".to_vec(), true)));
    let large = N3Settings { size: Some(1 << 40), ..NOTHING };
    assert_eq!(served.set(&file, large, None), N3Status::Fbig);
}

#[test]
fn names_are_changed_and_removed_by_the_rules() {
    let mut served = Served::new();
    let (file, directory) = (served.new_file("f"), served.new_directory("d"));
    served.write(&file, 0, b"text", N3Stable::Not).unwrap();
    let in_d = |name: &'static str| N3Entry { directory: directory.clone(), name: name.into() };
    let rename = |from, to| N3Rename { from, to };
    let (f, d) = (served.at("f"), served.at("d"));
    assert_eq!(served.client.n3_rename(&rename(f.clone(), f.clone())).unwrap().status, N3Status::Ok);
    assert_eq!(served.client.n3_rename(&rename(f.clone(), in_d("g"))).unwrap().status, N3Status::Ok);
    assert_eq!(served.client.n3_rename(&rename(f.clone(), in_d("h"))).unwrap().status, N3Status::Noent);
    let moved = served.lookup(&in_d("g")).unwrap();
    assert_eq!(served.read(&moved, 0, 9), Ok((b"text".to_vec(), true)), "what was being written");
    assert_eq!(served.client.n3_rmdir(&d).unwrap().status, N3Status::Notempty);
    assert_eq!(served.client.n3_remove(&d).unwrap().status, N3Status::Isdir);
    assert_eq!(served.client.n3_rmdir(&in_d("g")).unwrap().status, N3Status::Notdir);
    let made = N3Symlink { at: f, set: NOTHING, target: "/etc".into() };
    let made = served.client.n3_symlink(&made).unwrap();
    assert!(matches!(made, N3MadeResult::Default(N3Status::Notsupp, _)));
    let link = served.client.n3_readlink(&moved).unwrap();
    assert_eq!(link, N3ReadlinkResult::Default(N3Status::Inval, None));
}

#[test]
fn a_change_that_comes_again_over_another_connection_is_made_once() {
    let mut served = Served::new();
    served.new_file("f");
    let opaque = |bytes: &[u8]| {
        let padded = bytes.len().next_multiple_of(4);
        let mut out = (bytes.len() as u32).to_be_bytes().to_vec();
        out.extend_from_slice(bytes);
        out.resize(4 + padded, 0);
        out
    };
    let procedure = Procedure::new(NfsV3Client::PROGRAM, NfsV3Client::VERSION, 12);
    let head = Call { xid: 7, procedure, credentials: credentials() }.encode();
    let remove = [head, opaque(&served.root), opaque(b"f")].concat();
    let record = [&mark(remove.len())[..], &remove].concat();
    let address = served.server.as_ref().unwrap().address();
    let call = || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&record).unwrap();
        stream
    };
    let unread = call();
    let f = served.at("f");
    eventually("it is removed", || served.lookup(&f) == Err(N3Status::Noent));
    drop(unread);
    // Meanwhile, another client creates it again.
    served.new_file("f");
    let mut answer = [0; 32];
    call().read_exact(&mut answer).unwrap();
    let (_, status, result) = Answer::decode(&answer[4..]).unwrap();
    assert_eq!((status, result), (Answer::Success, &[0; 4][..]));
    assert!(served.lookup(&served.at("f")).is_ok());
}

#[test]
fn the_store_checks_the_rights_of_each_caller() {
    let mut served = Served::new();
    let file = served.new_file("f");
    served.write(&file, 0, b"text", N3Stable::File).unwrap();
    assert_eq!(served.set(&file, N3Settings { mode: Some(0o600), ..NOTHING }, None), N3Status::Ok);
    let access = N3Access { object: file.clone(), wanted: N3_ACCESS_READ | N3_ACCESS_MODIFY };
    let N3AccessResult::Ok(own) = served.client.n3_access(&access).unwrap() else { panic!() };
    assert_eq!(own.allowed, access.wanted);
    // A call without credentials acts as nobody.
    served.as_nobody();
    assert_eq!(served.read(&file, 0, 9), Err(N3Status::Acces));
    let N3AccessResult::Ok(others) = served.client.n3_access(&access).unwrap() else { panic!() };
    assert_eq!(others.allowed, 0);
    assert_eq!(served.create("g", N3CreateHow::Guarded(NOTHING)), Err(N3Status::Acces));
}
