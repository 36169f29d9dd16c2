//! `*`, `?` and `[…]` in the paths of URIs. The command expands them by listing, as `hdfs dfs`
//! does, since a shell can't see into a store.
//!
//! Shells' rules: no pattern matches a `/`. Only a pattern that begins with a dot matches a leading dot. A
//! backslash quotes a character. If a path with exactly the pattern's text exists, the pattern means that
//! path, so every name can be reached.

use crate::context::{Context, Place};
use crate::failure::Failure;
use crate::tally::Tally;
use futures::StreamExt;
use glob::{MatchOptions, Pattern};
use strait_store::{ErrorKind, StorePath, StoreUri};

/// Largest number of matches of one pattern; each takes about 100 bytes of memory. Users with more names give
/// the directory instead.
const MAX_MATCHES: usize = 1_000_000;

impl Context {
    /// The operands, with their patterns expanded. Operands that can't be expanded count as
    /// failures and are left out.
    ///
    /// # Errors
    /// The command must end: a signal came, or the reader of the output closed it.
    pub async fn expanded(&self, uris: &[String], tally: &mut Tally) -> Result<Vec<String>, Failure> {
        let mut all = Vec::with_capacity(uris.len());
        for uri in uris {
            let found = expand(self, uri).await;
            tally.add(found.map(|found| all.extend(found)))?;
        }
        Ok(all)
    }
}

/// The URIs that the operand's pattern matches, sorted; the operand itself if it has no pattern.
///
/// # Errors
/// NotFound if nothing matches, and every error of the listings.
pub async fn expand(context: &Context, operand: &str) -> Result<Vec<String>, Failure> {
    let uri = &*context.absolute(operand)?;
    // Only the path can have a pattern: an address may have brackets. If the URI is invalid, the command
    // reports that when it uses the URI.
    let special = |uri: &StoreUri| {
        let path = uri.path().as_str();
        path.contains('\\') || path.split('/').any(|part| compiled(part).is_some())
    };
    let parsed = match StoreUri::parse(uri) {
        Ok(parsed) if special(&parsed) => parsed,
        _ => return Ok(vec![uri.to_owned()]),
    };
    let place = context.place(uri).await?;
    if let Ok(Some(_)) = place.find().await {
        return Ok(vec![uri.to_owned()]);
    }
    let slash = if uri.ends_with('/') { "/" } else { "" };
    let paths = matches(&place).await?;
    if paths.is_empty() {
        return Err(Failure::at(ErrorKind::NotFound, "find", &place.path, "nothing matches"));
    }
    Ok(paths.into_iter().map(|path| format!("{}{slash}", parsed.at(path))).collect())
}

async fn matches(pattern: &Place) -> Result<Vec<StorePath>, Failure> {
    let mut found = vec![StorePath::root()];
    let mut exists = true;
    for part in pattern.path.as_str().split('/').filter(|part| !part.is_empty()) {
        let mut next = Vec::new();
        let compiled = compiled(part);
        exists = compiled.is_some();
        for directory in found {
            match &compiled {
                Some(compiled) => next.extend(entries(&pattern.at(directory), compiled).await?),
                None => next.push(directory.join(&plain(part))?),
            }
            if next.len() > MAX_MATCHES {
                let why = "more than 1,000,000 names match; give the directory instead";
                return Err(Failure::at(ErrorKind::InvalidArgument, "find", &pattern.path, why));
            }
        }
        found = next;
    }
    if exists {
        return Ok(found);
    }
    let mut there = Vec::new();
    for path in found {
        match pattern.at(path.clone()).find().await {
            Ok(Some(_)) => there.push(path),
            Ok(None) => {}
            Err(error) if error.kind() == ErrorKind::NotADirectory => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(there)
}

/// The entries of a directory whose names match, sorted.
async fn entries(directory: &Place, pattern: &Pattern) -> Result<Vec<StorePath>, Failure> {
    let mut found = Vec::new();
    let mut listing = directory.fs.list(&directory.who, &directory.path);
    while let Some(entry) = listing.next().await {
        match entry {
            Ok(entry) => {
                // Listing a file yields the file itself, which isn't an entry. A name that isn't valid in a
                // path is skipped, too.
                let path = StorePath::parse(&entry.path).ok();
                let path = path.filter(|path| path.parent().as_ref() == Some(&directory.path));
                found.extend(path.filter(|path| is_match(pattern, path.name())));
            }
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => break,
            Err(error) => return Err(error.into()),
        }
    }
    found.sort();
    Ok(found)
}

fn is_match(pattern: &Pattern, name: &str) -> bool {
    pattern.matches_with(name, MatchOptions { require_literal_leading_dot: true, ..MatchOptions::default() })
}

/// A part of a path as a pattern; `None` if it has no pattern, as with an unclosed bracket alone.
fn compiled(part: &str) -> Option<Pattern> {
    let mut escaped = String::with_capacity(part.len());
    let mut is_pattern = false;
    let mut characters = part.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => escaped.push_str(&Pattern::escape(&String::from(characters.next().unwrap_or('\\')))),
            // In the pattern library, two stars match across directories.
            '*' if escaped.ends_with('*') => {}
            _ => {
                is_pattern |= matches!(character, '*' | '?' | '[');
                escaped.push(character);
            }
        }
    }
    is_pattern.then(|| Pattern::new(&escaped).ok()).flatten()
}

/// A part without patterns, with its backslashes removed.
fn plain(part: &str) -> String {
    let mut plain = String::with_capacity(part.len());
    let mut characters = part.chars();
    while let Some(character) = characters.next() {
        plain.extend(match character {
            '\\' => characters.next().or(Some('\\')),
            _ => Some(character),
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        let matches = |pattern: &str, name: &str| is_match(&compiled(pattern).unwrap(), name);
        for (pattern, name) in
            [("*.txt", "a.txt"), ("?", "ü"), ("[a-c]x", "bx"), ("**a", "ba"), (r"\**", "*a"), (".*", ".a")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*", ".hidden"), ("?", "ab"), ("[!a]", "a"), (r"\**", "a"), ("a*", "ba")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
        assert!(compiled(r"a\[b\\").is_none());
        assert_eq!(plain(r"a\[b\\"), r"a[b\");
        assert!(compiled("[a").is_none());
    }
}
