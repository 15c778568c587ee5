"""Run folders: what an attempt is to do, and what is true of it.

Files of a run folder: spec.json (what to run), lock, claim (made once; who made it may run the job), proc.json (the
processes), released (made just before the job is; it tells nothing after a boot), unreleased (the job's process ended
before it became the job), stop (the daemon wants it ended, and why), told (it was alive and stood still just before it
was told to end; only where `stop` says if_alive), exit.json (how it ended).

`settle` reads the truth off locks and files, never off a process id alone: whoever holds the lock of a folder lives; a
claim is made once; a process is the one that was written down if it began at the same tick of the same boot.
"""

import fcntl
import os
import shutil
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backfill.queue.processes import (
    begun,
    boot_id,
    note_told,
    read_json,
    send,
    stands_still,
    sync,
    write_whole,
)
from backfill.queue.supervisor import STAND_STILL_S

LOOKS = 20  # at an orphan that has to stand still, in one sweep

Record = dict[str, Any]


@dataclass(frozen=True)
class Verdict:
    """What is true of an attempt.

    alive: its supervisor lives; the record is that of its processes, if there is one
    ended: the record says how
    unstarted: it never ran and never will; the record says if it was the launch that failed
    orphan: its supervisor is gone and its job runs; the record is that of its processes
    unknown: it ran, and nobody wrote down how it ended; the record says whether it was told to, while it was alive
    """

    kind: str
    record: Record = field(default_factory=dict)


def name(job: int, attempt: int) -> str:
    """The name of a run folder."""
    return f"{job}.{attempt}"


def numbers(text: str) -> tuple[int, int] | None:
    """The job and the attempt of a run folder; None if it is none."""
    job, dot, attempt = text.partition(".")
    return (int(job), int(attempt)) if dot and job.isdecimal() and attempt.isdecimal() else None


def prepare(home: Path, job: int, attempt: int, spec: Record) -> None:
    """Write down what an attempt is to do. The supervisor sees to it that it is on the disk before the job begins."""
    run = home / "run" / name(job, attempt)
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(str(run / "spec.json"), spec, durable=False)


def ask_to_stop(run: Path, cause: str, if_alive: bool = False) -> None:
    """Ask the supervisor of an attempt to end it. if_alive: one that ends by itself before it is told to just ended."""
    if run.is_dir() and not (run / "stop").exists():
        write_whole(str(run / "stop"), {"cause": cause, "if_alive": if_alive})


def may_end(run: Path, pid: int) -> bool:
    """Whether an orphan may be told to end; where it shall be so if alive, it has to stand still (see keeper.py)."""
    stop = read_json(str(run / "stop")) or {}
    if not stop.get("if_alive") or (run / "told").exists():
        return True
    send(pid, signal.SIGSTOP)
    for _ in range(LOOKS):
        if stands_still(pid) and stands_still(pid):  # twice: its threads are looked at one by one
            note_told(str(run))
            return True
        time.sleep(STAND_STILL_S)
    return False


def settle(run: Path) -> Verdict:
    """What is true of an attempt. One that never ran, and has nobody to run it, never will from now on."""
    how = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        lock = os.open(run / "lock", how, 0o600)
    except FileNotFoundError:
        run.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(run / "lock", how, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return Verdict("alive", read_json(str(run / "proc.json")) or {})
        return _settle_left(run)
    finally:
        os.close(lock)


def _settle_left(run: Path) -> Verdict:
    """Of an attempt that has no supervisor, or not yet; nobody gets the lock meanwhile."""
    record = read_json(str(run / "exit.json"))
    if record:
        return Verdict("ended", record)
    if _revoke(run):
        return Verdict("unstarted")
    known, failed = read_json(str(run / "proc.json")), Verdict("unstarted", {"launch": True})
    if not known:
        return failed
    unknown = Verdict("unknown", known | ({"told": True} if (run / "told").exists() else {}))
    if known["boot"] != boot_id():
        return unknown
    if not (run / "released").exists():
        return failed
    if begun(known["pid"]) == known["begun"] != 0:
        return Verdict("orphan", known)
    # It is gone now. What was written of it, by itself or by the keeper, was written before.
    if (run / "unreleased").exists():
        return failed
    record = read_json(str(run / "exit.json"))
    return Verdict("ended", record) if record else unknown


def _revoke(run: Path) -> bool:
    """Make the claim ourselves, if nobody has; then nobody ever can."""
    try:
        os.close(os.open(run / "claim", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    sync(str(run))
    return True


def folders(home: Path) -> list[tuple[int, int]]:
    """Every attempt that has a folder."""
    try:
        found = [numbers(entry.name) for entry in os.scandir(home / "run")]
    except FileNotFoundError:
        return []
    return sorted(pair for pair in found if pair is not None)


def forget(home: Path, job: int, attempt: int) -> None:
    """Remove a run folder. Only of one whose end is in the store itself."""
    shutil.rmtree(home / "run" / name(job, attempt), ignore_errors=True)
