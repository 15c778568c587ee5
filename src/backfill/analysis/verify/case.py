"""The input of the checker (a schedule of any program), its layout as a `Case`, and the report of violations.

Shared helpers of the rule modules follow: texts as codes, and the requests of jobs in the platform's terms.
No rule is checked here.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from backfill.analysis.outages import Outages, Replay
from backfill.model.clock import Clock, exact_text
from backfill.model.platform import Platform
from backfill.model.schedule import NO_TIME, PENDING, STATES
from backfill.model.workload import Ints, Ragged, Workload

SHOWN = 20  # violations of one rule that are listed

Overrun = Literal["kill", "extend"]
Lost = Literal["requeue", "fail"]
Ties = Literal["batch", "step"]
Mask = NDArray[np.bool_]


class _Lines(Protocol):
    """The columns of jobs or runs in any program's schedule."""

    @property
    def job(self) -> Any: ...
    @property
    def start(self) -> Ints: ...
    @property
    def state(self) -> Any: ...
    @property
    def reason(self) -> Any: ...
    @property
    def node(self) -> Any: ...


class RunColumns(_Lines, Protocol):
    """The runs of any program's schedule, a row each: columns as in `ScheduleColumns`; `kept` is their progress.

    turns: (since, rows as bits, number of rows), concatenated, of runs that share processors.
    """

    @property
    def end(self) -> Ints: ...  # noqa: D102
    @property
    def kept(self) -> Ints: ...  # noqa: D102
    @property
    def turns(self) -> Ragged | None: ...  # noqa: D102


class ScheduleColumns(_Lines, Protocol):
    """Any program's schedule: columns of equal length, int64 microseconds (NO_TIME if blank); None = no such column.

    `state` holds texts of STATES, `reason` texts of REASONS if the job ran, `node` a name or `a*2;b*3`.
    """

    @property
    def submit(self) -> Ints | None: ...  # noqa: D102
    @property
    def end(self) -> Ints | None: ...  # noqa: D102
    @property
    def runs(self) -> RunColumns | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule; `str()` is one line. If `job` is empty, it only counts the violations that are not shown."""

    rule: str
    job: str
    time: int | None  # microseconds
    text: str
    clock: Clock | None = field(default=None, repr=False, compare=False)  # of the log, for the date of `time`

    def __str__(self) -> str:
        time = "" if self.time is None else f" at {exact_text(self.time, self.clock)}"
        line = f"{self.rule}: job {self.job}{time}: {self.text}" if self.job else f"{self.rule}: {self.text}"
        return "".join(c if c.isprintable() else "?" for c in line)


@dataclass(slots=True)
class Report:
    """The violations found, at most SHOWN of a rule in full; all are counted."""

    clock: Clock | None = None  # of the log
    shown: dict[str, list[Violation]] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)

    def date(self, time: object) -> str:
        """Format an instant in microseconds for a message."""
        return exact_text(int(cast(int, time)), self.clock)

    def each(self, rule: str, broken: Mask) -> list[int]:
        """Count the indices at which `broken` holds, and return those that will be shown."""
        places: list[int] = np.flatnonzero(broken).tolist()
        self.count[rule] += len(places)
        return places[: SHOWN - len(self.shown.setdefault(rule, []))]

    def add(self, rule: str, job: object, time: int | None, text: str) -> None:
        """Record one of the violations that `each` returned."""
        self.shown[rule].append(Violation(rule, str(job), None if time is None else int(time), text, self.clock))

    def violations(self) -> list[Violation]:
        """Return all violations that are shown, rule by rule, and after each rule the number of the others."""
        lines = []
        for rule, shown in self.shown.items():
            lines += shown
            if self.count[rule] > len(shown):
                lines.append(Violation(rule, "", None, f"and {self.count[rule] - len(shown)} more"))
        return lines


@dataclass(frozen=True, eq=False, slots=True)
class CheckedRuns:
    """The runs of a schedule in order of (job, start); if it states none, one run for each job that ran."""

    job: Ints  # row of the workload
    start: Ints
    end: Ints  # NO_TIME if unstated
    state: Ints  # -1 if unstated, -2 if unknown
    reason: Ints  # likewise
    kept: Ints  # NO_TIME if unstated
    line: Ints  # of the table that states the run

    def __len__(self) -> int:
        return len(self.job)

    @property
    def first(self) -> Mask:
        """The runs that are the first of their jobs."""
        first: Mask = np.append(True, self.job[1:] != self.job[:-1])[: len(self)]
        return first

    @property
    def last(self) -> Mask:
        """The runs that are the last of their jobs."""
        last: Mask = np.append(self.job[1:] != self.job[:-1], True)[: len(self)]
        return last


@dataclass(frozen=True, eq=False, slots=True)
class Case:
    """A schedule arranged by the rows of its workload, with the violations found so far."""

    workload: Workload
    platform: Platform
    line: Ints  # shape (jobs,): the schedule's line about a job; -1 = none
    start: Ints  # of the last run
    ran: Mask
    runs: CheckedRuns
    placed: bool  # whether nodes are known; if not, everything is on one node with the sums
    seat_run: Ints  # shape (seats,): one per run and node
    seat_node: Ints  # -1 = not a node of the platform
    seat_tasks: Ints
    place: Any  # the text of a run's place, by its index in `runs`
    report: Report
    cancelled: Ints  # when an event cancels each job; NEVER if none does
    pending: Mask  # the jobs that never start, as stated by the schedule
    outages: Outages | None = None
    replay: Replay | None = None

    @property
    def seat_job(self) -> Ints:
        """The workload row on each seat."""
        return self.runs.job[self.seat_run]

    def column(self, values: Any, missing: int = NO_TIME) -> Ints:
        """Return a column of the schedule by workload row."""
        picked: Ints = np.append(np.asarray(values, np.int64), missing)[self.line]  # -1 selects the appended value
        return picked


def codes_of(column: Any, names: tuple[str, ...]) -> Ints:
    """Return indices into `names`; -1 for an empty text, -2 for an unknown one."""
    values = np.asarray(column)
    if values.dtype.kind in "iu":
        return np.where((values >= -1) & (values < len(names)), values, -2).astype(np.int64)
    code = {"": -1} | {name: i for i, name in enumerate(names)}
    return np.fromiter((code.get(text, -2) for text in values.tolist()), np.int64, len(values))


def said_pending(case: Case, states: Any) -> Mask:
    """Return the jobs whose state is PENDING. states: the column of the schedule, if it has one."""
    if states is None:
        return np.zeros(len(case.line), np.bool_)
    pending: Mask = np.append(codes_of(states, STATES) == PENDING, False)[case.line]
    return pending


def items_of(ragged: Ragged, rows: Ints) -> tuple[Ints, Ints]:
    """Return the indices of the items of these rows, concatenated, and for each item the index of its row in `rows`."""
    count = ragged.first[rows + 1] - ragged.first[rows]
    owner = np.repeat(np.arange(len(rows)), count)
    skipped = ragged.first[rows] - (np.cumsum(count) - count)
    return np.arange(len(owner)) + skipped[owner], owner


def demand_of(workload: Workload, platform: Platform) -> Ints:
    """Return the demand of a task of each job, in the order of the platform's resources."""
    demand = np.zeros((len(workload), len(platform.resources)), np.int64)
    for k, name in enumerate(platform.resources):
        if name in workload.resources:
            demand[:, k] = workload.jobs.demand[:, workload.resources.index(name)]
    return demand


