//! Every callee learns for which request a call is made.

use bytes::Bytes;
use std::net::SocketAddr;
use strait_flexrpc::RequestId;
use strait_flexrpc::{
    Client, MulticastOptions, Outcome, Procedure, Reply, Request, Server, ServerOptions, Transport,
};

const TELL: Procedure = Procedure::new(7, 1, 1);
/// A procedure that calls the callee on the port in its argument.
const ASK_ANOTHER: Procedure = Procedure::new(7, 1, 2);

/// A server that answers with the request it works for.
fn server() -> Server {
    let client = Client::default();
    let serve = move |request: &Request, reply: &mut Reply| {
        let told = match request.procedure {
            ASK_ANOTHER => {
                let port = u16::from_be_bytes([request.args[0], request.args[1]]);
                client.call(SocketAddr::from(([127, 0, 0, 1], port)), Transport::Tcp, TELL, &[]).unwrap()
            }
            _ => told(RequestId::current()),
        };
        reply.put(&told);
        Ok(())
    };
    Server::builder(ServerOptions::default()).register(7, 1, serve).start().unwrap()
}

fn told(request: Option<RequestId>) -> Bytes {
    request.map_or("none".into(), |request| request.to_string().into())
}

#[test]
fn a_service_works_for_the_request_of_its_caller() {
    let (server, client) = (server(), Client::default());
    for transport in [Transport::Tcp, Transport::Udp] {
        for request in [Some(RequestId::next()), None, Some(RequestId::next())] {
            let _working = RequestId::enter(request);
            let answer = client.call(server.address(), transport, TELL, &[]).unwrap();
            assert_eq!(answer, told(request), "{transport:?}");
        }
    }
}

#[test]
fn every_callee_of_a_multicast_works_for_it_and_what_these_call() {
    let servers: Vec<Server> = (0..3).map(|_| server()).collect();
    let addresses: Vec<SocketAddr> = servers.iter().map(Server::address).collect();
    let (client, options) = (Client::default(), MulticastOptions::default());
    let request = Some(RequestId::next());
    let _working = RequestId::enter(request);
    let all = vec![Outcome::Value(told(request)); 3];
    for size in [0, 1 << 20] {
        let arguments = [Bytes::from(vec![0; size])];
        assert_eq!(client.call_chain(&addresses, TELL, &arguments, &options), all);
        assert_eq!(client.call_parallel(&addresses, Transport::Tcp, TELL, &arguments, &options), all);
    }
    let port = addresses[2].port().to_be_bytes();
    let answer = client.call(addresses[0], Transport::Tcp, ASK_ANOTHER, &[&port]).unwrap();
    assert_eq!(answer, told(request));
}
