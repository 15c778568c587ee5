"""How long a test waits for what must come: a busy machine may take ten times as long for everything."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 600.0
Found = TypeVar("Found")


def until(what: Callable[[], Found], every_s: float = 0.02) -> Found:
    """Poll until something holds; returns it."""
    end = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < end, "it never came"
        time.sleep(every_s)
    return found
