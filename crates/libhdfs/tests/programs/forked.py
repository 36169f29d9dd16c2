"""forked.py LIBRARY NAME PORT [ROUNDS [CHILDREN]]: children of one process read at once.

The parent connects, opens files by libhdfs and by pyarrow, and reads on in threads of its own.
Each round it forks children at once. They read through the parent's handles, and through handles of
their own, and compare every byte. The parent's open writer fails there with EBADF.
"""

import ctypes
import errno
import os
import random
import sys
import threading
import time

import pyarrow.fs

LENGTH = 3_000_000
CHILD_SECONDS = 60


def content(seed: int) -> bytes:
    return random.Random(seed).randbytes(LENGTH)


class Hdfs:
    """The functions of hdfs.h that this test calls."""

    def __init__(self, library: str):
        self.c = ctypes.CDLL(library, use_errno=True)
        handle, path, offset = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
        number = ctypes.c_int32
        for name, answer, *arguments in [
            ("hdfsConnect", handle, path, ctypes.c_uint16),
            ("hdfsDisconnect", number, handle),
            ("hdfsOpenFile", handle, handle, path, number, number, ctypes.c_int16, number),
            ("hdfsCloseFile", number, handle, handle),
            ("hdfsWrite", number, handle, handle, path, number),
            ("hdfsHFlush", number, handle, handle),
            ("hdfsRead", number, handle, handle, handle, number),
            ("hdfsPread", number, handle, handle, offset, handle, number),
            ("hdfsSeek", number, handle, handle, offset),
            ("hdfsTell", offset, handle, handle),
            ("hdfsDelete", number, handle, path, number),
            ("hdfsGetLastExceptionRootCause", path),
        ]:
            function = getattr(self.c, name)
            function.restype, function.argtypes = answer, arguments

    def __getattr__(self, name: str):
        function = getattr(self.c, name)

        def call(*arguments):
            answer = function(*arguments)
            if answer is None or answer == -1:
                code = ctypes.get_errno()
                raise OSError(code, f"{name}: {self.c.hdfsGetLastExceptionRootCause()}")
            return answer

        return call

    def read_all(self, fs, file, length: int) -> bytes:
        buffer = ctypes.create_string_buffer(length)
        count = self.hdfsRead(fs, file, buffer, length)
        return buffer.raw[:count]

    def pread(self, fs, file, at: int, length: int) -> bytes:
        buffer = ctypes.create_string_buffer(length)
        count = self.hdfsPread(fs, file, at, buffer, length)
        return buffer.raw[:count]


class Parent:
    def __init__(self, library: str, name: str, port: int):
        self.hdfs, self.name, self.port = Hdfs(library), name, port
        self.base = f"/forked-{os.getpid()}"
        self.wanted = {seed: content(seed) for seed in range(3)}
        self.fs = self.hdfs.hdfsConnect(name.encode(), port)
        self.arrow = pyarrow.fs.HadoopFileSystem(name, port, replication=1)
        for seed, wanted in self.wanted.items():
            with self.arrow.open_output_stream(self.path(seed)) as out:
                out.write(wanted)
        self.files = {seed: self.open(self.fs, seed) for seed in self.wanted}
        self.arrows = {seed: self.arrow.open_input_file(self.path(seed)) for seed in self.wanted}
        self.writer = self.hdfs.hdfsOpenFile(
            self.fs, f"{self.base}-writer".encode(), os.O_WRONLY, 0, 1, 0
        )
        self.written = b""
        self.write(b"of the parent ")

    def path(self, seed: int) -> str:
        return f"{self.base}-{seed}"

    def open(self, fs, seed: int):
        return self.hdfs.hdfsOpenFile(fs, self.path(seed).encode(), os.O_RDONLY, 0, 0, 0)

    def write(self, text: bytes) -> None:
        self.hdfs.hdfsWrite(self.fs, self.writer, text, len(text))
        self.hdfs.hdfsHFlush(self.fs, self.writer)
        self.written += text

    def read_some(self, rng: random.Random, fs=None, arrow=None) -> None:
        """By the given connections, or the parent's handles."""
        seed = rng.choice(list(self.wanted))
        wanted = self.wanted[seed]
        at, length = rng.randrange(LENGTH), rng.randrange(1, 400_000)
        file = self.open(fs, seed) if fs else self.files[seed]
        here = arrow.open_input_file(self.path(seed)) if arrow else self.arrows[seed]
        assert self.hdfs.pread(fs or self.fs, file, at, length) == wanted[at : at + length]
        assert here.read_at(length, at) == wanted[at : at + length]
        if fs:
            assert self.hdfs.read_all(fs, file, LENGTH + 1) == wanted
            self.hdfs.hdfsCloseFile(fs, file)
        if arrow:
            assert here.read() == wanted
            here.close()

    def in_child(self, seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(2):
            self.read_some(rng)
        # The parent's handle, from the parent's position on.
        file, at = self.files[0], self.hdfs.hdfsTell(self.fs, self.files[0])
        assert self.hdfs.read_all(self.fs, file, LENGTH) == self.wanted[0][at:]
        for call in [
            lambda: self.hdfs.hdfsWrite(self.fs, self.writer, b"x", 1),
            lambda: self.hdfs.hdfsHFlush(self.fs, self.writer),
            lambda: self.hdfs.hdfsCloseFile(self.fs, self.writer),
        ]:
            code = 0
            try:
                call()
            except OSError as error:
                code = error.errno
            assert code == errno.EBADF
        fs = self.hdfs.hdfsConnect(self.name.encode(), self.port)
        arrow = pyarrow.fs.HadoopFileSystem(self.name, self.port, replication=1)
        self.read_some(rng, fs, arrow)
        self.hdfs.hdfsDisconnect(fs)

    def fork(self, seed: int) -> int:
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            self.in_child(seed)
            code = 0
        except BaseException as error:
            sys.stderr.write(f"child {seed}: {error!r}\n")
        # Some end at once; others run destructors of the parent's handles.
        if seed % 2:
            os._exit(code)
        self.arrows.clear()
        self.arrow = None
        os._exit(code)

    def round(self, number: int, children: int) -> None:
        begun = time.monotonic()
        left = {self.fork(number * children + index) for index in range(children)}
        failed = 0
        while left and time.monotonic() - begun < CHILD_SECONDS:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child:
                left.discard(child)
                failed += status != 0
            else:
                time.sleep(0.01)
        for child in left:
            os.kill(child, 9)
            os.waitpid(child, 0)
        assert (len(left), failed) == (0, 0), "children hang, or failed"
        self.write(b"and on ")

    def close(self) -> None:
        self.hdfs.hdfsCloseFile(self.fs, self.writer)
        with self.arrow.open_input_file(f"{self.base}-writer") as written:
            assert written.read() == self.written
        for seed, file in self.files.items():
            self.hdfs.hdfsCloseFile(self.fs, file)
            self.hdfs.hdfsDelete(self.fs, self.path(seed).encode(), 0)
        self.hdfs.hdfsDelete(self.fs, f"{self.base}-writer".encode(), 0)
        self.hdfs.hdfsDisconnect(self.fs)


def main() -> None:
    library, name, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rounds, children = [int(text) for text in sys.argv[4:]] + [10, 64][len(sys.argv) - 4 :]
    parent, over = Parent(library, name, port), threading.Event()

    def busy(seed: int) -> None:
        rng = random.Random(seed)
        while not over.is_set():
            parent.read_some(rng)

    threads = [threading.Thread(target=busy, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(rounds):
            parent.round(number, children)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    parent.close()
    print(f"{rounds} rounds of {children} children: every byte is right")


if __name__ == "__main__":
    main()
