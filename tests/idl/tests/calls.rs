//! A service written in the RPC language, called over real sockets.

use std::error::Error;
use std::sync::{Arc, Mutex};
use strait_flexrpc::stub::{Callees, Pattern, StubError};
use strait_flexrpc::{
    CallError, Client, Fault, FaultKind, MulticastOptions, Request, Server, ServerOptions, ServiceError,
    Transport,
};
use strait_idl_tests::files::*;
use strait_idl_tests::habits::{HabitsTakenV1Client, HabitsTakenV1Server, HabitsTakenV1Service, S};
use strait_idl_tests::versions::{
    JournalV1Client, JournalV1Server, JournalV1Service, JournalV2Client, JournalV2Server, JournalV2Service,
};
use strait_xdr::{EncodeError, Opaque, Text};

/// More than any buffer gets as a copy.
const BLOCK: usize = 1 << 20;

struct Files;

const FOUND: Attributes = Attributes {
    r#type: FileType::TypeFile,
    mode: 0o644,
    size: BLOCK as u64,
    modified: Moment { seconds: 1, nanoseconds: 2 },
};

impl FilesV1Service for Files {
    fn files_null(&self, _: &Request) -> Result<(), ServiceError> {
        Ok(())
    }

    fn files_attributes(&self, _: &Request, file: Opaque<'static>) -> Result<AttributesResult, ServiceError> {
        match &*file {
            b"file" => Ok(AttributesResult::FileOk(FOUND)),
            b"broken" => Err(Fault::application(7, "broken").into()),
            _ => Ok(AttributesResult::Default(FileStatus::FileMissing)),
        }
    }

    fn files_read(
        &self,
        _: &Request,
        wanted: ReadArguments<'static>,
    ) -> Result<ReadResult<'_>, ServiceError> {
        let data = vec![b'd'; wanted.count as usize].into();
        Ok(ReadResult::FileOk(ReadData { after: FOUND, end: true, data }))
    }

    fn files_write(
        &self,
        call: &Request,
        written: WriteArguments<'static>,
    ) -> Result<FileStatus, ServiceError> {
        let (buffer, data) = (call.args.as_ptr_range(), written.data.as_ptr_range());
        let in_place = buffer.start <= data.start && data.end <= buffer.end;
        Ok(if in_place { FileStatus::FileOk } else { FileStatus::FileIo })
    }

    fn files_list(&self, _: &Request, _: Opaque<'static>, cookie: u64) -> Result<Listing<'_>, ServiceError> {
        let entry = |number| Entry { number, name: format!("file {number}").into() };
        Ok(Listing { entries: (0..cookie).map(entry).collect(), end: true })
    }
}

type Tested = Result<(), Box<dyn Error>>;

fn server() -> std::io::Result<Server> {
    let (program, version) = (FilesV1Server::<Files>::PROGRAM, FilesV1Server::<Files>::VERSION);
    Server::builder(ServerOptions::default()).register(program, version, FilesV1Server(Files)).start()
}

fn client(server: &Server) -> Result<FilesV1Client, CallError> {
    Ok(FilesV1Client::new(Client::default().handle(server.address(), Transport::Tcp)?))
}

#[test]
fn results_come_back_typed() -> Tested {
    let server = server()?;
    let mut files = client(&server)?;
    files.files_null()?;
    let file = Opaque::from(b"file");
    assert_eq!(files.files_attributes(&file)?, AttributesResult::FileOk(FOUND));
    let other = Opaque::from(b"other");
    assert_eq!(files.files_attributes(&other)?, AttributesResult::Default(FileStatus::FileMissing));
    let listing = files.files_list(&file, 100_000)?;
    assert_eq!(listing.entries.len(), 100_000, "a list is as long as it is, and doesn't nest");
    assert_eq!(listing.entries[7].name, "file 7");
    let wanted = ReadArguments { file, offset: 0, count: BLOCK as u32 };
    let ReadResult::FileOk(read) = files.files_read(&wanted)? else { panic!("not read") };
    assert_eq!(read.data.len(), BLOCK);
    Ok(())
}

#[test]
fn a_large_opaque_reaches_its_handler_in_the_buffer_it_came_in() -> Tested {
    let server = server()?;
    let data = vec![7; BLOCK];
    let write = WriteArguments { file: Opaque::from(b"f"), offset: 0, data: (&data).into() };
    assert_eq!(client(&server)?.files_write(&write)?, FileStatus::FileOk);
    Ok(())
}

#[test]
fn a_procedures_own_error_and_arguments_beyond_a_limit_are_told_apart() -> Tested {
    let server = server()?;
    let mut files = client(&server)?;
    let error = files.files_attributes(&Opaque::from(b"broken")).unwrap_err();
    let StubError::Call(CallError::Fault(fault)) = &error else { panic!("{error:?}") };
    assert_eq!(fault.kind, FaultKind::Application(7));
    assert!(!error.is_retry_safe());
    let long = Opaque::from(vec![0; 65]);
    let error = files.files_attributes(&long).unwrap_err();
    assert_eq!(error, StubError::Arguments(EncodeError::TooLong { length: 65, limit: 64 }));
    assert!(error.is_retry_safe());
    Ok(())
}

