"""The folder of a queue, and the sockets by which its daemon is reached."""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # saves import time at run time
    from pathlib import Path

SOCKET, HINTS, LOCK = "sock", "hint.sock", "lock"
LINE = 8 << 20  # the longest request: an array of 10,000 indexes with its environment
WANTED = "BACKFILL_WANTED"  # set for a daemon whose standard input ends when the client that started it is served
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "lustre", "gpfs", "beegfs")


# What a queue keeps in its folder, by names and by how names begin. Jobs write to `log`, and users may put files there.
BACKUPS = "backups"
KEPT = (
    *(BACKUPS, "run", "script", "tasks", "policies", LOCK, SOCKET, HINTS),
    *("looked", "died", "web.token", "web-read-only.token"),
)
KEPT_BEGIN = (
    *("store.", "store-", "config.", "platform.", "witness"),
    *("daemon.log", "notify.log", "keeper.", "planner.", "answer."),
)

_OPENED: dict[str, int] = {}  # descriptors of folders, see `near`


def home() -> str:
    """Return the folder of the queue: $BACKFILL_HOME if set, or else the default folder."""
    given = os.environ.get("BACKFILL_HOME")
    return os.path.abspath(given) if given else default_home()


def default_home() -> str:
    """Return the default folder of a queue on this system."""
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/backfill/queue")
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(state, "backfill", "queue")


def inside(folder: str, path: str) -> str:
    """Return where in the folder of a queue a path leads, or its links; empty for a path outside."""
    folder = os.path.realpath(folder)
    place, name = os.path.split(os.path.abspath(path))
    for real in (os.path.realpath(path), os.path.join(os.path.realpath(place), name)):
        if real.startswith(folder + os.sep):
            return os.path.relpath(real, folder)
    return ""


def kept_trouble(folder: str, path: str) -> str:
    """Return why no output may be written to a path: it is one of the queue's own files; empty if it is not."""
    name = inside(folder, path).partition(os.sep)[0]
    own = name in KEPT or name.startswith(KEPT_BEGIN)
    return f"{path} is one of the queue's own files; expected another file" if own else ""


def special_trouble(path: str) -> str:
    """Return why no file may be put in place of a path: it is a device or a folder; empty if it is neither."""
    special = os.path.exists(path) and not os.path.isfile(path)
    return f"{path} is not a regular file; expected a file, which is replaced" if special else ""


def network_type(folder: str) -> str:
    """Return the type of the network file system that holds a folder; empty for a local disk, or if unknown."""
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
    """Return a path of a socket that is short enough for the kernel; a long one leads through a descriptor of its
    folder.

    The descriptor stays open, since the path is valid only as long as it is.
    """
    if len(path.encode()) <= 100:
        return path
    folder, name = os.path.split(path)
    if folder not in _OPENED:
        _OPENED[folder] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    return f"/proc/self/fd/{_OPENED[folder]}/{name}"


def alone(folder: Path) -> int:
    """Take the lock that the daemon of a folder holds for life. Returns its descriptor, or -1 if it is taken."""
    import fcntl

    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return -1
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def served_by(folder: Path) -> str:
    """Return a name for the daemon that holds the lock; it may not have written its number yet."""
    number = (folder / LOCK).read_text().strip()
    return f"process {number}" if number else "another process"


def is_locked(lock: str | Path) -> bool:
    """Return whether a process holds a lock; it keeps it until its last thread has ended."""
    import fcntl

    try:
        file = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def trouble(folder: str) -> str:
    """Return why this user must not use a folder as a queue; empty if it is allowed, or if the folder does not exist.

    As with ssh's files, the folder must belong to the user, and no other user may write into it. Root may use the queue
    of another user, but only one that BACKFILL_HOME names.
    """
    try:
        there = os.stat(folder)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{folder}: {error.strerror}"
    if not stat.S_ISDIR(there.st_mode):
        return f"{folder} is not a folder; set BACKFILL_HOME to a folder"
    mine = os.getuid()
    if there.st_uid != mine and not (mine == 0 and os.environ.get("BACKFILL_HOME")):
        return (
            f"{folder} belongs to {user_name(there.st_uid)}; expected a folder of {user_name(mine)}; see BACKFILL_HOME"
        )
    if there.st_mode & 0o022:
        mode = stat.S_IMODE(there.st_mode)
        return f"others may write into {folder} (mode {mode:o}); expected mode 700: chmod 700 {folder}"
    return ""


def python_path() -> str:
    """Return a PYTHONPATH that finds this package from any folder and imports nothing from the working folder."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    given = [os.path.abspath(part) for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    return os.pathsep.join(dict.fromkeys([*given, package]))


def owner(folder: str) -> int:
    """Return the user that owns a folder; the user of this process if the folder does not exist."""
    try:
        return os.stat(folder).st_uid
    except OSError:
        return os.getuid()


def user_name(uid: int) -> str:
    """Return the name of a user; the number if the user has no name."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """Return the name of a group; the number if the group has no name."""
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def peer(sock: socket.socket) -> int | None:
    """Return the user of the process at the other end of a Unix socket; None if the system does not report it."""
    return peer_facts(sock)[1] if hasattr(socket, "SO_PEERCRED") else None


def peer_facts(sock: socket.socket) -> tuple[int, int]:
    """Return the process at the other end of a Unix socket, and its user."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return pid, uid
