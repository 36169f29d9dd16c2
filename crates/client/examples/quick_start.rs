//! The quick start of the crate's README.md, which has this text.

use std::io::{BufRead, Write};
use strait_client::blocking::Client;
use strait_client::{CreateOptions, ErrorKind, Options};

/// Writes a file at a gateway, reads it, and removes it.
pub fn greet(gateway: &str, mut out: impl Write) -> std::io::Result<()> {
    let client = Client::connect(gateway, Options::default())?;

    let mut writer = client.create("/example-rust/greeting.txt", &CreateOptions::default())?;
    writeln!(writer, "grüße")?;
    writer.close()?; // now it is on stable storage

    for line in client.open("/example-rust/greeting.txt")?.lines() {
        writeln!(out, "{}", line?)?;
    }
    for entry in client.list("/example-rust")? {
        let entry = entry?;
        writeln!(out, "{} has {} bytes", entry.name(), entry.length)?;
    }

    let error = client.stat("/example-rust/missing").unwrap_err();
    writeln!(out, "{} {error}", error.kind() == ErrorKind::NotFound)?;

    client.remove("/example-rust", true)?;
    client.close()?;
    Ok(())
}

fn main() -> std::io::Result<()> {
    greet("127.0.0.1:9090", std::io::stdout())
}
