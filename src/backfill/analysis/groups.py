"""Metrics by user, group, size and run time, the groups that lose under another policy, and the longest waits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.analysis.metrics import Counted
from backfill.model.schedule import REASONS, Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Floats, Ints, Labels, Workload, total

Codes = NDArray[np.integer[Any]]  # a group per job; -1 is none

MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
# Class -> its upper bound, inclusive; larger values are in the last class.
LARGE = 30  # jobs that a group needs for a meaningful mean
SIZES = {"1 cpu": 1, "2-8 cpus": 8, "9-64 cpus": 64, "65-512 cpus": 512, "513+ cpus": None}
RUNS = {
    "up to 1 min": MINUTE,
    "1-10 min": 10 * MINUTE,
    "10-60 min": HOUR,
    "1-6 h": 6 * HOUR,
    "6-24 h": 24 * HOUR,
    "over 24 h": None,
}
LONGEST = 10  # waits that are reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The counted jobs by one property, under every policy; only groups with at least one job."""

    by: str  # user, group, size, run time, or size x run time
    names: tuple[str, ...]  # users and groups: by number of jobs, descending; classes: from small to large
    jobs: tuple[int, ...]
    cpu_hours: tuple[float, ...]  # held, under the first policy
    mean_wait_s: tuple[tuple[float, ...], ...]  # [policy][group]
    mean_bounded_slowdown: tuple[tuple[float, ...], ...]  # [policy][group]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """The jobs and users that are worse off under policy a than under b; times in seconds."""

    a: str
    b: str
    jobs: int
    later: int  # jobs that start later under a
    earlier: int
    mean_delay_s: float | None  # of those that start later
    max_delay_s: float | None
    users: int  # with counted jobs
    users_longer: int  # with a longer mean wait under a
    worst_user: str | None  # largest growth of the mean wait, if positive; among those with LARGE jobs or more, if any
    worst_user_s: float | None  # growth of its mean wait
    worst_class: str | None  # size x run time class with the largest growth of the mean wait, if positive
    worst_class_s: float | None

    @property
    def later_share(self) -> float | None:
        """The share of jobs that start later under a."""
        return self.later / self.jobs if self.jobs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LongWait:
    """A job with one of the longest waits under a policy, and the reason of its start."""

    policy: str
    job: str
    user: str
    cpus: int
    submit_s: float
    wait_s: float
    run_s: float
    reason: str


def groups(workload: Workload, counted: Sequence[Counted]) -> list[Groups]:
    """Return waits by user and group if the log names them, and by classes of size and run time; counted[policy]."""
    rows, procs = counted[0].rows, workload.jobs.procs[counted[0].rows]
    tables = []
    for by, labels in (("user", workload.jobs.user), ("group", workload.jobs.group)):
        codes = labels.codes[rows]
        if (codes >= 0).any():
            order = np.argsort(-np.bincount(codes[codes >= 0], minlength=len(labels.names)), kind="stable")
            tables.append(_groups(by, codes, labels.names, order, procs, counted))
    for by, labels in classes(workload, counted[0]).items():
        tables.append(_groups(by, labels.codes, labels.names, np.arange(len(labels.names)), procs, counted))
    return tables


def classes(workload: Workload, counted: Counted) -> dict[str, Labels]:
    """Return the classes of the counted jobs by size, by run time, and by both."""
    size = class_of(workload.jobs.procs[counted.rows], SIZES)
    run = class_of(counted.run, RUNS)
    both = (size.codes * len(RUNS) + run.codes).astype(np.int32)
    return {
        "size": size,
        "run time": run,
        "size x run time": Labels(both, tuple(f"{s}, {r}" for s in SIZES for r in RUNS)),
    }


