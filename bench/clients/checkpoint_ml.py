"""A rank of a model's checkpoint, which follows orders on standard input.

    checkpoint_ml.py RANK RANKS MB URI DIRECTORY

URI names a directory of the store, DIRECTORY its mount.
"""

import sys
from pathlib import Path

import numpy
from safetensors.numpy import load_file, save_file
from strait import checkpoint

TENSORS = 8
COLUMNS = 1_024


class Rank:
    def __init__(
        self, rank: int, ranks: int, mb: int, uri: str, directory: Path
    ) -> None:
        self.rank, self.ranks = rank, ranks
        self.uri, self.directory = uri, directory
        self.rows = max(1, mb * 1_000_000 // TENSORS // COLUMNS // 4)
        self.tensors = {
            name: numpy.full((self.rows, COLUMNS), rank, "<f4")
            for name in self.names(rank)
        }
        spec = ("F32", (self.rows, COLUMNS))
        self.layout = checkpoint.Layout.of(
            [dict.fromkeys(self.names(it), spec) for it in range(ranks)]
        )

    @staticmethod
    def names(rank: int) -> list[str]:
        return [f"layer.{rank}.{number}" for number in range(TENSORS)]

    def shard(self, rank: int) -> Path:
        return self.directory / f"shard-{rank}.safetensors"

    def write_one(self) -> None:
        checkpoint.write(f"{self.uri}/ckpt", self.layout, self.rank, self.tensors)

    def finalize(self) -> None:
        checkpoint.finalize(f"{self.uri}/ckpt", f"{self.uri}/model.safetensors")

    def write_shard(self) -> None:
        save_file(self.tensors, self.shard(self.rank))

    def consolidate(self) -> None:
        """As people do it with the plain library: all shards in memory, then one file."""
        whole = {}
        for rank in range(self.ranks):
            whole.update(load_file(self.shard(rank)))
        save_file(whole, self.directory / "consolidated.safetensors")

    def check(self) -> None:
        """The plain library reads the finished file by the mount."""
        model = load_file(self.directory / "model.safetensors")
        for rank in range(self.ranks):
            for name in self.names(rank):
                assert model[name].shape == (self.rows, COLUMNS), name
                assert (model[name] == rank).all(), name

    def remove(self) -> None:
        (self.directory / "model.safetensors").unlink()
        for rank in range(self.ranks):
            self.shard(rank).unlink()
        (self.directory / "consolidated.safetensors").unlink()


def main() -> None:
    rank, ranks, mb, uri, directory = sys.argv[1:]
    me = Rank(int(rank), int(ranks), int(mb), uri, Path(directory))
    orders = {
        "write one": me.write_one,
        "finalize": me.finalize,
        "write shard": me.write_shard,
        "consolidate": me.consolidate,
        "check": me.check,
        "remove": me.remove,
    }
    print("done", flush=True)
    for line in sys.stdin:
        orders[line.strip()]()
        print("done", flush=True)


if __name__ == "__main__":
    main()
