//! `foo.h`: types, constants, and prototypes.

use super::names::{OF_HEADERS, number, quoted};
use super::order::Order;
use super::procedures::Program;
use super::{Unit, passed_on};
use crate::syntax::{BaseKind, Body, Constant, Declaration, Definition, Shape, Union, Value};
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

/// The declarations in a definition that isn't a program.
pub fn declarations(body: &Body) -> Vec<&Declaration> {
    match body {
        Body::Typedef(declaration) => vec![declaration],
        Body::Struct(fields) => fields.iter().collect(),
        Body::Union(union) => {
            let arms = union.arms.iter().filter_map(|arm| arm.declaration.as_ref());
            [&union.discriminant].into_iter().chain(arms).chain(union.default.iter().flatten()).collect()
        }
        _ => Vec::new(),
    }
}

/// Types of C's headers that the source uses and doesn't define.
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

/// One definition; a program has none of its own.
pub fn definition(unit: &Unit<'_>, of: &Definition) -> String {
    let name = &of.name.text;
    match &of.body {
        Body::Constant(Constant::Text(text)) => format!("#define {name} {}\n", quoted(text)),
        Body::Constant(Constant::Value(value)) => format!("#define {name} {}\n", constant(value)),
        Body::Constant(Constant::Sum(value, add)) => format!("#define {name} ({} + {add})\n", number(value)),
        Body::Enum(members) => {
            let mut out = format!("\nenum {name} {{\n");
            for (index, member) in members.iter().enumerate() {
                let value = member.value.as_ref().map(|value| format!(" = {}", number(value)));
                let comma = if index + 1 < members.len() { "," } else { "" };
                let _ = writeln!(out, "\t{}{}{comma}", member.name.text, value.unwrap_or_default());
            }
            out + &format!("}};\ntypedef enum {name} {name};\n\n")
        }
        Body::Struct(fields) => {
            let mut out = format!("\nstruct {name} {{\n");
            for field in fields {
                let field = unit.declared(&field.base, &field.shape, &field.name.text, "\t");
                let _ = writeln!(out, "\t{field};");
            }
            out + "};\n\n"
        }
        Body::Union(union) => union_definition(unit, name, union),
        Body::Typedef(Declaration { base, shape, name }) => {
            format!("typedef {};\n", unit.declared(base, shape, &name.text, ""))
        }
        Body::Program { .. } | Body::Foreign => String::new(),
    }
}

fn constant(value: &Value) -> String {
    match value {
        Value::Number(negative, _) if *negative < 0 => format!("({negative})"),
        value => number(value),
    }
}

fn union_definition(unit: &Unit<'_>, name: &str, union: &Union) -> String {
    let discriminant = &union.discriminant;
    let discriminant = unit.declared(&discriminant.base, &discriminant.shape, &discriminant.name.text, "\t");
    let mut out = format!("\nstruct {name} {{\n\t{discriminant};\n");
    let arms = union.arms.iter().filter_map(|arm| arm.declaration.as_ref());
    let arms: Vec<_> = arms.chain(union.default.iter().flatten()).collect();
    if !arms.is_empty() {
        out += "\tunion {\n";
        for arm in arms {
            let arm = unit.declared(&arm.base, &arm.shape, &arm.name.text, "\t\t");
            let _ = writeln!(out, "\t\t{arm};");
        }
        let _ = writeln!(out, "\t}} {name}_u;");
    }
    out + "};\n\n"
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

/// A routine's second parameter, without its name: C passes an array's address by itself.
pub fn parameter(unit: &Unit<'_>, name: &str) -> String {
    let is_array = unit.is_array(&BaseKind::Named(name.to_owned()), &Shape::Plain);
    if is_array { name.to_owned() } else { format!("{name} *") }
}
