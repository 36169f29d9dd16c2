//! Names that each Rust program has without an import, and that a source takes for its types.

use super::names::camel;
use crate::diagnostic::{Diagnostic, MAX_SHOWN};
use crate::model::Model;
use crate::source::Sources;

/// Those that are used all over.
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

/// A name that comes by a glob goes before one of the prelude.
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
