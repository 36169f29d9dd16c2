//! Finds types that contain themselves by value, so that their size is infinite.

use crate::MAX_NESTING;
use crate::diagnostic::{Diagnostic, MAX_SHOWN};
use crate::model::{Model, Type, TypeBody};
use crate::source::Sources;

/// Errors for types of infinite size, for typedefs that lead to themselves, and for values nested
/// too deep for a stack.
pub fn check(sources: &Sources, model: &Model) -> Vec<Diagnostic> {
    let by_value: Vec<Vec<usize>> = model.types.iter().map(|kind| by_value(&kind.body)).collect();
    // Typedefs become aliases in Rust. A Rust alias can't refer to itself, even behind a pointer.
    let by_alias = model.types.iter().map(|kind| match &kind.body {
        TypeBody::Alias(aliased) => all(aliased).filter(|index| is_alias(model, *index)).collect(),
        _ => Vec::new(),
    });
    let by_alias: Vec<Vec<usize>> = by_alias.collect();
    let mut errors = Vec::new();
    let infinite = "contains itself, so its size is infinite: use a pointer (*) or a variable array";
    let circular = "is a typedef of itself, without a struct or union in between";
    for (edges, message) in [(&by_value, infinite), (&by_alias, circular)] {
        let depths = depths(edges);
        for (kind, depth) in model.types.iter().zip(depths) {
            if errors.len() == MAX_SHOWN {
                break;
            }
            let name = &kind.name;
            match depth {
                None => errors.push(sources.error(name.span, format!("'{}' {message}", name.text))),
                Some(depth) if depth > MAX_NESTING => {
                    let message = format!("'{}' has types nested more than {MAX_NESTING} deep", name.text);
                    errors.push(sources.error(name.span, message));
                }
                Some(_) => {}
            }
        }
        if !errors.is_empty() {
            break; // the second check would report the same errors in other words
        }
    }
    errors
}

fn is_alias(model: &Model, index: usize) -> bool {
    matches!(model.types[index].body, TypeBody::Alias(_))
}

fn by_value(body: &TypeBody) -> Vec<usize> {
    match body {
        TypeBody::Enum(_) | TypeBody::Foreign => Vec::new(),
        TypeBody::Alias(kind) => in_line(kind).into_iter().collect(),
        TypeBody::Struct(fields) => fields.iter().filter_map(|field| in_line(&field.kind)).collect(),
        TypeBody::Union(union) => {
            let default = union.default.iter().flatten();
            let fields = union.cases.iter().filter_map(|case| case.field.as_ref()).chain(default);
            fields.filter_map(|field| in_line(&field.kind)).collect()
        }
    }
}

fn in_line(kind: &Type) -> Option<usize> {
    match kind {
        Type::Named(index) => Some(*index),
        Type::Fixed(item, _) => in_line(item),
        _ => None,
    }
}

/// The definition that a type refers to, by value or behind a pointer or an array.
fn all(kind: &Type) -> impl Iterator<Item = usize> {
    let mut kind = kind;
    loop {
        match kind {
            Type::Fixed(item, _) | Type::Variable(item, _) | Type::Optional(item) => kind = item,
            Type::Named(index) => return Some(*index).into_iter(),
            _ => return None.into_iter(),
        }
    }
}

/// The longest path from each node of the graph; `None` for nodes that reach a circle. It doesn't use
/// recursion, since the graph can be as deep as a file is long.
fn depths(edges: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut open: Vec<usize> = edges.iter().map(Vec::len).collect();
    let mut users = vec![Vec::new(); edges.len()];
    for (user, used) in edges.iter().enumerate() {
        used.iter().for_each(|used| users[*used].push(user));
    }
    let mut depths = vec![None; edges.len()];
    let mut ready: Vec<usize> = (0..edges.len()).filter(|node| open[*node] == 0).collect();
    while let Some(node) = ready.pop() {
        depths[node] = edges[node]
            .iter()
            .filter_map(|used| depths[*used])
            .max()
            .map_or(Some(0), |depth: usize| Some(depth + 1));
        for user in &users[node] {
            open[*user] -= 1;
            if open[*user] == 0 {
                ready.push(*user);
            }
        }
    }
    depths
}
