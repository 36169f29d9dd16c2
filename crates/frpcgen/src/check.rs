//! Checks definitions, and makes a model of them. In a model, each name is known and defined once, each
//! number is within its range, and no type has an infinite size.

use crate::cycles;
use crate::diagnostic::{Diagnostic, Diagnostics, MAX_SHOWN};
use crate::model::*;
use crate::scope::Scope;
use crate::source::{Sources, Span};
use crate::syntax::{self, Base, BaseKind, Body, Declaration, Definition, Name, Primitive, Shape, Value};
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::ops::RangeInclusive;

pub fn check(sources: &Sources, definitions: &[Definition]) -> Result<Model, Diagnostics> {
    let mut errors = Vec::new();
    let scope = Scope::new(sources, definitions, &mut errors);
    let is_type = |definition: &&Definition| {
        let written = !matches!(definition.body, Body::Constant(_) | Body::Program { .. });
        written && !definition.in_place
    };
    let in_place = definitions.iter().filter(|definition| definition.in_place);
    let in_place = in_place.filter_map(|definition| match &definition.body {
        Body::Typedef(declaration) => Some((definition.name.text.as_str(), declaration)),
        _ => None,
    });
    let in_place = in_place.collect();
    let types = definitions.iter().filter(is_type);
    let types =
        types.enumerate().map(|(index, definition)| (definition.name.text.as_str(), (index, definition)));
    let mut checker =
        Checker { sources, scope, types: types.collect(), in_place, served: HashMap::new(), errors };
    let mut model = Model::default();
    for definition in definitions.iter().filter(|definition| !definition.in_place) {
        if checker.errors.len() >= MAX_SHOWN {
            break;
        }
        if let Err(error) = checker.definition(definition, &mut model) {
            checker.errors.push(error);
            if is_type(&definition) {
                // A placeholder keeps the indexes right. A model with errors produces no code.
                let body = TypeBody::Struct(Vec::new());
                model.types.push(TypeDefinition { name: definition.name.clone(), body });
            }
        }
    }
    if checker.errors.is_empty() {
        checker.errors = cycles::check(sources, &model);
    }
    let errors = checker.errors;
    if errors.is_empty() { Ok(model) } else { Err(sources.in_order(errors)) }
}

struct Checker<'a> {
    sources: &'a Sources,
    scope: Scope<'a>,
    types: HashMap<&'a str, (usize, &'a Definition)>,
    /// Typedefs that are replaced by the types that they name.
    in_place: HashMap<&'a str, &'a Declaration>,
    /// The program with each program number and version number.
    served: HashMap<(u32, u32), &'a Name>,
    errors: Vec<Diagnostic>,
}

type Checked<T> = Result<T, Diagnostic>;

impl<'a> Checker<'a> {
    fn definition(&mut self, definition: &'a Definition, model: &mut Model) -> Checked<()> {
        let name = definition.name.clone();
        let body = match &definition.body {
            Body::Constant(constant) => {
                let value = match constant {
                    syntax::Constant::Value(value) | syntax::Constant::Sum(value, _) => {
                        ConstantValue::Number(self.constant(&definition.name, value.span())?)
                    }
                    syntax::Constant::Text(text) => ConstantValue::Text(text.clone()),
                };
                model.constants.push(Constant { name, value });
                return Ok(());
            }
            Body::Program { number, versions } => {
                let at = number.span();
                let number = self.u32(number)?;
                let versions = self.versions(versions);
                let once = self.versions_once(&definition.name, number, &versions, at);
                model.programs.push(Program { name, number, versions });
                return once;
            }
            Body::Enum(members) => TypeBody::Enum(self.members(members)),
            Body::Struct(fields) => TypeBody::Struct(self.fields(&name, fields)?),
            Body::Union(union) => TypeBody::Union(self.union(&name, union)?),
            Body::Typedef(declaration) => TypeBody::Alias(self.kind(declaration)?),
            Body::Foreign => TypeBody::Foreign,
        };
        model.types.push(TypeDefinition { name, body });
        Ok(())
    }

