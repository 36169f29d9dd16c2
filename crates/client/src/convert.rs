//! Conversions between the wire's values and the trait's.

use strait_store::{BlockLocation, Capabilities, Error, ErrorKind, FileStatus, FileType, Result, fail};
use strait_wire::{ApplicationError, ApplicationErrorKind, DecodeError, DfsError, FileInfo, StoreInfo};

/// Converts an error that a gateway sent. The caller's operation and path are used if it has none.
pub(super) fn error(told: DfsError, operation: &'static str, path: &str) -> Error {
    let by_code = told.code.and_then(ErrorKind::from_thrift);
    let by_name = || told.kind.as_deref().and_then(ErrorKind::from_name);
    let kind = by_code.or_else(by_name).unwrap_or(ErrorKind::Internal);
    let message = told.message.unwrap_or_default();
    // The gateway names the operation, too: don't show it twice.
    let message = match message.strip_prefix(operation).and_then(|rest| rest.strip_prefix(": ")) {
        Some(rest) => rest.to_owned(),
        None => message,
    };
    let path = told.path.filter(|path| !path.is_empty()).unwrap_or_else(|| path.to_owned());
    let retry_safe = told.retry_safe.unwrap_or(kind.row().retry_safe);
    Error::new(kind, message).with_retry_safe(retry_safe).at(operation, path)
}

/// Thrift's own exception: the peer doesn't know the method, or couldn't decode the call.
pub(super) fn application_error(told: ApplicationError) -> Error {
    match told.kind {
        ApplicationErrorKind::UnknownMethod => {
            Error::new(ErrorKind::Unsupported, "the gateway is too old for this operation")
        }
        _ => Error::new(ErrorKind::Internal, format!("the gateway rejected the call: {}", told.message)),
    }
}

/// An error for a reply that can't be decoded.
pub(super) fn undecodable(error: DecodeError) -> Error {
    Error::new(ErrorKind::Internal, format!("the gateway's answer makes no sense: {error}")).caused_by(error)
}

/// An error for a decoded reply with impossible contents.
pub(super) fn nonsense(what: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("the gateway's answer makes no sense: {what}"))
}

/// A mandatory field of a reply.
pub(super) fn present<T>(value: Option<T>, name: &'static str) -> Result<T> {
    match value {
        Some(value) => Ok(value),
        None => Err(nonsense(&format!("{name} is missing"))),
    }
}

/// A size or offset, which Thrift can only carry signed.
pub(super) fn unsigned(value: Option<i64>, name: &'static str) -> Result<u64> {
    u64::try_from(present(value, name)?).map_err(|_| nonsense(&format!("negative {name}")))
}

/// A size or offset for a request.
pub(super) fn signed(value: u64) -> Result<i64> {
    i64::try_from(value).or_else(|_| fail(ErrorKind::InvalidArgument, "an offset or size is above 2^63 - 1"))
}

pub(super) fn permission_out(permission: Option<u32>) -> Result<Option<i32>> {
    let out = permission.map(i32::try_from).transpose();
    out.or_else(|_| fail(ErrorKind::InvalidArgument, "the permission has more bits than 07777"))
}

pub(super) fn replication_out(replication: Option<u16>) -> Result<Option<i16>> {
    let out = replication.map(i16::try_from).transpose();
    out.or_else(|_| fail(ErrorKind::InvalidArgument, "a number of replicas must be at most 32,767"))
}

pub(super) fn status(info: FileInfo) -> Result<FileStatus> {
    let file_type = match present(info.file_type, "type")? {
        strait_wire::FileType::File => FileType::File,
        strait_wire::FileType::Directory => FileType::Directory,
        strait_wire::FileType::Unknown(code) => {
            return fail(ErrorKind::Internal, format!("the gateway sent the unknown file type {code}"));
        }
    };
    Ok(FileStatus {
        path: present(info.path, "path")?,
        file_type,
        length: unsigned(info.length.or(Some(0)), "length")?,
        replication: info.replication.unwrap_or(0).max(0) as u16,
        block_size: info.block_size.unwrap_or(0).max(0) as u64,
        modified_ms: info.modified_ms.unwrap_or(0),
        accessed_ms: info.accessed_ms.unwrap_or(0),
        permission: info.permission.unwrap_or(0) as u32 & 0o7777,
        owner: info.owner.unwrap_or_default(),
        group: info.group.unwrap_or_default(),
        link: info.link.unwrap_or(false),
    })
}

pub(super) fn block(block: strait_wire::BlockLocation) -> Result<BlockLocation> {
    Ok(BlockLocation {
        offset: unsigned(block.offset, "offset")?,
        length: unsigned(block.length, "length")?,
        hosts: block.hosts.unwrap_or_default(),
        addresses: block.addresses.unwrap_or_default(),
        corrupt: block.corrupt.unwrap_or(false),
    })
}

/// Capabilities of the store behind the gateway, for one session.
pub(super) fn capabilities(info: &StoreInfo) -> Capabilities {
    let names = info.capabilities.as_deref().unwrap_or_default();
    let has = |name: &str| names.iter().any(|have| have == name);
    Capabilities {
        append: has("append"),
        truncate: has("truncate"),
        concat: has("concat"),
        rename_replace: has("rename_replace"),
        atomic_rename: has("atomic_rename"),
        permissions: has("permissions"),
        ownership: has("ownership"),
        times: has("times"),
        replication: has("replication"),
        block_locations: has("block_locations"),
        checksum: has("checksum"),
        status: has("status"),
        visible_while_written: has("visible_while_written"),
        exclusive_writer: has("exclusive_writer"),
        // The store performs every caller's operations as the session's user.
        per_user: false,
        recovery_ms: info.recovery_ms.unwrap_or(0).max(0) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_capability_but_the_principal_s_comes_through() {
        let all = capabilities(&StoreInfo::default()).flags().map(|(name, _)| name.to_owned());
        let info = StoreInfo { capabilities: Some(all.to_vec()), recovery_ms: Some(7), ..Default::default() };
        let seen = capabilities(&info);
        for (name, has) in seen.flags() {
            assert_eq!(has, name != "per_user", "{name}");
        }
        assert_eq!(seen.recovery_ms, 7);
    }

    #[test]
    fn an_error_keeps_kind_message_and_path_and_names_the_operation_once() {
        let told = DfsError {
            code: Some(1),
            kind: Some("NotFound".into()),
            message: Some("stat: no such file".into()),
            path: Some("/x".into()),
            retry_safe: Some(false),
        };
        assert_eq!(error(told, "stat", "/y").to_string(), "stat /x: no such file (NotFound)");
        let newer = DfsError { code: Some(99), kind: Some("Busy".into()), ..Default::default() };
        assert_eq!(error(newer, "open", "/y").kind(), ErrorKind::Busy, "by name where the code is newer");
    }
}
