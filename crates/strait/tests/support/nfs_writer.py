"""Writes a file by libnfs, whose server is killed in the middle: nfs_writer.py URL NAME PIECES.

Each piece is stable before the next begins. It prints the number of each, and goes on after a line.
"""

import ctypes
import os
import sys

url, name, pieces = sys.argv[1], sys.argv[2], int(sys.argv[3])
PIECE_BYTES = 300_000

nfs = ctypes.CDLL("libnfs.so.13")
nfs.nfs_init_context.restype = ctypes.c_void_p
nfs.nfs_get_error.restype = ctypes.c_char_p
nfs.nfs_get_error.argtypes = [ctypes.c_void_p]
nfs.nfs_parse_url_dir.restype = ctypes.POINTER(
    ctypes.c_char_p
)  # struct nfs_url: server, path, file
nfs.nfs_parse_url_dir.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
nfs.nfs_mount.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
nfs.nfs_open2.argtypes = [
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_void_p,
]
nfs.nfs_pwrite.argtypes = [
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_uint64,
    ctypes.c_uint64,
    ctypes.c_char_p,
]
nfs.nfs_close.argtypes = [ctypes.c_void_p, ctypes.c_void_p]

context = nfs.nfs_init_context()


def check(outcome: int) -> None:
    if outcome < 0:
        sys.exit(f"{os.strerror(-outcome)}: {nfs.nfs_get_error(context)}")


parts = nfs.nfs_parse_url_dir(context, url.encode())
check(nfs.nfs_mount(context, parts[0], parts[1]))
file = ctypes.c_void_p()
flags = os.O_WRONLY | os.O_CREAT | os.O_SYNC
check(nfs.nfs_open2(context, name.encode(), flags, 0o644, ctypes.byref(file)))
for piece in range(pieces):
    data = bytes([ord("a") + piece]) * PIECE_BYTES
    check(nfs.nfs_pwrite(context, file, piece * PIECE_BYTES, len(data), data))
    print(piece, flush=True)
    sys.stdin.readline()
check(nfs.nfs_close(context, file))
