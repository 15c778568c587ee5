"""Run folders: what an attempt is to do, and what is true of it.

Files of a run folder: spec.json (what to run), lock, claim (made once; who made it may run the job), proc.json (the
processes), released (made after the witness was told that the job begins, and just before it does), unreleased (the
job's process ended before it became the job), stop (the daemon wants it ended, and why), told (it was alive and stood
still just before it was told to end; only where `stop` says if_alive), exit.json (how it ended).

`settle` never trusts a process id alone: whoever holds the lock of a folder lives, and a process is the one that was
written down if it began at the same tick of the same boot. A job may remove or change any file of its folder, so the
folder alone never decides that an attempt has not run: see `witness.py`.
"""

import fcntl
import os
import shutil
import signal
import time
from pathlib import Path

from backfill.pools.base import Verdict
from backfill.pools.local import witness
from backfill.pools.local.supervisor import STAND_STILL_S
from backfill.queue.shapes import Record
from backfill.system.processes import (
    boot_id,
    lives,
    note_told,
    read_json,
    send,
    stands_still,
    sync,
    write_whole,
)

LOOKS = 20  # at an orphan that has to stand still, in one sweep

FAILED = Verdict("unstarted", {"launch": True})


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
    if not (run / "stop").exists():
        run.mkdir(mode=0o700, parents=True, exist_ok=True)  # the job may have removed it
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


def settle(run: Path, known: Record | None = None, launched: bool = False) -> Verdict:
    """Find out what became of an attempt, by its run folder, the witness and its processes.

    known: its processes, if it was seen running. launched: it was handed to the keeper, and the witness that could tell
    whether it began was lost. Either way it is never called unstarted, whatever has happened to its files. An attempt
    that is called unstarted will never run from now on.
    """
    how = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(run / "lock", how, 0o600)
    try:
        began = known or _began(run)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return Verdict("alive", began or {})
        if began and lives(began, "supervisor"):  # the lock that it holds was removed
            return Verdict("alive", began)
        return _settle_left(run, began, launched)
    finally:
        os.close(lock)


def _began(run: Path) -> Record | None:
    """Return the processes of an attempt whose job was released, as its folder or the witness has them."""
    if (run / "released").exists():
        found: Record | None = read_json(str(run / "proc.json"))
        if found:
            return found
    return witness.began(str(run.parents[1]), run.name, witness.LATELY)


def _settle_left(run: Path, began: Record | None, launched: bool) -> Verdict:
    """Judge an attempt that has no supervisor, or none yet; nobody gets the lock of its folder meanwhile."""
    record = read_json(str(run / "exit.json"))
    if record:
        return Verdict("ended", record)
    if began is None and launched:
        return Verdict("unknown")
    if not began:
        return _revoke(run)
    if began["boot"] == boot_id():
        if lives(began):
            return Verdict("orphan", began)
        # It is gone now. What was written of it, by itself or by the keeper, was written before.
        if (run / "unreleased").exists():
            return FAILED
        record = read_json(str(run / "exit.json"))
        if record:
            return Verdict("ended", record)
    return Verdict("unknown", began | ({"told": True} if (run / "told").exists() else {}))


def _revoke(run: Path) -> Verdict:
    """Make sure that an attempt never begins, by a claim of our own; it may have begun until the witness is ours.

    While another process holds the lock of the witness, a supervisor or a job that means harm, nobody can say.
    """
    try:
        with witness.Locked(str(run.parents[1]), wait=False) as file:
            began = file.began(run.name)
            if began:
                return Verdict("alive", began)
            claim = run / "claim"
            claimed = claim.exists()
            claim.unlink(missing_ok=True)
            os.close(os.open(claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except BlockingIOError:
        return Verdict("alive")
    sync(str(run))
    if began is not None:  # a restore knows that it may have begun, and no more: see recovery.merge
        return Verdict("unknown")
    return FAILED if claimed else Verdict("unstarted")


def folders(home: Path) -> list[tuple[int, int]]:
    """Every attempt that has a folder."""
    try:
        found = [numbers(entry.name) for entry in os.scandir(home / "run")]
    except FileNotFoundError:
        return []
    return sorted(pair for pair in found if pair is not None)


def forget(home: Path, job: int, attempt: int) -> None:
    """Remove the run folder and the script of an attempt whose end is in the store itself and in the witness."""
    for folder in ("run", "script"):
        shutil.rmtree(home / folder / name(job, attempt), ignore_errors=True)
