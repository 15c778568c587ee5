"""Copies of the store, taken while it is in use: one a day by the daemon, and any on request."""

import asyncio
import os
import shutil
import sqlite3
import time
from pathlib import Path

from backfill.queue.home import alone
from backfill.queue.notices import note
from backfill.queue.processes import sync
from backfill.queue.recovery import merge
from backfill.queue.store import Store, StoreError, examine, mark_as_backup

FIRST_S, LOOK_S, DAY_S = 60.0, 3600.0, 86_400.0
KEPT = 7


def back_up(home: str, file: str) -> str:
    """Copy the store of a queue to a file. Returns what went wrong; empty if nothing did."""
    if not os.path.exists(os.path.join(home, "store.db")):
        return f"{home}: there is no queue"
    try:
        store = Store(Path(home) / "store.db", readonly=True)
        try:
            store.backup(Path(file).absolute())
        finally:
            store.close()
    except StoreError as error:
        return str(error)
    return ""


def restore(home: str, file: str) -> str:
    """Put a backup in the place of the store of a queue that no daemon serves. Returns the name under which the old
    store is kept; empty if there was none. The next daemon enters what began since the backup. Raises StoreError.
    """
    folder, backup = Path(home), Path(file).absolute()
    store, half = folder / "store.db", folder / "store.db.tmp"
    examine(backup)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = alone(folder)
    if lock < 0:
        raise StoreError(f"process {(folder / 'lock').read_text().strip()} serves {folder}; stop it first")
    kept = ""
    try:
        shutil.copyfile(backup, half)
        half.chmod(0o600)
        _merge(folder, store, half)
        copy = sqlite3.connect(half, isolation_level=None)
        try:
            mark_as_backup(copy)
        finally:
            copy.close()
        sync(str(half))
        if store.exists():
            kept = f"store-replaced-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.db"
            for end in ("-wal", "-shm", ""):  # together they are what the store was
                if Path(f"{store}{end}").exists():
                    os.rename(f"{store}{end}", f"{folder / kept}{end}")
        half.rename(store)
        sync(str(folder))
    except (sqlite3.Error, OSError) as error:
        half.unlink(missing_ok=True)
        raise StoreError(f"{store}: {error}") from error
    finally:
        os.close(lock)
    return kept


def _merge(folder: Path, store: Path, copy: Path) -> None:
    """Save what the store that is replaced knows of attempts and numbers; one that is damaged knows nothing."""
    try:
        stores = [Store(path, readonly=True) for path in (store, copy) if path.exists()]
    except StoreError:
        return
    try:
        if len(stores) == 2:
            merge(folder, *stores)
    except (StoreError, ValueError) as error:
        note(f"{store}: {error}")
    finally:
        for one in stores:
            one.close()


async def keep_backups(home: Path) -> None:
    """Once a day, a copy in the folder `backups`; the last ones are kept. In a thread, so that nobody waits for it."""
    await asyncio.sleep(FIRST_S)
    while True:
        try:
            told = await asyncio.to_thread(back_up_if_due, home, time.time())
        except OSError as error:
            told = f"{error.filename}: {error.strerror}"
        if told:
            note(f"backup: {told}")
        await asyncio.sleep(LOOK_S)


def back_up_if_due(home: Path, now: float) -> str:
    """A copy, if the last one is a day old. Returns what went wrong; empty if nothing did."""
    folder = home / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    known = sorted(folder.glob("store-*.db"))
    if known and 0 <= now - known[-1].stat().st_mtime < DAY_S:
        return ""
    told = back_up(str(home), str(folder / f"store-{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}.db"))
    for old in [] if told else known[: max(len(known) + 1 - KEPT, 0)]:
        old.unlink(missing_ok=True)
    return told
