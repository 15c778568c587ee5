"""The log of a daemon: its standard error."""

import sys
from contextlib import suppress


def note(text: str) -> None:
    """Write a line to the log of the daemon; write errors are ignored, since a full disk cannot be reported there."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
