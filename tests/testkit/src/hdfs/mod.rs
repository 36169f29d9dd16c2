//! A real HDFS: its namenode and datanodes run as separate processes.

mod archive;
mod classpath;
mod config;
mod site;

use crate::failure::{Failure, Result};
use crate::network::Host;
use crate::port::free_port;
use crate::process::Process;
use crate::wait::wait_until;
use config::{NAMESERVICE, NamenodePorts};
use rustix::process::Signal;
use site::Site;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tempfile::TempDir;

/// URI of the shared cluster, `hdfs://127.0.0.1:PORT` (set by `with-hdfs`).
const ENV_URI: &str = "STRAIT_TEST_HDFS";
/// The shared cluster's HTTP address, `127.0.0.1:PORT`.
const ENV_HTTP: &str = "STRAIT_TEST_HDFS_HTTP";
/// Classpath for Java programs that use the shared cluster: Hadoop's jars and its configuration.
const ENV_CLASSPATH: &str = "STRAIT_TEST_HDFS_CLASSPATH";

/// A daemon starts within 5 s on an idle machine. The deadline allows for a machine with forty busy processes on
/// two cores, where a start took more than 120 s. A daemon that ends earlier fails at once.
const START_DEADLINE: Duration = Duration::from_secs(300);
/// Most attempts to start a cluster. The test kit finds free ports, which the daemons bind later. If another
/// process takes one in between, the start is retried with new ports.
const START_TRIES: u32 = 3;
/// 256 MB suffices for thousands of files and keeps four daemons under 1 GB. Without the optimizing compiler, a
/// start takes half the processor time.
const JVM_FLAGS: [&str; 4] =
    [FIRST_COMPILER, "-Xmx256m", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true"];
const FIRST_COMPILER: &str = "-XX:TieredStopAtLevel=1";
/// The JVM's default.
const BOTH_COMPILERS: &str = "-XX:TieredStopAtLevel=4";

const NAMENODE: &str = "org.apache.hadoop.hdfs.server.namenode.NameNode";
const DATANODE: &str = "org.apache.hadoop.hdfs.server.datanode.DataNode";
const SHELL: &str = "org.apache.hadoop.fs.FsShell";
const FSCK: &str = "org.apache.hadoop.hdfs.tools.DFSck";
const DFSADMIN: &str = "org.apache.hadoop.hdfs.tools.DFSAdmin";
const HAADMIN: &str = "org.apache.hadoop.hdfs.tools.DFSHAAdmin";
const ACTIVATE: &str = "-transitionToActive";
const STAND_BY: &str = "-transitionToStandby";

/// The shape of a cluster.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of datanodes, at least one.
    pub datanodes: usize,
    /// Default replication of files; at most the number of datanodes.
    pub replication: usize,
    /// More properties for hdfs-site.xml, which override the test kit's own.
    pub properties: Vec<(&'static str, &'static str)>,
    /// Whether there is a second namenode, as the first one's standby. The two then share a directory for the
    /// edit log, and the cluster's URI names a nameservice.
    pub standby: bool,
    /// The cluster's hosts: the namenodes run on the first, and the datanodes on the others in turn. With one
    /// host, the datanodes run on this machine. If empty, all run on this machine, on 127.0.0.1.
    pub hosts: Vec<Host>,
    /// Parent of the data directory. None: the directory for temporary files.
    pub parent: Option<PathBuf>,
    /// More of the daemons' JVM flags, which override the test kit's own.
    pub jvm_flags: Vec<String>,
}

impl Options {
    /// For measurements: JVMs as servers have them, with more memory and Java's defaults for the rest.
    pub fn measured() -> Self {
        let jvm_flags = ["-Xmx1g", "-XX:-UseSerialGC", BOTH_COMPILERS].map(str::to_owned).to_vec();
        Self { jvm_flags, ..Self::default() }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            datanodes: 1,
            replication: 1,
            properties: Vec::new(),
            standby: false,
            hosts: Vec::new(),
            parent: None,
            jvm_flags: Vec::new(),
        }
    }
}

/// A running HDFS, or a handle to an HDFS that the whole test run shares.
///
/// The user that runs the tests is the superuser, and may act for any other (`hadoop.proxyuser`). `alice` and
/// `bob` are in group `staff`, `carol` in `guests`. Permissions are checked, and all users may write to the
/// root directory.
pub struct MiniHdfs {
    uri: String,
    http: String,
    classpath: String,
    site: Site,
    daemons: Held,
}

/// The owner of the daemons, which stops them.
enum Held {
    /// The test.
    Own(Box<Daemons>),
    /// The tests of this process. The last drop stops the daemons.
    InProcess { _daemons: Arc<Daemons> },
    /// `with-hdfs`.
    Elsewhere,
}

