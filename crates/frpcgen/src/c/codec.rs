//! Writes `foo_xdr.c`: a routine for each type, which encodes, decodes and frees its values.

use super::Unit;
use super::header::{of_headers, parameter};
use super::names::{limit, number};
use super::procedures::{Procedure, Program};
use crate::syntax::{BaseKind, Body, Declaration, Definition, Shape, Union};
use std::fmt::Write as _;

/// The whole file.
pub fn file(unit: &Unit<'_>) -> String {
    let mut out = unit.prologue("");
    of_headers(unit).for_each(|(name, wire)| out += &of_header(name, wire));
    for definition in unit.definitions {
        let name = &definition.name.text;
        let body = match &definition.body {
            Body::Constant(_) | Body::Foreign => continue,
            Body::Program { .. } => {
                let program = Program::new(unit, definition);
                program.each().for_each(|procedure| out += &argument_routine(unit, &procedure));
                continue;
            }
            Body::Enum(_) => "\treturn xdr_enum(xdrs, (enum_t *)objp);\n".to_owned(),
            Body::Typedef(Declaration { base, shape, name }) => {
                let aliased = Declaration { name: name.clone(), base: base.clone(), shape: shape.clone() };
                format!("\treturn {};\n", whole(unit, &aliased))
            }
            Body::Struct(fields) => match link(unit, definition, fields) {
                Some(at) => list(unit, name, fields, at),
                None => fields_body(unit, fields),
            },
            Body::Union(union) => union_body(unit, name, union),
        };
        out += &routine(name, &parameter(unit, name), &body);
    }
    out
}

/// The routine of a procedure's arguments, if they are sent as a struct.
fn argument_routine(unit: &Unit<'_>, procedure: &Procedure<'_>) -> String {
    if !procedure.has_struct() {
        return String::new();
    }
    let fields = procedure
        .arguments()
        .iter()
        .map(|of| format!("\tif (!{})\n\t\treturn FALSE;\n", field(unit, "objp->", of)));
    let body = fields.collect::<String>() + "\treturn TRUE;\n";
    let name = format!("{}_argument", procedure.function());
    routine(&name, &format!("{name} *"), &body)
}

/// A routine of a type.
fn routine(name: &str, parameter: &str, body: &str) -> String {
    let parameter = if parameter.ends_with('*') { parameter.to_owned() } else { format!("{parameter} ") };
    format!("\nbool_t\nxdr_{name}(XDR *xdrs, {parameter}objp)\n{{\n{body}}}\n")
}

/// A routine for a type of C's headers, by its type on the wire.
fn of_header(name: &str, wire: &str) -> String {
    format!(
        "\n/* {name} is {wire} on the wire. A routine of the program's own takes precedence. */\n\
         __attribute__((weak)) bool_t\nxdr_{name}(XDR *xdrs, {name} *objp)\n{{\n\
         \t{wire} wire = xdrs->x_op == XDR_ENCODE ? ({wire})*objp : 0;\n\n\
         \tif (xdrs->x_op == XDR_ENCODE && ({name})wire != *objp)\n\t\treturn FALSE;\n\
         \tif (!xdr_{wire}(xdrs, &wire))\n\t\treturn FALSE;\n\
         \tif (xdrs->x_op == XDR_DECODE)\n\t\t*objp = ({name})wire;\n\treturn TRUE;\n}}\n"
    )
}

/// The call for a typedef's value at `objp`.
fn whole(unit: &Unit<'_>, of: &Declaration) -> String {
    let name = &of.name.text;
    match (&of.base.kind, &of.shape) {
        (BaseKind::Text | BaseKind::Opaque, _)
        | (_, Shape::Variable(_) | Shape::Optional | Shape::Fixed(_)) => {
            call(unit, of, "(*objp)", &format!("objp->{name}"))
        }
        _ => call(unit, of, "(*objp)", ""),
    }
}

/// The call for a value. `place` is an expression for the value, and `prefix` the beginning of the field
/// names of a variable array.
fn call(unit: &Unit<'_>, of: &Declaration, place: &str, prefix: &str) -> String {
    let (kind, routine) = unit.base(&of.base);
    // The name of an array is its address, and the parameter `objp` of an array typedef is already an
    // address.
    let array = if place == "(*objp)" { "objp" } else { place };
    let address = if place == "(*objp)" { "objp".to_owned() } else { format!("&{place}") };
    match (&of.base.kind, &of.shape) {
        (BaseKind::Opaque, Shape::Fixed(length)) => format!("xdr_opaque(xdrs, {array}, {})", number(length)),
        (BaseKind::Opaque, Shape::Variable(most)) => {
            format!("xdr_bytes(xdrs, &{prefix}_val, &{prefix}_len, {})", limit(most.as_ref()))
        }
        (BaseKind::Text, Shape::Variable(most)) => {
            format!("xdr_string(xdrs, {address}, {})", limit(most.as_ref()))
        }
        (_, Shape::Fixed(length)) => format!(
            "xdr_vector(xdrs, (char *){array}, {}, sizeof ({kind}), (xdrproc_t){routine})",
            number(length)
        ),
        (_, Shape::Variable(most)) => format!(
            "xdr_array(xdrs, (char **)&{prefix}_val, &{prefix}_len, {}, sizeof ({kind}), (xdrproc_t){routine})",
            limit(most.as_ref())
        ),
        (_, Shape::Optional) => {
            format!("xdr_pointer(xdrs, (char **){address}, sizeof ({kind}), (xdrproc_t){routine})")
        }
        (base, Shape::Plain) if unit.is_array(base, &of.shape) => format!("{routine}(xdrs, {array})"),
        (_, Shape::Plain) => format!("{routine}(xdrs, {address})"),
    }
}

