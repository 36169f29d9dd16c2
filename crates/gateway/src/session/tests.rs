use super::*;
use crate::PasswordFile;
use futures::FutureExt;

#[tokio::test]
async fn a_password_check_keeps_its_turn_when_its_client_has_gone() {
    let dir = tempfile::tempdir().unwrap();
    let sessions = with_alice(dir.path());
    let mut check = Box::pin(sessions.check_password("alice", "secret", Origin::LocalUser(0)));
    assert!((&mut check).now_or_never().is_none(), "it takes its time");
    drop(check);
    let next = sessions.logins.turn(Origin::LocalUser(1));
    assert!(next.now_or_never().is_none(), "and its turn for as long");
}

/// Sessions with one user, and one check of a password at a time.
fn with_alice(dir: &std::path::Path) -> Arc<Sessions> {
    let file = dir.join("passwd");
    PasswordFile::set(&file, "alice", "secret").unwrap();
    Arc::new(Sessions::new(Config {
        stores: Vec::new(),
        access: Access { passwords: Some(PasswordFile::load(&file).unwrap()), ..Access::default() },
        local_root: None,
        tls: None,
        token_key: [0; 32],
        service_2009: Default::default(),
        http: Default::default(),
        slow_call: Duration::MAX,
        limits: Limits { password_checks: 1, ..Limits::default() },
    }))
}

/// A client that leaves before the answer must not be able to guess passwords without limit.
#[tokio::test]
async fn wrong_passwords_count_though_their_clients_leave() {
    let dir = tempfile::tempdir().unwrap();
    let (sessions, from) = (with_alice(dir.path()), Origin::LocalUser(0));
    for _ in 0..4 {
        let mut check = Box::pin(sessions.check_password("alice", "guess", from));
        let _ = (&mut check).now_or_never();
        drop(check);
        // The next turn comes after the check.
        drop(sessions.logins.turn(Origin::LocalUser(1)).await);
    }
    let refused = sessions.check_password("alice", "secret", from).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
    sessions.check_password("alice", "secret", Origin::LocalUser(1)).await.unwrap();
}
