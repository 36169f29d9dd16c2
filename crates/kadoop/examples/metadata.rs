//! Calls a second on a namenode's names, log synced: `metadata DIRECTORY [SECONDS]`.
//! Namenode and callers share this machine, as a benchmark's peer should, too.

use std::{
    env,
    error::Error,
    path::PathBuf,
    time::{Duration, Instant},
};
use strait_kadoop::{
    Client, ClientOptions,
    messages::Caller,
    service::{Key, NamenodeOptions, NamenodeServer},
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let directory = PathBuf::from(arguments.next().ok_or("metadata DIRECTORY [SECONDS]")?);
    let seconds = arguments.next().map_or(Ok(2.0), |seconds| seconds.parse())?;
    let key = Key::generate()?;
    let namenode = NamenodeServer::start(NamenodeOptions::new(directory, key.clone()))?;
    let client = Client::connect(ClientOptions::new(namenode.address().to_string(), key.for_clients()))?;
    for threads in [1, 16] {
        for (name, operation) in OPERATIONS {
            let rate = measure(&client, threads, Duration::from_secs_f64(seconds), operation)?;
            println!("{name:8} {threads:2} threads {rate:10.0} /s");
        }
    }
    Ok(())
}

type Operation = fn(&Client, &Caller, &str, usize) -> Result<(), strait_kadoop::service::Failure>;

const OPERATIONS: [(&str, Operation); 4] = [
    ("mkdirs", |client, caller, root, at| client.mkdirs(caller, &format!("{root}/{at}"), 0o755)),
    ("stat", |client, caller, root, at| client.stat(caller, &format!("{root}/{}", at % 100)).map(drop)),
    ("rename", |client, caller, root, at| {
        client.rename(caller, &format!("{root}/{at}"), &format!("{root}/moved-{at}"), false)
    }),
    ("delete", |client, caller, root, at| {
        client.delete(caller, &format!("{root}/moved-{at}"), false).map(drop)
    }),
];

fn measure(
    client: &Client,
    threads: usize,
    time: Duration,
    operation: Operation,
) -> Result<f64, Box<dyn Error>> {
    let caller = Caller { user: "kadoop".into(), groups: Vec::new() };
    let start = Instant::now();
    let counts: Vec<Result<usize, String>> = std::thread::scope(|scope| {
        let work = |thread: usize| {
            let caller = &caller;
            move || {
                let root = format!("/{threads}-{thread}");
                let mut done = 0;
                while start.elapsed() < time {
                    match operation(client, caller, &root, done) {
                        Ok(()) => done += 1,
                        // What was made is used up: more were moved than made.
                        Err(failure) if failure.error == strait_kadoop::Error::NotFound => break,
                        Err(failure) => return Err(failure.to_string()),
                    }
                }
                Ok(done)
            }
        };
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(work(thread))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or(Err("panicked".to_owned()))).collect()
    });
    let mut done = 0;
    for count in counts {
        done += count?;
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
}
