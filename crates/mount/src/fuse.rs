//! Receives FUSE's requests. Each becomes a task that sends its own reply.

use crate::core::{Attributes, Caller, Change, Core, Opened};
use crate::fault::{Answer, Fault};
use crate::gate::Gate;
use crate::times::time;
use bytes::Bytes;
use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use strait_store::FileType;
use tokio::runtime::Handle;

/// Bit in a request's number if the kernel resends it (FUSE_UNIQUE_RESEND).
const RESENT: u64 = 1 << 63;
/// Node numbers are never reused, so one generation suffices.
const GENERATION: Generation = Generation(0);
/// Largest request, in bytes: 1 MiB, the kernel's largest (fs.fuse.max_pages_limit, 256 pages).
const REQUEST: u32 = 1 << 20;
/// Largest number of requests without a waiting program, such as read-ahead, that the kernel sends at the
/// same time. Eight of 1 MiB keep a store at 10 Gbit/s busy. Requests that programs wait for aren't counted.
const BACKGROUND: u16 = 64;
/// st_blksize: the size in which programs read and write. It is large, so that they need few requests.
const BLOCK: u32 = 1 << 20;
/// Unit of st_blocks, by stat(2).
const SECTOR: u64 = 512;
/// Unit of statfs(2)'s counts.
const FRAGMENT: u32 = 4_096;
/// Longest name, in bytes.
const NAME: u32 = 255;

/// The file system that fuser calls.
pub struct FuseServer {
    core: Arc<Core>,
    gate: Arc<Gate>,
    runtime: Handle,
}

impl FuseServer {
    /// Runs each request as a task of `runtime`.
    pub fn new(core: Arc<Core>, gate: Arc<Gate>, runtime: Handle) -> Self {
        Self { core, gate, runtime }
    }

    fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: impl FnOnce(Arc<Core>) -> F) {
        let (pass, answering) = (self.gate.pass(), task(self.core.clone()));
        self.runtime.spawn(async move {
            answering.await;
            drop(pass);
        });
        self.gate.park();
    }
}

fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), request: number(request) }
}

/// The request's number. A resent request has the same number.
fn number(request: &Request) -> u64 {
    request.unique().0 & !RESENT
}

fn errno(fault: Fault) -> Errno {
    Errno::from_i32(fault.0)
}

fn attr(attributes: &Attributes) -> FileAttr {
    let status = &attributes.status;
    let directory = status.file_type == FileType::Directory;
    let modified = time(status.modified_ms);
    let links = match (attributes.linked, directory) {
        (false, _) => 0,
        (true, true) => 2,
        (true, false) => 1,
    };
    FileAttr {
        ino: INodeNo(attributes.node),
        size: if directory { u64::from(FRAGMENT) } else { status.length },
        blocks: if directory { 8 } else { status.length.div_ceil(SECTOR) },
        atime: if status.accessed_ms == 0 { modified } else { time(status.accessed_ms) },
        mtime: modified,
        ctime: attributes.changed,
        crtime: UNIX_EPOCH,
        kind: if directory { fuser::FileType::Directory } else { fuser::FileType::RegularFile },
        perm: (status.permission & 0o7777) as u16,
        nlink: links,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: 0,
        blksize: BLOCK,
        flags: 0,
    }
}

fn flags(opened: Opened) -> FopenFlags {
    match opened {
        Opened { direct: true, .. } => FopenFlags::FOPEN_DIRECT_IO,
        Opened { cached: true, .. } => FopenFlags::FOPEN_KEEP_CACHE,
        _ => FopenFlags::empty(),
    }
}

fn when(time: Option<TimeOrNow>) -> Option<SystemTime> {
    time.map(|time| match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    })
}

fn entry(reply: ReplyEntry, lifetime: Duration, answer: Answer<Attributes>) {
    match answer {
        Ok(attributes) => reply.entry(&lifetime, &attr(&attributes), GENERATION),
        Err(fault) => reply.error(errno(fault)),
    }
}

fn empty(reply: ReplyEmpty, answer: Answer<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(fault) => reply.error(errno(fault)),
    }
}

impl Filesystem for FuseServer {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without one of these, the mount works, but slower.
        for wanted in
            [InitFlags::FUSE_DO_READDIRPLUS, InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_AUTO_INVAL_DATA]
        {
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_write(REQUEST);
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (caller, name) = (caller(request), name.to_owned());
        self.spawn(|core| async move {
            entry(reply, core.lifetime(), core.lookup(caller, parent.0, &name).await);
        });
    }

    fn forget(&self, _: &Request, node: INodeNo, times: u64) {
        self.core.forget(node.0, times);
    }

