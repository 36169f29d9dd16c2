//! Finds names that differ in the RPC language but not in Rust, and types that are too large.

use super::names::{camel, screaming, snake, variant};
use super::shape::{MAX_MEMORY, MAX_RECURSIVE_MEMORY, Shapes};
use super::stubs;
use super::types::{case_name, same_in_rust, second_names};
use crate::diagnostic::{Diagnostic, MAX_SHOWN};
use crate::model::{TypeBody, TypeDefinition};
use crate::source::Sources;
use crate::syntax::Name;
use std::collections::{HashMap, HashSet};

pub fn check(sources: &Sources, shapes: &Shapes<'_>) -> Vec<Diagnostic> {
    let mut this = Unique { sources, errors: Vec::new() };
    let model = shapes.model;
    this.names(model.constants.iter().map(|constant| (&constant.name, screaming(&constant.name.text))));
    let items = model.programs.iter().flat_map(|program| {
        let names = program.versions.iter().flat_map(|version| stubs::item_names(program, version));
        names.map(|name| (&program.name, name))
    });
    let types = model.types.iter().filter(|kind| !same_in_rust(model, kind));
    this.names(types.map(|kind| (&kind.name, camel(&kind.name.text))).chain(items));
    for version in model.programs.iter().flat_map(|program| &program.versions) {
        let procedures = version.procedures.iter();
        this.names(procedures.map(|procedure| (&procedure.name, stubs::method_name(procedure))));
    }
    for procedure in model.procedures() {
        let arguments = procedure.arguments.iter();
        this.names(arguments.map(|argument| (&argument.name, snake(&argument.name.text))));
    }
    for (index, definition) in model.types.iter().enumerate() {
        this.members(shapes, definition);
        let shape = shapes.of(index);
        let limit = if shape.recursive { MAX_RECURSIVE_MEMORY } else { MAX_MEMORY };
        if shape.memory > limit && this.errors.len() < MAX_SHOWN {
            let message = format!(
                "'{}' would take {} bytes in line, more than the limit of {limit}: put a part of it behind a pointer (*)",
                definition.name.text, shape.memory
            );
            this.errors.push(sources.error(definition.name.span, message));
        }
    }
    this.errors
}

struct Unique<'a> {
    sources: &'a Sources,
    errors: Vec<Diagnostic>,
}

impl Unique<'_> {
    fn members(&mut self, shapes: &Shapes<'_>, definition: &TypeDefinition) {
        let owner = &definition.name;
        match &definition.body {
            TypeBody::Enum(members) => {
                let mut values = HashSet::new();
                let firsts = members.iter().filter(|(_, value)| values.insert(*value));
                self.names(firsts.map(|(name, _)| (name, variant(&owner.text, &name.text))));
                self.names(second_names(members).map(|(name, _)| (name, screaming(&name.text))));
            }
            TypeBody::Struct(fields) => {
                self.names(fields.iter().map(|field| (&field.name, snake(&field.name.text))));
            }
            TypeBody::Union(union) => {
                let cases = union.cases.iter();
                let cases = cases.map(|case| (owner, case_name(shapes, &union.discriminant.kind, case)));
                let default = union.default.iter().map(|_| (owner, "Default".to_owned()));
                self.names(cases.chain(default));
            }
            TypeBody::Alias(_) | TypeBody::Foreign => {}
        }
    }

    fn names<'n>(&mut self, names: impl Iterator<Item = (&'n Name, String)>) {
        let mut seen: HashMap<String, &Name> = HashMap::new();
        for (name, rust) in names {
            if self.errors.len() == MAX_SHOWN {
                return;
            }
            if let Some(first) = seen.get(&rust) {
                let message = format!("'{}' and '{}' are both {rust} in Rust", first.text, name.text);
                self.errors.push(self.sources.error(name.span, message));
            } else {
                seen.insert(rust, name);
            }
        }
    }
}