#[test]
fn several_callees_answer_in_parallel_and_in_a_chain() -> Tested {
    let servers = [server()?, server()?, server()?];
    let addresses: Vec<_> = servers.iter().map(Server::address).collect();
    let write = WriteArguments { file: Opaque::from(b"f"), offset: 0, data: vec![7; BLOCK].into() };
    for pattern in [Pattern::Parallel(Transport::Tcp), Pattern::Serial] {
        let (client, options) = (Client::default(), MulticastOptions::default());
        let files =
            FilesV1Callees { callees: Callees { client, addresses: addresses.clone(), pattern, options } };
        let outcomes = files.files_write(&write)?;
        assert_eq!(
            outcomes,
            [Ok(FileStatus::FileOk), Ok(FileStatus::FileOk), Ok(FileStatus::FileOk)],
            "{pattern:?}"
        );
    }
    Ok(())
}

#[test]
fn text_in_arguments_takes_what_its_limit_allows() {
    let name = Text::from("n".repeat(255));
    let entry = Entry { number: 1, name };
    assert!(strait_xdr::to_vec(&entry).is_ok());
    let entry = Entry { number: 1, name: Text::from("n".repeat(256)) };
    assert_eq!(strait_xdr::to_vec(&entry), Err(EncodeError::TooLong { length: 256, limit: 255 }));
}

struct Taken;

impl HabitsTakenV1Service for Taken {
    fn new_(&self, _: &Request, number: u32) -> Result<u32, ServiceError> {
        Ok(number + 1)
    }

    fn into_(&self, _: &Request, number: u32) -> Result<u32, ServiceError> {
        Ok(number + 2)
    }

    fn try_into_(&self, _: &Request, number: u32) -> Result<u32, ServiceError> {
        Ok(number + 3)
    }

    fn call(&self, _: &Request, number: u32) -> Result<u32, ServiceError> {
        Ok(number + 4)
    }

    fn the_same(&self, _: &Request, s: S) -> Result<S, ServiceError> {
        Ok(s)
    }
}

#[test]
fn procedures_may_be_named_like_what_a_client_has_already() -> Tested {
    let (program, version) = (HabitsTakenV1Server::<Taken>::PROGRAM, HabitsTakenV1Server::<Taken>::VERSION);
    let server = Server::builder(ServerOptions::default())
        .register(program, version, HabitsTakenV1Server(Taken))
        .start()?;
    let mut taken = HabitsTakenV1Client::new(Client::default().handle(server.address(), Transport::Tcp)?);
    assert_eq!([taken.new_(10)?, taken.into_(10)?, taken.try_into_(10)?, taken.call(10)?], [11, 12, 13, 14]);
    assert_eq!(taken.the_same(&S { i: 1 })?, S { i: 1 });
    Ok(())
}

#[derive(Default)]
struct Journal(Mutex<Vec<Text<'static>>>);

impl JournalV1Service for Journal {
    fn journal_write(&self, _: &Request, entry: Text<'static>) -> Result<(), ServiceError> {
        self.0.lock().unwrap().push(entry);
        Ok(())
    }

    fn journal_last(&self, _: &Request) -> Result<Text<'_>, ServiceError> {
        let entries = self.0.lock().unwrap();
        entries.last().cloned().ok_or_else(|| Fault::application(1, "empty").into())
    }
}

impl JournalV2Service for Journal {
    fn journal_write(&self, _: &Request, entry: Text<'static>, times: u32) -> Result<u32, ServiceError> {
        let mut entries = self.0.lock().unwrap();
        entries.extend((0..times).map(|_| entry.clone()));
        Ok(entries.len() as u32)
    }

    fn journal_count(&self, _: &Request) -> Result<u32, ServiceError> {
        Ok(self.0.lock().unwrap().len() as u32)
    }
}

#[test]
fn two_versions_of_a_program_share_one_state() -> Tested {
    let journal = Arc::new(Journal::default());
    // A server needs to know only a version's trait.
    let second: Arc<dyn JournalV2Service> = journal.clone();
    let program = JournalV1Server::<Arc<Journal>>::PROGRAM;
    let server = Server::builder(ServerOptions::default())
        .register(program, JournalV1Server::<Arc<Journal>>::VERSION, JournalV1Server(Arc::clone(&journal)))
        .register(program, JournalV2Server::<Arc<Journal>>::VERSION, JournalV2Server(second))
        .start()?;
    let handle = || Client::default().handle(server.address(), Transport::Tcp);
    let (mut first, mut second) = (JournalV1Client::new(handle()?), JournalV2Client::new(handle()?));
    first.journal_write(&"one".into())?;
    assert_eq!(second.journal_write(&"more".into(), 2)?, 3);
    assert_eq!(first.journal_last()?, "more");
    assert_eq!((second.journal_count()?, journal.0.lock().unwrap().len()), (3, 3));
    Ok(())
}
