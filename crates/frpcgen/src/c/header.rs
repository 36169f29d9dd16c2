//! `foo.h`: types, constants, and prototypes.

use super::definitions::declarations;
use super::names::OF_HEADERS;
use super::order::Order;
use super::procedures::Program;
use super::{Unit, passed_on};
use crate::syntax::{BaseKind, Body, Shape};
use std::fmt::Write as _;

/// The whole header.
pub fn header(unit: &Unit<'_>) -> String {
    let guard: String = unit.stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let guard = format!("FRPCGEN_{}_H", guard.to_ascii_uppercase());
    let mut order = Order::new(unit);
    let mut lines = unit.lines.iter().peekable();
    let mut programs = String::new();
    for (index, of) in unit.definitions.iter().enumerate() {
        while let Some((_, line)) = lines.next_if(|(at, _)| *at <= index) {
            order.out += &passed_on(line);
        }
        match &of.body {
            Body::Program { .. } => programs += &Program::new(unit, of).prototypes(),
            _ => order.write(of),
        }
    }
    let mut out = format!(
        "/*\n * Written by frpcgen from {}; changes belong there.\n */\n\n\
         #ifndef {guard}\n#define {guard}\n\n#include <flexrpc.h>\n{}\n\
         #ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
        unit.title,
        if of_headers(unit).any(|(name, _)| name.starts_with("in_")) {
            "#include <netinet/in.h>\n"
        } else {
            ""
        },
    );
    out += &order.out;
    lines.for_each(|(_, line)| out += &passed_on(line));
    out += &routines(unit);
    out += &programs;
    out + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n"
}

/// Types of C's headers that the source uses but doesn't define.
pub fn of_headers<'u>(unit: &'u Unit<'_>) -> impl Iterator<Item = (&'static str, &'static str)> + use<'u> {
    let is_used = |name: &str| {
        let mut all = unit.definitions.iter().flat_map(|definition| match &definition.body {
            Body::Program { versions, .. } => {
                let procedures = versions.iter().flat_map(|version| &version.procedures);
                procedures.flat_map(|procedure| procedure.result.iter().chain(&procedure.arguments)).collect()
            }
            body => declarations(body),
        });
        all.any(|declaration| matches!(&declaration.base.kind, BaseKind::Named(used) if used == name))
    };
    OF_HEADERS.into_iter().filter(move |(name, _)| !unit.types.contains_key(name) && is_used(name))
}

/// Prototypes of the XDR routines.
fn routines(unit: &Unit<'_>) -> String {
    let mut out = String::from("\n");
    for (name, _) in of_headers(unit) {
        let _ = writeln!(out, "extern bool_t xdr_{name}(XDR *, {name} *);");
    }
    for definition in unit.definitions {
        if !matches!(definition.body, Body::Constant(_) | Body::Program { .. } | Body::Foreign) {
            let name = &definition.name.text;
            let _ = writeln!(out, "extern bool_t xdr_{name}(XDR *, {});", parameter(unit, name));
        }
    }
    out
}

/// The type of a routine's second parameter. C passes arrays by their address, so they need no `*`.
pub fn parameter(unit: &Unit<'_>, name: &str) -> String {
    let is_array = unit.is_array(&BaseKind::Named(name.to_owned()), &Shape::Plain);
    if is_array { name.to_owned() } else { format!("{name} *") }
}
