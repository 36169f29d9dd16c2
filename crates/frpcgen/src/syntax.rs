//! A specification as it is written: RFC 5531, section 12, on RFC 4506,
//! section 6. Names are the source's own, nothing is looked up yet.

use crate::source::Span;

/// A name, and where it stands.
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
}

#[derive(Debug, Clone)]
pub enum Body {
    Constant(Constant),
    Enum(Vec<Member>),
    Struct(Vec<Declaration>),
    Union(Box<Union>),
    Typedef(Declaration),
    Program { number: Value, versions: Vec<Version> },
}

#[derive(Debug, Clone)]
pub enum Constant {
    Value(Value),
    Text(String),
}

/// `value` is absent where the enum counts by itself.
#[derive(Debug, Clone)]
pub struct Member {
    pub name: Name,
    pub value: Option<Value>,
}

#[derive(Debug, Clone)]
pub struct Union {
    pub discriminant: Declaration,
    pub arms: Vec<Arm>,
    /// The outer `None`: no default arm. The inner: `default: void`.
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

/// What a type specifier names.
#[derive(Debug, Clone)]
pub struct Base {
    pub kind: BaseKind,
    pub span: Span,
}

#[derive(Debug, Clone)]
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

#[derive(Debug, Clone)]
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
    /// Up to the number, on one line, for documentation.
    pub written: String,
}
