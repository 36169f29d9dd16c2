//! A password file that changes while serving.

mod common;
use common::*;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use strait_gateway::{Limits, PasswordFile};
use strait_wire::*;
use tempfile::TempDir;

/// The gateway looks at its files as often, at the least.
const LOOK: Duration = Duration::from_millis(50);
/// Enough for several looks.
const SEVERAL_LOOKS: Duration = Duration::from_millis(400);

struct Door {
    dir: TempDir,
    served: Served,
}

impl Door {
    /// With these users, whose password is `first`.
    fn with(users: &[&str], change: impl FnOnce(&mut Limits)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("passwords");
        for user in users {
            PasswordFile::set(&file, user, "first").unwrap();
        }
        let served = serve_with(|config| {
            config.access.passwords = Some(PasswordFile::load(&file).unwrap());
            config.access.anonymous = None;
            config.limits.session_linger = LOOK;
            change(&mut config.limits);
        });
        Self { dir, served }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("passwords")
    }

    fn remove(&self, user: &str) {
        let text = std::fs::read_to_string(self.file()).unwrap();
        let others = text.lines().filter(|line| !line.starts_with(&format!("{user}:")));
        let others: String = others.map(|line| format!("{line}\n")).collect();
        self.write(&others);
    }

    /// In one step, and with the mode that the file has: what is half written
    /// may be taken up where it stays so for a while.
    fn write(&self, text: &str) {
        let mode = std::fs::metadata(self.file()).map_or(0o600, |file| file.permissions().mode());
        let fresh = self.dir.path().join("fresh");
        std::fs::write(&fresh, text).unwrap();
        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(mode)).unwrap();
        std::fs::rename(fresh, self.file()).unwrap();
    }

    fn mode(&self, mode: u32) {
        std::fs::set_permissions(self.file(), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A client with a session, or the kind of the refusal.
    fn login(&self, user: &str, password: &str) -> Result<Client, String> {
        let mut client = self.served.client();
        let request = OpenSessionRequest {
            user: Some(user.into()),
            password: Some(Secret(password.into())),
            ..Default::default()
        };
        let reply = client.v2::<methods::OpenSession>(request).map_err(|error| error.kind.unwrap())?;
        client.token = reply.token;
        Ok(client)
    }

    fn resume(&self, token: &Option<Secret>) -> Result<Client, String> {
        let mut client = self.served.client();
        let request = OpenSessionRequest { token: token.clone(), ..Default::default() };
        client.v2::<methods::OpenSession>(request).map_err(|error| error.kind.unwrap())?;
        Ok(client)
    }
}

fn look(client: &mut Client) -> Result<GetFileInfoReply, DfsError> {
    client.v2::<methods::GetFileInfo>(GetFileInfoRequest { path: Some("/".into()), ..Default::default() })
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(LOOK);
    }
}

#[test]
fn where_the_stores_are_is_told_to_those_who_are_in() {
    let door = Door::with(&["alice"], |_| {});
    let info = |client: &mut Client| {
        client.v2::<methods::ServerInfo>(ServerInfoRequest {}).unwrap().stores.unwrap().remove(0)
    };
    let store = info(&mut door.served.client());
    assert!(store.name.is_some() && store.uri.is_none(), "{store:?}");
    assert!(info(&mut door.login("alice", "first").unwrap()).uri.is_some());
}

#[test]
fn logins_beyond_the_limit_are_told_to_come_again() {
    let door = Door::with(&["alice"], |limits| limits.logins = 0);
    assert_eq!(door.login("alice", "first").err().unwrap(), "Busy");
}

#[test]
fn a_new_password_is_taken_and_the_old_one_refused_while_serving() {
    let door = Door::with(&["alice"], |_| {});
    let mut before = door.login("alice", "first").unwrap();
    PasswordFile::set(&door.file(), "alice", "second").unwrap();
    PasswordFile::set(&door.file(), "bob", "new here").unwrap();
    eventually("the new password is taken", || door.login("alice", "second").is_ok());
    eventually("and the new user", || door.login("bob", "new here").is_ok());
    assert_eq!(door.login("alice", "first").err().unwrap(), "Unauthenticated");
    look(&mut before).expect("who is in stays in");
}

#[test]
fn who_is_taken_out_of_the_file_is_out_on_open_connections_and_by_token() {
    let door = Door::with(&["alice", "bob"], |_| {});
    let (mut alice, mut bob) = (door.login("alice", "first").unwrap(), door.login("bob", "first").unwrap());
    look(&mut alice).unwrap();
    door.remove("alice");
    eventually("the open connection is refused", || look(&mut alice).is_err());
    assert_eq!(kind(look(&mut alice)), "Unauthenticated");
    assert_eq!(door.resume(&alice.token).err().unwrap(), "Unauthenticated");
    assert_eq!(door.login("alice", "first").err().unwrap(), "Unauthenticated");
    look(&mut bob).unwrap();
    door.resume(&bob.token).unwrap();
}

#[test]
fn the_session_of_who_is_taken_out_ends_with_its_files() {
    // Whom the store lets write.
    let door = Door::with(&["tester", "bob"], |limits| limits.sessions = 1);
    let mut tester = door.login("tester", "first").unwrap();
    let handle = create(&mut tester, "/f");
    append(&mut tester, handle, 0, b"half").unwrap();
    assert_eq!(door.login("bob", "first").err().unwrap(), "Busy");
    door.remove("tester");
    eventually("the one place comes free", || door.login("bob", "first").is_ok());
    PasswordFile::set(&door.file(), "tester", "first").unwrap();
    eventually("that user is let in again", || door.resume(&tester.token).is_ok());
    assert_eq!(kind(close(&mut tester, handle)), "Unauthenticated", "this session has ended");
    let mut again = door.resume(&tester.token).unwrap();
    assert_eq!(kind(close(&mut again, handle)), "InvalidArgument", "the file isn't open any more");
}

#[test]
fn a_user_of_the_2009_service_who_is_taken_out_is_out() {
    let door = Door::with(&["alice"], |_| {});
    let mut client = door.served.client_on(UNFRAMED);
    client.call::<methods::Init>(InitArgs { uri: Some(Text("main".into())) });
    let login =
        LoginArgs { ch: None, user: Some(Text("alice".into())), password: Some(Secret("first".into())) };
    assert!(matches!(client.call::<methods::Login>(login), Reply::Success(true)));
    let root = || PathArgs { ch: None, path: Some(Text("/".into())) };
    client.old::<methods::ListFiles>(root()).unwrap();
    door.remove("alice");
    eventually("the listing is refused", || client.old::<methods::ListFiles>(root()).is_err());
}

#[test]
fn a_file_that_is_no_good_leaves_the_old_one_in_force_until_it_is_mended() {
    let door = Door::with(&["alice"], |_| {});
    let alice = door.login("alice", "first").unwrap();
    let good = std::fs::read_to_string(door.file()).unwrap();
    let still_in = |why: &str| {
        std::thread::sleep(SEVERAL_LOOKS);
        assert!(door.login("alice", "first").is_ok(), "{why}");
        assert!(door.resume(&alice.token).is_ok(), "{why}");
    };
    door.write("no user here\n");
    still_in("a line that isn't user:hash");
    std::fs::remove_file(door.file()).unwrap();
    still_in("no file");
    door.write(&good);
    door.mode(0o644);
    door.remove("alice");
    still_in("others may read it");
    door.mode(0o600);
    eventually("the mended file is taken up", || door.login("alice", "first").is_err());
}
