//! A block device over a file, by the kernel's interface `<linux/loop.h>`. The command `losetup` can't do
//! this: it opens a file only by name, and needs a second call to make the device end with its last user.

use crate::failure::{Failure, Result};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, Setter, ioctl};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr;

const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_CTL_GET_FREE: Opcode = 0x4C82;
/// Flag: the device ends with its last user.
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// Most attempts to get a free device. Another process may take a device first.
const ATTEMPTS: usize = 20;

/// `struct loop_config` with its `struct loop_info64`. The unused fields are zero.
#[repr(C)]
struct Config {
    file: u32,
    block_bytes: u32,
    of_device: [u64; 5],
    number: u32,
    encryption: [u32; 2],
    flags: u32,
    names_and_key: [u8; 64 + 64 + 32],
    init: [u64; 2],
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<Config>() == 8 + 232 + 64);

/// Asks `/dev/loop-control` for the number of a free device.
struct GetFree;

// SAFETY: the kernel takes no argument and touches no memory of this process.
unsafe impl Ioctl for GetFree {
    type Output = IoctlOutput;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        LOOP_CTL_GET_FREE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        ptr::null_mut()
    }

    unsafe fn output_from_ptr(number: IoctlOutput, _: *mut c_void) -> rustix::io::Result<IoctlOutput> {
        Ok(number)
    }
}

/// A loop device, which ends with this value, or with its mount if that lasts longer.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    _open: File,
}

impl LoopDevice {
    /// A device over `image`.
    pub fn new(image: &File) -> Result<Self> {
        let control = File::options().read(true).write(true).open("/dev/loop-control")?;
        let mut refused = rustix::io::Errno::BUSY;
        for _ in 0..ATTEMPTS {
            // SAFETY: `GetFree` describes this call.
            let number = unsafe { ioctl(&control, GetFree) }.map_err(io::Error::from)?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = File::options().read(true).write(true).open(&path)?;
            let config = Config {
                file: image.as_raw_fd() as u32,
                block_bytes: 0,
                of_device: [0; 5],
                number: 0,
                encryption: [0; 2],
                flags: LO_FLAGS_AUTOCLEAR,
                names_and_key: [0; 64 + 64 + 32],
                init: [0; 2],
                reserved: [0; 8],
            };
            // SAFETY: this call reads a `loop_config`, which `Config` is.
            match unsafe { ioctl(&device, Setter::<LOOP_CONFIGURE, Config>::new(config)) } {
                Ok(()) => return Ok(Self { path, _open: device }),
                Err(errno) => refused = errno,
            }
        }
        Err(Failure::new(format!("making a loop device (as root?): {refused}")))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}
