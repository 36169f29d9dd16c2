//! Names that every Rust program has without an import, and that a source uses for its types.

use super::names::camel;
use crate::diagnostic::{Diagnostic, MAX_SHOWN};
use crate::model::Model;
use crate::source::Sources;

/// The names in common use.
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

/// Warns about types that hide the prelude's: a name imported by a glob has priority.
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
