"""`serve --restore`: continue the queue from a copy of its store, and report what happened since the copy."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from backfill.client.calling import FAILED, UNREACHABLE, Problem, persistent, stop
from backfill.daemon.backups import restore as put_back
from backfill.queue.events import Backup, Restored
from backfill.queue.store import Store, StoreError, examine
from backfill.system.home import home, trouble

SHOWN = 10  # most jobs that are listed


def restore(file: str) -> int:
    """Stop the daemon, put the copy in place, start a daemon on it, and print what it found.

    If the copy cannot be used, nothing changes: a daemon that was stopped for it is started again.
    """
    folder = home()
    wrong = trouble(folder)
    if wrong:
        raise Problem(wrong, UNREACHABLE)
    try:
        examine(Path(file).absolute())
        served = _stopped(folder)
        try:
            kept = put_back(folder, file)
        except BaseException:
            if served:
                with suppress(Problem):  # the original error is reported
                    persistent("ping", folder)
            raise
    except StoreError as error:
        raise Problem(str(error), FAILED) from None
    persistent("ping", folder)
    counts, named, last = _found(Path(folder) / "store.db")
    print(f"restored {file}" + (f"; the store that it replaces is kept as {kept}" if kept else ""))
    if counts["found"]:
        print(f"  {_jobs(counts, named, 'found')} had begun since the copy was made, and will not run again")
    else:
        print("  no job of the copy had begun since it was made")
    if counts["closed"]:
        print(f"  {_jobs(counts, named, 'closed')} ended without having begun, and will not run")
    if counts["lost"]:
        print(f"  {_jobs(counts, named, 'lost')} ran but are not in the copy: they were submitted after it was made")
    print(f"  new jobs get numbers from {last + 1:,} on")
    print("next: backfill queue --ended 20")
    return 0


def _stopped(folder: str) -> bool:
    """Stop the daemon; return whether there was one."""
    try:
        stop(folder)
    except Problem:
        return False
    return True


def _found(path: Path) -> tuple[dict[str, int], dict[str, list[Any]], int]:
    """Return what daemons have found on this copy so far: the number of jobs of each kind, some of them, and the last
    number."""
    kinds = ("found", "closed", "lost")
    counts, named = dict.fromkeys(kinds, 0), dict[str, list[Any]]()
    store = Store(path, readonly=True)
    try:
        for event, _, _ in store.latest(10_000):
            if isinstance(event, Backup):  # earlier entries concern an earlier restored copy
                counts, named = dict.fromkeys(kinds, 0), {}
            elif isinstance(event, Restored):  # repeated if a daemon was killed before it had updated the witness
                for kind, number in (event.counts or {}).items():
                    if number > counts.get(kind, number):
                        counts[kind], named[kind] = number, [*getattr(event, kind)]
        return counts, named, store.last_job()
    finally:
        store.close()


def _jobs(counts: dict[str, int], named: dict[str, list[Any]], kind: str) -> str:
    """Return text such as "2 jobs (7, 8)"."""
    count = "1 job" if counts[kind] == 1 else f"{counts[kind]:,} jobs"
    return f"{count} ({', '.join(map(str, named[kind][:SHOWN]))}{', ...' if counts[kind] > SHOWN else ''})"
