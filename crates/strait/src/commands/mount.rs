//! `mount`: a store as a directory of this host.

mod keeping;

use super::serve::raise_descriptor_limit;
use crate::cli::Mount as Flags;
use crate::context::{Context, Place};
use crate::failure::Failure;
use crate::signals::{Hangups, Signals};
use keeping::Orders;
use rustix::process::Signal;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;
use strait_mount::{Identity, Mount, Options, Patience, Pattern, Settings};
use strait_store::ErrorKind;
use tokio::signal::unix::SignalKind;

/// The background process prints this on standard output when the store is mounted.
const MOUNTED: &[u8] = b"mounted\n";
/// Time between two checks whether umount(8) has ended the mount.
const LOOK: Duration = Duration::from_millis(100);

/// Mounts, and serves until a signal or umount(8) ends it.
pub async fn mount(context: &Context, flags: Flags) -> Result<(), Failure> {
    if flags.daemon && !flags.background {
        return in_background(&flags);
    }
    if (flags.keep || flags.background) && !flags.kept {
        return keeping::keep(&flags).await;
    }
    let signals = Signals::catch()?;
    tokio::spawn(Hangups::catch()?.each(|| tracing::info!("SIGHUP has no effect: a mount rereads no files")));
    raise_descriptor_limit();
    outlive_file_limit().map_err(|error| Failure::other(format!("mount: {error}")))?;
    let link = flags.kept.then(keeping::link).transpose()?;
    let mut orders = match &link {
        None => Orders::Signals(signals),
        Some(link) => Orders::kept(link).map_err(|error| Failure::other(format!("mount --kept: {error}")))?,
    };
    let is_first = link.as_ref().is_none_or(|link| !link.goes_on());
    let place = context.place(&flags.uri).await?;
    if !place.stat().await?.is_directory() {
        let why = "not a directory; mount its parent directory".to_owned();
        return Err(Failure::at(ErrorKind::NotADirectory, "mount", &place.path, why));
    }
    let options = options(context, &place, &flags)?;
    let (store, root) = (place.fs.clone(), place.path.clone());
    let mount = match link {
        Some(link) if link.goes_on() => {
            let mount = Mount::go_on(store, root, options, link).await;
            let mount =
                mount.map_err(|error| Failure::local(error, "continue the mount on", &flags.directory))?;
            tracing::info!("continuing the mount on {}", mount.directory().display());
            mount
        }
        link if flags.take_over => {
            let taken = Mount::take_over(store, root, &flags.directory, options, link).await;
            taken.map_err(|error| not_taken(&error, &flags))?
        }
        link => {
            let mount = Mount::begin(store, root, &flags.directory, options, link);
            mount.map_err(|error| cannot(error, &flags))?
        }
    };
    tell(&mount, &flags, is_first)?;
    let ended = async {
        while !mount.has_ended() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        () = ended => tracing::info!("unmounted by another program"),
        () = orders.end() => tracing::info!("received a signal: unmounting"),
        () = mount.taken_over() => {
            tracing::info!("another process took over the mount");
            mount.leave();
            return Ok(());
        }
    }
    let directory = mount.directory().to_owned();
    let ended = tokio::select! {
        ended = mount.end() => ended,
        failure = orders.leave() => return Err(failure),
    };
    ended.map_err(|error| Failure::local(error, "unmount", &directory))
}

/// Lets a write beyond the file size limit (`ulimit -f`) fail. Otherwise SIGXFSZ would end this process, and
/// the next process that gets the same request.
fn outlive_file_limit() -> io::Result<()> {
    let signal = SignalKind::from_raw(Signal::XFSZ.as_raw());
    // A caught signal doesn't end the process, and the write returns EFBIG.
    tokio::signal::unix::signal(signal).map(drop)
}

fn options(context: &Context, place: &Place, flags: &Flags) -> Result<Options, Failure> {
    let mut logical = Vec::with_capacity(flags.plfs.len());
    for text in &flags.plfs {
        let pattern = Pattern::new(text);
        logical.push(pattern.map_err(|error| Failure::usage(format!("--plfs {text}: {}", error.msg)))?);
    }
    let acts_for_one = !place.fs.capabilities().per_user || context.has_login(&place.store);
    if flags.allow_other && acts_for_one {
        return Err(Failure::usage(format!(
            "mount {}: --allow-other needs a credential that may act for every user, such as the key of a \
             Kadoop cluster (--kadoop-key); this credential acts for one user",
            flags.uri
        )));
    }
    let identity = if flags.allow_other { Identity::Caller } else { Identity::One(place.who.clone()) };
    let patience = if flags.hard { Patience::Hard } else { Patience::Soft(Duration::from_secs(flags.soft)) };
    let lifetime = Duration::from_secs(flags.attr_cache);
    let settings = Settings { identity, patience, lifetime, logical, read_only: flags.read_only };
    let source = format!("{}{}", place.store.trim_end_matches('/'), place.path);
    Ok(Options { source, allow_other: flags.allow_other, settings })
}

