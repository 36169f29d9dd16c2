//! `up`: a gateway with its own Kadoop cluster, all in this process.

use super::datanode;
use super::keys;
use super::namenode::{self, audit_log, blocking, make_private};
use super::serve;
use super::serve::{Door, raise_descriptor_limit};
use super::served_stores::Opened;
use crate::cli::Up;
use crate::context::invoking_user;
use crate::failure::Failure;
use crate::metrics;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_gateway::PasswordFile;
use strait_gateway::{ConfiguredStore, Homes};
use strait_kadoop_client::Client;
use strait_kadoop_core::Config;
use strait_kadoop_server::{
    DatanodeNumbers, DatanodeOptions, DatanodeServer, NamenodeOptions, NamenodeServer, Role,
};
use strait_kadoop_wire::{Descriptors, Key};
use strait_store::{ErrorKind, SetAttributes, StorePath};
use strait_store_kadoop::KadoopStore;

/// Datanodes in this process: as many as the usual replication, so that users can request it.
const DATANODES: usize = 3;
/// Servers in this process, with namenode and gateway. They share its descriptors.
const SERVERS: usize = DATANODES + 2;
/// Smallest sufficient limit of open files for all servers. `tests/descriptors.rs` checks it.
const MIN_DESCRIPTORS: usize = 256;
/// Default replication. There is one disk, so more replicas would only cost.
const REPLICATION: u16 = 1;
/// Names in the data directory, if the flags name no other place.
const KEY: &str = "kadoop.key";
const NAMENODE: &str = "namenode";
const DATANODE: &str = "datanode-";
/// A directory that every user of a cluster with logins may write into. Its mode has the sticky bit, as on
/// every Unix host.
const SHARED_DIRECTORY: &str = "/tmp";
const SHARED_PERMISSION: u32 = 0o1777;
/// An entry that a new file system's root may have.
const LOST_AND_FOUND: &str = "lost+found";

/// Time limit for the datanodes to register and for safe mode to end, counted after the datanodes have listed
/// their replicas. It takes milliseconds, but seconds with a million replicas.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// A start that takes longer logs a line. An empty cluster starts in a fraction of this time.
const SILENT_START: Duration = Duration::from_secs(1);
/// Time between two checks whether all datanodes have joined.
const LOOK: Duration = Duration::from_millis(2);
/// Time limit at the end for closing the files of disconnected clients.
const CLOSE_PATIENCE: Duration = Duration::from_secs(10);

/// Segment size of the namenode's log. Each start begins a segment, and reads the existing ones. The size is
/// smaller than for a separate namenode, which starts seldom.
const SEGMENT_BYTES: u64 = 4 << 20;

/// Lease times. After a crash, no earlier writer can be alive, except in other processes that use kadoop://,
/// which renew their leases each second. So files left open are closed soon.
const LEASE_SOFT_MS: u64 = 5_000;
const LEASE_HARD_MS: u64 = 10_000;

/// Serves until a signal comes.
pub async fn up(up: Up) -> Result<(), Failure> {
    let mut door = Door::open(&up.listening)?;
    demand_datanodes(up.min_replicas)?;
    warn_of_unknown_admins(&up)?;
    serve::demand_free(up.listening.listen)?;
    // Check before the servers divide the limit among themselves.
    demand_descriptors(raise_descriptor_limit())?;
    let data = up.data.display();
    let reading = || tracing::info!("still reading the cluster in {data}; will serve afterwards");
    let cluster = telling_if_slow(reading, Cluster::start(&up)).await?;
    let store = ConfiguredStore {
        name: "default".to_owned(),
        uri: format!("kadoop://{}/", cluster.namenode.address()),
        fs: Arc::new(cluster.store.clone()),
    };
    if door.has_passwords() {
        let homes = Homes { fs: store.fs.clone(), superuser: invoking_user() };
        make_shared_directory(&homes).await?;
        door = door.with_homes(homes);
    }
    let opened = Opened { store, away: None, read_only: None };
    let watched = cluster.datanodes.iter().map(|datanode| Box::pin(datanode::failed(datanode)));
    let served = tokio::select! {
        served = serve::run(up.listening, door, vec![opened], None, cluster.told(), cluster.numbers()) => served,
        failure = namenode::failed(&cluster.namenode) => Err(failure),
        (failure, ..) = futures::future::select_all(watched) => Err(failure),
    };
    match served {
        // After a second signal, the process ends at once, as in a crash.
        Err(Failure::Ended(_)) => std::mem::forget(cluster),
        _ => cluster.stop().await,
    }
    served
}

/// Calls `tell` if the start takes long: with many files, the namenode reads a long log, and the datanodes
/// list all replicas.
async fn telling_if_slow<T>(tell: impl FnOnce(), starting: impl Future<Output = T>) -> T {
    let mut starting = pin!(starting);
    match tokio::time::timeout(SILENT_START, &mut starting).await {
        Ok(started) => started,
        Err(_) => {
            tell();
            starting.await
        }
    }
}

