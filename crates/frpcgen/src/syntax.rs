//! The syntax tree of a specification (RFC 5531, section 12, and RFC 4506, section 6). Names are as in the
//! source, and not resolved yet.

use crate::source::Span;

/// A name and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub text: String,
    pub span: Span,
}

/// A number, or the name of one.
#[derive(Debug, Clone)]
pub enum Value {
    Number(i128, Span),
    Name(Name),
}

/// Compares values as written, regardless of their positions.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(one, _), Self::Number(other, _)) => one == other,
            (Self::Name(one), Self::Name(other)) => one.text == other.text,
            _ => false,
        }
    }
}

impl Value {
    pub fn span(&self) -> Span {
        match self {
            Self::Number(_, span) => *span,
            Self::Name(name) => name.span,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Definition {
    pub name: Name,
    pub body: Body,
    /// Whether each use of this typedef or constant is replaced by its meaning, so that the output has no
    /// definition of it. That is so for the table of C's names.
    pub in_place: bool,
}

#[derive(Debug, Clone)]
pub enum Body {
    Constant(Constant),
    Enum(Vec<Member>),
    Struct(Vec<Declaration>),
    Union(Box<Union>),
    Typedef(Declaration),
    Program {
        number: Value,
        versions: Vec<Version>,
    },
    /// A type that only C headers define.
    Foreign,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Constant {
    Value(Value),
    /// A value plus a number: `%#define A B+1`.
    Sum(Value, i128),
    Text(String),
}

/// A member of an enum. Without a `value`, its value is one more than that of the member before.
#[derive(Debug, Clone)]
pub struct Member {
    pub name: Name,
    pub value: Option<Value>,
}

#[derive(Debug, Clone)]
pub struct Union {
    pub discriminant: Declaration,
    pub arms: Vec<Arm>,
    /// Outer `None`: there is no default arm. Inner `None`: `default: void`.
    pub default: Option<Option<Declaration>>,
}

#[derive(Debug, Clone)]
pub struct Arm {
    pub labels: Vec<Value>,
    /// `None` for void.
    pub declaration: Option<Declaration>,
}

#[derive(Debug, Clone)]
pub struct Declaration {
    pub name: Name,
    pub base: Base,
    pub shape: Shape,
}

impl Declaration {
    /// Whether the other declaration has the same name, type and shape.
    pub fn repeats(&self, other: &Self) -> bool {
        (&self.name.text, &self.base.kind, &self.shape) == (&other.name.text, &other.base.kind, &other.shape)
    }
}

/// The type that a specifier names.
#[derive(Debug, Clone)]
pub struct Base {
    pub kind: BaseKind,
    pub span: Span,
    /// Whether it was written as `long`, which has 32 bits on the wire, but is C's `long` in memory.
    pub is_long: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum BaseKind {
    Primitive(Primitive),
    Opaque,
    Text,
    Named(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Primitive {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    Quadruple,
    Bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    Plain,
    /// `*name`
    Optional,
    /// `name[length]`
    Fixed(Value),
    /// `name<limit>`
    Variable(Option<Value>),
}

#[derive(Debug, Clone)]
pub struct Version {
    pub name: Name,
    pub number: Value,
    pub procedures: Vec<Procedure>,
}

#[derive(Debug, Clone)]
pub struct Procedure {
    pub name: Name,
    pub number: Value,
    /// `None` for void.
    pub result: Option<Declaration>,
    pub arguments: Vec<Declaration>,
    /// The declaration's text before its number, on one line, for documentation.
    pub written: String,
}
