//! Generates definitions of types and constants.

use super::codec::{self, Source};
use super::names::{camel, screaming, snake, variant};
use super::shape::Shapes;
use crate::model::{Case, Constant, ConstantValue, Field, Model, Type, TypeBody, TypeDefinition, Union};
use crate::syntax::{Name, Primitive};
use std::collections::{HashMap, HashSet};

pub fn constant(constant: &Constant) -> String {
    let name = screaming(&constant.name.text);
    let (kind, value) = match &constant.value {
        ConstantValue::Text(text) => ("&str", format!("{text:?}")),
        ConstantValue::Number(number) => (number_type(*number), number.to_string()),
    };
    format!("/// `const {}`.\npub const {name}: {kind} = {value};\n", constant.name.text)
}

/// The type of a constant: `u32` for all numbers that fit, since lengths and program numbers are `u32`.
fn number_type(number: i128) -> &'static str {
    match number {
        0..=0xffff_ffff => "u32",
        -0x8000_0000..0 => "i32",
        ..0 => "i64",
        _ => "u64",
    }
}

pub fn definition(shapes: &Shapes<'_>, index: usize) -> String {
    let definition = &shapes.model.types[index];
    let of = Of { shapes, index, name: &definition.name, rust: camel(&definition.name.text) };
    match &definition.body {
        TypeBody::Enum(members) => of.enumeration(members),
        TypeBody::Struct(fields) => of.structure(fields),
        TypeBody::Union(union) => of.union(union),
        TypeBody::Alias(kind) => of.alias(kind),
        TypeBody::Foreign => of.foreign(),
    }
}

/// Whether this is a typedef of a type that has the same name in Rust, such as `typedef struct _foo foo`.
/// Then one definition is enough for both.
pub fn same_in_rust(model: &Model, definition: &TypeDefinition) -> bool {
    let TypeBody::Alias(Type::Named(target)) = &definition.body else { return false };
    camel(&model.types[*target].name.text) == camel(&definition.name.text)
}

/// Members whose value already has a name. If several have the same value and the same name in Rust, only
/// one.
pub fn second_names(members: &[(Name, i32)]) -> impl Iterator<Item = &(Name, i32)> {
    let (mut values, mut seen) = (HashSet::new(), HashSet::new());
    let others = members.iter().filter(move |(_, value)| !values.insert(*value));
    others.filter(move |(name, value)| seen.insert((screaming(&name.text), *value)))
}

/// The variant of a union's case.
pub fn case_name(shapes: &Shapes<'_>, discriminant: &Type, case: &Case) -> String {
    match shapes.model.resolve(discriminant) {
        Type::Named(index) => match &shapes.model.types[*index].body {
            TypeBody::Enum(members) => {
                let owner = &shapes.model.types[*index].name.text;
                let member = members.iter().find(|(_, value)| i64::from(*value) == case.value);
                member.map_or_else(|| number_name(case.value), |(name, _)| variant(owner, &name.text))
            }
            _ => number_name(case.value),
        },
        Type::Primitive(Primitive::Bool) => if case.value == 0 { "False" } else { "True" }.to_owned(),
        _ => case.label.as_deref().map_or_else(|| number_name(case.value), camel),
    }
}

fn number_name(value: i64) -> String {
    let sign = if value < 0 { "Minus" } else { "" };
    format!("Case{sign}{}", value.unsigned_abs())
}

/// A pattern for these values, with as few ranges as possible. There must be at least one value.
fn pattern(mut values: Vec<i64>) -> String {
    values.sort_unstable();
    let runs = values.chunk_by(|one, next| one + 1 == *next);
    let ranges = runs.map(|run| match run {
        [first, _, .., last] => format!("{first}..={last}"),
        few => few.iter().map(i64::to_string).collect::<Vec<_>>().join(" | "),
    });
    ranges.collect::<Vec<_>>().join(" | ")
}

