//! Parses tokens into definitions: the grammar of RFC 5531 and RFC 4506, with rpcgen's extensions.
//! A type that is defined inside a declaration (RFC 4506 allows it, rpcgen doesn't) becomes a separate
//! definition, named owner_declaration.

use crate::MAX_NESTING;
use crate::diagnostic::{Diagnostic, Diagnostics, MAX_SHOWN};
use crate::lex::{Kind, Token};
use crate::source::{Sources, Span};
use crate::syntax::*;

pub fn parse(sources: &Sources, tokens: &[Token]) -> Result<Vec<Definition>, Diagnostics> {
    parse_with_lines(sources, tokens).map(|(definitions, _)| definitions)
}

/// Lines for the C compiler (`%`), each with the number of definitions before it. A line inside a
/// definition counts as before it, as in rpcgen's output.
pub type Lines<'t> = Vec<(usize, &'t str)>;

/// As [`parse`]; also returns the lines for the C compiler.
pub fn parse_with_lines<'t>(
    sources: &Sources,
    tokens: &'t [Token],
) -> Result<(Vec<Definition>, Lines<'t>), Diagnostics> {
    let mut lines = Vec::new();
    let mut of_language: Vec<&Token> = Vec::with_capacity(tokens.len());
    for token in tokens {
        match &token.kind {
            Kind::Verbatim(text) => lines.push((of_language.len(), text.as_str())),
            _ => of_language.push(token),
        }
    }
    let mut parser = Parser { sources, tokens: &of_language, at: 0, nesting: 0, definitions: Vec::new() };
    let (mut errors, mut passed) = (Vec::new(), 0);
    while parser.at < of_language.len() && errors.len() < MAX_SHOWN {
        let before = parser.definitions.len();
        if let Err(error) = parser.definition() {
            errors.push(error);
            parser.skip_to_next_definition();
        }
        for (at, _) in lines.iter_mut().skip(passed).take_while(|(at, _)| *at < parser.at) {
            *at = before;
            passed += 1;
        }
    }
    lines.iter_mut().skip(passed).for_each(|(at, _)| *at = parser.definitions.len());
    if errors.is_empty() { Ok((parser.definitions, lines)) } else { Err(Diagnostics(errors)) }
}

/// First words of definitions.
const DEFINITIONS: [&str; 6] = ["const", "typedef", "enum", "struct", "union", "program"];

/// Words that can't be names, in RFC 4506, RFC 5531 or rpcgen.
const RESERVED: [&str; 26] = [
    "bool",
    "case",
    "char",
    "const",
    "default",
    "double",
    "enum",
    "float",
    "hyper",
    "int",
    "long",
    "opaque",
    "program",
    "quadruple",
    "short",
    "string",
    "struct",
    "switch",
    "typedef",
    "union",
    "unsigned",
    "version",
    "void",
    "signed",
    "volatile",
    "register",
];

type Parsed<T> = Result<T, Diagnostic>;

struct Parser<'a> {
    sources: &'a Sources,
    tokens: &'a [&'a Token],
    at: usize,
    nesting: usize,
    definitions: Vec<Definition>,
}

impl<'a> Parser<'a> {
    /// After an error, skips to a line that begins with a definition. Inside a definition, such lines are
    /// indented in practice.
    fn skip_to_next_definition(&mut self) {
        let begins = |token: &&Token| {
            token.span.column == 0
                && matches!(&token.kind, Kind::Word(word) if DEFINITIONS.contains(&word.as_str()))
        };
        let skipped = self.tokens[self.at..].iter().position(begins);
        self.at = skipped.map_or(self.tokens.len(), |skipped| self.at + skipped);
        self.nesting = 0;
    }

