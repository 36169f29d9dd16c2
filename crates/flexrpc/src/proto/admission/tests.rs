use super::*;

const A: SessionId = SessionId([1; 16]);
const B: SessionId = SessionId([2; 16]);

fn id(session: SessionId, handle: u32, transaction: u64) -> CallId {
    CallId { session, handle, transaction }
}

fn admission(limits: AdmissionLimits) -> Admission {
    let admission = Admission::new(limits);
    admission.open_session(A, 0).unwrap();
    admission.open_session(B, 0).unwrap();
    admission
}

fn answer(len: usize) -> Bytes {
    Bytes::from(vec![7; len])
}

#[test]
fn a_duplicate_gets_the_kept_answer() {
    let admission = admission(AdmissionLimits::default());
    let call = id(A, 1, 10);
    assert_eq!(admission.begin(call, 1), Verdict::Execute);
    assert_eq!(admission.begin(call, 2), Verdict::Running);
    admission.complete(call, answer(3), 3);
    assert_eq!(admission.begin(call, 4), Verdict::Answered(answer(3)));
    assert_eq!(admission.begin(id(B, 1, 10), 5), Verdict::Execute, "another session's call");
    assert_eq!(admission.begin(id(A, 2, 10), 5), Verdict::Execute, "another handle's call");
}

#[test]
fn a_new_transaction_retires_the_old_one() {
    let admission = admission(AdmissionLimits::default());
    assert_eq!(admission.begin(id(A, 1, 10), 1), Verdict::Execute);
    admission.complete(id(A, 1, 10), answer(100), 2);
    assert_eq!(admission.usage().2, 100);
    assert_eq!(admission.begin(id(A, 1, 11), 3), Verdict::Execute);
    assert_eq!(admission.usage().2, 0, "the old result is gone");
    assert_eq!(admission.begin(id(A, 1, 10), 4), Verdict::Refused(Refusal::Superseded));
    admission.complete(id(A, 1, 10), answer(100), 5);
    assert_eq!(admission.begin(id(A, 1, 11), 6), Verdict::Running, "a late end changes nothing");
}

#[test]
fn an_unknown_session_is_refused() {
    let admission = admission(AdmissionLimits::default());
    let refused = Verdict::Refused(Refusal::UnknownSession);
    assert_eq!(admission.begin(id(SessionId([3; 16]), 1, 1), 1), refused);
    assert_eq!(admission.begin(id(SessionId::NONE, 1, 1), 1), refused);
}

#[test]
fn an_evicted_answer_is_an_explicit_error() {
    let limits = AdmissionLimits { result_bytes: 1000, ..AdmissionLimits::default() };
    let admission = admission(limits);
    for handle in 0..20 {
        assert_eq!(admission.begin(id(A, handle, 1), u64::from(handle)), Verdict::Execute);
        admission.complete(id(A, handle, 1), answer(100), u64::from(handle));
        assert!(admission.usage().2 <= 1000);
    }
    let gone = Verdict::Doubtful(Doubt::AnswerEvicted);
    assert_eq!(admission.begin(id(A, 0, 1), 50), gone, "the oldest went first");
    assert_eq!(admission.begin(id(A, 19, 1), 50), Verdict::Answered(answer(100)));
    admission.complete(id(A, 19, 1), answer(5000), 60);
    assert_eq!(admission.begin(id(A, 19, 1), 61), gone, "larger than all the room");
}

#[test]
fn results_and_sessions_end_when_their_time_is_over() {
    let limits = AdmissionLimits { result_us: 100, session_idle_us: 1000, ..AdmissionLimits::default() };
    let admission = admission(limits);
    admission.begin(id(A, 1, 1), 0);
    admission.complete(id(A, 1, 1), answer(10), 0);
    admission.begin(id(B, 1, 1), 0);
    admission.sweep(100);
    assert_eq!(admission.begin(id(A, 1, 1), 100), Verdict::Answered(answer(10)));
    admission.sweep(101);
    assert_eq!(admission.begin(id(A, 1, 1), 101), Verdict::Doubtful(Doubt::AnswerEvicted));
    admission.sweep(1200);
    assert_eq!(admission.begin(id(A, 1, 1), 1200), Verdict::Refused(Refusal::UnknownSession));
    assert_eq!(admission.begin(id(B, 1, 1), 1200), Verdict::Running, "a running call keeps its session");
    assert_eq!(admission.usage(), (1, 1, 0));
}

#[test]
fn handshakes_without_calls_are_soon_forgotten() {
    let admission = admission(AdmissionLimits::default());
    admission.begin(id(A, 1, 1), 0);
    admission.complete(id(A, 1, 1), answer(1), 0);
    admission.sweep(limits::SESSION_UNUSED_MS * 1000 + 1);
    assert_eq!(admission.usage().0, 1, "only the session with a call is left");
}

#[test]
fn a_revoked_call_never_begins() {
    let admission = admission(AdmissionLimits::default());
    let revoked = Verdict::Refused(Refusal::Revoked);
    assert_eq!(admission.revoke(id(A, 1, 5), 1), revoked);
    assert_eq!(admission.begin(id(A, 1, 5), 2), revoked);
    assert_eq!(admission.begin(id(A, 1, 6), 3), Verdict::Execute);
    assert_eq!(admission.revoke(id(A, 1, 6), 4), Verdict::Running, "too late to revoke");
    assert_eq!(admission.revoke(id(A, 1, 7), 4), revoked);
    assert_eq!(admission.begin(id(A, 1, 7), 5), revoked);
    let lost = Verdict::Doubtful(Doubt::SessionLost);
    assert_eq!(admission.revoke(id(SessionId([9; 16]), 1, 7), 6), lost);
}

