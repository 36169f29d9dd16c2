//! Audit records of operations on paths. Operations that HDFS also has are named as in HDFS's audit log.

use super::Shared;
use strait_flexrpc::Request;
use strait_kadoop_core::{
    error::{Error, Result},
    messages::{Caller, Mutation},
};
use strait_telemetry::Record;

/// An operation and its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked<'a> {
    pub operation: &'static str,
    pub path: &'a str,
    pub target: Option<&'a str>,
}

impl<'a> Asked<'a> {
    pub(super) fn new(operation: &'static str, path: &'a str) -> Self {
        Self { operation, path, target: None }
    }

    /// The record's operation and paths. None for mutations of a file that is open for writing: its
    /// opening was recorded.
    pub(super) fn of(mutation: &'a Mutation) -> Option<Self> {
        Some(match mutation {
            Mutation::Mkdirs { path, .. } => Self::new("mkdirs", path),
            Mutation::Create { path, .. } => Self::new("create", path),
            Mutation::Append { path } => Self::new("append", path),
            Mutation::Rename { from, to, .. } => Self { operation: "rename", path: from, target: Some(to) },
            Mutation::Delete { path, .. } => Self::new("delete", path),
            Mutation::Truncate { path, .. } => Self::new("truncate", path),
            Mutation::Concat { target, sources } => Self {
                operation: "concat",
                path: sources.first().map_or("", String::as_str),
                target: Some(target),
            },
            Mutation::SetAttributes { path, .. } => Self::new("setAttributes", path),
            Mutation::RecoverLease { path } => Self::new("recoverLease", path),
            Mutation::AddChunk { .. } | Mutation::EndChunk { .. } | Mutation::Complete { .. } => return None,
        })
    }
}

impl Shared {
    /// Writes the operation to the audit log, and returns `answer` unchanged.
    pub(super) fn audited<T>(
        &self,
        call: &Request,
        caller: &Caller,
        asked: Asked<'_>,
        answer: Result<T>,
    ) -> Result<T> {
        self.record(call, caller, asked, answer.as_ref().err());
        answer
    }

    /// Writes an operation to the audit log, with its error if it failed.
    pub(super) fn record(&self, call: &Request, caller: &Caller, asked: Asked<'_>, error: Option<&Error>) {
        if let Some(log) = &self.audit {
            let why = error.map(Error::to_string);
            log.note(&Record {
                user: &caller.user,
                from: call.peer.ip(),
                protocol: "rpc",
                operation: asked.operation,
                path: asked.path,
                target: asked.target,
                allowed: error != Some(&Error::PermissionDenied),
                error: why.as_deref(),
            });
        }
    }
}
