//! `namenode`: a Kadoop cluster's namenode, alone in its process.

use super::keys;
use super::serve::{raise_descriptor_limit, tell_descriptor_limit};
use crate::accounts::Users;
use crate::cli::Namenode;
use crate::context::process_user;
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::signals::{Hangups, Signals};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use strait_kadoop_core::Config;
use strait_kadoop_server::{Logins, NamenodeOptions, NamenodeServer};
use strait_kadoop_wire::Key;
use strait_kadoop_wire::tls::{Identity, ServerTls};
use strait_store::ErrorKind;
use strait_telemetry::AuditLog;

/// Default port for datanodes; the one for clients is 9091.
const DATANODES_PORT: u16 = 9092;
/// Time between two checks whether the log has failed.
const LOOK: Duration = Duration::from_secs(1);

/// Serves until a signal comes.
pub async fn namenode(flags: Namenode) -> Result<(), Failure> {
    let signals = Signals::catch()?;
    tokio::spawn(Hangups::catch()?.each(|| {
        tracing::info!("SIGHUP has no effect: a namenode rereads passwords and certificates by itself");
    }));
    let descriptors = raise_descriptor_limit();
    let key = keys::load_or_make(&flags.key)?;
    if let Some(file) = &flags.key_for_clients {
        share(&key, file)?;
    }
    let config = Config {
        superuser: flags.superuser.clone().unwrap_or_else(process_user),
        min_chunk_bytes: flags.min_block_size,
        min_replicas: flags.min_replicas.into(),
        ..Config::default()
    };
    let options = NamenodeOptions {
        listen: flags.listen,
        listen_datanodes: flags
            .listen_datanodes
            .unwrap_or_else(|| SocketAddr::new(flags.listen.ip(), DATANODES_PORT)),
        config,
        logins: logins(&flags)?,
        slow_call: flags.observability.slow_call(),
        audit: audit_log(flags.audit_log.as_deref())?,
        ..NamenodeOptions::new(&flags.data, key)
    };
    let server = start(options).await?;
    let numbers = server.numbers();
    let metrics =
        Metrics::serve(flags.observability.metrics, Arc::new(move |page| numbers.write(page))).await?;
    told(&server, &flags, metrics.as_ref()).map_err(Failure::output)?;
    tell_descriptor_limit(descriptors);
    let watch = async |server: &NamenodeServer| {
        tokio::select! {
            failure = failed(server) => failure,
            never = renewing(server, &flags) => match never {},
        }
    };
    until_signal(signals, server, watch).await
}

/// The users' logins; `None` without a password file.
fn logins(flags: &Namenode) -> Result<Option<Logins>, Failure> {
    let (Some(passwords), Some(identity)) = (&flags.passwords, identity(flags)) else { return Ok(None) };
    let tls = ServerTls::load(&identity, None).map_err(|error| Failure::other(error.to_string()))?;
    Ok(Some(Logins::new(Users::watch(passwords)?, tls)))
}

fn identity(flags: &Namenode) -> Option<Identity> {
    let (certificate, key) = flags.tls_cert.clone().zip(flags.tls_key.clone())?;
    Some(Identity { certificate, key })
}

/// Loads changed certificates. If they have an error, the old ones stay in force.
async fn renewing(server: &NamenodeServer, flags: &Namenode) -> std::convert::Infallible {
    let Some(identity) = identity(flags) else { return std::future::pending().await };
    let changed = || {
        let modified = |file: &Path| file.metadata().and_then(|file| file.modified()).ok();
        [modified(&identity.certificate), modified(&identity.key)]
    };
    let mut known = changed();
    loop {
        tokio::time::sleep(LOOK).await;
        let now = changed();
        if now == known {
            continue;
        }
        known = now;
        let renewed = ServerTls::load(&identity, None).map_err(|error| error.to_string());
        match renewed.and_then(|tls| server.set_tls(tls).map_err(|error| error.to_string())) {
            Ok(()) => tracing::info!("reread the changed certificate"),
            Err(problem) => {
                tracing::error!(problem, "rejected the changed TLS files; the old ones stay in force")
            }
        }
    }
}

