//! The tests of this crate from outside, as one program, which is linked once.

mod answers_2009;
mod bad_input;
mod bytes_2009;
mod common;
mod deadlines;
mod dfs_v2;
mod fairness;
mod full_stores;
mod http;
mod incarnations;
mod limits;
mod listings;
mod logins;
mod rest;
mod retries;
mod service_2009;
mod side_by_side;
mod slow_stores;
mod strangers_at_home;
mod tls;
