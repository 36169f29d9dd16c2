//! Servers with the protocols of object stores.

use crate::failure::{Failure, Result};
use crate::{Process, free_port};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The bucket that every server has.
pub const OBJECT_BUCKET: &str = "strait";
/// Azurite's account.
pub const AZURE_ACCOUNT: &str = "strait";
/// The key of Azurite's account.
pub const AZURE_KEY: &str = "c3RyYWl0LXNlY3JldA==";
/// A program for Node that makes a container, since object_store has no call for that. Azurite needs Node
/// anyway.
const MAKE_CONTAINER: &str = r#"
const [port, account, key, container] = process.argv.slice(1);
const date = new Date().toUTCString();
const resource = `/${account}/${account}/${container}\nrestype:container`;
const text = `PUT${"\n".repeat(12)}x-ms-date:${date}\nx-ms-version:2020-10-02\n${resource}`;
const signed = require("crypto").createHmac("sha256", Buffer.from(key, "base64")).update(text).digest("base64");
const Authorization = `SharedKey ${account}:${signed}`;
const headers = { "x-ms-date": date, "x-ms-version": "2020-10-02", "Content-Length": 0, Authorization };
const path = `/${account}/${container}?restype=container`;
const made = (answer) => process.exit(answer.statusCode === 201 ? 0 : 1);
require("http").request({ host: "127.0.0.1", port, method: "PUT", path, headers }, made).end();
"#;
/// Longest wait for a server's start. Even a server in Python starts within seconds, also on a loaded
/// machine.
const START_DEADLINE: Duration = Duration::from_secs(90);

/// A running server with one empty bucket, [`OBJECT_BUCKET`].
#[derive(Debug)]
pub struct ObjectServer {
    /// The server's process, so that tests can stop or kill it.
    pub process: Process,
    port: u16,
    _dir: tempfile::TempDir,
}

impl ObjectServer {
    /// moto, an S3 server in Python, as `s3_on_moto.py` starts it. None: it isn't installed
    /// (`scripts/setup.sh test` does that).
    ///
    /// # Errors
    /// It doesn't start.
    pub fn moto() -> Result<Option<Self>> {
        let Some(python) = python_with_moto() else { return Ok(None) };
        let server = Self::start("moto", |port, _| script(&python, "s3_on_moto.py", port))?;
        let made = crate::http_request("PUT", &server.address(), &format!("/{OBJECT_BUCKET}"))?;
        match made.status {
            200 => Ok(Some(server)),
            status => Err(Failure::new(format!("moto refuses to make a bucket: status {status}"))),
        }
    }

    /// A stand-in for Google's service, which `google_on_moto.py` provides on top of moto. None: moto isn't
    /// installed.
    ///
    /// # Errors
    /// It doesn't start.
    pub fn google_on_moto() -> Result<Option<Self>> {
        let Some(python) = python_with_moto() else { return Ok(None) };
        let server = Self::start("google_on_moto", |port, _| {
            let mut command = script(&python, "google_on_moto.py", port);
            command.arg(OBJECT_BUCKET);
            command
        });
        server.map(Some)
    }

    /// MinIO. None: STRAIT_TEST_MINIO doesn't name its program.
    ///
    /// # Errors
    /// It doesn't start.
    pub fn minio() -> Result<Option<Self>> {
        let Some(binary) = found("STRAIT_TEST_MINIO", None) else { return Ok(None) };
        let server = Self::start("minio", |port, dir| {
            let mut command = Command::new(&binary);
            command.args(["server", "--quiet", "--address", &format!("127.0.0.1:{port}")]).arg(dir);
            command.env("MINIO_ROOT_USER", "strait").env("MINIO_ROOT_PASSWORD", "strait-secret");
            command.env("MINIO_BROWSER", "off").env("MINIO_UPDATE", "off");
            command
        });
        server.map(Some)
    }

    /// Azurite, with the account [`AZURE_ACCOUNT`]. None: STRAIT_TEST_AZURITE doesn't name its program
    /// `azurite-blob`.
    ///
    /// # Errors
    /// It doesn't start, or makes no container.
    pub fn azurite() -> Result<Option<Self>> {
        let Some(binary) = found("STRAIT_TEST_AZURITE", None) else { return Ok(None) };
        let server = Self::start("azurite", |port, dir| {
            let mut command = Command::new(&binary);
            command.args([
                "--silent",
                "--skipApiVersionCheck",
                "--inMemoryPersistence",
                "--disableTelemetry",
            ]);
            command.args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()]).current_dir(dir);
            command.env("AZURITE_ACCOUNTS", format!("{AZURE_ACCOUNT}:{AZURE_KEY}"));
            command
        })?;
        let mut node = Command::new("node");
        node.args(["-e", MAKE_CONTAINER, &server.port.to_string(), AZURE_ACCOUNT, AZURE_KEY, OBJECT_BUCKET]);
        match node.status()?.success() {
            true => Ok(Some(server)),
            false => Err(Failure::new("Azurite refuses to make a container")),
        }
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    fn start(name: &str, command: impl FnOnce(u16, &Path) -> Command) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let data = dir.path().join("data");
        std::fs::create_dir_all(data.join(OBJECT_BUCKET))?;
        let port = free_port();
        let mut process = Process::spawn(name, command(port, &data), dir.path())?;
        process.wait_ready(START_DEADLINE, || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
        Ok(Self { process, port, _dir: dir })
    }
}

/// The Python beside the program `moto_server`.
fn python_with_moto() -> Option<PathBuf> {
    let binary = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv-s3/bin/moto_server");
    found("STRAIT_TEST_MOTO", Some(binary)).map(|binary| binary.with_file_name("python"))
}

/// Runs this crate's script as a server at the port.
fn script(python: &Path, name: &str, port: u16) -> Command {
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).arg(port.to_string());
    command
}

/// The program that the variable names or, if the variable isn't set, `or`. None: that program doesn't exist.
fn found(variable: &str, or: Option<PathBuf>) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).or(or).filter(|path| path.exists())
}