/// A definition, and the data that all parts of its code need.
struct Of<'a> {
    shapes: &'a Shapes<'a>,
    index: usize,
    name: &'a Name,
    rust: String,
}

impl Of<'_> {
    fn enumeration(&self, members: &[(Name, i32)]) -> String {
        let (name, rust) = (&self.name.text, &self.rust);
        let (mut variants, mut arms, mut aliases) = (String::new(), String::new(), String::new());
        let mut first: HashMap<i32, String> = HashMap::new();
        for (member, value) in members {
            if first.contains_key(value) {
                continue;
            }
            let variant = variant(name, &member.text);
            variants += &format!("/// `{} = {value}`.\n{variant} = {value},\n", member.text);
            arms += &format!("{value} => ::std::result::Result::Ok(Self::{variant}),\n");
            first.insert(*value, variant);
        }
        for (member, value) in second_names(members) {
            aliases += &format!(
                "/// `{} = {value}`, a second name.\npub const {}: Self = Self::{};\n",
                member.text,
                screaming(&member.text),
                first[value]
            );
        }
        if !aliases.is_empty() {
            aliases = format!("impl {rust} {{ {aliases} }}");
        }
        format!(
            "/// `enum {name}`.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
            #[allow(clippy::enum_variant_names)]
            #[repr(i32)]
            pub enum {rust} {{ {variants} }}
            {aliases}
            {}
            {}",
            self.encode_impl("to.i32(*self as i32);"),
            self.decode_impl(&format!(
                "match from.i32()? {{
                    {arms}
                    value => ::std::result::Result::Err(
                        from.error(xdr::Problem::NotInEnum {{ name: {rust:?}, value }})
                    ),
                }}"
            )),
        )
    }

    fn structure(&self, fields: &[Field]) -> String {
        let kept = fields.len() - usize::from(self.shapes.of(self.index).chain);
        let (mut members, mut encode, mut decode) = (String::new(), String::new(), String::new());
        for field in &fields[..kept] {
            let name = snake(&field.name.text);
            let declared = codec::declared(self.shapes, &field.kind, &field.name.text);
            let kind = codec::type_name(self.shapes, &field.kind, "'a");
            members += &format!("/// `{declared}`.\npub {name}: {kind},\n");
            encode += &codec::encode(self.shapes, &field.kind, Source::Place(&format!("self.{name}")));
            decode += &format!("{name}: {}?,\n", codec::decode(self.shapes, &field.kind));
        }
        let chain = match fields.last() {
            Some(next) if kept < fields.len() => format!(
                "///\n/// An item of a list, which is a `Vec` here; on the wire `{}` leads to the next.\n",
                next.name.text
            ),
            _ => String::new(),
        };
        format!(
            "/// `struct {}`.\n{chain}{}\npub struct {}{} {{ {members} }}\n{}\n{}",
            self.name.text,
            self.derives(),
            self.rust,
            self.lifetime("'a"),
            self.encode_impl(&encode),
            self.decode_impl(&format!("::std::result::Result::Ok(Self {{ {decode} }})")),
        )
    }

    fn union(&self, union: &Union) -> String {
        let (shapes, rust) = (self.shapes, &self.rust);
        let disc = &union.discriminant;
        let disc_type = codec::type_name(shapes, &disc.kind, "'a");
        let (mut variants, mut encode, mut decode) = (String::new(), String::new(), String::new());
        for case in &union.cases {
            let name = case_name(shapes, &disc.kind, case);
            let label = case.label.clone().unwrap_or_else(|| case.value.to_string());
            let discriminant = self.encode_number(&disc.kind, case.value);
            let declared = case
                .field
                .as_ref()
                .map_or("void".to_owned(), |field| codec::declared(shapes, &field.kind, &field.name.text));
            variants += &format!("/// `case {label}: {declared}`.\n{name}");
            match &case.field {
                Some(field) => {
                    let (kind, value, boxed) = self.arm(field);
                    variants += &format!("({kind})");
                    encode += &format!("Self::{name}(value) => {{ {discriminant} {value} }}\n");
                    let arm = self.decode_arm(&format!("Self::{name}({boxed}?)"));
                    decode += &format!("{} => {arm},\n", case.value);
                }
                None => {
                    encode += &format!("Self::{name} => {{ {discriminant} }}\n");
                    decode += &format!("{} => ::std::result::Result::Ok(Self::{name}),", case.value);
                }
            }
            variants += ",\n";
        }
        match &union.default {
            Some(default) => {
                let listed = pattern(union.cases.iter().map(|case| case.value).collect());
                let discriminant = codec::encode(shapes, &disc.kind, Source::Reference("discriminant"));
                let refuse = format!(
                    "let value = {};
                    if matches!(value, {}) {{
                        return ::std::result::Result::Err(
                            xdr::EncodeError::WrongArm {{ name: {rust:?}, value }}
                        );
                    }}
                    {discriminant}",
                    self.as_number(&disc.kind, "*discriminant"),
                    listed,
                );
                let declared = default.as_ref().map_or("void".to_owned(), |field| {
                    codec::declared(shapes, &field.kind, &field.name.text)
                });
                let disc_name = &disc.name.text;
                variants += &format!(
                    "/// `default: {declared}`, with `{disc_name}`, which has no case of its own.\n"
                );
                match default {
                    Some(field) => {
                        let (kind, value, boxed) = self.arm(field);
                        variants += &format!("Default({disc_type}, {kind}),");
                        encode += &format!(
                            "Self::Default(discriminant, arm) => {{ {refuse} let value = arm; {value} }}"
                        );
                        let arm = self.decode_arm(&format!("Self::Default(discriminant, {boxed}?)"));
                        decode += &format!("_ => {arm},");
                    }
                    None => {
                        variants += &format!("Default({disc_type}),");
                        encode += &format!("Self::Default(discriminant) => {{ {refuse} }}");
                        decode += "_ => ::std::result::Result::Ok(Self::Default(discriminant)),";
                    }
                }
            }
            None => {
                decode += &format!(
                    "value => ::std::result::Result::Err(
                        from.error(xdr::Problem::NoSuchArm {{ name: {rust:?}, value }})
                    ),"
                );
            }
        }
        format!(
            "/// `union {} switch ({})`.\n{}\n#[allow(clippy::enum_variant_names)]
            pub enum {rust}{} {{ {variants} }}\n{}\n{}",
            self.name.text,
            codec::declared(shapes, &disc.kind, &disc.name.text),
            self.derives(),
            self.lifetime("'a"),
            self.encode_impl(&format!("match self {{ {encode} }}")),
            self.decode_impl(&format!(
                "let discriminant: {disc_type} = {}?;\nmatch {} {{ {decode} }}",
                codec::decode(shapes, &disc.kind),
                self.as_number(&disc.kind, "discriminant"),
            )),
        )
    }

    /// Decodes an arm of a nested type in a separate stack frame. Otherwise, in unoptimised code, the frame
    /// of each level has space for all arms.
    fn decode_arm(&self, value: &str) -> String {
        let value = format!("::std::result::Result::Ok({value})");
        if self.shapes.of(self.index).recursive { format!("from.apart(|from| {value})") } else { value }
    }

    /// Returns the Rust type of a union's arm, the statement that encodes it from `value`, and the
    /// expression that decodes it.
    fn arm(&self, field: &Field) -> (String, String, String) {
        let kind = codec::type_name(self.shapes, &field.kind, "'a");
        let decode = codec::decode(self.shapes, &field.kind);
        if self.shapes.boxed_arm(&field.kind) {
            let encode = "xdr::Encode::encode(&**value, to)?;".to_owned();
            return (
                format!("::std::boxed::Box<{kind}>"),
                encode,
                format!("{decode}.map(::std::boxed::Box::new)"),
            );
        }
        (kind, codec::encode(self.shapes, &field.kind, Source::Reference("value")), decode)
    }

    fn encode_number(&self, discriminant: &Type, value: i64) -> String {
        match self.shapes.model.resolve(discriminant) {
            Type::Primitive(Primitive::Bool) => format!("to.bool({});", value != 0),
            Type::Primitive(primitive) => format!("to.{}({value});", codec::method(*primitive)),
            _ => format!("to.i32({value});"),
        }
    }

    fn as_number(&self, discriminant: &Type, value: &str) -> String {
        match self.shapes.model.resolve(discriminant) {
            Type::Primitive(_) => format!("i64::from({value})"),
            _ => format!("i64::from({value} as i32)"),
        }
    }

    /// An enum without values. So all code that needs no value of the type compiles.
    fn foreign(&self) -> String {
        let rust = &self.rust;
        format!(
            "/// `{}`, which C headers define and the source doesn't: it has no values here.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            pub enum {rust} {{}}
            impl xdr::Encode for {rust} {{
                fn encode<'v>(
                    &'v self,
                    _: &mut xdr::Encoder<'v>,
                ) -> ::std::result::Result<(), xdr::EncodeError> {{ match *self {{}} }}
            }}
            {}",
            self.name.text,
            self.decode_impl(&format!(
                "::std::result::Result::Err(from.error(xdr::Problem::Foreign {{ name: {rust:?} }}))"
            )),
        )
    }

    fn alias(&self, kind: &Type) -> String {
        if same_in_rust(self.shapes.model, &self.shapes.model.types[self.index]) {
            return String::new();
        }
        let declared = codec::declared(self.shapes, kind, &self.name.text);
        let target = codec::type_name(self.shapes, kind, "'a");
        format!("/// `typedef {declared}`.\npub type {}{} = {target};\n", self.rust, self.lifetime("'a"))
    }

    fn lifetime(&self, lifetime: &str) -> String {
        if self.shapes.of(self.index).borrows { format!("<{lifetime}>") } else { String::new() }
    }

    fn derives(&self) -> String {
        let shape = self.shapes.of(self.index);
        let copy = if shape.copy { ", Copy" } else { "" };
        let eq = if shape.float { "" } else { ", Eq, Hash" };
        format!("#[derive(Clone{copy}, Debug, PartialEq{eq})]")
    }

    /// Number of fields that take space on the stack at the same time. The arms of a union don't.
    fn fields(&self) -> usize {
        match &self.shapes.model.types[self.index].body {
            TypeBody::Struct(_) => self.shapes.kept_fields(self.index).count(),
            _ => 1,
        }
    }

    fn encode_impl(&self, body: &str) -> String {
        let body = if self.shapes.of(self.index).recursive {
            let fields = self.fields();
            format!("to.nested::<Self>({fields}, |to| {{ {body} ::std::result::Result::Ok(()) }})")
        } else {
            format!("{body} ::std::result::Result::Ok(())")
        };
        format!(
            "impl xdr::Encode for {}{} {{
                fn encode<'v>(
                    &'v self,
                    to: &mut xdr::Encoder<'v>,
                ) -> ::std::result::Result<(), xdr::EncodeError> {{ {body} }}
            }}",
            self.rust,
            self.lifetime("'_"),
        )
    }

    fn decode_impl(&self, body: &str) -> String {
        let body = if self.shapes.of(self.index).recursive {
            format!("from.nested({}, |from| {{ {body} }})", self.fields())
        } else {
            body.to_owned()
        };
        format!(
            "impl<'m> xdr::Decode<'m> for {}{} {{
                fn decode(from: &mut xdr::Decoder<'m>) -> ::std::result::Result<Self, xdr::DecodeError> {{ {body} }}
            }}",
            self.rust,
            self.lifetime("'m"),
        )
    }
}
