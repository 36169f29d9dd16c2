//! Generates Rust from a model.

mod codec;
mod graph;
mod names;
mod prelude;
mod shape;
mod stubs;
mod types;
mod unique;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::model::Model;
use crate::source::{Sources, Span};
pub use prelude::warnings;
use shape::Shapes;
use syn::parse::Parser;

/// The formatted code; equal models give equal code.
pub fn generate(sources: &Sources, title: &str, model: &Model) -> Result<String, Diagnostics> {
    let shapes = Shapes::new(model);
    let errors = unique::check(sources, &shapes);
    if !errors.is_empty() {
        return Err(sources.in_order(errors));
    }
    let mut code = String::new();
    if !model.programs.is_empty() {
        code += "use ::strait_flexrpc::stub::{self, xdr};\n";
    } else if !model.types.is_empty() {
        // A source with only typedefs of numbers doesn't need the import.
        code += "#[allow(unused_imports)]\nuse ::strait_xdr as xdr;\n";
    }
    model.constants.iter().for_each(|constant| code += &types::constant(constant));
    (0..model.types.len()).for_each(|index| code += &types::definition(&shapes, index));
    for program in &model.programs {
        program.versions.iter().for_each(|version| code += &stubs::version(&shapes, program, version));
    }
    let mut file = syn::parse_file(&code).map_err(|why| internal(sources, &why))?;
    for of_item in file.items.iter_mut().filter_map(attributes) {
        let allow = syn::Attribute::parse_outer.parse_str("#[allow(dead_code)]");
        of_item.extend(allow.map_err(|why| internal(sources, &why))?);
    }
    Ok(format!(
        "// Written by frpcgen from {title}; changes belong there.\n\n{}",
        prettyplease::unparse(&file)
    ))
}

/// The attributes of an item, if a program can leave the item unused. Callers don't use the service's items,
/// and few programs use a whole interface. In a binary, where `pub` has no effect, unused items would give
/// warnings.
fn attributes(item: &mut syn::Item) -> Option<&mut Vec<syn::Attribute>> {
    match item {
        syn::Item::Const(item) => Some(&mut item.attrs),
        syn::Item::Enum(item) => Some(&mut item.attrs),
        syn::Item::Fn(item) => Some(&mut item.attrs),
        syn::Item::Impl(item) if item.trait_.is_none() => Some(&mut item.attrs),
        syn::Item::Struct(item) => Some(&mut item.attrs),
        syn::Item::Trait(item) => Some(&mut item.attrs),
        syn::Item::Type(item) => Some(&mut item.attrs),
        _ => None,
    }
}

/// An error of this compiler, not of the source.
fn internal(sources: &Sources, why: &syn::Error) -> Diagnostic {
    sources.error(Span::default(), format!("frpcgen wrote code that isn't Rust ({why}); please report this"))
}
