//! The command: `frpcgen foo.x -o foo.rs`.

use frpcgen::{Builder, Generated};
use lexopt::prelude::*;
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

const USAGE: &str = "\
Compiles an interface in the RPC language (as for rpcgen) to Rust.

Usage: frpcgen [OPTIONS] FILE.x

  -o FILE           write here; to standard output without it
  -I DIR            look for included files here, too
  -D NAME[=VALUE]   define a preprocessor symbol (1 without a value)
      --types FILE  take types and numbers that the source mentions and doesn't
                    define from here: typedef unsigned hyper time_t;
      --lang rust   the output language; rust is the only one
  -h, --help        this text
  -V, --version     the version
";

fn main() -> ExitCode {
    match run(env::args_os().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Vec<OsString>) -> Result<(), Box<dyn Error>> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut builder = Builder::default();
    let (mut input, mut output) = (None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Short('o') => output = Some(PathBuf::from(parser.value()?)),
            Short('I') => builder = builder.include_dir(PathBuf::from(parser.value()?)),
            Short('D') => {
                let symbol = parser.value()?.string()?;
                let (name, value) = symbol.split_once('=').unwrap_or((&symbol, "1"));
                builder = builder.define(name, value);
            }
            Long("types") => builder = builder.types(PathBuf::from(parser.value()?)),
            Long("lang") => match parser.value()?.string()?.as_str() {
                "rust" => {}
                other => return Err(format!("no output language '{other}'; there is rust").into()),
            },
            Short('h') | Long("help") => {
                print!("{USAGE}");
                return Ok(());
            }
            Short('V') | Long("version") => {
                println!("frpcgen {}", env!("CARGO_PKG_VERSION"));
                return Ok(());
            }
            Value(file) if input.is_none() => input = Some(PathBuf::from(file)),
            unexpected => return Err(unexpected.unexpected().into()),
        }
    }
    let input = input.ok_or("no input file: frpcgen FILE.x -o FILE.rs")?;
    let Generated { code, warnings } = builder.generate(input)?;
    warnings.iter().for_each(|warning| eprintln!("{warning}"));
    match output {
        Some(path) => fs::write(&path, code).map_err(|error| format!("{}: {error}", path.display()).into()),
        // Not print!, which panics if the reader has gone, as in `frpcgen foo.x | head`.
        None => match io::stdout().write_all(code.as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => Ok(written?),
        },
    }
}
