//! Open files: builders, futures, reading and writing.

use crate::failure::{EINTERNAL, Failure, Outcome, reported, set_errno, tell};
use crate::file::{Input, Output, Reach, Room};
use crate::filesystem::Connection;
use crate::{bytes, connection, hdfs_internal, signed, tOffset, tSize, text, unsigned};
use nix::libc::{
    EINVAL, ENOTSUP, O_ACCMODE, O_APPEND, O_RDONLY, O_RDWR, O_WRONLY, c_char, c_int, c_short, c_void,
};
use std::ptr::null_mut;
use std::sync::Arc;
use strait_store::{CreateOptions, Scheme, StorePath};

/// An open file. The first two fields are those of Hadoop before 2.0, whose header made them public.
#[repr(C)]
pub struct hdfsFile_internal {
    unused: *mut c_void,
    kind: c_int,
    stream: Stream,
}

enum Stream {
    Input(Input),
    Output(Output),
}

/// `enum hdfsStreamType`.
const INPUT: c_int = 1;
const OUTPUT: c_int = 2;

impl hdfsFile_internal {
    fn handle(stream: Stream) -> *mut Self {
        let kind = if matches!(stream, Stream::Input(_)) { INPUT } else { OUTPUT };
        Box::into_raw(Box::new(Self { unused: null_mut(), kind, stream }))
    }
}

/// The stream behind a caller's handle.
///
/// # Safety
/// `file` is null, or an open file.
unsafe fn stream<'f>(file: *const hdfsFile_internal) -> Outcome<&'f Stream> {
    // SAFETY: the caller's promise.
    match unsafe { file.as_ref() } {
        Some(file) => Ok(&file.stream),
        None => Err(Failure::bad_handle("the file is a null pointer")),
    }
}

/// # Safety
/// As [`stream`].
pub unsafe fn input<'f>(file: *const hdfsFile_internal, otherwise: c_int) -> Outcome<&'f Input> {
    // SAFETY: the caller's promise.
    match unsafe { stream(file)? } {
        Stream::Input(input) => Ok(input),
        Stream::Output(_) => Err(Failure::new(otherwise, "the file isn't open for reading")),
    }
}

/// # Safety
/// As [`stream`].
unsafe fn output<'f>(file: *const hdfsFile_internal, otherwise: c_int) -> Outcome<&'f Output> {
    // SAFETY: the caller's promise.
    match unsafe { stream(file)? } {
        Stream::Output(output) => Ok(output),
        Stream::Input(_) => Err(Failure::new(otherwise, "the file isn't open for writing")),
    }
}

// ---------------------------------------------------------------- opening

/// Parameters of an open file.
pub struct hdfsStreamBuilder {
    /// The connection and the path, or the error if one of them is invalid.
    place: Outcome<(Arc<Connection>, StorePath)>,
    flags: c_int,
    options: CreateOptions,
}

impl hdfsStreamBuilder {
    /// # Safety
    /// As hdfs.h asks.
    unsafe fn new(fs: *mut hdfs_internal, path: *const c_char, flags: c_int) -> Self {
        let place = || {
            // SAFETY: the caller's promise.
            let (fs, path) = unsafe { (connection(fs)?, bytes(path)?) };
            Ok((fs.clone(), fs.path(path)?))
        };
        let place = place();
        let fs = place.as_ref().ok().map(|(fs, _)| fs);
        let (replication, block_size) =
            fs.map_or((None, None), |fs: &Arc<Connection>| (fs.replication, fs.block_size));
        let options = CreateOptions { overwrite: true, replication, block_size, ..CreateOptions::default() };
        Self { place, flags, options }
    }

    fn writes(&self) -> Outcome<()> {
        match self.flags & O_ACCMODE {
            O_WRONLY => Ok(()),
            _ => Err(Failure::invalid("this setting only applies to files opened for writing")),
        }
    }

