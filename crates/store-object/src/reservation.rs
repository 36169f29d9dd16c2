//! Reserves the name of a new object: an empty object has the name until the new one replaces it.
//!
//! A conditional request creates the empty object. So exactly one of several creators of a name succeeds,
//! even at a service that accepts no condition for the completion of an upload.

use crate::Bucket;
use crate::errors::{Sent, change, typed};
use crate::http::Condition;
use bytes::Bytes;
use hyper::header::{HeaderValue, IF_MATCH};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt, PutMode, PutOptions, UpdateVersion};
use std::sync::Arc;
use strait_store::{ErrorKind, Result, fail};

/// The empty object that reserves a name.
#[derive(Clone)]
pub struct Reservation {
    bucket: Arc<dyn Bucket>,
    key: Path,
    version: UpdateVersion,
}

impl Reservation {
    /// Reserves the name, if no object has it.
    ///
    /// # Errors
    /// AlreadyExists if an object has the name; OutcomeUnknown if an answer got lost.
    pub async fn take(bucket: Arc<dyn Bucket>, key: Path) -> Result<Self> {
        let put = bucket.put_opts(&key, Bytes::new().into(), PutOptions::from(PutMode::Create));
        let put = change(None, put).await?;
        let version = UpdateVersion { e_tag: put.e_tag, version: put.version };
        Ok(Self { bucket, key, version })
    }

    /// The mode of a request that replaces exactly this object.
    pub fn mode(&self) -> PutMode {
        PutMode::Update(self.version.clone())
    }

    /// The condition for the completion of an upload, if the service accepts one.
    pub fn condition(&self) -> Option<Condition> {
        let e_tag = self.version.e_tag.as_deref().filter(|_| self.bucket.takes_conditional_uploads())?;
        Some((IF_MATCH, HeaderValue::from_str(e_tag).ok()?))
    }

    /// Checks that the name still belongs to this empty object. In a bucket without versions, another empty
    /// object passes, too.
    ///
    /// # Errors
    /// NotFound if it doesn't; the service's.
    pub async fn check(&self) -> Result<()> {
        let there = self.bucket.head(&self.key).await.map_err(|error| typed(error, Sent::Repeatable));
        let is_ours = match there {
            Ok(there) => self.is_this(&there),
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        match is_ours {
            true => Ok(()),
            false => fail(ErrorKind::NotFound, "the file was replaced or removed while it was written"),
        }
    }

    /// Removes the empty object, if the name still belongs to it. If that fails, the empty object remains.
    pub async fn release(&self) {
        let there = self.bucket.head(&self.key).await;
        if there.is_ok_and(|there| there.size == 0 && self.is_this(&there)) {
            let _ = self.bucket.delete(&self.key).await;
        }
    }

    /// All empty objects have the same entity tag. In a bucket that keeps versions, their versions differ.
    fn is_this(&self, there: &ObjectMeta) -> bool {
        let Self { version, .. } = self;
        let differ = matches!((&there.version, &version.version), (Some(there), Some(ours)) if there != ours);
        there.e_tag == version.e_tag && !differ
    }
}
