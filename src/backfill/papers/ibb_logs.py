"""LANL-CM5, alone and merged with MetaCentrum, as the IBB paper may have used them; one run of all policies.

The readings are those of docs/decisions/0011-ibb-readings.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from backfill.analysis.interval import Estimate
from backfill.analysis.metrics import Counted
from backfill.analysis.paired import Change, PairedLog, pairs_of_log
from backfill.analysis.weeks import WEEK
from backfill.api import run_spec
from backfill.model.errors import WorkloadError
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Workload
from backfill.papers.logs import Log
from backfill.papers.sweep import Numbers
from backfill.spec import RunSpec

LANL, META = "LANL-CM5", "METACENTRUM-2009"
CPUS = 1024
AS_PRINTED, AS_BUILT = 1024, 32  # GiB in total: 1 GB per node, as the paper states; 32 MB per node, as in the real CM-5
LOADS = (0.6, 0.8, 1.0, 1.2, 1.4)
WALLTIMES = ("max", "requested", "exact")
WAIT, RESPONSE, SLOWDOWN, BOUNDED = METRICS = (
    "mean_wait_s", "mean_response_s", "mean_slowdown", "mean_bounded_slowdown",
)  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class Row:
    """The results of one workload under several policies."""

    values: Mapping[str, Numbers]  # by policy
    changes: Mapping[str, Mapping[str, Estimate]]  # by policy and metric, relative to the first policy
    parts: Mapping[str, Mapping[str, Change]]  # the same changes, if they have an interval


@dataclass(frozen=True, eq=False, slots=True)
class LogSweep:
    """The results over relative loads."""

    found: Mapping[float, Row]

    def value(self, load: float, policy: str, metric: str) -> Estimate | None:
        """Return the value of one log; None if the policy was not run."""
        values = self.found[load].values
        return Estimate.of([values[policy][metric]]) if policy in values else None

    def change(self, load: float, policy: str, metric: str) -> Estimate:
        """Return the change relative to the first policy; without an interval if paired.py gives none."""
        return self.found[load].changes[policy][metric]

    def apart(self, policy: str, one: tuple[float, str], other: tuple[float, str]) -> Estimate:
        """Return the change at one load and metric less that at another, with an interval if both have one."""
        changes = [self.change(load, policy, metric).mean for load, metric in (one, other)]
        parts = [self.found[load].parts.get(policy, {}).get(metric) for load, metric in (one, other)]
        difference = changes[0] - changes[1]
        if parts[0] is None or parts[1] is None:
            return Estimate(difference, -np.inf, np.inf, 1)
        return Estimate(difference, *parts[0].apart(parts[1]), 1)

    def gain(self, load: float, policy: str, metric: str) -> float:
        """Return the relative reduction compared with the first policy."""
        return -self.change(load, policy, metric).mean


@dataclass(frozen=True, slots=True)
class LogTask:
    """The task of running one log, or two merged, at one load under several policies. Logs are sent compressed."""

    logs: tuple[Log, ...]
    load: float  # relative to the log's own
    specs: Mapping[str, RunSpec]  # by policy; the first is the baseline
    walltime: str = "max"
    memory: int = AS_PRINTED
    weeks: int | None = None  # from the beginning; None: all
    later_s: int = 0  # delay of the second log's begin

    @classmethod
    def of(cls, logs: tuple[Log, ...], load: float, policies: Sequence[str], *more: Any, **named: Any) -> "LogTask":
        """Build the task with policies that never kill a job. The other arguments are fields."""
        return cls(logs, load, {text: RunSpec.of(text, overrun="extend") for text in policies}, *more, **named)

    def carry_out(self) -> Row:
        """Simulate all policies on the same workload."""
        log = workload(self.logs, self.walltime, self.weeks, self.later_s).at_load(self.load)
        pool = Platform.pool(CPUS, memory=self.memory * 2**30)
        results = [run_spec(log, pool, spec) for spec in self.specs.values()]
        base, *others = self.specs
        counted = [Counted.of(log, result.schedule) for result in results]
        procs = log.jobs.procs[counted[0].rows]
        paired = PairedLog.of(list(self.specs), counted, procs, CPUS)
        changes: dict[str, dict[str, Estimate]] = {}
        parts: dict[str, dict[str, Change]] = {}
        for i, policy in enumerate(others, 1):
            two = (results[0].metrics, results[i].metrics)
            pairs = pairs_of_log((base, policy), two, (counted[0], counted[i]), procs, CPUS)
            changes[policy] = {
                pair.metric: _estimate(pair.relative, pair.relative_low, pair.relative_high)
                for pair in pairs
                if pair.metric in METRICS
            }
            parts[policy] = {
                metric: paired.change(i, 0, metric)
                for metric, change in changes[policy].items()
                if change.bounded and not isinstance(paired, str)
            }
        kept = (*METRICS, "rejected_jobs")
        numbers = {
            policy: {metric: _number(result.metrics[metric], metric, policy) for metric in kept}
            for policy, result in zip(self.specs, results, strict=True)
        }
        return Row(numbers, changes, parts)


def _number(value: float | None, metric: str, policy: str) -> float:
    """Return a metric that a claim needs. Raises WorkloadError if the log has none."""
    if value is None:
        raise WorkloadError(
            f"{metric} under {policy} is undefined; expected a log of which some jobs run on {CPUS} cpus"
        )
    return float(value)


def _estimate(mean: float | None, low: float | None, high: float | None) -> Estimate:
    if low is None or high is None:
        return Estimate(mean or 0.0, -np.inf, np.inf, 1)
    return Estimate(mean or 0.0, low, high, 1)


@lru_cache(maxsize=4)
def workload(logs: tuple[Log, ...], walltime: str = "max", weeks: int | None = None, later_s: int = 0) -> Workload:
    """Return LANL-CM5, or both logs merged, at relative load 1. Read once per process."""
    lanl, *others = (_first(prepared(each.read(), walltime), weeks) for each in logs)
    return merged(lanl, others[0], later_s) if others else lanl


def prepared(log: Workload, walltime: str) -> Workload:
    """Return the log with walltimes as seen by policies, and its median memory per processor for jobs without one.

    walltime: `max` of the requested and the run time, as `requested`, or `exact`.
    """
    if "memory" not in log.resources:
        raise WorkloadError(f"{log.name}: no job has a memory, and the experiments are about memory")
    jobs, demand = log.jobs, log.jobs.demand.copy()
    unknown = demand[:, 1] == 0
    demand[unknown, 1] = np.median(demand[~unknown, 1])
    seen = {
        "max": np.maximum(jobs.walltime, jobs.runtime),
        "requested": jobs.walltime,
        "exact": jobs.runtime,
    }[walltime]
    return log.with_jobs(jobs.replace(walltime=seen, demand=demand))


def merged(lanl: Workload, other: Workload, later_s: int = 0) -> Workload:
    """Merge both logs from a common begin for the span of the shorter, half of the work from each, at LANL-CM5's load.

    The sizes of LANL-CM5's jobs are scaled, since most of the other's cannot be: they hold one cpu. Time is scaled so
    that both together request the share of the machine that LANL-CM5 alone does. later_s: delay of the other's begin.
    """
    within = min(span(lanl.jobs), span(other.jobs))
    if not within:
        raise WorkloadError(
            f"{lanl.name} and {other.name}: all jobs of one are submitted at once, so neither has a load"
        )
    large, small = (_until(each.jobs, within) for each in (lanl, other))
    scale = work(small) / work(large)
    tasks = np.maximum(1, np.rint(large.tasks * scale)).astype(np.int64)
    jobs = _together(large.replace(tasks=tasks), small.replace(submit=small.submit + later_s * SECOND))
    faster = work(lanl.jobs) / span(lanl.jobs) / (work(jobs) / within)
    note = (
        f"sizes of {lanl.name} x {scale:.3f}, so that each log has half of the work; {len(large):,} + {len(small):,} "
        f"jobs; time / {faster:.3f}, so that both ask for {work(lanl.jobs) / span(lanl.jobs) / CPUS:.3f} of {CPUS} cpus"
    )
    name = f"{lanl.name} + {other.name}"
    return Workload(jobs, name=name, resources=lanl.resources, notes=(note,)).at_load(faster)


def work(jobs: Jobs) -> float:
    """Return the work of all jobs, processors x time, in microseconds."""
    return float((jobs.procs * jobs.runtime.astype(np.float64)).sum())


def span(jobs: Jobs) -> int:
    """Return the time from the first to the last submit."""
    return int(jobs.submit.max() - jobs.submit.min())


def _first(log: Workload, weeks: int | None) -> Workload:
    return log if weeks is None else log.with_jobs(_until(log.jobs, weeks * WEEK))


def _until(jobs: Jobs, within: int) -> Jobs:
    """Return the jobs submitted within a span from the first submit, which becomes time 0."""
    since = jobs.submit - jobs.submit.min()
    rows = np.flatnonzero(since <= within)
    return jobs.take(rows).replace(submit=since[rows])


def _together(a: Jobs, b: Jobs) -> Jobs:
    """Return both tables in one, with new ids."""
    submit, runtime, walltime, tasks, demand = (
        np.concatenate([a[name], b[name]]) for name in ("submit", "runtime", "walltime", "tasks", "demand")
    )
    ids = np.arange(1, len(submit) + 1)
    return Jobs(job=ids, submit=submit, runtime=runtime, walltime=walltime, tasks=tasks, demand=demand)
