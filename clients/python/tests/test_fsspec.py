"""fsspec's own suite, and what programs above fsspec do."""

import multiprocessing
import pickle
import threading
from pathlib import PurePosixPath

import fsspec
import gateways
import pandas
import pytest
from fsspec.tests import abstract
from pyarrow import dataset

import strait
from strait.fsspec import StraitFileSystem


@pytest.fixture(scope="module", params=gateways.stores())
def place(request):
    gateways.require()
    with gateways.gateway(request.param) as gateway:
        yield gateway


@pytest.fixture
def options(place):
    host, _, port = place.address.rpartition(":")
    return {"host": host, "port": int(port)}


@pytest.fixture
def base(place):
    """A URI, below which there is nothing."""
    return f"strait://{place.address}{place.root}/of-a-test"


@pytest.fixture
def fs(options, place):
    fs = StraitFileSystem(**options)
    yield fs
    if fs.exists(place.root):
        fs.rm(place.root, recursive=True)


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, place):
        host, _, port = place.address.rpartition(":")
        return StraitFileSystem(host, int(port))

    @pytest.fixture
    def fs_path(self, place):
        return place.root


# The names that fsspec gives them.
class TestCopy(abstract.AbstractCopyTests, Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    pass


# -- URIs


@pytest.mark.parametrize(
    ("uri", "path", "where"),
    [
        ("strait://gw", "/", {"host": "gw", "port": 9090}),
        ("strait://gw:1/a//b/", "/a/b", {"host": "gw", "port": 1}),
        ("strait://gw/@lab/a", "/a", {"host": "gw", "port": 9090, "store": "lab"}),
        ("strait://gw/@@lab/a", "/@lab/a", {"host": "gw", "port": 9090}),
        ("strait://gw/a*/b?", "/a*/b?", {"host": "gw", "port": 9090}),
    ],
)
def test_a_uri_names_gateway_store_and_path(uri, path, where):
    fs, found = fsspec.core.url_to_fs(uri)
    assert found == path
    assert fs.storage_options == where
    again, same = fsspec.core.url_to_fs(fs.unstrip_protocol(path))
    assert (again, same) == (fs, path)


def test_no_connection_is_made_before_the_first_request():
    fs = StraitFileSystem("127.0.0.1", gateways.free_port())
    with pytest.raises(strait.Unavailable):
        fs.ls("/")


def test_a_misspelled_option_is_an_error():
    with pytest.raises(TypeError, match="no option pasword"):
        fsspec.filesystem("strait", host="gateway", pasword="secret")


def test_a_uri_of_another_store_isnt_taken_for_a_path_of_this_one(fs, place):
    fs.pipe_file(f"{place.root}/x", b"")
    elsewhere = f"strait://{place.address}/@lab{place.root}/x"
    for remove in (fs.rm, fs.rm_file, lambda uri: fs.rm([uri], recursive=True)):
        with pytest.raises(strait.InvalidArgument, match="store is the gateway's default"):
            remove(elsewhere)
    assert fs.exists(f"strait://{place.address}{place.root}/x")


def test_the_port_may_be_text(place):
    host, _, port = place.address.rpartition(":")
    fs = fsspec.filesystem("strait", host=host, port=port)
    assert fs.isdir(f"strait://{place.address}/")


def test_a_uri_of_another_gateway_isnt_taken_for_a_path_of_this_one(fs, place):
    fs.pipe_file(f"{place.root}/x", b"")
    host, _, port = place.address.rpartition(":")
    for elsewhere in (f"{host}:{int(port) - 1}", f"another.example:{port}", "another.example"):
        for remove in (fs.cat, fs.rm, lambda uri: fs.rm([uri], recursive=True)):
            with pytest.raises(strait.InvalidArgument, match=f"gateway is {place.address}, not"):
                remove(f"strait://{elsewhere}{place.root}/x")
    assert fs.exists(f"strait://{place.address}{place.root}/x")


def test_a_uri_without_a_host_is_a_path_of_the_instance(fs, options, place):
    for name in ("x", "@lab"):
        fs.pipe_file(f"{place.root}/{name}", name.encode())
        # As programs do it that put the scheme before a path.
        assert fs.cat_file(f"strait://{place.root}/{name}") == name.encode()
        with fsspec.open(f"strait://{place.root}/{name}", "rb", **options) as file:
            assert file.read() == name.encode()
    assert fs._strip_protocol("strait:///@lab/x") == "/@lab/x"


@pytest.mark.parametrize("uri", ["strait:///x", "strait://"])
def test_without_a_host_the_error_says_how_to_name_one(uri):
    with pytest.raises(strait.InvalidArgument, match="HOST:PORT"):
        fsspec.core.url_to_fs(uri)
    with pytest.raises(strait.InvalidArgument, match="the options host and port"):
        fsspec.filesystem("strait")


def test_the_store_of_a_uri_is_the_store_that_is_read(tmp_path):
    gateways.require_command()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "name").write_text(name)
    stores = [f"{name}={(tmp_path / name).as_uri()}" for name in ("one", "two")]
    with gateways.started(*stores) as address:
        for name in ("one", "two"):
            with fsspec.open(f"strait://{address}/@{name}/name", "r") as file:
                assert file.read() == name


