"""The witness: an append-only file beside the store that outlives run folders, backups and the end of the log.

A job may remove its run folder, and a restored backup lacks everything that began after it was taken. So a supervisor
writes a line here, flushed to the disk, before it releases its job: an attempt without a line has not run, and one with
a line is never started again. Lines:

numbers N              job numbers up to N may have been given to jobs
log N {"last_job": M}  the log had N events, and had given job numbers up to M
began J.K {processes}  attempt K of job J was about to be released
over J.K {end}         how it ended, written before its run folder is removed
closed STATE {end}     jobs that ended while they waited: first and last number of each range of them, and when

Every process appends without waiting for others: a line is one write. A process that appends `began`, or that decides
that an attempt never begins, also holds the lock of the file. A job may hold that lock for as long as it likes, so the
daemon never waits for it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:  # saves import time at run time
    from collections.abc import Callable, Iterable, Iterator

    from backfill.system.processes import Record

FILE = "witness"
LATELY = 1 << 20  # bytes at the end that contain the lines of recent attempts
CHUNK = 1 << 20  # bytes searched at a time


class Locked:
    """The file, locked against other processes that decide about attempts.

    Raises OSError; BlockingIOError if another process holds the lock and `wait` is False.
    """

    def __init__(self, home: str, wait: bool = True) -> None:
        self._home, self._how = home, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB)

    def __enter__(self) -> Locked:
        while True:
            self._fd = _open(self._home)
            try:
                fcntl.flock(self._fd, self._how)
            except OSError:
                os.close(self._fd)
                raise
            if os.fstat(self._fd).st_nlink:
                return self
            os.close(self._fd)  # it was removed before we got the lock

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def append(self, line: str) -> None:
        """Append a line and wait until it is on the disk; other processes may take the lock meanwhile."""
        _append(self._fd, [line])
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        _sync(self._fd)

    def began(self, name: str) -> Record | None:
        """Return the processes of an attempt; None if it has no line."""
        return _began(self._fd, name)


def _open(home: str) -> int:
    return os.open(os.path.join(home, FILE), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _append(fd: int, lines: Iterable[str]) -> None:
    """Append lines in one write. Raises OSError on a full disk; `_parsed` rejects the torn line that this leaves."""
    text = "".join(f"{line}\n" for line in lines).encode()
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":  # a line torn by a power cut or a full disk
        text = b"\n" + text
    if os.write(fd, text) != len(text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), FILE)


def _sync(fd: int) -> None:
    getattr(os, "fdatasync", os.fsync)(fd)


def _places(fd: int, start: str, within: int = 0) -> Iterator[int]:
    """Yield the positions of lines that start with a text, last line first.

    within: bytes at the end of the file that are searched; 0 for all.
    """
    wanted = b"\n" + start.encode()
    at = os.fstat(fd).st_size
    least = max(at - within, 0) if within else 0
    while at > least:
        first = max(at - CHUNK, least)
        text = os.pread(fd, at - first + len(wanted) - 1, first)  # a line may continue in the next chunk
        place = text.rfind(wanted)
        while place >= 0:
            yield first + place + 1
            place = text.rfind(wanted, 0, place + len(wanted) - 1)
        at = first
    if not least and os.pread(fd, len(wanted) - 1, 0) == wanted[1:]:
        yield 0


def _line_at(fd: int, place: int) -> bytes:
    found = b""
    while part := os.pread(fd, 4096, place + len(found)):
        found += part
        if b"\n" in part:
            return found.partition(b"\n")[0]
    return b""  # it is still being written


def _began(fd: int, name: str, within: int = 0) -> Record | None:
    for place in _places(fd, f"began {name} ", within):
        found = _parsed(_line_at(fd, place))
        if found is not None:
            return found[2]
    return None


def name(job: int, attempt: int) -> str:
    """Return the name of an attempt, in the witness and as that of its run folder."""
    return f"{job}.{attempt}"


def numbers(text: str) -> tuple[int, int] | None:
    """Return job and attempt of a name; None if it is not that of an attempt."""
    job, dot, attempt = text.partition(".")
    return (int(job), int(attempt)) if dot and job.isdecimal() and attempt.isdecimal() else None


def line(kind: str, name: str, record: Record) -> str:
    """Return a line about an attempt."""
    return f"{kind} {name} {json.dumps(record, separators=(',', ':'))}"


def release(home: str, name: str, processes: Record, unrevoked: Callable[[], bool]) -> bool:
    """Record that an attempt begins, unless it was revoked; it may be released after this has returned True."""
    with Locked(home) as file:
        if not unrevoked():
            return False
        file.append(line("began", name, processes))
    return True


def began(home: str, name: str, within: int = 0) -> Record | None:
    """Return the processes of an attempt; None if it has no line yet.

    within: bytes at the end of the file that are searched; 0 for all.
    """
    try:
        fd = os.open(os.path.join(home, FILE), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return _began(fd, name, within)
    finally:
        os.close(fd)


def write(home: str, *lines: str, durable: bool = True) -> None:
    """Append lines. Raises OSError.

    durable: they are on the disk when this returns; otherwise they survive the end of every process, but not a power
    cut.
    """
    while True:
        fd = _open(home)
        try:
            _append(fd, lines)
            if durable:
                _sync(fd)
            if os.fstat(fd).st_nlink:
                return
        finally:  # no return: the file was removed meanwhile
            os.close(fd)


def read(home: str, since: int = 0) -> Iterator[tuple[str, str, Record]]:
    """Yield the lines from a byte position on: kind, name or number, and the record. Torn lines are left out."""
    try:
        with open(os.path.join(home, FILE), "rb") as file:
            if since:
                file.seek(since - 1)
                file.readline()
            for line in file:
                found = _parsed(line[:-1]) if line.endswith(b"\n") else None
                if found is not None:
                    yield found
    except FileNotFoundError:
        return


def read_since_log(home: str) -> Iterator[tuple[str, str, Record]]:
    """Return the last `log` line and the lines after it; all lines if there is none."""
    try:
        fd = os.open(os.path.join(home, FILE), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return iter(())
    try:
        return read(home, next((place for place in _places(fd, "log ") if _parsed(_line_at(fd, place))), 0))
    finally:
        os.close(fd)


def identity(home: str) -> int:
    """Return the inode number of the file, which changes when it is replaced; 0 if it does not exist."""
    try:
        return os.stat(os.path.join(home, FILE)).st_ino
    except OSError:
        return 0


def _parsed(text: bytes) -> tuple[str, str, Record] | None:
    """Return the parts of a line; None if it is torn. Only `numbers` lines have no record that shows this."""
    kind, _, rest = text.decode(errors="replace").partition(" ")
    name, _, record = rest.partition(" ")
    if kind == "numbers" and name.isdecimal():
        return kind, name, {}
    if kind not in ("log", "began", "over", "closed"):
        return None
    try:
        found = json.loads(record)
    except ValueError:
        return None
    return (kind, name, found) if isinstance(found, dict) else None
