//! The names of a specification, and the numbers of constants.

use crate::MAX_NESTING;
use crate::diagnostic::{Diagnostic, MAX_SHOWN};
use crate::source::Sources;
use crate::syntax::{Body, Constant, Definition, Name, Value};
use std::cell::RefCell;
use std::collections::HashMap;

pub struct Scope<'a> {
    sources: &'a Sources,
    numbers: HashMap<&'a str, Number<'a>>,
    known: RefCell<HashMap<&'a str, i128>>,
}

/// The constants of `bool`, unless the source defines them.
const BOOL: [(&str, i128); 2] = [("FALSE", 0), ("TRUE", 1)];

/// A named number: the value `from` (0 if there is none) plus `add`. Enum members count up from a value.
#[derive(Clone, Copy)]
struct Number<'a> {
    from: Option<&'a Value>,
    add: i128,
}

impl<'a> Scope<'a> {
    /// All named numbers; adds errors for names defined twice.
    pub fn new(sources: &'a Sources, definitions: &'a [Definition], errors: &mut Vec<Diagnostic>) -> Self {
        let mut taken: HashMap<&str, &Name> = HashMap::new();
        let bools = BOOL.iter().map(|(name, number)| (*name, Number { from: None, add: *number }));
        // The names of programs, versions and procedures are numbers, too, as in C, where they are macros.
        // Other definitions of a name take precedence.
        let mut numbers: HashMap<_, _> = bools.chain(definitions.iter().flat_map(of_program)).collect();
        let mut take = |name: &'a Name| {
            if let Some(first) = taken.insert(&name.text, name)
                && errors.len() < MAX_SHOWN
            {
                let place = format!("{}:{}", sources.path(first.span.file).display(), first.span.line + 1);
                let message = format!("'{}' is defined already, at {place}", name.text);
                errors.push(sources.error(name.span, message));
            }
        };
        for definition in definitions {
            take(&definition.name);
            match &definition.body {
                Body::Constant(Constant::Value(value)) => {
                    numbers.insert(&definition.name.text, Number { from: Some(value), add: 0 });
                }
                Body::Constant(Constant::Sum(value, add)) => {
                    numbers.insert(&definition.name.text, Number { from: Some(value), add: *add });
                }
                Body::Enum(members) => {
                    let mut next = Number { from: None, add: 0 };
                    for member in members {
                        take(&member.name);
                        if member.value.is_some() {
                            next = Number { from: member.value.as_ref(), add: 0 };
                        }
                        numbers.insert(&member.name.text, next);
                        next.add += 1;
                    }
                }
                _ => {}
            }
        }
        Self { sources, numbers, known: RefCell::default() }
    }

    pub fn number(&self, value: &'a Value) -> Result<i128, Diagnostic> {
        self.number_within(value, 0)
    }

    /// The number of a name that is known to have one.
    pub fn number_of(&self, name: &'a Name) -> Result<i128, Diagnostic> {
        self.named(name, 0)
    }

    fn number_within(&self, value: &'a Value, depth: usize) -> Result<i128, Diagnostic> {
        match value {
            Value::Number(number, _) => Ok(*number),
            Value::Name(name) => self.named(name, depth),
        }
    }

    fn named(&self, name: &'a Name, depth: usize) -> Result<i128, Diagnostic> {
        if let Some(known) = self.known.borrow().get(name.text.as_str()) {
            return Ok(*known);
        }
        let Some(number) = self.numbers.get(name.text.as_str()) else {
            let message = format!(
                "'{}' isn't defined; if a C header defines it, give its number with --types FILE",
                name.text
            );
            return Err(self.sources.error(name.span, message));
        };
        if depth == MAX_NESTING {
            let message = format!(
                "'{}' is defined by itself, or through more than {MAX_NESTING} other names",
                name.text
            );
            return Err(self.sources.error(name.span, message));
        }
        let from = number.from.map_or(Ok(0), |value| self.number_within(value, depth + 1))?;
        self.known.borrow_mut().insert(&name.text, from + number.add);
        Ok(from + number.add)
    }
}

/// The numbers that a program names: its own, those of its versions, and those of their procedures.
fn of_program(definition: &Definition) -> Vec<(&str, Number<'_>)> {
    let Body::Program { number, versions } = &definition.body else { return Vec::new() };
    let of_versions = versions.iter().flat_map(|version| {
        let procedures = version.procedures.iter().map(|procedure| (&procedure.name, &procedure.number));
        procedures.chain([(&version.name, &version.number)])
    });
    let all = of_versions.chain([(&definition.name, number)]);
    all.map(|(name, number)| (name.text.as_str(), Number { from: Some(number), add: 0 })).collect()
}
