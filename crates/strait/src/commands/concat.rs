//! `concat`.

use crate::cli::Concat;
use crate::context::Context;
use crate::failure::Failure;
use strait_store::{ErrorKind, StorePath};

/// Appends the sources to the target, within one store.
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
                "concat: {} and {} are different stores; copy with get and put",
                source.store, target.store
            )));
        }
        sources.push(source.path);
    }
    let joined = target.fs.concat(&target.who, &target.path, &sources).await;
    if joined.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        // Look for the sources first: the store's error names the target alone.
        for source in &sources {
            target.fs.stat(&target.who, source).await?;
        }
    }
    joined?;
    context.output().done("concat", &target.path, [("sources", sources.len().into())])
}