    fn build(self) -> Outcome<*mut hdfsFile_internal> {
        let (fs, path) = self.place?;
        let stream = match self.flags & O_ACCMODE {
            O_RDONLY => Stream::Input(Input::open(&fs, path)?),
            O_WRONLY if self.flags & O_APPEND != 0 => Stream::Output(Output::append(&fs, path)?),
            O_WRONLY => Stream::Output(Output::create(&fs, path, &self.options)?),
            O_RDWR => {
                return Err(Failure::new(
                    ENOTSUP,
                    format!("open {path}: O_RDWR isn't supported; open for reading or for writing"),
                ));
            }
            _ => {
                return Err(Failure::new(
                    EINVAL,
                    format!("open {path}: the access mode isn't O_RDONLY or O_WRONLY"),
                ));
            }
        };
        Ok(hdfsFile_internal::handle(stream))
    }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsOpenFile(
    fs: *mut hdfs_internal,
    path: *const c_char,
    flags: c_int,
    _bufferSize: c_int,
    replication: c_short,
    blocksize: tSize,
) -> *mut hdfsFile_internal {
    reported(null_mut(), || {
        // SAFETY: as hdfs.h asks.
        let mut builder = unsafe { hdfsStreamBuilder::new(fs, path, flags) };
        if builder.writes().is_ok() {
            set_replication(&mut builder, replication)?;
            set_block_size(&mut builder, blocksize.into())?;
        }
        builder.build()
    })
}

fn set_replication(builder: &mut hdfsStreamBuilder, replication: i16) -> Outcome<()> {
    if replication != 0 {
        let count = u16::try_from(replication);
        builder.options.replication =
            Some(count.map_err(|_| Failure::invalid(format!("invalid replication {replication}")))?);
    }
    Ok(())
}

fn set_block_size(builder: &mut hdfsStreamBuilder, size: i64) -> Outcome<()> {
    if size != 0 {
        builder.options.block_size = Some(unsigned(size)?);
    }
    Ok(())
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsStreamBuilderAlloc(
    fs: *mut hdfs_internal,
    path: *const c_char,
    flags: c_int,
) -> *mut hdfsStreamBuilder {
    // SAFETY: as hdfs.h asks.
    reported(null_mut(), || Ok(Box::into_raw(Box::new(unsafe { hdfsStreamBuilder::new(fs, path, flags) }))))
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsStreamBuilderFree(bld: *mut hdfsStreamBuilder) {
    if !bld.is_null() {
        // SAFETY: hdfsStreamBuilderAlloc made the box, and the caller gives it up.
        drop(unsafe { Box::from_raw(bld) });
    }
}

/// Sets a parameter of a file to be written.
///
/// # Safety
/// As hdfs.h asks.
unsafe fn set(bld: *mut hdfsStreamBuilder, set: impl FnOnce(&mut hdfsStreamBuilder) -> Outcome<()>) -> c_int {
    reported(-1, || {
        // SAFETY: the caller's promise.
        let builder = unsafe { bld.as_mut() };
        let builder = builder.ok_or_else(|| Failure::invalid("the builder is a null pointer"))?;
        builder.writes()?;
        set(builder).map(|()| 0)
    })
}

/// See hdfs.h. Has no effect: this library chooses the sizes of its buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsStreamBuilderSetBufferSize(
    bld: *mut hdfsStreamBuilder,
    _bufferSize: i32,
) -> c_int {
    // SAFETY: as hdfs.h asks.
    unsafe { set(bld, |_| Ok(())) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsStreamBuilderSetReplication(
    bld: *mut hdfsStreamBuilder,
    replication: i16,
) -> c_int {
    // SAFETY: as hdfs.h asks.
    unsafe { set(bld, |builder| set_replication(builder, replication)) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsStreamBuilderSetDefaultBlockSize(
    bld: *mut hdfsStreamBuilder,
    defaultBlockSize: i64,
) -> c_int {
    // SAFETY: as hdfs.h asks.
    unsafe { set(bld, |builder| set_block_size(builder, defaultBlockSize)) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsStreamBuilderBuild(bld: *mut hdfsStreamBuilder) -> *mut hdfsFile_internal {
    reported(null_mut(), || {
        if bld.is_null() {
            return Err(Failure::invalid("the builder is a null pointer"));
        }
        // SAFETY: hdfsStreamBuilderAlloc made the box, and the caller gives it up.
        unsafe { Box::from_raw(bld) }.build()
    })
}

/// Parameters of a file to open for reading.
pub struct hdfsOpenFileBuilder(hdfsStreamBuilder);

/// The result of opening a file for reading; empty once the program has taken it.
pub struct hdfsOpenFileFuture(Option<Outcome<*mut hdfsFile_internal>>);

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsOpenFileBuilderAlloc(
    fs: *mut hdfs_internal,
    path: *const c_char,
) -> *mut hdfsOpenFileBuilder {
    reported(null_mut(), || {
        // SAFETY: as hdfs.h asks.
        let file = unsafe { hdfsStreamBuilder::new(fs, path, O_RDONLY) };
        Ok(Box::into_raw(Box::new(hdfsOpenFileBuilder(file))))
    })
}

/// See hdfs.h. Always makes the opening fail, since this library knows no options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsOpenFileBuilderMust(
    builder: *mut hdfsOpenFileBuilder,
    key: *const c_char,
    _value: *const c_char,
) -> *mut hdfsOpenFileBuilder {
    reported(null_mut(), || {
        // SAFETY: as hdfs.h asks.
        let (file, key) = unsafe { (builder.as_mut(), text(key)?) };
        let file = file.ok_or_else(|| Failure::invalid("the builder is a null pointer"))?;
        file.0.place = Err(Failure::invalid(format!("mandatory option {key} isn't supported")));
        Ok(builder)
    })
}

/// See hdfs.h. Has no effect: this library knows no options, and unknown ones are ignored.
#[unsafe(no_mangle)]
pub extern "C" fn hdfsOpenFileBuilderOpt(
    builder: *mut hdfsOpenFileBuilder,
    _key: *const c_char,
    _value: *const c_char,
) -> *mut hdfsOpenFileBuilder {
    builder
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsOpenFileBuilderBuild(
    builder: *mut hdfsOpenFileBuilder,
) -> *mut hdfsOpenFileFuture {
    reported(null_mut(), || {
        if builder.is_null() {
            return Err(Failure::invalid("the builder is a null pointer"));
        }
        // SAFETY: hdfsOpenFileBuilderAlloc made the box, and the caller gives it up.
        let opened = unsafe { Box::from_raw(builder) }.0.build();
        Ok(Box::into_raw(Box::new(hdfsOpenFileFuture(Some(opened)))))
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsOpenFileBuilderFree(builder: *mut hdfsOpenFileBuilder) {
    if !builder.is_null() {
        // SAFETY: hdfsOpenFileBuilderAlloc made the box, and the caller gives it up.
        drop(unsafe { Box::from_raw(builder) });
    }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsOpenFileFutureGet(future: *mut hdfsOpenFileFuture) -> *mut hdfsFile_internal {
    reported(null_mut(), || {
        // SAFETY: as hdfs.h asks.
        let opened = unsafe { future.as_mut() }.and_then(|future| future.0.take());
        opened.unwrap_or_else(|| Err(Failure::bad_handle("the future is null, or its file is already taken")))
    })
}

/// See hdfs.h. Doesn't wait: the file is open already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsOpenFileFutureGetWithTimeout(
    future: *mut hdfsOpenFileFuture,
    _timeout: i64,
    _timeUnit: c_int,
) -> *mut hdfsFile_internal {
    // SAFETY: as hdfs.h asks.
    unsafe { hdfsOpenFileFutureGet(future) }
}

/// See hdfs.h. Always fails: the file is open already.
#[unsafe(no_mangle)]
pub extern "C" fn hdfsOpenFileFutureCancel(_future: *mut hdfsOpenFileFuture, _mayInterrupt: c_int) -> c_int {
    reported(-1, || Err(Failure::new(EINTERNAL, "the file is open already")))
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsOpenFileFutureFree(future: *mut hdfsOpenFileFuture) {
    if future.is_null() {
        return;
    }
    // SAFETY: hdfsOpenFileBuilderBuild made the box, and the caller gives it up.
    let future = unsafe { Box::from_raw(future) };
    if let Some(Ok(file)) = future.0 {
        // SAFETY: the program didn't take the file, so the future owns it.
        drop(unsafe { Box::from_raw(file) });
    }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsCloseFile(_fs: *mut hdfs_internal, file: *mut hdfsFile_internal) -> c_int {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        unsafe { stream(file)? };
        // SAFETY: an open function made the box, and the caller gives it up.
        match unsafe { Box::from_raw(file) }.stream {
            Stream::Input(_) => Ok(0),
            Stream::Output(output) => output.close().map(|()| 0),
        }
    })
}

// ---------------------------------------------------------------- reading

/// The program's buffer.
///
/// # Safety
/// `buffer` points to `length` writable bytes.
unsafe fn room(buffer: *mut c_void, length: tSize) -> Outcome<Room> {
    let length =
        usize::try_from(length).map_err(|_| Failure::invalid(format!("negative length {length}")))?;
    if buffer.is_null() && length > 0 {
        return Err(Failure::invalid("the buffer is a null pointer"));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { Room::new(buffer.cast(), length) })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsRead(
    _fs: *mut hdfs_internal,
    file: *mut hdfsFile_internal,
    buffer: *mut c_void,
    length: tSize,
) -> tSize {
    if length == 0 {
        return 0;
    }
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        let (input, room) = unsafe { (input(file, EINVAL)?, room(buffer, length)?) };
        input.read(room).map(|count| count as tSize)
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsPread(
    _fs: *mut hdfs_internal,
    file: *mut hdfsFile_internal,
    position: tOffset,
    buffer: *mut c_void,
    length: tSize,
) -> tSize {
    if length == 0 {
        return 0;
    }
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        let (input, room) = unsafe { (input(file, EINVAL)?, room(buffer, length)?) };
        // As in Hadoop's library, a read at a negative position returns 0 bytes.
        let Ok(position) = u64::try_from(position) else { return Ok(0) };
        input.read_at(position, room).map(|count| count as tSize)
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsPreadFully(
    _fs: *mut hdfs_internal,
    file: *mut hdfsFile_internal,
    position: tOffset,
    buffer: *mut c_void,
    length: tSize,
) -> c_int {
    if length == 0 {
        return 0;
    }
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        let (input, room) = unsafe { (input(file, EINVAL)?, room(buffer, length)?) };
        let before = |_| Failure::new(EINTERNAL, format!("invalid position {position}"));
        match input.read_at(u64::try_from(position).map_err(before)?, room)? {
            count if count == length as usize => Ok(0),
            count => Err(Failure::new(EINTERNAL, format!("the file ends after {count} of {length} bytes"))),
        }
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsSeek(
    _fs: *mut hdfs_internal,
    file: *mut hdfsFile_internal,
    desiredPos: tOffset,
) -> c_int {
    // SAFETY: as hdfs.h asks.
    reported(-1, || unsafe { input(file, nix::libc::EBADF)? }.seek(desiredPos).map(|()| 0))
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsTell(_fs: *mut hdfs_internal, file: *mut hdfsFile_internal) -> tOffset {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        Ok(signed(match unsafe { stream(file)? } {
            Stream::Input(input) => input.position(),
            Stream::Output(output) => output.position()?,
        }))
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsAvailable(_fs: *mut hdfs_internal, file: *mut hdfsFile_internal) -> c_int {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        let left = unsafe { input(file, nix::libc::EBADF)? }.available()?;
        Ok(c_int::try_from(left).unwrap_or(c_int::MAX))
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsUnbufferFile(file: *mut hdfsFile_internal) -> c_int {
    // SAFETY: as hdfs.h asks.
    let done = tell(|| unsafe { input(file, ENOTSUP)? }.unbuffer());
    let errno = done.err().unwrap_or(0);
    set_errno(errno);
    errno
}

// ---------------------------------------------------------------- writing

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsWrite(
    _fs: *mut hdfs_internal,
    file: *mut hdfsFile_internal,
    buffer: *const c_void,
    length: tSize,
) -> tSize {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        let output = unsafe { output(file, EINVAL)? };
        let count = usize::try_from(length).map_err(|_| Failure::invalid(format!("{length} is negative")))?;
        if count == 0 {
            return Ok(0);
        }
        if buffer.is_null() {
            return Err(Failure::invalid("the buffer is a null pointer"));
        }
        // SAFETY: as hdfs.h asks.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), count) };
        output.write(bytes).map(|count| count as tSize)
    })
}

/// # Safety
/// As hdfs.h asks.
unsafe fn flush(file: *mut hdfsFile_internal, reach: Reach) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || unsafe { output(file, nix::libc::EBADF)? }.flush(reach).map(|()| 0))
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsFlush(_fs: *mut hdfs_internal, file: *mut hdfsFile_internal) -> c_int {
    // SAFETY: as hdfs.h asks.
    unsafe { flush(file, Reach::Store) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsHFlush(_fs: *mut hdfs_internal, file: *mut hdfsFile_internal) -> c_int {
    // SAFETY: as hdfs.h asks.
    unsafe { flush(file, Reach::Readers) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsHSync(_fs: *mut hdfs_internal, file: *mut hdfsFile_internal) -> c_int {
    // SAFETY: as hdfs.h asks.
    unsafe { flush(file, Reach::Disks) }
}

// ---------------------------------------------------------------- facts

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsFileIsOpenForRead(file: *mut hdfsFile_internal) -> c_int {
    // SAFETY: as hdfs.h asks.
    unsafe { file.as_ref() }.is_some_and(|file| file.kind == INPUT).into()
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsFileIsOpenForWrite(file: *mut hdfsFile_internal) -> c_int {
    // SAFETY: as hdfs.h asks.
    unsafe { file.as_ref() }.is_some_and(|file| file.kind == OUTPUT).into()
}

/// Whether reads go directly into the program's buffer, a question of Hadoop's tests. True for each file that
/// is open for reading.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsFileUsesDirectRead(file: *mut hdfsFile_internal) -> c_int {
    // SAFETY: as the function above.
    unsafe { hdfsFileIsOpenForRead(file) }
}

/// As [`hdfsFileUsesDirectRead`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsFileUsesDirectPread(file: *mut hdfsFile_internal) -> c_int {
    // SAFETY: as the function above.
    unsafe { hdfsFileIsOpenForRead(file) }
}

/// As [`hdfsRead`]. Hadoop's library exports it although no header has it, and fio calls it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn readDirect(
    fs: *mut hdfs_internal,
    file: *mut hdfsFile_internal,
    buffer: *mut c_void,
    length: tSize,
) -> tSize {
    // SAFETY: as the function above.
    unsafe { hdfsRead(fs, file, buffer, length) }
}

/// Has no effect: there is no other way to read.
#[unsafe(no_mangle)]
pub extern "C" fn hdfsFileDisableDirectRead(_file: *mut hdfsFile_internal) {}

/// Has no effect: there is no other way to read.
#[unsafe(no_mangle)]
pub extern "C" fn hdfsFileDisableDirectPread(_file: *mut hdfsFile_internal) {}

/// Numbers of bytes that were read.
#[repr(C)]
pub struct hdfsReadStatistics {
    totalBytesRead: u64,
    totalLocalBytesRead: u64,
    totalShortCircuitBytesRead: u64,
    totalZeroCopyBytesRead: u64,
}

/// See hdfs.h. The stores don't report how many of the bytes were local.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsFileGetReadStatistics(
    file: *mut hdfsFile_internal,
    stats: *mut *mut hdfsReadStatistics,
) -> c_int {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        let (input, stats) = unsafe { (input(file, EINVAL)?, stats.as_mut()) };
        let stats = stats.ok_or_else(|| Failure::invalid("the pointer to the statistics is null"))?;
        *stats = Box::into_raw(Box::new(hdfsReadStatistics {
            totalBytesRead: input.count(),
            totalLocalBytesRead: 0,
            totalShortCircuitBytesRead: 0,
            totalZeroCopyBytesRead: 0,
        }));
        Ok(0)
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsReadStatisticsGetRemoteBytesRead(stats: *const hdfsReadStatistics) -> i64 {
    // SAFETY: as hdfs.h asks.
    let stats = unsafe { stats.as_ref() };
    stats.map_or(0, |stats| signed(stats.totalBytesRead.saturating_sub(stats.totalLocalBytesRead)))
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsFileClearReadStatistics(file: *mut hdfsFile_internal) -> c_int {
    // SAFETY: as hdfs.h asks.
    let cleared = tell(|| unsafe { input(file, EINVAL) }.map(Input::clear_count));
    cleared.map_or_else(
        |errno| {
            set_errno(errno);
            errno
        },
        |()| 0,
    )
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsFileFreeReadStatistics(stats: *mut hdfsReadStatistics) {
    if !stats.is_null() {
        // SAFETY: hdfsFileGetReadStatistics made the box, and the caller gives it up.
        drop(unsafe { Box::from_raw(stats) });
    }
}

/// Counts of hedged reads.
#[repr(C)]
pub struct hdfsHedgedReadMetrics {
    hedgedReadOps: u64,
    hedgedReadOpsWin: u64,
    hedgedReadOpsInCurThread: u64,
}

/// See hdfs.h. The counts are 0, since this library doesn't hedge reads.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsGetHedgedReadMetrics(
    fs: *mut hdfs_internal,
    metrics: *mut *mut hdfsHedgedReadMetrics,
) -> c_int {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        let (fs, metrics) = unsafe { (connection(fs)?, metrics.as_mut()) };
        let metrics = metrics.ok_or_else(|| Failure::invalid("the pointer to the metrics is null"))?;
        if fs.scheme() != Scheme::Hdfs {
            return Err(Failure::new(ENOTSUP, "only HDFS has hedged reads"));
        }
        let none =
            hdfsHedgedReadMetrics { hedgedReadOps: 0, hedgedReadOpsWin: 0, hedgedReadOpsInCurThread: 0 };
        *metrics = Box::into_raw(Box::new(none));
        Ok(0)
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsFreeHedgedReadMetrics(metrics: *mut hdfsHedgedReadMetrics) {
    if !metrics.is_null() {
        // SAFETY: hdfsGetHedgedReadMetrics made the box, and the caller gives it up.
        drop(unsafe { Box::from_raw(metrics) });
    }
}
