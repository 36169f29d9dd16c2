//! The expressions of `#if`: integers, names, `defined`, `!`, comparisons, `&&`, `||` and
//! parentheses. An undefined name is 0, as in C.

use crate::diagnostic::Diagnostic;
use crate::lex::{Kind, Token};
use crate::source::{Sources, Span};
use crate::{MAX_INCLUDE_DEPTH, MAX_NESTING};
use std::collections::HashMap;

/// Whether the expression isn't 0.
pub fn holds(
    sources: &Sources,
    macros: &HashMap<String, Vec<Token>>,
    directive: Span,
    expression: &[Token],
) -> Result<bool, Diagnostic> {
    let mut this = Condition { sources, macros, directive, rest: expression, depth: 0 };
    let value = this.binary(0)?;
    match this.rest.first() {
        Some(token) => Err(sources.error(token.span, "#if doesn't support this")),
        None => Ok(value != 0),
    }
}

/// Operators by precedence, weakest first.
const LEVELS: [&[&str]; 4] = [&["||"], &["&&"], &["==", "!="], &["<=", ">=", "<", ">"]];

struct Condition<'a> {
    sources: &'a Sources,
    macros: &'a HashMap<String, Vec<Token>>,
    directive: Span,
    rest: &'a [Token],
    depth: usize,
}

impl Condition<'_> {
    fn binary(&mut self, level: usize) -> Result<i128, Diagnostic> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = operators.iter().find(|operator| self.next_is(operator)) {
            self.rest = &self.rest[1..];
            let right = self.binary(level + 1)?;
            left = i128::from(match *operator {
                "||" => left != 0 || right != 0,
                "&&" => left != 0 && right != 0,
                "==" => left == right,
                "!=" => left != right,
                "<=" => left <= right,
                ">=" => left >= right,
                "<" => left < right,
                _ => left > right,
            });
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<i128, Diagnostic> {
        let Some((token, rest)) = self.rest.split_first() else {
            return Err(self.sources.error(self.directive, "the condition ends too early"));
        };
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(self.sources.error(token.span, format!("nested more than {MAX_NESTING} deep")));
        }
        self.rest = rest;
        let value = match &token.kind {
            Kind::Punctuation("!") => i128::from(self.unary()? == 0),
            Kind::Punctuation("-") => -self.unary()?,
            Kind::Punctuation("(") => {
                let value = self.binary(0)?;
                self.close()?;
                value
            }
            Kind::Number(value) => i128::from(*value),
            Kind::Word(word) if word == "defined" => self.defined()?,
            Kind::Word(name) => self.value_of(name, 0),
            _ => return Err(self.sources.error(token.span, "#if doesn't support this")),
        };
        self.depth -= 1;
        Ok(value)
    }

    fn defined(&mut self) -> Result<i128, Diagnostic> {
        let parenthesised = self.next_is("(");
        if parenthesised {
            self.rest = &self.rest[1..];
        }
        let Some((Token { kind: Kind::Word(name), .. }, rest)) = self.rest.split_first() else {
            return Err(self.sources.error(self.directive, "defined needs a name"));
        };
        self.rest = rest;
        if parenthesised {
            self.close()?;
        }
        Ok(self.macros.contains_key(name).into())
    }

    fn close(&mut self) -> Result<(), Diagnostic> {
        if !self.next_is(")") {
            return Err(self.sources.error(self.directive, "a ) is missing"));
        }
        self.rest = &self.rest[1..];
        Ok(())
    }

    fn next_is(&self, operator: &str) -> bool {
        self.rest.first().is_some_and(|token| token.is(operator))
    }

    fn value_of(&self, name: &str, depth: usize) -> i128 {
        match self.macros.get(name).map(Vec::as_slice) {
            Some([Token { kind: Kind::Number(value), .. }]) => i128::from(*value),
            Some([Token { kind: Kind::Word(other), .. }]) if depth < MAX_INCLUDE_DEPTH => {
                self.value_of(other, depth + 1)
            }
            _ => 0,
        }
    }
}