def fairness(
    workload: Workload, names: tuple[str, str], a: Counted, b: Counted, by_class: Labels | None = None
) -> Fairness:
    """Compare policy a with b, which ran the same jobs.

    by_class: "size x run time" of `classes` for b, if the caller compares b with several policies.
    """
    delay = a.start - b.start
    later = delay[delay > 0]
    users = workload.jobs.user.take(a.rows)
    by_user = _growth(users, a, b)
    both = classes(workload, b)["size x run time"] if by_class is None else by_class
    worst_user, worst_user_s = _worst(users, by_user)
    worst_class, worst_class_s = _worst(both, _growth(both, a, b))
    return Fairness(
        a=names[0],
        b=names[1],
        jobs=len(delay),
        later=len(later),
        earlier=int((delay < 0).sum()),
        mean_delay_s=total(later) / len(later) / SECOND if len(later) else None,
        max_delay_s=int(later.max()) / SECOND if len(later) else None,
        users=len(np.unique(users.codes[users.codes >= 0])),
        users_longer=int((by_user > 0).sum()),
        worst_user=worst_user,
        worst_user_s=worst_user_s,
        worst_class=worst_class,
        worst_class_s=worst_class_s,
    )


def longest_waits(policy: str, workload: Workload, schedule: Schedule, counted: Counted) -> list[LongWait]:
    """Return the longest waits, in descending order, ties in file order; jobs that did not wait are omitted."""
    wait, run = counted.wait, counted.run
    least = np.partition(wait, -LONGEST)[-LONGEST] if len(wait) > LONGEST else 0
    longest = np.flatnonzero(wait >= least)
    order = longest[np.argsort(-wait[longest], kind="stable")[:LONGEST]]
    return [
        LongWait(
            policy=policy,
            job=str(schedule.job[row]),
            user=workload.jobs.user[row],
            cpus=int(workload.jobs.procs[row]),
            submit_s=int(counted.submit[i]) / SECOND,
            wait_s=int(wait[i]) / SECOND,
            run_s=int(run[i]) / SECOND,
            reason=REASONS[schedule.reason[row]],
        )
        for i, row in zip(order.tolist(), counted.rows[order].tolist(), strict=True)
        if wait[i] > 0
    ]


def class_of(values: Ints, bounds: dict[str, int | None]) -> Labels:
    """Return the class of each value; bounds: name -> largest value in it, None: all larger values."""
    edges = [bound for bound in bounds.values() if bound is not None]
    return Labels(np.searchsorted(edges, values).astype(np.int32), tuple(bounds))


def _sums(codes: Codes, values: Ints | Floats, groups: int) -> Floats:
    """Return the sum of a value by group; code -1 belongs to none."""
    known = codes >= 0
    return np.bincount(codes[known], values[known], groups).astype(np.float64)


def _groups(
    by: str, codes: Codes, names: tuple[str, ...], order: Ints, procs: Ints, counted: Sequence[Counted]
) -> Groups:
    size = len(names)
    jobs = _sums(codes, np.ones(len(codes)), size)
    shown = order[jobs[order] > 0]

    def means(values: Ints | Floats, unit: float = 1) -> tuple[float, ...]:
        return tuple((_sums(codes, values, size)[shown] / jobs[shown] / unit).tolist())

    held = counted[0].held.astype(np.float64) * procs
    return Groups(
        by=by,
        names=tuple(names[i] for i in shown.tolist()),
        jobs=tuple(jobs[shown].astype(np.int64).tolist()),
        cpu_hours=tuple((_sums(codes, held, size)[shown] / HOUR).tolist()),
        mean_wait_s=tuple(means(each.wait, SECOND) for each in counted),
        mean_bounded_slowdown=tuple(means(each.bounded_slowdown) for each in counted),
    )


def _growth(labels: Labels, a: Counted, b: Counted) -> Floats:
    """Return the growth of the mean wait of each group under a, in seconds."""
    jobs = _sums(labels.codes, np.ones(len(labels)), len(labels.names))
    return _sums(labels.codes, a.wait - b.wait, len(labels.names)) / np.maximum(jobs, 1) / SECOND


def _worst(labels: Labels, growth: Floats) -> tuple[str, float] | tuple[None, None]:
    """Return the group whose mean wait grew most, and its growth, if positive; a large group, if there is any."""
    jobs = _sums(labels.codes, np.ones(len(labels)), len(labels.names))
    growth = np.where(jobs >= LARGE, growth, 0.0) if (jobs >= LARGE).any() else growth
    worst = int(growth.argmax()) if growth.max(initial=0) > 0 else None
    return (None, None) if worst is None else (labels.names[worst], float(growth[worst]))
