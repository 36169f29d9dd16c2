//! The bonds of sessions: to the cluster's key, to a caller's own key, or to no key
//! ([`crate::proto::bond`]).

use crate::net::clock;
use crate::net::reader::Frame;
use crate::net::wire::Security;
use crate::proto::auth::SessionKey;
use crate::proto::bond::{Bond, Holder, OwnKey};
use crate::proto::call::Transport;
use crate::proto::extension::{Extension, Terms};
use crate::proto::frame::{Head, Kind, flags};
use crate::proto::ids::{CallId, SessionId};
use crate::proto::status::Refusal;
use crate::server::core::{Core, Origin, Response, append_tag, flags_with, tagged};
use crate::server::service::Reply;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The sender of a handshake.
enum Greeting {
    /// A holder of the cluster's key; any caller if the server has none.
    Cluster,
    /// The holder of this key.
    Own(OwnKey),
    /// A caller without a key.
    Keyless,
}

impl Core {
    /// Opens a session, bound to the key that tagged the handshake.
    pub(crate) fn greet(&self, frame: &Frame, origin: Origin) -> Response {
        let head = frame.head;
        let hello = Extension::decode(frame.extension());
        let greeting = match &hello {
            Ok(Extension { key_id: Some(id), .. }) => {
                let own = self.options.own_keys.as_ref().and_then(|keys| keys.0.find(id));
                let own = own.filter(|own| frame.is_authentic(&own.key.of_session(SessionId::NONE)));
                own.map(Greeting::Own)
            }
            _ if self.is_by_cluster_key(frame) => Some(Greeting::Cluster),
            _ if self.may_come_keyless(frame, origin) => Some(Greeting::Keyless),
            _ => None,
        };
        match (greeting, hello) {
            // A handshake executes nothing, so the server may tell a caller that its key is wrong.
            (None, _) if origin.transport == Transport::Udp => {
                Response::Send(self.last_word(head.id, origin))
            }
            (None, _) => self.turn_away(frame, origin),
            (Some(greeting), _) if !self.is_secure(origin.security) => {
                Response::Send(self.refuse_greeting(head.id, Refusal::TlsRequired, &greeting))
            }
            (Some(greeting), Ok(hello)) => match self.welcome(&head, &hello, &greeting) {
                Ok(welcome) => Response::Send(welcome),
                Err(refusal) => Response::Send(self.refuse_greeting(head.id, refusal, &greeting)),
            },
            (Some(greeting), Err(_)) => {
                Response::Send(self.refuse_greeting(head.id, Refusal::Malformed, &greeting))
            }
        }
    }

    fn welcome(&self, head: &Head, hello: &Extension, greeting: &Greeting) -> Result<Bytes, Refusal> {
        if self.draining.load(Ordering::Acquire) {
            return Err(Refusal::ShuttingDown);
        }
        let nonce = hello.nonce.ok_or(Refusal::Malformed)?;
        let mut session = SessionId::NONE;
        getrandom::fill(&mut session.0).map_err(|_| Refusal::Overloaded)?;
        if self.binds_sessions() {
            session.mark(!matches!(greeting, Greeting::Cluster));
        }
        let bond = match greeting {
            Greeting::Cluster => None,
            Greeting::Own(OwnKey { key, holder }) => {
                Some(Arc::new(Bond::Own { key: key.of_session(session), holder: Arc::clone(holder) }))
            }
            Greeting::Keyless => Some(Arc::new(Bond::Keyless)),
        };
        self.admission.open_bound_session(session, bond, clock::now())?;
        let terms = Terms {
            payload_bytes: u32::try_from(self.options.payload_bytes).unwrap_or(u32::MAX),
            session_idle_ms: u32::try_from(self.options.admission.session_idle_us / 1000).unwrap_or(u32::MAX),
        };
        let extension = Extension { nonce: Some(nonce), terms: Some(terms), ..Extension::default() }.encode();
        // The handshake's tag uses the key of `SessionId::NONE`: the client has no session yet.
        let key = self.key_of(greeting);
        let id = CallId { session, ..head.id };
        let head = Head { flags: flags_with(key.as_ref()), ..Head::new(Kind::Welcome, id) };
        let mut frame = head.encode(&extension);
        append_tag(&mut frame, key.as_ref());
        Ok(frame.into())
    }