impl MiniHdfs {
    /// The cluster that `with-hdfs` started for the whole run. Without `with-hdfs`, a cluster with the
    /// default [`Options`] that the tests of this process share.
    pub fn start() -> Result<Self> {
        static RUNNING: Mutex<Weak<Daemons>> = Mutex::new(Weak::new());
        if let Ok(uri) = env::var(ENV_URI) {
            let (http, classpath) = (shared(ENV_HTTP)?, shared(ENV_CLASSPATH)?);
            return Ok(Self { uri, http, classpath, site: Site::default(), daemons: Held::Elsewhere });
        }
        // The lock is held during the start, so that concurrent callers wait and share the cluster.
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let daemons = match running.upgrade() {
            Some(daemons) => daemons,
            None => Arc::new(Daemons::start_on_free_ports(&Options::default())?),
        };
        *running = Arc::downgrade(&daemons);
        let (uri, http, classpath) = daemons.coordinates();
        let site = Site::default();
        Ok(Self { uri, http, classpath, site, daemons: Held::InProcess { _daemons: daemons } })
    }

    /// A separate cluster, which the test may break.
    pub fn start_own(options: &Options) -> Result<Self> {
        let daemons = Daemons::start_on_free_ports(options)?;
        let (uri, http, classpath) = daemons.coordinates();
        let site = daemons.namenode_site.clone();
        Ok(Self { uri, http, classpath, site, daemons: Held::Own(Box::new(daemons)) })
    }

    /// `hdfs://127.0.0.1:PORT`; with a standby, `hdfs://NAMESERVICE`, for which clients need
    /// [`MiniHdfs::configuration`].
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The directory with Hadoop's configuration of this cluster.
    pub fn configuration(&self) -> &Path {
        // It is the last entry of the classpath.
        Path::new(self.classpath.rsplit(':').next().unwrap_or_default())
    }

    /// The HTTP address of the first namenode, `127.0.0.1:PORT` (WebHDFS, JMX).
    pub fn http_address(&self) -> &str {
        &self.http
    }

    /// Classpath for Java programs that use the cluster: Hadoop's jars and its configuration.
    pub fn classpath(&self) -> &str {
        &self.classpath
    }

