"""Copies of the store, taken while it is in use: one a day by the daemon, and any on request."""

import asyncio
import os
import time
from pathlib import Path

from backfill.queue.launcher import note
from backfill.queue.store import Store, StoreError

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