    fn definition(&mut self) -> Parsed<()> {
        let (word, span) = match self.peek() {
            Some(Token { kind: Kind::Word(word), span }) => (word.as_str(), *span),
            _ => return Err(self.expected("a definition")),
        };
        self.at += 1;
        match word {
            "const" => {
                let name = self.name("the constant's name")?;
                self.punctuation("=")?;
                let body = Body::Constant(self.constant()?);
                self.define(name, body);
            }
            "typedef" => self.typedef()?,
            "enum" | "struct" | "union" => {
                let name = self.name("the type's name")?;
                let body = self.type_body(word, &name.text)?;
                self.define(name, body);
            }
            "program" => self.program()?,
            other => {
                let message =
                    format!("expected const, typedef, enum, struct, union or program, found '{other}'");
                return Err(self.sources.error(span, message));
            }
        }
        self.punctuation(";")
    }

    fn constant(&mut self) -> Parsed<Constant> {
        if let Some(Token { kind: Kind::Text(text), .. }) = self.peek() {
            self.at += 1;
            return Ok(Constant::Text(text.clone()));
        }
        self.value().map(Constant::Value)
    }

    fn typedef(&mut self) -> Parsed<()> {
        if let (Some(Kind::Word(keyword)), Some(body_name)) = (self.peek_kind(0), self.name_behind_body()) {
            // `typedef struct { … } name;` defines the struct by that name.
            let keyword = keyword.as_str();
            self.at += 1;
            let body = self.type_body(keyword, &body_name)?;
            let name = self.name("the type's name")?;
            self.define(name, body);
            return Ok(());
        }
        match self.declaration("typedef")? {
            // `typedef struct foo foo;`, a habit from C, defines nothing here.
            Some(Declaration {
                name,
                base: Base { kind: BaseKind::Named(same), .. },
                shape: Shape::Plain,
            }) if name.text == same => {}
            Some(declaration) => self.define(declaration.name.clone(), Body::Typedef(declaration)),
            None => return Err(self.expected("a type other than void")),
        }
        Ok(())
    }