# -- Files


def test_a_file_to_write_takes_the_options_of_fsspecs_own_files(fs, place):
    path = f"{place.root}/options"
    with fs.open(path, "wb", block_size=4096, cache_type="none", cache_options={}, size=3) as file:
        file.write(b"abc")
    assert fs.cat_file(path) == b"abc"
    with pytest.raises(TypeError):
        fs.open(path, "wb", contents="text")


def test_ranges_count_from_the_end_too(fs, place):
    path = f"{place.root}/digits"
    fs.pipe_file(path, b"0123456789")
    assert fs.cat_file(path, 2, 4) == b"23"
    assert fs.cat_file(path, -3) == b"789"
    assert fs.cat_file(path, None, -8) == b"01"
    assert fs.cat_file(path, 8, 99) == b"89"
    assert fs.cat_ranges([path] * 3, [0, 5, 20], [1, 7, 30]) == [b"0", b"56", b""]
    missing, present = fs.cat_ranges([f"{path}-not", path], 0, 1)
    assert isinstance(missing, FileNotFoundError)
    assert present == b"0"
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([f"{path}-not", path], 0, 1, on_error="raise")


def test_ranges_of_many_files_need_few_handles_at_once(fs, place, monkeypatch):
    monkeypatch.setattr("strait.fsspec.OPEN_FILES", 3)
    paths = [f"{place.root}/{number}" for number in range(10)]
    for number, path in enumerate(paths):
        fs.pipe_file(path, b"%d" % number)
    opened, most = [], 0
    raw = StraitFileSystem._raw

    def counting(self, path):
        nonlocal most
        opened.append(raw(self, path))
        most = max(most, sum(not file.closed for file in opened))
        return opened[-1]

    monkeypatch.setattr(StraitFileSystem, "_raw", counting)
    expected = [b"%d" % number for number in range(10) for _ in range(2)]
    assert fs.cat_ranges([path for path in paths for _ in range(2)], 0, 1) == expected
    assert (len(opened), most) == (10, 3)


def test_rm_takes_paths_beneath_others(fs, place):
    for name in ("d/e/f", "d-e/f"):
        fs.pipe_file(f"{place.root}/{name}", b"")
    fs.rm([f"{place.root}/d", f"{place.root}/d/e"], recursive=True)
    assert fs.find(place.root) == [f"{place.root}/d-e/f"]
    fs.rm(f"{place.root}/**", recursive=True)
    assert not fs.exists(place.root)


def test_a_transaction_shows_files_at_its_end_only(fs, place):
    kept, dropped = f"{place.root}/kept", f"{place.root}/dropped"
    with fs.transaction:
        with fs.open(kept, "wb") as file:
            file.write(b"all of it")
        assert not fs.exists(kept)
    assert fs.cat(kept) == b"all of it"

    def fail():
        with fs.transaction, fs.open(dropped, "wb") as file:
            file.write(b"a part")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert fs.ls(place.root, detail=False) == [kept]


def test_a_transaction_shows_whole_files_at_its_end_too(fs, place, tmp_path):
    (tmp_path / "local").write_bytes(b"put")
    there = f"{place.root}/there"
    fs.pipe_file(there, b"there")
    expected = {"piped": b"piped", "put": b"put", "d/local": b"put", "copied": b"there"}
    expected["touched"] = b""
    fs.mkdir(f"{place.root}/d")

    def write():
        fs.pipe_file(f"{place.root}/piped", b"piped")
        fs.put_file(tmp_path / "local", f"{place.root}/put")
        fs.put_file(tmp_path / "local", f"{place.root}/d")
        fs.cp_file(there, f"{place.root}/copied")
        fs.touch(f"{place.root}/touched")
        fs.pipe_file(there, b"new")
        assert not any(fs.exists(f"{place.root}/{name}") for name in expected)
        assert fs.cat(there) == b"there"

    def fail():
        with fs.transaction:
            write()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert fs.find(place.root) == [there]
    with fs.transaction:
        write()
    files = {name.removeprefix(f"{place.root}/"): fs.cat(name) for name in fs.find(place.root)}
    assert files == expected | {"there": b"new"}


