//! Thrift over HTTP: `POST /thrift`. Once the body is received, its message is handled like one over TCP.

use super::answer::Answer;
use super::inflow::{Inflow, Receiving};
use super::refused::{Refusal, as_refusal, bad, refused};
use super::{Front, Sender};
use crate::dispatch::execute;
use crate::memory::Permit;
use crate::request::{Body as Asked, Request as Message};
use bytes::BytesMut;
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;
use std::time::Instant;
use strait_store::ErrorKind;
use strait_wire::{ApplicationError, ApplicationErrorKind, Protocol, Sniff, Wire, sniff};
use tokio::time::timeout;

/// The path of both Thrift services.
pub const PATH: &str = "/thrift";
/// Time for the first bytes of a refused request's body, which show its protocol.
const BEGINNING_PATIENCE: Duration = Duration::from_millis(100);

/// Answers a request to [`PATH`].
pub async fn answer(front: &Front, head: &Parts, body: Incoming) -> Response<Answer> {
    front.called(head, body).await.unwrap_or_else(|refusal| refused(&refusal))
}

impl Front {
    async fn called(&self, head: &Parts, mut body: Incoming) -> Result<Response<Answer>, Refusal> {
        if head.method != Method::POST {
            let message = "send a Thrift message by POST";
            let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, ErrorKind::Unsupported, message);
            let mut response = refused(&refusal);
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST, OPTIONS"));
            return Ok(response);
        }
        let asked = content(&head.headers)?;
        let admitted = self.sender(&head.headers).and_then(|sender| {
            let most = self.admit(&body, head, sender.known)?;
            Ok((sender, most))
        });
        let (sender, most) = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => {
                let protocol = match asked.protocol {
                    // Such a client sends the body only after 100 Continue, and a read would cause that
                    // (RFC 9110, section 10.1.1).
                    None if head.headers.contains_key(header::EXPECT) => None,
                    None => begun(&mut body).await,
                    known => known,
                };
                return protocol.map(|protocol| self.exception(&refusal, protocol, &asked)).ok_or(refusal);
            }
        };
        let mut message = BytesMut::new();
        let received = self.receive(body, most, &asked, &mut message).await;
        // The first bytes show the protocol even if the body is incomplete.
        let protocol = asked.protocol.or(protocol_of(&message));
        let complete = received.and_then(|memory| match message.is_empty() {
            true => Err(bad("the body is empty")),
            false => Ok((message.freeze(), memory)),
        });
        let (message, memory, protocol) = match (complete, protocol) {
            (Ok((message, memory)), Some(protocol)) => (message, memory, protocol),
            (Ok(_), None) => return Err(bad("the body isn't an unframed Thrift message")),
            (Err(refusal), Some(protocol)) => return Ok(self.exception(&refusal, protocol, &asked)),
            (Err(refusal), None) => return Err(refusal),
        };
        let wire = Wire { protocol, framed: false };
        let request = Message::parse(wire, message, memory, Instant::now());
        let is_bad = matches!(
            &request.body,
            Asked::Refused { error, .. } if error.kind != ApplicationErrorKind::UnknownMethod
        );
        let mut response = match self.execute(request, sender).await {
            Ok(response) => response,
            Err(refusal) => return Ok(self.exception(&refusal, protocol, &asked)),
        };
        response.headers_mut().insert(header::CONTENT_TYPE, asked.name);
        if is_bad {
            *response.status_mut() = StatusCode::BAD_REQUEST;
        }
        Ok(response)
    }

    /// A refusal as Thrift's exception: programs on Apache's libraries read the body, whatever the status.
    fn exception(&self, refusal: &Refusal, protocol: Protocol, asked: &Content) -> Response<Answer> {
        let error = ApplicationError {
            kind: ApplicationErrorKind::Unknown,
            message: format!("{:?}: {}", refusal.kind, refusal.message),
        };
        let encoded = error.reply(Wire { protocol, framed: false }, "", 0);
        let answer = Answer::encoded(encoded, None, self.unsent.clone(), &self.account());
        let mut response = Response::new(answer);
        response.headers_mut().insert(header::CONTENT_TYPE, asked.name.clone());
        as_refusal(response, refusal.status)
    }

    /// The most bytes that this body may have.
    fn admit(&self, body: &Incoming, head: &Parts, known: bool) -> Result<Most, Refusal> {
        let limits = &self.shared.limits;
        let bytes = if known { limits.message_bytes } else { limits.stranger_message_bytes };
        let most = Most { bytes, known };
        Self::demand_length(head)?;
        match body.size_hint().exact().is_some_and(|length| length > bytes as u64) {
            true => Err(most.exceeded()),
            false => Ok(most),
        }
    }

    /// Receives the body into `bytes`, after its memory was granted.
    async fn receive(
        &self,
        mut body: Incoming,
        most: Most,
        asked: &Content,
        bytes: &mut BytesMut,
    ) -> Result<Option<Permit>, Refusal> {
        let announced = body.size_hint().exact();
        // A chunked body announces no length, so it needs memory for the largest one.
        let needed = announced.map_or(most.bytes, |length| length as usize);
        let memory = self.memory(needed * asked.copies).await;
        let (flow, holder) = {
            let account = self.account();
            (account.flow().clone(), account.holder().clone())
        };
        let _receiving = Receiving::new(flow, holder, Receiving::units(memory.as_ref()));
        bytes.reserve(announced.map_or(0, |length| length as usize));
        let mut inflow = Inflow::new(&mut body, &self.shared.limits);
        while let Some(data) = inflow.next().await? {
            if bytes.len() + data.len() > most.bytes {
                return Err(most.exceeded());
            }
            bytes.extend_from_slice(&data);
        }
        Ok(memory)
    }

    async fn execute(&self, request: Message, sender: Sender) -> Result<Response<Answer>, Refusal> {
        let Sender { context, key, known } = sender;
        if !known {
            self.keep_pace().await;
        }
        let granted = match request.answer_bytes() {
            None => None,
            Some(bytes) => match self.account().now(bytes) {
                Some(permit) => Some(permit),
                None => {
                    let message = "no memory for the answer; try again later";
                    return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Busy, message));
                }
            },
        };
        let answer = execute(request, context.0.clone(), key.clone(), granted);
        let outgoing = self.in_turns(&key, answer).await;
        let answer = Answer::encoded(outgoing.encoded, outgoing.memory, self.unsent.clone(), &self.account());
        let mut response = Response::new(answer);
        if outgoing.last {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }
}

