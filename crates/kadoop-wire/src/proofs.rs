//! Tags of calls to datanodes, and proofs of their answers (`idl/kadoop.x`, "Tokens").
//!
//! The caller signs a call with a [`Token`], and gets an [`Asked`], which checks the answer. The datanode
//! checks the call's tag, and gets a [`Witness`], which signs the answer.

use super::{
    failure::{Failure, Lost, kind_of, number_of, refuse},
    tokens::{Right, Secret, TAG_BYTES, Tag, Token, TokenKey, demand},
};
use crate::wire::{
    KdBorrow, KdBorrower, KdContinue, KdDigest, KdLender, KdMember, KdPass, KdPiece, KdProbe, KdRead, KdTold,
    KdUpto, KdWrite,
};
use smallvec::SmallVec;
use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use strait_flexrpc::stub::{ServiceError, StubError};
use strait_kadoop_core::{
    ChunkId, Identity, Millis, Stamp,
    error::{Error, Result},
    messages::{Digest, Digested, Piece},
};

/// The numbers that a tag covers: five to eight for most calls, 14 for a write to three datanodes, and 136 for the
/// answer to a read of 1 MiB, whose 256 checksums are packed two to a number.
pub type Numbers = SmallVec<[u64; 24]>;

/// First number that an answer's tag covers. No call's tag begins with it, since no procedure has this
/// number.
const ANSWER: u64 = 512;
/// Stands for the datanode in a write's tag, since the whole pipeline gets the same call.
const EVERYBODY: Identity = Identity(0);
/// Least time between two warnings of unproven answers: a caller that gets one usually gets many.
const WARNINGS: Duration = Duration::from_secs(10);

/// The procedure, by its number in `idl/kadoop.x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Procedure {
    Write = 1,
    Publish = 2,
    Sync = 3,
    Seal = 4,
    Read = 5,
    Probe = 6,
    Continue = 7,
    Lender = 8,
    Digest = 9,
    Borrow = 256,
}

/// A call that carries a pass: a token's grant, a nonce and a tag.
pub trait Call {
    /// The pass.
    fn pass(&self) -> &KdPass;
    /// Sets the pass.
    fn set_pass(&mut self, pass: KdPass);
    /// The call's chunk and stamp.
    fn chunk(&self) -> (u64, u64);
    /// Appends the call's other numbers that the tag covers.
    fn rest(&self, numbers: &mut Numbers);
}

/// An answer that carries a proof.
pub trait Answer {
    /// The answer's head: its refusal's number and its proof.
    fn told(&self) -> &KdTold;
    /// Appends the answer's other numbers that the proof covers.
    fn rest(&self, numbers: &mut Numbers);
}

/// An empty pass, which signing replaces.
pub fn unsigned() -> KdPass {
    let grant = crate::wire::KdGrant { right: 0, until_ms: 0, serial: 0 };
    KdPass { grant, nonce: 0, tag: [0; TAG_BYTES] }
}

fn numbers_of(call: &impl Call, procedure: Procedure, nonce: u64, to: Identity) -> Numbers {
    let (chunk, stamp) = call.chunk();
    let mut numbers = Numbers::from_slice(&[procedure as u64, nonce, to.0, chunk, stamp]);
    call.rest(&mut numbers);
    numbers
}

impl Token {
    /// Signs a call to one datanode.
    pub fn sign(&self, call: &mut impl Call, procedure: Procedure, to: Identity) -> Asked {
        let nonce = self.next_nonce();
        let pass = self.pass(&numbers_of(call, procedure, nonce, to), nonce);
        let tag = pass.tag;
        call.set_pass(pass);
        Asked { secret: self.secret.clone(), tag }
    }

    /// Signs a write, which all datanodes of the pipeline get.
    pub fn sign_write(&self, write: &mut KdWrite<'_>) -> Asked {
        self.sign(write, Procedure::Write, EVERYBODY)
    }

    /// Signs the call's pass for its source. `self` is the token for the source. Sign the call itself first.
    pub fn sign_source(&self, call: &mut KdContinue, to: Identity) {
        let nonce = self.next_nonce();
        call.source_pass = self.pass(&numbers_of(call, Procedure::Continue, nonce, to), nonce);
    }

    fn pass(&self, numbers: &[u64], nonce: u64) -> KdPass {
        KdPass { grant: self.grant, nonce, tag: self.secret.tag(numbers) }
    }
}

/// The tag of a signed call, with which the caller recognizes proven answers.
pub struct Asked {
    secret: Secret,
    tag: Tag,
}

