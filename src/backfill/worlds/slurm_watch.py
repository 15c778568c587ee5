"""The policy `slurm` while somebody watches: after each pass, what its last backfill cycle decided about each job."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from backfill.compiler.view import View
from backfill.core.once import arranger
from backfill.core.policy import Facts, Policy
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Ints, Jobs, Workload
from backfill.policies import get
from backfill.policies.slurm.told import OFF
from backfill.worlds.options import Options
from backfill.worlds.simulated import Begun, begin, world_of
from backfill.worlds.virtual import pass_time

ROOM = 4_000_000  # numbers that the decisions of one cycle may take
WATCHED, WINDOWS = 10_000, 100  # passes that are watched in a long run, and in how many windows
LEAD = 900 * SECOND  # time before a window from which cycles are recorded
NEAR, HURRY = 3600 * SECOND, 16  # time before the submit of a job from which each pass is watched; passes before that


@dataclass(frozen=True, slots=True)
class Plan:
    """The place of a job in the plan of a cycle."""

    begin: int  # microseconds
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decisions:
    """What a cycle decided about jobs by their index in the State: a plan or a verdict (told.py)."""

    at: int  # microseconds; when the cycle began
    plans: Mapping[int, Plan] = field(default_factory=dict)
    verdicts: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def read(cls, record: Ints, at: int) -> "Decisions":
        """Return what stands in the memory `record` of the policy. Of several plans of a job the earliest counts."""
        plans, verdicts = dict[int, Plan](), dict[int, int]()
        for job, begins, nodes in entries(record):
            if not nodes:
                verdicts.setdefault(job, begins)
            elif job not in plans or begins < plans[job].begin:
                plans[job] = Plan(begins, nodes)
        return cls(at, plans, {job: verdict for job, verdict in verdicts.items() if job not in plans})


def entries(record: Ints) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Yield what stands in the memory `record` of the policy, see told.py: (job, begin or verdict, nodes)."""
    numbers, place = record[: record[0] + 1].tolist(), 1
    while place <= numbers[0]:
        job, begins, count = numbers[place : place + 3]
        yield job, begins, tuple(numbers[place + 3 : place + 3 + count])
        place += 3 + count


@dataclass(frozen=True, slots=True)
class Seen:
    """The State after a pass."""

    begun: Begun
    view: Any
    now: int  # microseconds
    decisions: Decisions | None  # of the last cycle; None before the first one of a watched stretch
    watched: bool  # whether this pass belongs to a watched stretch
    cycle: bool  # whether a cycle ran at this pass

    @property
    def waiting(self) -> list[int]:
        """The waiting jobs, in the order of the queue."""
        view = self.view
        jobs = np.flatnonzero(np.asarray(view.queue.waits[: view.jobs.count]) != 0)
        order: list[int] = jobs[np.lexsort((jobs, view.jobs.submit[jobs], view.own.key[jobs]))].tolist()
        return order


def recording(policy: Policy, most: int = ROOM) -> Policy:
    """Return the policy with memory for the decisions of a cycle, at most so many numbers, for the reasons of jobs, and
    for nodes that are completing a job.
    """

    def facts(params: Mapping[str, float], platform: Platform, jobs: Jobs | None, asked: Ints | None) -> Facts:
        assert policy.facts is not None
        known = policy.facts(params, platform, jobs, asked)
        room = 1 + (0 if jobs is None else min(len(jobs) * (9 + len(platform.nodes)), most))
        sizes = {"record": room, "reason": 0 if jobs is None else len(jobs), "closed": len(platform.nodes)}
        return Facts(known.params, {**known.memory, **{name: np.zeros(n, np.int64) for name, n in sizes.items()}})

    return replace(policy, facts=facts)


def watch_job(
    workload: Workload, platform: Platform, params: Mapping[str, float | str], options: Options, row: int
) -> Iterator[tuple[Seen, int]]:
    """Run the policy once more and yield the State after each pass from the submit of a job to its start.

    With its index in the State.
    """
    policy = recording(get("slurm"))
    begun = begin(workload, platform, policy, params, options, None, False)
    state, world, arrange = begun.state, world_of(begun, options, policy), arranger(policy)
    view: Any = View(state, policy.layout)
    job, submit, decisions = int(begun.place[row]), int(workload.jobs.submit[row]), None
    while True:
        near = int(state.now) >= submit - NEAR
        view.own.record[0] = 0 if near else OFF
        before = int(view.own.cycle_end[0])
        if not pass_time(policy, arrange, state, world, 1 if near else HURRY):
            return
        cycle = int(view.own.cycle_end[0]) != before
        if near and cycle:
            decisions = Decisions.read(view.own.record, int(state.now))
        if state.jobs.count > job:
            yield Seen(begun, view, int(state.now), decisions, near, cycle), job
            if state.runs.last[job] >= 0:
                return


@dataclass(frozen=True, slots=True)
class Windows:
    """The parts of a run that are watched, evenly spread: from `begin` on, `width` of each `period`. Microseconds."""

    begin: int
    period: int
    width: int

    @classmethod
    def of(cls, begin: int, end: int, passes: int) -> "Windows":
        """Return windows with about WATCHED of the passes between two instants; the whole time if they are fewer."""
        period = max((end - begin) // WINDOWS, 1)
        return cls(begin, period, period if passes <= WATCHED else max(period * WATCHED // passes, 1))

    def before(self, t: int) -> int:
        """Return how much time before an instant is watched."""
        return (t - self.begin) // self.period * self.width + min((t - self.begin) % self.period, self.width)

    def near(self, t: int) -> bool:
        """Return whether an instant lies in a window, or shortly before one."""
        return self.width == self.period or (t - self.begin + LEAD) % self.period < self.width + LEAD


def watch(
    workload: Workload, platform: Platform, params: Mapping[str, float | str], options: Options, windows: Windows
) -> Iterator[Seen]:
    """Run the policy once more and yield after each pass, with the decisions of the last cycle in and near windows."""
    policy = recording(get("slurm"))
    begun = begin(workload, platform, policy, params, options, None, False)
    state, world, arrange = begun.state, world_of(begun, options, policy), arranger(policy)
    view: Any = View(state, policy.layout)
    decisions = None
    while True:
        watched = windows.near(int(state.now))
        view.own.record[0] = 0 if watched else OFF
        before = int(view.own.cycle_end[0])
        if not pass_time(policy, arrange, state, world, 1):
            return
        cycle = int(view.own.cycle_end[0]) != before
        if not watched:
            decisions = None
        elif cycle:
            decisions = Decisions.read(view.own.record, int(state.now))
        yield Seen(begun, view, int(state.now), decisions, watched, cycle)
