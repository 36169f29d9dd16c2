//! Properties of a type that determine its form in Rust: whether it borrows, its size in memory, and whether
//! it is the item of a linked list.

use super::graph;
use crate::model::{Model, Type, TypeBody};
use crate::syntax::Primitive;

/// Largest `opaque[n]` that becomes an array, which decoding copies, such as a file handle or a hash. Larger
/// ones are borrowed, with a length check.
const MAX_ARRAY_BYTES: u32 = 128;

/// Most items, and most bytes in memory, of a `T name[n]` that becomes an array. Larger ones become a `Vec`,
/// with a length check.
const MAX_ARRAY_ITEMS: u32 = 32;
const MAX_ARRAY_MEMORY: usize = 256;

/// Larger values, in bytes, are boxed if they can be absent on the wire (optional data, a union's arm).
/// Otherwise, four bytes of a message could take any amount of memory, and a union would be as large as its
/// largest arm.
const MAX_UNBOXED: usize = 192;

/// Largest type that is `Copy`, in bytes.
const MAX_COPY: usize = 64;

/// Largest type, in bytes, that contains itself. Its values can nest at least 16 deep, or 4 deep if all
/// fields have four bytes (see `strait_xdr::MAX_NESTED_BYTES` and `FIELD_BYTES`).
pub const MAX_RECURSIVE_MEMORY: usize = 4 << 10;

/// Largest type, in bytes. A larger one, passed by value, would be a mistake in the interface.
pub const MAX_MEMORY: usize = 64 << 10;

/// The properties of a definition in the model.
#[derive(Debug, Default, Clone)]
pub struct Shape {
    /// Whether it has a lifetime parameter.
    pub borrows: bool,
    /// Whether it contains floating-point numbers, so that it can't be `Eq` and `Hash`.
    pub float: bool,
    pub copy: bool,
    /// Whether it contains itself, behind a pointer or an array.
    pub recursive: bool,
    /// Whether it is a list: its last field is an optional of itself, and it is only used as optional. It
    /// becomes a `Vec` of items.
    pub chain: bool,
    /// Approximate size in memory, in bytes.
    pub memory: usize,
    /// Smallest size on the wire, in bytes.
    pub wire: usize,
}

