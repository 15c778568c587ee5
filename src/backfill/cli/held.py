"""The verbs of `backfill pool` that need no daemon, about the jobs of a batch system that a queue starts."""

import os
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backfill.cli import say
from backfill.cli.options import Json, Verbose, examples
from backfill.cli.output import print_json
from backfill.model.errors import BackfillError, UsageError
from backfill.model.names import did_you_mean
from backfill.model.units import counted
from backfill.system.home import home

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from backfill.daemon.config import Config
    from backfill.pools.seen import Hands, JobNow, Snapshot
    from backfill.pools.setup import Site

Queue = Annotated[
    str | None, typer.Option("--queue", metavar="FOLDER", help="The folder of the queue. [default: $BACKFILL_HOME]")
]
Users = Annotated[list[str] | None, typer.Option("--user", metavar="NAME", help="Jobs of this user; may be repeated.")]
Partitions = Annotated[
    list[str] | None, typer.Option("--partition", metavar="NAME", help="Jobs of this partition; may be repeated.")
]


@examples("backfill pool adopt --dry-run", "backfill pool adopt --partition main --user ann")
def adopt(
    dry: Annotated[bool, typer.Option("--dry-run", help="Only show which jobs that would be.")] = False,
    user: Users = None,
    partition: Partitions = None,
    queue: Queue = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Take over jobs that wait in the batch system: from now on only the queue starts them.

    They are marked and held in Slurm, marked and kept from matching in HTCondor. Jobs that their users hold, and that
    wait for others, are adopted once the batch system would start them.
    """
    from backfill.pools.seen import WAITING

    if partition and _config(queue).pool == "htcondor":
        raise UsageError("--partition: HTCondor has no partitions; expected --user or neither")
    with _answering():
        jobs = _look(queue).jobs
        some = [
            job
            for job in jobs
            if job.state == WAITING and not (job.blocked or job.held or job.own)
            if (not user or job.user in user) and (not partition or job.asked.partition in partition)
        ]
        if some and not dry:
            _hands(queue).adopt(some)
    if as_json:
        print_json({"schema": 1, "adopted": not dry, "jobs": _identities(some)})
    else:
        print(f"{'would adopt' if dry else 'adopted'} {_named(some)}")
    say.following("backfill pool adopt" if dry and some else "backfill queue")


@examples("backfill pool release-all")
def release_all(queue: Queue = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Give all jobs back to the scheduler of the batch system.

    No daemon is needed. A running daemon would hold the jobs again: stop it first, by `backfill serve --stop`.
    """
    with _answering():
        some = _release(queue)
    if as_json:
        print_json({"schema": 1, "jobs": _identities(some)})
    else:
        print(f"released {_named(some)}")


@examples("backfill pool watchdog --after 10m")
def watchdog(
    after: Annotated[str, typer.Option("--after", metavar="TIME", help="Longest time without a look.")] = "10m",
    queue: Queue = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Give all jobs back to the scheduler of the batch system if no daemon has looked at it for this time; for cron."""
    from backfill.pools.controlled import GUARDED, LOOKED
    from backfill.queue.words import Unreadable, parse_time

    try:
        most = parse_time(after) / 1e6
    except Unreadable as error:
        raise UsageError(f"--after: {error}") from None
    folder = _folder(queue)
    _config(queue)
    (folder / GUARDED).touch()
    age, some = 0.0, list["JobNow"]()
    with suppress(FileNotFoundError):  # no daemon has held any job yet
        age = time.time() - os.stat(folder / LOOKED).st_mtime
    if age > most:
        with _answering():
            some = _release(queue)
    if as_json:
        print_json({"schema": 1, "silent_s": age, "jobs": _identities(some)})
    elif some:  # cron mails everything that is printed
        print(f"no daemon has looked for {age:.0f} s: released {_named(some)}")


@examples(
    "backfill pool setup --print",
    "backfill pool setup --print --part filter > job_submit.lua",
    "backfill pool setup --print --partition main",
)
def setup(
    printed: Annotated[bool, typer.Option("--print", help="Print the parts; nothing else is done.")] = False,
    part: Annotated[str | None, typer.Option("--part", metavar="NAME", help="Print only this part.")] = None,
    user: Users = None,
    partition: Partitions = None,
    queue: Queue = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Print what a site installs so that its jobs come to the queue: submit filter, settings, rights, unit, watchdog.

    Each part says where it goes. With the submit filter, jobs come held, and `backfill serve --pool slurm` needs no
    --adopt.
    """
    from backfill.pools.setup import SETUPS

    if not printed:
        raise UsageError("backfill pool setup only prints what a site installs; expected --print")
    pool = _config(queue).pool if (_folder(queue) / "config.toml").exists() else "slurm"
    with _answering():
        parts = SETUPS[pool](_site(pool, queue, user, partition))
    if part is not None and part not in parts:
        hint = did_you_mean(part, parts, f"expected {', '.join(parts)}")
        raise UsageError(f"--part is {part!r}; {hint}")
    chosen = parts if part is None else {part: parts[part]}
    if as_json:
        print_json({"schema": 1, "pool": pool, "parts": chosen})
    else:
        print("\n".join(chosen.values()), end="")


def _site(pool: str, queue: str | None, users: list[str] | None, partitions: list[str] | None) -> "Site":
    from backfill.pools.setup import Site, surroundings
    from backfill.pools.slurm import settings
    from backfill.system.home import user_name

    slurm_settings = settings() if pool == "slurm" else {}

    begun = os.path.abspath(sys.argv[0])
    program = [sys.executable, "-m", "backfill"] if begun.endswith(".py") else [begun]
    uid, home = os.getuid(), _folder(queue).absolute()
    return Site(home, user_name(uid), uid, program, slurm_settings, users or (), partitions or (), surroundings())


@examples("backfill pool show")
def show(queue: Queue = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Show the jobs and nodes of the batch system, and the jobs that the queue is to start."""
    with _answering():
        look = _look(queue)
    states = Counter(job.state for job in look.jobs)
    mine = [job for job in look.jobs if job.managed]
    if as_json:
        counts = {"states": states, "of_the_queue": Counter(job.state for job in mine)}
        about = {"instance": look.instance, "look_s": look.took, "nodes": Counter(node.state for node in look.nodes)}
        print_json({"schema": 1, **about, **counts})
        return
    print(f"a look takes {look.took:.2f} s; its controller is {look.instance}")
    print(f"{counted(len(look.nodes), 'node')}: {_counted(Counter(node.state for node in look.nodes))}")
    print(f"{counted(len(look.jobs), 'job')}: {_counted(states)}")
    print(f"{counted(len(mine), 'job')} of the queue: {_counted(Counter(job.state for job in mine))}")


def _release(queue: str | None) -> "list[JobNow]":
    from backfill.pools.seen import WAITING

    unsure = _uncertain(queue)
    mine = [job for job in _look(queue).jobs if job.managed and job.state == WAITING]
    some = [job for job in mine if job.identity not in unsure]
    if some:
        _hands(queue).release(some)
    if kept := [job for job in mine if job.identity in unsure]:
        say.note(f"not released, as they may have run: {_named(kept)}")
    return some


def _uncertain(queue: str | None) -> set[tuple[str, int]]:
    """Return the jobs that may have run, since their controller has forgotten them."""
    from backfill.queue.job import UNCERTAIN
    from backfill.queue.store import Store, StoreError

    file = _folder(queue) / "store.db"
    if not file.exists():
        return set()
    try:
        store = Store(file, readonly=True)
        found = {(job.native, job.native_submit) for job in store.jobs("end_us IS NULL") if job.held == UNCERTAIN}
        store.close()
    except StoreError as error:
        raise BackfillError(str(error)) from None
    return found


def _folder(queue: str | None) -> Path:
    return Path(queue or home())


def _config(queue: str | None) -> "Config":
    from backfill.daemon.config import STARTED, Config
    from backfill.queue.words import Unreadable

    try:
        config = Config(_folder(queue))
    except Unreadable as error:
        raise UsageError(str(error)) from None
    if not config.file.exists():
        raise UsageError(
            f"{config.file.parent}: no queue; expected one that `backfill serve --pool {STARTED[0]}` has begun"
        )
    if config.pool not in STARTED:
        raise UsageError(f"{config.file}: pool is {config.pool!r}; expected a queue of {' or '.join(STARTED)}")
    return config


def _look(queue: str | None) -> "Snapshot":
    from backfill.daemon.hosting import reader_of

    return reader_of(_config(queue).pool, _folder(queue)).look()


def _hands(queue: str | None) -> "Hands":
    from backfill.daemon.hosting import reader_and_hands

    return reader_and_hands(_config(queue).pool, _folder(queue))[1]


@contextmanager
def _answering() -> "Iterator[None]":
    from backfill.pools.seen import Down

    try:
        yield
    except Down as down:
        raise BackfillError(str(down)) from None


def _identities(some: "Sequence[JobNow]") -> list[dict[str, Any]]:
    """Return jobs for JSON: their numbers in the batch system, and when they were submitted there."""
    return [{"native": number, "submit_s": submit / 1e6} for number, submit in (job.identity for job in some)]


def _named(some: "Sequence[JobNow]") -> str:
    names = ", ".join(job.native for job in some[:20])
    more = f" and {len(some) - 20:,} more" if len(some) > 20 else ""
    return counted(len(some), "job") + (f": {names}{more}" if some else "")


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.most_common()) or "none"
