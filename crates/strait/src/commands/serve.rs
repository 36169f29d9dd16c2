//! `serve`, and the gateway of `up`.

use super::served_stores::{self, Opened};
use crate::cli::{Listening, Serve};
use crate::context::{Context, invoking_user, process_user, umask};
use crate::failure::Failure;
use crate::metrics::{self, Metrics};
use crate::random::random;
use crate::secret_file;
use crate::signals::{Hangups, Signals};
use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use strait_gateway::{
    Access, CertificateFacts, Config, Gateway, Homes, Limits, LocalRoot, PasswordFile, Service2009, Tls,
    TlsFiles, overflow_user,
};
use strait_store::{FileStore, Principal};
use tokio::net::TcpSocket;

/// The user for clients without a login, if the gateway listens beyond loopback.
const NOBODY: &str = "nobody";

/// A certificate that expires within this time causes a warning, so that the operator can renew it.
const EXPIRES_SOON: Duration = Duration::from_secs(14 * DAY_SECONDS);
const DAY_SECONDS: u64 = 86_400;
const HOUR_SECONDS: u64 = 3_600;
/// Time between two checks whether the loaded certificate or lists changed, or a list expired.
const CERTIFICATE_LOOK: Duration = Duration::from_secs(1);

/// Serves the stores that the flags name.
pub async fn serve(context: &Context, serve: Serve) -> Result<(), Failure> {
    let access = Door::open(&serve.listening)?;
    served_stores::refuse_itself(context, &serve.stores, serve.listening.listen)?;
    let stores = served_stores::open_all(context, &serve.stores).await?;
    let legacy = store_of_2009(&stores, serve.store_2009)?;
    run(serve.listening, access, stores, legacy, String::new(), Arc::new(|_| ())).await
}

/// The store that `--store-2009` names.
fn store_of_2009(stores: &[Opened], named: Option<String>) -> Result<Option<String>, Failure> {
    let Some(name) = named else { return Ok(None) };
    let names: Vec<&str> = stores.iter().map(|opened| opened.store.name.as_str()).collect();
    match names.contains(&name.as_str()) {
        true => Ok(Some(name)),
        false => Err(Failure::usage(format!(
            "--store-2009 {name}: no store has this name; there are: {}",
            names.join(", ")
        ))),
    }
}

/// Serves until a signal comes. `store_2009` is the store of `--store-2009`. `more` is added to the start-up
/// block, and `counted` to the metrics page.
pub async fn run(
    listening: Listening,
    door: Door,
    stores: Vec<Opened>,
    store_2009: Option<String>,
    more: String,
    counted: metrics::Write,
) -> Result<(), Failure> {
    // From now on, a signal causes a clean shutdown.
    let mut signals = Signals::catch()?;
    let hangups = Hangups::catch()?;
    let descriptors = raise_descriptor_limit();
    let tls = tls(&listening)?;
    let mut told = door.told(&stores);
    let mut warnings = door.warnings();
    warnings.extend(stores.iter().filter_map(Opened::forgetful));
    warnings.extend(door.shut_to(listening.listen, tls.is_some()));
    let watching = tls.clone().map(|tls| tokio::spawn(watch_certificate(tls)));
    if let Some(tls) = &tls {
        let now = SystemTime::now();
        let (lines, warning) = tls_told(tls, &listening, now);
        told += &lines;
        warnings.extend(warning);
        warnings.extend(lists_warning(tls.lists_end(), now));
    }
    told += &more;
    let config = Config {
        stores: stores.into_iter().map(|opened| opened.store).collect(),
        access: door.access,
        local_root: listening.local_root.as_deref().map(local_root).transpose()?,
        tls,
        service_2009: Service2009 { store: store_2009, ignore_write_offsets: listening.ignore_write_offsets },
        token_key: token_key(listening.token_key.as_deref())?,
        limits: Limits { token_lifetime: listening.token_lifetime, ..Limits::default() }
            .within_descriptors(descriptors),
        http: listening.http(),
        slow_call: listening.observability.slow_call(),
    };
    let address = listening.listen;
    let gateway = Gateway::bind(address, config)
        .await
        .map_err(|error| Failure::listening(error, address, "--listen"))?;
    let (numbers, reload) = (gateway.numbers(), gateway.reload());
    let reloading = tokio::spawn(hangups.each(move || reload.now()));
    let write = move |page: &mut _| {
        numbers.write(page);
        counted(page);
    };
    let metrics = Metrics::serve(listening.observability.metrics, Arc::new(write)).await?;
    told.extend(metrics.as_ref().map(|metrics| format!("  metrics  {}\n", metrics.url())));
    start_block(gateway.local_addr(), &told).map_err(Failure::output)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    tell_descriptor_limit(descriptors);

    let (stop, stopped) = tokio::sync::oneshot::channel();
    let serving = gateway.serve(async { drop(stopped.await) });
    let signalled = async {
        signals.next().await;
        tracing::info!("stopping: finishing requests in flight; a second signal stops at once");
        let _ = stop.send(());
        signals.next().await
    };
    let ended = tokio::select! {
        () = serving => Ok(()),
        failure = signalled => Err(failure),
    };
    reloading.abort();
    watching.inspect(tokio::task::JoinHandle::abort);
    ended
}

