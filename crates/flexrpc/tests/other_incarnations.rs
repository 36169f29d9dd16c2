//! A restarted server with other settings refuses calls that the previous incarnation executed.
//! Their callers must not learn "not executed".

use crate::common::{self, COUNT, Service, client, procedure, server};
use bytes::Bytes;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use strait_flexrpc::{
    CallError, ClusterKey, Doubt, MulticastOptions, Outcome, ServerOptions, SessionId, Transport,
};

const LARGE: usize = 1_000_000;

/// A port that leads to the server `first` until it has executed a call; the call's answer is lost.
/// From then on the port leads to `second`.
fn successive(first: SocketAddr, executed: &Arc<Service>, second: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let executed = Arc::clone(executed);
    // Ends with the test's process.
    std::thread::spawn(move || {
        for front in listener.incoming().flatten() {
            let died = executed.executed() > 0;
            let back = TcpStream::connect(if died { second } else { first }).unwrap();
            let (mut asking, mut asked) = (front.try_clone().unwrap(), back.try_clone().unwrap());
            std::thread::spawn(move || drop(std::io::copy(&mut asking, &mut asked)));
            let (mut front, mut back, executed) = (front, back, Arc::clone(&executed));
            std::thread::spawn(move || {
                let mut buffer = vec![0; 65_536];
                while let Ok(len) = back.read(&mut buffer) {
                    let dies = !died && executed.executed() > 0;
                    if len == 0 || dies || front.write_all(&buffer[..len]).is_err() {
                        break;
                    }
                }
                let _ = (front.shutdown(Shutdown::Both), back.shutdown(Shutdown::Both));
            });
        }
    });
    address
}

fn successors() -> [ServerOptions; 4] {
    let key = ClusterKey::new(&[5; 32]).unwrap();
    [
        ServerOptions { key: Some(key), ..ServerOptions::default() },
        ServerOptions { payload_bytes: 1_000, ..ServerOptions::default() },
        ServerOptions { receive_bytes: 1_000, ..ServerOptions::default() },
        ServerOptions::default(),
    ]
}

#[test]
fn what_a_former_server_has_executed_is_in_doubt_whatever_the_next_one_says() {
    for successor in successors() {
        let (first, service) = server();
        let second = common::start(successor.clone(), &Arc::new(Service::default()));
        let address = successive(first.address(), &service, second.address());
        let outcome = client().call(address, Transport::Tcp, procedure(COUNT), &[&vec![1; LARGE]]);
        assert_eq!(outcome, Err(CallError::Unknown(Doubt::SessionLost)), "{successor:?}");
        assert_eq!(service.executed(), 1);
        // The server refuses a new call after a single transmission, which is certain.
        let again = client().call(address, Transport::Tcp, procedure(COUNT), &[&vec![1; LARGE]]);
        assert!(matches!(again, Ok(_) | Err(CallError::NotExecuted(_))), "{again:?}");
    }
}

#[test]
fn the_same_holds_of_a_chain() {
    for successor in successors() {
        let (first, service) = server();
        let second = common::start(successor, &Arc::new(Service::default()));
        let (last, behind) = server();
        let callees = [successive(first.address(), &service, second.address()), last.address()];
        let args = [Bytes::from(vec![1; LARGE])];
        let outcomes = client().call_chain(&callees, procedure(COUNT), &args, &MulticastOptions::default());
        assert!(matches!(outcomes[0], Outcome::Unknown(_)), "{outcomes:?}");
        let told = match &outcomes[1] {
            Outcome::Value(_) => Some(1),
            Outcome::NotExecuted(_) => Some(0),
            _ => None,
        };
        assert!(told.is_none_or(|times| times == behind.executed()), "{outcomes:?}, {}", behind.executed());
        assert_eq!(service.executed(), 1);
    }
}

#[test]
fn a_session_isnt_told_to_logs() {
    let told = format!("{:?}", SessionId([0xab; 16]));
    assert_eq!(told, "abababab…", "enough to tell them apart, too little to use");
}