/// The call for a field of `owner`, which ends with `->` or `.`.
pub fn field(unit: &Unit<'_>, owner: &str, of: &Declaration) -> String {
    let name = &of.name.text;
    call(unit, of, &format!("{owner}{name}"), &format!("{owner}{name}.{name}"))
}

fn fields_body(unit: &Unit<'_>, fields: &[Declaration]) -> String {
    let mut out = String::new();
    for of in fields {
        let _ = writeln!(out, "\tif (!{})\n\t\treturn FALSE;", field(unit, "objp->", of));
    }
    out + "\treturn TRUE;\n"
}

fn union_body(unit: &Unit<'_>, name: &str, union: &Union) -> String {
    let discriminant = &union.discriminant;
    let chosen = &discriminant.name.text;
    // Without a cast, compilers warn about labels that aren't members of the enum, and about members without
    // a label.
    let is_enum = matches!(&discriminant.base.kind, BaseKind::Named(of)
        if unit.types.get(of.as_str()).is_some_and(|of| matches!(of.body, Body::Enum(_) | Body::Typedef(_))));
    let cast = if is_enum { "(int)" } else { "" };
    let mut out = format!(
        "\tif (!{})\n\t\treturn FALSE;\n\tswitch ({cast}objp->{chosen}) {{\n",
        field(unit, "objp->", discriminant)
    );
    let arm = |declaration: Option<&Declaration>| match declaration {
        Some(of) => format!("\t\treturn {};\n", field(unit, &format!("objp->{name}_u."), of)),
        None => "\t\treturn TRUE;\n".to_owned(),
    };
    for of in &union.arms {
        of.labels.iter().for_each(|label| {
            let _ = writeln!(out, "\tcase {}:", number(label));
        });
        out += &arm(of.declaration.as_ref());
    }
    out += "\tdefault:\n";
    out += &match &union.default {
        Some(declaration) => arm(declaration.as_ref()),
        // xdr_free of a list must not stop at a union that failed to decode.
        None => "\t\treturn xdrs->x_op == XDR_FREE;\n".to_owned(),
    };
    out + "\t}\n"
}

/// The last field, if it is the link of a list: a pointer to the struct, or a typedef of one.
fn link<'d>(unit: &Unit<'_>, of: &Definition, fields: &'d [Declaration]) -> Option<&'d Declaration> {
    let last = fields.last().filter(|_| fields.len() > 1)?;
    let leads_here = |declaration: &Declaration| {
        matches!(&declaration.base.kind, BaseKind::Named(name) if *name == of.name.text)
            && declaration.shape == Shape::Optional
    };
    let by_typedef = || match (&last.base.kind, &last.shape) {
        (BaseKind::Named(name), Shape::Plain) => match &unit.types.get(name.as_str())?.body {
            Body::Typedef(declaration) => Some(leads_here(declaration)),
            _ => None,
        },
        _ => None,
    };
    (leads_here(last) || by_typedef() == Some(true)).then_some(last)
}

/// The body of a list's routine: a loop, since the list's length must not be limited by the stack.
fn list(unit: &Unit<'_>, name: &str, fields: &[Declaration], link: &Declaration) -> String {
    let link = &link.name.text;
    let mut out = format!("\t{name} *at, *next;\n\tbool_t more;\n\n\tfor (at = objp;; at = next) {{\n");
    for of in &fields[..fields.len() - 1] {
        let _ = writeln!(out, "\t\tif (!{})\n\t\t\treturn FALSE;", field(unit, "at->", of));
    }
    let _ = write!(
        out,
        "\t\tif (!frpc_xdr_next(xdrs, (char **)&at->{link}, sizeof ({name}), &more))\n\t\t\treturn FALSE;\n\
         \t\tnext = at->{link};\n\
         \t\tif (xdrs->x_op == XDR_FREE && at == objp)\n\t\t\tat->{link} = NULL;\n\
         \t\telse if (xdrs->x_op == XDR_FREE)\n\t\t\tfree(at);\n\
         \t\tif (!more)\n\t\t\treturn TRUE;\n\t}}\n"
    );
    out
}
