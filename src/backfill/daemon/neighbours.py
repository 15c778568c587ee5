"""Other queues on this machine. Each daemon listens at an abstract socket whose name gives its user, key and cpus.

Such names are visible to all users, need no file, and vanish with their processes. A connection reveals only the user
at the other end, so no user can impersonate another. Queues in containers with their own network are not visible.
"""

from __future__ import annotations

import hashlib
import os
import socket
from contextlib import suppress

from backfill.model.units import numbers_text
from backfill.queue.words import Unreadable, parse_array
from backfill.system.home import peer, user_name

TYPE_CHECKING = False
if TYPE_CHECKING:  # imports for types only
    from collections.abc import Callable, Iterator

REGISTRY = "BACKFILL_REGISTRY"  # for tests, whose queues must not see each other
NAME_MAX = 100  # bytes; the kernel takes 107
LISTENS = "00010000"  # a flag in /proc/net/unix
MOST = 32  # number of queues that are checked


class Queue:
    """A queue on this machine: its user, its key, and the cpus that its jobs run on."""

    def __init__(self, uid: int, key: str, cpus: list[int]) -> None:
        self.uid, self.key, self.cpus = uid, key, cpus


def announce(folder: str, cpus: list[int]) -> tuple[socket.socket, Callable[[], None]]:
    """Announce a queue for as long as the returned socket is open; call the returned function when it is readable."""
    count, ranges = len(cpus), numbers_text(cpus, len(cpus))
    name = f"{_registry()}/{os.getuid()}/{_key(folder)}/{os.getpid()}/{count}:{ranges}"
    if len(name) > NAME_MAX:
        name = name.removesuffix(ranges)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.bind(f"\0{name}")
        sock.listen(MOST)
    except OSError:
        sock.close()
        raise

    def hang_up() -> None:
        with suppress(OSError):
            for _ in range(MOST):
                sock.accept()[0].close()

    return sock, hang_up


def queues() -> list[Queue]:
    """Return the queues on this machine, in the same order for all users."""
    folders = {}
    for uid, key, _, cpus in _announced():
        with suppress(ValueError, Unreadable):
            count, _, ranges = cpus.partition(":")
            folders[uid, key] = Queue(uid, key, parse_array(ranges)[0] if ranges else [*range(int(count))])
    return [folders[place] for place in sorted(folders)]


def daemons(folder: str) -> list[int]:
    """Return the processes that serve the queue of this user in a folder; there should be at most one."""
    return sorted(pid for uid, key, pid, _ in _announced() if (uid, key) == (os.getuid(), _key(folder)))


def _announced() -> Iterator[tuple[int, str, int, str]]:
    """Yield user, key, process and cpus of each daemon that announces its queue."""
    begin = f"@{_registry()}/"
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
            names = [line.split(" ")[-1].strip() for line in file if begin in line and f" {LISTENS} " in line]
    except OSError:
        return
    for name in names[:MOST]:
        with suppress(OSError, ValueError):
            uid, key, pid, cpus = name.removeprefix(begin).split("/")
            if _user_of(name) == int(uid):
                yield int(uid), key, int(pid), cpus


def _user_of(name: str) -> int | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        sock.connect(f"\0{name.removeprefix('@')}")
        return peer(sock)


def overlap(folder: str, cpus: list[int] | None = None) -> str:
    """Return a warning if another queue uses cpus of this one, with a setting that avoids it; empty if none does.

    cpus: those of this queue; None for those that its daemon announces.
    """
    mine, everyone = (os.getuid(), _key(folder)), queues()
    for one in everyone:
        if (one.uid, one.key) == mine and cpus is None:
            cpus = one.cpus
    others = [one for one in everyone if (one.uid, one.key) != mine]
    both = {*(cpus or ())}.intersection(*[{cpu for one in others for cpu in one.cpus}])
    if not both:
        return ""
    keys = sorted({mine, *((one.uid, one.key) for one in others)})
    allowed = sorted(os.sched_getaffinity(0))
    shares = {
        key: allowed[place * len(allowed) // len(keys) : (place + 1) * len(allowed) // len(keys)]
        for place, key in enumerate(keys)
    }
    whose = [*dict.fromkeys(one.uid for one in others)]
    names = [_whose(uid, sum(one.uid == uid for one in others)) for uid in whose]
    running = (
        f"{' and '.join(names)} also {'run' if others[1:] else 'runs'} here, on the same cpus {numbers_text(both)}"
    )
    if len(allowed) < len(keys):
        few = f"{len(allowed)} cpu{'s are' if allowed[1:] else ' is'} too few for {len(keys)} queues to have their own"
        return f"{running}; {few}: stop those that are not needed"
    theirs = ", ".join(
        " and ".join(f'"{numbers_text(shares[key])}"' for key in keys if key[0] == uid and key != mine) + f" for {name}"
        for uid, name in zip(whose, names, strict=True)
    )
    return f'{running}; cpus = "{numbers_text(shares[mine])}" in {folder}/config.toml would be the share ({theirs})'


def is_of(queue: Queue, folder: str) -> bool:
    """Return whether a queue is that of this user in a folder."""
    return (queue.uid, queue.key) == (os.getuid(), _key(folder))


def _whose(uid: int, count: int) -> str:
    if uid == os.getuid():
        return "another queue of yours" if count == 1 else f"{count} other queues of yours"
    return f"the queue of {user_name(uid)}" if count == 1 else f"{count} queues of {user_name(uid)}"


def _registry() -> str:
    return os.environ.get(REGISTRY) or "backfill-queue"


def _key(folder: str) -> str:
    """Return a short key for the folder of a queue, which does not reveal the folder."""
    return hashlib.sha256(os.path.realpath(folder).encode(errors="replace")).hexdigest()[:8]
