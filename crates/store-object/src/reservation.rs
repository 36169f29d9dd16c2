//! A name that an empty object keeps for a new one, until that takes its place.
//!
//! The empty object is made by a conditional request. So of several creators of a name one succeeds, on
//! every service, whatever conditions it accepts later.

use crate::Bucket;
use crate::errors::{Sent, change, typed};
use crate::http::Condition;
use bytes::Bytes;
use hyper::header::{HeaderValue, IF_MATCH};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt, PutMode, PutOptions, UpdateVersion};
use std::sync::Arc;
use strait_store::{ErrorKind, Result, fail};

/// The empty object.
#[derive(Clone)]
pub struct Reservation {
    bucket: Arc<dyn Bucket>,
    key: Path,
    version: UpdateVersion,
}

impl Reservation {
    /// Reserves the name, if nothing has it.
    ///
    /// # Errors
    /// AlreadyExists; OutcomeUnknown if an answer got lost.
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

    /// The condition of an upload's completion, where the service takes one.
    pub fn condition(&self) -> Option<Condition> {
        let e_tag = self.version.e_tag.as_deref().filter(|_| self.bucket.takes_conditional_uploads())?;
        Some((IF_MATCH, HeaderValue::from_str(e_tag).ok()?))
    }

    /// Whether the name still has this object.
    ///
    /// # Errors
    /// NotFound if it hasn't.
    pub async fn check(&self) -> Result<()> {
        let there = self.bucket.head(&self.key).await.map_err(|error| typed(error, Sent::Repeatable));
        let is_ours = match there {
            Ok(there) => self.is_this(&there),
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        match is_ours {
            true => Ok(()),
            false => fail(ErrorKind::NotFound, "the file was replaced or removed meanwhile"),
        }
    }

    /// Gives the name up. Errors leave the empty object.
    pub async fn release(&self) {
        let there = self.bucket.head(&self.key).await;
        if there.is_ok_and(|there| there.size == 0 && self.is_this(&there)) {
            let _ = self.bucket.delete(&self.key).await;
        }
    }

    /// Empty objects have one entity tag; versions differ.
    fn is_this(&self, there: &ObjectMeta) -> bool {
        let Self { version, .. } = self;
        let differ = matches!((&there.version, &version.version), (Some(there), Some(ours)) if there != ours);
        there.e_tag == version.e_tag && !differ
    }
}