/// The failure if DIR can't be mounted on, with the remedy.
fn cannot(error: io::Error, flags: &Flags) -> Failure {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound if error.to_string().contains("/dev/fuse") => {
            "; load the kernel module: modprobe fuse"
        }
        io::ErrorKind::NotFound if flags.directory.exists() => "; install fusermount3, or mount as root",
        io::ErrorKind::NotFound => "; create the directory first",
        _ => "",
    };
    if error.kind() == io::ErrorKind::ResourceBusy {
        return Failure::at(ErrorKind::Busy, "mount on", flags.directory.display(), error.to_string());
    }
    match Failure::local(error, "mount on", &flags.directory) {
        Failure::Error(error) if !remedy.is_empty() => {
            let message = format!("{}{remedy}", error.message());
            Failure::at(error.kind(), "mount on", flags.directory.display(), message)
        }
        failure => failure,
    }
}

fn not_taken(error: &io::Error, flags: &Flags) -> Failure {
    let kind = match error.kind() {
        io::ErrorKind::NotFound => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        io::ErrorKind::InvalidInput => ErrorKind::InvalidArgument,
        io::ErrorKind::TimedOut => ErrorKind::TimedOut,
        _ => ErrorKind::Busy,
    };
    Failure::at(kind, "take over the mount on", flags.directory.display(), error.to_string())
}

/// Reports that the store is mounted. With a keeper, the keeper reports that to the foreground process and to
/// systemd.
fn tell(mount: &Mount, flags: &Flags, is_first: bool) -> Result<(), Failure> {
    if flags.background {
        detach(flags).map_err(|error| Failure::other(format!("can't go to the background: {error}")))?;
    } else if is_first {
        let mut out = io::stdout().lock();
        let line = writeln!(out, "{} is mounted on {}", flags.uri, mount.directory().display());
        line.and_then(|()| out.flush()).map_err(Failure::output)?;
    }
    if !flags.kept {
        ready();
    }
    Ok(())
}

/// Reports to systemd that the store is mounted.
fn ready() {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET") {
        // As sd_notify(3) does; an abstract name begins with @ there. Without systemd, the send fails.
        let sent = UnixDatagram::unbound().and_then(|from| from.send_to(b"READY=1", &socket));
        if let Err(error) = sent {
            tracing::debug!(%error, "can't notify systemd");
        }
    }
}

/// Leaves the terminal: standard output and error go to the log file, or to /dev/null.
fn detach(flags: &Flags) -> io::Result<()> {
    let log = match &flags.log_file {
        Some(file) => OpenOptions::new().create(true).append(true).open(file)?,
        None => OpenOptions::new().write(true).open("/dev/null")?,
    };
    rustix::stdio::dup2_stdout(&log)?;
    rustix::stdio::dup2_stderr(&log)?;
    // It fails only if this process leads a session already, which is as good.
    let _ = rustix::process::setsid();
    // The process mustn't keep the file system of its start directory busy.
    std::env::set_current_dir("/")
}

/// Starts this program again in the background, and waits until it has mounted.
fn in_background(flags: &Flags) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::other(format!("can't start the background process: {error}"));
    if let Some(file) = &flags.log_file {
        // If the log can't be written, the user should learn that now.
        let opened = OpenOptions::new().create(true).append(true).open(file);
        opened.map_err(|error| Failure::local(error, "write the log", file))?;
    }
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if let Some(Ok(translated)) = crate::cli::by_mount(&arguments) {
        arguments = translated;
    }
    // At the end, the flag could be taken for an operand.
    let at = arguments.iter().position(|argument| argument == "--daemon").unwrap_or(arguments.len());
    arguments.insert(at, "--background".into());
    let mut command = Command::new("/proc/self/exe");
    command.args(&arguments[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let mut told = [0; MOUNTED.len()];
    let output = child.stdout.take();
    let mounted = output.is_some_and(|mut output| output.read_exact(&mut told).is_ok() && told == MOUNTED);
    if mounted {
        return Ok(());
    }
    // Forward the background process's messages and exit code.
    if let Some(mut errors) = child.stderr.take() {
        let _ = io::copy(&mut errors, &mut io::stderr());
    }
    let status = child.wait().map_err(failed)?;
    Err(Failure::Ended(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