/// The form of a type in Rust.
pub enum Held<'t> {
    Primitive(Primitive),
    Named(usize),
    /// `[u8; n]`
    Bytes(u32),
    /// `Opaque` of exactly this length
    LongBytes(u32),
    Opaque(u32),
    Text(u32),
    Array(&'t Type, u32),
    /// `Vec` of exactly this length
    LongArray(&'t Type, u32),
    List(&'t Type, u32),
    Optional(&'t Type),
    BoxedOptional(&'t Type),
    /// `Vec` of a chain's items
    Chain(&'t Type),
}

pub struct Shapes<'m> {
    pub model: &'m Model,
    shapes: Vec<Shape>,
}

impl<'m> Shapes<'m> {
    pub fn new(model: &'m Model) -> Self {
        let mut this = Self { model, shapes: vec![Shape::default(); model.types.len()] };
        this.find_chains();
        this.find_recursion();
        this.measure();
        this.spread();
        this
    }

    pub fn of(&self, index: usize) -> &Shape {
        &self.shapes[index]
    }

    pub fn held<'t>(&self, kind: &'t Type) -> Held<'t> {
        match kind {
            Type::Primitive(primitive) => Held::Primitive(*primitive),
            Type::Named(index) => Held::Named(*index),
            Type::FixedOpaque(length) if *length <= MAX_ARRAY_BYTES => Held::Bytes(*length),
            Type::FixedOpaque(length) => Held::LongBytes(*length),
            Type::Opaque(limit) => Held::Opaque(*limit),
            Type::Text(limit) => Held::Text(*limit),
            Type::Fixed(item, length) => {
                let memory = self.memory(item).saturating_mul(*length as usize);
                if *length <= MAX_ARRAY_ITEMS && memory <= MAX_ARRAY_MEMORY {
                    Held::Array(item, *length)
                } else {
                    Held::LongArray(item, *length)
                }
            }
            Type::Variable(item, limit) => Held::List(item, *limit),
            Type::Optional(item) => match self.named(item) {
                Some(index) if self.shapes[index].chain => Held::Chain(item),
                Some(index) if self.shapes[index].recursive || self.shapes[index].memory > MAX_UNBOXED => {
                    Held::BoxedOptional(item)
                }
                _ => Held::Optional(item),
            },
        }
    }

    /// Whether a union's arm of this type is boxed.
    pub fn boxed_arm(&self, kind: &Type) -> bool {
        self.named(kind).is_some() && self.memory(kind) > MAX_UNBOXED
    }

    pub fn borrows(&self, kind: &Type) -> bool {
        match self.held(kind) {
            Held::LongBytes(_) | Held::Opaque(_) | Held::Text(_) => true,
            Held::Named(index) => self.shapes[index].borrows,
            held => held.item().is_some_and(|item| self.borrows(item)),
        }
    }

    pub fn is_copy(&self, kind: &Type) -> bool {
        match self.held(kind) {
            Held::Primitive(_) | Held::Bytes(_) => true,
            Held::Named(index) => self.shapes[index].copy,
            Held::Array(item, _) | Held::Optional(item) => self.is_copy(item),
            _ => false,
        }
    }

    /// Approximate size in memory, in bytes.
    pub fn memory(&self, kind: &Type) -> usize {
        match self.held(kind) {
            Held::Primitive(Primitive::Quadruple) => 16,
            Held::Primitive(Primitive::I64 | Primitive::U64 | Primitive::F64) | Held::BoxedOptional(_) => 8,
            Held::Primitive(_) => 4,
            Held::Named(index) => self.shapes[index].memory,
            Held::Bytes(length) => length as usize,
            Held::LongBytes(_) | Held::Opaque(_) | Held::Text(_) => 32,
            Held::Array(item, length) => self.memory(item).saturating_mul(length as usize),
            Held::LongArray(..) | Held::List(..) | Held::Chain(_) => 24,
            Held::Optional(item) => self.memory(item).saturating_add(8),
        }
    }

    /// Smallest size on the wire, in bytes.
    pub fn wire(&self, kind: &Type) -> usize {
        match kind {
            Type::Primitive(Primitive::I64 | Primitive::U64 | Primitive::F64) => 8,
            Type::Primitive(Primitive::Quadruple) => 16,
            Type::Named(index) => self.shapes[*index].wire,
            Type::FixedOpaque(length) => (*length as usize).next_multiple_of(4),
            Type::Fixed(item, length) => self.wire(item).saturating_mul(*length as usize),
            _ => 4,
        }
    }

    /// The types of the fields in Rust. The item of a chain omits the pointer to the next item.
    pub fn kept_fields(&self, index: usize) -> impl Iterator<Item = &'m Type> + use<'m> {
        let kinds = self.model.types[index].body.kinds();
        let kept = kinds.len() - usize::from(self.shapes[index].chain);
        kinds.into_iter().take(kept)
    }

    /// The definition that a type leads to, if it is a name or a chain of aliases.
    fn named(&self, kind: &Type) -> Option<usize> {
        match self.model.resolve(kind) {
            Type::Named(index) => Some(*index),
            _ => None,
        }
    }

    fn find_chains(&mut self) {
        let tails: Vec<_> = (0..self.shapes.len()).map(|index| self.tail(index)).collect();
        let definitions = self.model.types.iter().zip(&tails).flat_map(|(definition, tail)| {
            let kinds = definition.body.kinds().into_iter().enumerate();
            // A typedef of a name doesn't count as a use: the uses of the typedef do.
            let passes_on = matches!(definition.body, TypeBody::Alias(Type::Named(_)));
            kinds.filter(move |(position, _)| *tail != Some(*position) && !passes_on).map(|(_, kind)| kind)
        });
        let procedures = self.model.procedures().flat_map(|procedure| {
            procedure.arguments.iter().map(|argument| &argument.kind).chain(&procedure.result)
        });
        // A struct stays a struct, with its pointer to the next, if it is used by value or if no pointer to
        // it is used.
        let (mut pointed_to, mut by_value) = (vec![false; tails.len()], vec![false; tails.len()]);
        for kind in definitions.chain(procedures) {
            let (mentioned, optional) = mention(kind);
            if let Some(index) = mentioned.and_then(|kind| self.named(kind)) {
                if optional { pointed_to[index] = true } else { by_value[index] = true }
            }
        }
        for (index, tail) in tails.iter().enumerate() {
            self.shapes[index].chain = tail.is_some() && pointed_to[index] && !by_value[index];
        }
    }

    /// The index of a struct's last field, if this field is an optional of the struct itself. If another
    /// field is, too, the struct is a tree, and not a list.
    fn tail(&self, index: usize) -> Option<usize> {
        let TypeBody::Struct(fields) = &self.model.types[index].body else { return None };
        let last = fields.len().checked_sub(1).filter(|last| *last > 0)?;
        let is_self = |kind: &Type| match self.model.resolve(kind) {
            Type::Optional(item) => self.named(item) == Some(index),
            _ => false,
        };
        let pointers = fields.iter().filter(|field| is_self(&field.kind)).count();
        (pointers == 1 && is_self(&fields[last].kind)).then_some(last)
    }

    fn find_recursion(&mut self) {
        let uses: Vec<Vec<usize>> = (0..self.shapes.len())
            .map(|index| self.kept_fields(index).filter_map(mentioned).collect())
            .collect();
        for (shape, recursive) in self.shapes.iter_mut().zip(graph::on_circles(&uses)) {
            shape.recursive = recursive;
        }
    }

    /// Computes sizes, in rounds. `cycles::check` limits the nesting by value, and so the number of rounds
    /// until the sizes are final.
    fn measure(&mut self) {
        for _ in 0..=crate::MAX_NESTING {
            for index in 0..self.shapes.len() {
                (self.shapes[index].memory, self.shapes[index].wire) = self.sizes(index);
            }
        }
    }

    fn sizes(&self, index: usize) -> (usize, usize) {
        let kept = || self.kept_fields(index);
        match &self.model.types[index].body {
            TypeBody::Enum(_) | TypeBody::Foreign => (4, 4),
            TypeBody::Alias(kind) => (self.memory(kind), self.wire(kind)),
            TypeBody::Struct(_) => (
                kept().map(|kind| self.memory(kind)).fold(0, usize::saturating_add),
                kept().map(|kind| self.wire(kind)).fold(0, usize::saturating_add),
            ),
            TypeBody::Union(_) => {
                let arm = |kind| if self.boxed_arm(kind) { 8 } else { self.memory(kind) };
                (kept().map(arm).max().unwrap_or(0).saturating_add(8), 4)
            }
        }
    }

    /// Passes properties on from a type to the types that contain it.
    fn spread(&mut self) {
        let count = self.shapes.len();
        let mut users = vec![Vec::new(); count];
        for user in 0..count {
            self.kept_fields(user).filter_map(mentioned).for_each(|used| users[used].push(user));
        }
        self.shapes.iter_mut().for_each(|shape| shape.copy = true);
        let mut open: Vec<usize> = (0..count).collect();
        while let Some(index) = open.pop() {
            let shape = &self.shapes[index];
            let borrows = self.kept_fields(index).any(|kind| self.borrows(kind));
            let float = self.kept_fields(index).any(|kind| self.has_float(kind));
            let copy = self.all_copy(index);
            if (shape.borrows, shape.float, shape.copy) != (borrows, float, copy) {
                self.shapes[index] = Shape { borrows, float, copy, ..shape.clone() };
                open.extend(&users[index]);
            }
        }
    }

    fn all_copy(&self, index: usize) -> bool {
        let is_union = matches!(self.model.types[index].body, TypeBody::Union(_));
        let mut kept = self.kept_fields(index);
        self.shapes[index].memory <= MAX_COPY
            && kept.all(|kind| self.is_copy(kind) && !(is_union && self.boxed_arm(kind)))
    }

    fn has_float(&self, kind: &Type) -> bool {
        match kind {
            Type::Primitive(primitive) => matches!(primitive, Primitive::F32 | Primitive::F64),
            Type::Named(index) => self.shapes[*index].float,
            Type::Fixed(item, _) | Type::Variable(item, _) | Type::Optional(item) => self.has_float(item),
            _ => false,
        }
    }
}

impl<'t> Held<'t> {
    fn item(&self) -> Option<&'t Type> {
        match self {
            Self::Array(item, _)
            | Self::LongArray(item, _)
            | Self::List(item, _)
            | Self::Optional(item)
            | Self::BoxedOptional(item)
            | Self::Chain(item) => Some(item),
            _ => None,
        }
    }
}

/// The definition that a type refers to, directly or as an item.
fn mentioned(kind: &Type) -> Option<usize> {
    match kind {
        Type::Named(index) => Some(*index),
        Type::Fixed(item, _) | Type::Variable(item, _) | Type::Optional(item) => mentioned(item),
        _ => None,
    }
}

/// The name that a type refers to, and whether it is optional.
fn mention(kind: &Type) -> (Option<&Type>, bool) {
    match kind {
        Type::Optional(item) if matches!(**item, Type::Named(_)) => (Some(item), true),
        Type::Fixed(item, _) | Type::Variable(item, _) | Type::Optional(item) => mention(item),
        Type::Named(_) => (Some(kind), false),
        _ => (None, false),
    }
}
