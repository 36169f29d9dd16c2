//! The MOUNT protocol, by which clients get their first handle.

use crate::Export;
use crate::fault::{Answer, Fault};
use crate::wire::{M3Export, M3Exports, M3MntResult, M3Mounts, M3Path, M3Root, MountV3Service, N3Status};
use strait_flexrpc::stub::{Request, ServiceError};
use strait_store::{Principal, StorePath, encoding};

/// AUTH_SYS (RFC 5531, section 8.1).
const AUTH_SYS: i32 = 1;

impl Export {
    /// The handle of a directory. Clients name it relative to the exported directory, which is `/` for them.
    async fn mounted(&self, who: &Principal, wanted: &[u8]) -> Answer<Vec<u8>> {
        let below = StorePath::parse(&format!("/{}", encoding::encode(wanted)))?;
        let root = self.handles.root();
        let path = match root.is_root() {
            true => below,
            false if below.is_root() => root.clone(),
            false => StorePath::parse(&format!("{root}{below}"))?,
        };
        if !self.status(who, &path).await?.is_directory() {
            return Err(Fault(N3Status::Notdir));
        }
        self.handles.of(&path)
    }
}

impl MountV3Service for Export {
    fn m3_mnt(&self, call: &Request, path: M3Path<'static>) -> Result<M3MntResult<'_>, ServiceError> {
        let mounted = self.answer(call, async |who| self.mounted(who, path.as_bytes()).await);
        Ok(match mounted {
            Ok(handle) => M3MntResult::Ok(M3Root { handle: handle.into(), flavours: vec![AUTH_SYS] }),
            Err(fault) => M3MntResult::Default(fault.of_mount()),
        })
    }

    /// Always empty: the server doesn't record which clients have mounted it.
    fn m3_dump(&self, _: &Request) -> Result<M3Mounts<'_>, ServiceError> {
        Ok(M3Mounts::new())
    }

    fn m3_umnt(&self, _: &Request, _: M3Path<'static>) -> Result<(), ServiceError> {
        Ok(())
    }

    fn m3_umntall(&self, _: &Request) -> Result<(), ServiceError> {
        Ok(())
    }

    fn m3_export(&self, _: &Request) -> Result<M3Exports<'_>, ServiceError> {
        Ok(vec![M3Export { path: "/".into(), groups: Vec::new() }])
    }
}
