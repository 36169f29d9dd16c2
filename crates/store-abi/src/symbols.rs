//! The functions of hdfs.h since Hadoop 0.20. A library may lack those of later versions.

use libloading::Library;
use std::ffi::{c_char, c_int, c_short, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use strait_store::{ErrorKind, Result, fail};

pub type Fs = *mut c_void;
pub type File = *mut c_void;
type Text = *const c_char;

/// The struct `hdfsFileInfo`.
#[repr(C)]
pub struct FileInfo {
    /// `F` or `D`.
    pub kind: c_int,
    pub name: *mut c_char,
    /// Seconds.
    pub modified: i64,
    pub size: i64,
    pub replication: c_short,
    pub block_size: i64,
    pub owner: *mut c_char,
    pub group: *mut c_char,
    pub permissions: c_short,
    /// Seconds.
    pub accessed: i64,
}

macro_rules! symbols {
    (
        needed { $($name:ident: $symbol:literal ($($argument:ty),*) -> $result:ty;)* }
        optional { $($late:ident: $late_symbol:literal ($($late_argument:ty),*) -> $late_result:ty;)* }
    ) => {
        /// The functions of one library.
        pub struct Symbols {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            $(pub $late: Option<unsafe extern "C" fn($($late_argument),*) -> $late_result>,)*
        }

        impl Symbols {
            /// Loads the library.
            ///
            /// # Errors
            /// InvalidArgument if the library can't be loaded, or lacks a function that 0.20 had.
            pub fn load(path: &Path) -> Result<Self> {
                let refuse = |why: String| {
                    fail(ErrorKind::InvalidArgument, format!("library {}: {why}", path.display()))
                };
                // SAFETY: loading runs the library's initializers. The operator named it, and vouches for it.
                let library = match unsafe { Library::new(path) } {
                    // The library stays loaded: its threads, and destructors of its thread-local values, may
                    // outlive the connection. Hadoop's has such a destructor in each thread that called it.
                    Ok(library) => ManuallyDrop::new(library),
                    Err(error) => {
                        // The loader's own words: libloading's error says only which of its functions failed.
                        let source = std::error::Error::source(&error).map(ToString::to_string);
                        let why = source.unwrap_or_else(|| error.to_string());
                        return refuse(format!("can't be loaded: {why}"));
                    }
                };
                Ok(Self {
                    // SAFETY: hdfs.h gives these types to the symbols.
                    $($name: match unsafe { library.get($symbol) } {
                        Ok(symbol) => *symbol,
                        Err(_) => return refuse(format!(
                            "it has no function {}, so it isn't a libhdfs",
                            String::from_utf8_lossy($symbol)
                        )),
                    },)*
                    // SAFETY: as above.
                    $($late: unsafe { library.get($late_symbol) }.ok().map(|symbol| *symbol),)*
                })
            }
        }
    };
}

symbols! {
    needed {
        open_file: b"hdfsOpenFile" (Fs, Text, c_int, c_int, c_short, i32) -> File;
        close_file: b"hdfsCloseFile" (Fs, File) -> c_int;
        pread: b"hdfsPread" (Fs, File, i64, *mut c_void, i32) -> i32;
        write: b"hdfsWrite" (Fs, File, *const c_void, i32) -> i32;
        flush: b"hdfsFlush" (Fs, File) -> c_int;
        tell: b"hdfsTell" (Fs, File) -> i64;
        // In 0.20, the function has no third argument, and always deletes recursively. By the calling
        // conventions of our targets, a function can ignore an argument.
        delete: b"hdfsDelete" (Fs, Text, c_int) -> c_int;
        rename: b"hdfsRename" (Fs, Text, Text) -> c_int;
        create_directory: b"hdfsCreateDirectory" (Fs, Text) -> c_int;
        list_directory: b"hdfsListDirectory" (Fs, Text, *mut c_int) -> *mut FileInfo;
        path_info: b"hdfsGetPathInfo" (Fs, Text) -> *mut FileInfo;
        free_info: b"hdfsFreeFileInfo" (*mut FileInfo, c_int) -> ();
        disconnect: b"hdfsDisconnect" (Fs) -> c_int;
        capacity: b"hdfsGetCapacity" (Fs) -> i64;
        used: b"hdfsGetUsed" (Fs) -> i64;
    }
    optional {
        new_builder: b"hdfsNewBuilder" () -> *mut c_void;
        set_name_node: b"hdfsBuilderSetNameNode" (*mut c_void, Text) -> ();
        set_user: b"hdfsBuilderSetUserName" (*mut c_void, Text) -> ();
        set_string: b"hdfsBuilderConfSetStr" (*mut c_void, Text, Text) -> c_int;
        connect_builder: b"hdfsBuilderConnect" (*mut c_void) -> Fs;
        connect: b"hdfsConnect" (Text, u16) -> Fs;
        available: b"hdfsAvailable" (Fs, File) -> c_int;
        hflush: b"hdfsHFlush" (Fs, File) -> c_int;
        hsync: b"hdfsHSync" (Fs, File) -> c_int;
        chmod: b"hdfsChmod" (Fs, Text, c_short) -> c_int;
        chown: b"hdfsChown" (Fs, Text, Text, Text) -> c_int;
        set_replication: b"hdfsSetReplication" (Fs, Text, i16) -> c_int;
        hosts: b"hdfsGetHosts" (Fs, Text, i64, i64) -> *mut *mut *mut c_char;
        free_hosts: b"hdfsFreeHosts" (*mut *mut *mut c_char) -> ();
    }
}
