//! Messages to and from rpcbind. Clients ask it for the address of a program (RFC 1833). A server
//! registers by version 3, and a client looks up by version 2 or 3.

use crate::proto::auth::Credentials;
use crate::proto::ids::Procedure;
use crate::proto::onc::message::{Answer, Call};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use strait_xdr::{Encoder, Text, UNLIMITED};

const PROGRAM: u32 = 100_000;
const VERSION: u32 = 3;
const SET: Procedure = Procedure::new(PROGRAM, VERSION, 1);
const UNSET: Procedure = Procedure::new(PROGRAM, VERSION, 2);

/// The address of one version of a program, for one transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The program's number.
    pub program: u32,
    /// The version's number.
    pub version: u32,
    /// The transport: `tcp`, `udp`, `tcp6` or `udp6`.
    pub netid: &'static str,
    /// The address at which the server listens.
    pub address: SocketAddr,
}

impl Mapping {
    /// A program's mappings: one for each transport by which clients reach `listen`. A listener on `[::]`
    /// also accepts IPv4, so it gets `tcp` and `udp`, too.
    pub fn all(program: u32, version: u32, listen: SocketAddr, udp: bool) -> Vec<Self> {
        let of = |netid, address| Self { program, version, netid, address };
        let mut all = Vec::new();
        let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        let v4 = if listen.is_ipv4() { Some(listen.ip()) } else { None };
        let v4 = v4.or_else(|| listen.ip().is_unspecified().then_some(any));
        if listen.is_ipv6() {
            all.push(of("tcp6", listen));
            all.extend(udp.then(|| of("udp6", listen)));
        }
        if let Some(ip) = v4 {
            let address = SocketAddr::new(ip, listen.port());
            all.push(of("tcp", address));
            all.extend(udp.then(|| of("udp", address)));
        }
        all
    }

    /// The call that registers the mapping. Rpcbind refuses if it has another for the same program,
    /// version and transport.
    pub fn set(&self, xid: u32) -> Vec<u8> {
        self.call(xid, SET)
    }

    /// The call that unregisters program, version and transport, whatever their address.
    pub fn unset(&self, xid: u32) -> Vec<u8> {
        self.call(xid, UNSET)
    }

    fn call(&self, xid: u32, procedure: Procedure) -> Vec<u8> {
        let head = Call { xid, procedure, credentials: Credentials::None }.encode();
        let (netid, address, owner) =
            (Text::from(self.netid), Text::from(universal(self.address)), Text::default());
        let mut to = Encoder::flat(head);
        to.u32(self.program);
        to.u32(self.version);
        // This never fails: rpcbind sets no limit for texts.
        let texts = [&netid, &address, &owner].map(|text| to.text(text, UNLIMITED));
        debug_assert!(texts.iter().all(Result::is_ok));
        to.finish().into_vec()
    }
}

/// Largest result of a look-up, in bytes: an IPv6 address takes some 50.
pub const REPLY_BYTES: usize = 512;

/// The call that asks a host for a program's address: version 2 (the portmapper) for IPv4, since
/// all hosts support it, and version 3 (rpcbind) for IPv6. Returns procedure and arguments.
pub fn question(host: IpAddr, (program, version): (u32, u32), is_tcp: bool) -> (Procedure, Vec<u8>) {
    let (netid, none) = (Text::from(if is_tcp { "tcp6" } else { "udp6" }), Text::default());
    let mut to = Encoder::flat(Vec::new());
    to.u32(program);
    to.u32(version);
    if host.is_ipv4() {
        to.u32(if is_tcp { 6 } else { 17 });
        to.u32(0);
        return (Procedure::new(PROGRAM, 2, 3), to.finish().into_vec());
    }
    let texts = [&netid, &none, &none].map(|text| to.text(text, UNLIMITED).is_ok());
    debug_assert!(texts.iter().all(|fits| *fits));
    (Procedure::new(PROGRAM, VERSION, 3), to.finish().into_vec())
}

