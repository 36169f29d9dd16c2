//! TLS options of C programs: names of PEM files.

use crate::text;
use nix::libc::c_char;
use std::path::Path;
use strait_flexrpc::{ClientTls, Identity, ServerTls, Trust};

/// See flexrpc.h.
#[repr(C)]
pub struct frpc_tls {
    authorities: *const c_char,
    pinned: *const c_char,
    certificate: *const c_char,
    key: *const c_char,
    name: *const c_char,
}

impl frpc_tls {
    /// # Safety
    /// The strings are null or end with zero bytes.
    pub unsafe fn of_caller(&self) -> Result<ClientTls, String> {
        // SAFETY: the caller's promise.
        let (authorities, pinned, name) =
            unsafe { (optional(self.authorities)?, optional(self.pinned)?, optional(self.name)?) };
        let trust = match (authorities, pinned) {
            (Some(file), None) => Trust::Authorities(file.into()),
            (None, Some(file)) => Trust::Pinned(file.into()),
            _ => return Err("a caller must set either authorities or pinned certificates".to_owned()),
        };
        // SAFETY: the caller's promise.
        let identity = unsafe { self.identity() }?;
        let tls = ClientTls::load(&trust, identity.as_ref()).map_err(|error| error.to_string())?;
        match name {
            None => Ok(tls),
            Some(name) => tls.expecting(name).ok_or_else(|| format!("'{name}' isn't a DNS name or address")),
        }
    }

    /// # Safety
    /// The strings are null or end with zero bytes.
    pub unsafe fn of_callee(&self) -> Result<ServerTls, String> {
        // SAFETY: the caller's promise.
        let identity = unsafe { self.identity() }?.ok_or("a callee must set its certificate and key")?;
        // SAFETY: the caller's promise.
        let callers = unsafe { optional(self.authorities) }?.map(Path::new);
        ServerTls::load(&identity, callers).map_err(|error| error.to_string())
    }

    /// # Safety
    /// The strings are null or end with zero bytes.
    unsafe fn identity(&self) -> Result<Option<Identity>, String> {
        // SAFETY: the caller's promise.
        match unsafe { (optional(self.certificate)?, optional(self.key)?) } {
            (Some(certificate), Some(key)) => {
                Ok(Some(Identity { certificate: certificate.into(), key: key.into() }))
            }
            (None, None) => Ok(None),
            _ => Err("frpc_tls has only one of certificate and key: set both or none".to_owned()),
        }
    }
}

/// # Safety
/// The string is null or ends with a zero byte.
unsafe fn optional<'c>(file: *const c_char) -> Result<Option<&'c str>, String> {
    if file.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { text(file, "file's name") }.map(Some)
}
