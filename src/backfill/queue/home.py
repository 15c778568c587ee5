"""The folder of a queue, and how its daemon is reached."""

import os
import sys

SOCKET = "sock"
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "afs", "lustre", "gpfs", "beegfs")


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