def limited(workload: Workload, platform: Platform) -> tuple[list[str], Ints, Ints]:
    """Return the resources that jobs request and the platform limits, the demand per task and the capacity per node."""
    names = [name for name in workload.resources if platform.bounds(name)]
    demand = workload.jobs.demand[:, [workload.resources.index(name) for name in names]]
    place = {name: k for k, name in enumerate(platform.resources)}
    capacity = np.pad(platform.capacity, ((0, 0), (0, 1)))  # the last column: resources that the platform lacks
    return names, demand, capacity[:, [place.get(name, -1) for name in names]]


def licence_index(workload: Workload, platform: Platform) -> Ints:
    """Return the platform's index of each licence of the workload; -1 if it has none."""
    place = {name: i for i, name in enumerate(platform.licences)}
    return np.array([place.get(name, -1) for name in workload.licences], np.int64)


def copies_held(case: Case) -> tuple[Ints, Ints, Ints]:
    """Return the (run, licence, copies) of each run and each licence of the platform that it holds."""
    index, run = items_of(case.workload.jobs.licences, case.runs.job)
    licence = licence_index(case.workload, case.platform)[case.workload.jobs.licences.items[index]]
    known = licence >= 0
    return run[known], licence[known], case.workload.jobs.licences.counts[index[known]]


def meets(platform: Platform, constraint: str) -> list[bool]:
    """Return whether each node has the features that a constraint requires."""
    features = platform.features or [()] * len(platform.nodes)
    there = [{node, *each} for node, each in zip(platform.nodes, features, strict=True)]
    alternatives = [[term.strip() for term in part.split("&")] for part in constraint.split("|")]
    if not platform.features:
        alternatives = [[term for term in terms if term.lstrip("!") in platform.nodes] for terms in alternatives]
    return [
        any(all((term[1:] not in has) if term[0] == "!" else (term in has) for term in terms) for terms in alternatives)
        for has in there
    ]
