//! A password file that changes while serving.

use crate::common::*;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use strait_gateway::{Limits, PasswordFile};
use strait_telemetry::Page;
use strait_testkit::wait::{self, obtained, pause, stays};
use strait_wire::*;
use tempfile::TempDir;

/// Longest period at which the gateway checks its files.
const LOOK: Duration = Duration::from_millis(50);
/// Enough for several checks.
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

    /// Replaces the file in one step, with its present mode: the gateway may read a half-written
    /// file that stays unchanged for a while.
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

/// Waits until `holds`, with fewer attempts than failed logins are allowed in that time.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    wait::eventually(what, || {
        let holds = holds();
        if !holds {
            pause("the pace of attempts: failed logins back off", LOOK);
        }
        holds
    });
}

#[test]
fn only_logged_in_users_learn_where_the_stores_are() {
    let door = Door::with(&["alice"], |_| {});
    let info = |client: &mut Client| {
        client.v2::<methods::ServerInfo>(ServerInfoRequest::default()).unwrap().stores.unwrap().remove(0)
    };
    let store = info(&mut door.served.client());
    assert!(store.name.is_some() && store.uri.is_none(), "{store:?}");
    assert!(info(&mut door.login("alice", "first").unwrap()).uri.is_some());
}

#[test]
fn a_token_does_not_stand_for_another_user() {
    let door = Door::with(&["alice", "bob"], |_| {});
    let token = door.login("alice", "first").unwrap().token;
    let by_token = |user: &str| {
        let request =
            OpenSessionRequest { user: Some(user.into()), token: token.clone(), ..Default::default() };
        door.served.client().v2::<methods::OpenSession>(request)
    };
    assert_eq!(kind(by_token("bob")), "Unauthenticated");
    assert_eq!(by_token("alice").unwrap().user.as_deref(), Some("alice"));
}

#[test]
fn a_lent_login_ends_in_time_or_with_its_session_and_the_lenders_goes_on() {
    let door = Door::with(&["alice", "bob"], |_| {});
    let lend = |token: &Option<Secret>, lend_ms: i64, lent: Option<Secret>| {
        let request =
            OpenSessionRequest { token: token.clone(), lend_ms: Some(lend_ms), lent, ..Default::default() };
        door.served.client().v2::<methods::OpenSession>(request)
    };
    let alice = door.login("alice", "first").unwrap().token;
    let lent = lend(&alice, 60_000, None).unwrap();
    assert_eq!(lent.user.as_deref(), Some("alice"));
    assert_ne!(lent.token, alice);
    look(&mut door.resume(&lent.token).unwrap()).unwrap();

    // Its lender couldn't take back what it lends, also at another gateway with the same key.
    assert_eq!(kind(lend(&lent.token, 1_000, None)), "PermissionDenied");
    // The lender can extend it. No user can extend a session of another user.
    let longer = lend(&alice, 600_000, lent.token.clone()).unwrap();
    assert!(longer.expires_ms > lent.expires_ms, "{longer:?}");
    let bob = door.login("bob", "first").unwrap().token;
    assert_eq!(kind(lend(&bob, 600_000, lent.token.clone())), "Unauthenticated");
    assert_eq!(kind(lend(&alice, 0, None)), "InvalidArgument");
    assert_eq!(kind(lend(&alice, 600_000, alice.clone())), "InvalidArgument", "its own login isn't lent");

    // Closing its session ends its tokens, and no others.
    let mut lender = door.resume(&alice).unwrap();
    lender
        .v2::<methods::CloseSession>(CloseSessionRequest {
            session: longer.token.clone(),
            ..Default::default()
        })
        .unwrap();
    for token in [&lent.token, &longer.token] {
        assert_eq!(door.resume(token).err().unwrap(), "Unauthenticated");
    }
    look(&mut door.resume(&alice).unwrap()).unwrap();

    // If a session ends, the sessions that it has lent end, too: at once or at the next check.
    let own = door.login("alice", "first").unwrap().token;
    let borrowed = lend(&own, i64::MAX, None).unwrap();
    let mut borrower = door.resume(&borrowed.token).unwrap();
    look(&mut borrower).unwrap();
    let close = CloseSessionRequest { session: own.clone(), ..Default::default() };
    door.resume(&own).unwrap().v2::<methods::CloseSession>(close).unwrap();
    assert_eq!(door.resume(&borrowed.token).err().unwrap(), "Unauthenticated");
    eventually("the borrower's session ends", || look(&mut borrower).is_err());

    // It also ends in time for a client that is connected.
    let short = lend(&alice, 1_000, None).unwrap();
    let mut borrower = door.resume(&short.token).unwrap();
    look(&mut borrower).unwrap();
    eventually("it ends", || look(&mut borrower).is_err());
    assert_eq!(door.resume(&short.token).err().unwrap(), "Unauthenticated");
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
    eventually("the session of before has ended", || look(&mut before).is_err());
    assert_eq!(door.resume(&before.token).err().unwrap(), "Unauthenticated", "and its token is void");
}