    /// The key that tags answers to a handshake.
    fn key_of(&self, greeting: &Greeting) -> Option<SessionKey> {
        match greeting {
            Greeting::Cluster => self.cluster_key(SessionId::NONE),
            Greeting::Own(own) => Some(own.key.of_session(SessionId::NONE)),
            Greeting::Keyless => None,
        }
    }

    fn refuse_greeting(&self, id: CallId, refusal: Refusal, greeting: &Greeting) -> Bytes {
        let mut reply = Reply::new();
        let status = refusal.encode(reply.buffer());
        tagged(Head { status, ..Head::new(Kind::Refused, id) }, reply, self.key_of(greeting).as_ref())
    }

    /// Whether a frame proves to come from its session's owner.
    pub(crate) fn is_authentic(&self, frame: &Frame, origin: Origin) -> bool {
        let session = frame.head.id.session;
        if self.is_bound(session) {
            return match self.admission.bond(session).as_deref() {
                Some(Bond::Own { key, .. }) => frame.is_authentic(key),
                Some(Bond::Keyless) => self.may_come_keyless(frame, origin),
                // An earlier incarnation opened the session, or this one forgot it: its owner is
                // unknown.
                None => false,
            };
        }
        self.is_by_cluster_key(frame)
    }

    fn is_by_cluster_key(&self, frame: &Frame) -> bool {
        match &self.options.key {
            None => !frame.head.has(flags::AUTHENTIC),
            Some(key) => frame.is_authentic(&key.of_session(frame.head.id.session)),
        }
    }

    /// Whether the server accepts this frame without a tag, for the programs that need no key.
    fn may_come_keyless(&self, frame: &Frame, origin: Origin) -> bool {
        let open = !self.options.keyless_programs.is_empty();
        open && origin.security != Security::Plain && !frame.head.has(flags::AUTHENTIC)
    }

    /// Whether the server accepts callers that don't hold the cluster's key.
    fn binds_sessions(&self) -> bool {
        self.options.own_keys.is_some() || !self.options.keyless_programs.is_empty()
    }

    /// Whether the session was opened without the cluster's key.
    pub(crate) fn is_bound(&self, session: SessionId) -> bool {
        self.binds_sessions() && session.is_marked()
    }

    fn bond(&self, session: SessionId) -> Option<Arc<Bond>> {
        if self.is_bound(session) { self.admission.bond(session) } else { None }
    }

    /// Reason to refuse a call to its session's owner: its key is no longer valid, or it has none
    /// and the program requires one.
    pub(crate) fn objection_to_bound(&self, head: &Head) -> Option<Refusal> {
        let refused = match self.bond(head.id.session)?.as_ref() {
            Bond::Own { holder, .. } => !holder.is_valid(),
            Bond::Keyless => !self.options.keyless_programs.contains(&head.procedure.program),
        };
        refused.then_some(Refusal::Unauthenticated)
    }

    pub(crate) fn holder(&self, session: SessionId) -> Option<Arc<dyn Holder>> {
        match self.bond(session)?.as_ref() {
            Bond::Own { holder, .. } => Some(Arc::clone(holder)),
            Bond::Keyless => None,
        }
    }

    /// Whether the session was opened with the cluster's key.
    pub(crate) fn is_of_member(&self, session: SessionId) -> bool {
        self.options.key.is_some() && !self.is_bound(session)
    }

    /// Whether the session's frames carry tags.
    pub(crate) fn is_tagged(&self, session: SessionId) -> bool {
        match self.is_bound(session) {
            true => self.holder(session).is_some(),
            false => self.options.key.is_some(),
        }
    }

    /// The key of the session's tags. `None` if the session needs no tags, or its owner is unknown:
    /// the cluster's key tags no answers to other callers.
    pub(crate) fn session_key(&self, session: SessionId) -> Option<SessionKey> {
        if !self.is_bound(session) {
            return self.cluster_key(session);
        }
        match self.bond(session)?.as_ref() {
            Bond::Own { key, .. } => Some(key.clone()),
            Bond::Keyless => None,
        }
    }

    fn cluster_key(&self, session: SessionId) -> Option<SessionKey> {
        self.options.key.as_ref().map(|key| key.of_session(session))
    }
}
