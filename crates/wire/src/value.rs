//! Values of fields, and the macro that declares structs.

use crate::{DecodeError, Decoder, Encoder, TType};
use bytes::Bytes;
use std::fmt;

type Result<T> = std::result::Result<T, DecodeError>;

/// A value of a field or a list.
pub trait Value: Sized {
    /// Its type on the wire.
    const TYPE: TType;
    /// Its type as the IDL spells it, for the test that compares this crate with the IDL.
    fn idl() -> String;
    /// Encodes it.
    fn write(&self, to: &mut Encoder);
    /// Decodes it.
    fn read(from: &mut Decoder) -> Result<Self>;
}

/// One field as the IDL declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldSchema {
    /// Id.
    pub id: i16,
    /// Name.
    pub name: &'static str,
    /// Type, as the IDL spells it.
    pub idl: String,
}

/// A struct of the interface. Every field may be absent.
pub trait Struct: Default + Sized {
    /// Its name in the IDL.
    const NAME: &'static str;
    /// Its fields.
    fn schema() -> Vec<FieldSchema>;
    /// Encodes its fields.
    fn write_fields(&self, to: &mut Encoder);
    /// Decodes field `id` if the struct has it. Otherwise returns false and reads nothing.
    fn read_field(&mut self, id: i16, found: TType, from: &mut Decoder) -> Result<bool>;
}

impl<S: Struct> Value for S {
    const TYPE: TType = TType::Struct;

    fn idl() -> String {
        S::NAME.to_owned()
    }

    fn write(&self, to: &mut Encoder) {
        to.struct_begin();
        self.write_fields(to);
        to.struct_end();
    }

    fn read(from: &mut Decoder) -> Result<Self> {
        let mut value = S::default();
        from.struct_begin()?;
        while let Some((id, found)) = from.field_begin()? {
            if !value.read_field(id, found, from)? {
                from.skip(found)?;
            }
        }
        Ok(value)
    }
}

/// Decodes a field's value, or reports its wrong type.
#[doc(hidden)]
pub fn read_as<T: Value>(
    name: &'static str,
    field: i16,
    found: TType,
    from: &mut Decoder,
) -> Result<Option<T>> {
    if found != T::TYPE {
        return Err(DecodeError::WrongFieldType { name, field, expected: T::TYPE, found });
    }
    T::read(from).map(Some)
}

macro_rules! scalar {
    ($($rust:ty, $kind:ident, $idl:literal, $method:ident;)*) => {$(
        impl Value for $rust {
            const TYPE: TType = TType::$kind;
            fn idl() -> String {
                $idl.to_owned()
            }
            fn write(&self, to: &mut Encoder) {
                to.$method(*self);
            }
            fn read(from: &mut Decoder) -> Result<Self> {
                from.$method()
            }
        }
    )*};
}

scalar! {
    bool, Bool, "bool", bool;
    i16, I16, "i16", i16;
    i32, I32, "i32", i32;
    i64, I64, "i64", i64;
}

impl Value for String {
    const TYPE: TType = TType::String;

    fn idl() -> String {
        "string".to_owned()
    }

    fn write(&self, to: &mut Encoder) {
        to.slice(self.as_bytes());
    }

    fn read(from: &mut Decoder) -> Result<Self> {
        from.text()
    }
}

impl Value for Bytes {
    const TYPE: TType = TType::String;

    fn idl() -> String {
        "binary".to_owned()
    }

    fn write(&self, to: &mut Encoder) {
        to.binary(self);
    }

    fn read(from: &mut Decoder) -> Result<Self> {
        from.binary()
    }
}

/// A `string` of the 2009 interface: exact bytes in any encoding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text(pub Bytes);

impl Value for Text {
    const TYPE: TType = TType::String;

    fn idl() -> String {
        "string".to_owned()
    }

    fn write(&self, to: &mut Encoder) {
        to.string(&self.0);
    }

    fn read(from: &mut Decoder) -> Result<Self> {
        from.string().map(Self)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Bytes::copy_from_slice(text.as_bytes()))
    }
}

/// A password or token, which `{:?}` never shows.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Value for Secret {
    const TYPE: TType = TType::String;

    fn idl() -> String {
        "string".to_owned()
    }

    fn write(&self, to: &mut Encoder) {
        to.slice(self.0.as_bytes());
    }

    fn read(from: &mut Decoder) -> Result<Self> {
        from.text().map(Self)
    }
}