/// Raises the limit of descriptors to the system's maximum, and returns it. The usual soft limit of 1,024 is
/// meant for programs that call select(), and is below the gateway's own limits.
pub(super) fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "can't raise the limit of open files");
    }
    let descriptors = getrlimit(Resource::Nofile).current; // `None` means unlimited
    descriptors.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX)
}

/// Logs the limit of descriptors.
pub(super) fn tell_descriptor_limit(descriptors: usize) {
    tracing::info!(descriptors, "limit of this process's open files and connections");
}

/// Prints the start-up block of a gateway that is ready.
fn start_block(address: SocketAddr, told: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "strait {} serves on {address}\n{told}", env!("CARGO_PKG_VERSION"))?;
    out.flush()
}

/// Checks that the address is free, before anything is created that only serving needs. It doesn't listen, so
/// no client can connect and mistake this for the gateway.
///
/// # Errors
/// Another process listens there, or this host doesn't have this address.
pub(super) fn demand_free(address: SocketAddr) -> Result<(), Failure> {
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // As for the gateway's own socket: connections of an earlier process don't block the address.
        socket.set_reuseaddr(true)?;
        socket.bind(address)
    };
    bind().map_err(|error| Failure::listening(error, address, "--listen"))
}

/// Access to the gateway.
pub struct Door {
    access: Access,
    loopback: bool,
}

impl Door {
    pub fn open(listening: &Listening) -> Result<Self, Failure> {
        let loopback = listening.listen.ip().is_loopback();
        if !loopback && listening.passwords.is_none() && !listening.allow_anonymous {
            return Err(Failure::usage(format!(
                "--listen {}: other hosts can reach this address; give --passwords FILE, --allow-anonymous to \
                 admit every client, or listen on 127.0.0.1",
                listening.listen
            )));
        }
        let passwords = match &listening.passwords {
            Some(file) => Some(PasswordFile::load(file).map_err(Failure::other)?),
            None => None,
        };
        let without_login = || match &listening.anonymous_user {
            Some(name) => Principal::new(name),
            None if loopback => invoking_user(),
            None => Principal::new(NOBODY),
        };
        let anonymous = listening.allow_anonymous.then(without_login);
        // Beyond loopback, a password file or anonymous access is required. The overflow id identifies no
        // user.
        let knows_own_user = rustix::process::geteuid().as_raw() != overflow_user();
        let starter =
            (!listening.allow_anonymous && passwords.is_none() && knows_own_user).then(without_login);
        Ok(Self { access: Access { passwords, anonymous, starter, homes: None }, loopback })
    }

    /// Creates a home directory in this store for each user who can log in.
    pub fn with_homes(mut self, homes: Homes) -> Self {
        self.access.homes = Some(homes);
        self
    }

    /// Whether users log in by password.
    pub fn has_passwords(&self) -> bool {
        self.access.passwords.is_some()
    }

