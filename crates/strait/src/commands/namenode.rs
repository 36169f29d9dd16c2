//! `namenode`: a Kadoop cluster's namenode, alone in its process.

use super::keys;
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
use strait_kadoop::Config;
use strait_kadoop::service::{Key, NamenodeOptions, NamenodeServer};
use strait_store::ErrorKind;
use strait_telemetry::AuditLog;

/// Where datanodes join, if nothing is said: beside the clients' 9091.
const DATANODES_PORT: u16 = 9092;
/// From one look whether the log has failed to the next.
const LOOK: Duration = Duration::from_secs(1);

/// Serves until a signal comes.
pub async fn namenode(flags: Namenode) -> Result<(), Failure> {
    let mut signals = Signals::catch()?;
    tokio::spawn(Hangups::catch()?.each(|| tracing::info!("SIGHUP: no file of this server is read anew")));
    let key = keys::load_or_make(&flags.key)?;
    if let Some(file) = &flags.key_for_clients {
        share(&key, file)?;
    }
    let config = Config {
        superuser: flags.superuser.unwrap_or_else(process_user),
        min_chunk_bytes: flags.min_block_size,
        ..Config::default()
    };
    let options = NamenodeOptions {
        listen: flags.listen,
        listen_datanodes: flags
            .listen_datanodes
            .unwrap_or_else(|| SocketAddr::new(flags.listen.ip(), DATANODES_PORT)),
        config,
        slow_call: flags.telling.slow_call(),
        audit: audit_log(flags.audit_log.as_deref())?,
        ..NamenodeOptions::new(&flags.data, key)
    };
    let server = start(options).await?;
    let numbers = server.numbers();
    let metrics = Metrics::serve(flags.telling.metrics, Arc::new(move |page| numbers.write(page))).await?;
    told(&server, &flags.data, &flags.key, metrics.as_ref()).map_err(Failure::output)?;
    let ended = tokio::select! {
        _ = signals.next() => {
            tracing::info!("ending; a second signal ends at once");
            Ok(())
        }
        failure = failed(&server) => Err(failure),
    };
    signals.unless(blocking(move || drop(server))).await?;
    ended
}

/// Starts a namenode, or says on one line what keeps it.
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

/// What keeps a role from starting that another process ends: it has the directory or an address.
pub fn taken(error: &io::Error, data: &str, addresses: &str) -> Option<Failure> {
    let (operation, what, why) = match error.kind() {
        io::ErrorKind::AddrInUse => (
            "listen on",
            addresses,
            "in use; stop that program or choose another address with --listen".to_owned(),
        ),
        io::ErrorKind::ResourceBusy => ("start in", data, error.to_string()),
        _ => return None,
    };
    Some(Failure::at(ErrorKind::Busy, operation, what, why))
}

/// The audit log, if there is to be one.
pub fn audit_log(file: Option<&Path>) -> Result<Option<Arc<AuditLog>>, Failure> {
    let open = |file| {
        AuditLog::open(file).map(Arc::new).map_err(|error| Failure::local(error, "open --audit-log", file))
    };
    file.map(open).transpose()
}

/// Returns when the namenode's log has failed.
pub async fn failed(server: &NamenodeServer) -> Failure {
    while !server.has_failed() {
        tokio::time::sleep(LOOK).await;
    }
    Failure::other("the namenode's log failed; nothing is answered any more. See to its disk and start again")
}

/// Makes a directory that its owner alone may look into: rights within the cluster are the
/// namenode's to check.
pub fn make_private(data: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data)
}

/// What blocks, away from the runtime's own threads.
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

fn told(server: &NamenodeServer, data: &Path, key: &Path, metrics: Option<&Metrics>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "strait {} is the namenode on {}", env!("CARGO_PKG_VERSION"), server.address())?;
    writeln!(out, "  datanodes  join on {}", server.datanodes_address())?;
    writeln!(out, "  data       {}", data.display())?;
    writeln!(out, "  key        {}", key.display())?;
    if let Some(metrics) = metrics {
        writeln!(out, "  metrics    {}", metrics.url())?;
    }
    out.flush()
}
