//! The logins for the helpers of `run`. Each gateway where this command has a login issues one. It ends with
//! the command, or within 15 minutes after the command was killed.

use super::secret::secret;
use crate::failure::Failure;
use crate::messages::Messages;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use strait_client::{Secret, StraitStore, TlsOptions};
use strait_dispatch::frame::Lent;
use tokio::time::timeout;

/// Lifetime of a lent login that isn't renewed. It limits the use of a stolen one.
pub const LENT_FOR: Duration = Duration::from_secs(15 * 60);
/// Time limit for revoking all lent logins. A login that couldn't be revoked expires.
const PATIENCE: Duration = Duration::from_secs(5);

/// The lent logins of one command.
#[derive(Default)]
pub struct Issued {
    loans: Vec<Loan>,
}

struct Loan {
    store: String,
    from: Arc<StraitStore>,
    token: Secret,
    /// The certificates to trust, if TLS is to be used; see [`secret`].
    tls: Option<Option<String>>,
}

impl Issued {
    /// Gets a short-lived login from each of these gateways, where the command has a login. They come with
    /// their store's URI. `tls` has the command's own settings; `None` without TLS.
    pub async fn begin(
        &mut self,
        gateways: Vec<(String, Arc<StraitStore>)>,
        tls: Option<&TlsOptions>,
    ) -> Result<(), Failure> {
        for (store, from) in gateways {
            let token = from.lend(LENT_FOR, None).await?.token;
            self.loans.push(Loan { store, from, token, tls: trust(tls)? });
        }
        Ok(())
    }

    /// The logins as helpers receive them.
    pub fn logins(&self) -> Vec<Lent> {
        let lent =
            |loan: &Loan| Lent { store: loan.store.clone(), secret: secret(&loan.token, loan.tls.clone()) };
        self.loans.iter().map(lent).collect()
    }

    /// Extends the lifetime of all lent logins. Returns whether there are any. If an extension fails, the
    /// next call tries again.
    pub async fn renew(&mut self, messages: Messages) -> bool {
        for loan in &mut self.loans {
            match loan.from.lend(LENT_FOR, Some(&loan.token)).await {
                Ok(lent) => loan.token = lent.token,
                Err(error) => messages.warn(&format!("can't extend the lent login, will retry: {error}")),
            }
        }
        !self.loans.is_empty()
    }

    /// Revokes all logins.
    pub async fn end(&mut self, messages: Messages) {
        let take_back = async {
            for loan in self.loans.drain(..) {
                if let Err(error) = loan.from.take_back(&loan.token).await {
                    let minutes = LENT_FOR.as_secs() / 60;
                    messages.warn(&format!(
                        "a lent login couldn't be revoked, and expires within {minutes} minutes: {error}"
                    ));
                }
            }
        };
        // A login that isn't revoked expires.
        let _ = timeout(PATIENCE, take_back).await;
    }
}

/// The TLS settings for helpers; `None` without TLS. They contain the authorities' certificates themselves,
/// since a helper's host may lack the file.
fn trust(tls: Option<&TlsOptions>) -> Result<Option<Option<String>>, Failure> {
    let Some(TlsOptions { ca, .. }) = tls else { return Ok(None) };
    let read =
        |path: &PathBuf| std::fs::read_to_string(path).map_err(|error| Failure::local(error, "read", path));
    Ok(Some(ca.as_ref().map(read).transpose()?))
}
