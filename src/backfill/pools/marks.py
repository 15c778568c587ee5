"""Marks by which a batch system shows that a queue starts a job, and which queue."""

import hashlib
import os
from pathlib import Path

MARK = "backfill"  # prefix of every mark
OTHER = "OtherQueue"  # why a job may not start that another queue starts


def mark_of(home: Path) -> str:
    """Return the mark of the queue in this folder, one word. It keeps two queues at one batch system apart."""
    return f"{MARK}-{hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:8]}"