/// Refuses a limit of open files that is too low: the servers couldn't call each other.
fn demand_descriptors(limit: usize) -> Result<(), Failure> {
    match limit < MIN_DESCRIPTORS {
        true => Err(Failure::other(format!(
            "up: this process can open only {limit} files, and needs {MIN_DESCRIPTORS}; raise the hard limit \
             (`ulimit -Hn`, LimitNOFILE= of a systemd unit)"
        ))),
        false => Ok(()),
    }
}

/// Refuses a minimum above the number of datanodes: no file could be closed.
fn demand_datanodes(min_replicas: u16) -> Result<(), Failure> {
    match usize::from(min_replicas) > DATANODES {
        true => Err(Failure::usage(format!(
            "--min-replicas {min_replicas}: `strait up` has {DATANODES} datanodes, so {DATANODES} is the maximum"
        ))),
        false => Ok(()),
    }
}

/// Warns about administrators that aren't users. The name may be a mistake, and a user who gets it later
/// becomes an administrator.
fn warn_of_unknown_admins(up: &Up) -> Result<(), Failure> {
    let Some(file) = &up.listening.passwords else { return Ok(()) };
    let users = PasswordFile::users(file).map_err(Failure::other)?;
    for admin in up.admins.iter().filter(|admin| !users.contains(admin)) {
        tracing::warn!("--admin {admin}: no such user in {}", file.display());
    }
    Ok(())
}

/// Creates the directory that all users share, unless something has that name already. In it, only the owner
/// of a file can rename or remove it.
async fn make_shared_directory(homes: &Homes) -> Result<(), Failure> {
    let Homes { fs, superuser } = homes;
    let shared = StorePath::parse(SHARED_DIRECTORY)?;
    match fs.stat(superuser, &shared).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs.mkdirs(superuser, &shared, Some(SHARED_PERMISSION)).await?;
            let permission = Some(SHARED_PERMISSION);
            let set = SetAttributes { permission, ..SetAttributes::default() };
            Ok(fs.set_attributes(superuser, &shared, &set).await?)
        }
        Err(error) => Err(error.into()),
        Ok(_) => Ok(()),
    }
}

/// The namenode, the datanodes, and a client of them.
struct Cluster {
    data: PathBuf,
    key: PathBuf,
    store: KadoopStore,
    datanodes: Vec<DatanodeServer>,
    namenode: NamenodeServer,
}

impl Cluster {
    async fn start(up: &Up) -> Result<Self, Failure> {
        let data = std::path::absolute(&up.data).map_err(|error| Failure::local(error, "find", &up.data))?;
        let failed = |error: io::Error| Failure::local(error, "use", &data);
        if data.exists() && !data.is_dir() {
            let why = "not a directory; name another --data".to_owned();
            return Err(Failure::at(ErrorKind::NotADirectory, "use", data.display(), why));
        }
        make_private(&data).map_err(failed)?;
        refuse_others(&data).map_err(failed)??;
        let key_file = up.key.as_deref().map_or_else(|| data.join(KEY), Path::to_owned);
        let key = keys::load_or_make(&key_file)?;
        let config = Config {
            superuser: invoking_user().user.to_string(),
            admins: up.admins.clone(),
            min_replicas: up.min_replicas.into(),
            // All datanodes are in this process, so don't wait for others.
            safe_mode_extra_ms: 0,
            lease_soft_ms: LEASE_SOFT_MS,
            lease_hard_ms: LEASE_HARD_MS,
            segment_bytes: SEGMENT_BYTES,
            ..Config::default()
        };
        let options = NamenodeOptions {
            config: config.clone(),
            slow_call: up.listening.observability.slow_call(),
            audit: audit_log(up.audit_log.as_deref())?,
            descriptors: Descriptors::of_process().shared_by(SERVERS),
            ..NamenodeOptions::new(data.join(NAMENODE), key.clone())
        };
        let namenode = namenode::start(options).await?;
        let (address, of, slow_call) =
            (namenode.address(), data.clone(), up.listening.observability.slow_call());
        let joined = blocking(move || join(&of, address, &key, &config, slow_call)).await?;
        let (datanodes, client) = joined?;
        let store = KadoopStore::over(client, REPLICATION);
        Ok(Self { data, key: key_file, store, datanodes, namenode })
    }

    /// The start-up block's lines about the cluster.
    fn told(&self) -> String {
        let (data, key) = (self.data.display(), self.key.display());
        format!("  data     {data}, in a namenode and {DATANODES} datanodes; their key is {key}\n")
    }

