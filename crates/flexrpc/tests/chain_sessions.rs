//! A caller's reaction if a callee of a chain no longer knows its session.

use crate::common::raw::Raw;
use crate::common::{self, COUNT, Service, client, procedure};
use bytes::Bytes;
use std::sync::Arc;
use strait_flexrpc::{
    AdmissionLimits, Forwarding, MulticastOptions, Outcome, Refusal, Server, ServerOptions,
};

fn start(options: ServerOptions) -> (Server, Arc<Service>) {
    let service = Arc::new(Service::default());
    (common::start(options, &service), service)
}

#[test]
fn a_session_that_a_callee_further_back_has_lost_costs_one_call_alone() {
    let (first, _) = start(ServerOptions { forwarding: Forwarding::Nowhere, ..ServerOptions::default() });
    let admission = AdmissionLimits { sessions: 1, ..AdmissionLimits::default() };
    let (second, service) = start(ServerOptions { admission, ..ServerOptions::default() });
    let client = client();
    let call = || {
        let args = [Bytes::from_static(b"argument")];
        let callees = [first.address(), second.address()];
        client.call_chain(&callees, procedure(COUNT), &args, &MulticastOptions::default())
    };
    // After this, both callees have a session with the caller, but no call has reached the second.
    assert!(call().iter().all(|outcome| !outcome.is_value()));
    // The second callee has room for one session, and another client takes it.
    Raw::udp(second.address()).session();
    first.set_forwarding(Forwarding::Guarded);
    let outcomes = call();
    assert!(outcomes[0].is_value(), "{outcomes:?}");
    assert_eq!(outcomes[1], Outcome::NotExecuted(Refusal::UnknownSession));
    assert_eq!(service.executed(), 0);
    let outcomes = call();
    assert!(outcomes.iter().all(Outcome::is_value), "in a new session: {outcomes:?}");
    assert_eq!(service.executed(), 1);
}
