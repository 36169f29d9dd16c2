//! The `strait` command. Only this crate reads flags and configuration. It connects the crates below, and
//! prints.
//!
//! ```text
//!   cli ─ parsed flags ─→ commands ─→ context ─ URI ─→ a store
//!                              │            └ login, tokens
//!                              └→ output, progress; Failure → messages: one line; exit code
//! ```
//!
//! This room must never: hold logic of a store or of the gateway; show a password or a token; leave
//! half a file under the requested name.

mod accounts;
mod cli;
mod commands;
mod context;
mod failure;
mod format;
mod glob;
mod help;
mod lent_logins;
mod logging;
mod malgen;
mod messages;
mod metrics;
mod output;
mod password;
mod progress;
mod random;
mod relative;
mod secret_file;
mod signals;
mod tally;
mod tokens;
mod waiting;

use cli::Cli;
use failure::Failure;
use messages::Messages;
use std::process::ExitCode;
use strait_gateway::Limits;

/// A gateway allocates and frees chunks of up to 4 MiB continually on many threads. Under such a load, the C
/// library's allocator holds several times the memory in use.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let messages = Messages { json: std::env::args_os().any(|argument| argument == "--json") };
    let done = Cli::read(messages.json).and_then(|cli| {
        logging::to_stderr(cli.log_level());
        run(cli)
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            messages.tell(&failure);
            failure.exit_code()
        }
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    if cli.command.is_server() {
        // With huge pages, a touched buffer of 1 MiB takes 2 MiB, and a gateway with many clients takes a
        // third more memory.
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
    // A server uses every core. A client mostly waits, and threads would only delay its start.
    let mut builder = match cli.command.is_server() {
        true => tokio::runtime::Builder::new_multi_thread(),
        false => tokio::runtime::Builder::new_current_thread(),
    };
    if let Some(stores) = cli.command.stores_served() {
        builder.max_blocking_threads(Limits::default().blocking_threads(stores));
    }
    let runtime = builder
        .enable_all()
        .build()
        .map_err(|error| Failure::other(format!("can't start the threads of the async runtime: {error}")))?;
    let result = runtime.block_on(commands::run(cli));
    // Don't wait for a thread that reads from a terminal.
    runtime.shutdown_background();
    result
}