    fn constant(&self, name: &'a Name, at: Span) -> Checked<i128> {
        let number = self.scope.number_of(name)?;
        if !(i64::MIN.into()..=u64::MAX.into()).contains(&number) {
            return Err(self.error(at, format!("{number} is not a 64-bit number")));
        }
        Ok(number)
    }

    fn members(&mut self, members: &'a [syntax::Member]) -> Vec<(Name, i32)> {
        let members = members.iter().filter_map(|member| {
            let value = self.member(member);
            Some((member.name.clone(), self.noted(value)?))
        });
        members.collect()
    }

    fn member(&self, member: &'a syntax::Member) -> Checked<i32> {
        let value = self.scope.number_of(&member.name)?;
        i32::try_from(value).map_err(|_| {
            self.error(member.name.span, format!("{value} doesn't fit into an enum's signed 32 bits"))
        })
    }

    /// Records an error, if there is one, so that the check can continue after it.
    fn noted<T>(&mut self, checked: Checked<T>) -> Option<T> {
        match checked {
            Ok(holds) => return Some(holds),
            Err(error) if self.errors.len() < MAX_SHOWN => self.errors.push(error),
            Err(_) => {}
        }
        None
    }

    fn fields(&mut self, owner: &Name, declarations: &'a [Declaration]) -> Checked<Vec<Field>> {
        if declarations.is_empty() {
            return Err(self.error(owner.span, "a struct needs at least one field"));
        }
        let mut seen = HashSet::new();
        let fields = declarations.iter().filter_map(|declaration| {
            let once = self.name_once(&mut seen, &declaration.name);
            let field = once.and_then(|()| self.field(declaration));
            self.noted(field)
        });
        Ok(fields.collect())
    }

    fn field(&self, declaration: &'a Declaration) -> Checked<Field> {
        Ok(Field { name: declaration.name.clone(), kind: self.kind(declaration)? })
    }

    fn union(&mut self, owner: &Name, union: &'a syntax::Union) -> Checked<Union> {
        if union.arms.is_empty() {
            return Err(self.error(owner.span, "a union needs at least one case"));
        }
        let discriminant = self.field(&union.discriminant)?;
        let allowed = self.discriminant_values(&union.discriminant)?;
        let mut seen = HashSet::new();
        let mut cases = Vec::new();
        for arm in &union.arms {
            for label in &arm.labels {
                let case = self.case(label, arm, &allowed, &mut seen);
                cases.extend(self.noted(case));
            }
        }
        let default = match &union.default {
            Some(Some(declaration)) => Some(Some(self.field(declaration)?)),
            Some(None) => Some(None),
            None => None,
        };
        // The default covers the values without a case. If there are none, there is no default.
        let default = default.filter(|_| !allowed.are_covered_by(&seen));
        Ok(Union { discriminant, cases, default })
    }

    fn case(
        &self,
        label: &'a Value,
        arm: &'a syntax::Arm,
        allowed: &Values,
        seen: &mut HashSet<i128>,
    ) -> Checked<Case> {
        let value = self.scope.number(label)?;
        if !allowed.contain(value) {
            return Err(self.error(label.span(), format!("the discriminant can't be {value}")));
        }
        self.once(seen, value, label.span(), format!("a second case for {value}"))?;
        let field = arm.declaration.as_ref().map(|declaration| self.field(declaration)).transpose()?;
        let label = match label {
            Value::Name(name) => Some(name.text.clone()),
            Value::Number(..) => None,
        };
        // All discriminants have 32 bits.
        Ok(Case { value: value as i64, label, field })
    }

