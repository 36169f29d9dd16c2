//! Clients without a login over loopback: the gateway admits its own user, and no others.

use crate::common::*;
use rustix::process::Uid;
use strait_gateway::Access;
use strait_store::Principal;
use strait_wire::*;

/// A user that no test runs as.
const SOMEBODY_ELSE: u32 = 54_321;

/// Admits only programs of its own user.
fn serve_own_user() -> Served {
    serve_with(|config| {
        config.access = Access { starter: Some(Principal::new("tester")), ..Access::default() };
    })
}

/// Runs `connect` in a thread of another user and returns its result: the kernel ascribes its
/// sockets to that user.
fn as_somebody_else<T: Send>(connect: impl FnOnce() -> T + Send) -> T {
    assert!(rustix::process::geteuid().is_root(), "only root can be somebody else: run this as root");
    std::thread::scope(|threads| {
        let thread = threads.spawn(|| {
            rustix::thread::set_thread_uid(Uid::from_raw(SOMEBODY_ELSE)).unwrap();
            connect()
        });
        thread.join().unwrap()
    })
}

fn open_session(client: &mut Client, token: Option<Secret>) -> Result<OpenSessionReply, DfsError> {
    client.v2::<methods::OpenSession>(OpenSessionRequest { token, ..Default::default() })
}

fn root() -> GetFileInfoRequest {
    GetFileInfoRequest { path: Some("/".into()), ..Default::default() }
}

#[test]
fn programs_of_the_gateways_own_user_need_no_login() {
    let served = serve_own_user();
    let mut client = served.client();
    assert_eq!(open_session(&mut client, None).unwrap().user.as_deref(), Some("tester"));
    client.v2::<methods::GetFileInfo>(root()).unwrap();
    let mut old = served.client_on(UNFRAMED);
    old.call::<methods::Init>(InitArgs { uri: Some(Text("main".into())) });
    old.old::<methods::Stat>(PathArgs { ch: None, path: Some(Text("/".into())) }).unwrap();
}

#[test]
fn another_local_user_has_to_log_in_and_is_told_how() {
    let served = serve_own_user();
    let mut client = as_somebody_else(|| served.client());
    let error = open_session(&mut client, None).unwrap_err();
    assert_eq!(error.kind.as_deref(), Some("Unauthenticated"));
    let message = error.message.unwrap();
    for words in ["user id 54321", "--passwords FILE", "--allow-anonymous"] {
        assert!(message.contains(words), "{message}");
    }
    let info = client.v2::<methods::ServerInfo>(ServerInfoRequest::default()).unwrap();
    assert!(info.stores.unwrap()[0].uri.is_none(), "where the stores are isn't a stranger's concern");

    let mut old = as_somebody_else(|| served.client_on(UNFRAMED));
    old.call::<methods::Init>(InitArgs { uri: Some(Text("main".into())) });
    let refused = old.old::<methods::Stat>(PathArgs { ch: None, path: Some(Text("/".into())) }).unwrap_err();
    assert!(refused.contains("user id 54321"), "{refused}");
}

#[test]
fn a_token_without_a_login_is_worth_nothing_to_another_user() {
    let served = serve_own_user();
    let token = open_session(&mut served.client(), None).unwrap().token;
    open_session(&mut served.client(), token.clone()).expect("to its own user it is");
    let mut other = as_somebody_else(|| served.client());
    assert_eq!(kind(open_session(&mut other, token.clone())), "Unauthenticated");
    other.token = token;
    let asked = GetFileInfoRequest { session: other.token.clone(), ..root() };
    assert_eq!(kind(other.v2::<methods::GetFileInfo>(asked)), "Unauthenticated");
}

#[test]
fn where_anybody_may_come_in_another_user_may() {
    let served = serve();
    let mut other = as_somebody_else(|| served.client());
    assert_eq!(open_session(&mut other, None).unwrap().user.as_deref(), Some("tester"));
}

#[test]
fn where_there_are_passwords_the_gateways_own_user_logs_in_as_others_do() {
    let served = serve_with(|config| config.access = Access::default());
    assert_eq!(kind(open_session(&mut served.client(), None)), "Unauthenticated");
}