    /// Warnings for the operator.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(anybody) = &self.access.anonymous {
            let who = if self.loopback { "every program of every user of this host" } else { "everybody" };
            warnings.push(format!("--allow-anonymous: {who} acts as {} without a login", anybody.user));
        }
        if self.access.starter.is_some() && rustix::process::geteuid().is_root() {
            warnings.push(
                "this gateway runs as root and asks root's programs for no login: all clients of a proxy or \
                 port forwarder of root act as root; run the gateway as another user, or with --passwords FILE"
                    .to_owned(),
            );
        }
        let Access { passwords, anonymous, starter, .. } = &self.access;
        if passwords.is_none() && anonymous.is_none() && starter.is_none() {
            warnings.push(format!(
                "this gateway serves no client: it runs as user {}, which the kernel also shows for users \
                 without a number here; run it as another user, or with --passwords FILE",
                overflow_user()
            ));
        }
        warnings
    }

    /// A warning if no client can log in with a password at this address: logins need loopback or TLS.
    fn shut_to(&self, address: SocketAddr, tls: bool) -> Option<String> {
        if self.loopback || tls || !self.has_passwords() {
            return None;
        }
        Some(match address.ip().is_unspecified() {
            true => "no client beyond this host can log in here, and programs of this host only over \
                     loopback: give --tls-cert and --tls-key"
                .to_owned(),
            false => format!("no client can log in at {address}: give --tls-cert and --tls-key"),
        })
    }

    /// The start-up block's lines on stores and users.
    fn told(&self, stores: &[Opened]) -> String {
        let mut told = String::new();
        for (index, Opened { store, away, read_only }) in stores.iter().enumerate() {
            let default = if index == 0 && stores.len() > 1 { " (default)" } else { "" };
            // Writing to a String never fails.
            let _ = writeln!(told, "  store    {} = {}{default}", store.name, store.uri);
            if let Some(why) = away {
                let _ = writeln!(told, "           unavailable; retrying until it answers: {why}");
                continue;
            }
            let capabilities = store.fs.capabilities();
            let flags = capabilities.flags();
            let has: Vec<&str> = flags.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
            let _ = writeln!(told, "           can: {}", has.join(" "));
            if let Some(why) = read_only {
                let _ = writeln!(told, "           read-only: {}", why.message());
            }
            if !capabilities.per_user {
                // HADOOP_USER_NAME doesn't affect files of this host.
                let user = match store.uri.starts_with("file:") {
                    true => process_user(),
                    false => invoking_user().user.to_string(),
                };
                let _ = writeln!(told, "           single identity: all clients act as {user}");
            }
        }
        if self.access.passwords.is_some() {
            told.push_str("  login    by password, over loopback or TLS only\n");
        }
        let _ = match &self.access {
            Access { anonymous: Some(anybody), .. } => {
                let where_from = if self.loopback { "from this host" } else { "from anywhere" };
                writeln!(told, "  no login anybody {where_from} acts as {}", anybody.user)
            }
            Access { starter: Some(starter), .. } => {
                let own = process_user();
                writeln!(told, "  no login programs of {own} on this host act as {}", starter.user)
            }
            Access { .. } => writeln!(told, "  login    required"),
        };
        told
    }
}

fn tls(listening: &Listening) -> Result<Option<Arc<Tls>>, Failure> {
    let (Some(certificate), Some(key)) = (&listening.tls_cert, &listening.tls_key) else { return Ok(None) };
    let files = TlsFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        client_ca: listening.tls_client_ca.clone(),
        client_crl: listening.tls_client_crl.clone(),
    };
    Ok(Some(Arc::new(Tls::load(files).map_err(Failure::other)?)))
}

/// The start-up block's lines about TLS, and a warning if the certificate expires soon.
fn tls_told(tls: &Tls, listening: &Listening, now: SystemTime) -> (String, Option<String>) {
    let certificate = tls.certificate();
    let (end, is_urgent) = certificate_end(&certificate, now);
    let mut told = format!("  tls      as {}; the certificate {end}\n", certificate.names.join(", "));
    // Writing to a String never fails.
    let _ = match &listening.tls_client_ca {
        Some(ca) => writeln!(told, "           every client needs a certificate of {}", ca.display()),
        None => writeln!(told, "           serves clear text to this host only"),
    };
    (told, is_urgent.then(|| certificate_warning(&end)))
}

fn certificate_warning(end: &str) -> String {
    format!("the TLS certificate {end}; replace its file, and the gateway rereads it")
}

/// The warning that a revocation list has expired.
fn lists_warning(end: Option<SystemTime>, now: SystemTime) -> Option<String> {
    let end = end.filter(|end| *end < now)?;
    let date = chrono::DateTime::<chrono::Utc>::from(end).format("%Y-%m-%d %H:%M UTC");
    Some(format!(
        "a list in --tls-client-crl EXPIRED at {date}: certificates revoked since then are accepted; \
         replace the list, and the gateway rereads it"
    ))
}

/// Warns about a certificate that expires soon, and about revocation lists that have expired: after the
/// gateway rereads them, when a list expires, and once a day.
async fn watch_certificate(tls: Arc<Tls>) {
    let has_expired = |end: Option<SystemTime>| end.is_some_and(|end| end < SystemTime::now());
    let state = || (tls.certificate(), tls.lists_end(), has_expired(tls.lists_end()));
    let (mut known, mut looked) = (state(), Instant::now());
    loop {
        tokio::time::sleep(CERTIFICATE_LOOK).await;
        let state = state();
        if state == known && looked.elapsed() < Duration::from_secs(DAY_SECONDS) {
            continue;
        }
        let (end, is_urgent) = certificate_end(&state.0, SystemTime::now());
        if is_urgent {
            tracing::warn!("{}", certificate_warning(&end));
        }
        if let Some(warning) = lists_warning(state.1, SystemTime::now()) {
            tracing::warn!("{warning}");
        }
        (known, looked) = (state, Instant::now());
    }
}

