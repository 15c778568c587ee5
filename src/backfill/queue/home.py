"""The folder of a queue, and how its daemon is reached."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # what is not imported costs nothing
    from pathlib import Path

SOCKET = "sock"
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "lustre", "gpfs", "beegfs")


_OPENED: dict[str, int] = {}  # descriptors of folders, see `near`


def home() -> str:
    """$BACKFILL_HOME, else the place for such things on this system."""
    given = os.environ.get("BACKFILL_HOME")
    if given:
        return os.path.abspath(given)
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/backfill/queue")
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "backfill", "queue")


def network_type(folder: str) -> str:
    """The kind of the network file system on which a folder lies; empty on a disk of this machine, or if not known."""
    found, longest = "", -1
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            for line in file:
                _, place, kind, *_ = line.split(" ")
                place = place.replace("\\040", " ")
                inside = folder == place or folder.startswith(place.rstrip("/") + "/")
                if inside and len(place) >= longest:
                    found, longest = kind, len(place)
    except OSError:
        return ""
    return found if found in NETWORK else ""


def near(path: str) -> str:
    """Return the path of a socket, short enough for the kernel: through a descriptor of its folder if it is long.

    The descriptor stays open, since the name is good for as long.
    """
    if len(path.encode()) <= 100:
        return path
    folder, name = os.path.split(path)
    if folder not in _OPENED:
        _OPENED[folder] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    return f"/proc/self/fd/{_OPENED[folder]}/{name}"


def alone(folder: Path) -> int:
    """Take the lock that the daemon of a folder holds for life. Returns it; -1 if another process has it."""
    import fcntl

    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return -1
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock
