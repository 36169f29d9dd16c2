//! Reads the frames that a caller receives for its call.

use crate::proto::call::Answer;
use crate::proto::frame::{Head, Kind};
use crate::proto::ids::CallId;
use crate::proto::planted::{Planted, planted};
use crate::proto::status::{Doubt, Refusal};

/// Reads an answer to call `id`. `None` if the frame isn't an answer, or answers another call. If
/// the payload's checksum failed (`intact` is false), the caller sends the call again.
#[inline]
pub fn read(head: &Head, payload: &[u8], intact: bool, id: CallId) -> Option<Answer> {
    if head.id != id && !planted(Planted::AnyAnswerIsMine) {
        return None;
    }
    if !intact {
        // The callee answers a repeated call from its cache.
        return (!head.kind.is_request()).then_some(Answer::SendAgain);
    }
    match head.kind {
        Kind::Value | Kind::Fault | Kind::Outcomes => Some(Answer::Executed),
        Kind::Refused => Some(refused(head, payload)),
        Kind::Doubtful => Some(Answer::Doubtful(Doubt::from_code(head.status).unwrap_or(Doubt::BadAnswer))),
        Kind::SendAgain => Some(Answer::SendAgain),
        Kind::Pending => Some(Answer::Pending),
        Kind::Hello | Kind::Welcome | Kind::Call | Kind::Revoke => None,
    }
}

#[cold]
fn refused(head: &Head, payload: &[u8]) -> Answer {
    Refusal::decode(head.status, payload).map_or(Answer::Doubtful(Doubt::BadAnswer), Answer::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: CallId = CallId { session: crate::proto::ids::SessionId([1; 16]), handle: 2, transaction: 3 };

    #[test]
    fn only_answers_to_the_call_count() {
        let value = Head::new(Kind::Value, MINE);
        assert_eq!(read(&value, b"", true, MINE), Some(Answer::Executed));
        assert_eq!(read(&value, b"", true, CallId { transaction: 4, ..MINE }), None);
        assert_eq!(read(&value, b"", true, CallId { handle: 4, ..MINE }), None);
        assert_eq!(read(&Head::new(Kind::Call, MINE), b"", true, MINE), None);
    }

    #[test]
    fn a_damaged_answer_is_asked_for_again_and_a_senseless_one_leaves_doubt() {
        assert_eq!(read(&Head::new(Kind::Value, MINE), b"", false, MINE), Some(Answer::SendAgain));
        let senseless = Head { status: 9999, ..Head::new(Kind::Refused, MINE) };
        assert_eq!(read(&senseless, b"", true, MINE), Some(Answer::Doubtful(Doubt::BadAnswer)));
    }
}