#[test]
fn the_same_password_set_again_ends_the_logins_before_it() {
    let door = Door::with(&["alice", "bob"], |_| {});
    let mut bob = door.login("bob", "first").unwrap();
    let alice = door.login("alice", "first").unwrap();
    PasswordFile::set(&door.file(), "alice", "first").unwrap();
    eventually("the token is void", || door.resume(&alice.token).is_err());
    look(&mut bob).expect("another user's session stays");
    door.resume(&bob.token).unwrap();
}

#[test]
fn a_token_of_a_user_who_was_removed_does_not_revive_with_the_user() {
    let door = Door::with(&["alice"], |_| {});
    let alice = door.login("alice", "first").unwrap();
    door.remove("alice");
    eventually("the user is out", || door.login("alice", "first").is_err());
    PasswordFile::set(&door.file(), "alice", "first").unwrap();
    eventually("the user is back", || door.login("alice", "first").is_ok());
    assert_eq!(door.resume(&alice.token).err().unwrap(), "Unauthenticated");
}

#[test]
fn gateways_notice_a_change_within_five_seconds() {
    let door = Door::with(&["alice"], |limits| limits.session_linger = Limits::default().session_linger);
    let mut alice = door.login("alice", "first").unwrap();
    let changed = Instant::now();
    PasswordFile::set(&door.file(), "alice", "second").unwrap();
    eventually("the session has ended", || look(&mut alice).is_err());
    // A check each 2 s, and one more if the file changed just before it.
    let took = changed.elapsed();
    assert!(took < Duration::from_secs(9), "{took:?}: twice what is promised, on a loaded machine");
}

#[test]
fn a_reload_that_is_asked_for_takes_up_passwords_at_once() {
    let door = Door::with(&["alice"], |limits| limits.session_linger = Limits::default().session_linger);
    door.login("alice", "first").unwrap();
    PasswordFile::set(&door.file(), "bob", "first").unwrap();
    door.served.reload.now();
    eventually("bob is in", || door.login("bob", "first").is_ok());
}

/// The outcome of opening a session.
fn open_session(
    client: &mut Client,
    token: &Option<Secret>,
    login: Option<(&str, &str)>,
) -> Result<OpenSessionReply, String> {
    let request = OpenSessionRequest {
        token: token.clone(),
        user: login.map(|(user, _)| user.to_owned()),
        password: login.map(|(_, password)| Secret(password.to_owned())),
        ..Default::default()
    };
    client.v2::<methods::OpenSession>(request).map_err(|error| error.kind.unwrap())
}

#[test]
fn renewing_a_token_never_takes_it_beyond_the_end_of_its_login() {
    const LIFETIME: Duration = Duration::from_secs(3);
    let door = Door::with(&["alice"], |limits| limits.token_lifetime = LIFETIME);
    let mut client = door.served.client();
    let first = open_session(&mut client, &None, Some(("alice", "first"))).unwrap();
    let (mut token, end) = (first.token, first.expires_ms.unwrap());
    eventually("the last token ends with the login", || {
        match open_session(&mut door.served.client(), &token, None) {
            Ok(renewed) => {
                assert_eq!(renewed.expires_ms.unwrap(), end);
                token = renewed.token;
                false
            }
            Err(_) => true,
        }
    });
    client.token = token.clone();
    eventually("the open session ends, too", || look(&mut client).is_err());
    assert_eq!(door.resume(&token).err().unwrap(), "Unauthenticated");
    door.login("alice", "first").expect("by password as ever");
}

#[test]
fn a_password_beside_a_valid_token_is_a_new_login_of_its_session() {
    let door = Door::with(&["alice"], |limits| limits.token_lifetime = Duration::from_secs(3));
    let mut client = door.served.client();
    let login = Some(("alice", "first"));
    let first = open_session(&mut client, &None, login).unwrap();
    pause("the next login is later by the tokens' clock", Duration::from_millis(20));
    let again = open_session(&mut client, &first.token, login).unwrap();
    assert_eq!(again.incarnation, first.incarnation);
    assert!(again.expires_ms > first.expires_ms, "{:?}, not {:?}", again.expires_ms, first.expires_ms);
}

#[test]
fn a_wrong_password_beside_a_valid_token_is_refused() {
    let door = Door::with(&["alice", "bob"], |_| {});
    let mut client = door.served.client();
    let first = open_session(&mut client, &None, Some(("alice", "first"))).unwrap();
    let again = |login| open_session(&mut door.served.client(), &first.token, Some(login));
    assert_eq!(again(("alice", "wrong")).unwrap_err(), "Unauthenticated");
    let same = again(("alice", "first")).unwrap();
    assert_eq!(same.incarnation, first.incarnation, "the token's session");
    let other = again(("bob", "first")).unwrap();
    assert_eq!(other.user.as_deref(), Some("bob"));
    assert_ne!(other.incarnation, first.incarnation, "not that of another user's token");
}

