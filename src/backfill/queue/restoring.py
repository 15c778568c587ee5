"""`serve --restore`: the queue goes on from a copy of its store, and says what it found of the time since."""

import contextlib
from pathlib import Path
from typing import Any

from backfill.queue.backups import restore as put_back
from backfill.queue.client import FAILED, Problem, Queue, stop
from backfill.queue.home import home
from backfill.queue.store import Store, StoreError

SHOWN = 10  # jobs that are named


def restore(file: str) -> int:
    """Stop the daemon, put the copy in place, start a daemon on it, and print what it found."""
    folder = home()
    with contextlib.suppress(Problem):  # there is none
        stop(folder)
    try:
        kept = put_back(folder, file)
    except StoreError as error:
        raise Problem(str(error), FAILED) from None
    Queue(folder).ask("ping")
    store = Store(Path(folder) / "store.db", readonly=True)
    try:
        facts = next((event.data for event in store.latest(10_000) if event.kind == "restored"), {})
        last = store.load().last_job
    finally:
        store.close()
    print(f"restored {file}" + (f"; the store that it replaces is kept as {kept}" if kept else ""))
    print(f"  {_jobs(facts.get('found', []))} had begun since the copy was made, and will not run again")
    if facts.get("lost"):
        print(f"  {_jobs(facts['lost'])} ran but are not in the copy: they were submitted after it was made")
    print(f"  new jobs get numbers from {last + 1:,} on")
    print("next: backfill queue --ended 20")
    return 0


def _jobs(numbers: list[Any]) -> str:
    """Return "2 jobs (7, 8)"."""
    count = "1 job" if len(numbers) == 1 else f"{len(numbers)} jobs"
    named = ", ".join(map(str, numbers[:SHOWN])) + (", ..." if len(numbers) > SHOWN else "")
    return f"{count} ({named})" if numbers else count
