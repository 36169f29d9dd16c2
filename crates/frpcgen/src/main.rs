//! The command: `frpcgen foo.x -o foo.rs`, and `frpcgen --lang c foo.x`.

use frpcgen::{Builder, Generated, Output, Style};
use lexopt::prelude::*;
use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
Compiles an interface in the RPC language (as for rpcgen) to Rust or C.

Usage: frpcgen [OPTIONS] FILE.x

  -o FILE           write to FILE; without -o, a single output goes to standard output
  -I DIR            also search DIR for included files
  -D NAME[=VALUE]   define a preprocessor symbol (VALUE is 1 by default)
      --types FILE  for Rust: take types and numbers that the source uses but doesn't
                    define from FILE, for example typedef unsigned hyper time_t;
      --lang LANG   rust (the default) or c
      --help        show this text; -h without FILE.x does so, too
  -V, --version     show the version

Options for C code over <flexrpc.h>, with rpcgen's names. Each of them implies --lang c.
Without an output option, frpcgen writes FILE.h, FILE_xdr.c, FILE_clnt.c and FILE_svc.c
to the current directory.

  -h                write only the header
  -c                write only the XDR routines
  -l                write only the caller's functions
  -m                write only the callee's dispatch functions, without main
  -Sc, -Ss          write sample code of a caller (-Sc) or of a callee (-Ss)
  -N                allow several arguments, and pass arguments by value
  -M                return results in the caller's memory, so that threads can share the code
  -C, -i N, -Y DIR  no effect: the code is always ANSI C, and frpcgen has its own preprocessor
";

/// For an option of rpcgen that frpcgen lacks: the reason, or what to use instead.
fn absent(option: char) -> Option<&'static str> {
    Some(match option {
        'a' => "run frpcgen with --lang c, then with -Sc and with -Ss",
        'b' | 'k' | '5' => "frpcgen writes only ANSI C over flexrpc.h",
        'K' => "the server doesn't exit when it is idle",
        'L' => "the server writes its errors to standard error",
        'n' | 's' => "each server answers over TCP and UDP",
        't' | 'T' => "frpcgen writes no dispatch tables",
        _ => return None,
    })
}

fn main() -> ExitCode {
    match run(env::args_os().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The C outputs and the style that the command line asks for.
#[derive(Default)]
struct AsC {
    chosen: bool,
    outputs: Vec<Output>,
    style: Style,
}

impl AsC {
    /// Takes one of rpcgen's options. Returns false for an unknown one.
    fn take(&mut self, option: char, value: &str) -> bool {
        match (option, value) {
            ('h', _) => self.outputs.push(Output::Header),
            ('c', _) => self.outputs.push(Output::Xdr),
            ('l', _) => self.outputs.push(Output::Client),
            ('m', _) => self.outputs.push(Output::Dispatch),
            ('S', "c") => self.outputs.push(Output::SampleClient),
            ('S', "s") => self.outputs.push(Output::SampleServer),
            ('N', _) => self.style.by_value = true,
            ('M', _) => self.style.threads = true,
            _ => return false,
        }
        self.chosen = true;
        true
    }

    fn write(&self, builder: &Builder, input: &Path, output: Option<PathBuf>) -> Result<(), Box<dyn Error>> {
        match (self.outputs.as_slice(), output) {
            ([], Some(_)) => Err("-o needs one output: -h, -c, -l, -m, -Sc or -Ss".into()),
            ([], None) => {
                let stem = input.file_stem().unwrap_or_default().to_string_lossy();
                let all = [Output::Header, Output::Xdr, Output::Client, Output::Server];
                let all = all.map(|one| Ok((one, builder.generate_c(input, one, self.style)?)));
                for (one, code) in all.into_iter().collect::<Result<Vec<_>, frpcgen::Error>>()? {
                    written(Some(PathBuf::from(one.file_name(&stem))), &code)?;
                }
                Ok(())
            }
            ([one @ (Output::SampleClient | Output::SampleServer)], Some(path)) => {
                // Don't overwrite an existing sample, since people edit samples by hand.
                let code = builder.generate_c(input, *one, self.style)?;
                let made = File::create_new(&path).and_then(|mut file| file.write_all(code.as_bytes()));
                made.map_err(|error| format!("{}: {error}", path.display()).into())
            }
            ([one], output) => written(output, &builder.generate_c(input, *one, self.style)?),
            _ => Err("one output at a time: -h, -c, -l, -m, -Sc or -Ss".into()),
        }
    }
}

fn run(arguments: Vec<OsString>) -> Result<(), Box<dyn Error>> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut builder = Builder::default();
    let (mut input, mut output, mut c) = (None, None, AsC::default());
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
                "c" => c.chosen = true,
                other => return Err(format!("unknown output language '{other}': use rust or c").into()),
            },
            Long("help") => return written(None, USAGE),
            Short('V') | Long("version") => {
                println!("frpcgen {}", env!("CARGO_PKG_VERSION"));
                return Ok(());
            }
            Short('S') => {
                let which = parser.value()?.string()?;
                if !c.take('S', &which) {
                    return Err(format!("unknown option -S{which}: use -Sc or -Ss").into());
                }
            }
            Short(option) if c.take(option, "") => {}
            Short('C') => c.chosen = true,
            Short('i' | 'Y') => {
                parser.value()?;
                c.chosen = true;
            }
            Short(option) if let Some(why) = absent(option) => {
                return Err(format!("frpcgen lacks rpcgen's -{option}: {why}").into());
            }
            Value(file) if input.is_none() => input = Some(PathBuf::from(file)),
            unexpected => return Err(unexpected.unexpected().into()),
        }
    }
    let Some(input) = input else {
        let asks = c.outputs == [Output::Header];
        return if asks {
            written(None, USAGE)
        } else {
            Err("no input file: frpcgen FILE.x -o FILE.rs, or frpcgen --lang c FILE.x (-I takes a directory)"
                .into())
        };
    };
    if c.chosen {
        return c.write(&builder, &input, output);
    }
    let Generated { code, warnings } = builder.generate(input)?;
    warnings.iter().for_each(|warning| eprintln!("{warning}"));
    written(output, &code)
}

fn written(output: Option<PathBuf>, code: &str) -> Result<(), Box<dyn Error>> {
    match output {
        Some(path) => fs::write(&path, code).map_err(|error| format!("{}: {error}", path.display()).into()),
        // Don't use print!, which panics if the reader has ended, as in `frpcgen foo.x | head`.
        None => match io::stdout().write_all(code.as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => Ok(written?),
        },
    }
}
