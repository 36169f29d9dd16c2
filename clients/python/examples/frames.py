"""One table in a store, written and read by pandas, pyarrow, polars, DuckDB and dask.

python frames.py strait://127.0.0.1:9090/frames
"""

import sys

import dask.dataframe
import duckdb
import fsspec
import pandas
import polars
import pyarrow.dataset

# With the extra `fsspec` of strait-fs, none of these lines needs `import strait`.
base = sys.argv[1].rstrip("/")
fs, directory = fsspec.url_to_fs(base)
fs.makedirs(directory, exist_ok=True)

pandas.DataFrame({"site": [1, 2, 3] * 1000, "n": range(3000)}).to_parquet(f"{base}/a.parquet")
print("pandas", pandas.read_parquet(f"{base}/a.parquet").n.sum())

with fsspec.open(f"{base}/b.parquet", "wb") as file:
    polars.DataFrame({"site": [4] * 1000, "n": range(1000)}).write_parquet(file)
with fsspec.open(f"{base}/b.parquet", "rb") as file:
    print("polars", polars.read_parquet(file)["n"].sum())

dataset = pyarrow.dataset.dataset(directory, filesystem=fs, format="parquet")
print("pyarrow", dataset.to_table(filter=pyarrow.dataset.field("site") >= 3).num_rows)
print("polars, lazily", polars.scan_pyarrow_dataset(dataset).select("n").sum().collect().item())

duckdb.register_filesystem(fs)
print("duckdb", duckdb.sql(f"SELECT sum(n) FROM '{base}/*.parquet'").fetchall()[0][0])

frame = dask.dataframe.read_parquet(f"{base}/*.parquet")
print("dask", frame.groupby("site").n.sum().compute()[4])
frame.repartition(npartitions=2).to_csv(f"{base}/csv/part-*.csv", index=False)
print("dask, csv", dask.dataframe.read_csv(f"{base}/csv/part-*.csv").n.sum().compute())

fs.rm(directory, recursive=True)
