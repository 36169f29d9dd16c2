//! Finds definitions of names that a source uses but doesn't define. rpcgen leaves such names to the C
//! compiler. frpcgen searches for a definition in this order:
//!
//! 1. the files that the user gives (`--types`),
//! 2. the source's own lines for the C compiler, `%#define NAME NUMBER` and `%#define NAME TYPE`,
//! 3. the `.x` file that belongs to a header: for `%#include "foo.h"`, `foo.x` in the source's directory,
//! 4. the table of C's names, `c_types.x`.
//!
//! Only needed definitions enter the model.

mod foreign;
mod mentions;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::lex::{self, Kind, Token};
use crate::source::{self, Sources, Span};
use crate::syntax::{Body, Constant, Definition, Name, Value};
use crate::{parse, preprocess};
use mentions::{defined_names, mentions};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// The names that C headers define, with their meaning in .x files.
const C_TYPES: &str = include_str!("c_types.x");

/// Most headers whose `.x` files are searched. Real interfaces include some twenty.
const MAX_HEADERS: usize = 256;

/// The places to search.
pub struct Places<'a> {
    pub types: &'a [PathBuf],
    pub include_dirs: &'a [PathBuf],
    pub defined: &'a [(String, String)],
}

/// Reads a file's definitions, and adds those that they need. Warns about names without a definition.
pub fn read(
    sources: &mut Sources,
    file: usize,
    places: &Places<'_>,
) -> Result<(Vec<Definition>, Vec<Diagnostic>), Diagnostics> {
    let mut library = Library {
        sources,
        places,
        read: Vec::new(),
        found: HashMap::new(),
        open: Vec::new(),
        headers: 0,
        opened: HashSet::new(),
    };
    let (mut definitions, verbatim) = library.parse(file)?;
    without_repeats(&mut definitions);
    library.complete(&mut definitions, &verbatim)?;
    // Lines in any branch of `#ifdef` count, since a branch may be for another output of rpcgen.
    let speaks_to_c = sources.text(file).lines().any(|line| line.starts_with('%'));
    let warnings = if speaks_to_c { foreign::replace(sources, &mut definitions) } else { Vec::new() };
    Ok((definitions, warnings))
}

/// A line that begins with `%`.
struct Verbatim {
    text: String,
    span: Span,
}

/// A place that hasn't been read yet.
enum Open {
    Types(PathBuf),
    Header(Verbatim),
    CTypes,
}

struct Library<'a> {
    sources: &'a mut Sources,
    places: &'a Places<'a>,
    /// The definitions read so far.
    read: Vec<Definition>,
    /// For each name, the index of its definition in `read`.
    found: HashMap<String, usize>,
    /// Places that haven't been read yet. The last one is read next.
    open: Vec<Open>,
    headers: usize,
    opened: HashSet<PathBuf>,
}

