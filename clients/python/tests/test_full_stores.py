"""A store without room: open files go on once there is room again, in each layer of `io`."""

import gc
import random
import time

import gateways
import pytest
import waits
from fake_gateway import failure

import strait
from strait import _session
from strait._gen.ttypes import ErrorCode

MIB = 1 << 20
DATA = random.Random(3).randbytes(3 * MIB + 777)


@pytest.fixture
def raw(client):
    return client.open("/x", "wb", buffering=0)


@pytest.fixture
def fill_and_relieve(fake):
    """Fills the store; each call of the returned function leaves it full for this many refusals."""

    def full_for(refusals):
        fake.full, left = True, iter(range(refusals - 1, -1, -1))

        def refused():
            fake.full = next(left) > 0

        fake.refused_by_store = refused

    return full_for


def written(file, data, piece=100_000):
    """Writes all of it, however often the file refuses. Returns how often it did."""
    refusals, at = 0, 0
    while at < len(data):
        try:
            at += file.write(data[at : at + piece])
        except strait.NoSpace:
            refusals += 1
    return refusals


def closed(file):
    """Closes it, however often that fails. Returns how often it did."""
    refusals = 0
    while not file.closed:
        try:
            file.close()
        except strait.NoSpace:
            refusals += 1
    return refusals


def await_calls(fake, method, count):
    waits.eventually(f"{count} calls of {method}", lambda: fake.calls[method] >= count)


def await_abandoned(fake, count):
    waits.eventually(f"{count} abandoned files", lambda: fake.abandoned >= count)


@pytest.mark.parametrize("step", ["flush", "sync", "close"])
def test_each_step_may_be_repeated_and_nothing_is_lost_or_doubled(fake, raw, step):
    raw.write(b"before, ")
    raw.sync()
    fake.full = True
    # The gateway refuses the first, and with it the others.
    for piece in (b"one, ", b"two, ", b"three, "):
        raw.write(piece)
    for _ in range(2):
        with pytest.raises(strait.NoSpace) as caught:
            getattr(raw, step)()
        assert caught.value.filename == "/x" and not raw.closed and raw.goes_on
    fake.full = False
    getattr(raw, step)()
    if step != "close":
        raw.write(b"after")
    raw.close()
    assert bytes(fake.files["/x"]).removesuffix(b"after") == b"before, one, two, three, "


