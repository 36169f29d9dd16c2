//! A program of 2009, of either generation: the same steps with different messages.

use super::{Client, Served, UNFRAMED};
use bytes::Bytes;
use strait_wire::*;

wire_structs! {
    /// Of 0.5.4.
    EarlyOpen { 1 filename: Text, 2 mode: i16, }
    /// Of 0.5.4.
    EarlyClose { 1 dh: DfsHandle, }
    /// Of 0.5.4, with the ids that the report prints.
    EarlyRead { 1 dh: DfsHandle, 3 offset: i64, 4 len: i64, }
    /// The report's, with ids in order.
    DenseRead { 1 dh: DfsHandle, 2 offset: i64, 3 len: i64, }
    /// Of 0.5.4.
    EarlyWrite { 1 dh: DfsHandle, 2 buf: Bytes, 3 offset: i64, 4 len: i64, }
    /// With the gap that `read` has in 0.5.4.
    SparseWrite { 1 dh: DfsHandle, 3 buf: Bytes, 4 offset: i64, 5 len: i64, }
}

macro_rules! early {
    ($($method:ident $name:literal $args:ident -> $success:ty;)*) => {$(
        #[derive(Debug)]
        pub enum $method {}
        impl Method for $method {
            const NAME: &'static str = $name;
            type Args = $args;
            type Success = $success;
            type Exception = DfsServiceIOException;
        }
    )*};
}

early! {
    OpenEarly "open" EarlyOpen -> DfsHandle;
    CloseEarly "close" EarlyClose -> bool;
    ReadEarly "read" EarlyRead -> Text;
    ReadDense "read" DenseRead -> Text;
    WriteEarly "write" EarlyWrite -> bool;
    WriteSparse "write" SparseWrite -> bool;
}

/// The interface that a program was compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// Released as 0.5.4: no client with open, close, read and write.
    Early,
    /// Released as 0.6.0.
    Later,
}

pub const READ: i16 = 1;
pub const WRITE: i16 = 2;

/// A program on its connection.
pub struct Program {
    pub client: Client,
    /// The answer of init, or a value that a test sets.
    pub ch: Option<ClientHandle>,
    generation: Generation,
}

impl Program {
    /// A connected program that has called nothing yet.
    pub fn connect(served: &Served, generation: Generation) -> Self {
        Self { client: served.client_on(UNFRAMED), ch: None, generation }
    }

    /// A program that has called `init` without a URI.
    pub fn start(served: &Served, generation: Generation) -> Self {
        let mut program = Self::connect(served, generation);
        assert!(program.init(None) > 0);
        program
    }

    pub fn init(&mut self, uri: Option<&[u8]>) -> i64 {
        let uri = uri.map(|uri| Text(Bytes::copy_from_slice(uri)));
        let Reply::Success(handle) = self.client.call::<methods::Init>(InitArgs { uri }) else {
            panic!("init throws nothing")
        };
        self.ch = Some(handle.clone());
        handle.id.unwrap()
    }

    /// A call without exceptions, by this program's handle.
    pub fn plain<M: Method<Args = ClientArgs, Success = bool>>(&mut self) -> bool {
        match self.client.call::<M>(ClientArgs { ch: self.ch.clone() }) {
            Reply::Success(answer) => answer,
            _ => panic!("{} throws nothing", M::NAME),
        }
    }

    /// Calls closeDfs as each release does; the report's clients send their handle.
    pub fn close_dfs(&mut self, with_handle: bool) -> bool {
        let ch = self.ch.clone().filter(|_| with_handle);
        match self.client.call::<methods::CloseDfs>(CloseDfsArgs { ch }) {
            Reply::Success(answer) => answer,
            _ => panic!("closeDfs throws nothing"),
        }
    }

    fn path(&self, path: &str) -> PathArgs {
        PathArgs { ch: self.ch.clone(), path: Some(path.into()) }
    }

    pub fn stat(&mut self, path: &str) -> Result<FileStatus, String> {
        self.client.old::<methods::Stat>(self.path(path))
    }

    pub fn list(&mut self, path: &str) -> Result<Vec<FileStatus>, String> {
        self.client.old::<methods::ListFiles>(self.path(path))
    }

    pub fn mkdir(&mut self, path: &str) -> Result<bool, String> {
        self.client.old::<methods::Mkdir>(self.path(path))
    }

    pub fn rename(&mut self, from: &str, to: &str) -> Result<bool, String> {
        let (old_path, new_path) = (Some(from.into()), Some(to.into()));
        self.client.old::<methods::Move>(MoveArgs { ch: self.ch.clone(), old_path, new_path })
    }

    pub fn remove(&mut self, path: &str) -> Result<bool, String> {
        let args = RemoveArgs { ch: self.ch.clone(), path: Some(path.into()), recursive: Some(false) };
        self.client.old::<methods::Remove>(args)
    }

    pub fn open(&mut self, path: &str, mode: i16) -> Result<DfsHandle, String> {
        let (filename, mode) = (Some(path.into()), Some(mode));
        match self.generation {
            Generation::Early => self.client.old::<OpenEarly>(EarlyOpen { filename, mode }),
            Generation::Later => {
                self.client.old::<methods::Open>(OpenArgs { ch: self.ch.clone(), filename, mode })
            }
        }
    }

    pub fn close(&mut self, dh: &DfsHandle) -> Result<bool, String> {
        let dh = Some(dh.clone());
        match self.generation {
            Generation::Early => self.client.old::<CloseEarly>(EarlyClose { dh }),
            Generation::Later => self.client.old::<methods::Close>(CloseArgs { ch: self.ch.clone(), dh }),
        }
    }

    pub fn read(&mut self, dh: &DfsHandle, offset: i64, len: i64) -> Result<Bytes, String> {
        let (dh, offset, len) = (Some(dh.clone()), Some(offset), Some(len));
        let read = match self.generation {
            Generation::Early => self.client.old::<ReadEarly>(EarlyRead { dh, offset, len }),
            Generation::Later => {
                self.client.old::<methods::Read>(ReadArgs { ch: self.ch.clone(), dh, offset, len })
            }
        };
        read.map(|text| text.0)
    }

    pub fn write(&mut self, dh: &DfsHandle, data: &[u8], offset: i64) -> Result<bool, String> {
        let (dh, offset, len) = (Some(dh.clone()), Some(offset), Some(data.len() as i64));
        let buf = Some(Bytes::copy_from_slice(data));
        match self.generation {
            Generation::Early => self.client.old::<WriteEarly>(EarlyWrite { dh, buf, offset, len }),
            Generation::Later => {
                self.client.old::<methods::Write>(WriteArgs { ch: self.ch.clone(), dh, buf, offset, len })
            }
        }
    }

    /// Writes a whole file.
    pub fn put(&mut self, path: &str, data: &[u8]) {
        let dh = self.open(path, WRITE).unwrap();
        assert!(self.write(&dh, data, -1).unwrap());
        assert!(self.close(&dh).unwrap());
    }

    /// Reads a whole small file.
    pub fn get(&mut self, path: &str) -> Result<Bytes, String> {
        let dh = self.open(path, READ)?;
        let data = self.read(&dh, 0, 1 << 20)?;
        assert!(self.close(&dh).unwrap());
        Ok(data)
    }
}
