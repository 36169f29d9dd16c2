//! The part of the C preprocessor that .x files use: `#include`, `#define` without parameters, `#undef`,
//! `#ifdef`, `#ifndef`, `#else`, `#elif`, `#if` with `defined` and integers, and `#error`. It skips
//! `#pragma`, `#ident` and line markers.

mod condition;

use crate::diagnostic::Diagnostic;
use crate::lex::{self, Kind, Token};
use crate::source::{self, Sources, Span};
use crate::{MAX_INCLUDE_DEPTH, MAX_TOKENS};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The tokens after preprocessing, in order, with those of included files in place of `#include`.
pub fn preprocess(
    sources: &mut Sources,
    file: usize,
    include_dirs: &[PathBuf],
    defined: &[(String, String)],
) -> Result<Vec<Token>, Diagnostic> {
    let mut this = Preprocessor { sources, include_dirs, macros: HashMap::new(), out: Vec::new(), work: 0 };
    for (name, value) in defined {
        let file = this.sources.add(PathBuf::from("command line"), value.clone());
        let body = lex::tokens(this.sources, file)?;
        this.macros.insert(name.clone(), body);
    }
    this.file(file, 0)?;
    Ok(this.out)
}

struct Preprocessor<'a> {
    sources: &'a mut Sources,
    include_dirs: &'a [PathBuf],
    macros: HashMap<String, Vec<Token>>,
    out: Vec<Token>,
    /// Tokens handled so far, also dropped ones. The limit [`MAX_TOKENS`] bounds the time.
    work: usize,
}

/// An open `#if`.
struct Branch {
    opened: Span,
    /// Whether the part up to the next `#else` or `#endif` is taken.
    active: bool,
    /// Whether no further branch can be taken: an earlier one was taken, or the whole `#if` is in a skipped
    /// part.
    settled: bool,
    after_else: bool,
}

