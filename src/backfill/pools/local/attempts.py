"""Run folders: the instructions for an attempt, and its state.

Files of a run folder: spec.json (what to run), lock, claim (created once; its creator may run the job), proc.json (the
processes), released (created after the witness has recorded that the job begins, and just before it does), unreleased
(the job's process ended before it became the job), stop (the daemon wants it ended, and why), told (the job was alive
and stopped just before it was signalled to end; only if `stop` says if_alive), exit.json (how it ended).

`settle` never trusts a process id alone: the holder of a folder's lock is alive, and a process is the recorded one if
it began at the same clock tick of the same boot. A job may remove or change any file of its folder, so the folder alone
never proves that an attempt has not run: see `witness.py`.
"""

import fcntl
import os
import shutil
import signal
import time
from pathlib import Path

from backfill.pools.base import Verdict
from backfill.pools.local.supervisor import STAND_STILL_S
from backfill.queue.shapes import Record
from backfill.system import witness
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

LOOKS = 20  # checks in one sweep whether an orphan has stopped

FAILED = Verdict("unstarted", {"launch": True})


def prepare(home: Path, job: int, attempt: int, spec: Record) -> None:
    """Write the instructions for an attempt. The supervisor flushes them to the disk before the job begins."""
    run = home / "run" / witness.name(job, attempt)
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(str(run / "spec.json"), spec, durable=False)


def ask_to_stop(run: Path, cause: str, if_alive: bool = False) -> None:
    """Ask the supervisor to end an attempt. if_alive: an attempt that ends by itself first counts as ended normally."""
    if not (run / "stop").exists():
        run.mkdir(mode=0o700, parents=True, exist_ok=True)  # the job may have removed it
        write_whole(str(run / "stop"), {"cause": cause, "if_alive": if_alive})


def may_end(run: Path, pid: int) -> bool:
    """Return whether an orphan may be signalled to end; with if_alive it has to be stopped first (see keeper.py)."""
    stop = read_json(str(run / "stop")) or {}
    if not stop.get("if_alive") or (run / "told").exists():
        return True
    send(pid, signal.SIGSTOP)
    for _ in range(LOOKS):
        if stands_still(pid) and stands_still(pid):  # twice, since its threads are checked one by one
            note_told(str(run))
            return True
        time.sleep(STAND_STILL_S)
    return False


def settle(run: Path, known: Record | None = None, launched: bool = False) -> Verdict:
    """Determine the state of an attempt from its run folder, the witness and its processes.

    known: its processes, if it was seen running. launched: it was handed to the keeper, and the witness that could tell
    whether it began was lost. In both cases it is never called unstarted, whatever has happened to its files. An
    attempt that is called unstarted will never run.
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
        if began and lives(began, "supervisor"):  # the lock file that it holds was removed
            return Verdict("alive", began)
        return _settle_left(run, began, launched)
    finally:
        os.close(lock)


def _began(run: Path) -> Record | None:
    """Return the processes of an attempt whose job was released, according to its folder or the witness."""
    if (run / "released").exists():
        found: Record | None = read_json(str(run / "proc.json"))
        if found:
            return found
    return witness.began(str(run.parents[1]), run.name, witness.LATELY)


def _settle_left(run: Path, began: Record | None, launched: bool) -> Verdict:
    """Determine the state of an attempt without a supervisor; the caller holds the lock of its folder."""
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
        # It is gone now. Any record of its end, by itself or by the keeper, was written before.
        if (run / "unreleased").exists():
            return FAILED
        record = read_json(str(run / "exit.json"))
        if record:
            return Verdict("ended", record)
    return Verdict("unknown", began | ({"told": True} if (run / "told").exists() else {}))


def _revoke(run: Path) -> Verdict:
    """Make sure that an attempt never begins, by claiming it; it may have begun until we hold the lock of the witness.

    While another process holds that lock, a supervisor or a malicious job, the state cannot be determined.
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
    if began is not None:  # after a restore it is only known that it may have begun: see evidence.merge
        return Verdict("unknown")
    return FAILED if claimed else Verdict("unstarted")


def folders(home: Path) -> list[tuple[int, int]]:
    """Return every attempt that has a run folder."""
    try:
        found = [witness.numbers(entry.name) for entry in os.scandir(home / "run")]
    except FileNotFoundError:
        return []
    return sorted(pair for pair in found if pair is not None)


def forget(home: Path, job: int, attempt: int) -> None:
    """Remove the run folder and the script of an attempt whose end is in the store and in the witness."""
    for folder in ("run", "script"):
        shutil.rmtree(home / folder / witness.name(job, attempt), ignore_errors=True)
