"""A progress bar on a terminal."""

from __future__ import annotations

import time
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:  # saves import time at run time
    from collections.abc import Callable, Iterator
    from typing import Any

PATIENCE_S = 1.0  # delay before the bar appears


@contextmanager
def terminal_bar(text: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error after one second; yields a function that takes the number of tasks done."""
    shown: list[Any] = []
    begin = time.monotonic()

    def progress(done: int) -> None:
        if not shown:
            if time.monotonic() - begin < PATIENCE_S:
                return
            from rich.console import Console
            from rich.progress import Progress

            shown.append(Progress(console=Console(stderr=True), transient=True))
            shown[0].start()
            shown.append(shown[0].add_task(text, total=total))
        shown[0].update(shown[1], completed=done)

    try:
        yield progress
    finally:
        if shown:
            shown[0].stop()
