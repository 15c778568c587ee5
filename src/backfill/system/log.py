"""The log of a daemon: its standard error."""

import sys
from contextlib import suppress


def note(text: str) -> None:
    """A line in the log of the daemon; on a disk that is full nobody can be told."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
