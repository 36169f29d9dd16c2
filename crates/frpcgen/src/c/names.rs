//! C's names for types, numbers, and the routines that encode them.

use super::Unit;
use crate::syntax::{Base, BaseKind, Primitive, Shape, Value};

/// Types that Linux lacks, or that are other names of common types. Each has the C type to use, and the name
/// of its routine without `xdr_`.
const REPLACED: [(&str, &str, &str); 24] = [
    ("bool_t", "bool_t", "bool"),
    ("enum_t", "enum_t", "enum"),
    ("boolean_t", "bool_t", "bool"),
    ("longlong_t", "int64_t", "int64_t"),
    ("u_longlong_t", "uint64_t", "uint64_t"),
    ("u_hyper", "uint64_t", "uint64_t"),
    ("uchar_t", "u_char", "u_char"),
    ("ushort_t", "u_short", "u_short"),
    ("uint_t", "u_int", "u_int"),
    ("ulong_t", "u_long", "u_long"),
    ("int8", "int8_t", "int8_t"),
    ("int16", "int16_t", "int16_t"),
    ("int32", "int32_t", "int32_t"),
    ("int64", "int64_t", "int64_t"),
    ("uint8", "uint8_t", "uint8_t"),
    ("uint16", "uint16_t", "uint16_t"),
    ("uint32", "uint32_t", "uint32_t"),
    ("uint64", "uint64_t", "uint64_t"),
    ("time32_t", "int32_t", "int32_t"),
    ("ushort", "u_short", "u_short"),
    ("uint", "u_int", "u_int"),
    ("ulong", "u_long", "u_long"),
    ("sa_family_t", "u_short", "u_short"),
    ("useconds_t", "u_int", "u_int"),
];

/// Types of C's headers for which XDR libraries have no routine, with their types on the wire, as in
/// `c_types.x`.
pub const OF_HEADERS: [(&str, &str); 18] = [
    ("uid_t", "uint32_t"),
    ("gid_t", "uint32_t"),
    ("id_t", "uint32_t"),
    ("mode_t", "uint32_t"),
    ("dev_t", "uint32_t"),
    ("ino_t", "uint32_t"),
    ("nlink_t", "uint32_t"),
    ("size_t", "uint32_t"),
    ("in_addr_t", "uint32_t"),
    ("in_port_t", "uint32_t"),
    ("pid_t", "int32_t"),
    ("ssize_t", "int32_t"),
    ("key_t", "int32_t"),
    ("daddr_t", "int32_t"),
    ("time_t", "int32_t"),
    ("clock_t", "int32_t"),
    ("suseconds_t", "int32_t"),
    ("off_t", "int64_t"),
];

/// A number of the source, as C writes it.
pub fn number(value: &Value) -> String {
    match value {
        Value::Name(name) => name.text.clone(),
        Value::Number(number, _) if *number > i64::MAX.into() => format!("{number:#x}ULL"),
        // Large numbers are addresses, masks or program numbers, which people write in hexadecimal.
        Value::Number(number, _) if *number >= 1 << 28 => format!("{number:#x}"),
        Value::Number(number, _) => number.to_string(),
    }
}

/// A limit, as an argument.
pub fn limit(limit: Option<&Value>) -> String {
    limit.map_or_else(|| "~0u".to_owned(), number)
}

/// A string constant.
pub fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            '\r' => out += "\\r",
            '\0' => out += "\\000",
            other => out.push(other),
        }
    }
    out + "\""
}

impl Unit<'_> {
    /// The C type that a specifier names, and its routine.
    pub fn base(&self, base: &Base) -> (String, String) {
        let (kind, routine) = match &base.kind {
            BaseKind::Primitive(primitive) => of_primitive(*primitive, base.is_long),
            BaseKind::Opaque => ("char", "char"),
            BaseKind::Text => ("char *", "wrapstring"),
            BaseKind::Named(name) if self.types.contains_key(name.as_str()) => (name.as_str(), name.as_str()),
            BaseKind::Named(name) => match REPLACED.iter().find(|(other, ..)| other == name) {
                Some((_, kind, routine)) => (*kind, *routine),
                None => (name.as_str(), name.as_str()),
            },
        };
        (kind.to_owned(), format!("xdr_{routine}"))
    }

    /// A declaration: `char *name`, `int name[3]`.
    pub fn declared(&self, base: &Base, shape: &Shape, name: &str, indent: &str) -> String {
        let kind = match &base.kind {
            BaseKind::Text => return format!("char *{name}"),
            _ => self.base(base).0,
        };
        match shape {
            Shape::Plain => format!("{}{name}", spaced(&kind)),
            Shape::Optional => format!("{kind} *{name}"),
            Shape::Fixed(length) => format!("{}{name}[{}]", spaced(&kind), number(length)),
            Shape::Variable(_) => {
                let field = name.trim_start_matches('*');
                format!(
                    "struct {{\n{indent}\tu_int {field}_len;\n{indent}\t{kind} *{field}_val;\n{indent}}} {name}"
                )
            }
        }
    }
}

/// A type before a name: `int `, `char *`.
pub fn spaced(kind: &str) -> String {
    if kind.ends_with('*') { kind.to_owned() } else { format!("{kind} ") }
}

fn of_primitive(primitive: Primitive, is_long: bool) -> (&'static str, &'static str) {
    match primitive {
        Primitive::I8 => ("char", "char"),
        Primitive::U8 => ("u_char", "u_char"),
        Primitive::I16 => ("short", "short"),
        Primitive::U16 => ("u_short", "u_short"),
        Primitive::I32 if is_long => ("long", "long"),
        Primitive::I32 => ("int", "int"),
        Primitive::U32 if is_long => ("u_long", "u_long"),
        Primitive::U32 => ("u_int", "u_int"),
        Primitive::I64 => ("quad_t", "quad_t"),
        Primitive::U64 => ("u_quad_t", "u_quad_t"),
        Primitive::F32 => ("float", "float"),
        Primitive::F64 => ("double", "double"),
        Primitive::Quadruple => ("quadruple", "quadruple"),
        Primitive::Bool => ("bool_t", "bool"),
    }
}
