//! The code that frpcgen generates for the interfaces in `idl/`, under the workspace's lints: a
//! warning in generated code is a failed lint here.

macro_rules! interface {
    ($($name:ident: $about:literal;)*) => {$(
        #[doc = $about]
        pub mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
        }
    )*};
}

interface! {
    types: "Every type of the language; held against libtirpc.";
    counter: "As small as a whole example can be: `tests/first_steps.rs`.";
    kv: "That of `docs/flexrpc.md`, whose program is a test below.";
    files: "In the manner of NFS and its mount protocol.";
    portmap: "In the manner of the port mapper.";
    monitor: "In the manner of the status monitor.";
    ledger: "Callees that write down what they execute.";
    deep: "Types that contain themselves, of very many fields: `build.rs`.";
    versions: "Two versions of a program, for one state.";
    borrowed: "Names that C headers define, and habits of C.";
    habits: "What rpcgen takes beyond the standard, and names that are hard on Rust.";
}

/// Runs the examples in `docs/flexrpc.md`.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/flexrpc.md")]
pub struct Documentation;

#[cfg(test)]
mod tests {
    #[test]
    fn the_documented_interface_is_the_one_that_is_compiled() {
        let page = include_str!("../../../docs/flexrpc.md");
        let shown = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next());
        assert_eq!(shown, Some(include_str!("../idl/kv.x")));
    }
}
