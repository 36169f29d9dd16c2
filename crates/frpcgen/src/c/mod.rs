//! Writes C code as rpcgen does, over `flexrpc.h`.
//!
//! As with rpcgen, the C compiler resolves names: constants, limits and foreign types keep the names that
//! they have in the source, and lines with `%` go to all outputs. So the input for C is the syntax tree, and
//! not the checked model.

mod client;
mod codec;
mod definitions;
mod header;
mod names;
mod order;
mod procedures;
mod server;

use crate::MAX_NESTING;
use crate::diagnostic::{Diagnostic, Diagnostics, MAX_SHOWN};
use crate::source::Sources;
use crate::syntax::{BaseKind, Body, Declaration, Definition, Shape};
use std::collections::HashMap;

/// One of the files that rpcgen writes for `foo.x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// `foo.h`, rpcgen's `-h`.
    Header,
    /// `foo_xdr.c`, `-c`.
    Xdr,
    /// `foo_clnt.c`, `-l`.
    Client,
    /// `foo_svc.c`: dispatch functions and a `main`.
    Server,
    /// `-m`: dispatch functions without a `main`.
    Dispatch,
    /// `-Sc`: a sample program that calls each procedure, as a starting point.
    SampleClient,
    /// `-Ss`: sample procedures that are empty, as a starting point.
    SampleServer,
}

/// How C programs pass arguments and results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// `-N`: several arguments, passed by value.
    pub by_value: bool,
    /// `-M`: the caller passes the result's address, so that threads can share the code.
    pub threads: bool,
}

impl Output {
    /// The preprocessor symbol that rpcgen defines for this output.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Header => "RPC_HDR",
            Self::Xdr => "RPC_XDR",
            Self::Client => "RPC_CLNT",
            Self::Server | Self::Dispatch => "RPC_SVC",
            Self::SampleClient | Self::SampleServer => "RPC_SAMPLE",
        }
    }

    /// The name of the file for `foo.x`, given `foo`.
    pub fn file_name(self, stem: &str) -> String {
        match self {
            Self::Header => format!("{stem}.h"),
            Self::Xdr => format!("{stem}_xdr.c"),
            Self::Client => format!("{stem}_clnt.c"),
            Self::Server | Self::Dispatch => format!("{stem}_svc.c"),
            Self::SampleClient => format!("{stem}_client.c"),
            Self::SampleServer => format!("{stem}_server.c"),
        }
    }
}

/// A source, and the data about it that code generation needs.
struct Unit<'a> {
    title: &'a str,
    stem: &'a str,
    style: Style,
    definitions: &'a [Definition],
    /// Lines for the C compiler, each with the number of definitions before it.
    lines: &'a [(usize, &'a str)],
    types: HashMap<&'a str, &'a Definition>,
}

/// The code of one output.
pub fn generate(
    sources: &Sources,
    (title, stem): (&str, &str),
    definitions: &[Definition],
    lines: &[(usize, &str)],
    (output, style): (Output, Style),
) -> Result<String, Diagnostics> {
    let errors = errors(sources, definitions, style);
    if !errors.is_empty() {
        return Err(sources.in_order(errors));
    }
    let is_type =
        |definition: &&Definition| !matches!(definition.body, Body::Constant(_) | Body::Program { .. });
    let types = definitions.iter().filter(is_type);
    let types = types.map(|definition| (definition.name.text.as_str(), definition)).collect();
    let unit = Unit { title, stem, style, definitions, lines, types };
    Ok(match output {
        Output::Header => header::header(&unit),
        Output::Xdr => codec::file(&unit),
        Output::Client => client::file(&unit),
        Output::Server => server::file(&unit, true),
        Output::Dispatch => server::file(&unit, false),
        Output::SampleClient => client::sample(&unit),
        Output::SampleServer => server::sample(&unit),
    })
}

impl Unit<'_> {
    /// The beginning of a C file that includes the header.
    fn prologue(&self, includes: &str) -> String {
        let (title, stem) = (self.title, self.stem);
        let mut out = format!(
            "/*\n * Written by frpcgen from {title}; changes belong there.\n */\n\n#include \"{stem}.h\"\n{includes}"
        );
        self.lines.iter().for_each(|(_, line)| out += &passed_on(line));
        out
    }

    /// Whether a type is an array, which C can't assign, and passes by its address.
    fn is_array(&self, kind: &BaseKind, shape: &Shape) -> bool {
        match (shape, kind) {
            (Shape::Fixed(_), _) => true,
            (Shape::Plain, BaseKind::Named(name)) => self.is_array_type(name),
            _ => false,
        }
    }

    fn is_array_type(&self, name: &str) -> bool {
        let mut name = name;
        // The C compiler reports circles of typedefs.
        for _ in 0..MAX_NESTING {
            match self.types.get(name).map(|definition| &definition.body) {
                Some(Body::Typedef(Declaration { shape: Shape::Fixed(_), .. })) => return true,
                Some(Body::Typedef(Declaration { shape: Shape::Plain, base, .. })) => match &base.kind {
                    BaseKind::Named(aliased) => name = aliased,
                    _ => return false,
                },
                _ => return false,
            }
        }
        false
    }
}

/// A line for the C compiler, as it goes to the output. Drops includes of RPC headers, which flexrpc.h
/// replaces. Also drops the identification strings of Sun and FreeBSD: compilers warn about them, or refuse
/// them.
fn passed_on(line: &str) -> String {
    let words = line.trim_start().trim_start_matches('#').trim_start();
    let header = words.strip_prefix("include").map(|rest| rest.trim_start().trim_start_matches(['<', '"']));
    const REPLACED: [&str; 10] = [
        "rpc/rpc.h",
        "rpc/types.h",
        "rpc/xdr.h",
        "rpc/auth.h",
        "rpc/auth_unix.h",
        "rpc/clnt.h",
        "rpc/svc.h",
        "rpc/rpc_msg.h",
        "rpc/pmap_clnt.h",
        "rpc/pmap_prot.h",
    ];
    if header.is_some_and(|header| REPLACED.iter().any(|known| header.starts_with(known))) {
        return String::new();
    }
    let mut directive = words.split_whitespace();
    let pragma = (directive.next(), directive.next());
    if matches!(pragma, (Some("pragma"), Some("ident")) | (Some("ident"), _))
        || words.starts_with("__FBSDID(")
    {
        return String::new();
    }
    format!("{line}\n")
}

/// Errors for declarations that the grammar allows but C can't express.
fn errors(sources: &Sources, definitions: &[Definition], style: Style) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    for definition in definitions {
        for declaration in definitions::declarations(&definition.body) {
            let why = match (&declaration.base.kind, &declaration.shape) {
                (BaseKind::Opaque, Shape::Plain | Shape::Optional) => {
                    "opaque data needs a length: name[n], name<n> or name<>"
                }
                (BaseKind::Text, Shape::Plain | Shape::Optional | Shape::Fixed(_)) => {
                    "a string has a variable length: name<n> or name<>"
                }
                _ => continue,
            };
            errors.push(sources.error(declaration.name.span, why));
        }
        if let (Body::Program { versions, .. }, false) = (&definition.body, style.by_value) {
            let all = versions.iter().flat_map(|version| &version.procedures);
            let several = all.filter(|procedure| procedure.arguments.len() > 1);
            let why = "several arguments need -N";
            errors.extend(several.map(|procedure| sources.error(procedure.name.span, why)));
        }
    }
    errors.truncate(MAX_SHOWN);
    errors
}