    /// The values of a discriminant's type.
    fn discriminant_values(&self, declaration: &'a Declaration) -> Checked<Values> {
        let refused = || {
            let message = "a discriminant must be an enum, a bool, or an integer of 32 bits at most";
            Err(self.error(declaration.base.span, message))
        };
        if !matches!(declaration.shape, Shape::Plain) {
            return refused();
        }
        let mut base = &declaration.base;
        // Follows typedefs of typedefs. `cycles` reports circles of them.
        for _ in 0..=self.types.len() {
            let range = match self.primitive(base) {
                Some(Primitive::I8) => -0x80..=0x7f,
                Some(Primitive::U8) => 0..=0xff,
                Some(Primitive::I16) => -0x8000..=0x7fff,
                Some(Primitive::U16) => 0..=0xffff,
                Some(Primitive::I32) => i32::MIN.into()..=i32::MAX.into(),
                Some(Primitive::U32) => 0..=u32::MAX.into(),
                Some(Primitive::Bool) => 0..=1,
                Some(_) => return refused(),
                None => {
                    let BaseKind::Named(name) = &base.kind else { return refused() };
                    match self.types.get(name.as_str()) {
                        Some((_, Definition { body: Body::Enum(members), .. })) => {
                            let members = members.iter().map(|member| self.scope.number_of(&member.name));
                            return Ok(Values::Listed(members.collect::<Checked<_>>()?));
                        }
                        Some((_, Definition { body: Body::Typedef(aliased), .. }))
                            if matches!(aliased.shape, Shape::Plain) =>
                        {
                            base = &aliased.base;
                            continue;
                        }
                        _ => return refused(),
                    }
                }
            };
            return Ok(Values::Range(range));
        }
        refused()
    }

    fn kind(&self, declaration: &'a Declaration) -> Checked<Type> {
        let at = declaration.name.span;
        let base = match &declaration.base.kind {
            BaseKind::Opaque => {
                return match &declaration.shape {
                    Shape::Fixed(length) => Ok(Type::FixedOpaque(self.u32(length)?)),
                    Shape::Variable(limit) => Ok(Type::Opaque(self.limit(limit)?)),
                    _ => Err(self.error(at, "opaque data needs a length: name[n], name<n> or name<>")),
                };
            }
            BaseKind::Text => {
                return match &declaration.shape {
                    Shape::Variable(limit) => Ok(Type::Text(self.limit(limit)?)),
                    _ => Err(self.error(at, "a string has a variable length: name<n> or name<>")),
                };
            }
            _ => self.base(&declaration.base)?,
        };
        Ok(match &declaration.shape {
            Shape::Plain => base,
            Shape::Optional => Type::Optional(Box::new(base)),
            Shape::Fixed(length) => Type::Fixed(Box::new(base), self.u32(length)?),
            Shape::Variable(limit) => Type::Variable(Box::new(base), self.limit(limit)?),
        })
    }

    fn base(&self, base: &'a Base) -> Checked<Type> {
        if let Some(primitive) = self.primitive(base) {
            return Ok(Type::Primitive(primitive));
        }
        let BaseKind::Named(name) = &base.kind else {
            return Err(self.error(base.span, "not a type by itself"));
        };
        match (self.types.get(name.as_str()), self.in_place.get(name.as_str())) {
            (Some((index, _)), _) => Ok(Type::Named(*index)),
            (None, Some(meaning)) => self.kind(meaning),
            (None, None) => {
                let message =
                    format!("unknown type '{name}'; if a C header defines it, give it with --types FILE");
                Err(self.error(base.span, message))
            }
        }
    }

    /// The primitive type of a base, also if it is named by a typedef of C's headers.
    fn primitive(&self, base: &Base) -> Option<Primitive> {
        match &base.kind {
            BaseKind::Primitive(primitive) => Some(*primitive),
            BaseKind::Named(name) => {
                let meaning = self.in_place.get(name.as_str())?;
                if matches!(meaning.shape, Shape::Plain) { self.primitive(&meaning.base) } else { None }
            }
            _ => None,
        }
    }