/// Starts a namenode, or returns a one-line failure.
pub async fn start(options: NamenodeOptions) -> Result<NamenodeServer, Failure> {
    let data = options.directory.clone();
    let addresses = format!("{} and {}", options.listen, options.listen_datanodes);
    let started = blocking(move || {
        make_private(&options.directory)?;
        NamenodeServer::start(options)
    });
    started.await?.map_err(|error| {
        taken(&error, &data.display().to_string(), &addresses)
            .unwrap_or_else(|| Failure::local(error, "start the namenode in", &data))
    })
}

/// The failure if another process uses the directory or an address, or the directory belongs to another role,
/// such as a datanode.
pub fn taken(error: &io::Error, data: &str, addresses: &str) -> Option<Failure> {
    let (kind, operation, what, why) = match error.kind() {
        io::ErrorKind::AddrInUse => (
            ErrorKind::Busy,
            "listen on",
            addresses,
            "in use already; stop the program that uses it, or choose another address with --listen"
                .to_owned(),
        ),
        io::ErrorKind::ResourceBusy => (ErrorKind::Busy, "start in", data, error.to_string()),
        // The directory belongs to another role.
        io::ErrorKind::InvalidInput if error.raw_os_error().is_none() => {
            (ErrorKind::InvalidArgument, "start in", data, error.to_string())
        }
        _ => return None,
    };
    Some(Failure::at(kind, operation, what, why))
}

/// The audit log, if the flags ask for one.
pub fn audit_log(file: Option<&Path>) -> Result<Option<Arc<AuditLog>>, Failure> {
    let open = |file| {
        AuditLog::open(file).map(Arc::new).map_err(|error| Failure::local(error, "open --audit-log", file))
    };
    file.map(open).transpose()
}

/// Returns when the namenode's log has failed, with the failure.
pub async fn failed(server: &NamenodeServer) -> Failure {
    while !server.has_failed() {
        tokio::time::sleep(LOOK).await;
    }
    Failure::other("the namenode's log failed, so the namenode stopped; repair its disk and start it again")
}

/// Creates a directory that only its owner can enter. Otherwise other users could bypass the rights that the
/// namenode checks.
pub fn make_private(data: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data)?;
    let (owner, own) = (data.metadata()?.uid(), rustix::process::geteuid().as_raw());
    if owner != own && owner != 0 {
        let data = data.display();
        tracing::warn!(%data, owner, "the data directory belongs to another user, who can replace all files in it");
    }
    Ok(())
}

/// Runs a server until a signal comes or `failed` returns, and then stops it.
///
/// # Errors
/// The failure that `failed` returned; or a second signal came while the server stopped.
pub async fn until_signal<S: Send + 'static>(
    mut signals: Signals,
    server: S,
    failed: impl AsyncFnOnce(&S) -> Failure,
) -> Result<(), Failure> {
    let ended = tokio::select! {
        _ = signals.next() => {
            tracing::info!("stopping; a second signal stops at once");
            Ok(())
        }
        failure = failed(&server) => Err(failure),
    };
    signals.unless(blocking(move || drop(server))).await?;
    ended
}

/// Runs blocking work on a thread for blocking work, not on the async runtime's own.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Failure::other(error.to_string()))
}

fn share(key: &Key, file: &Path) -> Result<(), Failure> {
    match key.for_clients().save(file) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Failure::local(error, "write the clients' key", file))
        }
        _ => Ok(()),
    }
}

fn told(server: &NamenodeServer, flags: &Namenode, metrics: Option<&Metrics>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "strait {} is the namenode on {}", env!("CARGO_PKG_VERSION"), server.address())?;
    writeln!(out, "  datanodes  join on {}", server.datanodes_address())?;
    writeln!(out, "  data       {}", flags.data.display())?;
    writeln!(out, "  key        {}", flags.key.display())?;
    if let Some(passwords) = &flags.passwords {
        writeln!(out, "  logins     by TLS, for the users in {}", passwords.display())?;
    }
    if let Some(metrics) = metrics {
        writeln!(out, "  metrics    {}", metrics.url())?;
    }
    out.flush()
}