def test_a_refused_write_took_nothing_of_its_argument(fake, raw):
    fake.full = True
    taken = 0
    with pytest.raises(strait.NoSpace):  # noqa: PT012
        for _ in range(100):
            taken += raw.write(b"taken;")
    assert raw.tell() == taken
    with pytest.raises(strait.NoSpace):
        raw.write(b"not;")
    fake.full = False
    assert raw.write(b"last") == 4
    raw.close()
    assert fake.files["/x"] == b"taken;" * (taken // 6) + b"last"


@pytest.mark.parametrize("refusals", [1, 2, 5])
def test_buffered_bytes_arrive_once_however_often_the_store_refuses(
    fake, client, fill_and_relieve, refusals
):
    with client.open("/x", "wb", buffering=4096) as file:
        fill_and_relieve(refusals)
        refused = written(file, DATA, 10_000)
    assert refused > 0
    assert fake.files["/x"] == DATA


def test_a_refused_write_of_more_than_the_buffer_tells_how_much_it_took(fake, client):
    file = client.open("/x", "wb", buffering=4096)
    fake.full = True
    with pytest.raises(strait.NoSpace):
        file.write(DATA * 10)  # more than may be on its way
    taken = file.tell()
    assert 0 < taken < 10 * len(DATA)
    fake.full = False
    file.write((DATA * 10)[taken:])
    file.close()
    assert fake.files["/x"] == DATA * 10


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_text_arrives_once_however_often_the_store_refuses(fake, client, encoding):
    text = "".join(f"line {number}\n" for number in range(20_000))
    file = client.open("/x", "w", buffering=1000, encoding=encoding)
    fake.full = True
    refusals = 0
    for line in text.splitlines(keepends=True):
        while True:
            try:
                file.write(line)
                break
            except strait.NoSpace:
                refusals += 1
                fake.full = refusals % 3 == 0
    file.write("end\n")
    text += "end\n"
    fake.full = True
    with pytest.raises(strait.NoSpace):
        file.close()
    fake.full = False
    assert closed(file) == 0
    assert fake.files["/x"].decode(encoding) == text
    assert refusals > 0


def test_a_block_that_fails_to_close_its_file_leaves_it_to_be_closed_again(fake, client):
    for mode in ("wb", "w"):
        fake.full = False
        with pytest.raises(strait.NoSpace), client.open("/x", mode) as file:  # noqa: PT012
            file.write(b"data" if mode == "wb" else "data")
            fake.full = True
        assert not file.closed
        fake.full = False
        file.close()
        assert file.closed and file.replicas == 2
        assert fake.files["/x"] == b"data"


@pytest.mark.parametrize("mode", ["raw", "wb", "w"])
def test_a_file_that_is_dropped_after_a_refusal_is_given_up_at_once(fake, client, mode):
    file = client.open("/x", "wb", 0) if mode == "raw" else client.open("/x", mode)
    file.write("data" if mode == "w" else b"data")
    fake.full = True
    with pytest.raises(strait.NoSpace):
        file.close()
    appends, closes = fake.calls["appendData"], fake.calls["closeFile"]
    fake.silent.add("closeFile")  # as of a store that is stuck
    began = time.monotonic()
    del file
    gc.collect()
    assert time.monotonic() - began < 5
    fake.full = False
    fake.resume()
    await_calls(fake, "closeFile", closes + 1)
    assert fake.calls["appendData"] == appends, "it doesn't try once more"
    await_abandoned(fake, 1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("mode", ["raw", "wb", "w"])
def test_a_file_that_is_dropped_without_a_close_is_closed_or_given_up(fake, client, mode):
    for full in (False, True):
        file = client.open("/x", "wb", 0) if mode == "raw" else client.open("/x", mode)
        fake.full, closes = full, fake.calls["closeFile"]
        file.write("data" if mode == "w" else b"data")
        del file
        gc.collect()
        await_calls(fake, "closeFile", closes + 1)
        assert fake.files["/x"] == (b"" if full else b"data")


def test_a_store_that_cant_go_on_is_reported_by_its_first_error(fake, client):
    fake.goes_on = False
    for mode in ("wb", "w"):
        fake.full = False
        file = client.open("/x", mode)
        fake.full = True
        with pytest.raises(strait.NoSpace):
            file.close()
        assert not file.closed
        # The gateway doesn't know the handle any more.
        with pytest.raises(strait.NoSpace, match="the file ended with an earlier error") as caught:
            file.close()
        assert file.closed and not caught.value.retry_safe


def test_other_errors_after_a_refusal_end_the_file(fake, raw):
    fake.full = True
    raw.write(b"data")
    with pytest.raises(strait.NoSpace):
        raw.flush()
    fake.full = False
    fake.raises["appendData"] = failure(ErrorCode.CORRUPT, "Corrupt")
    for _ in range(2):
        with pytest.raises(strait.Corrupt):
            raw.flush()
    assert not raw.goes_on
    with pytest.raises(strait.Corrupt):
        raw.close()
    assert raw.closed


def test_a_gateway_that_forgot_a_refused_file_makes_its_outcome_unknown(fake, client, raw):
    fake.full = True
    raw.write(b"data")
    with pytest.raises(strait.NoSpace):
        raw.close()
    fake.restart()
    fake.full = False
    client.exists("/")
    with pytest.raises(strait.OutcomeUnknown):
        raw.close()
    assert raw.closed


def test_an_append_that_was_taken_though_it_was_refused_isnt_doubled(fake, raw):
    """Those behind it are then acknowledged."""
    fake.silent.add("appendData")
    for piece in (b"one, ", b"two, ", b"three"):
        raw.write(piece)
    fake.await_waiting("appendData", 1)
    fake.files["/x"] += b"one, "
    fake.raises["appendData"] = failure(ErrorCode.UNAVAILABLE, "Unavailable")
    fake.resume()
    with pytest.raises(strait.Unavailable):
        raw.flush()
    raw.close()
    assert fake.files["/x"] == b"one, two, three"
    assert fake.calls["appendData"] == 3


def test_the_last_append_that_was_taken_though_it_was_refused_isnt_doubled(fake, raw):
    raw.write(b"one")
    raw.flush()
    fake.silent.add("appendData")
    raw.write(b", two")
    fake.await_waiting("appendData", 1)
    fake.files["/x"] += b", two"
    fake.raises["appendData"] = failure(ErrorCode.UNAVAILABLE, "Unavailable")
    fake.resume()
    with pytest.raises(strait.Unavailable):
        raw.flush()
    raw.close()
    assert fake.files["/x"] == b"one, two"


@pytest.mark.parametrize("cut", ["cut_before", "cut_after"])
def test_a_connection_that_breaks_during_the_repetition_changes_nothing(fake, raw, cut):
    fake.full = True
    for piece in (b"one, ", b"two, ", b"three"):
        raw.write(piece)
    with pytest.raises(strait.NoSpace):
        raw.flush()
    fake.full = False
    getattr(fake, cut).append("appendData")
    raw.close()
    assert fake.files["/x"] == b"one, two, three"


def test_a_file_goes_on_when_its_gateway_is_reached_again(fake, raw, monkeypatch):
    monkeypatch.setattr(_session, "FIRST_PAUSE_S", 0.001)
    raw.write(b"one, ")
    raw.flush()
    with monkeypatch.context() as away:

        def refused(*_):
            raise _session.ConnectionLostError("refused", sent=False)

        away.setattr(_session, "connect", refused)
        fake.break_connections()
        raw.write(b"two, ")
        for step in (lambda: raw.write(b"three"), raw.sync, raw.close):
            with pytest.raises(strait.Unavailable):
                step()
            assert raw.goes_on
    raw.write(b"three")
    raw.close()
    assert fake.files["/x"] == b"one, two, three"


def test_flush_sync_and_close_tell_the_replicas(fake, client):
    for mode, data in (("wb", b"data"), ("w", "data")):
        file = client.open("/x", mode)
        assert file.replicas is None
        file.write(data)
        file.flush()
        assert file.replicas == 3
        assert file.sync() == 3
        file.close()
        assert file.replicas == 2


def test_text_that_isnt_written_through_any_more_is_stored_by_close(fake, client):
    with client.open("/x", "w") as file:
        file.reconfigure(write_through=False)
        file.write("text")
    assert fake.files["/x"] == b"text"


def test_a_file_that_is_given_up_is_free_at_a_real_gateway(real):
    for number in range(10):
        file = real.open(f"/{number}", "wb", buffering=0)
        file.write(b"data")
        file.flush()
        file._refusal = strait.NoSpace("as if it were full")
        file.give_up()
        waits.eventually("another writer", lambda name=f"/{number}": is_free(real, name))


def is_free(client, name):
    try:
        client.open(name, "ab").close()
    except strait.Busy:
        return False
    return True


def test_a_put_into_a_full_store_leaves_nothing_and_doesnt_wait(fake, client, tmp_path):
    (tmp_path / "local").write_bytes(DATA)
    fake.full = True
    with pytest.raises(strait.NoSpace) as caught:
        client.put(tmp_path / "local", "/x")
    assert caught.value.filename == "/x"
    assert fake.files == {}
    # Each reply, and no repetition.
    assert fake.calls["appendData"] == 4


def test_files_of_a_kadoop_whose_disks_are_full_go_on_once_there_is_room(tmp_path):
    data = random.Random(4).randbytes(12 * MIB)
    with (
        gateways.kadoop_on_a_small_disk(tmp_path) as (address, disk),
        strait.connect(address) as client,
    ):
        file = client.open("/x", "wb")
        file.write(b"before, ")
        assert file.sync() == 1
        disk.fill()
        file.write(data)
        with pytest.raises(strait.NoSpace):  # after 5 s without progress
            file.flush()
        assert file.tell() == 8 + len(data)
        disk.relieve()
        file.write(b", after")
        file.close()
        assert file.replicas == 1
        with client.open("/x", "rb") as reader:
            assert reader.read() == b"before, " + data + b", after"