impl Asked {
    /// Whether the answer's proof shows that datanode `from` gave it to this very call.
    pub fn is_proven(&self, answer: &impl Answer, from: Identity) -> bool {
        self.secret.is_tag(&numbers_told(&self.tag, answer, from), &answer.told().proof)
    }

    /// Returns the answer, if its proof shows that it is datanode `from`'s. Without a proof, even a refusal
    /// says nothing about the outcome of the call.
    ///
    /// # Errors
    /// Refused: the datanode has proven its refusal. NotExecuted: the call certainly wasn't executed.
    /// Unknown: the answer has no valid proof, or there is none.
    pub fn hear<A: Answer>(
        &self,
        from: (SocketAddr, Identity),
        answer: std::result::Result<A, StubError>,
    ) -> std::result::Result<A, Lost> {
        let answer = answer.map_err(|error| match Lost::from(error) {
            Lost::Refused(failure) => Lost::Unknown(failure.to_string()),
            lost => lost,
        })?;
        let (address, identity) = from;
        if !self.is_proven(&answer, identity) {
            warn_of(address);
            return Err(Lost::Unknown(format!("the answer of {address} has no valid proof")));
        }
        match answer.told().refused {
            0 => Ok(answer),
            number => Err(match kind_of(number) {
                Error::OutcomeUnknown => Lost::Unknown("the datanode doesn't know the outcome".to_owned()),
                error => {
                    // The two have one number. A datanode's answer isn't about the file's writer.
                    let error = if error == Error::Busy { Error::DatanodeBusy } else { error };
                    Lost::Refused(Failure::new(error, format!("at {address}")))
                }
            }),
        }
    }
}

fn numbers_told(tag: &Tag, answer: &impl Answer, from: Identity) -> Numbers {
    let whole = u128::from_be_bytes(*tag);
    let halves = [(whole >> 64) as u64, whole as u64];
    let refused = u64::from(answer.told().refused);
    let mut numbers = Numbers::from_slice(&[ANSWER, halves[0], halves[1], from.0, refused]);
    answer.rest(&mut numbers);
    numbers
}

fn warn_of(address: SocketAddr) {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.is_none_or(|last| last.elapsed() >= WARNINGS) {
        *last = Some(Instant::now());
        tracing::warn!(
            %address,
            "ignored an answer without a valid proof of the datanode: another process may have taken its \
             port, or something on the way alters packets"
        );
    }
}

/// A call with a valid tag, as its datanode sees it. Signs the answer.
pub struct Witness {
    secret: Secret,
    tag: Tag,
    me: Identity,
    /// Whether the token still allows the call.
    pub allowed: Result<()>,
}

/// Checks a call's tag. With a wrong tag, the datanode can't prove any answer, so the error is unsigned.
///
/// # Errors
/// Unauthenticated: the tag is wrong, or the token doesn't give the right.
pub fn witness(
    key: &TokenKey,
    me: Identity,
    call: &impl Call,
    (procedure, right): (Procedure, Right),
    now_ms: Millis,
) -> std::result::Result<Witness, ServiceError> {
    let (chunk, stamp) = call.chunk();
    let pass = call.pass();
    let to = if procedure == Procedure::Write { EVERYBODY } else { me };
    let numbers = numbers_of(call, procedure, pass.nonce, to);
    let secret = key.secret_of(ChunkId(chunk), Stamp(stamp), &pass.grant);
    let allowed = demand(&pass.grant, right, now_ms);
    if !secret.is_tag(&numbers, &pass.tag) || allowed == Err(Error::Unauthenticated) {
        return Err(refuse(Error::Unauthenticated));
    }
    Ok(Witness { secret, tag: pass.tag, me, allowed })
}

/// Checks the pass for the call's source.
///
/// # Errors
/// Unauthenticated: the tag is wrong, or the token doesn't give the right to read; TokenExpired.
pub fn demand_source(key: &TokenKey, me: Identity, call: &KdContinue, now_ms: Millis) -> Result<()> {
    let pass = &call.source_pass;
    let numbers = numbers_of(call, Procedure::Continue, pass.nonce, me);
    let secret = key.secret_of(ChunkId(call.source.chunk), Stamp(call.source.stamp), &pass.grant);
    if !secret.is_tag(&numbers, &pass.tag) {
        return Err(Error::Unauthenticated);
    }
    demand(&pass.grant, Right::Read, now_ms)
}

impl Witness {
    /// A signed outcome of the call.
    pub fn told(&self, result: Result<()>) -> KdTold {
        let refused = result.err().map_or(0, number_of);
        let mut told = KdTold { refused, proof: [0; TAG_BYTES] };
        told.proof = self.proof(&told);
        told
    }

