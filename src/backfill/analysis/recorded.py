"""The schedule recorded in a log, and whether the stated machine can explain it.

A recorded wait determines when a job really started. Two observations then contradict a machine of the stated size: the
jobs running at one time held more than it has, or jobs waited although each of them would have fitted. No policy that
starts the first job of its queue when it fits causes the second kind of wait. On several nodes, and with licences, sums
do not decide whether a job fits, so only the first is checked there.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from backfill.analysis.series import Steps
from backfill.model.platform import Platform
from backfill.model.units import SECOND, amount
from backfill.model.workload import Ints, Workload, total

OVER_MAX = 0.01  # of the time, more processors may be held than exist: clocks are not exact
IDLE_MAX = 0.5  # of all waiting may fall in times when every waiting job would have fitted
LATENCY = 60 * SECOND  # a wait this short is the time between two scheduler passes, and contradicts nothing


@dataclass(frozen=True, eq=False, slots=True)
class Recorded:
    """The real runs of the jobs with a recorded wait; times in microseconds, arrays of shape (such jobs,)."""

    rows: Ints  # of the workload
    submit: Ints
    start: Ints
    end: Ints
    procs: Ints

    @classmethod
    def of(cls, workload: Workload) -> "Recorded | None":
        """Return the schedule that the log recorded; None if no job has a wait, or if submit times were changed."""
        jobs = workload.jobs
        rows = np.flatnonzero(jobs.waited >= 0)
        if not len(rows) or workload.chosen.get("load", 1) != 1:
            return None
        start = jobs.submit[rows] + jobs.waited[rows]
        return cls(rows, jobs.submit[rows], start, start + jobs.runtime[rows] - workload.dead_time, jobs.procs[rows])

    @property
    def held(self) -> Steps:
        """The processors held over time."""
        return Steps.of(self.start, self.end, self.procs)


@dataclass(frozen=True, slots=True)
class Explained:
    """The verdict on whether a machine of `cpus` processors explains the recorded schedule."""

    cpus: int
    jobs: int  # with a recorded wait
    most_held: int  # processors at one instant
    over_share: float  # of the time with running jobs: more of the resource `over` was held than exists
    idle_share: float | None  # of all waiting of more than a minute: while each waiting job would have fitted
    over: str  # the resource that was exceeded for the longest time
    most_of_it: int  # the most of it held at one instant

    @property
    def holds(self) -> bool:
        """Return whether it is worth comparing a simulation of this machine with the recorded waits."""
        return self.over_share <= OVER_MAX and (self.idle_share or 0.0) <= IDLE_MAX

    def sentence(self) -> str:
        """Return a sentence on whether the log fits the machine. If it does, its waits may still have other causes."""
        if self.holds:
            limits = "" if self.idle_share is not None else ", judged by the sum of its cpus alone"
            return f"the waits of this log fit a machine of {self.cpus:,} cpus{limits}"
        against, hint = [], ""
        if self.over_share > OVER_MAX:
            more = "more" if self.over == "cpus" else f"more {self.over} than the machine has"
            peak = amount(self.over, self.most_of_it)
            hint = ". Check --cpus" if self.over == "cpus" else ". Check the platform"
            against.append(f"its jobs held {more} {_percent(self.over_share)} of the time (peak {peak})")
        if self.idle_share is not None and self.idle_share > IDLE_MAX:
            against.append(
                f"{_percent(self.idle_share)} of all waiting fell in times when every waiting job would have fitted"
            )
        return f"this log does not fit a machine of {self.cpus:,} cpus: {', and '.join(against)}{hint}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        names = ("cpus", "jobs", "most_held", "over", "over_share", "idle_share")
        return {**{name: getattr(self, name) for name in names}, "holds": self.holds, "sentence": self.sentence()}


def explain(workload: Workload, machine: Platform | int) -> Explained | None:
    """Compare the recorded schedule with a platform, or a pool of `machine` cpus; None if the log has no waits."""
    recorded = Recorded.of(workload)
    if recorded is None:
        return None
    times, place = np.unique(np.concatenate([recorded.submit, recorded.start, recorded.end]), return_inverse=True)
    submit, start, end = np.split(place, 3)
    spans = np.diff(times, append=times[-1:]).astype(np.float64)
    amounts, sums_tell = _amounts(workload, machine)
    needs = {name: demand[recorded.rows] for name, (demand, _) in amounts.items()}
    held = {name: _on(len(times), start, end, need) for name, need in needs.items()}
    too_much = {name: float(spans[held[name] > there].sum()) for name, (_, there) in amounts.items()}
    idle_share = None
    if sums_tell:
        room = np.ones(len(times), np.bool_)  # for each waiting job, of every resource
        for name, (_, there) in amounts.items():
            largest = _largest_waiting(len(times), submit, start, needs[name])
            room &= (largest == 0) | (largest <= there - held[name])
        late = recorded.start - recorded.submit > LATENCY
        idle = room & (_on(len(times), submit, start, 1) > 0)
        until = np.zeros(len(times))  # idle time before each of the times
        np.cumsum(np.where(idle, spans, 0.0)[:-1], out=until[1:])
        waited = total((recorded.start - recorded.submit)[late])
        idle_share = float((until[start[late]] - until[submit[late]]).sum()) / waited if waited else 0.0
    busy = float(spans[held["cpus"] > 0].sum())
    over = max(too_much, key=lambda name: too_much[name])
    return Explained(
        cpus=amounts["cpus"][1],
        jobs=len(recorded.rows),
        most_held=int(held["cpus"].max()),
        over_share=too_much[over] / busy if busy else 0.0,
        idle_share=idle_share,
        over=over,
        most_of_it=int(held[over].max()),
    )


def _amounts(workload: Workload, machine: Platform | int) -> tuple[dict[str, tuple[Ints, int]], bool]:
    """Return the requests and capacity of each checked resource; and whether sums decide which jobs fit."""
    jobs = workload.jobs
    if not isinstance(machine, Platform):
        return {"cpus": (jobs.procs, machine)}, True
    if len(machine.nodes) > 1 or len(jobs.licences.items):
        return {"cpus": (jobs.procs, machine.cpus)}, False
    capacity = dict(zip(machine.resources, machine.capacity[0].tolist(), strict=True))
    needs = {name: jobs.tasks * jobs.demand[:, k] for k, name in enumerate(workload.resources)}
    return {name: (need, capacity[name]) for name, need in needs.items() if name in capacity}, True


def _on(times: int, begin: Ints, end: Ints, weight: Ints | int) -> Ints:
    """Return the sum of `weight` over [begin, end), at each of `times` instants; begin and end are indices of them."""
    change = np.zeros(times, np.int64)
    np.add.at(change, begin, weight)
    np.subtract.at(change, end, weight)
    return np.cumsum(change)


def _largest_waiting(times: int, submit: Ints, start: Ints, need: Ints) -> Ints:
    """Return an upper bound of the largest request of a waiting job: sizes count as the next power of 2.

    It is never too small, so `idle_share` is never too large, and one pass per power of 2 computes it.
    """
    waited = start > submit
    power = np.frexp(np.maximum(need - 1, 0).astype(np.float64))[1]
    largest = np.zeros(times, np.int64)
    waited &= need > 0
    for each in np.flatnonzero(np.bincount(power[waited])).tolist():
        rows = waited & (power == each)
        largest[_on(times, submit[rows], start[rows], 1) > 0] = need[rows].max()
    return largest


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"
