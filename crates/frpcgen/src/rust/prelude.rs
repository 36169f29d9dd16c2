//! Warns about types of a source that have names of Rust's prelude (names that all programs have without
//! import).

use super::names::camel;
use crate::diagnostic::{Diagnostic, MAX_SHOWN};
use crate::model::Model;
use crate::source::Sources;

/// The names of the prelude that programs commonly use.
const PRELUDE: [&str; 22] = [
    "AsRef",
    "Box",
    "Clone",
    "Copy",
    "Default",
    "Drop",
    "Eq",
    "Err",
    "From",
    "Into",
    "Iterator",
    "None",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "Result",
    "Send",
    "Some",
    "String",
    "Sync",
    "Vec",
];

/// Warns about types that hide those of the prelude, since names that a glob imports take precedence.
pub fn warnings(sources: &Sources, model: &Model) -> Vec<Diagnostic> {
    let taken = model.types.iter().filter_map(|kind| {
        let (name, rust) = (&kind.name, camel(&kind.name.text));
        let message = format!(
            "'{}' is {rust} in Rust, and hides the standard library's where this module is imported whole (::*)",
            name.text
        );
        PRELUDE.contains(&rust.as_str()).then(|| sources.warning(name.span, message))
    });
    taken.take(MAX_SHOWN).collect()
}