/// The value of a counter on the page of metrics.
fn logins(door: &Door, outcome: &str) -> u64 {
    let mut page = Page::default();
    door.served.numbers.write(&mut page);
    let start = format!(r#"strait_logins_total{{role="gateway",outcome="{outcome}"}} "#);
    let text = page.to_string();
    text.lines().find_map(|line| line.strip_prefix(&start)).expect("a counter").parse().unwrap()
}

#[test]
fn guessing_backs_off_and_each_failure_of_both_services_is_counted() {
    let door = Door::with(&["alice", "bob"], |_| {});
    let (mut looked_at, mut refused) = (0, 0);
    // The waits before the fifth and sixth are 1 s and 2 s; the one after it 4 s.
    eventually("six are looked at", || {
        match door.login("alice", "wrong").err().unwrap().as_str() {
            "Unauthenticated" => looked_at += 1,
            "Busy" => refused += 1,
            other => panic!("{other}"),
        }
        looked_at == 6
    });
    assert!(refused > 10, "{refused} of those in between");
    assert_eq!(door.login("alice", "first").err().as_deref(), Some("Busy"), "the right one waits, too");
    door.login("bob", "first").expect("another user doesn't wait");
    assert_eq!(logins(&door, "failed"), looked_at);
    assert_eq!(logins(&door, "succeeded"), 1);
    assert_eq!(logins(&door, "refused"), refused + 1);

    let mut client = door.served.client_on(UNFRAMED);
    client.call::<methods::Init>(InitArgs { uri: Some(Text("main".into())) });
    let mut login = |user: &[u8], password: &str| {
        let user = Some(Text(user.to_vec().into()));
        let args = LoginArgs { ch: None, user, password: Some(Secret(password.into())) };
        matches!(client.call::<methods::Login>(args), Reply::Success(true))
    };
    assert!(!login(b"bob", "wrong") && !login(b"\xff", "x") && login(b"bob", "first"));
    assert_eq!(logins(&door, "failed"), looked_at + 2);
    eventually("one by the 2009 service is refused, too", || {
        assert!(!login(b"alice", "wrong"));
        logins(&door, "refused") > refused + 1
    });
}

#[test]
fn guesses_at_the_same_time_wait_for_each_other() {
    let door = Door::with(&["alice"], |_| {});
    std::thread::scope(|threads| {
        for _ in 0..12 {
            threads.spawn(|| assert!(door.login("alice", "wrong").is_err()));
        }
    });
    // The pair has to wait from the fourth failure on.
    assert_eq!((logins(&door, "failed"), logins(&door, "refused")), (4, 8));
}

#[test]
fn a_user_removed_from_the_file_is_refused_on_open_connections_and_by_token() {
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
fn the_session_of_a_removed_user_ends_with_its_files() {
    // A user with write permission in the store.
    let door = Door::with(&["tester", "bob"], |limits| limits.sessions = 1);
    let mut tester = door.login("tester", "first").unwrap();
    let handle = create(&mut tester, "/f");
    append(&mut tester, handle, 0, b"half").unwrap();
    assert_eq!(door.login("bob", "first").err().unwrap(), "Busy");
    door.remove("tester");
    eventually("the one place comes free", || door.login("bob", "first").is_ok());
    PasswordFile::set(&door.file(), "tester", "first").unwrap();
    assert_eq!(kind(close(&mut tester, handle)), "Unauthenticated", "this session has ended");
    let mut again = obtained("a login of that user", || door.login("tester", "first").ok());
    assert_eq!(kind(close(&mut again, handle)), "InvalidArgument", "the file isn't open any more");
}

#[test]
fn a_removed_user_of_the_2009_service_is_refused() {
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

/// No token stands for it, and the program can't log in again.
#[test]
fn a_login_of_the_2009_service_lasts_as_long_as_its_connection() {
    const LIFETIME: Duration = Duration::from_millis(300);
    let door = Door::with(&["alice"], |limits| limits.token_lifetime = LIFETIME);
    let mut client = door.served.client_on(UNFRAMED);
    let Reply::Success(ch) = client.call::<methods::Init>(InitArgs { uri: None }) else {
        panic!("no client")
    };
    let (user, password) = (Some("alice".into()), Some(Secret("first".into())));
    let args = LoginArgs { ch: Some(ch.clone()), user, password };
    assert!(matches!(client.call::<methods::Login>(args), Reply::Success(true)));
    pause("longer than a token lasts", 2 * LIFETIME);
    client.old::<methods::Stat>(PathArgs { ch: Some(ch), path: Some("/".into()) }).unwrap();
}

#[test]
fn a_broken_file_leaves_the_old_one_in_force_until_it_is_mended() {
    let door = Door::with(&["alice"], |_| {});
    let alice = door.login("alice", "first").unwrap();
    let good = std::fs::read_to_string(door.file()).unwrap();
    let still_in = |why: &str| {
        stays(why, SEVERAL_LOOKS, || {
            door.login("alice", "first").is_ok() && door.resume(&alice.token).is_ok()
        });
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
