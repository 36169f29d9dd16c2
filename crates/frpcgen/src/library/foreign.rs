//! Handles names that only C headers define, in a source with lines for the C compiler. rpcgen leaves such
//! names to the C compiler. frpcgen gives such a type no values, and doesn't check such a limit. If a type's
//! encoding depends on such a number, the type gets no values, either.

use super::mentions::{Mention, defined_names, mentions};
use crate::MAX_NESTING;
use crate::diagnostic::{Diagnostic, MAX_SHOWN};
use crate::source::Sources;
use crate::syntax::{BaseKind, Body, Constant, Declaration, Definition, Name, Shape, Value};
use std::collections::{HashMap, HashSet};

/// Replaces names without a definition, and returns a warning for each.
pub fn replace(sources: &Sources, definitions: &mut Vec<Definition>) -> Vec<Diagnostic> {
    let mut this =
        Foreign { sources, known: known(definitions), named: HashSet::new(), warnings: Vec::new() };
    this.types(definitions);
    // If a type is replaced, its numbers are gone, so that other types may have to be replaced, too. Beyond
    // this depth, missing numbers are errors.
    for _ in 0..MAX_NESTING {
        this.known = known(definitions);
        definitions.retain(|definition| !this.lost_constant(definition));
        definitions.iter_mut().for_each(|definition| this.limits(definition));
        let by_name = definitions.iter().map(|definition| (definition.name.text.as_str(), &definition.body));
        let by_name: HashMap<_, _> = by_name.collect();
        let give_way = definitions.iter().map(|definition| this.gives_way(definition, &by_name));
        let give_way: Vec<bool> = give_way.collect();
        if !give_way.contains(&true) {
            break;
        }
        let replaced = definitions.iter_mut().zip(give_way).filter(|(_, gives_way)| *gives_way);
        replaced.for_each(|(definition, _)| definition.body = Body::Foreign);
    }
    this.warnings.sort_by_key(|warning| (warning.path.clone(), warning.line, warning.column));
    this.warnings
}

fn known(definitions: &[Definition]) -> HashSet<String> {
    let names = definitions.iter().flat_map(defined_names).chain(["TRUE", "FALSE"]);
    names.map(str::to_owned).collect()
}

struct Foreign<'a> {
    sources: &'a Sources,
    known: HashSet<String>,
    /// Names that a warning already mentions.
    named: HashSet<String>,
    warnings: Vec<Diagnostic>,
}

impl Foreign<'_> {
    /// Replaces types without a definition.
    fn types(&mut self, definitions: &mut Vec<Definition>) {
        let mut unknown = Vec::new();
        for definition in definitions.iter() {
            mentions(definition, &mut |mention| {
                if let Mention::Type(text, span) = mention
                    && self.known.insert(text.to_owned())
                {
                    unknown.push(Name { text: text.to_owned(), span });
                }
            });
        }
        for name in unknown {
            self.warn(&name, "no value of this type can be sent or received: only C headers define it");
            definitions.push(Definition { name, body: Body::Foreign, in_place: false });
        }
    }

    /// Whether a constant's value is a number without a definition.
    fn lost_constant(&mut self, definition: &Definition) -> bool {
        let Body::Constant(Constant::Value(Value::Name(name)) | Constant::Sum(Value::Name(name), _)) =
            &definition.body
        else {
            return false;
        };
        let lost = !self.known.contains(&name.text);
        if lost {
            let message =
                format!("there is no constant '{}': only C headers define this number", definition.name.text);
            self.warn(name, &message);
        }
        lost
    }

    /// Removes limits without a definition.
    fn limits(&mut self, definition: &mut Definition) {
        let declarations: Vec<&mut Declaration> = match &mut definition.body {
            Body::Typedef(typedef) => vec![typedef],
            Body::Struct(fields) => fields.iter_mut().collect(),
            Body::Union(union) => {
                let arms = union.arms.iter_mut().filter_map(|arm| arm.declaration.as_mut());
                arms.chain(union.default.iter_mut().flatten()).collect()
            }
            Body::Program { versions, .. } => {
                let procedures = versions.iter_mut().flat_map(|version| &mut version.procedures);
                procedures
                    .flat_map(|procedure| procedure.result.iter_mut().chain(&mut procedure.arguments))
                    .collect()
            }
            _ => Vec::new(),
        };
        for declaration in declarations {
            if let Shape::Variable(limit @ Some(Value::Name(_))) = &mut declaration.shape
                && let Some(Value::Name(name)) = limit
                && !self.known.contains(&name.text)
            {
                self.warn(name, "this limit isn't checked: only C headers define it");
                *limit = None;
            }
        }
    }

    /// Whether a type's encoding depends on a number, or a discriminant's type, without a definition.
    fn gives_way(&mut self, definition: &Definition, by_name: &HashMap<&str, &Body>) -> bool {
        if !matches!(definition.body, Body::Enum(_) | Body::Struct(_) | Body::Union(_) | Body::Typedef(_)) {
            return false;
        }
        let mut lost = None;
        mentions(definition, &mut |mention| {
            if let Mention::Number(name) = mention
                && !self.known.contains(&name.text)
            {
                lost = lost.or(Some(name));
            }
        });
        if let Some(name) = lost {
            let message = format!(
                "no value of '{}' can be sent or received: only C headers define this number",
                definition.name.text
            );
            self.warn(name, &message);
        }
        lost.is_some() || switches_on_foreign(&definition.body, by_name)
    }

    fn warn(&mut self, name: &Name, message: &str) {
        if self.warnings.len() < MAX_SHOWN && self.named.insert(name.text.clone()) {
            let message = format!("'{}': {message} (see --types)", name.text);
            self.warnings.push(self.sources.warning(name.span, message));
        }
    }
}

fn switches_on_foreign(body: &Body, by_name: &HashMap<&str, &Body>) -> bool {
    let Body::Union(union) = body else { return false };
    let mut kind = &union.discriminant.base.kind;
    // Follows typedefs to the deepest valid nesting. `cycles` reports circles of them.
    for _ in 0..MAX_NESTING {
        let BaseKind::Named(name) = kind else { return false };
        match by_name.get(name.as_str()) {
            Some(Body::Foreign) => return true,
            Some(Body::Typedef(aliased)) if matches!(aliased.shape, Shape::Plain) => {
                kind = &aliased.base.kind;
            }
            _ => return false,
        }
    }
    false
}
