"""Processes, signals and small files: helpers shared by the keeper, its supervisors and the daemon.

Every supervisor holds these modules in memory, so they use little of the standard library and nothing else.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:  # saves import time at run time
    from collections.abc import Iterator
    from typing import Any

    Record = dict[str, Any]

SUBREAPER = 36  # option of prctl
JOB, ATTEMPT = "BACKFILL_JOB_ID", "BACKFILL_ATTEMPT"  # with BACKFILL_HOME they mark the processes of an attempt
KEEPER = "BACKFILL_KEEPER"  # names the process that can start a daemon for a client inside a job
FAULT = os.environ.get("BACKFILL_FAULT", "")  # tests: kill this process at a named point


def fault(point: str) -> None:
    """Kill this process if a test has named this point."""
    if point == FAULT:
        os.kill(os.getpid(), signal.SIGKILL)


def become_subreaper() -> None:
    """Make this process the parent of descendants whose own parent dies."""
    if LIBC is not None:
        LIBC.prctl(SUBREAPER, 1, 0, 0, 0)


def boot_id() -> str:
    """Return the identifier of this boot of the machine."""
    return BOOT


def boot_us() -> int:
    """Return microseconds since the boot, including suspends."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1000


def wall_us() -> int:
    """Return microseconds since 1970 by the machine's clock."""
    return time.time_ns() // 1000


def instant() -> Record:
    """Return the current time by the clock of this boot, which is never set, and by the calendar, for later boots."""
    return {"boot": boot_id(), "boottime": boot_us(), "wall": wall_us()}


def _read_boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


# Read here once, so that forked processes find it in their memory.
BOOT = _read_boot_id()
LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def begun(pid: int) -> int:
    """Return the start of a process, in clock ticks since the boot; 0 if there is no such process."""
    return _stat(pid)[2]


def _stat(pid: int) -> tuple[bytes, int, int]:
    """Return the state, parent and start (clock ticks since the boot) of a process; b"", 0, 0 if there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = file.read().rpartition(b")")[2].split()
            return fields[0], int(fields[1]), int(fields[19])
    except (OSError, IndexError, ValueError):
        return b"", 0, 0


def state(pid: int) -> bytes:
    """Return the letter of the state of a process, as ps shows it; empty if there is none."""
    return _stat(pid)[0]


def status(pid: int) -> int | None:
    """Return how a process has ended, as `os.waitpid` returns it; None unless it still waits for that."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = file.read().rpartition(b")")[2].split()
            return int(fields[49]) if fields[0] == b"Z" else None
    except (OSError, IndexError, ValueError):
        return None


def lives(record: Record, who: str = "pid") -> bool:
    """Return whether a process of an attempt's record, its job (pid) or its supervisor, still exists.

    A job that has ended counts until its supervisor or the keeper has recorded how it ended, which they do before they
    reap it. Once init is its parent, no process will record it.
    """
    if record.get("boot") != boot_id():
        return False
    state, parent, ticks = _stat(record.get(who, 0))
    if ticks == 0 or ticks != record.get("begun" if who == "pid" else f"{who}_begun"):
        return False
    return state not in (b"Z", b"X") or (who == "pid" and parent != 1)


def belonging(marks: dict[str, str]) -> list[int]:
    """Return the processes that have all these variables in their environment, except zombies.

    Processes of other users, and those that have made themselves unreadable, are not found.
    """
    return [pid for pid, _ in _environments(marks)]


def attempts_with_processes(home: str) -> list[str]:
    """Return the attempts of a queue, as JOB.ATTEMPT, that have processes, whether or not they are recorded."""
    found = set()
    for _, own in _environments({"BACKFILL_HOME": home}):
        values = dict(
            word.decode(errors="replace").partition("=")[::2] for word in own if word.startswith(b"BACKFILL_")
        )
        if values.get(JOB, "").isdecimal() and values.get(ATTEMPT, "").isdecimal():
            found.add(f"{values[JOB]}.{values[ATTEMPT]}")
    return sorted(found)


