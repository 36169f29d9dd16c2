//! What frpcgen writes for the interfaces in `idl/`, under the workspace's lints:
//! a warning in generated code is a failed lint here.

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
    files: "In the manner of NFS and its mount protocol.";
    portmap: "In the manner of the port mapper.";
    monitor: "In the manner of the status monitor.";
    ledger: "Callees that write down what they execute.";
    habits: "What rpcgen takes beyond the standard, and names that are hard on Rust.";
}