/// The certificate's expiry as text (or its start, if that lies ahead), and whether the operator must act.
fn certificate_end(certificate: &CertificateFacts, now: SystemTime) -> (String, bool) {
    let utc = chrono::DateTime::<chrono::Utc>::from;
    if now < certificate.begins {
        let begins = utc(certificate.begins).format("%Y-%m-%d %H:%M UTC");
        return (format!("is NOT VALID before {begins}: clients refuse it"), true);
    }
    let date = utc(certificate.expires).format("%Y-%m-%d");
    match certificate.expires.duration_since(now) {
        Err(_) => (format!("EXPIRED on {date}: clients refuse it"), true),
        Ok(left) => {
            let (count, unit) = match left.as_secs() / DAY_SECONDS {
                0 => (left.as_secs() / HOUR_SECONDS, "hour"),
                days => (days, "day"),
            };
            let plural = if count == 1 { "" } else { "s" };
            (format!("expires in {count} {unit}{plural}, on {date}"), left < EXPIRES_SOON)
        }
    }
}

fn local_root(path: &Path) -> Result<LocalRoot, Failure> {
    let path = path.canonicalize().map_err(|error| Failure::local(error, "open --local-root", path))?;
    let fs = FileStore::open(&path, false)?;
    Ok(LocalRoot { path, fs: Arc::new(fs), umask: umask() })
}

/// The key in `file`, which is created if missing; without a file, a random key.
fn token_key(file: Option<&Path>) -> Result<[u8; 32], Failure> {
    let Some(path) = file else { return random() };
    let failed = |error| Failure::local(error, "open --token-key", path);
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            let key = random()?;
            file.write_all(&key).and_then(|()| file.sync_all()).map_err(failed)?;
            return Ok(key);
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    let mut key = [0; 32];
    let mut file = secret_file::open(path, "token key")?;
    let bytes = file.metadata().map_err(failed)?.len();
    if bytes != key.len() as u64 {
        return Err(Failure::other(format!("token key {}: it has {bytes} bytes, not 32", path.display())));
    }
    file.read_exact(&mut key).map_err(failed)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_at_an_address_that_admits_none_cause_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("passwords");
        PasswordFile::set(&file, "alice", "secret").unwrap();
        let warning = |address: &str, tls: bool| {
            let address: SocketAddr = address.parse().unwrap();
            let access = Access { passwords: Some(PasswordFile::load(&file).unwrap()), ..Access::default() };
            Door { access, loopback: address.ip().is_loopback() }.shut_to(address, tls)
        };
        let told = "no client can log in at 192.0.2.1:9406: give --tls-cert and --tls-key";
        assert_eq!(warning("192.0.2.1:9406", false).as_deref(), Some(told));
        assert!(warning("0.0.0.0:9406", false).is_some_and(|told| told.contains("beyond this host")));
        assert_eq!(warning("192.0.2.1:9406", true), None);
        assert_eq!(warning("127.0.0.1:9406", false), None);
    }

    #[test]
    fn a_gateway_that_can_serve_no_client_says_so() {
        let warnings = |access| Door { access, loopback: true }.warnings();
        assert!(warnings(Access::default()).iter().any(|told| told.contains("serves no client")));
        let anonymous = Access { anonymous: Some(Principal::new("somebody")), ..Access::default() };
        assert!(!warnings(anonymous).iter().any(|told| told.contains("serves no client")));
    }

    #[test]
    fn a_certificate_that_begins_later_needs_action() {
        let day = Duration::from_secs(DAY_SECONDS);
        let at = |days: u32| SystemTime::UNIX_EPOCH + days * day;
        let certificate = CertificateFacts { names: vec![], begins: at(10), expires: at(400) };
        let (told, is_urgent) = certificate_end(&certificate, at(9));
        assert_eq!(told, "is NOT VALID before 1970-01-11 00:00 UTC: clients refuse it");
        assert!(is_urgent);
        assert_eq!(
            certificate_end(&certificate, at(10)),
            ("expires in 390 days, on 1971-02-05".into(), false)
        );
    }
}