/// The port in the answer to [`question`]; 0 if the program isn't registered; `None` if this isn't
/// an answer.
pub fn port(host: IpAddr, answer: &[u8]) -> Option<u16> {
    let word = u32::from_be_bytes(*answer.first_chunk()?);
    if host.is_ipv4() {
        return u16::try_from(word).ok();
    }
    let text = answer[4..].get(..word as usize)?;
    if text.is_empty() {
        return Some(0);
    }
    let mut parts = std::str::from_utf8(text).ok()?.rsplit('.');
    let (low, high) = (parts.next()?.parse::<u8>().ok()?, parts.next()?.parse::<u8>().ok()?);
    Some(u16::from_be_bytes([high, low]))
}

/// Whether rpcbind executed call `xid` successfully; `None` if this isn't its reply.
pub fn was_done(xid: u32, reply: &[u8]) -> Option<bool> {
    let (answered, answer, result) = Answer::decode(reply)?;
    (answered == xid).then_some(answer == Answer::Success && result == 1u32.to_be_bytes())
}

/// An address in rpcbind's form: the last two numbers are the port's bytes (RFC 5665, section
/// 5.2.3).
fn universal(address: SocketAddr) -> String {
    let [high, low] = address.port().to_be_bytes();
    format!("{}.{high}.{low}", address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_universal() {
        assert_eq!(universal(([127, 0, 0, 1], 2049).into()), "127.0.0.1.8.1");
        assert_eq!(universal("[fe80::1]:111".parse().unwrap()), "fe80::1.0.111");
    }

    #[test]
    fn every_transport_that_reaches_the_server_is_told() {
        let netids = |listen: &str, udp| -> Vec<_> {
            let all = Mapping::all(7, 1, listen.parse().unwrap(), udp);
            all.into_iter().map(|mapping| (mapping.netid, mapping.address.to_string())).collect()
        };
        let told = |netid, address: &str| (netid, address.to_owned());
        assert_eq!(netids("10.0.0.1:9", false), [told("tcp", "10.0.0.1:9")]);
        assert_eq!(netids("[::1]:9", true), [told("tcp6", "[::1]:9"), told("udp6", "[::1]:9")]);
        let any = netids("[::]:9", true);
        assert_eq!(any[2..], [told("tcp", "0.0.0.0:9"), told("udp", "0.0.0.0:9")]);
    }

    #[test]
    fn a_port_is_read_from_what_rpcbind_answers_and_from_nothing_else() {
        let (v4, v6) = (IpAddr::from([127, 0, 0, 1]), "::1".parse().unwrap());
        assert_eq!(port(v4, &2049_u32.to_be_bytes()), Some(2049));
        assert_eq!(port(v4, &0_u32.to_be_bytes()), Some(0));
        assert_eq!(port(v4, &70_000_u32.to_be_bytes()), None);
        let told = |text: &str| [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat();
        assert_eq!(port(v6, &told("::1.8.1")), Some(2049));
        assert_eq!(port(v6, &told("")), Some(0));
        for wrong in ["::1", "8", "a.b", "1.300.1"] {
            assert_eq!(port(v6, &told(wrong)), None, "{wrong}");
        }
        assert_eq!(port(v6, &u32::MAX.to_be_bytes()), None);
        assert_eq!(port(v4, b"abc"), None);
    }

    #[test]
    fn only_a_reply_that_says_so_is_taken_for_done() {
        let reply = |answer: Answer, result: u32| [answer.encode(5), result.to_be_bytes().to_vec()].concat();
        assert_eq!(was_done(5, &reply(Answer::Success, 1)), Some(true));
        assert_eq!(was_done(5, &reply(Answer::Success, 0)), Some(false));
        assert_eq!(was_done(5, &reply(Answer::SystemError, 1)), Some(false));
        assert_eq!(was_done(6, &reply(Answer::Success, 1)), None);
        assert_eq!(was_done(5, b"what"), None);
    }
}
