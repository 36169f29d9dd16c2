//! Orders the definitions of a header as in the source, except that each comes after those that it needs in
//! C.

use super::Unit;
use super::definitions::{declarations, definition};
use crate::MAX_NESTING;
use crate::syntax::{BaseKind, Body, Constant, Definition, Shape, Value};
use std::collections::{HashMap, HashSet};

/// Most definitions that wait for others at once. Beyond it, definitions keep the order of the source, so
/// that no file exhausts the stack.
const DEPTH: usize = 200;

/// Writes definitions.
pub struct Order<'a> {
    unit: &'a Unit<'a>,
    /// The definition of each name: types, constants and enums' members.
    by_name: HashMap<&'a str, &'a Definition>,
    begun: HashSet<&'a str>,
    forward: HashSet<&'a str>,
    depth: usize,
    pub out: String,
}

impl<'a> Order<'a> {
    pub fn new(unit: &'a Unit<'a>) -> Self {
        let mut by_name = HashMap::new();
        for definition in unit.definitions {
            if let Body::Enum(members) = &definition.body {
                members.iter().for_each(|member| {
                    by_name.insert(member.name.text.as_str(), definition);
                });
            }
        }
        for definition in unit.definitions {
            if !matches!(definition.body, Body::Program { .. }) {
                by_name.insert(definition.name.text.as_str(), definition);
            }
        }
        Self { unit, by_name, begun: HashSet::new(), forward: HashSet::new(), depth: 0, out: String::new() }
    }

    /// Writes a definition, unless it was written already. Writes the definitions that it needs first.
    pub fn write(&mut self, of: &'a Definition) {
        // This also ends circles of types by value, which the C compiler reports.
        if !self.begun.insert(&of.name.text) {
            return;
        }
        if self.depth < DEPTH {
            self.depth += 1;
            self.needs(of);
            self.depth -= 1;
        }
        if matches!(of.body, Body::Struct(_) | Body::Union(_)) {
            self.forward(&of.name.text);
        }
        self.out += &definition(self.unit, of);
    }

    fn needs(&mut self, of: &'a Definition) {
        self.numbers(&of.body);
        for declaration in declarations(&of.body) {
            if let BaseKind::Named(name) = &declaration.base.kind {
                let in_line = match declaration.shape {
                    Shape::Plain => !matches!(of.body, Body::Typedef(_)),
                    Shape::Fixed(_) => true,
                    Shape::Optional | Shape::Variable(_) => false,
                };
                self.need(name, in_line);
            }
        }
    }

    /// Writes the definition that a use of a type needs, if the use needs the type's size (`in_line`), or
    /// otherwise at least a declaration of its name.
    fn need(&mut self, name: &str, in_line: bool) {
        let mut name = name;
        // The C compiler reports circles of typedefs.
        for _ in 0..MAX_NESTING {
            let Some(of) = self.unit.types.get(name).copied() else { return };
            match &of.body {
                Body::Struct(_) | Body::Union(_) if !in_line => return self.forward(&of.name.text),
                Body::Typedef(aliased) => {
                    self.write(of);
                    match (&aliased.shape, &aliased.base.kind) {
                        (Shape::Plain, BaseKind::Named(next)) if in_line => name = next,
                        _ => return,
                    }
                }
                _ => return self.write(of),
            }
        }
    }

    fn forward(&mut self, name: &'a str) {
        if self.forward.insert(name) {
            self.out += &format!("typedef struct {name} {name};\n");
        }
    }

    /// Writes the constants and enums that a definition's numbers refer to.
    fn numbers(&mut self, body: &'a Body) {
        let mut values: Vec<&Value> = Vec::new();
        match body {
            Body::Constant(Constant::Value(value) | Constant::Sum(value, _)) => values.push(value),
            Body::Enum(members) => values.extend(members.iter().filter_map(|member| member.value.as_ref())),
            _ => {}
        }
        for declaration in declarations(body) {
            if let Shape::Fixed(value) | Shape::Variable(Some(value)) = &declaration.shape {
                values.push(value);
            }
        }
        for value in values {
            if let Value::Name(name) = value
                && let Some(definition) = self.by_name.get(name.text.as_str()).copied()
            {
                self.write(definition);
            }
        }
    }
}
