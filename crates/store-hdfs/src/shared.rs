//! The state that all operations share: the connections to the cluster.

use super::clients::Clients;
use super::config::{ChecksumMode, HadoopConfig};
use super::datanode::Datanodes;
use super::errors::{Effect, from_library, is_about_the_namenode};
use super::namenode::Namenode;
use super::recovery::Recoveries;
use super::retry::with_patience;
use super::rpc::CONNECT_TIMEOUT;
use super::write::{Holders, Settings};
use hdfs_native::{Client, HdfsError};
use std::sync::Arc;
use strait_store::Principal;
use strait_store::{ErrorKind, Result, fail};
use tokio::time::timeout;

/// One connected HDFS.
#[derive(Debug)]
pub(super) struct Shared {
    pub clients: Arc<Clients>,
    pub namenode: Arc<Namenode>,
    pub datanodes: Arc<Datanodes>,
    pub recoveries: Arc<Recoveries>,
    pub checksum_mode: ChecksumMode,
    /// The lease holders of all users, for writers.
    pub holders: Holders,
    /// Settings of writers. None if the adapter's own calls can't be made.
    pub write_settings: Option<Arc<Settings>>,
    /// The reason why the adapter's own calls can't be made, if they can't.
    pub secured: Option<&'static str>,
}

impl Shared {
    /// Connects; see [`super::HdfsStore::connect_by`].
    pub async fn connect(uri: &str, config: HadoopConfig) -> Result<Self> {
        let authority = authority_of(uri, &config)?;
        let checksum_mode = config.checksum_mode()?;
        let namenodes = config.namenodes(&authority)?;
        let clients = Arc::new(Clients::new(&authority, &namenodes, &config));
        let namenode = Arc::new(Namenode::new(namenodes));
        let (secured, write_settings) = match config.secured() {
            Some(reason) => {
                if config.demands_kerberos() {
                    refuse_simple(&namenode, clients.own_user()).await?;
                }
                let own = clients.get(&Principal::new(clients.own_user()))?;
                check_by_library(&own, &namenode.names()).await?;
                (Some(reason), None)
            }
            None => {
                let defaults = namenode.server_defaults(clients.own_user()).await?;
                clients.prefer(namenode.active());
                let settings = Settings::new(&config, &defaults)?;
                let encrypted = defaults.encrypt_data_transfer;
                let reason = encrypted.then_some("not supported with encrypted data transfer");
                (reason, (!encrypted).then(|| Arc::new(settings)))
            }
        };
        match secured {
            None => tracing::debug!(uri, "files are read and written by the adapter"),
            Some(reason) => tracing::debug!(uri, reason, "files are read and written by the library"),
        }
        let datanodes = Arc::new(Datanodes::new(config.use_datanode_hostname()));
        let (recoveries, holders) = (Arc::default(), Holders::default());
        Ok(Self { clients, namenode, datanodes, recoveries, checksum_mode, holders, write_settings, secured })
    }

    /// Makes one call of the library to the namenode, by [`with_patience`].
    pub async fn call<T, F>(
        &self,
        who: &Principal,
        effect: Effect,
        attempt: impl Fn(Client) -> F,
    ) -> Result<T>
    where
        F: Future<Output = std::result::Result<T, HdfsError>>,
    {
        let client = self.clients.get(who)?;
        let outcome = with_patience(&self.namenode.names(), effect, || attempt(client.clone())).await;
        if outcome.as_ref().is_err_and(|error| is_about_the_namenode(error.kind())) {
            self.look_for_active();
        }
        outcome
    }

    /// Finds the active namenode in the background, so that further calls begin with it.
    fn look_for_active(&self) {
        if self.secured.is_none() && self.namenode.is_one_of_many() {
            let (namenode, clients) = (Arc::clone(&self.namenode), Arc::clone(&self.clients));
            tokio::spawn(async move {
                match namenode.find_active(clients.own_user()).await {
                    Ok(()) => clients.prefer(namenode.active()),
                    Err(error) => tracing::warn!(%error, "no active namenode"),
                }
            });
        }
    }

    /// Unsupported if the adapter's own calls can't be made.
    pub fn require_own_calls(&self) -> Result<()> {
        match self.secured {
            None => Ok(()),
            Some(reason) => fail(ErrorKind::Unsupported, reason),
        }
    }
}

/// The part of `hdfs://AUTHORITY/` that names the namenode. If there is none, the configuration names it.
fn authority_of(uri: &str, config: &HadoopConfig) -> Result<String> {
    let wrong = |why| fail(ErrorKind::InvalidArgument, why);
    let Some(rest) = uri.strip_prefix("hdfs://") else { return wrong("an HDFS URI begins with hdfs://") };
    match rest.strip_suffix('/').unwrap_or(rest) {
        "" => config.default_authority(),
        authority if authority.contains(['/', '?', '#']) => {
            wrong("a store is a whole HDFS: the URI must end after host and port")
        }
        authority if authority.contains('@') => {
            wrong("a URI names no user; give the user with --user, or as STRAIT_USER")
        }
        authority => Ok(authority.to_owned()),
    }
}

/// Returns an error if the namenode accepts a user without Kerberos: then the library wouldn't use it either,
/// and would have no protection.
async fn refuse_simple(namenode: &Namenode, user: &str) -> Result<()> {
    match timeout(CONNECT_TIMEOUT, namenode.server_defaults(user)).await {
        Ok(Ok(_)) => fail(
            ErrorKind::Unauthenticated,
            format!(
                "the configuration demands Kerberos (hadoop.security.authentication), and {} asks for none: check the \
                 address; ipc.client.fallback-to-simple-auth-allowed=true in core-site.xml allows this",
                namenode.names()
            ),
        ),
        // The namenode demands Kerberos, or isn't there. The library's call will show that.
        _ => Ok(()),
    }
}

/// Makes one call by the library, to check the connection. The library's own timeout is too long for a start.
async fn check_by_library(client: &Client, namenodes: &str) -> Result<()> {
    match timeout(CONNECT_TIMEOUT, client.get_file_info("/")).await {
        Ok(answer) => answer.map(drop).map_err(|error| from_library(error, Effect::Read)),
        Err(_) => fail(ErrorKind::Unavailable, format!("no namenode answers at {namenodes}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{GetServerDefaultsResponse, ServerDefaults};
    use super::super::write::fake::{self, Answer};
    use super::*;

    #[tokio::test]
    async fn a_namenode_without_kerberos_is_refused_if_the_configuration_demands_it() {
        let defaults = ServerDefaults { bytes_per_checksum: 512, ..ServerDefaults::default() };
        let answer = GetServerDefaultsResponse { defaults };
        let address = fake::namenode(move |_, _| Answer::of(&answer)).await;
        let mut config = HadoopConfig::default();
        config.set("hadoop.security.authentication", "kerberos");
        let refused = Shared::connect(&format!("hdfs://{address}"), config).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unauthenticated, "{refused}");
        assert!(refused.message().contains(&address) && refused.message().contains("fallback"), "{refused}");
    }
}
