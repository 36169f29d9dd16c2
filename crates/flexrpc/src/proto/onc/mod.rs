//! Plain ONC RPC (RFC 5531), as pure functions: the messages of unmodified SunRPC clients, and
//! their answers.
//!
//! - [`message`]: calls and replies.
//! - [`record`]: assembles the records of a TCP connection from their fragments.
//! - [`duplicates`]: recognises retransmitted datagrams by fields that all transmissions share.
//! - [`rpcbind`]: registers the addresses of a server's programs.
//!
//! A datagram, and the first bytes of a connection, are FlexRPC's if they begin with
//! [`MAGIC`](crate::proto::frame::MAGIC). As a record mark, the magic would announce 1.2 GB. A
//! datagram that begins with it can't be a call of ONC RPC: a call's second word is 0, but a
//! frame's second word begins with its version, which isn't 0.

pub mod duplicates;
pub mod message;
pub mod record;
pub mod rpcbind;