impl Library<'_> {
    fn parse(&mut self, file: usize) -> Result<(Vec<Definition>, Vec<Verbatim>), Diagnostics> {
        let Places { include_dirs, defined, .. } = self.places;
        let tokens = preprocess::preprocess(self.sources, file, include_dirs, defined)?;
        let verbatim = tokens.iter().filter_map(|token| match &token.kind {
            Kind::Verbatim(text) => Some(Verbatim { text: text.clone(), span: token.span }),
            _ => None,
        });
        let verbatim = verbatim.collect();
        Ok((parse::parse(self.sources, &tokens)?, verbatim))
    }

    /// Adds the definitions of names that these definitions use but don't define.
    fn complete(
        &mut self,
        definitions: &mut Vec<Definition>,
        verbatim: &[Verbatim],
    ) -> Result<(), Diagnostics> {
        self.open.push(Open::CTypes);
        for path in self.places.types {
            self.open_place(Open::Types(path.clone()))?;
        }
        self.verbatim(verbatim);
        let mut known: HashSet<String> =
            definitions.iter().flat_map(defined_names).map(str::to_owned).collect();
        known.extend(["TRUE", "FALSE"].map(str::to_owned));
        let mut wanted: Vec<String> = Vec::new();
        let want = |definition: &Definition, wanted: &mut Vec<String>| {
            mentions(definition, &mut |mention| wanted.push(mention.text().to_owned()));
        };
        definitions.iter().for_each(|definition| want(definition, &mut wanted));
        while let Some(name) = wanted.pop() {
            if known.contains(&name) {
                continue;
            }
            let Some(definition) = self.find(&name)? else {
                known.insert(name); // nothing defines it, so don't search for it again
                continue;
            };
            known.extend(defined_names(&definition).map(str::to_owned));
            want(&definition, &mut wanted);
            definitions.push(definition);
        }
        Ok(())
    }

    fn find(&mut self, name: &str) -> Result<Option<Definition>, Diagnostics> {
        loop {
            if let Some(index) = self.found.get(name) {
                return Ok(Some(self.read[*index].clone()));
            }
            match self.open.pop() {
                Some(place) => self.open_place(place)?,
                None => return Ok(None),
            }
        }
    }

    fn open_place(&mut self, place: Open) -> Result<(), Diagnostics> {
        let (file, in_place) = match place {
            Open::Types(path) => (self.file(path, Span::default())?, false),
            Open::Header(line) => match self.header(&line)? {
                Some(file) => (file, false),
                None => return Ok(()),
            },
            Open::CTypes => {
                (self.sources.add(PathBuf::from("frpcgen's c_types.x"), C_TYPES.to_owned()), true)
            }
        };
        let (definitions, verbatim) = self.parse(file)?;
        definitions.into_iter().for_each(|definition| self.keep(definition, in_place));
        self.verbatim(&verbatim);
        Ok(())
    }

    /// Keeps a definition, unless an earlier place has defined the name.
    fn keep(&mut self, mut definition: Definition, in_place: bool) {
        if matches!(definition.body, Body::Program { .. }) {
            return;
        }
        definition.in_place = in_place && matches!(definition.body, Body::Typedef(_) | Body::Constant(_));
        for name in defined_names(&definition) {
            self.found.entry(name.to_owned()).or_insert(self.read.len());
        }
        self.read.push(definition);
    }

    /// Reads the numbers and types that these lines define, and notes the headers that they include.
    fn verbatim(&mut self, lines: &[Verbatim]) {
        for line in lines {
            if let Some(definition) = self.define(line) {
                let in_place = matches!(definition.body, Body::Typedef(_));
                self.keep(definition, in_place);
            }
        }
        for Verbatim { text, span } in lines.iter().rev() {
            if header(text).is_some() && self.headers < MAX_HEADERS {
                self.headers += 1;
                self.open.push(Open::Header(Verbatim { text: text.clone(), span: *span }));
            }
        }
    }

    /// Reads `%#define NAME NUMBER`, `%#define NAME (OTHER + NUMBER)` and `%#define NAME TYPE`.
    fn define(&mut self, line: &Verbatim) -> Option<Definition> {
        let (name, value) = directive(&line.text, "define")?.split_once(|c: char| c.is_whitespace())?;
        let path = self.sources.path(line.span.file).to_path_buf();
        let file = self.sources.add(path.clone(), value.to_owned());
        let tokens = lex::tokens(self.sources, file).ok()?;
        if is_type(&tokens) {
            let file = self.sources.add(path, format!("typedef {value} {name};"));
            return self.parse(file).ok()?.0.pop();
        }
        let (value, add) = sum(&tokens, line.span)?;
        let name = Name { text: name.to_owned(), span: line.span };
        Some(Definition { name, body: Body::Constant(Constant::Sum(value, add)), in_place: false })
    }

    /// The `.x` file that belongs to a header. Searches for the path as written, and for the file name alone.
    fn header(&mut self, line: &Verbatim) -> Result<Option<usize>, Diagnostics> {
        let Some(name) = header(&line.text) else { return Ok(None) };
        let name = Path::new(name).with_extension("x");
        let beside = self.sources.path(line.span.file).parent().unwrap_or(Path::new("")).to_path_buf();
        let directories = [&beside].into_iter().chain(self.places.include_dirs);
        let alone = name.file_name().map(Path::new);
        let mut paths = directories.flat_map(|directory| {
            [Some(name.as_path()), alone].into_iter().flatten().map(|name| directory.join(name))
        });
        let Some(path) = paths.find(|path| path.is_file()) else { return Ok(None) };
        // Read each file once: a file may include its own header, and two files each other's.
        if self.sources.paths().any(|read| read == path) || !self.opened.insert(path.clone()) {
            return Ok(None);
        }
        self.file(path, line.span).map(Some)
    }

    fn file(&mut self, path: PathBuf, named_at: Span) -> Result<usize, Diagnostics> {
        let text = source::read(&path)
            .map_err(|why| self.sources.error(named_at, format!("{}: {why}", path.display())))?;
        Ok(self.sources.add(path, text))
    }
}

