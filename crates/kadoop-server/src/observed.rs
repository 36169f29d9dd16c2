//! A service that counts its calls.

use std::{sync::Arc, time::Instant};
use strait_flexrpc::{Reply, Request, Service, stub::ServiceError};
use strait_telemetry::Calls;

/// Index of operations that aren't counted, since they wait on purpose.
pub(super) const UNCOUNTED: usize = usize::MAX - 1;

/// Counts the calls of `service`, and logs slow ones.
pub(super) struct Observed<S> {
    pub service: S,
    pub calls: Arc<Calls>,
    /// The operation's index among the names of `calls`.
    pub operation: fn(&Request) -> usize,
    /// Subject of a slow call for the log, without keys, tokens or contents. Decodes the arguments
    /// a second time, so it is called only for slow calls.
    pub about: fn(&Request) -> String,
    /// Whether a successful answer contains a refusal.
    pub refused: fn(&Request, &Reply) -> bool,
}

impl<S: Service> Service for Observed<S> {
    fn call(&self, request: &Request, reply: &mut Reply) -> Result<(), ServiceError> {
        let operation = (self.operation)(request);
        if operation == UNCOUNTED {
            return self.service.call(request, reply);
        }
        let began = Instant::now();
        let answer = self.service.call(request, reply);
        let took = began.elapsed();
        let failed = answer.is_err() || (self.refused)(request, reply);
        self.calls.note(operation, took, failed, request.peer, || (self.about)(request));
        answer
    }
}
