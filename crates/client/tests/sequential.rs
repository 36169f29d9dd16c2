//! A long sequential read by a blocking client: over a connection of its own, whatever the gateway does there.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use strait_client::Options;
use strait_client::blocking::{Client, Reader};
use strait_wire::{
    CloseFileReply, DfsError, Encoded, Method, OpenFileReply, OpenSessionReply, Protocol, ReadRangeReply,
    Secret, Wire, methods,
};

const MIB: usize = 1 << 20;
const WIRE: Wire = Wire { protocol: Protocol::Binary, framed: true };
const LIMIT: Duration = Duration::from_secs(1);
/// Far longer than any limit. Only failing tests wait so long.
const DEADLINE: Duration = Duration::from_secs(20);
const FILE_BYTES: usize = 40 * MIB + 12_345;

/// The gateway's action instead of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It reports an error.
    Error,
    /// It sends half of the answer, and closes the connection.
    Cut,
    /// It sends half of the answer, and then nothing.
    Silence,
    /// It answers another request.
    WrongNumber,
    /// It sends fewer bytes than were requested.
    ShortReply,
}

/// A fault at a call: the number of its connection, its method, and its number among those of this method there.
#[derive(Debug, Clone, Copy)]
struct At(usize, &'static str, usize, Fault);

/// A gateway with one file. It writes down the calls of each connection.
struct Gateway {
    address: String,
    state: Arc<State>,
}

struct State {
    content: Vec<u8>,
    faults: Vec<At>,
    calls: Mutex<Vec<Vec<String>>>,
}

impl Gateway {
    fn start(faults: &[At]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let content = (0..FILE_BYTES).map(|n| (n + n / 251) as u8).collect();
        let state = Arc::new(State { content, faults: faults.to_vec(), calls: Mutex::default() });
        let accepting = state.clone();
        std::thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                let state = accepting.clone();
                // Broken connections are part of the test.
                std::thread::spawn(move || state.serve(socket));
            }
        });
        Self { address, state }
    }

    fn open(&self, options: Options) -> (Client, Reader) {
        let client = Client::connect(&self.address, options).unwrap();
        let reader = client.open("/file").unwrap();
        (client, reader)
    }

    /// Numbers of the readRange calls of each connection.
    fn reads(&self) -> Vec<usize> {
        let calls = self.state.calls.lock().unwrap();
        calls.iter().map(|calls| calls.iter().filter(|method| *method == "readRange").count()).collect()
    }

    /// Reads to the end.
    #[track_caller]
    fn check_rest(&self, reader: &mut Reader) {
        let offset = reader.stream_position().unwrap() as usize;
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert!(rest == self.state.content[offset..], "other bytes");
    }
}

impl State {
    fn serve(&self, mut socket: TcpStream) -> io::Result<()> {
        let connection = {
            let mut calls = self.calls.lock().unwrap();
            calls.push(Vec::new());
            calls.len() - 1
        };
        loop {
            let mut length = [0; 4];
            socket.read_exact(&mut length)?;
            let mut frame = vec![0; u32::from_be_bytes(length) as usize];
            socket.read_exact(&mut frame)?;
            // Strict binary: version, the name with its length, the number.
            let (name, rest) = frame[8..].split_at(frame[7] as usize);
            let method = String::from_utf8(name.to_vec()).unwrap();
            let number = i32::from_be_bytes(rest[..4].try_into().unwrap());
            let count = {
                let calls = &mut self.calls.lock().unwrap()[connection];
                calls.push(method.clone());
                calls.iter().filter(|earlier| **earlier == method).count()
            };
            let fault = self
                .faults
                .iter()
                .find(|At(c, m, n, _)| (*c, *m, *n) == (connection, method.as_str(), count));
            let fault = fault.map(|At(.., fault)| *fault);
            let Some(answer) = self.answer(&method, number, rest, fault) else { continue };
            let answer = answer.to_bytes();
            match fault {
                Some(Fault::Cut) => return socket.write_all(&answer[..answer.len() / 2]),
                Some(Fault::Silence) => {
                    socket.write_all(&answer[..answer.len() / 2])?;
                    return io::copy(&mut socket, &mut io::sink()).map(drop);
                }
                _ => socket.write_all(&answer)?,
            }
        }
    }

    fn answer(&self, method: &str, number: i32, args: &[u8], fault: Option<Fault>) -> Option<Encoded> {
        let number = if fault == Some(Fault::WrongNumber) { number + 1 } else { number };
        let error = DfsError { kind: Some("Busy".to_owned()), code: Some(10), ..Default::default() };
        let is_error = fault == Some(Fault::Error);
        Some(match method {
            "openSession" if is_error => methods::OpenSession::reply(WIRE, number, &Err(error)),
            "openSession" => {
                let token = Some(Secret("token".to_owned()));
                let opened = OpenSessionReply { token, incarnation: Some(1), ..Default::default() };
                methods::OpenSession::reply(WIRE, number, &Ok(opened))
            }
            "openFile" => {
                let length = Some(self.content.len() as i64);
                let opened = OpenFileReply { handle: Some(1), length, ..Default::default() };
                methods::OpenFile::reply(WIRE, number, &Ok(opened))
            }
            "readRange" if is_error => methods::ReadRange::reply(WIRE, number, &Err(error)),
            "readRange" => {
                let offset = i64::from_be_bytes(field(args, [10, 0, 3])) as usize;
                let length = i32::from_be_bytes(field(args, [8, 0, 4])) as usize;
                let end = (offset + length).min(self.content.len());
                let end = if fault == Some(Fault::ShortReply) { end - 1 } else { end };
                let data = Some(self.content[offset..end].to_vec().into());
                methods::ReadRange::reply(WIRE, number, &Ok(ReadRangeReply { data }))
            }
            "closeFile" => methods::CloseFile::reply(WIRE, number, &Ok(CloseFileReply::default())),
            _ => return None,
        })
    }
}