impl<T: Value> Value for Vec<T> {
    const TYPE: TType = TType::List;

    fn idl() -> String {
        format!("list<{}>", T::idl())
    }

    fn write(&self, to: &mut Encoder) {
        to.list_begin(T::TYPE, self.len());
        for value in self {
            to.element();
            value.write(to);
        }
        to.list_end();
    }

    fn read(from: &mut Decoder) -> Result<Self> {
        let (found, count) = from.list_begin()?;
        if found != T::TYPE && count > 0 {
            return Err(DecodeError::WrongElementType { expected: T::TYPE, found });
        }
        from.demand_elements(count)?;
        // Grows with the elements that arrive: a sender could claim a large count, and each allocated
        // struct costs memory.
        let mut list = Vec::new();
        for _ in 0..count {
            from.element()?;
            list.push(T::read(from)?);
        }
        from.list_end()?;
        Ok(list)
    }
}

/// Declares structs of the interface: `id name: type`. Every field becomes an `Option`. `or
/// function` names a reader that runs first: it reads the fields of another form of the struct, and
/// gives false for all other fields.
#[macro_export]
macro_rules! wire_structs {
    ($($(#[$doc:meta])* $name:ident $(or $other:path)? { $($(#[$field_doc:meta])* $id:literal $field:ident $(as $idl:literal)?: $kind:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        #[allow(missing_docs)] // the fields are documented in idl/dfs.thrift
        pub struct $name { $($(#[$field_doc])* pub $field: Option<$kind>,)* }

        impl $crate::Struct for $name {
            const NAME: &'static str = stringify!($name);

            fn schema() -> Vec<$crate::FieldSchema> {
                vec![$($crate::FieldSchema {
                    id: $id,
                    name: $crate::or_literal!(stringify!($field) $(, $idl)?),
                    idl: <$kind as $crate::Value>::idl(),
                },)*]
            }

            #[allow(unused_variables)] // structs without fields
            fn write_fields(&self, to: &mut $crate::Encoder) {
                $(if let Some(value) = &self.$field {
                    to.field_begin($id, <$kind as $crate::Value>::TYPE);
                    $crate::Value::write(value, to);
                })*
            }

            #[allow(unused_variables)] // structs without fields
            fn read_field(
                &mut self,
                id: i16,
                found: $crate::TType,
                from: &mut $crate::Decoder,
            ) -> ::std::result::Result<bool, $crate::DecodeError> {
                $(if $other(self, id, found, from)? {
                    return Ok(true);
                })?
                match id {
                    $($id => {
                        self.$field = $crate::read_as(Self::NAME, id, found, from)?;
                        Ok(true)
                    })*
                    _ => Ok(false),
                }
            }
        }
    )*};
}

/// The second token if there is one, else the first. A field has a second token if Rust reserves the
/// field's name in the IDL.
#[doc(hidden)]
#[macro_export]
macro_rules! or_literal {
    ($default:expr) => {
        $default
    };
    ($default:expr, $given:literal) => {
        $given
    };
}

/// Declares enums of the interface. Codes of newer peers are kept, not refused: `Unknown` carries
/// them.
macro_rules! wire_enums {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $code:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // the values are documented in idl/dfs.thrift
        pub enum $name { $($variant,)* Unknown(i32) }

        impl $name {
            /// The number on the wire.
            pub fn code(self) -> i32 {
                match self { $(Self::$variant => $code,)* Self::Unknown(code) => code }
            }
        }

        impl From<i32> for $name {
            fn from(code: i32) -> Self {
                match code { $($code => Self::$variant,)* _ => Self::Unknown(code) }
            }
        }

        impl $crate::Value for $name {
            const TYPE: $crate::TType = $crate::TType::I32;
            fn idl() -> String {
                stringify!($name).to_owned()
            }
            fn write(&self, to: &mut $crate::Encoder) {
                to.i32(self.code());
            }
            fn read(from: &mut $crate::Decoder) -> ::std::result::Result<Self, $crate::DecodeError> {
                from.i32().map(Self::from)
            }
        }
    )*};
}

pub(crate) use wire_enums;