    fn getattr(&self, request: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let caller = caller(request);
        self.spawn(|core| async move {
            match core.getattr(caller, node.0).await {
                Ok(attributes) => reply.attr(&core.lifetime(), &attr(&attributes)),
                Err(fault) => reply.error(errno(fault)),
            }
        });
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let caller = caller(request);
        let change = Change { mode, uid, gid, size, accessed: when(accessed), modified: when(modified) };
        let handle = handle.map(|handle| handle.0);
        self.spawn(|core| async move {
            match core.setattr(caller, node.0, handle, change).await {
                Ok(attributes) => reply.attr(&core.lifetime(), &attr(&attributes)),
                Err(fault) => reply.error(errno(fault)),
            }
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _device: u32,
        reply: ReplyEntry,
    ) {
        let (caller, name) = (caller(request), name.to_owned());
        self.spawn(|core| async move {
            let made = core.once_made(caller, core.mknod(caller, parent.0, &name, mode)).await;
            entry(reply, core.lifetime(), made);
            core.answered(caller.request);
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let (caller, name) = (caller(request), name.to_owned());
        self.spawn(|core| async move {
            let made = core.once_made(caller, core.mkdir(caller, parent.0, &name, mode)).await;
            entry(reply, core.lifetime(), made);
            core.answered(caller.request);
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (caller, name) = (caller(request), name.to_owned());
        self.spawn(|core| async move {
            empty(reply, core.once(caller, core.unlink(caller, parent.0, &name)).await);
            core.answered(caller.request);
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (caller, name) = (caller(request), name.to_owned());
        self.spawn(|core| async move {
            empty(reply, core.once(caller, core.rmdir(caller, parent.0, &name)).await);
            core.answered(caller.request);
        });
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let caller = caller(request);
        let (name, new_name): (OsString, OsString) = (name.to_owned(), new_name.to_owned());
        if !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
            return reply.error(Errno::EINVAL); // as renameat2(2) where a file system lacks these flags
        }
        let replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        self.spawn(|core| async move {
            let renames = core.rename(caller, (parent.0, &name), (new_parent.0, &new_name), replace);
            empty(reply, core.once(caller, renames).await);
            core.answered(caller.request);
        });
    }

    fn open(&self, request: &Request, node: INodeNo, open_flags: OpenFlags, reply: ReplyOpen) {
        let caller = caller(request);
        self.spawn(|core| async move {
            match core.open(caller, node.0, open_flags.0).await {
                Ok(opened) => reply.opened(FileHandle(opened.handle), flags(opened)),
                Err(fault) => reply.error(errno(fault)),
            }
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        open_flags: i32,
        reply: ReplyCreate,
    ) {
        let (caller, name) = (caller(request), name.to_owned());
        self.spawn(|core| async move {
            let creates = core.create(caller, parent.0, &name, mode, open_flags);
            match core.once_created(caller, creates).await {
                Ok((attributes, opened)) => reply.created(
                    &core.lifetime(),
                    &attr(&attributes),
                    GENERATION,
                    FileHandle(opened.handle),
                    flags(opened),
                ),
                Err(fault) => reply.error(errno(fault)),
            }
            core.answered(caller.request);
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.spawn(|core| async move {
            match core.read(handle.0, offset, size as usize).await {
                Ok(bytes) => reply.data(&bytes),
                Err(fault) => reply.error(errno(fault)),
            }
        });
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (request, data) = (number(request), Bytes::copy_from_slice(data));
        self.spawn(|core| async move {
            let length = data.len() as u32;
            match core.write(request, handle.0, offset, data).await {
                Ok(()) => reply.written(length),
                Err(fault) => reply.error(errno(fault)),
            }
            core.answered(request);
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.spawn(|core| async move { empty(reply, core.flush(handle.0).await) });
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.spawn(|core| async move {
            core.release(handle.0).await;
            reply.ok();
        });
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        self.spawn(|core| async move { empty(reply, core.fsync(handle.0).await) });
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok(); // stores acknowledge changes of names once they are durable
    }

    fn opendir(&self, request: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let caller = caller(request);
        self.spawn(|core| async move {
            match core.opendir(caller, node.0).await {
                Ok(handle) => reply.opened(FileHandle(handle), FopenFlags::empty()),
                Err(fault) => reply.error(errno(fault)),
            }
        });
    }

    fn readdir(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let caller = caller(request);
        self.spawn(|core| async move {
            let mut known = Vec::new();
            let listed = core.readdir(caller, handle.0, offset, |next, name, attributes, _| {
                let full = reply.add(INodeNo(attributes.node), next, attr(attributes).kind, name);
                if !full {
                    known.push(attributes.node);
                }
                full
            });
            let listed = listed.await;
            // Without readdirplus, the kernel doesn't learn of the nodes, so drop their references.
            known.into_iter().for_each(|node| core.forget(node, 1));
            match listed {
                Ok(()) => reply.ok(),
                Err(fault) => reply.error(errno(fault)),
            }
        });
    }

    fn readdirplus(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let caller = caller(request);
        self.spawn(|core| async move {
            let listed = core.readdir(caller, handle.0, offset, |next, name, attributes, lifetime| {
                reply.add(INodeNo(attributes.node), next, name, &lifetime, &attr(attributes), GENERATION)
            });
            match listed.await {
                Ok(()) => reply.ok(),
                Err(fault) => reply.error(errno(fault)),
            }
        });
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.spawn(|core| async move {
            core.release(handle.0).await;
            reply.ok();
        });
    }

    fn access(&self, request: &Request, node: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let caller = caller(request);
        let mask = mask.bits() as u32;
        self.spawn(|core| async move { empty(reply, core.access_allowed(caller, node.0, mask).await) });
    }

    fn statfs(&self, request: &Request, _: INodeNo, reply: ReplyStatfs) {
        let caller = caller(request);
        self.spawn(|core| async move {
            let unit = u64::from(FRAGMENT);
            match core.statfs(caller).await {
                Ok(None) => reply.statfs(0, 0, 0, 0, 0, FRAGMENT, NAME, FRAGMENT),
                Ok(Some(status)) => {
                    let (all, free) = (status.capacity / unit, status.remaining / unit);
                    reply.statfs(all, free, free, 0, 0, FRAGMENT, NAME, FRAGMENT);
                }
                Err(fault) => reply.error(errno(fault)),
            }
        });
    }

    // After ENOSYS, the kernel doesn't send such requests again.

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _: &Request, _: INodeNo, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn setxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: &[u8], _: i32, _: u32, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn removexattr(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: fuser::ReplyLseek) {
        reply.error(Errno::ENOSYS); // the kernel then treats the whole file as data
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: fuser::CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::ENOSYS); // then the kernel or the program copies
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: fuser::IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: fuser::ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }
}