    /// The variables by which [`MiniHdfs::start`] finds this cluster in other processes.
    pub fn environment(&self) -> [(&'static str, &str); 3] {
        [(ENV_URI, &self.uri), (ENV_HTTP, &self.http), (ENV_CLASSPATH, &self.classpath)]
    }

    /// A path unique to this call, for example `/list-1234-0`; nothing exists there yet.
    pub fn scratch(&self, name: &str) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        format!("/{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
    }

    /// Runs Hadoop's own shell: `hdfs.shell(&["-cat", "/a"])`. Takes a second or two.
    pub fn shell(&self, arguments: &[&str]) -> Result<Output> {
        self.java(SHELL, arguments)
    }

    /// Runs `hdfs fsck`: `hdfs.fsck(&["/a", "-files", "-blocks", "-locations"])`.
    pub fn fsck(&self, arguments: &[&str]) -> Result<Output> {
        self.java(FSCK, arguments)
    }

    /// Runs `hdfs dfsadmin`: `hdfs.dfsadmin(&["-safemode", "enter"])`.
    pub fn dfsadmin(&self, arguments: &[&str]) -> Result<Output> {
        self.java(DFSADMIN, arguments)
    }

    fn java(&self, class: &str, arguments: &[&str]) -> Result<Output> {
        Ok(self.site.place(program(&self.classpath, &[], class)).args(arguments).output()?)
    }

    /// Kills the active namenode (SIGKILL).
    ///
    /// # Panics
    /// On a shared cluster. This also holds for the functions below.
    pub fn stop_namenode(&mut self) {
        self.own().active().process.kill();
    }

    /// Sends a signal to the active namenode, as [`MiniHdfs::signal_datanode`] does.
    pub fn signal_namenode(&mut self, signal: Signal) {
        self.own().active().process.signal(signal);
    }

    /// Restarts the active namenode, at its old address, with its data. Returns when it serves and all
    /// running datanodes have registered.
    pub fn restart_namenode(&mut self) -> Result<()> {
        let daemons = self.own();
        daemons.spawn_namenode(daemons.active)?;
        if daemons.namenodes.len() > 1 {
            daemons.order(daemons.active, ACTIVATE)?;
        }
        daemons.wait_until_whole()
    }

    /// Kills the active namenode (SIGKILL), makes its standby the active one, and restarts the killed one as
    /// the standby.
    ///
    /// # Panics
    /// On a shared cluster, and without [`Options::standby`].
    pub fn fail_over(&mut self) -> Result<()> {
        let daemons = self.own();
        let (old, new) = daemons.active_and_standby();
        daemons.active().process.kill();
        daemons.order(new, ACTIVATE)?;
        daemons.active = new;
        daemons.spawn_namenode(old)?;
        daemons.wait_until_whole()
    }

    /// Makes the active namenode the standby, and the standby the active one. Both continue to run.
    ///
    /// # Panics
    /// As [`MiniHdfs::fail_over`].
    pub fn hand_over(&mut self) -> Result<()> {
        let daemons = self.own();
        let (old, new) = daemons.active_and_standby();
        daemons.order(old, STAND_BY)?;
        daemons.order(new, ACTIVATE)?;
        daemons.active = new;
        daemons.wait_until_whole()
    }

    /// Kills datanode `index` (SIGKILL).
    pub fn stop_datanode(&mut self, index: usize) {
        self.own().datanodes[index].kill();
    }

    /// Restarts datanode `index`, at its old address, with its data. Returns when it has registered.
    pub fn restart_datanode(&mut self, index: usize) -> Result<()> {
        self.own().start_datanode_again(index)
    }

    /// Sends a signal to datanode `index`, for example SIGSTOP to stall it, or SIGCONT to continue it.
    pub fn signal_datanode(&mut self, index: usize, signal: Signal) {
        self.own().datanodes[index].signal(signal);
    }

    /// The data transfer address of datanode `index`, as in block locations.
    ///
    /// # Panics
    /// On a shared cluster.
    pub fn datanode_address(&self, index: usize) -> String {
        let Held::Own(daemons) = &self.daemons else { panic!("a shared HDFS hides its datanodes") };
        format!("{}:{}", daemons.datanode_sites[index].address(), daemons.datanode_ports[index][0])
    }

    fn own(&mut self) -> &mut Daemons {
        match &mut self.daemons {
            Held::Own(daemons) => daemons,
            _ => panic!("one test mustn't stop a shared HDFS: use MiniHdfs::start_own"),
        }
    }
}

fn shared(variable: &str) -> Result<String> {
    env::var(variable).map_err(|_| Failure::new(format!("{ENV_URI} is set, {variable} isn't")))
}

/// The processes of one cluster and their data. Fields are dropped in order: processes, then the
/// directory.
struct Daemons {
    datanodes: Vec<Process>,
    namenodes: Vec<Namenode>,
    /// Index of the active namenode.
    active: usize,
    namenode_site: Site,
    datanode_sites: Vec<Site>,
    datanode_ports: Vec<[u16; 3]>,
    classpath: String,
    jvm_flags: Vec<String>,
    dir: TempDir,
}

/// A namenode, and its ports.
struct Namenode {
    process: Process,
    ports: NamenodePorts,
}

impl Daemons {
    fn start_on_free_ports(options: &Options) -> Result<Self> {
        classpath::check_java()?;
        let jars = classpath::jars()?;
        archive::make(&jars, |flag| Self::record(&jars, flag))?;
        Self::start_again(options, &jars)
    }

    /// Starts a cluster and calls it by Hadoop's shell, all with this flag of a JVM, and ends it.
    fn record(jars: &str, flag: &str) -> Result<()> {
        let flags = vec![flag.to_owned()];
        let mut daemons =
            Self::start_again(&Options { jvm_flags: flags.clone(), ..Options::default() }, jars)?;
        program(&daemons.classpath, &flags, SHELL).args(["-mkdir", "/recorded"]).output()?;
        let namenodes = daemons.namenodes.iter_mut().map(|namenode| &mut namenode.process);
        for process in daemons.datanodes.iter_mut().chain(namenodes) {
            process.terminate(START_DEADLINE);
        }
        Ok(())
    }

