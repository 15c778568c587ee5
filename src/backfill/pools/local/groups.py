"""Control groups (version 2): one per attempt, if the kernel and the owner of the machine allow it.

With a group, none of the attempt's processes escapes its end; with the memory controller, the kernel enforces its
memory limit (https://docs.kernel.org/admin-guide/cgroup-v2.html). Otherwise a supervisor checks once a second.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from contextlib import suppress

FAKE = "BACKFILL_CGROUP_ROOT"  # a tree of plain files instead of the kernel's, for tests
END_S = 1.0  # seconds for the processes of a group to disappear after they were killed


def place() -> tuple[str, bool] | None:
    """Return the nearest group above this process in which groups may be created, and whether it has memory limits.

    A group with memory limits is preferred. None if this process may create none.
    """
    root = os.environ.get(FAKE) or _mounted()
    if not root:
        return None
    at = os.path.join(root, _own().lstrip("/")).rstrip("/")
    nearest = None
    while at.startswith(root.rstrip("/")):
        if os.access(at, os.W_OK) and os.access(os.path.join(at, "cgroup.procs"), os.W_OK):
            if "memory" in _words(at, "cgroup.subtree_control"):
                return at, True
            nearest = nearest or (at, False)
        at = os.path.dirname(at)
    return nearest


def make(home: str, name: str, memory: int) -> tuple[str, bool] | None:
    """Create a group for an attempt; return it, and whether the kernel enforces its memory limit; None if impossible.

    memory: the limit in bytes, 0 for none.
    """
    there = place()
    if there is None:
        return None
    folder = os.path.join(there[0], f"backfill-{hashlib.sha256(home.encode()).hexdigest()[:12]}-{name}")
    try:
        os.mkdir(folder, 0o755)
        if there[1]:
            _write(folder, "memory.oom.group", "1")
            if memory:
                _write(folder, "memory.max", str(memory))
                with suppress(OSError):  # a kernel without swap accounting
                    _write(folder, "memory.swap.max", "0")
    except OSError:
        remove(folder)
        return None
    return folder, there[1]


def enter(folder: str, pid: int) -> bool:
    """Move a process, and with it all its future children, into a group; return whether that was allowed."""
    try:
        _write(folder, "cgroup.procs", str(pid))
    except OSError:
        return False
    return True


def members(folder: str) -> list[int]:
    """Return the processes of a group and of the groups that a job has created in it."""
    return [int(word) for group in _tree(folder) for word in _words(group, "cgroup.procs") if word.isdecimal()]


def end(folder: str) -> None:
    """Kill every process of a group, and remove it."""
    until = time.monotonic() + END_S
    while _is_populated(folder) and time.monotonic() < until:
        try:
            _write(folder, "cgroup.kill", "1")
        except OSError:  # before Linux 5.14
            for pid in members(folder):
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)
    remove(folder)


def remove(folder: str) -> None:
    """Remove a group and the groups in it, if they have no processes."""
    for group in _tree(folder):
        with suppress(OSError):
            os.rmdir(group)


def _tree(folder: str) -> list[str]:
    """Return a group and the groups in it, innermost first."""
    return [group for group, _, _ in os.walk(folder, topdown=False)]


def _is_populated(folder: str) -> bool:
    """Return whether a group or one of the groups in it has a process."""
    words = _words(folder, "cgroup.events")
    return words[words.index("populated") + 1] == "1" if "populated" in words else bool(members(folder))


def used(folder: str) -> tuple[int, int]:
    """Return the present and the peak memory of a group, in bytes; 0 if unknown."""
    numbers = [int(words[0]) if words and words[0].isdecimal() else 0
               for words in (_words(folder, "memory.current"), _words(folder, "memory.peak"))]  # fmt: skip
    return numbers[0], max(numbers)


def was_out_of_memory(folder: str) -> bool:
    """Return whether the kernel has killed a process of a group at its memory limit."""
    words = _words(folder, "memory.events")
    return "oom_kill" in words and words[words.index("oom_kill") + 1] != "0"


def _mounted() -> str:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            for line in file:
                words = line.split()
                if words[words.index("-") + 1] == "cgroup2" and words[3] == "/":
                    return words[4]
    except (OSError, ValueError):
        pass
    return ""


def _own() -> str:
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            return next((line[3:].strip() for line in file if line.startswith("0::")), "/")
    except OSError:
        return "/"


def _words(folder: str, name: str) -> list[str]:
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read().split()
    except OSError:
        return []


def _write(folder: str, name: str, text: str) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