#[test]
fn what_is_remembered_is_bounded() {
    let limits = AdmissionLimits { sessions: 3, handles: 2, ..AdmissionLimits::default() };
    let admission = admission(limits);
    for id in 3..20 {
        admission.open_session(SessionId([id; 16]), 0).unwrap();
        assert_eq!(admission.usage().0, 3);
    }
    assert_eq!(admission.begin(id(A, 0, 1), 0), Verdict::Refused(Refusal::UnknownSession));
    admission.open_session(A, 0).unwrap();
    assert_eq!(admission.begin(id(A, 0, 1), 0), Verdict::Execute);
    admission.open_session(SessionId([3; 16]), 0).unwrap();
    admission.open_session(SessionId([4; 16]), 0).unwrap();
    assert!(admission.knows(A), "one with a call stays");
    assert_eq!(admission.begin(id(A, 1, 1), 0), Verdict::Execute);
    assert_eq!(admission.begin(id(A, 2, 1), 0), Verdict::NoRoom);
    assert_eq!(admission.begin(id(A, 1, 2), 0), Verdict::Execute, "a known handle needs no room");
    let forged = id(A, limits::HANDLES_PER_SESSION, 1);
    assert_eq!(admission.begin(forged, 0), Verdict::Refused(Refusal::Malformed));
}

#[test]
fn copies_that_come_at_the_same_time_are_executed_once() {
    const COPIES: usize = 4;
    const TRANSACTIONS: u64 = 2_000;
    let admission = admission(AdmissionLimits { result_bytes: 10_000, result_us: 1, ..Default::default() });
    let executed: Vec<AtomicUsize> = (0..2 * TRANSACTIONS).map(|_| AtomicUsize::new(0)).collect();
    let serve = || {
        for transaction in 0..TRANSACTIONS {
            for (session, at) in [(A, 2 * transaction), (B, 2 * transaction + 1)] {
                let call = id(session, (transaction % 3) as u32, transaction);
                if admission.begin(call, transaction) == Verdict::Execute {
                    executed[at as usize].fetch_add(1, Ordering::Relaxed);
                    admission.complete(call, answer(100), transaction);
                }
            }
            if transaction % 64 == 0 {
                admission.sweep(transaction);
            }
        }
    };
    std::thread::scope(|scope| (0..COPIES).for_each(|_| drop(scope.spawn(serve))));
    // A call isn't executed at all if a later one on its handle arrives first.
    assert!(executed.iter().all(|times| times.load(Ordering::Relaxed) <= 1));
    let last = &executed[executed.len() - 2..];
    assert!(last.iter().all(|times| times.load(Ordering::Relaxed) == 1));
    assert_eq!((admission.usage().0, admission.usage().1), (2, 6));
}

#[test]
fn a_forgotten_session_is_refused_on_handles_that_it_had_too() {
    let limits = AdmissionLimits { session_idle_us: 1000, ..AdmissionLimits::default() };
    let admission = admission(limits);
    let refused = Verdict::Refused(Refusal::UnknownSession);
    assert_eq!(admission.begin(id(A, 1, 1), 0), Verdict::Execute);
    admission.complete(id(A, 1, 1), answer(10), 0);
    admission.sweep(2000);
    assert_eq!(admission.begin(id(A, 1, 2), 2000), refused);
    assert_eq!(admission.begin(id(A, 2, 1), 2000), refused);
    assert!(!admission.is_new(id(A, 1, 2)));
    assert_eq!(admission.usage(), (0, 0, 0));
}

/// Anybody can open sessions without a key, and make calls in them.
#[test]
fn callers_without_a_key_keep_no_others_out() {
    let limits = AdmissionLimits { sessions: 3, ..AdmissionLimits::default() };
    let admission = admission(limits);
    let of = |session, transaction| id(session, 0, transaction);
    for session in [A, B] {
        assert_eq!(admission.begin(of(session, 1), 0), Verdict::Execute);
    }
    for number in 0..100 {
        let stranger = SessionId([100 + number; 16]);
        admission.open_bound_session(stranger, Some(Arc::new(Bond::Keyless)), 0).unwrap();
        assert_eq!(admission.begin(of(stranger, 1), 0), Verdict::Execute);
    }
    admission.open_session(SessionId([99; 16]), 0).unwrap();
    let (sessions, handles, _) = admission.usage();
    assert_eq!((sessions, handles), (3, 102));
    for number in 0..100 {
        let stranger = SessionId([100 + number; 16]);
        assert_eq!(admission.begin(of(stranger, 2), 0), Verdict::Refused(Refusal::UnknownSession));
        admission.complete(of(stranger, 1), answer(1), 0);
    }
    admission.sweep(1);
    assert_eq!(admission.usage().1, 2, "theirs are gone");
    assert_eq!(admission.begin(of(A, 2), 0), Verdict::Execute, "and none of the others'");
}
