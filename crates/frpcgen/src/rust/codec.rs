//! A type's name in Rust, and the expressions that encode and decode its values. They use full paths, since a
//! source can define its own `Result` or `Vec`.

use super::names::camel;
use super::shape::{Held, Shapes};
use crate::model::Type;
use crate::syntax::Primitive;

/// A type in Rust. If it borrows, it has this lifetime.
pub fn type_name(shapes: &Shapes<'_>, kind: &Type, lifetime: &str) -> String {
    let inner = |item| type_name(shapes, item, lifetime);
    match shapes.held(kind) {
        Held::Primitive(Primitive::Quadruple) => "[u8; 16]".to_owned(),
        Held::Primitive(primitive) => method(primitive).to_owned(),
        Held::Named(index) => {
            let name = camel(&shapes.model.types[index].name.text);
            if shapes.of(index).borrows { format!("{name}<{lifetime}>") } else { name }
        }
        Held::Bytes(length) => format!("[u8; {length}]"),
        Held::LongBytes(_) | Held::Opaque(_) => format!("xdr::Opaque<{lifetime}>"),
        Held::Text(_) => format!("xdr::Text<{lifetime}>"),
        Held::Array(item, length) => format!("[{}; {length}]", inner(item)),
        Held::LongArray(item, _) | Held::List(item, _) | Held::Chain(item) => {
            format!("::std::vec::Vec<{}>", inner(item))
        }
        Held::Optional(item) => format!("::std::option::Option<{}>", inner(item)),
        Held::BoxedOptional(item) => {
            format!("::std::option::Option<::std::boxed::Box<{}>>", inner(item))
        }
    }
}

/// A type in the RPC language, for documentation.
pub fn declared(shapes: &Shapes<'_>, kind: &Type, name: &str) -> String {
    let limit = |limit: u32| if limit == u32::MAX { String::new() } else { limit.to_string() };
    let of = |item: &Type, rest: String| declared(shapes, item, &rest);
    match kind {
        Type::Primitive(primitive) => format!("{} {name}", c_name(*primitive)),
        Type::Named(index) => format!("{} {name}", shapes.model.types[*index].name.text),
        Type::FixedOpaque(length) => format!("opaque {name}[{length}]"),
        Type::Opaque(most) => format!("opaque {name}<{}>", limit(*most)),
        Type::Text(most) => format!("string {name}<{}>", limit(*most)),
        Type::Fixed(item, length) => of(item, format!("{name}[{length}]")),
        Type::Variable(item, most) => of(item, format!("{name}<{}>", limit(*most))),
        Type::Optional(item) => of(item, format!("*{name}")),
    }
}

/// The value to encode: a place like `self.field`, or a name bound to a reference.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    Place(&'a str),
    Reference(&'a str),
}

impl Source<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Place(name) | Self::Reference(name) => name,
        }
    }

    fn value(&self) -> String {
        match self {
            Self::Place(place) => (*place).to_owned(),
            Self::Reference(name) => format!("*{name}"),
        }
    }

    fn reference(&self) -> String {
        match self {
            Self::Place(place) => format!("&{place}"),
            Self::Reference(name) => (*name).to_owned(),
        }
    }
}

/// A statement that encodes a value. In it, `to` is the encoder.
pub fn encode(shapes: &Shapes<'_>, kind: &Type, source: Source<'_>) -> String {
    let (code, fallible) = encoding(shapes, kind, source);
    if fallible { format!("{code}?;") } else { format!("{code};") }
}

/// As [`encode`], but as the last expression of a function that returns a result.
pub fn encode_last(shapes: &Shapes<'_>, kind: &Type, source: Source<'_>) -> String {
    match encoding(shapes, kind, source) {
        (code, true) => code,
        (code, false) => format!("{code}; ::std::result::Result::Ok(())"),
    }
}

fn encoding(shapes: &Shapes<'_>, kind: &Type, source: Source<'_>) -> (String, bool) {
    let reference = source.reference();
    let each = |item| {
        let last = encode_last(shapes, item, Source::Reference("item"));
        format!("|to, item| {{ {last} }}")
    };
    let code = match shapes.held(kind) {
        Held::Primitive(Primitive::Quadruple) | Held::Bytes(_) => {
            return (format!("to.opaque_array({reference})"), false);
        }
        Held::Primitive(primitive) => {
            return (format!("to.{}({})", method(primitive), source.value()), false);
        }
        Held::Named(_) => match shapes.model.resolve(kind) {
            // Only types with a definition in Rust implement the traits.
            Type::Named(_) => format!("xdr::Encode::encode({reference}, to)"),
            resolved => return encoding(shapes, resolved, source),
        },
        Held::LongBytes(length) => format!("to.opaque_exact({reference}, {length})"),
        Held::Opaque(limit) => format!("to.opaque({reference}, {})", number(limit)),
        Held::Text(limit) => format!("to.text({reference}, {})", number(limit)),
        Held::LongArray(item, length) if is_number(shapes, item) => {
            format!("to.numbers_exact({reference}, {length})")
        }
        Held::List(item, limit) if is_number(shapes, item) => {
            format!("to.numbers({reference}, {})", number(limit))
        }
        Held::Array(item, length) | Held::LongArray(item, length) => {
            format!("to.array({reference}, {length}, {})", each(item))
        }
        Held::List(item, limit) => format!("to.list({reference}, {}, {})", number(limit), each(item)),
        Held::Chain(item) => format!("to.chain({reference}, {})", each(item)),
        Held::Optional(item) => format!("to.option({}.as_ref(), {})", source.name(), each(item)),
        Held::BoxedOptional(item) => format!("to.option({}.as_deref(), {})", source.name(), each(item)),
    };
    (code, true)
}

