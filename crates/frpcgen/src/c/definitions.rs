//! Writes one definition in C.

use super::Unit;
use super::names::{number, quoted};
use crate::syntax::{Body, Constant, Declaration, Definition, Union, Value};
use std::fmt::Write as _;

/// One definition in C. It is empty for a program.
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
