//! Flags of `ckpt`.

use super::{Operands, operand};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct Ckpt {
    #[command(subcommand)]
    pub action: CkptAction,
}

#[derive(Debug, Subcommand)]
pub enum CkptAction {
    /// List a logical file's writers: rank, nonce, bytes, index entries, epoch, state, host and process
    Ls(Operands),
    /// Print which writer wrote each range of a logical file: offset, length, rank, nonce
    Map(Map),
    /// Compare all logs of a logical file with their checksums
    Check(Operands),
    /// End the logs of crashed writers of a logical file, so that their synced bytes are readable
    Recover(Operands),
    /// Turn a logical file into a plain file of the same store, without copying bytes where possible
    Flatten(Flatten),
    /// Convert a container of PLFS 2.5 into a logical file
    Import(Convert),
    /// Convert a logical file into a container of PLFS 2.5
    Export(Convert),
}

#[derive(Debug, Args)]
pub struct Convert {
    /// The container to convert; it isn't changed.
    #[arg(value_name = "URI", value_parser = operand())]
    pub uri: String,
    /// The new container's URI, in any store, or just a path in the same store.
    #[arg(value_name = "TARGET")]
    pub target: String,
}

#[derive(Debug, Args)]
pub struct Map {
    /// Draw the map as an SVG picture in this local file instead, a row for each writer.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// A logical file.
    #[arg(value_name = "URI", value_parser = operand())]
    pub uri: String,
}

#[derive(Debug, Args)]
pub struct Flatten {
    /// Copy the bytes, and keep the logical file.
    #[arg(long)]
    pub keep: bool,
    /// A logical file.
    #[arg(value_name = "URI", value_parser = operand())]
    pub uri: String,
    /// The new file's URI, or just its path. It may be the logical file's own name.
    #[arg(value_name = "TARGET")]
    pub target: String,
}