    /// Signed bytes of a read.
    pub fn piece(&self, result: Result<Piece>) -> KdPiece<'static> {
        let (refused, piece) = match result {
            Ok(piece) => (0, piece),
            Err(error) => {
                (number_of(error), Piece { bytes: bytes::Bytes::new(), sums: Vec::new(), visible: 0 })
            }
        };
        let Piece { bytes, sums, visible } = piece;
        let told = KdTold { refused, proof: [0; TAG_BYTES] };
        let mut answer = KdPiece { told, bytes: bytes.into(), sums, visible };
        answer.told.proof = self.proof(&answer);
        answer
    }

    /// A signed digest of a range.
    pub fn digest(&self, result: Result<Digested>) -> KdDigest {
        let nothing = Digested { digest: Digest::default(), visible: 0 };
        let refused = result.err().map_or(0, number_of);
        let Digested { digest: Digest { crc, length }, visible } = result.unwrap_or(nothing);
        let told = KdTold { refused, proof: [0; TAG_BYTES] };
        let mut answer = KdDigest { told, crc, length, visible };
        answer.told.proof = self.proof(&answer);
        answer
    }

    /// The signed path of the lender's socket, and the number of the datanode's run.
    pub fn lender(&self, result: Result<(&[u8], u64)>) -> KdLender<'static> {
        let (refused, (path, run)) = match result {
            Ok(place) => (0, place),
            Err(error) => (number_of(error), (&[][..], 0)),
        };
        let told = KdTold { refused, proof: [0; TAG_BYTES] };
        let mut answer = KdLender { told, path: path.to_vec().into(), run };
        answer.told.proof = self.proof(&answer);
        answer
    }

    fn proof(&self, answer: &impl Answer) -> Tag {
        self.secret.tag(&numbers_told(&self.tag, answer, self.me))
    }
}

/// Implements [`Call`]: the place of the pass, and the other tagged numbers.
macro_rules! calls {
    ($($call:ty: |$of:ident, $numbers:ident| $rest:expr;)*) => {$(
        impl Call for $call {
            fn pass(&self) -> &KdPass {
                &self.pass
            }

            fn set_pass(&mut self, pass: KdPass) {
                self.pass = pass;
            }

            fn chunk(&self) -> (u64, u64) {
                (self.chunk, self.stamp)
            }

            fn rest(&self, $numbers: &mut Numbers) {
                let $of = self;
                $rest
            }
        }
    )*};
}

calls! {
    KdWrite<'_>: |of, numbers| {
        pipeline(&of.pipeline, numbers);
        numbers.extend([of.offset.into(), of.bytes.len() as u64]);
    };
    KdUpto: |of, numbers| numbers.push(of.length.into());
    KdRead: |of, numbers| numbers.extend([of.offset, of.length, of.acknowledged].map(u64::from));
    KdProbe: |of, numbers| numbers.extend([of.member.node.into(), of.member.incarnation]);
    KdContinue: |of, numbers| {
        pipeline(&of.pipeline, numbers);
        let source = &of.source;
        numbers.extend([source.chunk, source.stamp, source.length.into(), source.nodes.len() as u64]);
        numbers.extend(source.nodes.iter().copied().map(u64::from));
    };
    KdBorrower: |_of, _numbers| ();
    KdBorrow: |of, numbers| numbers.push(of.run);
}

fn pipeline(members: &[KdMember], numbers: &mut Numbers) {
    numbers.push(members.len() as u64);
    numbers.extend(members.iter().flat_map(|member| [member.node.into(), member.incarnation]));
}

impl Answer for KdTold {
    fn told(&self) -> &KdTold {
        self
    }

    fn rest(&self, _: &mut Numbers) {}
}

impl Answer for KdPiece<'_> {
    fn told(&self) -> &KdTold {
        &self.told
    }

    fn rest(&self, numbers: &mut Numbers) {
        numbers.extend([self.bytes.len() as u64, self.sums.len() as u64]);
        let pairs = self.sums.chunks(2);
        numbers.extend(pairs.map(|pair| {
            let below = pair.get(1).copied().unwrap_or(0);
            u64::from(pair[0]) << 32 | u64::from(below)
        }));
        numbers.push(self.visible.into());
    }
}

impl Answer for KdDigest {
    fn told(&self) -> &KdTold {
        &self.told
    }

    fn rest(&self, numbers: &mut Numbers) {
        numbers.extend([self.crc, self.length, self.visible].map(u64::from));
    }
}

impl Answer for KdLender<'_> {
    fn told(&self) -> &KdTold {
        &self.told
    }

    fn rest(&self, numbers: &mut Numbers) {
        numbers.push(self.path.len() as u64);
        numbers.extend(self.path.iter().copied().map(u64::from));
        numbers.push(self.run);
    }
}