def test_a_whole_file_that_fails_in_a_transaction_leaves_nothing(fs, place):
    there = f"{place.root}/there"
    fs.pipe_file(there, b"there")
    with fs.transaction:
        with pytest.raises(FileExistsError):
            fs.pipe_file(there, b"new", mode="create")
        with pytest.raises(IsADirectoryError):
            fs.pipe_file(place.root, b"")
        with pytest.raises(TypeError):
            fs.pipe_file(there, "no bytes")
    assert fs.find(place.root) == [there]
    assert fs.cat(there) == b"there"


def test_a_transaction_that_creates_a_file_leaves_that_of_another(fs, place):
    there = f"{place.root}/there"

    def create():
        with fs.transaction:
            fs.pipe_file(there, b"ours", mode="create")
            with fs.client.open(there, "xb") as file:
                file.write(b"theirs")

    with pytest.raises(FileExistsError):
        create()
    assert fs.find(place.root) == [there]
    assert fs.cat(there) == b"theirs"


def test_a_transaction_refuses_an_mv_that_copies_and_removes(fs, place):
    names = [f"{place.root}/a1", f"{place.root}/a2"]
    for name in names:
        fs.pipe_file(name, b"1")
    fs.mkdir(f"{place.root}/d")
    with fs.transaction, pytest.raises(ValueError, match="transaction"):
        fs.mv(f"{place.root}/a*", f"{place.root}/d")
    assert fs.find(place.root) == names


def test_mv_renames_and_goes_into_directories(fs, place):
    fs.pipe_file(f"{place.root}/a", b"1")
    fs.mkdir(f"{place.root}/d")
    fs.mv(f"{place.root}/a", f"{place.root}/b")
    fs.mv(PurePosixPath(f"{place.root}/b"), PurePosixPath(f"{place.root}/d"))
    assert fs.find(place.root) == [f"{place.root}/d/b"]


def test_text_appends_and_tells_its_size(fs, place):
    path = f"{place.root}/text"
    for word in ("grün", "blau"):
        with fs.open(path, "a", encoding="utf-8") as file:
            file.write(word)
    with fs.open(path) as file:
        assert file.size == 9
        file.seek(5)
        assert file.read() == b"blau"


# -- Processes and threads


def test_a_pickled_file_system_works_elsewhere(fs, place):
    fs.pipe_file(f"{place.root}/x", b"there")
    copy = pickle.loads(pickle.dumps(fs))
    assert copy == fs
    assert copy.cat(f"{place.root}/x") == b"there"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(fs.cat, (f"{place.root}/x",)) == b"there"


def test_a_forked_child_reads_with_connections_of_its_own(fs, place):
    paths = [f"{place.root}/{number}" for number in range(8)]
    for path in paths:
        fs.pipe_file(path, path.encode() * 1000)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(fs.cat, paths) == [path.encode() * 1000 for path in paths]
    assert fs.cat(paths) == {path: path.encode() * 1000 for path in paths}


def test_instances_of_many_threads_share_one_client(options, fs):
    clients = []

    def look():
        clients.append(StraitFileSystem(**options).client)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {id(client) for client in clients} == {id(fs.client)}


def test_it_serves_an_event_loop_through_fsspecs_wrapper(fs, place):
    from fsspec.asyn import sync
    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

    fs.pipe_file(f"{place.root}/x", b"there")
    wrapped = AsyncFileSystemWrapper(fs)
    assert sync(wrapped.loop, wrapped._cat_file, f"{place.root}/x") == b"there"


# -- Programs above


def test_pandas_and_pyarrow_read_and_write(base, fs):
    frame = pandas.DataFrame({"site": ["a", "b", "a"], "n": [1, 2, 3]})
    frame.to_csv(f"{base}/frame.csv", index=False)
    assert pandas.read_csv(f"{base}/frame.csv").equals(frame)
    frame.to_parquet(f"{base}/data/frame.parquet")
    assert pandas.read_parquet(f"{base}/data/frame.parquet").n.sum() == 6
    path = fs._strip_protocol(f"{base}/data")
    table = dataset.dataset(path, filesystem=fs).to_table(filter=dataset.field("site") == "a")
    assert table["n"].to_pylist() == [1, 3]