    fn versions(&mut self, versions: &'a [syntax::Version]) -> Vec<Version> {
        let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
        let versions = versions.iter().filter_map(|version| {
            let procedures = self.procedures(&version.procedures);
            let number = self.u32(&version.number).and_then(|number| {
                self.name_once(&mut names, &version.name)?;
                let message = format!("a second version with number {number}");
                self.once(&mut numbers, number, version.number.span(), message)?;
                Ok(number)
            });
            Some(Version { number: self.noted(number)?, procedures })
        });
        versions.collect()
    }

    /// Refuses a version that another program with the same number also has. Several programs can have the
    /// same number, so that a file can add a version to an included program.
    fn versions_once(&mut self, name: &'a Name, number: u32, versions: &[Version], at: Span) -> Checked<()> {
        for version in versions {
            if let Some(first) = self.served.insert((number, version.number), name) {
                let both = format!("'{}' and '{}' both have a version", first.text, name.text);
                return Err(self.error(at, format!("{both} {} of program {number}", version.number)));
            }
        }
        Ok(())
    }

    fn procedures(&mut self, procedures: &'a [syntax::Procedure]) -> Vec<Procedure> {
        let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
        let procedures = procedures.iter().filter_map(|procedure| {
            let checked = self.name_once(&mut names, &procedure.name).and_then(|()| {
                let number = self.u32(&procedure.number)?;
                let message = format!("a second procedure with number {number}");
                self.once(&mut numbers, number, procedure.number.span(), message)?;
                self.procedure(procedure, number)
            });
            self.noted(checked)
        });
        procedures.collect()
    }

    fn procedure(&self, procedure: &'a syntax::Procedure, number: u32) -> Checked<Procedure> {
        let result = procedure.result.as_ref().map(|result| self.kind(result)).transpose()?;
        let mut seen = HashSet::new();
        let mut arguments = Vec::new();
        for argument in &procedure.arguments {
            self.name_once(&mut seen, &argument.name)?;
            arguments.push(self.field(argument)?);
        }
        let (name, written) = (procedure.name.clone(), procedure.written.clone());
        Ok(Procedure { name, number, result, arguments, written })
    }

    /// Refuses an `item` that is in `seen`, with this message.
    fn once<T: Eq + Hash>(&self, seen: &mut HashSet<T>, item: T, at: Span, message: String) -> Checked<()> {
        if seen.insert(item) { Ok(()) } else { Err(self.error(at, message)) }
    }

    fn name_once<'n>(&self, seen: &mut HashSet<&'n str>, name: &'n Name) -> Checked<()> {
        self.once(seen, &name.text, name.span, format!("a second '{}' here", name.text))
    }

    fn limit(&self, value: &'a Option<Value>) -> Checked<u32> {
        value.as_ref().map_or(Ok(u32::MAX), |value| self.u32(value))
    }

    fn u32(&self, value: &'a Value) -> Checked<u32> {
        self.number(value, 0..=u32::MAX.into(), "an unsigned 32-bit number").map(|number| number as u32)
    }

    fn number(&self, value: &'a Value, range: RangeInclusive<i128>, what: &str) -> Checked<i128> {
        let number = self.scope.number(value)?;
        if !range.contains(&number) {
            return Err(self.error(value.span(), format!("{number} is not {what}")));
        }
        Ok(number)
    }

    fn error(&self, span: Span, message: impl Into<String>) -> Diagnostic {
        self.sources.error(span, message)
    }
}

enum Values {
    Range(RangeInclusive<i128>),
    Listed(HashSet<i128>),
}

impl Values {
    fn contain(&self, value: i128) -> bool {
        match self {
            Self::Range(range) => range.contains(&value),
            Self::Listed(values) => values.contains(&value),
        }
    }

    /// Whether `some`, a subset of these values, has all of them.
    fn are_covered_by(&self, some: &HashSet<i128>) -> bool {
        match self {
            Self::Range(range) => (range.end() - range.start()).cast_unsigned() < some.len() as u128,
            Self::Listed(values) => values.len() == some.len(),
        }
    }
}
