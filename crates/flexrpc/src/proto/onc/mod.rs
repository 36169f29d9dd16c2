//! Plain ONC RPC (RFC 5531), as pure functions: what unmodified SunRPC clients
//! send, and what they are answered.
//!
//! - [`message`]: calls and replies.
//! - [`record`]: the records of a TCP connection, out of their fragments.
//! - [`duplicates`]: retransmitted datagrams, told by what they have in common.
//! - [`rpcbind`]: how a server tells where its programs are.
//!
//! A datagram, and the first bytes of a connection, are FlexRPC's if they begin
//! with [`MAGIC`](crate::proto::frame::MAGIC). As a record mark that would
//! announce 1.2 GB, and as a datagram's first words no call: the word behind a
//! call's transaction id is 0, and behind the magic the version is not.

pub mod duplicates;
pub mod message;
pub mod record;
pub mod rpcbind;
