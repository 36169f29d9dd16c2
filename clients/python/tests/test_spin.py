"""Short reads ask for their answer before they sleep, unless that has proved useless."""

import socket
import threading

import pytest

from strait import _spin
from strait._spin import ASLEEP, TRIES, Spinner


class Counted(socket.socket):
    """A socket that knows how often it was asked, and how often slept in."""

    asked = 0
    slept = 0

    def recv(self, most, flags=0):
        if flags == socket.MSG_DONTWAIT:
            self.asked += 1
        else:
            self.slept += 1
        return super().recv(most, flags)


@pytest.fixture
def ends(monkeypatch):
    monkeypatch.setattr(_spin, "_processors", lambda: 2)
    near, far = socket.socketpair()
    with Counted(fileno=near.detach()) as counted, far:
        yield counted, far


def test_an_answer_that_is_there_costs_one_call(ends):
    near, far = ends
    spinner = Spinner(near)
    for _ in range(100):
        far.sendall(b"answer")
        assert spinner.receive(100) == b"answer"
    assert (near.asked, near.slept) == (100, 0)


def test_a_late_answer_is_slept_for_and_so_are_the_next(ends):
    near, far = ends
    spinner = Spinner(near)
    # The answer is sent only while it sleeps, so it is late for certain.
    asleep = threading.Event()
    late = threading.Thread(target=lambda: (asleep.wait(), far.sendall(b"late")))
    late.start()
    recv = near.recv

    def sleeping(most, flags=0):
        if not flags:
            asleep.set()
        return recv(most, flags)

    near.recv = sleeping
    assert spinner.receive(100) == b"late"
    late.join()
    assert (near.asked, near.slept) == (TRIES, 1)
    for _ in range(ASLEEP):
        far.sendall(b"answer")
        spinner.receive(100)
    assert (near.asked, near.slept) == (TRIES, 1 + ASLEEP)
    far.sendall(b"answer")
    spinner.receive(100)
    assert (near.asked, near.slept) == (TRIES + 1, 1 + ASLEEP)


def test_an_end_is_told_at_once(ends):
    near, far = ends
    far.close()
    assert Spinner(near).receive(100) == b""


def test_a_single_processor_is_left_to_the_gateway(ends, monkeypatch):
    near, far = ends
    monkeypatch.setattr(_spin, "_processors", lambda: 1)
    far.sendall(b"answer")
    assert Spinner(near).receive(100) == b"answer"
    assert (near.asked, near.slept) == (0, 1)
