"""The client for event loops."""

import asyncio
import threading
import time

import gateways
import pytest
import waits

import strait
import strait.aio

# For this time a test looks for what mustn't happen.
LOOK_S = 0.05


def run(address, work):
    """`work` with a client of the gateway."""

    async def connected():
        async with strait.aio.connect(address) as client:
            return await work(client)

    return asyncio.run(connected())


def test_files_come_back(real):
    async def work(client):
        async with client.open("/d/text", "w") as file:
            assert await file.write("grün\nblau\n") == 10
        async with client.open("/d/text") as file:
            assert [line async for line in file] == ["grün\n", "blau\n"]
        async with client.open("/d/text", "ab") as file:
            await file.write(b"rot")
            await file.flush()
            assert await file.tell() == 14
        file = await client.open("/d/text", "rb")
        assert await file.pread(4, 6) == b"blau"
        assert await file.seek(-3, 2) == 11
        assert await file.read() == b"rot"
        await file.close()
        assert file.closed and file.name == "/d/text"
        assert [entry.name async for entry in client.scandir("/d")] == ["text"]
        await client.rename("/d/text", "/d/words")
        assert (await client.stat("/d/words")).length == 14
        assert not await client.exists("/d/text")

    run(real_address(real), work)


def real_address(client):
    return f"{client._session._endpoint.host}:{client._session._endpoint.port}"


def test_many_tasks_read_one_file_at_once(real):
    data = bytes(range(256)) * 4096
    with real.open("/x", "wb") as file:
        file.write(data)

    async def work(client):
        async with client.open("/x", "rb", buffering=0) as file:
            got = await asyncio.gather(*(file.pread(5000, n * 5000) for n in range(200)))
        assert b"".join(got) == data[: 200 * 5000]
        assert len(client._client._session._idle) <= strait.aio.THREADS

    run(real_address(real), work)


def test_it_has_the_methods_of_the_client():
    methods = {name for name in vars(strait.Client) if not name.startswith("_")}
    assert methods - set(dir(strait.aio.AsyncClient)) == set()


def test_errors_are_the_clients(fake):
    async def work(client):
        with pytest.raises(FileNotFoundError) as caught:
            await client.open("/missing")
        assert caught.value.filename == "/missing"

    run(fake.address, work)


def test_the_loop_runs_and_a_task_can_give_up_while_a_gateway_is_silent(fake):
    fake.files["/x"] = bytearray(b"abc")
    fake.silent.add("getFileInfo")

    async def work(client):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.stat("/x")
        assert time.monotonic() - began < 5
        fake.resume()
        assert (await client.stat("/x")).length == 3

    run(fake.address, work)


def test_a_cancelled_write_and_the_next_one_keep_their_order(fake):
    fake.silent.add("flushFile")

    async def work(client):
        async with client.open("/x", "wb") as file:
            await file.write(b"one")
            flush = asyncio.create_task(file.flush())
            await asyncio.to_thread(fake.await_waiting, "flushFile", 1)
            flush.cancel()
            with pytest.raises(asyncio.CancelledError):
                await flush
            write = asyncio.create_task(file.write(b"two"))
            done, _ = await asyncio.wait({write}, timeout=LOOK_S)
            assert not done, "the flush still has the file"
            fake.resume()
            await write
        assert fake.files["/x"] == b"onetwo"

    run(fake.address, work)


@pytest.mark.parametrize("mode", ["rb", "wb"])
def test_a_file_whose_opening_was_cancelled_is_closed_beside_the_loop(fake, mode):
    opens = "openFile" if mode == "rb" else "createFile"
    fake.files["/x"] = bytearray(b"abc")
    fake.silent.update((opens, "closeFile"))

    async def work(client):
        opening = asyncio.create_task(client._open("/x", mode, -1, {}))
        await asyncio.to_thread(fake.await_waiting, opens, 1)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        fake.resume_once(opens)
        began = time.monotonic()
        # A loop that closes the file itself comes back only after the client's timeout.
        await asyncio.to_thread(fake.await_waiting, "closeFile", 1)
        assert time.monotonic() - began < 30, "the loop has waited for the gateway"
        fake.resume()

    run(fake.address, work)
    waits.eventually("no open handle", lambda: not fake.handles)


def test_a_session_whose_connecting_was_cancelled_is_ended(fake):
    fake.silent.add("openSession")

    async def work():
        connecting = asyncio.create_task(strait.aio._connect(fake.address, {}))
        await asyncio.to_thread(fake.await_waiting, "openSession", 1)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting
        fake.resume()

    asyncio.run(work())
    waits.eventually("the session's end", lambda: fake.calls["closeSession"])


def test_a_failed_connect_leaves_no_threads():
    async def connect():
        await strait.aio.connect(f"127.0.0.1:{gateways.free_port()}")

    with pytest.raises(strait.Unavailable):
        asyncio.run(connect())
    waits.eventually(
        "no thread",
        lambda: not any(thread.name.startswith("strait-aio") for thread in threading.enumerate()),
    )
