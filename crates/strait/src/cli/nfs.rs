//! Flags of `nfs`.

use super::{operand, resolve};
use clap::Args;
use std::net::SocketAddr;

#[derive(Debug, Args)]
pub struct Nfs {
    /// The directory of a store, such as kadoop://HOST:PORT/path; clients mount it as /.
    #[arg(long, value_name = "URI", value_parser = operand())]
    pub store: String,
    /// The TCP address for both programs, NFS and MOUNT.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:2049", value_parser = resolve)]
    pub listen: SocketAddr,
    /// Let user number N of a client's host act as NAME in the store [default: the name that this host has
    /// for the number]. Repeatable.
    #[arg(long, value_name = "N=NAME", value_parser = mapping)]
    pub map_uid: Vec<(u32, String)>,
    /// Let root act as the store's user root; otherwise root acts as nobody.
    #[arg(long)]
    pub no_root_squash: bool,
    /// Trust the user number in each call. Needed to listen beyond loopback, where nothing proves the number:
    /// every host that reaches the port can act as any user.
    #[arg(long)]
    pub trust_uids: bool,
    /// Register with this host's rpcbind, so that clients find the port by themselves.
    #[arg(long)]
    pub rpcbind: bool,
}

fn mapping(text: &str) -> Result<(u32, String), String> {
    let parts = text.split_once('=').and_then(|(number, name)| Some((number.parse().ok()?, name)));
    let parts = parts.filter(|(_, name)| !name.is_empty());
    parts.map(|(number, name)| (number, name.to_owned())).ok_or_else(|| "give N=NAME: 1000=ada".to_owned())
}