/// The text after a directive's name, in a line without its `%`.
fn directive<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix(name)?;
    rest.starts_with(|c: char| c.is_whitespace() || c == '"' || c == '<').then(|| rest.trim())
}

/// The path of the header that a line includes.
fn header(line: &str) -> Option<&str> {
    let rest = directive(line, "include")?;
    let closing = match rest.chars().next()? {
        '"' => '"',
        '<' => '>',
        _ => return None,
    };
    rest[1..].split_once(closing).map(|(path, _)| path)
}

/// Whether these tokens are a type of the RPC language or of the table of C's names.
fn is_type(tokens: &[Token]) -> bool {
    const WORDS: [&str; 9] = ["unsigned", "char", "short", "int", "long", "hyper", "float", "double", "bool"];
    let words = tokens.iter().map(|token| match &token.kind {
        Kind::Word(word) => Some(word.as_str()),
        _ => None,
    });
    let Some(words) = words.collect::<Option<Vec<_>>>() else { return false };
    let is_of_c = |word| {
        let mut names = C_TYPES.lines().filter_map(|line| line.strip_suffix(';')?.rsplit_once(' '));
        names.any(|(typedef, name)| typedef.starts_with("typedef") && name == word)
    };
    match words[..] {
        [] => false,
        [word] => WORDS.contains(&word) || is_of_c(word),
        _ => words.iter().all(|word| WORDS.contains(word)),
    }
}

/// Parses a number or a name, optionally with a number added or subtracted.
fn sum(mut tokens: &[Token], span: Span) -> Option<(Value, i128)> {
    while let [first, inner @ .., last] = tokens
        && first.is("(")
        && last.is(")")
    {
        tokens = inner;
    }
    let (first, rest) = tokens.split_first()?;
    let value = match &first.kind {
        Kind::Number(number) => Value::Number((*number).into(), span),
        Kind::Word(word) => Value::Name(Name { text: word.clone(), span }),
        _ => return None,
    };
    let add = match rest {
        [] => 0,
        [sign, Token { kind: Kind::Number(number), .. }] if sign.is("+") => i128::from(*number),
        [sign, Token { kind: Kind::Number(number), .. }] if sign.is("-") => -i128::from(*number),
        _ => return None,
    };
    Some((value, add))
}

/// Removes repeated typedefs and macros, which C allows if they are equal.
fn without_repeats(definitions: &mut Vec<Definition>) {
    let mut is_repeated = repeated(definitions).into_iter();
    definitions.retain(|_| is_repeated.next() != Some(true));
}

/// Replaces repeated definitions by empty ones, so that the indexes of the others don't change.
pub fn blank_repeats(definitions: &mut [Definition]) {
    let repeated = repeated(definitions);
    let repeated = definitions.iter_mut().zip(repeated).filter(|(_, repeats)| *repeats);
    repeated.for_each(|(definition, _)| definition.body = Body::Foreign);
}

/// For each definition, whether it repeats an earlier typedef or macro.
fn repeated(definitions: &[Definition]) -> Vec<bool> {
    let mut first: HashMap<&str, &Body> = HashMap::new();
    let repeats = definitions.iter().map(|definition| {
        let repeats = match (first.get(definition.name.text.as_str()), &definition.body) {
            (Some(Body::Typedef(one)), Body::Typedef(other)) => one.repeats(other),
            (Some(Body::Constant(one)), Body::Constant(other)) => one == other,
            _ => false,
        };
        if matches!(definition.body, Body::Typedef(_) | Body::Constant(_)) {
            first.entry(&definition.name.text).or_insert(&definition.body);
        }
        repeats
    });
    repeats.collect()
}
