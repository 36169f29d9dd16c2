//! The names that a definition defines, and those that it uses.

use crate::source::Span;
use crate::syntax::{Arm, BaseKind, Body, Constant, Declaration, Definition, Name, Shape, Value};

/// A name that must have a definition somewhere.
pub enum Mention<'a> {
    Type(&'a str, Span),
    Number(&'a Name),
}

impl Mention<'_> {
    pub fn text(&self) -> &str {
        match self {
            Self::Type(text, _) => text,
            Self::Number(name) => &name.text,
        }
    }
}

pub fn defined_names(definition: &Definition) -> impl Iterator<Item = &str> {
    let mut names = vec![definition.name.text.as_str()];
    match &definition.body {
        Body::Enum(members) => names.extend(members.iter().map(|member| member.name.text.as_str())),
        Body::Program { versions, .. } => {
            for version in versions {
                names.push(&version.name.text);
                names.extend(version.procedures.iter().map(|procedure| procedure.name.text.as_str()));
            }
        }
        _ => {}
    }
    names.into_iter()
}

/// Calls `of` for each name that a definition uses, in the order of the source.
pub fn mentions<'a>(definition: &'a Definition, of: &mut dyn FnMut(Mention<'a>)) {
    match &definition.body {
        Body::Constant(Constant::Value(number) | Constant::Sum(number, _)) => value(number, of),
        Body::Constant(Constant::Text(_)) | Body::Foreign => {}
        Body::Enum(members) => {
            members.iter().filter_map(|member| member.value.as_ref()).for_each(|number| value(number, of));
        }
        Body::Struct(fields) => fields.iter().for_each(|field| declaration(field, of)),
        Body::Typedef(typedef) => declaration(typedef, of),
        Body::Union(union) => {
            declaration(&union.discriminant, of);
            for Arm { labels, declaration: arm } in &union.arms {
                labels.iter().for_each(|label| value(label, of));
                arm.iter().for_each(|arm| declaration(arm, of));
            }
            union.default.iter().flatten().for_each(|arm| declaration(arm, of));
        }
        Body::Program { number, versions } => {
            value(number, of);
            for version in versions {
                value(&version.number, of);
                for procedure in &version.procedures {
                    value(&procedure.number, of);
                    procedure
                        .result
                        .iter()
                        .chain(&procedure.arguments)
                        .for_each(|kind| declaration(kind, of));
                }
            }
        }
    }
}

fn value<'a>(value: &'a Value, of: &mut dyn FnMut(Mention<'a>)) {
    if let Value::Name(name) = value {
        of(Mention::Number(name));
    }
}

fn declaration<'a>(declaration: &'a Declaration, of: &mut dyn FnMut(Mention<'a>)) {
    if let BaseKind::Named(name) = &declaration.base.kind {
        of(Mention::Type(name, declaration.base.span));
    }
    if let Shape::Fixed(length) | Shape::Variable(Some(length)) = &declaration.shape {
        value(length, of);
    }
}
