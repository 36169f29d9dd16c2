//! A service whose calls are counted.

use std::{sync::Arc, time::Instant};
use strait_flexrpc::{Reply, Request, Service, stub::ServiceError};
use strait_telemetry::Calls;

/// Counts what `service` answers, and writes down what takes it long.
pub(super) struct Observed<S> {
    pub service: S,
    pub calls: Arc<Calls>,
    /// The operation's place among the names of `calls`.
    pub operation: fn(&Request) -> usize,
    /// What a slow call was about, without keys, tokens or contents. Reads its arguments once
    /// more, which others are spared.
    pub about: fn(&Request) -> String,
    /// Whether an answer is a refusal all the same.
    pub refused: fn(&Request, &Reply) -> bool,
}

impl<S: Service> Service for Observed<S> {
    fn call(&self, request: &Request, reply: &mut Reply) -> Result<(), ServiceError> {
        let began = Instant::now();
        let answer = self.service.call(request, reply);
        let (operation, took) = ((self.operation)(request), began.elapsed());
        let failed = answer.is_err() || (self.refused)(request, reply);
        self.calls.note(operation, took, failed, request.peer, || (self.about)(request));
        answer
    }
}
