"""The witness: an append-only file beside the store that outlives run folders, backups and the log's own tail.

A job may remove its run folder, and a restored backup knows nothing of what began after it was taken. So a supervisor
writes a line here, on the disk, before it releases its job: an attempt without a line has not run, and one with a line
is never started again. Lines:

numbers N              job numbers up to N may have been given to jobs
log N                  the log had N events
began J.K {processes}  attempt K of job J was about to be released
over J.K {end}         how it ended, written before its run folder is removed

Whoever appends `began`, and whoever decides that an attempt never will, holds the lock of the file meanwhile.
"""

from __future__ import annotations

import fcntl
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # what is not imported costs nothing
    from collections.abc import Callable, Iterator

    from backfill.queue.processes import Record

FILE = "witness"
TAIL = 1 << 20  # bytes in which the lines of attempts that were launched lately are found


class Locked:
    """The file, open for appending and locked against everybody else. Raises OSError."""

    def __init__(self, home: str) -> None:
        self._path = os.path.join(home, FILE)

    def __enter__(self) -> Locked:
        while True:
            self._fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            if os.fstat(self._fd).st_nlink:
                return self
            os.close(self._fd)  # it was removed before the lock was ours

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def append(self, *lines: str) -> None:
        """Append lines, all of them or none; durable after `sync`."""
        text = "".join(f"{line}\n" for line in lines).encode()
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":  # a line that a power cut has torn
            text = b"\n" + text
        if os.write(self._fd, text) != len(text):
            os.ftruncate(self._fd, size)
            raise OSError(28, os.strerror(28), self._path)

    def sync(self) -> None:
        """Wait until all lines are on the disk; others may take the lock meanwhile."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        getattr(os, "fdatasync", os.fsync)(self._fd)

    def began(self, name: str) -> Record | None:
        """Return the processes of an attempt that was launched lately, None if it has no line."""
        size = os.fstat(self._fd).st_size
        text = os.pread(self._fd, TAIL, max(size - TAIL, 0))
        at = text.rfind(f"began {name} ".encode())
        if at < 0:
            return None
        found = _parsed(text[at:].partition(b"\n")[0].decode(errors="replace"))
        return found[2] if found else None


def line(kind: str, name: str, record: Record) -> str:
    """Return a line about an attempt."""
    return f"{kind} {name} {json.dumps(record, separators=(',', ':'))}"


def release(home: str, name: str, processes: Record, unrevoked: Callable[[], bool]) -> bool:
    """Write down that an attempt begins, unless it was revoked; it may be released once this returned True."""
    with Locked(home) as file:
        if not unrevoked():
            return False
        file.append(line("began", name, processes))
        file.sync()
    return True


def began(home: str, name: str) -> Record | None:
    """Return the processes of an attempt that was launched lately, None if it has no line."""
    with Locked(home) as file:
        return file.began(name)


def write(home: str, *lines: str) -> None:
    """Append lines; they are on the disk when this returns. Raises OSError."""
    with Locked(home) as file:
        file.append(*lines)
        file.sync()


def read(home: str, since: int = 0) -> Iterator[tuple[str, str, Record]]:
    """Yield the lines from a byte on: kind, name or number, and the record of an attempt. Torn lines are left out."""
    try:
        with open(os.path.join(home, FILE), "rb") as file:
            if since:
                file.seek(since - 1)
                file.readline()
            for line in file:
                found = _parsed(line.decode(errors="replace")) if line.endswith(b"\n") else None
                if found is not None:
                    yield found
    except FileNotFoundError:
        return


def tail(home: str) -> Iterator[tuple[str, str, Record]]:
    """Yield the last lines."""
    try:
        size = os.stat(os.path.join(home, FILE)).st_size
    except FileNotFoundError:
        return iter(())
    return read(home, max(size - TAIL, 0))


def identity(home: str) -> int:
    """Return the inode number of the file, which tells whether it was replaced; 0 if it is not there."""
    try:
        return os.stat(os.path.join(home, FILE)).st_ino
    except OSError:
        return 0


def _parsed(line: str) -> tuple[str, str, Record] | None:
    kind, _, rest = line.strip().partition(" ")
    name, _, record = rest.partition(" ")
    if kind not in ("numbers", "log", "began", "over") or not name:
        return None
    try:
        return kind, name, json.loads(record) if record else {}
    except ValueError:
        return None
