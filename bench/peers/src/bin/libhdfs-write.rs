//! `libhdfs-write HOST PORT [NAME=VALUE…]`: HDFS's C library with these properties, which runs a JVM
//! inside. It does what each line of its input asks and answers with a line: the figure of it, and how
//! many files or flushes the limit of time allowed. The orders are those of writing in `HdfsOrders.java`.

use hdfs_sys::{hdfsBuilderConfSetStr, hdfsBuilderConnect, hdfsBuilderSetNameNode};
use hdfs_sys::{hdfsBuilderSetNameNodePort, hdfsCloseFile, hdfsFS, hdfsFile, hdfsHFlush, hdfsHSync};
use hdfs_sys::{hdfsNewBuilder, hdfsOpenFile, hdfsWrite};
use std::ffi::CString;
use std::io::Error;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PIECE_BYTES: usize = 1 << 20;
const FILE_BYTES: usize = 4_096;
const APPEND_BYTES: usize = 100;
/// As the Java client's in `HdfsOrders.java`.
const STREAM_BUFFER_BYTES: i32 = 4_096;

fn main() -> Result<()> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, properties @ ..] = given.as_slice() else {
        return Err("usage: libhdfs-write HOST PORT [NAME=VALUE…]".into());
    };
    let files = Files::connect(host, port.parse()?, properties)?;
    for line in std::io::stdin().lines() {
        let line = line?;
        let order: Vec<&str> = line.split(' ').collect();
        let figure = match order[..] {
            ["write", path, mib, replication, _] => {
                write(&files, path, mib.parse()?, replication.parse()?).map(|figure| figure.to_string())
            }
            ["small-files", path, count] => small_files(&files, path, count.parse()?),
            ["files", path, count, writers] => many_files(&files, path, count.parse()?, writers.parse()?),
            ["flushes", path, count, sync] => flushes(&files, path, count.parse()?, sync == "1"),
            _ => Err(format!("no order {line:?}").into()),
        };
        println!("{}", figure?);
    }
    Ok(())
}

/// A connection, used by many threads at once.
struct Files(hdfsFS);

// SAFETY: the library serves calls of any thread, each attached to its JVM.
unsafe impl Sync for Files {}

impl Files {
    fn connect(host: &str, port: u16, properties: &[String]) -> Result<Self> {
        let host = CString::new(host)?;
        let mut pairs = Vec::new();
        for property in properties {
            let (name, value) = property.split_once('=').ok_or("a property is NAME=VALUE")?;
            pairs.push((CString::new(name)?, CString::new(value)?));
        }
        // SAFETY: the strings and the builder live until the call that takes them returns; a null
        // builder would be refused by the calls that take it.
        let files = unsafe {
            let builder = hdfsNewBuilder();
            hdfsBuilderSetNameNode(builder, host.as_ptr());
            hdfsBuilderSetNameNodePort(builder, port);
            for (name, value) in &pairs {
                hdfsBuilderConfSetStr(builder, name.as_ptr(), value.as_ptr());
            }
            hdfsBuilderConnect(builder)
        };
        if files.is_null() {
            return Err(format!("no connection: {}", Error::last_os_error()).into());
        }
        Ok(Self(files))
    }

    fn create(&self, path: &str, replication: i16) -> Result<Output> {
        let path = CString::new(path)?;
        // SAFETY: the connection is open, the path is terminated; 0 is the default size of blocks.
        let file = unsafe {
            hdfsOpenFile(self.0, path.as_ptr(), libc::O_WRONLY, STREAM_BUFFER_BYTES, replication, 0)
        };
        if file.is_null() {
            return Err(Error::last_os_error().into());
        }
        Ok(Output { files: self.0, file })
    }
}

/// An open file.
struct Output {
    files: hdfsFS,
    file: hdfsFile,
}

impl Output {
    fn write(&self, data: &[u8]) -> Result<()> {
        // SAFETY: the file is open; the library reads no more than the data.
        let count = unsafe { hdfsWrite(self.files, self.file, data.as_ptr().cast(), data.len() as i32) };
        match usize::try_from(count) {
            Ok(count) if count == data.len() => Ok(()),
            _ => Err(Error::last_os_error().into()),
        }
    }

    fn flush(&self, sync: bool) -> Result<()> {
        // SAFETY: the file is open.
        done(unsafe {
            if sync { hdfsHSync(self.files, self.file) } else { hdfsHFlush(self.files, self.file) }
        })
    }

    fn close(self) -> Result<()> {
        // SAFETY: open, and not used afterwards.
        done(unsafe { hdfsCloseFile(self.files, self.file) })
    }
}

fn done(code: i32) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Error::last_os_error().into()) }
}

fn write(files: &Files, path: &str, mib: usize, replication: i16) -> Result<f64> {
    let piece: Vec<u8> = (0..PIECE_BYTES).map(|at| ((at * 37) >> 3) as u8).collect();
    let begin = Instant::now();
    let output = files.create(path, replication)?;
    for _ in 0..mib {
        output.write(&piece)?;
    }
    output.close()?;
    Ok((mib * PIECE_BYTES) as f64 / 1e6 / begin.elapsed().as_secs_f64())
}

fn create(files: &Files, path: &str, content: &[u8]) -> Result<()> {
    let output = files.create(path, 1)?;
    output.write(content)?;
    output.close()
}

fn small_files(files: &Files, path: &str, count: usize) -> Result<String> {
    let (start, limit) = (Instant::now(), limit()?);
    let mut times = Vec::with_capacity(count);
    while times.len() < count && start.elapsed() < limit {
        let (at, begin) = (times.len(), Instant::now());
        create(files, &format!("{path}/{at}"), b"12345")?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    Ok(answer(times))
}

fn many_files(files: &Files, path: &str, count: usize, writers: usize) -> Result<String> {
    let (begin, limit) = (Instant::now(), limit()?);
    let writer = |writer: usize| -> Result<usize> {
        let numbers = (writer..count).step_by(writers).take_while(|_| begin.elapsed() < limit);
        numbers.map(|at| create(files, &format!("{path}/{at}"), &[7; FILE_BYTES]).map(|()| 1)).sum()
    };
    let done = std::thread::scope(|scope| {
        let all: Vec<_> = (0..writers).map(|number| scope.spawn(move || writer(number))).collect();
        let parts = all.into_iter().map(|writer| writer.join().map_err(|_| "a writer panicked")?);
        parts.sum::<Result<usize>>()
    })?;
    Ok(format!("{} {done}", done as f64 / begin.elapsed().as_secs_f64()))
}

fn flushes(files: &Files, path: &str, count: usize, sync: bool) -> Result<String> {
    let output = files.create(path, 3)?;
    let (start, limit) = (Instant::now(), limit()?);
    let mut times = Vec::with_capacity(count);
    while times.len() < count && start.elapsed() < limit {
        let begin = Instant::now();
        output.write(&[7; APPEND_BYTES])?;
        output.flush(sync)?;
        times.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    output.close()?;
    Ok(answer(times))
}

/// Time for the files or flushes of one order.
fn limit() -> Result<Duration> {
    let seconds = std::env::var("BENCH_HDFS_LIMIT_S").map_or(Ok(3_600), |seconds| seconds.parse())?;
    Ok(Duration::from_secs(seconds))
}

/// The median, and how many were done.
fn answer(times: Vec<f64>) -> String {
    let done = times.len();
    format!("{} {done}", median(times))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
