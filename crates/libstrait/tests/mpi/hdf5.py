"""hdf5.py write|read NAME: parallel HDF5 of any number of ranks, by h5py on mpi4py.

All ranks write one file: their rows of a contiguous dataset by collective calls, their columns of a
chunked one by independent calls, and attributes. Any number of ranks read it back and compare.
"""

import sys

import h5py
import numpy
from mpi4py import MPI

ROWS, COLUMNS = 64, 48


def expected():
    return numpy.arange(ROWS * COLUMNS, dtype="i8").reshape(ROWS, COLUMNS) * 7919


def write(file, rank, size):
    rows = file.create_dataset("rows", (ROWS, COLUMNS), dtype="i8")
    columns = file.create_dataset(
        "columns", (ROWS, COLUMNS), dtype="i8", chunks=(16, 12)
    )
    whole = expected()
    with rows.collective:
        rows[rank::size, :] = whole[rank::size, :]
    begin, end = COLUMNS * rank // size, COLUMNS * (rank + 1) // size
    columns[:, begin:end] = whole[:, begin:end]
    # Metadata that one rank overwrites after another.
    for turn in range(5):
        file.attrs["turn"] = turn
        file.create_group(f"group{turn}").attrs["text"] = "x" * 100 * (turn + 1)
        file.flush()


def read(file, rank, size):
    whole = expected()
    with file["rows"].collective:
        assert (file["rows"][rank::size, :] == whole[rank::size, :]).all(), (
            f"rows of rank {rank}"
        )
    begin, end = COLUMNS * rank // size, COLUMNS * (rank + 1) // size
    assert (file["columns"][:, begin:end] == whole[:, begin:end]).all(), (
        f"columns of rank {rank}"
    )
    assert file.attrs["turn"] == 4
    assert [len(file[f"group{turn}"].attrs["text"]) for turn in range(5)] == [
        100,
        200,
        300,
        400,
        500,
    ]


def main():
    command, name = sys.argv[1:]
    world = MPI.COMM_WORLD
    mode = {"write": "w", "read": "r"}[command]
    with h5py.File(name, mode, driver="mpio", comm=world) as file:
        {"write": write, "read": read}[command](file, world.rank, world.size)
    world.Barrier()
    if world.rank == 0:
        print(f"hdf5: {command} by {world.size} ranks: ok")


main()