/// An expression that decodes a value, and returns a result. In it, `from` is the decoder.
pub fn decode(shapes: &Shapes<'_>, kind: &Type) -> String {
    match shapes.held(kind) {
        Held::Primitive(Primitive::Quadruple) => "from.opaque_array::<16>()".to_owned(),
        Held::Primitive(primitive) => format!("from.{}()", method(primitive)),
        Held::Named(_) => match shapes.model.resolve(kind) {
            Type::Named(_) => "xdr::Decode::decode(from)".to_owned(),
            resolved => decode(shapes, resolved),
        },
        Held::Bytes(length) => format!("from.opaque_array::<{length}>()"),
        Held::LongBytes(length) => format!("from.opaque_exact({length})"),
        Held::Opaque(limit) => format!("from.opaque({})", number(limit)),
        Held::Text(limit) => format!("from.text({})", number(limit)),
        Held::Array(item, _) => format!("from.array({})", decoder(shapes, item)),
        Held::LongArray(item, length) if is_number(shapes, item) => format!("from.numbers_exact({length})"),
        Held::List(item, limit) if is_number(shapes, item) => format!("from.numbers({})", number(limit)),
        Held::LongArray(item, length) => {
            format!("from.items({length}, {}, {})", shapes.wire(item), decoder(shapes, item))
        }
        Held::List(item, limit) => {
            format!("from.list({}, {}, {})", number(limit), shapes.wire(item), decoder(shapes, item))
        }
        Held::Optional(item) => format!("from.option({})", decoder(shapes, item)),
        Held::BoxedOptional(item) => {
            format!("from.option(|from| {}.map(::std::boxed::Box::new))", decode(shapes, item))
        }
        Held::Chain(item) => format!("from.chain({})", decoder(shapes, item)),
    }
}

/// Whether the runtime converts whole arrays of this type at once.
fn is_number(shapes: &Shapes<'_>, item: &Type) -> bool {
    use Primitive::{F32, F64, I32, I64, U32, U64};
    let held = shapes.held(shapes.model.resolve(item));
    matches!(held, Held::Primitive(F32 | F64 | I32 | I64 | U32 | U64))
}

/// An expression for a function that decodes a value.
pub fn decoder(shapes: &Shapes<'_>, kind: &Type) -> String {
    match decode(shapes, kind).as_str() {
        "xdr::Decode::decode(from)" => "xdr::Decode::decode".to_owned(),
        closure => match shapes.held(shapes.model.resolve(kind)) {
            Held::Primitive(primitive) if primitive != Primitive::Quadruple => {
                format!("xdr::Decoder::{}", method(primitive))
            }
            _ => format!("|from| {closure}"),
        },
    }
}

/// The runtime's method for a type, which is also the type's name in Rust.
pub fn method(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::I8 => "i8",
        Primitive::U8 => "u8",
        Primitive::I16 => "i16",
        Primitive::U16 => "u16",
        Primitive::I32 => "i32",
        Primitive::U32 => "u32",
        Primitive::I64 => "i64",
        Primitive::U64 => "u64",
        Primitive::F32 => "f32",
        Primitive::F64 => "f64",
        Primitive::Bool => "bool",
        Primitive::Quadruple => "opaque_array",
    }
}

fn c_name(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::I8 => "char",
        Primitive::U8 => "unsigned char",
        Primitive::I16 => "short",
        Primitive::U16 => "unsigned short",
        Primitive::I32 => "int",
        Primitive::U32 => "unsigned int",
        Primitive::I64 => "hyper",
        Primitive::U64 => "unsigned hyper",
        Primitive::F32 => "float",
        Primitive::F64 => "double",
        Primitive::Bool => "bool",
        Primitive::Quadruple => "quadruple",
    }
}

fn number(limit: u32) -> String {
    if limit == u32::MAX { "xdr::UNLIMITED".to_owned() } else { limit.to_string() }
}
