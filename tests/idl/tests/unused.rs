//! A program that uses nothing of an interface builds without a warning. Clippy is the test, since
//! it turns warnings into errors. (In a library every `pub` counts as used.)

mod types {
    include!(concat!(env!("OUT_DIR"), "/types.rs"));
}

mod counter {
    include!(concat!(env!("OUT_DIR"), "/counter.rs"));
}

mod habits {
    include!(concat!(env!("OUT_DIR"), "/habits.rs"));
}
