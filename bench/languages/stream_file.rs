//! `stream_file read|write HOST:PORT PATH MIB [CA]`: as `stream_file.cpp`, with the Rust client.

use std::io::{Read, Write};
use strait_client::blocking::Client;
use strait_client::{CreateOptions, Options, TlsOptions};

const PIECE_BYTES: usize = 1 << 20;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [action, gateway, path, mib, authority @ ..] = given.as_slice() else {
        return Err("usage: stream_file read|write HOST:PORT PATH MIB [CA]".into());
    };
    let tls = authority.first().map(|file| TlsOptions { ca: Some(file.into()), identity: None });
    let client = Client::connect(gateway, Options { tls, ..Options::default() })?;
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    let work = if action == "read" { read } else { write };
    work(&client, path, mib.parse()?)?;
    println!("done");
    Ok(client.close()?)
}

fn read(client: &Client, path: &str, mib: usize) -> Result<()> {
    let mut reader = client.open(path)?;
    let (mut piece, mut bytes) = (vec![0; PIECE_BYTES], 0);
    loop {
        match reader.read(&mut piece)? {
            0 if bytes == mib << 20 => return Ok(()),
            0 => return Err(format!("another length: {bytes}").into()),
            count => bytes += count,
        }
    }
}

fn write(client: &Client, path: &str, mib: usize) -> Result<()> {
    let mut writer = client.create(path, &CreateOptions::default())?;
    let piece = vec![7; PIECE_BYTES];
    for _ in 0..mib {
        writer.write_all(&piece)?;
    }
    Ok(writer.close()?)
}
