//! Openings whose answers are lost.

use crate::support::{Cluster, Way, key, relay, superuser};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use strait_kadoop_client::{Client, ClientOptions, CreateOptions, Writer};
use strait_kadoop_core::Error;
use strait_kadoop_wire::failure::Failure;
use strait_testkit::wait::eventually;

/// A client of a cluster. While the flag is set, it hears no answer of the namenode.
fn behind_a_relay(cluster: &Cluster) -> (Client, Arc<AtomicBool>) {
    let deaf = Arc::new(AtomicBool::new(false));
    let loses = deaf.clone();
    let at =
        relay(cluster.namenode.address(), move |way, _| way == Way::Call || !loses.load(Ordering::SeqCst));
    let options = ClientOptions::new(at.to_string(), key().for_clients());
    let timeout = Duration::from_secs(1);
    (Client::connect(ClientOptions { timeout, ..options }).unwrap(), deaf)
}

/// Another file keeps the client's leases renewed, so no lease expires by itself.
fn closed_after_a_lost_answer(open: impl Fn(&Client) -> Result<Writer, Failure>) {
    let cluster = Cluster::start(1);
    let (direct, me) = (cluster.client(), superuser());
    let mut old = direct.create(&me, "/old", &CreateOptions::default()).unwrap();
    old.write("bytes").unwrap();
    old.close().unwrap();
    let (client, deaf) = behind_a_relay(&cluster);
    let mut other = client.create(&me, "/other", &CreateOptions::default()).unwrap();
    deaf.store(true, Ordering::SeqCst);
    let refused = open(&client).map(drop).unwrap_err();
    assert_eq!(refused.error, Error::OutcomeUnknown, "{refused}");
    let is_open = |path: &str| direct.stat(&me, path).is_ok_and(|status| status.open);
    assert!(is_open("/old") || is_open("/new"), "the namenode has executed it");
    deaf.store(false, Ordering::SeqCst);
    eventually("no file is open", || !is_open("/old") && !is_open("/new"));
    // The client goes on: another opening, and its other file.
    let mut again = client.append(&me, "/old").unwrap();
    again.write(", more").unwrap();
    again.close().unwrap();
    other.write("other bytes").unwrap();
    other.close().unwrap();
    assert_eq!(direct.open(&me, "/old").unwrap().read_at(0, 99).unwrap(), "bytes, more");
}

#[test]
fn a_file_whose_creation_was_never_answered_is_closed() {
    closed_after_a_lost_answer(|client| client.create(&superuser(), "/new", &CreateOptions::default()));
}

#[test]
fn a_file_whose_append_was_never_answered_is_closed() {
    closed_after_a_lost_answer(|client| client.append(&superuser(), "/old"));
}
