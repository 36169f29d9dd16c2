//! Splits one file's text into tokens.

use crate::diagnostic::Diagnostic;
use crate::source::{Sources, Span};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Word(String),
    /// The value. A sign is a separate token.
    Number(u64),
    /// The string's content, with escapes resolved.
    Text(String),
    Punctuation(&'static str),
    /// A line that begins with `%`, without the `%`.
    Verbatim(String),
    /// A line that begins with `#`. The directive's words follow, up to `EndOfLine`.
    Hash,
    EndOfLine,
    /// Text that isn't in the language. It is an error unless `#if` skips it.
    Wrong(Box<Diagnostic>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub span: Span,
}

impl Token {
    pub fn is(&self, punctuation: &str) -> bool {
        matches!(&self.kind, Kind::Punctuation(found) if *found == punctuation)
    }
}

/// Punctuation of the language and of `#if`. Longer ones come first, so that they match first.
const PUNCTUATION: [&str; 28] = [
    "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "{", "}", "(", ")", "[", "]", "<", ">", ";", ":", ",",
    "=", "*", "-", "+", "!", "/", "&", "|", "~",
];

/// The tokens of a file. Line ends are tokens only after directives.
pub fn tokens(sources: &Sources, file: usize) -> Result<Vec<Token>, Diagnostic> {
    Lexer { sources, file, rest: sources.text(file), line: 0, column: 0, directive: false, out: Vec::new() }
        .run()
}

struct Lexer<'a> {
    sources: &'a Sources,
    file: usize,
    rest: &'a str,
    line: usize,
    column: usize,
    directive: bool,
    out: Vec<Token>,
}

impl<'a> Lexer<'a> {
    fn run(mut self) -> Result<Vec<Token>, Diagnostic> {
        let mut line_is_empty = true;
        while let Some(next) = self.rest.chars().next() {
            let at = self.here();
            if line_is_empty && next == '%' && self.column == 0 {
                let text = self.advance(verbatim_length(self.rest));
                self.push(Kind::Verbatim(text[1..].to_owned()), at);
            } else if next == '\n' {
                if self.directive {
                    self.push(Kind::EndOfLine, at);
                    self.directive = false;
                }
                self.advance(1);
                line_is_empty = true;
            } else if next.is_ascii_whitespace() {
                self.advance(1);
            } else if let Some(length) = line_continuation(self.rest) {
                self.advance(length);
            } else if self.rest.starts_with("//") {
                self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let end =
                    self.rest[2..].find("*/").ok_or_else(|| self.error(at, 2, "this comment has no end"))?;
                self.advance(end + 4);
            } else {
                if line_is_empty && next == '#' {
                    self.advance(1);
                    self.directive = true;
                    self.push(Kind::Hash, at);
                } else {
                    self.token(next, at);
                }
                line_is_empty = false;
            }
        }
        if self.directive {
            self.push(Kind::EndOfLine, self.here());
        }
        Ok(self.out)
    }

    fn token(&mut self, next: char, at: Span) {
        let before = self.rest.len();
        let kind = self.kind(next, at).unwrap_or_else(|wrong| {
            if self.rest.len() == before {
                self.advance(next.len_utf8());
            }
            Kind::Wrong(Box::new(wrong))
        });
        self.push(kind, at);
    }

    fn kind(&mut self, next: char, at: Span) -> Result<Kind, Diagnostic> {
        Ok(if next.is_ascii_alphabetic() || next == '_' {
            Kind::Word(self.word().to_owned())
        } else if next.is_ascii_digit() {
            self.number(at)?
        } else if next == '"' || next == '\'' {
            self.quoted(next, at)?
        } else if let Some(found) = PUNCTUATION.iter().find(|known| self.rest.starts_with(**known)) {
            self.advance(found.len());
            Kind::Punctuation(found)
        } else if self.directive {
            // Directives for the C compiler (#pragma, #error) may contain any text.
            let text = self.advance(next.len_utf8());
            Kind::Word(text.to_owned())
        } else {
            let shown = next.escape_debug();
            return Err(self.error(at, 1, format!("'{shown}' isn't a character of the RPC language")));
        })
    }

    fn word(&mut self) -> &'a str {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.advance(self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len()))
    }

    fn number(&mut self, at: Span) -> Result<Kind, Diagnostic> {
        let text = self.word();
        // rpcgen passes numbers on to the C compiler, so they can have C's suffixes.
        let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
        let (digits, radix) = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
            [b'0', _, ..] => (&digits[1..], 8),
            _ => (digits, 10),
        };
        let valid = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
        if !valid {
            return Err(self.error(at, text.len(), format!("'{text}' is not a number")));
        }
        let value = u64::from_str_radix(digits, radix);
        let value = value.map_err(|_| self.error(at, text.len(), "this number needs more than 64 bits"))?;
        Ok(Kind::Number(value))
    }

    fn quoted(&mut self, quote: char, at: Span) -> Result<Kind, Diagnostic> {
        let mut content = String::new();
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find_map(|(index, c)| match c {
            '\n' => Some(None),
            _ if escaped => {
                escaped = false;
                content.push(unescaped(c));
                None
            }
            '\\' => {
                escaped = true;
                None
            }
            _ if c == quote => Some(Some(index + 1)),
            _ => {
                content.push(c);
                None
            }
        });
        let Some(length) = end.flatten() else {
            if self.directive {
                // An apostrophe in the text of #error isn't a quote.
                self.advance(1);
                return Ok(Kind::Word(quote.to_string()));
            }
            return Err(self.error(at, 1, format!("no closing {quote} on this line")));
        };
        self.advance(length);
        let mut characters = content.chars();
        match (quote, characters.next(), characters.next()) {
            ('\'', Some(only), None) if only.is_ascii() => Ok(Kind::Number(only as u64)),
            ('\'', ..) if !self.directive => {
                Err(self.error(at, length, "a character constant must have exactly one ASCII character"))
            }
            _ => Ok(Kind::Text(content)),
        }
    }

    /// Skips `length` bytes of the text, and returns them.
    fn advance(&mut self, length: usize) -> &'a str {
        let (passed, rest) = self.rest.split_at(length);
        self.rest = rest;
        match passed.rfind('\n') {
            Some(last) => {
                self.line += passed.matches('\n').count();
                self.column = passed.len() - last - 1;
            }
            None => self.column += passed.len(),
        }
        passed
    }

    fn here(&self) -> Span {
        Span { file: self.file, line: self.line, column: self.column, length: 0 }
    }

    fn push(&mut self, kind: Kind, at: Span) {
        let length = if self.line == at.line { self.column - at.column } else { 1 };
        self.out.push(Token { kind, span: Span { length, ..at } });
    }

    fn error(&self, at: Span, length: usize, message: impl Into<String>) -> Diagnostic {
        self.sources.error(Span { length, ..at }, message)
    }
}

/// Length up to the end of the line. A backslash at the end continues the line.
fn verbatim_length(text: &str) -> usize {
    let mut ends = text.match_indices('\n').map(|(end, _)| end);
    let is_last = |end: &usize| !text[..*end].trim_end_matches('\r').ends_with('\\');
    ends.find(is_last).unwrap_or(text.len())
}

fn line_continuation(text: &str) -> Option<usize> {
    ["\\\n", "\\\r\n"].iter().find(|end| text.starts_with(**end)).map(|end| end.len())
}

fn unescaped(c: char) -> char {
    match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        '0' => '\0',
        other => other,
    }
}
