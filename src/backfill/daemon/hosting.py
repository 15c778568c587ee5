"""The pools that a queue may use, by their names in config.toml, each with its clock and its evidence."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill.daemon.clock import QueueClock
from backfill.daemon.config import LOCAL, Config
from backfill.pools.base import Evidence, Given, Pool
from backfill.pools.local.pool import LocalPool
from backfill.pools.local.recovery import RunFolders
from backfill.queue.around import Clock
from backfill.queue.engine import Engine
from backfill.queue.evidence import WitnessWriter
from backfill.queue.job import Job
from backfill.queue.shapes import Spec
from backfill.queue.store import Store
from backfill.queue.words import Unreadable

if TYPE_CHECKING:  # numpy is needed only with a platform
    from backfill.pools.seen import Hands, Reader


@dataclass(frozen=True)
class Hosted:
    """A pool in a daemon. run: starts a clock that waits until a planner is ready; None for a running clock."""

    pool: Pool
    clock: Clock
    evidence: Evidence
    run: Callable[[], None] | None = None


def host(folder: Path, config: Config, store: Store, news: Callable[[], None], engine: Callable[[], Engine]) -> Hosted:
    """Return the pool that the configuration names. news: see Given; engine: created after the pool.

    Raises Unreadable.
    """

    def given(clock: Clock) -> Given:
        begun = store.first_t() or clock.now()
        return Given(
            folder, config.stated, clock.now, spec_of, news,
            lambda: engine().book.jobs, lambda: engine().asked is None,
            lambda identity, t: t < begun or engine().has_been(identity), lambda: engine().book.skew,
            lambda: engine().plan if engine().binds else {},
        )  # fmt: skip

    def spec_of(job: Job) -> Spec:
        return store.spec(job.spec)

    if config.fake:
        from backfill.pools.fake import FakePool, VirtualClock  # few queues need it

        virtual = VirtualClock(store.last_t(), config.fake["speed"])
        return Hosted(FakePool(given(virtual), config.fake), virtual, WitnessWriter(folder, store), virtual.run)
    clock = QueueClock(store.last_t(), store.clock())
    if config.shadow:
        from backfill.pools.watched import WatchedPool

        return Hosted(WatchedPool(given(clock), reader_of(config.pool, folder)), clock, WitnessWriter(folder, store))
    if config.native:
        from backfill.pools.controlled import ControlledPool

        pool_ = ControlledPool(
            given(clock), *reader_and_hands(config.pool, folder),
            lambda job: config.adopts(job.user, job.asked.partition), config.publish,
        )  # fmt: skip
        return Hosted(pool_, clock, WitnessWriter(folder, store))
    if config.pool != LOCAL:
        from backfill.pools.own import load_pool

        return Hosted(load_pool(folder, config.pool)(given(clock)), clock, WitnessWriter(folder, store))
    fault = {"BACKFILL_FAULT": os.environ.get("KEEPER_FAULT", "")}
    pool = LocalPool(folder, news, config.pinned, fault, lambda: evidence.anew(engine().book.last_job))
    evidence = RunFolders(folder, store, pool)
    return Hosted(pool, clock, evidence)


def reader_of(pool: str, folder: Path) -> "Reader":
    """Return the reader of a batch system, one of config.WATCHED, for the queue in a folder."""
    if pool == "slurm":
        from backfill.pools.slurm import SlurmReader

        return SlurmReader(folder)
    from backfill.pools.htcondor import HTCondorReader

    return HTCondorReader(home=folder)


def reader_and_hands(pool: str, folder: Path) -> "tuple[Reader, Hands]":
    """Return the reader of a batch system, one of config.STARTED, and its hands, for the queue in a folder."""
    reader: Any = reader_of(pool, folder)
    if pool == "slurm":
        from backfill.pools.slurm import SlurmHands

        return reader, SlurmHands(folder)
    from backfill.pools.htcondor_hands import HTCondorHands

    return reader, HTCondorHands(folder, reader)


def platform_of(pool: str) -> str:
    """Return the present platform of a batch system. Raises Unreadable."""
    from backfill.pools.seen import Down

    try:
        return reader_of(pool, Path()).platform()
    except Down as error:
        raise Unreadable(f"--pool {pool}: {error}") from None