    /// Parses the part after `enum`, `struct` or `union` and after its name, if it has one.
    fn type_body(&mut self, keyword: &str, owner: &str) -> Parsed<Body> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(self.here(&format!("types nested more than {MAX_NESTING} deep")));
        }
        let body = match keyword {
            "enum" => self.enum_body()?,
            "struct" => self.struct_body(owner)?,
            _ => self.union_body(owner)?,
        };
        self.nesting -= 1;
        Ok(body)
    }

    fn enum_body(&mut self) -> Parsed<Body> {
        self.punctuation("{")?;
        let mut members = Vec::new();
        loop {
            let name = self.name("a member's name")?;
            let value = if self.take("=") { Some(self.value()?) } else { None };
            members.push(Member { name, value });
            if !self.take(",") {
                break;
            }
        }
        self.punctuation("}")?;
        Ok(Body::Enum(members))
    }

    fn struct_body(&mut self, owner: &str) -> Parsed<Body> {
        self.punctuation("{")?;
        let mut fields = Vec::new();
        while !self.take("}") {
            let span = self.peek().map(|token| token.span);
            let Some(field) = self.declaration(owner)? else {
                return Err(self.sources.error(span.unwrap_or_default(), "a field can't be void"));
            };
            fields.push(field);
            self.punctuation(";")?;
        }
        Ok(Body::Struct(fields))
    }

    fn union_body(&mut self, owner: &str) -> Parsed<Body> {
        self.word("switch")?;
        self.punctuation("(")?;
        let Some(discriminant) = self.declaration(owner)? else {
            return Err(self.expected("the discriminant"));
        };
        self.punctuation(")")?;
        self.punctuation("{")?;
        let (mut arms, mut default) = (Vec::new(), None);
        while !self.take("}") {
            if self.take_word("default") {
                self.punctuation(":")?;
                default = Some(self.declaration(owner)?);
                self.punctuation(";")?;
                self.punctuation("}")?;
                break;
            }
            let mut labels = Vec::new();
            while self.take_word("case") {
                labels.push(self.value()?);
                self.punctuation(":")?;
            }
            if labels.is_empty() {
                return Err(self.expected("case, default or }"));
            }
            if self.peek_word() == Some("default") {
                return Err(self.here("this case is covered by default, so leave it out"));
            }
            arms.push(Arm { labels, declaration: self.declaration(owner)? });
            self.punctuation(";")?;
        }
        Ok(Body::Union(Box::new(Union { discriminant, arms, default })))
    }

    /// Parses a type and a name; `None` for void.
    fn declaration(&mut self, owner: &str) -> Parsed<Option<Declaration>> {
        if self.take_word("void") {
            return Ok(None);
        }
        let base = self.type_specifier(owner)?;
        let optional = self.take("*");
        let name = self.name("a name")?;
        let shape = if optional {
            Shape::Optional
        } else if self.take("[") {
            let length = self.value()?;
            self.punctuation("]")?;
            Shape::Fixed(length)
        } else if self.take("<") {
            self.limit()?
        } else {
            Shape::Plain
        };
        if optional && (self.peek_is("[") || self.peek_is("<")) {
            return Err(self.here("`*` and an array in one declaration: first `typedef T *name;`, then declare an array of `name`"));
        }
        Ok(Some(Declaration { name, base, shape }))
    }

    /// Parses the part after `<`.
    fn limit(&mut self) -> Parsed<Shape> {
        if self.take(">") {
            return Ok(Shape::Variable(None));
        }
        let limit = self.value()?;
        self.punctuation(">")?;
        Ok(Shape::Variable(Some(limit)))
    }

    fn type_specifier(&mut self, owner: &str) -> Parsed<Base> {
        let Some(Token { kind: Kind::Word(word), span }) = self.peek() else {
            return Err(self.expected("a type"));
        };
        let inner_name = self.name_behind_body();
        self.at += 1;
        let is_long = word == "long" || (word == "unsigned" && self.peek_word() == Some("long"));
        let kind = match word.as_str() {
            "enum" | "struct" | "union" => match inner_name {
                Some(inner) => {
                    let name = Name { text: format!("{owner}_{inner}"), span: *span };
                    let body = self.type_body(word, &name.text)?;
                    self.define(name.clone(), body);
                    BaseKind::Named(name.text)
                }
                None => {
                    let name = self.name("the type's name")?;
                    return Ok(Base { kind: BaseKind::Named(name.text), span: name.span, is_long: false });
                }
            },
            "unsigned" => BaseKind::Primitive(self.unsigned()),
            "opaque" => BaseKind::Opaque,
            "string" => BaseKind::Text,
            "void" => return Err(self.sources.error(*span, "void is for union arms and procedures only")),
            other => match primitive(other) {
                Some(primitive) => {
                    if matches!(other, "short" | "long") {
                        self.take_word("int");
                    }
                    BaseKind::Primitive(primitive)
                }
                None if RESERVED.contains(&other) => {
                    return Err(self.sources.error(*span, format!("expected a type, found '{other}'")));
                }
                None => BaseKind::Named(other.to_owned()),
            },
        };
        Ok(Base { kind, span: *span, is_long })
    }

    /// Parses the part after `unsigned`. `unsigned` alone is `unsigned int`, and `int` can follow `short` and
    /// `long`.
    fn unsigned(&mut self) -> Primitive {
        let word = self.peek_word();
        let unsigned = match word {
            Some("char") => Primitive::U8,
            Some("short") => Primitive::U16,
            Some("int" | "long") => Primitive::U32,
            Some("hyper") => Primitive::U64,
            _ => return Primitive::U32,
        };
        self.at += 1;
        if matches!(word, Some("short" | "long")) {
            self.take_word("int");
        }
        unsigned
    }

    /// If a body begins here (`struct { … } name`), the name after it.
    fn name_behind_body(&self) -> Option<String> {
        let mut at = self.at + 1;
        match self.peek_word()? {
            "enum" | "struct" if self.is_at(at, "{") => {}
            "union" if matches!(self.peek_kind(1), Some(Kind::Word(word)) if word == "switch") => {
                at += self.tokens[at..].iter().position(|token| token.is("{"))?;
            }
            _ => return None,
        }
        let mut open = 0usize;
        let close = self.tokens[at..].iter().position(|token| {
            open += usize::from(token.is("{"));
            open -= usize::from(token.is("}")).min(open);
            open == 0
        })?;
        let behind = self.tokens[at + close + 1..].iter().find(|token| !token.is("*"))?;
        match &behind.kind {
            Kind::Word(name) => Some(name.clone()),
            _ => None,
        }
    }

    fn program(&mut self) -> Parsed<()> {
        let name = self.name("the program's name")?;
        self.punctuation("{")?;
        let mut versions = Vec::new();
        while !self.take("}") {
            self.word("version")?;
            let name = self.name("the version's name")?;
            self.punctuation("{")?;
            let mut procedures = Vec::new();
            while !self.take("}") {
                procedures.push(self.procedure()?);
                self.punctuation(";")?;
            }
            self.punctuation("=")?;
            versions.push(Version { name, number: self.value()?, procedures });
            self.punctuation(";")?;
        }
        self.punctuation("=")?;
        let number = self.value()?;
        self.define(name, Body::Program { number, versions });
        Ok(())
    }

    fn procedure(&mut self) -> Parsed<Procedure> {
        let start = self.at;
        let result = self.parameter("result")?;
        let name = self.name("the procedure's name")?;
        self.punctuation("(")?;
        let mut arguments = Vec::new();
        // rpcgen accepts `()` for `(void)`.
        while !self.peek_is(")") {
            let span = self.peek().map_or(name.span, |token| token.span);
            match self.parameter(&format!("arg{}", arguments.len() + 1))? {
                Some(argument) => arguments.push(argument),
                None if arguments.is_empty() && self.peek_is(")") => {}
                None => return Err(self.sources.error(span, "void must be the only argument")),
            }
            if !self.take(",") {
                break;
            }
        }
        self.punctuation(")")?;
        let written = self.written(start);
        self.punctuation("=")?;
        Ok(Procedure { name, number: self.value()?, result, arguments, written })
    }

    /// The tokens from `start` up to here as written in the source, with macros not expanded.
    fn written(&self, start: usize) -> String {
        let mut spans: Vec<Span> = self.tokens[start..self.at].iter().map(|token| token.span).collect();
        spans.dedup();
        let texts = spans
            .iter()
            .filter_map(|span| self.sources.line(*span).get(span.column..span.column + span.length));
        let mut written = String::new();
        for text in texts {
            let close = written.is_empty()
                || written.ends_with(['(', '<', '*'])
                || ["(", ")", "<", ">", ","].contains(&text);
            written += if close { "" } else { " " };
            written += text;
        }
        written
    }

    /// Parses an argument or result: a type, optionally followed, as in rpcgen's language, by `*`, a name or
    /// a string's limit.
    fn parameter(&mut self, default_name: &str) -> Parsed<Option<Declaration>> {
        if self.take_word("void") {
            return Ok(None);
        }
        if self.name_behind_body().is_some() {
            return Err(self.here("a type can't be defined here"));
        }
        let base = self.type_specifier("")?;
        let is_text = matches!(base.kind, BaseKind::Text);
        let mut name = Name { text: default_name.to_owned(), span: base.span };
        if matches!(base.kind, BaseKind::Opaque) {
            return Err(self.sources.error(
                base.span,
                "opaque has no length here: use a typedef, such as `typedef opaque data<>;`",
            ));
        }
        let mut shape = if is_text { Shape::Variable(None) } else { Shape::Plain };
        if default_name != "result" {
            if !is_text && self.take("*") {
                shape = Shape::Optional;
            }
            if matches!(self.peek_kind(0), Some(Kind::Word(_))) {
                name = self.name("the argument's name")?;
            }
        }
        if is_text && self.take("<") {
            shape = self.limit()?;
        } else if self.peek_is("[") || self.peek_is("<") || self.peek_is("*") {
            return Err(self.here("use a typedef for the array or optional data, and name it here"));
        }
        Ok(Some(Declaration { name, base, shape }))
    }

    fn value(&mut self) -> Parsed<Value> {
        let negative = self.take("-");
        match self.peek() {
            Some(Token { kind: Kind::Number(number), span }) => {
                self.at += 1;
                let number = i128::from(*number);
                Ok(Value::Number(if negative { -number } else { number }, *span))
            }
            Some(Token { kind: Kind::Word(_), .. }) if !negative => {
                // TRUE and FALSE are keywords in one of the two RFCs, and constants in the other.
                self.name("a number or a constant's name").map(Value::Name)
            }
            _ => Err(self.expected("a number or a constant's name")),
        }
    }

    fn define(&mut self, name: Name, body: Body) {
        self.definitions.push(Definition { name, body, in_place: false });
    }

    fn name(&mut self, what: &str) -> Parsed<Name> {
        match self.peek() {
            Some(Token { kind: Kind::Word(word), span }) if !RESERVED.contains(&word.as_str()) => {
                self.at += 1;
                Ok(Name { text: word.clone(), span: *span })
            }
            Some(Token { kind: Kind::Word(word), .. }) => {
                Err(self.here(&format!("expected {what}, found '{word}', a keyword of the language")))
            }
            _ => Err(self.expected(what)),
        }
    }

    fn word(&mut self, word: &str) -> Parsed<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.expected(word)) }
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.peek_word() == Some(word);
        self.at += usize::from(found);
        found
    }

    fn punctuation(&mut self, punctuation: &str) -> Parsed<()> {
        if self.take(punctuation) { Ok(()) } else { Err(self.expected(&format!("'{punctuation}'"))) }
    }

    fn take(&mut self, punctuation: &str) -> bool {
        let found = self.peek_is(punctuation);
        self.at += usize::from(found);
        found
    }

    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at).copied()
    }

    fn peek_kind(&self, ahead: usize) -> Option<&'a Kind> {
        self.tokens.get(self.at + ahead).map(|token| &token.kind)
    }

    fn peek_word(&self) -> Option<&'a str> {
        match self.peek_kind(0) {
            Some(Kind::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn peek_is(&self, punctuation: &str) -> bool {
        self.is_at(self.at, punctuation)
    }

    fn is_at(&self, at: usize, punctuation: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(punctuation))
    }

    fn expected(&self, what: &str) -> Diagnostic {
        let found = match self.peek_kind(0) {
            Some(Kind::Word(word)) => format!("'{word}'"),
            Some(Kind::Number(number)) => number.to_string(),
            Some(Kind::Text(_)) => "a string".to_owned(),
            Some(Kind::Punctuation(found)) => format!("'{found}'"),
            _ => "the end of the file".to_owned(),
        };
        self.here(&format!("expected {what}, found {found}"))
    }

    /// Makes an error at the next token or, at the end, after the last one.
    fn here(&self, message: &str) -> Diagnostic {
        let end = || {
            let last = self.tokens.last()?.span;
            Some(Span { column: last.column + last.length, length: 1, ..last })
        };
        let span = self.peek().map(|token| token.span).or_else(end).unwrap_or_default();
        self.sources.error(span, message)
    }
}

fn primitive(word: &str) -> Option<Primitive> {
    Some(match word {
        "bool" => Primitive::Bool,
        "char" => Primitive::I8,
        "short" => Primitive::I16,
        // XDR's `long` has 32 bits, whatever the size of C's `long` is.
        "int" | "long" => Primitive::I32,
        "hyper" => Primitive::I64,
        "float" => Primitive::F32,
        "double" => Primitive::F64,
        "quadruple" => Primitive::Quadruple,
        _ => return None,
    })
}
