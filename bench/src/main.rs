//! `make bench SUITE=…`: one suite for each table or figure. A suite measures our program and its peer, or
//! its bare limit, in turn in the same run (A B A B …): a machine's speed drifts, and only ratios are
//! reliable.
//!
//! Prints a table, and writes `bench/results/SUITE.json` and `.svg`. A benchmark asserts nothing: this
//! program exits with another code than 0 only if it couldn't measure, or an argument is wrong.

mod bare_tls;
mod distance;
mod host;
mod kadoop;
mod ordered;
mod pairs;
mod programs;
mod report;
mod rpc;
mod stages;
mod suites;

use std::process::ExitCode;

/// A suite's result. The error's text is a line for people.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A suite: its name, its question, and its function.
struct Suite {
    name: &'static str,
    question: &'static str,
    run: fn() -> Result<Vec<report::Row>>,
}

const SUITES: &[Suite] = &[
    Suite {
        name: "appends",
        question: "How long does an append through a gateway take, and how many hand-offs between threads?",
        run: suites::appends::run,
    },
    Suite {
        name: "checkpoint",
        question: "How fast do many ranks write one file by PLFS, beside a file each?",
        run: suites::checkpoint::run,
    },
    Suite {
        name: "checkpoint-ml",
        question: "How long do ranks take for one .safetensors file, beside shards that are joined?",
        run: suites::checkpoint_ml::run,
    },
    Suite {
        name: "cli-start",
        question: "How long does `strait ls` through a gateway take, above /bin/true?",
        run: suites::cli_start::run,
    },
    Suite {
        name: "code-to-data",
        question: "How fast are commands that go to their data, beside programs that pull it?",
        run: suites::code_to_data::run,
    },
    Suite {
        name: "crowd",
        question: "What do idle, greedy and busy clients cost the gateway?",
        run: suites::crowd::run,
    },
    Suite {
        name: "distance",
        question: "How much of a link of 1 Gbit/s does one client use, 50 ms away?",
        run: suites::distance::run,
    },
    Suite {
        name: "hdfs-faults",
        question: "How long does a writer to HDFS wait when a datanode is lost, beside Hadoop's own client?",
        run: suites::hdfs_faults::run,
    },
    Suite {
        name: "hdfs-write",
        question: "How fast does Strait write to HDFS, beside Hadoop's own client and the library?",
        run: suites::hdfs_write::run,
    },
    Suite {
        name: "kadoop-bandwidth",
        question: "How much of a link of 1 Gbit/s do Kadoop's readers and writers use?",
        run: suites::kadoop_bandwidth::run,
    },
    Suite {
        name: "kadoop-faults",
        question: "How long does a writer wait when a datanode is lost, and its file for replicas?",
        run: suites::kadoop_faults::run,
    },
    Suite {
        name: "kadoop-hdfs",
        question: "How fast is Kadoop beside a real HDFS: bytes, small files, names?",
        run: suites::kadoop_hdfs::run,
    },
    Suite {
        name: "kadoop-local",
        question: "How much faster are reads from a local datanode's files than over TCP?",
        run: suites::kadoop_local::run,
    },
    Suite {
        name: "kadoop-recovery",
        question: "What do clients notice of a killed namenode, and how fast are lost replicas replaced?",
        run: suites::kadoop_recovery::run,
    },
    Suite {
        name: "ladder",
        question: "How fast are small calls by SOAP, REST and Thrift's wires, beside the article's Java services?",
        run: suites::ladder::run,
    },
    Suite {
        name: "languages",
        question: "How close do the clients of all languages come to the C++ client, bare calls and bare TLS?",
        run: suites::languages::run,
    },
    Suite {
        name: "native-speed",
        question: "How near do our clients come to bare servers and sockets?",
        run: suites::native_speed::run,
    },
    Suite {
        name: "nfs",
        question: "How fast does a client of NFS read and write by `strait nfs`, beside NFS-Ganesha?",
        run: suites::nfs::run,
    },
    Suite {
        name: "python-get",
        question: "How fast does Python read a large HDFS file through the gateway, beside FsShell -get?",
        run: suites::python_get::run,
    },
    Suite {
        name: "rpc-bandwidth",
        question: "How much of a link, and of four callers' calls, do remote procedure calls carry?",
        run: suites::rpc_bandwidth::run,
    },
    Suite {
        name: "rpc-c",
        question: "How much longer does a call take in C than in Rust?",
        run: suites::rpc_c::run,
    },
    Suite {
        name: "rpc-cache",
        question: "What does at-most-once cost a call, in the server's response cache?",
        run: suites::rpc_cache::run,
    },
    Suite {
        name: "rpc-crosswise",
        question: "Do chains of calls that cross each other block each other?",
        run: suites::rpc_crosswise::run,
    },
    Suite {
        name: "rpc-crowd",
        question: "What do ten thousand idle clients cost a server and a hundred busy ones?",
        run: suites::rpc_crowd::run,
    },
    Suite {
        name: "rpc-latency",
        question: "How long does a remote procedure call take, above bare sockets?",
        run: suites::rpc_latency::run,
    },
    Suite {
        name: "rpc-multicast",
        question: "What do calls to many cost, side by side, along a chain, and one by one?",
        run: suites::rpc_multicast::run,
    },
    Suite {
        name: "small-files",
        question: "How fast are small files beside a local disk, and do a million of them slow anything down?",
        run: suites::small_files::run,
    },
    Suite {
        name: "stores",
        question: "What do plugins, hdfs.h and object stores cost, above the library that each one wraps?",
        run: suites::stores::run,
    },
    Suite {
        name: "strangers",
        question: "What does a greedy client cost another user of the gateway?",
        run: suites::strangers::run,
    },
    Suite {
        name: "thrift-read",
        question: "The report's tables: reading from HDFS to local disk, natively and through the gateway?",
        run: suites::thrift_read::run,
    },
];

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if let Some(ended) = part_of_a_suite(&asked.iter().map(String::as_str).collect::<Vec<_>>()) {
        return match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("bench: {}: {error}", asked[0]);
                ExitCode::FAILURE
            }
        };
    }
    let unknown = asked.iter().find(|name| !SUITES.iter().any(|suite| suite.name == *name));
    if let Some(name) = unknown {
        eprintln!("bench: unknown suite {name:?}; the suites are:");
        for suite in SUITES {
            eprintln!("  {:<16} {}", suite.name, suite.question);
        }
        return ExitCode::from(2);
    }
    let mut failed = false;
    for suite in SUITES.iter().filter(|suite| asked.is_empty() || asked.iter().any(|name| name == suite.name))
    {
        println!("{}: {}", suite.name, suite.question);
        if let Err(error) = (suite.run)().and_then(|rows| report::write(suite.name, suite.question, &rows)) {
            eprintln!("bench: {}: {error}", suite.name);
            failed = true;
        }
    }
    ExitCode::from(u8::from(failed))
}

/// Runs a part of a suite that needs a separate process. None: the arguments name suites.
fn part_of_a_suite(arguments: &[&str]) -> Option<Result<()>> {
    use suites::checkpoint;
    use suites::stores::{library, plugin};
    match *arguments {
        [checkpoint::RANK, ref job @ ..] => Some(checkpoint::follow(job)),
        [programs::ADAPTER_ORDERS, uri] => Some(suites::hdfs_write::follow_orders(uri)),
        [programs::LADDER_CALLER] => Some(suites::ladder::follow_orders()),
        [programs::LADDER_BARE, address, request_bytes, answer_bytes] => {
            Some(suites::ladder::serve_bare(address, request_bytes, answer_bytes))
        }
        [programs::LIBRARY_GET, file, uri, path] => Some(library::get(file, uri, path)),
        [plugin::HELPER] => Some(strait_store_any::serve_parent().map_err(Into::into)),
        [plugin::ANSWERER] => Some(plugin::answer_pings()),
        _ => None,
    }
}
