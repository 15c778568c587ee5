"""Backups of the store, taken while it is in use: one a day by the daemon, and any on request."""

import asyncio
import os
import time
from contextlib import suppress
from pathlib import Path

from backfill.queue.evidence import merge
from backfill.queue.store import NEXT, Store, StoreError, put_in_place, reason
from backfill.queue.words import Unreadable
from backfill.system.home import BACKUPS, alone, inside, served_by, special_trouble
from backfill.system.log import note
from backfill.system.processes import sync

FIRST_S, LOOK_S, DAY_S = 60.0, 3600.0, 86_400.0
KEPT = 7
HALF = "store.db.tmp"  # a copy that is being restored, until it is complete


def back_up(home: str, file: str) -> str:
    """Copy the store of a queue to a file. Return what went wrong; empty if nothing did.

    Raises Unreadable for a file that a copy must not replace.
    """
    own = _check_place(home, file)
    if not os.path.exists(os.path.join(home, "store.db")):
        return f"{home}: there is no queue"
    if own:
        os.makedirs(os.path.join(home, BACKUPS), mode=0o700, exist_ok=True)
    try:
        store = Store(Path(home) / "store.db", readonly=True)
        try:
            store.backup(Path(file).absolute())
        finally:
            store.close()
    except StoreError as error:
        return str(error)
    return ""


def _check_place(home: str, file: str) -> bool:
    """Return whether a copy would be among those of the queue itself. Raises Unreadable."""
    where = inside(home, file)
    if where and not where.startswith(BACKUPS + os.sep):
        expected = f"a file outside it, or in its folder {BACKUPS}"
        raise Unreadable(f"--backup: {file} is in the folder of the queue, {home}; expected {expected}")
    if wrong := special_trouble(file):
        raise Unreadable(f"--backup: {wrong}")
    return bool(where)


def restore(home: str, file: str) -> str:
    """Replace the store of a queue that no daemon serves by a backup.

    Return the name under which the old store is kept; empty if there was none. The next daemon enters what happened
    since the backup. Raises StoreError. If the process is killed before the copy has its final name, nothing has
    changed; if later, the next daemon finishes the work.
    """
    folder, backup = Path(home), Path(file).absolute()
    store, half = folder / "store.db", folder / HALF
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = alone(folder)
    except OSError as error:
        raise StoreError(f"{folder}: {reason(error)}") from error
    if lock < 0:
        raise StoreError(f"{served_by(folder)} serves {folder}; stop it first")
    try:
        put_in_place(store)  # left by an earlier restore
        copy = Store(backup, readonly=True)
        try:
            copy.backup(half)
            _merge(folder, store, copy)
        finally:
            copy.close()
        os.rename(half, folder / NEXT)
        sync(str(folder))
        return put_in_place(store)
    except OSError as error:
        with suppress(OSError):
            half.unlink()
        raise StoreError(f"{error.filename or store}: {reason(error)}") from error
    finally:
        os.close(lock)


def finish_restore(folder: Path) -> None:
    """Finish a restore that was interrupted.

    Raises StoreError if the store is missing and an earlier restore has left others, which must not be ignored;
    OSError.
    """
    store = folder / "store.db"
    kept = put_in_place(store)
    if kept:
        note(f"a restore that was interrupted is finished; the store that it replaces is kept as {kept}")
    if store.exists():
        for left in folder.glob("store.db*.tmp"):  # of incomplete copies
            with suppress(OSError):
                left.unlink()
        return
    others = sorted(folder.glob("store-replaced-*.db"))
    if not (others or (folder / HALF).exists()):
        return
    advice = f"restore one of your backups, or {others[-1]}" if others else "restore one of your backups"
    raise StoreError(
        f"{store} is missing, and a restore has been at work here; {advice}: backfill serve --restore FILE"
    )


def _merge(folder: Path, path: Path, copy: Store) -> None:
    """Copy what the replaced store knows of attempts, ends and numbers; nothing if it is damaged."""
    if not path.exists():
        return
    try:
        old = Store(path, readonly=True)
        try:
            merge(folder, old, copy)
        finally:
            old.close()
    except (StoreError, ValueError) as error:
        note(f"{error}; what the witness has of the time since the copy was made must do")


async def keep_backups(home: Path) -> None:
    """Back up the store once a day into the folder `backups` and keep the last ones. Runs in a thread."""
    await asyncio.sleep(FIRST_S)
    while True:
        try:
            problem = await asyncio.to_thread(back_up_if_due, home, time.time())
        except OSError as error:
            problem = f"{error.filename}: {error.strerror}"
        except Unreadable as error:  # the folder was replaced by a link
            problem = str(error)
        if problem:
            note(f"backup: {problem}")
        await asyncio.sleep(LOOK_S)


def back_up_if_due(home: Path, now: float) -> str:
    """Back up the store, if the last backup is a day old. Return what went wrong; empty if nothing did."""
    folder = home / BACKUPS
    known = sorted(folder.glob("store-*.db"))
    if known and 0 <= now - known[-1].stat().st_mtime < DAY_S:
        return ""
    problem = back_up(str(home), str(folder / f"store-{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}.db"))
    for old in [] if problem else known[: max(len(known) + 1 - KEPT, 0)]:
        old.unlink(missing_ok=True)
    return problem
