"""The runs of the grid reproduction: local jobs and gangs under several policies, and the numbers of each run."""

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

COMPLETIONS, WARMUP = 20_000, 2_000  # measured, and omitted before
ARRIVALS = 22_500  # enough for that many to end before the last arrival, with some still waiting
BLOCK = 1_000  # completions per point of the warm-up check
BATCH = 5  # values per batch of MSER-5
RT, SLD, WRT, WSLD, COMPLETED = "RT", "SLD", "WRT", "WSLD", "completion"
GANGS, LATE = "gangs", "late gangs"  # with a promised start, and started after it
LEFT, ARRIVED = "gangs left over", "arrived gangs"  # not ended by the last arrival, and all
WAIT, JOBS, OTHER = "wait", "jobs", "other waits"  # without gangs; OTHER: waits that differ from a reference simulation
CUTS = {"local jobs": "cut of MSER-5, local", "gangs": "cut of MSER-5, gangs"}  # in completions


@dataclass(frozen=True, slots=True)
class GridTask:
    """The jobs of one seed under several policies. It can be sent to any process."""

    arguments: Mapping[str, Any]  # of the grid model
    specs: Mapping[str, RunSpec]  # by policy
    blocks: bool = False  # whether to add the mean local response of each block of completions, and the cut of MSER-5

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
        """Build the task with policies given as texts. longer: multiple of the usual number of arrivals."""
        specs = {text: RunSpec.of(text, seed=seed, estimates=estimates) for text in policies}
        return cls({"jobs": longer * ARRIVALS, "seed": seed, **arguments}, specs, blocks)


def run(cell: GridTask) -> dict[str, Numbers]:
    """Return the numbers of each policy."""
    log = grid(**cell.arguments)
    return {policy: _numbers(log, spec, cell.blocks) for policy, spec in cell.specs.items()}


def block(number: int) -> str:
    """Return the name of the mean local response of a block of completions."""
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
    """Return the weighted mean; NaN if all gangs starved."""
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
    """Return how many initial completions MSER-5 would omit, by the responses of some jobs; all if too few."""
    return float(mine[mser_5(response[mine])] if len(mine) >= BATCH else len(response))


def mser_5(values: Floats) -> int:
    """Return the number of initial values, of at least 5, whose omission minimizes the error of the mean of the rest.

    In means of 5 values each, and at most half of all. White, Cobb and Spratt, WSC 2000: MSER-5.
    """
    batches = values[: len(values) // BATCH * BATCH].reshape(-1, BATCH).mean(axis=1)
    left = np.arange(len(batches), 0, -1)
    total, squares = (np.cumsum(each[::-1])[::-1] for each in (batches, batches**2))
    error = (squares - total**2 / left) / left**2
    return BATCH * int(np.argmin(error[: len(batches) // 2 + 1]))


def _against_reference(log: Workload, schedule: Schedule, seed: int) -> Numbers:
    """Return the mean wait, and the number of waits unlike those of a reference simulation with the same draws."""
    jobs = log.jobs
    waits = schedule.start - jobs.submit
    servers = np.bincount(log.platform.site).tolist()
    columns = (jobs.submit.tolist(), jobs.runtime.tolist(), jobs.site.codes.tolist())
    expected = join_shortest_queue(*columns, servers, draws(seed, len(log)))
    return {WAIT: float(waits.mean() / SECOND), JOBS: float(len(log)), OTHER: float((waits != expected).sum())}
