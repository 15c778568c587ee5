"""How long a test waits for what must come: a busy machine may take ten times as long for everything."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

PATIENCE_S = 600.0
Found = TypeVar("Found")


def until(what: Callable[[], Found], every_s: float = 0.02) -> Found:
    """Poll until something holds; returns it."""
    end = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < end, "it never came"
        time.sleep(every_s)
    return found


def completed(work: Coroutine[Any, Any, Found]) -> Found:
    """What a coroutine returns. It runs in a thread of its own: tests of pages leave an event loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, asyncio.wait_for(work, PATIENCE_S)).result()
