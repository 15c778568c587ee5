"""The runs of the grid reproduction: local jobs and gangs under several policies, and what is measured of each run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from backfill.analysis.gangs import Gangs, completed
from backfill.model.schedule import NO_TIME, Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Floats, Ints, Workload
from backfill.papers.sweep import Numbers
from backfill.papers.waiting_lines import join_shortest_queue
from backfill.spec import RunSpec
from backfill.workloads.grid import grid
from backfill.worlds.simulated import simulate

COMPLETIONS, WARMUP = 20_000, 2_000  # that are measured, and that are left out before
ARRIVALS = 22_500  # so that so many end before the last comes, though some wait then
BLOCK = 1_000  # completions of a point of the warm-up check
RT, SLD, WRT, WSLD, COMPLETED = "RT", "SLD", "WRT", "WSLD", "completion"
GANGS, LATE = "gangs", "late gangs"  # with a promised start, and started after it
WAIT, REFERENCE = "wait", "wait, reference"


@dataclass(frozen=True, slots=True)
class Cell:
    """The jobs of one seed under several policies. It can be sent anywhere."""

    arguments: Mapping[str, Any]  # of the grid model
    specs: Mapping[str, RunSpec]  # by policy
    blocks: bool = False  # also the mean local response of each block of completions

    @classmethod
    def of(cls, policies: Iterable[str], *, seed: int, blocks: bool = False, **arguments: Any) -> "Cell":
        """With policies by their texts."""
        specs = {text: RunSpec.of(text, seed=seed) for text in policies}
        return cls({"jobs": ARRIVALS, "seed": seed, **arguments}, specs, blocks)


def run(cell: Cell) -> dict[str, Numbers]:
    """The numbers of each policy."""
    log = grid(**cell.arguments)
    return {policy: _numbers(log, spec, cell.blocks) for policy, spec in cell.specs.items()}


def block(number: int) -> str:
    """What the mean local response of a block of completions is called."""
    return f"RT of block {number}"


def _numbers(log: Workload, spec: RunSpec, blocks: bool) -> Numbers:
    schedule = simulate(log, log.platform, spec.policy, spec.params, spec.options).schedule
    if not (log.jobs.tasks > 1).any():
        return _against_reference(log, schedule, spec.options.seed)
    stop = int(log.jobs.submit.max())
    over = np.flatnonzero(schedule.ran & (schedule.end <= stop))
    over = over[np.argsort(schedule.end[over], kind="stable")]
    rows = over[WARMUP : WARMUP + COMPLETIONS]
    site = log.jobs.site.codes
    local, response = rows[site[rows] >= 0], (schedule.end - log.jobs.submit).astype(np.float64) / SECOND
    gangs = Gangs.of(log, schedule, rows)
    service = (schedule.end[local] - schedule.start[local]) / SECOND
    long, some = service > 0, gangs.service > 0
    share = completed(log, schedule, np.ones(len(log), np.bool_))
    assert share is not None
    found = {
        RT: float(response[local].mean()),
        SLD: float((response[local][long] / service[long]).mean()),
        WRT: _weighted(gangs.response / SECOND, gangs.procs),
        WSLD: _weighted((gangs.response / gangs.service)[some], gangs.procs[some]),
        COMPLETED: share,
        **_promises(schedule),
    }
    if blocks:
        found |= _by_block(over, site, response)
    return found


def _weighted(values: Floats, weights: Ints) -> float:
    """NaN where all gangs starved."""
    return float(np.average(values, weights=weights)) if len(values) else float("nan")


def _promises(schedule: Schedule) -> Numbers:
    promised = schedule.promise != NO_TIME
    return {GANGS: float(promised.sum()), LATE: float((schedule.start > schedule.promise)[promised].sum())}


def _by_block(over: Ints, site: Any, response: Any) -> Numbers:
    found = {}
    for number in range((WARMUP + COMPLETIONS) // BLOCK):
        rows = over[number * BLOCK : (number + 1) * BLOCK]
        rows = rows[site[rows] >= 0]
        found[block(number)] = float(response[rows].mean()) if len(rows) else float("nan")
    return found


def _against_reference(log: Workload, schedule: Schedule, seed: int) -> Numbers:
    """The mean wait, and that of a reference simulation of each site; without gangs."""
    jobs, total = log.jobs, 0
    for site in range(len(jobs.site.names)):
        rows = np.flatnonzero(jobs.site.codes == site)
        servers = int((log.platform.site == site).sum())
        total += sum(join_shortest_queue(jobs.submit[rows].tolist(), jobs.runtime[rows].tolist(), servers, seed))
    mine = (schedule.start - jobs.submit).astype(np.float64).mean() / SECOND
    return {WAIT: float(mine), REFERENCE: total / len(jobs.submit) / SECOND}
