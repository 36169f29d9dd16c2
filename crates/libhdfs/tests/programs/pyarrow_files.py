"""pyarrow_files.py NAME PORT: pyarrow uses files, Parquet and data sets on HDFS, as it believes."""

import os
import sys

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector, FileType

ROWS = 100_000


def fails(kind: type[Exception], call, *arguments) -> None:
    try:
        call(*arguments)
    except kind:
        return
    raise AssertionError(f"{call} didn't fail")


def files(fs: pyarrow.fs.FileSystem, base: str) -> None:
    text = b"hello " * 100_000
    path = f"{base}/a/x"
    fs.create_dir(f"{base}/a/b")
    with fs.open_output_stream(path) as out:
        out.write(text)
        out.flush()
    info = fs.get_file_info(path)
    assert (info.type, info.size, info.path) == (FileType.File, len(text), path), info
    assert fs.get_file_info(f"{base}/none").type == FileType.NotFound
    found = {info.path: info.type for info in fs.get_file_info(FileSelector(base, recursive=True))}
    assert found == {
        f"{base}/a": FileType.Directory,
        f"{base}/a/b": FileType.Directory,
        path: FileType.File,
    }, found
    with fs.open_input_file(path) as file:
        assert file.size() == len(text)
        assert file.read_at(5, 300_000) == text[300_000:300_005]
        file.seek(10)
        assert (file.read(5), file.tell()) == (text[10:15], 15)
    with fs.open_input_stream(path) as stream:
        assert stream.read() == text
    with fs.open_append_stream(path) as out:
        out.write(b"!")
    assert fs.get_file_info(path).size == len(text) + 1
    fs.move(path, f"{base}/a/y")
    fs.copy_file(f"{base}/a/y", f"{base}/a/z")
    with fs.open_input_stream(f"{base}/a/z") as stream:
        assert stream.read() == text + b"!"
    fails(FileNotFoundError, fs.open_input_file, f"{base}/none")
    fails(FileNotFoundError, fs.delete_file, f"{base}/none")


def tables(fs: pyarrow.fs.FileSystem, base: str) -> None:
    table = pa.table({"n": list(range(ROWS)), "text": [str(n) for n in range(ROWS)]})
    pq.write_table(table, f"{base}/t.parquet", filesystem=fs)
    assert pq.read_table(f"{base}/t.parquet", filesystem=fs) == table
    limits = {"max_rows_per_file": ROWS // 5, "max_rows_per_group": ROWS // 5}
    ds.write_dataset(table, f"{base}/ds", format="parquet", filesystem=fs, **limits)
    dataset = ds.dataset(f"{base}/ds", filesystem=fs, format="parquet")
    assert (len(dataset.files), dataset.count_rows()) == (5, ROWS)
    last = dataset.to_table(filter=ds.field("n") >= ROWS - 3)["text"].to_pylist()
    assert sorted(last) == [str(n) for n in range(ROWS - 3, ROWS)]


def main() -> None:
    fs = pyarrow.fs.HadoopFileSystem(sys.argv[1], int(sys.argv[2]), replication=1)
    base = f"/pyarrow-{os.getpid()}"
    files(fs, base)
    tables(fs, base)
    fs.delete_dir(base)
    assert fs.get_file_info(base).type == FileType.NotFound
    print("pyarrow: files, Parquet and a data set are right")


if __name__ == "__main__":
    main()
