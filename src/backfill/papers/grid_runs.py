"""The runs of the grid reproduction: local jobs and gangs under several policies, and what is measured of each run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from backfill.analysis.gangs import Gangs, completed, is_local
from backfill.api import run_spec
from backfill.model.schedule import NO_TIME, Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Floats, Ints, Workload
from backfill.papers.sweep import Numbers
from backfill.papers.waiting_lines import draws, join_shortest_queue
from backfill.spec import RunSpec
from backfill.workloads.grid import grid

COMPLETIONS, WARMUP = 20_000, 2_000  # that are measured, and that are left out before
ARRIVALS = 22_500  # so that so many end before the last comes, though some wait then
BLOCK = 1_000  # completions of a point of the warm-up check
BATCH = 5  # values of a batch of MSER-5
RT, SLD, WRT, WSLD, COMPLETED = "RT", "SLD", "WRT", "WSLD", "completion"
GANGS, LATE = "gangs", "late gangs"  # with a promised start, and started after it
LEFT, ARRIVED = "gangs left over", "arrived gangs"  # that had not ended by the last arrival, and all
WAIT, JOBS, OTHER = "wait", "jobs", "other waits"  # without gangs; OTHER: than those of a reference simulation
CUTS = {"local jobs": "cut of MSER-5, local", "gangs": "cut of MSER-5, gangs"}  # completions


@dataclass(frozen=True, slots=True)
class GridTask:
    """The jobs of one seed under several policies. It can be sent anywhere."""

    arguments: Mapping[str, Any]  # of the grid model
    specs: Mapping[str, RunSpec]  # by policy
    blocks: bool = False  # also the mean local response of each block of completions, and what MSER-5 would cut

    @classmethod
    def of(
        cls,
        policies: Iterable[str],
        *,
        seed: int,
        blocks: bool = False,
        estimates: str = "requested",
        longer: int = 1,
        **arguments: Any,
    ) -> "GridTask":
        """With policies by their texts. longer: times as many arrivals as usual."""
        specs = {text: RunSpec.of(text, seed=seed, estimates=estimates) for text in policies}
        return cls({"jobs": longer * ARRIVALS, "seed": seed, **arguments}, specs, blocks)


def run(cell: GridTask) -> dict[str, Numbers]:
    """The numbers of each policy."""
    log = grid(**cell.arguments)
    return {policy: _numbers(log, spec, cell.blocks) for policy, spec in cell.specs.items()}


def block(number: int) -> str:
    """What the mean local response of a block of completions is called."""
    return f"RT of block {number}"


def _numbers(log: Workload, spec: RunSpec, blocks: bool) -> Numbers:
    schedule = run_spec(log, log.platform, spec).schedule
    if is_local(log).all():
        return _against_reference(log, schedule, spec.options.seed)
    stop = int(log.jobs.submit.max())
    over = np.flatnonzero(schedule.ran & (schedule.end <= stop))
    over = over[np.argsort(schedule.end[over], kind="stable")]
    rows = over[WARMUP : WARMUP + COMPLETIONS]
    site = log.jobs.site.codes
    local, response = rows[site[rows] >= 0], (schedule.end - log.jobs.submit).astype(np.float64) / SECOND
    gangs = Gangs.of(log, schedule, rows)
    service = (schedule.end[local] - schedule.start[local]) / SECOND
    long, served = service > 0, gangs.service > 0
    share = completed(log, schedule, np.ones(len(log), np.bool_))
    assert share is not None
    arrived = len(Gangs.of(log, schedule, np.arange(len(log))))
    numbers = {
        RT: float(response[local].mean()),
        SLD: float((response[local][long] / service[long]).mean()),
        WRT: _weighted(gangs.response / SECOND, gangs.procs),
        WSLD: _weighted((gangs.response / gangs.service)[served], gangs.procs[served]),
        COMPLETED: share,
        ARRIVED: float(arrived),
        LEFT: float(round((1 - share) * arrived)),
        **_promises(schedule),
    }
    if blocks:
        numbers |= _by_block(over, site, response)
        for name, mine in zip(CUTS.values(), (site[over] >= 0, site[over] < 0), strict=True):
            numbers[name] = _cut(response[over], np.flatnonzero(mine))
    return numbers


def _weighted(values: Floats, weights: Ints) -> float:
    """NaN where all gangs starved."""
    return float(np.average(values, weights=weights)) if len(values) else float("nan")


def _promises(schedule: Schedule) -> Numbers:
    promised = schedule.promise != NO_TIME
    return {GANGS: float(promised.sum()), LATE: float((schedule.start > schedule.promise)[promised].sum())}


def _by_block(over: Ints, site: Any, response: Any) -> Numbers:
    means = {}
    for number in range((WARMUP + COMPLETIONS) // BLOCK):
        rows = over[number * BLOCK : (number + 1) * BLOCK]
        rows = rows[site[rows] >= 0]
        means[block(number)] = float(response[rows].mean()) if len(rows) else float("nan")
    return means


def _cut(response: Floats, mine: Ints) -> float:
    """How many completions MSER-5 would leave out at the begin, by the responses of some; all if these are too few."""
    return float(mine[mser_5(response[mine])] if len(mine) >= BATCH else len(response))


def mser_5(values: Floats) -> int:
    """How many of 5 values or more to leave out at the begin, so that the mean of the rest has the least error.

    Of means of 5 values each, and at most half of all. White, Cobb and Spratt, WSC 2000: MSER-5.
    """
    batches = values[: len(values) // BATCH * BATCH].reshape(-1, BATCH).mean(axis=1)
    left = np.arange(len(batches), 0, -1)
    total, squares = (np.cumsum(each[::-1])[::-1] for each in (batches, batches**2))
    error = (squares - total**2 / left) / left**2
    return BATCH * int(np.argmin(error[: len(batches) // 2 + 1]))


def _against_reference(log: Workload, schedule: Schedule, seed: int) -> Numbers:
    """The mean wait, and how many waits are not those of a reference simulation with the same random numbers."""
    jobs = log.jobs
    waits = schedule.start - jobs.submit
    servers = np.bincount(log.platform.site).tolist()
    columns = (jobs.submit.tolist(), jobs.runtime.tolist(), jobs.site.codes.tolist())
    expected = join_shortest_queue(*columns, servers, draws(seed, len(log)))
    return {WAIT: float(waits.mean() / SECOND), JOBS: float(len(log)), OTHER: float((waits != expected).sum())}
