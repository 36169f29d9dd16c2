//! Plain ONC RPC (RFC 5531), as pure functions: the messages of unmodified SunRPC clients, and
//! their answers.
//!
//! - [`message`]: calls and replies.
//! - [`record`]: the records of a TCP connection, out of their fragments.
//! - [`duplicates`]: recognises retransmitted datagrams by the fields that they share.
//! - [`rpcbind`]: registers the addresses of a server's programs.
//!
//! A datagram, and the first bytes of a connection, are FlexRPC's if they begin with
//! [`MAGIC`](crate::proto::frame::MAGIC). As a record mark, the magic would announce 1.2 GB. As a
//! datagram's first words, it is no call: the word after a call's transaction id is 0, and the
//! version after the magic is not.

pub mod duplicates;
pub mod message;
pub mod record;
pub mod rpcbind;