    /// Starts a cluster, on other ports if another process took one.
    fn start_again(options: &Options, jars: &str) -> Result<Self> {
        let mut tries = 1;
        loop {
            match Self::start(options, jars) {
                Err(failure) if tries < START_TRIES && failure.to_string().contains("BindException") => {
                    tries += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// URI, HTTP address, classpath.
    fn coordinates(&self) -> (String, String, String) {
        let uri = match self.namenodes.len() {
            1 => format!("hdfs://{}:{}", self.namenode_site.address(), self.namenodes[0].ports.rpc),
            _ => format!("hdfs://{NAMESERVICE}"),
        };
        (uri, self.http_address(0), self.classpath.clone())
    }

    fn start(options: &Options, jars: &str) -> Result<Self> {
        let parent = options.parent.clone().unwrap_or_else(env::temp_dir);
        let dir = TempDir::with_prefix_in("strait-hdfs-", parent)?;
        let ports: Vec<_> = (0..1 + usize::from(options.standby))
            .map(|_| NamenodePorts { rpc: free_port(), http: free_port() })
            .collect();
        let user = current_user();
        let namenode_site = Site::of(&options.hosts, 0);
        let others = options.hosts.get(1..).unwrap_or_default();
        let datanode_sites: Vec<Site> = (0..options.datanodes).map(|index| Site::of(others, index)).collect();
        let address = namenode_site.address();
        let settings = config::Settings { address, namenodes: &ports, user: &user, options };
        config::write(dir.path(), &settings)?;
        // The jars first, since an archive of classes is for classpaths that begin as its own.
        let classpath = format!("{jars}:{}", dir.path().join("conf").display());

        format_namenode(&classpath, &options.jvm_flags, dir.path(), &config::generic(ports.len(), 0))?;
        let mut namenodes = Vec::new();
        for (index, ports) in ports.into_iter().enumerate() {
            if index > 0 {
                copy_files(&config::name_dir(dir.path(), 0), &config::name_dir(dir.path(), index))?;
            }
            let generic = config::generic(1 + usize::from(options.standby), index);
            let process = namenode(&namenode_site, &classpath, &options.jvm_flags, &generic, dir.path())?;
            namenodes.push(Namenode { process, ports });
        }
        let datanode_ports =
            (0..options.datanodes).map(|_| [free_port(), free_port(), free_port()]).collect();
        let mut daemons = Self {
            datanodes: Vec::new(),
            namenodes,
            active: 0,
            namenode_site,
            datanode_sites,
            datanode_ports,
            classpath,
            jvm_flags: options.jvm_flags.clone(),
            dir,
        };
        for index in 0..options.datanodes {
            let datanode = daemons.spawn_datanode(index)?;
            daemons.datanodes.push(datanode);
        }
        if options.standby {
            daemons.wait_until_it_answers(0)?;
            daemons.order(0, ACTIVATE)?;
        }
        daemons.wait_until_whole()?;
        daemons.open_root(&user)?;
        Ok(daemons)
    }

    fn http_address(&self, namenode: usize) -> String {
        format!("{}:{}", self.namenode_site.address(), self.namenodes[namenode].ports.http)
    }

    fn active(&mut self) -> &mut Namenode {
        &mut self.namenodes[self.active]
    }

    fn active_and_standby(&self) -> (usize, usize) {
        assert!(self.namenodes.len() > 1, "without Options::standby there is one namenode");
        (self.active, 1 - self.active)
    }

    /// Kills namenode `index` if it runs, and starts it with its data.
    fn spawn_namenode(&mut self, index: usize) -> Result<()> {
        self.namenodes[index].process.kill();
        let generic = config::generic(self.namenodes.len(), index);
        self.namenodes[index].process =
            namenode(&self.namenode_site, &self.classpath, &self.jvm_flags, &generic, self.dir.path())?;
        self.wait_until_it_answers(index)
    }

    fn wait_until_it_answers(&mut self, index: usize) -> Result<()> {
        let (http, site) = (self.http_address(index), self.namenode_site.clone());
        let answers = || jmx(&site, &http, "NameNode", "FSNamesystemState").is_some();
        self.namenodes[index].process.wait_ready(START_DEADLINE, answers)
    }

    /// Makes namenode `index` active, or a standby.
    fn order(&self, index: usize, order: &str) -> Result<()> {
        let mut java = self.namenode_site.place(program(&self.classpath, &[], HAADMIN));
        java.arg(order);
        if order == ACTIVATE {
            // Don't ask the other namenode, which may be dead.
            java.arg("--forceactive");
        }
        let output = java.arg(config::namenode_id(index)).output()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "haadmin {order}: {} {}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            ))),
        }
    }

    fn spawn_datanode(&self, index: usize) -> Result<Process> {
        let [data, ipc, http] = self.datanode_ports[index];
        let site = &self.datanode_sites[index];
        let address = site.address();
        let dir = self.dir.path().join(format!("data-{index}"));
        let mut command = daemon(&self.classpath, &self.jvm_flags, DATANODE, self.dir.path());
        command
            .arg(format!("-Ddfs.datanode.data.dir=file://{}", dir.display()))
            .arg(format!("-Ddfs.datanode.address={address}:{data}"))
            .arg(format!("-Ddfs.datanode.ipc.address={address}:{ipc}"))
            .arg(format!("-Ddfs.datanode.http.address={address}:{http}"))
            .arg(format!("-Ddfs.datanode.hostname={address}"));
        Process::spawn(&format!("datanode-{index}"), site.place(command), self.dir.path())
    }

    /// Waits until the active namenode serves, all running datanodes have registered, and safe mode is over.
    fn wait_until_whole(&mut self) -> Result<()> {
        self.wait_until_it_answers(self.active)?;
        let (http, site) = (self.http_address(self.active), self.namenode_site.clone());
        let running =
            self.datanodes.iter_mut().filter_map(|node| node.try_wait().is_none().then_some(())).count();
        let live = format!("\"NumLiveDataNodes\" : {running}");
        let whole = || {
            jmx(&site, &http, "NameNode", "FSNamesystemState")
                .is_some_and(|state| state.contains(&live) && state.contains("\"FSState\" : \"Operational\""))
        };
        match self.datanodes.first_mut() {
            Some(datanode) => datanode.wait_ready(START_DEADLINE, whole),
            None => Ok(()),
        }
    }

    fn open_root(&self, user: &str) -> Result<()> {
        let target = format!("/webhdfs/v1/?op=SETPERMISSION&permission=777&user.name={user}");
        let answer = self.namenode_site.http("PUT", &self.http_address(self.active), &target)?;
        match answer.status {
            200 => Ok(()),
            status => Err(Failure::new(format!("chmod 777 / by WebHDFS: {status} {}", answer.body))),
        }
    }

    fn start_datanode_again(&mut self, index: usize) -> Result<()> {
        self.datanodes[index].kill();
        self.datanodes[index] = self.spawn_datanode(index)?;
        // The namenode counts a killed datanode as live for a while, so ask the new process whether it has
        // registered.
        let site = self.datanode_sites[index].clone();
        let http = format!("{}:{}", site.address(), self.datanode_ports[index][2]);
        let registered =
            || jmx(&site, &http, "DataNode", "DataNodeInfo").is_some_and(|info| info.contains("RUNNING"));
        self.datanodes[index].wait_ready(START_DEADLINE, registered)
    }
}

/// A program of Hadoop's.
fn program(classpath: &str, flags: &[String], class: &str) -> Command {
    let mut command = classpath::java();
    command.arg(FIRST_COMPILER).args(archive::flag()).args(flags).args(["-cp", classpath, class]);
    command
}

fn daemon(classpath: &str, flags: &[String], class: &str, dir: &Path) -> Command {
    let mut command = classpath::java();
    // Jetty makes directories there, which a kill would leave.
    command.arg(format!("-Djava.io.tmpdir={}", dir.display()));
    command.args(JVM_FLAGS).args(archive::flag()).args(flags).args(["-cp", classpath, class]);
    command
}

fn namenode(
    site: &Site,
    classpath: &str,
    jvm_flags: &[String],
    generic: &[String],
    dir: &Path,
) -> Result<Process> {
    let mut command = daemon(classpath, jvm_flags, NAMENODE, dir);
    command.args(generic);
    Process::spawn("namenode", site.place(command), dir)
}

/// Copies a directory.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_files(&entry.path(), &target)?,
            false => std::fs::copy(entry.path(), target).map(drop)?,
        }
    }
    Ok(())
}

fn format_namenode(classpath: &str, jvm_flags: &[String], dir: &Path, generic: &[String]) -> Result<()> {
    let mut command = daemon(classpath, jvm_flags, NAMENODE, dir);
    command.args(generic).args(["-format", "-force", "-nonInteractive"]);
    let mut format = Process::spawn("format", command, dir)?;
    let mut status = None;
    wait_until(START_DEADLINE, || {
        status = format.try_wait();
        status.is_some()
    });
    match status {
        Some(status) if status.success() => Ok(()),
        _ => Err(Failure::new(format!("the namenode can't be formatted:\n{}", format.log_tail()))),
    }
}

/// A JMX bean of a daemon, as JSON; None if the daemon doesn't answer yet.
fn jmx(site: &Site, http_address: &str, service: &str, bean: &str) -> Option<String> {
    let target = format!("/jmx?qry=Hadoop:service={service},name={bean}");
    let answer = site.http("GET", http_address, &target).ok()?;
    (answer.status == 200 && answer.body.contains(bean)).then_some(answer.body)
}

/// The user that runs the tests: the superuser of every [`MiniHdfs`].
///
/// # Panics
/// If `id` doesn't run.
pub fn current_user() -> String {
    let output = Command::new("id").arg("-un").output().expect("the command `id` runs");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

impl std::fmt::Debug for MiniHdfs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MiniHdfs").field("uri", &self.uri).finish_non_exhaustive()
    }
}
