"""How a batch system shows which jobs a queue starts: by a mark, which says which queue that is."""

import hashlib
import os
from pathlib import Path

MARK = "backfill"  # how each begins
OTHER = "OtherQueue"  # why a job may not start that another queue starts


def mark_of(home: Path) -> str:
    """The mark of the queue in this folder, one word: two queues at one batch system leave each other's jobs alone."""
    return f"{MARK}-{hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:8]}"
