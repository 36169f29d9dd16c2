//! `concat`.

use crate::cli::Concat;
use crate::context::Context;
use crate::failure::Failure;
use strait_store::StorePath;

/// Joins the sources to the target, within one store.
pub async fn concat(context: &Context, flags: Concat) -> Result<(), Failure> {
    let target = context.place(&flags.target).await?;
    let mut sources = Vec::with_capacity(flags.sources.len());
    for named in &flags.sources {
        let source = match named.starts_with('/') {
            true => target.at(StorePath::parse(named)?),
            false => context.place(named).await?,
        };
        if source.store != target.store {
            return Err(Failure::usage(format!(
                "concat: {} and {} are two stores; copy with get and put",
                source.store, target.store
            )));
        }
        sources.push(source.path);
    }
    target.fs.concat(&target.who, &target.path, &sources).await?;
    context.output().done("concat", &target.path, [("sources", sources.len().into())])
}