    /// The metrics of all servers.
    fn numbers(&self) -> metrics::Write {
        let namenode = self.namenode.numbers();
        let datanodes: Vec<DatanodeNumbers> = self.datanodes.iter().map(DatanodeServer::numbers).collect();
        Arc::new(move |page| {
            namenode.write(page);
            for (index, datanode) in datanodes.iter().enumerate() {
                datanode.write(page, &format!("{DATANODE}{}", index + 1));
            }
        })
    }

    /// Stops the client, the datanodes and the namenode, in this order. The gateway has stopped already, so
    /// this closes the files that its clients left open.
    async fn stop(self) {
        if tokio::time::timeout(CLOSE_PATIENCE, self.store.settled()).await.is_err() {
            tracing::warn!("couldn't close all files that clients left open; the next start closes them");
        }
        let Self { store, datanodes, namenode, .. } = self;
        let stopped = blocking(move || {
            drop(store);
            // Stop the datanodes in parallel: each waits for its own threads.
            std::thread::scope(|scope| {
                for datanode in datanodes {
                    scope.spawn(move || drop(datanode));
                }
            });
            drop(namenode);
        });
        if let Err(failure) = stopped.await {
            tracing::error!(?failure, "the cluster didn't stop cleanly");
        }
    }
}

/// Starts the datanodes, and waits until they have joined.
fn join(
    data: &Path,
    namenode: SocketAddr,
    key: &Key,
    config: &Config,
    slow_call: Duration,
) -> Result<(Vec<DatanodeServer>, Client), Failure> {
    let namenode = namenode.to_string();
    let mut datanodes = Vec::new();
    for number in 1..=DATANODES {
        let directory = data.join(format!("{DATANODE}{number}"));
        let mut options = DatanodeOptions::new(vec![directory.clone()], namenode.clone(), key.clone());
        options.config = config.clone();
        options.slow_call = slow_call;
        options.sharing = DATANODES as u64;
        options.descriptors = Descriptors::of_process().shared_by(SERVERS);
        let started = DatanodeServer::start(options);
        datanodes.push(started.map_err(|error| Failure::local(error, "start a datanode in", &directory))?);
    }
    let failed =
        |why: String| Failure::at(ErrorKind::Unavailable, "start the cluster in", data.display(), why);
    let client = Client::connect(KadoopStore::client_options(namenode, key.for_clients()));
    let client = client.map_err(|failure| failed(failure.to_string()))?;
    let due = Instant::now() + READY_PATIENCE;
    loop {
        let status = client.status().map_err(|failure| failed(failure.to_string()))?;
        let here: BTreeSet<SocketAddr> =
            status.nodes.iter().filter(|node| node.alive).map(|node| node.host.address).collect();
        if datanodes.iter().all(|datanode| here.contains(&datanode.address())) && !status.safe_mode {
            return Ok((datanodes, client));
        }
        if Instant::now() > due {
            let missing = datanodes.iter().filter(|datanode| !here.contains(&datanode.address())).count();
            let seconds = READY_PATIENCE.as_secs();
            return Err(failed(match missing {
                0 => format!("the namenode stayed in safe mode for {seconds} s; see the log"),
                _ => format!("{missing} datanodes didn't register within {seconds} s; see the log"),
            }));
        }
        std::thread::sleep(LOOK);
    }
}

/// Refuses a directory that isn't a whole cluster's: the data directory of one namenode or datanode, or a
/// directory with other programs' files. The error names the command that serves it as it is.
fn refuse_others(data: &Path) -> io::Result<Result<(), Failure>> {
    if let Some(role) = Role::of(data) {
        let (role, command) = match role {
            Role::Namenode => ("namenode", "strait namenode --data"),
            Role::Datanode => ("datanode", "strait datanode --data"),
        };
        let why = format!(
            "this is a {role}'s data directory; serve it with `{command} {}`, or name another --data",
            data.display()
        );
        return Ok(Err(Failure::at(ErrorKind::InvalidArgument, "use", data.display(), why)));
    }
    for entry in std::fs::read_dir(data)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        let ours = [KEY, NAMENODE, LOST_AND_FOUND].contains(&&*name) || name.starts_with(DATANODE);
        if !ours {
            let shown = data.display().to_string();
            return Ok(Err(Failure::at(
                ErrorKind::InvalidArgument,
                "use",
                &shown,
                format!(
                    "it holds {name}, which isn't part of a Kadoop cluster; to serve its files as they are, \
                     run `strait serve --store file://{shown}`, else name another --data"
                ),
            )));
        }
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use strait_testkit::wait::pause_task;

    #[tokio::test(start_paused = true)]
    async fn only_a_slow_start_is_told() {
        for (ms, is_told) in [(900, false), (1_100, true)] {
            let told = Cell::new(false);
            let starting = async {
                pause_task("the start takes so long", Duration::from_millis(ms)).await;
                ms
            };
            assert_eq!(telling_if_slow(|| told.set(true), starting).await, ms);
            assert_eq!(told.get(), is_told, "{ms} ms");
        }
    }
}
