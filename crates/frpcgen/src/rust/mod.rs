//! Rust from a model.

mod codec;
mod graph;
mod names;
mod shape;
mod stubs;
mod types;
mod unique;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::model::Model;
use crate::source::{Sources, Span};
use shape::Shapes;

/// The code, formatted; the same for the same model.
pub fn generate(sources: &Sources, title: &str, model: &Model) -> Result<String, Diagnostics> {
    let shapes = Shapes::new(model);
    let errors = unique::check(sources, &shapes);
    if !errors.is_empty() {
        return Err(Diagnostics(errors));
    }
    let mut code = String::new();
    if !model.programs.is_empty() {
        code += "use ::strait_flexrpc::stub::{self, xdr};\n";
    } else if !model.types.is_empty() {
        code += "use ::strait_xdr as xdr;\n";
    }
    model.constants.iter().for_each(|constant| code += &types::constant(constant));
    (0..model.types.len()).for_each(|index| code += &types::definition(&shapes, index));
    for program in &model.programs {
        program.versions.iter().for_each(|version| code += &stubs::version(&shapes, program, version));
    }
    let file = syn::parse_file(&code).map_err(|why| internal(sources, &why))?;
    Ok(format!(
        "// Written by frpcgen from {title}; changes belong there.\n\n{}",
        prettyplease::unparse(&file)
    ))
}

/// A mistake of this compiler, not of the source.
fn internal(sources: &Sources, why: &syn::Error) -> Diagnostic {
    sources.error(Span::default(), format!("frpcgen wrote code that isn't Rust ({why}); please report this"))
}