def _environments(marks: dict[str, str]) -> Iterator[tuple[int, list[bytes]]]:
    wanted = [f"{name}={value}".encode() for name, value in marks.items()]
    for entry in os.listdir("/proc"):
        if entry.isdecimal() and int(entry) != os.getpid():
            try:
                with open(f"/proc/{entry}/environ", "rb", buffering=0) as file:
                    own = file.read().split(b"\0")
            except OSError:
                continue
            if all(mark in own for mark in wanted):  # a zombie's environment is empty
                yield int(entry), own


def marks(home: str, name: str) -> dict[str, str]:
    """Return the variables that identify the processes of an attempt; `name` is JOB.ATTEMPT."""
    job, _, attempt = name.partition(".")
    return {"BACKFILL_HOME": home, JOB: job, ATTEMPT: attempt}


def unmarked() -> dict[str, str]:
    """Return the environment of this process without the variables of an attempt, for starting a daemon."""
    return {name: value for name, value in os.environ.items() if name not in (JOB, ATTEMPT, KEEPER)}


def end_attempt(home: str, name: str, patience_s: float = 0.2) -> bool:
    """Kill every process of an attempt, including detached ones; return whether none is left.

    Processes that this user may not kill are not counted.
    """
    end = time.monotonic() + patience_s
    while True:
        left = 0
        for pid in belonging(marks(home, name)):
            with suppress(PermissionError, ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                left += 1
        if not left or time.monotonic() > end:
            return not left
        time.sleep(0.002)


def memory_of(pid: int) -> int:
    """Return the memory that a process uses, in bytes; shared pages are divided among the processes that share them.

    For a process that has made itself unreadable only totals are known, which include shared pages in full.
    """
    for name, wanted in (("smaps_rollup", (b"Pss:", b"SwapPss:")), ("status", (b"RssAnon:", b"RssShmem:", b"VmSwap:"))):
        try:
            with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
                lines = file.read().splitlines()
        except OSError:
            continue
        used = sum(int(line.split()[1]) for line in lines if line.startswith(wanted))
        if used:
            return used * 1024
    return 0


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    except OSError:
        pass
    return found


def descendants(pid: int) -> list[int]:
    """Return the children of a process, their children, and so on."""
    found: list[int] = []
    todo = [pid]
    while todo:
        some = children(todo.pop())
        found += some
        todo += some
    return found


def send(pid: int, number: int) -> None:
    """Send a signal to a process; no error if it does not exist."""
    with suppress(OSError):
        os.kill(pid, number)


def send_group(pid: int, number: int) -> None:
    """Send a signal to a process group; no error if it does not exist."""
    with suppress(OSError):
        os.killpg(pid, number)


def sync(path: str) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_whole(path: str, record: Record, durable: bool = True) -> None:
    """Write a JSON file atomically, over a `.tmp` file that may have disk space allocated for it.

    With durable=False the content is safe only after `sync` of the file and of its folder.
    """
    text = json.dumps(record).encode()
    fd = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(fd, text, 0)
        os.ftruncate(fd, len(text))
        if durable:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(path + ".tmp", path)
    if durable:
        sync(os.path.dirname(path))


def read_json(path: str) -> Any:
    """Read a JSON file; None if it does not exist or is not valid."""
    try:
        with open(path, "rb", buffering=0) as file:
            return json.loads(file.read())
    except (OSError, ValueError):
        return None


def note_told(run: str) -> None:
    """Record that a stopped job is about to be signalled: from now on its end counts as caused by the queue."""
    os.makedirs(run, mode=0o700, exist_ok=True)  # the job may have removed it
    os.close(os.open(os.path.join(run, "told"), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    sync(run)


def stands_still(pid: int) -> bool:
    """Return whether a process is stopped: all its threads are, apart from those that have ended."""
    states: list[bytes] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", "rb", buffering=0) as file:
                states.append(file.read().rpartition(b")")[2].split()[0])
    except (OSError, IndexError):
        return False
    return any(state in b"Tt" for state in states) and all(state in b"TtZX" for state in states)


def tell(home: str, run: str) -> None:
    """Send the daemon a hint that a run has changed. Without the hint, the daemon would find out later by itself."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            os.chdir(home)
            sock.sendto(os.path.basename(run).encode(), "hint.sock")
    except OSError:
        pass


def wake_pipe(*numbers: int) -> int:
    """Return a descriptor that becomes readable when one of these signals arrives."""
    read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read