/// The value of the field that begins with these bytes.
fn field<const N: usize>(args: &[u8], head: [u8; 3]) -> [u8; N] {
    let at = args.windows(3).position(|bytes| bytes == head).unwrap() + 3;
    args[at..at + N].try_into().unwrap()
}

#[test]
fn a_long_read_has_a_connection_of_its_own() {
    let gateway = Gateway::start(&[]);
    let (client, mut reader) = gateway.open(Options::default());
    gateway.check_rest(&mut reader);
    let reads = gateway.reads();
    assert_eq!(reads.len(), 2, "{reads:?}");
    assert!(reads[1] > 20, "{reads:?}");
    // The next reader uses it again.
    gateway.check_rest(&mut client.open("/file").unwrap());
    assert_eq!(gateway.reads(), [2 * reads[0], 2 * reads[1]]);
}

#[test]
fn a_short_read_has_none() {
    let gateway = Gateway::start(&[]);
    let (_client, mut reader) = gateway.open(Options::default());
    // At once: a seek that gives up requests makes later ones take another shared connection.
    reader.seek(SeekFrom::End(-3_000_000)).unwrap();
    gateway.check_rest(&mut reader);
    assert_eq!(gateway.reads().len(), 1);
}

#[test]
fn pieces_of_any_size_and_seeks_give_the_files_bytes() {
    let gateway = Gateway::start(&[]);
    let (_client, mut reader) = gateway.open(Options::default());
    let content = &gateway.state.content;
    let seeks = [SeekFrom::Start(17), SeekFrom::Current(-10), SeekFrom::Current(1_000)];
    for seek in seeks {
        for size in [1, 100, 70_000, 3 * MIB].into_iter().cycle().take(20) {
            let begin = reader.stream_position().unwrap() as usize;
            let mut piece = vec![0; size];
            reader.read_exact(&mut piece).unwrap();
            assert!(piece == content[begin..begin + size], "at {begin}");
        }
        reader.seek(seek).unwrap();
    }
    gateway.check_rest(&mut reader);
    // The sequences before and after the first two seeks had connections of their own.
    assert!(gateway.reads().len() >= 4, "{:?}", gateway.reads());
}

#[test]
fn the_read_goes_on_after_any_fault_of_the_connection() {
    use Fault::*;
    let reads = [Error, Cut, WrongNumber, ShortReply].map(|fault| At(1, "readRange", 3, fault));
    let logins = [Error, Cut, WrongNumber].map(|fault| At(1, "openSession", 1, fault));
    for fault in reads.into_iter().chain(logins) {
        let gateway = Gateway::start(&[fault]);
        let (_client, mut reader) = gateway.open(Options::default());
        gateway.check_rest(&mut reader);
        let reads = gateway.reads();
        assert!(reads.len() > 1 && reads[0] > 20, "{fault:?}: {reads:?}");
    }
}

#[test]
fn silence_is_an_error_in_time() {
    for (options, says) in [
        (Options { timeout: Some(LIMIT), ..Options::default() }, "hasn't answered within 1 s"),
        (Options { operation_timeout: Some(LIMIT), ..Options::default() }, "its time limit of 1 s"),
    ] {
        let gateway = Gateway::start(&[At(1, "readRange", 3, Fault::Silence)]);
        let (_client, mut reader) = gateway.open(options);
        let began = Instant::now();
        let error = reader.read_to_end(&mut Vec::new()).unwrap_err();
        assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.to_string().contains(says) && error.to_string().contains("/file"), "{error}");
        // The position is that of the first byte that the program didn't get.
        gateway.check_rest(&mut reader);
    }
}

#[test]
fn a_gateway_that_refuses_connections_isnt_asked_again_soon() {
    let refused = [1, 2].map(|connection| At(connection, "openSession", 1, Fault::Error));
    let gateway = Gateway::start(&refused);
    let (client, mut reader) = gateway.open(Options::default());
    gateway.check_rest(&mut reader);
    gateway.check_rest(&mut client.open("/file").unwrap());
    assert_eq!(gateway.reads().len(), 2);
}

#[test]
fn a_connection_that_owes_replies_isnt_used_again() {
    let gateway = Gateway::start(&[]);
    let (client, mut reader) = gateway.open(Options::default());
    reader.read_exact(&mut vec![0; 30 * MIB]).unwrap();
    reader.seek(SeekFrom::Start(0)).unwrap();
    drop(reader);
    gateway.check_rest(&mut client.open("/file").unwrap());
    assert_eq!(gateway.reads().len(), 3);
}
