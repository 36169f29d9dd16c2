//! libnfs's `nfs-cp`, as a whole process, with files of a directory that both `strait nfs` and NFS-Ganesha
//! serve. The files are in the page cache. Ganesha registers with rpcbind, whose port and file names are
//! fixed. So all programs run in a separate network namespace, and with a separate /run (needs root).
//!
//! `STRAIT_BENCH_MIB`: the file's size, 1,024 MiB by default.

use crate::Result;
use crate::host::{self, make_file, seconds, setting};
use crate::pairs::interleave;
use crate::report::{Better, Row};
use std::cell::Cell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use strait_testkit::Process;

const RUNS: usize = 7;
const START_DEADLINE: Duration = Duration::from_secs(60);
const GANESHA_PORT: u16 = 23_049;
const GANESHA_MOUNT_PORT: u16 = 23_050;
const STRAIT_PORT: u16 = 23_060;
/// Directory of Ganesha's plugins in Debian.
const GANESHA_PLUGINS: &str = "/usr/lib/x86_64-linux-gnu/ganesha";

/// Script that starts rpcbind and Ganesha. They end with their PID namespace.
const SERVE: &str = r#"
    PATH=$PATH:/usr/sbin:/sbin
    mount -t tmpfs tmpfs /run && mkdir /run/rpcbind /run/ganesha && ip link set lo up
    rpcbind -f & until [ -S /run/rpcbind.sock ]; do sleep 0.05; done
    exec ganesha.nfsd -F -f "$1" -L /dev/stdout -p /run/ganesha/pid"#;

pub fn run() -> Result<Vec<Row>> {
    let mib = setting("STRAIT_BENCH_MIB", 1_024)?;
    let dir = tempfile::tempdir()?;
    let (export, logs) = (dir.path().join("export"), dir.path().join("logs"));
    fs::create_dir(&export)?;
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
    make_file(&export.join("large"), mib)?;
    fs::create_dir(&logs)?;
    let servers = Servers::start(dir.path(), export.clone(), &logs)?;

    // Copy to a new name each time: nfs-cp doesn't overwrite files, and Ganesha caches names of removed ones.
    let memory = tempfile::tempdir_in("/dev/shm")?;
    let copies = Cell::new(0);
    let fresh = || {
        copies.set(copies.get() + 1);
        format!("copy-{}", copies.get())
    };
    let rate = |seconds: f64| (mib << 20) as f64 / 1e6 / seconds;
    let read = |of| {
        let to = memory.path().join(fresh());
        let took = servers.copy(&servers.url(of, "large"), &to.display().to_string())?;
        // Check the copy: a fast but wrong copy doesn't count.
        if fs::metadata(&to)?.len() != (mib as u64) << 20 {
            return Err(format!("{of:?}: the copy has another length").into());
        }
        fs::remove_file(&to)?;
        Ok(rate(took))
    };
    let write = |of| {
        let name = fresh();
        let local = export.join("large").display().to_string();
        let took = servers.copy(&local, &servers.url(of, &name))?;
        fs::remove_file(export.join(name))?;
        Ok(rate(took))
    };
    let pair = interleave(RUNS, || read(Served::Strait), || read(Served::Ganesha))?;
    let case = format!("nfs-cp reads {mib} MiB; limit: NFS-Ganesha");
    let mut rows = vec![Row::of_pair(case, "MB/s", Better::Higher, RUNS, &pair)];
    let pair = interleave(RUNS, || write(Served::Strait), || write(Served::Ganesha))?;
    let case = format!("nfs-cp writes {mib} MiB; limit: NFS-Ganesha");
    rows.push(Row::of_pair(case, "MB/s", Better::Higher, RUNS, &pair));
    Ok(rows)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    Strait,
    Ganesha,
}

impl Served {
    fn url(self, export: &Path, name: &str) -> String {
        match self {
            Self::Strait => format!("nfs://127.0.0.1//{name}?nfsport={STRAIT_PORT}&mountport={STRAIT_PORT}"),
            Self::Ganesha => format!(
                "nfs://127.0.0.1{}/{name}?nfsport={GANESHA_PORT}&mountport={GANESHA_MOUNT_PORT}",
                export.display()
            ),
        }
    }
}

/// Both servers of the directory. A drop ends them.
struct Servers {
    ganesha: Process,
    _strait: Process,
    export: PathBuf,
}

impl Servers {
    fn start(dir: &Path, export: PathBuf, logs: &Path) -> Result<Self> {
        let configuration = dir.join("ganesha.conf");
        let shown = export.display();
        let text = format!(
            "NFS_CORE_PARAM {{ Protocols = 3; NFS_Port = {GANESHA_PORT}; MNT_Port = {GANESHA_MOUNT_PORT}; \
             Enable_NLM = false; Enable_RQUOTA = false; Plugins_Dir = {GANESHA_PLUGINS}; }}\n\
             EXPORT {{ Export_Id = 1; Path = {shown}; Pseudo = /export; Access_Type = RW; \
             Squash = No_Root_Squash; SecType = sys; Protocols = 3; Transports = TCP; \
             FSAL {{ Name = VFS; }} }}\n"
        );
        fs::write(&configuration, text)?;
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", SERVE, "sh"]);
        unshare.arg(&configuration);
        let mut ganesha = Process::spawn("ganesha", unshare, logs)?;
        let space = ganesha.id();
        // Once Ganesha answers, its namespaces exist.
        ganesha.wait_ready(START_DEADLINE, || answers(space, &Served::Ganesha.url(&export, "")))?;

        let mut strait = within(space, &host::strait()?);
        strait.args(["nfs", "--no-root-squash", "--listen", &format!("127.0.0.1:{STRAIT_PORT}")]);
        strait.arg("--store").arg(format!("file://{shown}"));
        let mut strait = Process::spawn("strait", strait, logs)?;
        strait.wait_ready(START_DEADLINE, || answers(space, &Served::Strait.url(&export, "")))?;
        Ok(Self { ganesha, _strait: strait, export })
    }

    fn url(&self, of: Served, name: &str) -> String {
        of.url(&self.export, name)
    }

    /// Copies a file, and returns the seconds that it took.
    fn copy(&self, from: &str, to: &str) -> Result<f64> {
        seconds(within(self.ganesha.id(), Path::new("nfs-cp")).args([from, to]))
    }
}

/// A command for a program in the network namespace of a process.
fn within(process: u32, program: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", &process.to_string(), "--net"]).arg(program);
    command
}

fn answers(space: u32, url: &str) -> bool {
    let mut list = within(space, Path::new("nfs-ls"));
    let status = list.arg(url).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