/// The limit of a body.
struct Most {
    bytes: usize,
    /// Its sender is known before it is read.
    known: bool,
}

impl Most {
    fn exceeded(&self) -> Refusal {
        let message = match self.known {
            true => "the body is larger than the gateway allows for a request",
            false => {
                "a body of more than 64 KiB needs the session's token in its head: Authorization: Bearer TOKEN"
            }
        };
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorKind::InvalidArgument, message)
    }
}

/// The protocol of the message that an unread body begins with, if its first bytes come soon.
async fn begun(body: &mut Incoming) -> Option<Protocol> {
    let first = timeout(BEGINNING_PATIENCE, poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx))).await;
    protocol_of(&first.ok()??.ok()?.into_data().ok()?)
}

/// The protocol of the unframed message that begins with these bytes.
fn protocol_of(bytes: &[u8]) -> Option<Protocol> {
    match sniff(bytes) {
        Sniff::Thrift(Wire { protocol, framed: false }) => Some(protocol),
        _ => None,
    }
}

/// The meaning of a Content-Type.
struct Content {
    /// None: the body's first bytes show it.
    protocol: Option<Protocol>,
    /// The type itself. The answer has the same.
    name: HeaderValue,
    /// How often the body's bytes may be in memory: JSON's payloads are decoded into further bytes.
    copies: usize,
}

/// Reads the Content-Type. Apache's libraries send `application/x-thrift` with every protocol; their library for
/// Node sent none until 0.9.3, and other libraries send `application/octet-stream`.
fn content(headers: &HeaderMap) -> Result<Content, Refusal> {
    let mut given = headers.get_all(header::CONTENT_TYPE).iter();
    let first = given.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
    if given.next().is_some() {
        return Err(bad("Content-Type comes twice"));
    }
    let kind = first.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (name, protocol, copies) = match kind.as_str() {
        "application/x-thrift" | "application/octet-stream" | "" => ("application/x-thrift", None, 2),
        "application/vnd.apache.thrift.binary" => {
            ("application/vnd.apache.thrift.binary", Some(Protocol::Binary), 1)
        }
        "application/vnd.apache.thrift.compact" => {
            ("application/vnd.apache.thrift.compact", Some(Protocol::Compact), 1)
        }
        "application/vnd.apache.thrift.json" => {
            ("application/vnd.apache.thrift.json", Some(Protocol::Json), 2)
        }
        _ => {
            let message =
                "the Content-Type must be application/x-thrift or application/vnd.apache.thrift.PROTOCOL";
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(Refusal::new(status, ErrorKind::InvalidArgument, message));
        }
    };
    Ok(Content { protocol, name: HeaderValue::from_static(name), copies })
}
