//! `completion`.

use crate::cli::{Cli, Completion};
use crate::failure::Failure;
use crate::help;
use clap::CommandFactory;
use std::io::Write;

/// Writes the script to standard output.
pub fn completion(flags: &Completion) -> Result<(), Failure> {
    let mut command = help::arranged(Cli::command());
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut command, "strait", &mut script);
    let mut out = std::io::stdout().lock();
    out.write_all(&script).and_then(|()| out.flush()).map_err(Failure::output)
}
