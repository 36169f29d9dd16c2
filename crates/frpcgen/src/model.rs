//! A checked specification, in which all names and numbers are resolved. It is the input for the Rust output.

use crate::syntax::{Name, Primitive};

/// All definitions, in the order of the source.
#[derive(Debug, Default)]
pub struct Model {
    pub constants: Vec<Constant>,
    pub types: Vec<TypeDefinition>,
    pub programs: Vec<Program>,
}

#[derive(Debug)]
pub struct Constant {
    pub name: Name,
    pub value: ConstantValue,
}

#[derive(Debug)]
pub enum ConstantValue {
    Number(i128),
    Text(String),
}

#[derive(Debug)]
pub struct TypeDefinition {
    pub name: Name,
    pub body: TypeBody,
}

#[derive(Debug)]
pub enum TypeBody {
    Enum(Vec<(Name, i32)>),
    Struct(Vec<Field>),
    Union(Union),
    Alias(Type),
    /// A type that only C headers define, so it has no values.
    Foreign,
}

#[derive(Debug)]
pub struct Field {
    pub name: Name,
    pub kind: Type,
}

/// A type as a declaration uses it. `Named` has an index into [`Model::types`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    Primitive(Primitive),
    Named(usize),
    FixedOpaque(u32),
    Opaque(u32),
    Text(u32),
    Fixed(Box<Type>, u32),
    Variable(Box<Type>, u32),
    Optional(Box<Type>),
}

#[derive(Debug)]
pub struct Union {
    pub discriminant: Field,
    pub cases: Vec<Case>,
    /// Outer `None`: there is no default arm. Inner `None`: `default: void`.
    pub default: Option<Option<Field>>,
}

/// One label of an arm.
#[derive(Debug)]
pub struct Case {
    pub value: i64,
    /// The label's name, if the label is a name.
    pub label: Option<String>,
    /// `None` for void.
    pub field: Option<Field>,
}

#[derive(Debug)]
pub struct Program {
    pub name: Name,
    pub number: u32,
    pub versions: Vec<Version>,
}

#[derive(Debug)]
pub struct Version {
    pub number: u32,
    pub procedures: Vec<Procedure>,
}

#[derive(Debug)]
pub struct Procedure {
    pub name: Name,
    pub number: u32,
    pub result: Option<Type>,
    pub arguments: Vec<Field>,
    /// The declaration as written in the source, without the number.
    pub written: String,
}

impl Model {
    /// The type that aliases lead to. It determines the encoding.
    pub fn resolve<'m>(&'m self, mut kind: &'m Type) -> &'m Type {
        while let Type::Named(index) = kind
            && let TypeBody::Alias(aliased) = &self.types[*index].body
        {
            kind = aliased;
        }
        kind
    }

    pub fn procedures(&self) -> impl Iterator<Item = &Procedure> {
        let versions = self.programs.iter().flat_map(|program| &program.versions);
        versions.flat_map(|version| &version.procedures)
    }
}

impl TypeBody {
    /// The types of all fields and arms, in order.
    pub fn kinds(&self) -> Vec<&Type> {
        match self {
            Self::Enum(_) | Self::Foreign => Vec::new(),
            Self::Alias(kind) => vec![kind],
            Self::Struct(fields) => fields.iter().map(|field| &field.kind).collect(),
            Self::Union(union) => {
                let arms = union.cases.iter().filter_map(|case| case.field.as_ref());
                arms.chain(union.default.iter().flatten()).map(|field| &field.kind).collect()
            }
        }
    }
}
