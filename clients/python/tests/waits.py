"""Waits for events, and pauses that name their reason: the only sleeps of these tests.

The counterpart of the test kit's `wait.rs`. `scripts/sleeps.py` rejects sleeps elsewhere.
"""

import time
from collections.abc import Callable

# Longest wait for an event. Only failing tests wait so long.
DEADLINE_S = 60.0
# Between two looks: short beside an event of this process, and long enough to leave the cores free.
PAUSE_S = 0.01


def eventually(what: str, holds: Callable[[], object], limit_s: float = DEADLINE_S) -> None:
    """Waits until `holds()`; after the limit, fails with `what` as the name of the condition."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {limit_s} s: {what}"
        time.sleep(PAUSE_S)


def pause(_why: str, seconds: float) -> None:
    """Pauses this thread. `_why` is for the reader: an event to wait for would be better."""
    time.sleep(seconds)