impl Preprocessor<'_> {
    fn file(&mut self, file: usize, depth: usize) -> Result<(), Diagnostic> {
        let tokens = lex::tokens(self.sources, file)?;
        let mut open: Vec<Branch> = Vec::new();
        let mut rest = &tokens[..];
        while let Some((token, after)) = rest.split_first() {
            let active = open.iter().all(|branch| branch.active);
            if token.kind != Kind::Hash {
                if active {
                    self.expand(token, token.span, &mut Vec::new())?;
                }
                rest = after;
                continue;
            }
            let end = after.iter().position(|token| token.kind == Kind::EndOfLine).unwrap_or(after.len());
            let line = &after[..end];
            rest = after.get(end + 1..).unwrap_or_default();
            // `#` alone is valid, and `# 1 "file"` is a line marker.
            let Some((Token { kind: Kind::Word(name), span }, arguments)) = line.split_first() else {
                continue;
            };
            if !self.conditional(name, *span, arguments, &mut open)? && active {
                self.directive(name, *span, arguments, depth)?;
            }
        }
        match open.pop() {
            Some(branch) => Err(self.sources.error(branch.opened, "no #endif for this")),
            None => Ok(()),
        }
    }

    /// Handles a directive of the `#if` family; false for any other.
    fn conditional(
        &mut self,
        name: &str,
        span: Span,
        arguments: &[Token],
        open: &mut Vec<Branch>,
    ) -> Result<bool, Diagnostic> {
        match name {
            "if" | "ifdef" | "ifndef" => {
                if open.len() == MAX_INCLUDE_DEPTH {
                    return Err(self
                        .sources
                        .error(span, format!("more than {MAX_INCLUDE_DEPTH} nested #if")));
                }
                let outer = open.iter().all(|branch| branch.active);
                let active = outer && self.condition(name, span, arguments)?;
                open.push(Branch { opened: span, active, settled: active || !outer, after_else: false });
            }
            "elif" | "else" => {
                let Some(branch) = open.last().filter(|branch| !branch.after_else) else {
                    return Err(self.sources.error(span, format!("no #if for this #{name}")));
                };
                let active = !branch.settled && (name == "else" || self.condition("if", span, arguments)?);
                if let Some(branch) = open.last_mut() {
                    branch.active = active;
                    branch.settled |= active;
                    branch.after_else = name == "else";
                }
            }
            "endif" => {
                open.pop().ok_or_else(|| self.sources.error(span, "no #if for this #endif"))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn condition(&self, directive: &str, span: Span, arguments: &[Token]) -> Result<bool, Diagnostic> {
        if directive == "if" {
            return condition::holds(self.sources, &self.macros, span, arguments);
        }
        let (name, _) = self.name(span, arguments)?;
        Ok(self.macros.contains_key(name) == (directive == "ifdef"))
    }

    fn directive(
        &mut self,
        name: &str,
        span: Span,
        arguments: &[Token],
        depth: usize,
    ) -> Result<(), Diagnostic> {
        match name {
            "define" => {
                let (name, body) = self.name(span, arguments)?;
                let name_end = arguments[0].span.column + arguments[0].span.length;
                if let Some(first) =
                    body.first().filter(|first| first.is("(") && first.span.column == name_end)
                {
                    let message = "macros with parameters are not supported in .x files";
                    return Err(self.sources.error(first.span, message));
                }
                self.macros.insert(name.to_owned(), body.to_vec());
            }
            "undef" => {
                let (name, _) = self.name(span, arguments)?;
                self.macros.remove(name);
            }
            "include" => self.include(span, arguments, depth)?,
            "error" => {
                let line = self.sources.line(span);
                let text = line.split_once("error").map_or("", |(_, text)| text.trim()).to_owned();
                return Err(self.sources.error(span, format!("#error {text}")));
            }
            "pragma" | "ident" | "line" | "warning" => {}
            other => return Err(self.sources.error(span, format!("unknown directive #{other}"))),
        }
        Ok(())
    }

    fn name<'t>(&self, span: Span, arguments: &'t [Token]) -> Result<(&'t str, &'t [Token]), Diagnostic> {
        match arguments.split_first() {
            Some((Token { kind: Kind::Word(name), .. }, rest)) => Ok((name, rest)),
            _ => Err(self.sources.error(span, "a name is missing after this")),
        }
    }

    fn include(&mut self, span: Span, arguments: &[Token], depth: usize) -> Result<(), Diagnostic> {
        if depth == MAX_INCLUDE_DEPTH {
            let message = format!("files include each other more than {MAX_INCLUDE_DEPTH} deep");
            return Err(self.sources.error(span, message));
        }
        let (name, beside) = match arguments {
            [Token { kind: Kind::Text(name), .. }] => (name.clone(), true),
            [first, .., last] if first.is("<") && last.is(">") => {
                let line = self.sources.line(span);
                let name = line.get(first.span.column + 1..last.span.column).unwrap_or_default();
                (name.to_owned(), false)
            }
            _ => return Err(self.sources.error(span, "expected \"file\" or <file> after this")),
        };
        let directory = self.sources.path(span.file).parent().unwrap_or(Path::new("")).to_path_buf();
        let directories = beside.then_some(&directory).into_iter().chain(self.include_dirs);
        let found = directories.map(|directory| directory.join(&name)).find(|path| path.is_file());
        let path = found.ok_or_else(|| self.sources.error(span, format!("file '{name}' not found")))?;
        let text = source::read(&path)
            .map_err(|why| self.sources.error(span, format!("{}: {why}", path.display())))?;
        // Count each include, so that including an empty file again and again reaches the limit.
        self.count(1 + text.len() / 16, span)?;
        let file = self.sources.add(path, text);
        self.file(file, depth + 1)
    }

    /// Appends a token. If it is a macro that isn't being expanded already, appends its expansion.
    fn expand(&mut self, token: &Token, used_at: Span, within: &mut Vec<String>) -> Result<(), Diagnostic> {
        self.count(1, used_at)?;
        if let Kind::Wrong(wrong) = &token.kind {
            return Err((**wrong).clone());
        }
        if let Kind::Word(name) = &token.kind
            && within.len() < MAX_INCLUDE_DEPTH
            && !within.contains(name)
            && let Some(body) = self.macros.get(name)
        {
            let body = body.clone();
            within.push(name.clone());
            for part in &body {
                self.expand(part, used_at, within)?;
            }
            within.pop();
            return Ok(());
        }
        // Errors point to the macro's use, since people know that line.
        self.out.push(Token { kind: token.kind.clone(), span: used_at });
        Ok(())
    }

    fn count(&mut self, tokens: usize, span: Span) -> Result<(), Diagnostic> {
        self.work += tokens;
        if self.work > MAX_TOKENS {
            return Err(self.sources.error(span, format!("more than {MAX_TOKENS} tokens")));
        }
        Ok(())
    }
}
