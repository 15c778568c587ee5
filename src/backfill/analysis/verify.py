"""An independent checker of any schedule. It shares no code with what makes schedules, so it cannot share a mistake.

| rule | what must hold |
| --- | --- |
| `jobs` | every job of the workload is in the schedule, exactly once, and no other |
| `submit` | a submit that the schedule states is the workload's |
| `start` | no start before the submit, before `eligible`, or before the end (and think time) of what it comes after |
| `end` | end = start + the time the job holds its node: run time / speed, cut at the walltime where jobs are killed |
| `state` | TIMEOUT exactly for killed jobs (a run just as long as the walltime is none), REJECTED without a start |
| `reason` | the reason of a start is one of the closed list |
| `rejected` | a job without a start could not run even alone with all that there ever is, or comes after such a one |
| `pending` | jobs wait for ever only where one of them could not run even alone with what the events leave in the end |
| `runs` | runs of a job do not overlap, it runs again exactly after it was lost or preempted, its row is its last run |
| `progress` | a lost run keeps nothing, no run more than its length, and a job that completes was run whole |
| `lost` | a run is lost exactly where capacity that it holds goes away; where some can stay, the last to start go |
| `cancel` | a job is CANCELLED exactly where an event cancels it: it ends then, and never starts after it |
| `window` | no job starts that by its walltime would hold what a window takes that was known by then |
| `node` | the nodes exist, and the tasks on them are all the job's tasks |
| `spread` | a gang that must stay on one node, or on one site, does |
| `site` | a job pinned to a site sits there |
| `constraint` | a job sits only on nodes with the features that it asks for |
| `host` | a node holds no job with a licence that it may not host |
| `capacity` | no resource of a node is held beyond its capacity at any instant, less outages and windows |
| `licence` | no floating licence is held beyond its copies at any instant, less windows |
| `promise` | no job starts later than the first start promised to it (only with `promises_bind`) |

A job holds what it holds on [start, end): one that starts when another ends may take its place. Without events, and
where each job ran once, a job and its run are the same. Events change walltimes and capacities as they say; the checker
reads them by itself (`outages.py`).
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from backfill.analysis.outages import Holders, Outages, Replay, Window
from backfill.model.events import BoundEvents, Events
from backfill.model.platform import Platform
from backfill.model.schedule import (
    CANCELLED,
    COMPLETED,
    NO_TIME,
    NODE_FAIL,
    PENDING,
    PREEMPTED,
    REASONS,
    REJECTED,
    STATES,
    TIMEOUT,
    Schedule,
    place_text,
)
from backfill.model.units import NEVER, seconds_text
from backfill.model.workload import SPREAD, Floats, Ints, Ragged, Workload

SHOWN = 20  # violations of one rule that are told in full

Overrun = Literal["kill", "extend"]
Lost = Literal["requeue", "fail"]
Mask = NDArray[np.bool_]

_LOW = 0xFFFFFFFF  # the lower half of 64 bits


class RunColumns(Protocol):
    """The runs of any program's schedule, a row each: columns as in `ScheduleColumns`; `kept` is their progress."""

    @property
    def job(self) -> Any: ...  # noqa: D102
    @property
    def start(self) -> Ints: ...  # noqa: D102
    @property
    def end(self) -> Ints: ...  # noqa: D102
    @property
    def state(self) -> Any: ...  # noqa: D102
    @property
    def reason(self) -> Any: ...  # noqa: D102
    @property
    def node(self) -> Any: ...  # noqa: D102
    @property
    def kept(self) -> Ints: ...  # noqa: D102


class ScheduleColumns(Protocol):
    """Any program's schedule: columns of equal length, int64 microseconds (NO_TIME where blank); None = no such column.

    `state` holds texts of STATES, `reason` texts of REASONS where the job ran, `node` a name or `a*2;b*3`.
    """

    @property
    def job(self) -> Any: ...  # noqa: D102
    @property
    def submit(self) -> Ints | None: ...  # noqa: D102
    @property
    def start(self) -> Ints: ...  # noqa: D102
    @property
    def end(self) -> Ints | None: ...  # noqa: D102
    @property
    def state(self) -> Any: ...  # noqa: D102
    @property
    def reason(self) -> Any: ...  # noqa: D102
    @property
    def node(self) -> Any: ...  # noqa: D102
    @property
    def runs(self) -> RunColumns | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule; `str()` is one line. Where `job` is empty it only counts those that are not told."""

    rule: str
    job: str
    time: int | None  # microseconds
    text: str

    def __str__(self) -> str:
        time = "" if self.time is None else f" at {seconds_text(self.time)} s"
        line = f"{self.rule}: job {self.job}{time}: {self.text}" if self.job else f"{self.rule}: {self.text}"
        return "".join(c if c.isprintable() else "?" for c in line)


def verify(
    workload: Workload,
    platform: Platform,
    schedule: Schedule | ScheduleColumns,
    *,
    overrun: Overrun = "kill",
    promises_bind: bool = False,
    events: Events | BoundEvents | None = None,
    lost: Lost = "requeue",
    overhead: int = 0,
    seen: Ints | None = None,
) -> list[Violation]:
    """Every rule that the schedule breaks, empty when it is lawful; at most 20 of a rule in full, then their count.

    Columns that the schedule does not have are not checked: an end is then computed, and without nodes only the sums
    over the platform are compared (which on a platform of one node is everything). Of a resource or a licence that the
    platform does not name it has none, but a memory that it does not name is unlimited. A licence that stays on nodes
    is a resource there: a job of one task may ask for it as for any licence, a gang by a column, per task.
    Where a speed is not 1, an end may differ by a microsecond for each run, the rounding of a division.

    events: what happened besides. lost: what becomes of a job whose run is lost. overhead: microseconds that a run
    takes longer because its job was preempted before it. seen: the walltimes that the policy was told, where they are
    not those of the workload; by them a job must fit beside windows.
    """
    if isinstance(events, Events):
        events = events.bind(workload, platform)
    case = _read(_with_node_licences(workload, platform), platform, schedule, events)
    lengths = _lengths(case, overrun, overhead)
    outcome = _outcomes(case, lengths, schedule.runs is not None)
    _check_starts(case, schedule, promises_bind)
    until = _check_ends(case, schedule, lengths, outcome)
    waited = _lost_suspended(case, outcome, lost)
    _check_states(case, schedule, lengths, outcome, lost, waited)
    if schedule.runs is not None or case.outages is not None:
        _check_runs(case, schedule, outcome, lost, waited)
        _check_progress(case, lengths, outcome)
    if case.outages is not None:
        _check_pending(case)
        _check_lost(case)
        _check_cancelled(case, until)
        _check_windows(case, until, case.workload.jobs.walltime if seen is None else seen, lengths)
    _check_after(case, until)
    _check_rejected(case, schedule)
    if case.placed:
        _check_nodes(case)
        _check_hosts(case)
    _check_capacity(case, until)
    _check_licences(case, until)
    return case.report.violations()


def _with_node_licences(workload: Workload, platform: Platform) -> Workload:
    """Jobs of one task ask for licences that stay on nodes by name; here these are resources, as on the platform."""
    bound = [x for x, name in enumerate(workload.licences) if name in platform.resources[1:]]
    if not bound:
        return workload
    jobs, resources, lists = workload.jobs, list(workload.resources), []
    demand = jobs.demand.copy()
    for name in (workload.licences[x] for x in bound):
        if name not in resources:
            resources.append(name)
            demand = np.pad(demand, ((0, 0), (0, 1)))
    for job in range(len(jobs)):
        single = jobs.tasks[job] == 1
        items = jobs.licences[job].tolist()
        for x in items:
            if single and x in bound:
                demand[job, resources.index(workload.licences[x])] += 1
        lists.append([x for x in items if not (single and x in bound)])
    jobs = jobs.replace(demand=demand, licences=Ragged.of(lists))
    return replace(workload, jobs=jobs, resources=tuple(resources))


@dataclass(slots=True)
class _Report:
    told: dict[str, list[Violation]] = field(default_factory=dict)
    count: Counter[str] = field(default_factory=Counter)

    def each(self, rule: str, broken: Mask) -> list[int]:
        """Where `broken` holds, as far as it will be told; all are counted."""
        found: list[int] = np.flatnonzero(broken).tolist()
        self.count[rule] += len(found)
        return found[: SHOWN - len(self.told.setdefault(rule, []))]

    def add(self, rule: str, job: object, time: int | None, text: str) -> None:
        self.told[rule].append(Violation(rule, str(job), None if time is None else int(time), text))

    def violations(self) -> list[Violation]:
        found = []
        for rule, told in self.told.items():
            found += told
            if self.count[rule] > len(told):
                found.append(Violation(rule, "", None, f"and {self.count[rule] - len(told)} more"))
        return found


@dataclass(frozen=True, eq=False, slots=True)
class _Runs:
    """The runs of a schedule in order of (job, start); where it states none, each job that ran did so once."""

    job: Ints  # row of the workload
    start: Ints
    end: Ints  # NO_TIME where it is not stated
    state: Ints  # -1 where it is not stated, -2 for none of the known
    reason: Ints  # likewise
    kept: Ints  # NO_TIME where it is not stated
    line: Ints  # of the table that states it

    def __len__(self) -> int:
        return len(self.job)

    @property
    def first(self) -> Mask:
        """Which are the first of their jobs."""
        first: Mask = np.append(True, self.job[1:] != self.job[:-1])[: len(self)]
        return first

    @property
    def last(self) -> Mask:
        """Which are the last of their jobs."""
        last: Mask = np.append(self.job[1:] != self.job[:-1], True)[: len(self)]
        return last


@dataclass(frozen=True, eq=False, slots=True)
class _Case:
    """A schedule laid out by the rows of its workload, and what is wrong with it so far."""

    workload: Workload
    platform: Platform
    line: Ints  # shape (jobs,): the schedule's line about a job; -1 = none
    start: Ints  # of the last run
    ran: Mask
    runs: _Runs
    placed: bool  # whether nodes are known; where not, all is one node with the sums
    seat_run: Ints  # shape (seats,): one per run and node
    seat_node: Ints  # -1 = no node of the platform
    seat_tasks: Ints
    place: Any  # the text of where a run is, by its place in `runs`
    report: _Report
    cancelled: Ints  # when an event cancels each job; NEVER where none does
    pending: Mask  # which jobs wait for ever, as the schedule states
    outages: Outages | None = None
    replay: Replay | None = None

    @property
    def seat_job(self) -> Ints:
        return self.runs.job[self.seat_run]

    def column(self, values: Any, missing: int = NO_TIME) -> Ints:
        """A column of the schedule by workload row."""
        picked: Ints = np.append(np.asarray(values, np.int64), missing)[self.line]  # -1 finds what was appended
        return picked


def _read(
    workload: Workload, platform: Platform, schedule: Schedule | ScheduleColumns, events: BoundEvents | None
) -> _Case:
    report = _Report()
    line = _lines(workload, schedule, report)
    start = np.append(np.asarray(schedule.start, np.int64), NO_TIME)[line]
    ran = start != NO_TIME
    runs = _runs_of(workload, schedule, line, ran, report)
    table = schedule if schedule.runs is None else schedule.runs
    placed = True
    place: Any = None
    if isinstance(schedule, Schedule):
        held = schedule.held if schedule.runs is None else schedule.runs.held
        run, node, tasks = _seats_of_pairs(schedule.nodes, held, platform, runs.line)
        place = lambda i: place_text(schedule.nodes, held[int(runs.line[i])])  # noqa: E731
    elif cast(ScheduleColumns, table).node is not None:
        texts = np.asarray(cast(ScheduleColumns, table).node)
        run, node, tasks = _seats_of_text(texts, platform, runs.line)
        tasks = np.where(tasks == -1, workload.jobs.tasks[runs.job[run]], tasks)
        place = lambda i: texts[runs.line[i]]  # noqa: E731
    else:
        run, node, tasks = np.arange(len(runs)), np.zeros(len(runs), np.int64), workload.jobs.tasks[runs.job]
        placed = len(platform.nodes) == 1
    never = np.full(len(line), NEVER)
    pending = np.zeros(len(line), np.bool_)
    if events is not None and schedule.state is not None:
        pending = np.append(_coded(schedule.state, STATES) == PENDING, False)[line]
    case = _Case(workload, platform, line, start, ran, runs, placed, run, node, tasks, place, report, never, pending)
    return case if events is None else _with_events(case, events)


def _runs_of(workload: Workload, schedule: Schedule | ScheduleColumns, line: Ints, ran: Mask, report: _Report) -> _Runs:
    def column(values: Any, missing: int = NO_TIME) -> Ints:
        return np.full(len(lines), missing) if values is None else np.asarray(values, np.int64)[lines]

    def coded(values: Any, names: tuple[str, ...]) -> Ints:
        return column(None if values is None else _coded(values, names), -1)

    if schedule.runs is None:
        rows = np.flatnonzero(ran)
        lines = line[rows]
        states, reasons = coded(schedule.state, STATES), coded(schedule.reason, REASONS)
        times = (column(schedule.start), column(schedule.end))
        return _Runs(rows, *times, states, reasons, column(None), lines)

    runs = schedule.runs
    if isinstance(schedule, Schedule):
        row_of = np.full(len(schedule) + 1, -1)
        row_of[line[line >= 0]] = np.flatnonzero(line >= 0)
        jobs = row_of[np.asarray(runs.job)]
        kept = schedule.runs.progress if schedule.runs is not None else None
    else:
        rows_of = {str(job): row for row, job in enumerate(workload.jobs.job.tolist())}
        jobs = np.array([rows_of.get(str(job), -1) for job in runs.job.tolist()], np.int64)
        kept = cast(RunColumns, runs).kept
    for i in report.each("jobs", jobs < 0):
        report.add("jobs", runs.job[i], int(runs.start[i]), "a run of a job that is not in the workload")
    lines = np.flatnonzero(jobs >= 0)
    lines = lines[np.lexsort((runs.start[lines], jobs[lines]))]
    states, reasons = coded(runs.state, STATES), coded(runs.reason, REASONS)
    return _Runs(jobs[lines], column(runs.start), column(runs.end), states, reasons, column(kept), lines)


def _with_events(case: _Case, events: BoundEvents) -> _Case:
    """The same case with what events did to it."""
    workload, platform, runs = case.workload, case.platform, case.runs
    outages = Outages(events, platform, len(workload))
    over = ~np.isin(runs.state, (CANCELLED, NODE_FAIL, PREEMPTED))
    end = np.where(runs.end == NO_TIME, runs.start + workload.jobs.runtime[runs.job], runs.end)
    real = (case.seat_node >= 0) & case.placed
    job, tasks = case.seat_job[real], case.seat_tasks[real]
    seats = (case.seat_node[real], case.seat_run[real], tasks[:, None] * _demand(workload, platform)[job])
    run, licence, copies = _copies_held(case)
    nodes = Holders(*seats, runs.start, end, over)
    replay = outages.replay(nodes, Holders(licence, run, copies[:, None], runs.start, end, over), runs.job)
    return replace(case, cancelled=outages.cancelled, outages=outages, replay=replay)


def _demand(workload: Workload, platform: Platform) -> Ints:
    """What a task of each job asks for, in the order of the platform's resources."""
    demand = np.zeros((len(workload), len(platform.resources)), np.int64)
    for k, name in enumerate(platform.resources):
        if name in workload.resources:
            demand[:, k] = workload.jobs.demand[:, workload.resources.index(name)]
    return demand


def _copies_held(case: _Case) -> tuple[Ints, Ints, Ints]:
    """For each run and licence of the platform that it holds: (run, licence, copies)."""
    index, run = _items(case.workload.jobs.licences, case.runs.job)
    licence = _licence_index(case.workload, case.platform)[case.workload.jobs.licences.items[index]]
    many = max(len(case.platform.licences), 1)
    pairs, copies = np.unique((run * many + licence)[licence >= 0], return_counts=True)
    return pairs // many, pairs % many, copies


def _lines(workload: Workload, schedule: Schedule | ScheduleColumns, report: _Report) -> Ints:
    """The schedule's line about each job, by id; reports ids that are strange, doubled or missing."""
    ours, theirs = workload.jobs.job, np.asarray(schedule.job)
    if ours.dtype.kind == theirs.dtype.kind and np.array_equal(ours, theirs):
        return np.arange(len(ours))
    row_of = {str(job): row for row, job in enumerate(ours.tolist())}
    names = [str(job) for job in theirs.tolist()]
    rows = np.array([row_of.get(name, -1) for name in names], np.int64)
    for i in report.each("jobs", rows < 0):
        report.add("jobs", names[i], None, "is not in the workload")
    found, first = np.unique(rows, return_index=True)
    again = rows >= 0
    again[first] = False
    for i in report.each("jobs", again):
        report.add("jobs", names[i], None, "is in the schedule more than once")
    line = np.full(len(ours), -1, np.int64)
    line[found[found >= 0]] = first[found >= 0]
    for row in report.each("jobs", line < 0):
        report.add("jobs", ours[row], None, "is not in the schedule")
    return line


def _seats_of_pairs(names: tuple[str, ...], held: Ragged, platform: Platform, lines: Ints) -> tuple[Ints, Ints, Ints]:
    place = {name: node for node, name in enumerate(platform.nodes)}
    nodes = np.array([place.get(name, -1) for name in names] + [-1], np.int64)
    index, owner = _items(held, lines)
    pairs = held.items[index].reshape(-1, 2)
    strange = (pairs[:, 0] < 0) | (pairs[:, 0] >= len(names))
    return owner[::2], nodes[np.where(strange, -1, pairs[:, 0])], pairs[:, 1]


def _seats_of_text(texts: Any, platform: Platform, lines: Ints) -> tuple[Ints, Ints, Ints]:
    """From `name`, with -1 tasks standing for all of the job's, or `a*2;b*3`."""
    place = {name: node for node, name in enumerate(platform.nodes)}
    known: dict[str, list[tuple[int, int]]] = {}
    seats: list[tuple[int, int, int]] = []
    for run, text in enumerate(texts[lines].tolist()):
        if text not in known:
            parts = [part.rpartition("*") for part in text.split(";")]
            gang = text not in place and all(re.fullmatch("[0-9]{1,12}", count) for _, _, count in parts)
            pairs = [(name, int(count)) for name, _, count in parts] if gang else [(text, -1)]
            known[text] = [(place.get(name, -1), count) for name, count in pairs]
        seats += [(run, node, tasks) for node, tasks in known[text]]
    run_of, node, tasks = np.array(seats, np.int64).reshape(-1, 3).T
    return run_of, node, tasks


def _items(ragged: Ragged, rows: Ints) -> tuple[Ints, Ints]:
    """Where the items of these rows lie, end to end, and for each item the place of its row in `rows`."""
    count = ragged.first[rows + 1] - ragged.first[rows]
    owner = np.repeat(np.arange(len(rows)), count)
    skipped = ragged.first[rows] - (np.cumsum(count) - count)
    return np.arange(len(owner)) + skipped[owner], owner


def _check_starts(case: _Case, schedule: Schedule | ScheduleColumns, promises_bind: bool) -> None:
    ids, submit, report, runs = case.workload.jobs.job, case.workload.jobs.submit, case.report, case.runs
    for i in report.each("start", runs.start < submit[runs.job]):
        text = f"starts before its submit at {seconds_text(int(submit[runs.job[i]]))} s"
        report.add("start", ids[runs.job[i]], runs.start[i], text)
    if schedule.submit is not None:
        stated = case.column(schedule.submit)
        for row in report.each("submit", (stated != NO_TIME) & (stated != submit)):
            report.add("submit", ids[row], stated[row], f"was submitted at {seconds_text(int(submit[row]))} s")
    if isinstance(schedule, Schedule):
        job, start = runs.job, runs.start
        eligible, promise = case.column(schedule.eligible)[job], case.column(schedule.promise)[job]
        for i in report.each("start", (submit[job] <= start) & (start < eligible)):
            when = seconds_text(int(eligible[i]))
            report.add("start", ids[job[i]], start[i], f"starts before it is eligible at {when} s")
        broken = runs.first & (promise != NO_TIME) & (promise < start) & promises_bind
        for i in report.each("promise", broken):
            report.add("promise", ids[job[i]], start[i], f"was promised {seconds_text(int(promise[i]))} s")


@dataclass(frozen=True, eq=False, slots=True)
class _Lengths:
    """How long each run lasts if nothing but its end or its walltime stops it, at least and at most."""

    shortest: Ints
    longest: Ints
    rounding: Ints  # by how much more or less
    killed: Mask  # whether the walltime cuts it, surely
    spared: Mask  # whether it surely does not
    extra: Ints  # the overhead of a resumed run, which is in its length
    spent: Ints  # the time that earlier runs of its job kept, which counts against its walltime


def _lengths(case: _Case, overrun: Overrun, overhead: int) -> _Lengths:
    runs, jobs = case.runs, case.workload.jobs
    fast, slow = _paces(case)
    left, spent = jobs.runtime[runs.job], np.zeros(len(runs), np.int64)
    extra, number = spent, np.ones(1, np.int64)
    if not runs.first.all():
        preempted = np.append(False, runs.state[:-1] == PREEMPTED)[: len(runs)] & ~runs.first
        kept = np.where(runs.kept == NO_TIME, 0, runs.kept)
        extra, spent = _overheads(runs, preempted, overhead), _before(runs, kept)
        done = np.where(slow == 1, kept, np.floor(kept * slow)).astype(np.int64)
        left = np.maximum(left - _before(runs, done), 0)
        number = (np.arange(1, len(runs) + 1) - np.searchsorted(runs.job, runs.job)).astype(np.int64)

    def at(speeds: Floats) -> Ints:
        if (speeds == 1).all():
            return left + extra
        length: Ints = np.where(speeds == 1, left, np.ceil(left / speeds)).astype(np.int64) + extra
        return length

    needed, at_most = at(fast), at(slow)
    rounding = number * ((needed != left + extra) | (at_most != left + extra))
    nothing = np.zeros(len(runs), np.bool_)
    if overrun == "extend":
        return _Lengths(needed, at_most, rounding, nothing, ~nothing, extra, spent)
    walltime = jobs.walltime[runs.job]
    if case.outages is not None:
        walltime = case.outages.walltime(runs.job, jobs.walltime, runs.start)
    limit = np.maximum(walltime - spent + extra, 0)
    shortest, longest = np.minimum(needed, limit), np.minimum(at_most, limit)
    for i in np.flatnonzero(np.isin(runs.job, list(case.outages.walltimes) if case.outages else [])).tolist():
        for time, value in cast(Outages, case.outages).walltimes[int(runs.job[i])]:
            past, more = time - int(runs.start[i]), max(value - int(spent[i]) + int(extra[i]), 0)
            for each, whole in ((shortest, needed), (longest, at_most)):
                if 0 < past < each[i]:  # it still runs
                    each[i] = max(past, min(int(whole[i]), more))
    return _Lengths(shortest, longest, rounding, needed > shortest, at_most <= longest, extra, spent)


def _overheads(runs: _Runs, preempted: Mask, overhead: int) -> Ints:
    """What it costs to go on, of each run: the overhead, and what the run before did not get to pay of its own."""
    extra = np.where(preempted, overhead, 0)
    for i in np.flatnonzero(extra).tolist():
        extra[i] += max(int(extra[i - 1] - (runs.end[i - 1] - runs.start[i - 1])), 0)
    return extra


def _before(runs: _Runs, values: Ints) -> Ints:
    """The sum of a value over the earlier runs of the same job."""
    upto = np.cumsum(values) - values
    before: Ints = upto - upto[runs.first][np.cumsum(runs.first) - 1]
    return before


def _paces(case: _Case) -> tuple[Floats, Floats]:
    """The pace of each run where it is, at most and at least: a gang goes at the pace of its slowest node.

    Where that is not known, every pace of the platform is lawful.
    """
    speed = case.platform.speed
    pace = np.full(len(case.runs), np.inf)
    seated = (case.seat_node >= 0) & case.placed
    np.minimum.at(pace, case.seat_run[seated], speed[case.seat_node[seated]])
    known = np.isfinite(pace)
    return np.where(known, pace, speed.max()), np.where(known, pace, speed.min())


def _outcomes(case: _Case, lengths: _Lengths, preempts: bool) -> Ints:
    """How each run must end, by what is known of it."""
    runs = case.runs
    outcome = np.where(lengths.killed, TIMEOUT, COMPLETED)
    cut = (runs.end != NO_TIME) & (runs.end - runs.start < lengths.longest + lengths.rounding)
    # in a step of --ties step a run may be preempted at the very instant at which it would have ended
    halted = (runs.end != NO_TIME) & (runs.end - runs.start <= lengths.longest + lengths.rounding)
    outcome[halted & (runs.state == PREEMPTED) & preempts] = PREEMPTED
    outcome[cut & (runs.start < runs.end) & (case.cancelled[runs.job] == runs.end)] = CANCELLED
    if case.replay is not None:
        for time, lost in case.replay.lost.items():
            rows = np.array(sorted(lost), np.int64)
            outcome[rows[runs.end[rows] == time]] = NODE_FAIL
    return outcome


def _check_ends(case: _Case, schedule: Schedule | ScheduleColumns, lengths: _Lengths, outcome: Ints) -> Ints:
    """Check the ends; return when each run ended, computed where the schedule does not say."""
    ids, report, runs = case.workload.jobs.job, case.report, case.runs
    shortest, longest, rounding = lengths.shortest, lengths.longest, lengths.rounding
    if schedule.end is None and schedule.runs is None:
        return runs.start + shortest

    for i in report.each("end", runs.end == NO_TIME):
        report.add("end", ids[runs.job[i]], runs.start[i], "has a start but no end")
    end = np.full(len(ids), NO_TIME) if schedule.end is None else case.column(schedule.end)
    for row in report.each("end", (case.line >= 0) & ~case.ran & (end != NO_TIME)):
        report.add("end", ids[row], end[row], "has an end but no start")
    held = runs.end - runs.start
    wrong = (held < shortest - rounding) | (held > longest + rounding)
    cut = np.isin(outcome, (CANCELLED, NODE_FAIL, PREEMPTED)) | np.isin(runs.state, (CANCELLED, NODE_FAIL))
    for i in report.each("end", (runs.end != NO_TIME) & np.where(cut, held < 0, wrong)):
        text = f"ends {seconds_text(int(held[i]))} s after its start; expected {seconds_text(int(shortest[i]))} s"
        report.add("end", ids[runs.job[i]], runs.end[i], text)
    return np.where(runs.end != NO_TIME, runs.end, runs.start + shortest)


def _check_states(
    case: _Case, schedule: Schedule | ScheduleColumns, lengths: _Lengths, outcome: Ints, lost: Lost, waited: Mask
) -> None:
    jobs, report, listed, runs = case.workload.jobs, case.report, case.line >= 0, case.runs
    expected = np.full(len(jobs), REJECTED)
    expected[runs.job] = outcome  # of several runs the last one stays
    either = np.zeros(len(jobs), np.bool_)
    either[runs.job] = ~lengths.killed & ~lengths.spared & (outcome < REJECTED)
    idle = ~case.ran & (case.cancelled < NEVER)
    expected[idle] = CANCELLED
    again = ((expected == NODE_FAIL) & (lost == "requeue")) | (expected == PREEMPTED)
    expected[again & (case.cancelled < NEVER)] = CANCELLED  # while it waited again
    expected[case.pending & (again | ~case.ran) & (case.cancelled == NEVER)] = PENDING
    if schedule.state is not None:
        state = case.column(_coded(schedule.state, STATES), -1)
        spared = either & ((state == TIMEOUT) | (state == COMPLETED))
        spared |= idle & (state == REJECTED)  # `_check_rejected` judges it
        spared |= waited & (state == NODE_FAIL)
        for row in report.each("state", listed & (state != -1) & (state != expected) & ~spared):
            stated = STATES[state[row]] if state[row] >= 0 else "none of the known states"
            report.add("state", jobs.job[row], None, f"is {stated}; expected {STATES[expected[row]]}")
    if schedule.runs is not None:
        spared = ~lengths.killed & ~lengths.spared & (outcome < REJECTED) & (runs.state < REJECTED)
        for i in report.each("state", (runs.state != outcome) & ~spared):
            stated = STATES[runs.state[i]] if runs.state[i] >= 0 else "none of the known states"
            text = f"this run is {stated}; expected {STATES[outcome[i]]}"
            report.add("state", jobs.job[runs.job[i]], runs.start[i], text)
    if schedule.reason is not None or schedule.runs is not None:
        for i in report.each("reason", runs.reason == -2):
            report.add("reason", jobs.job[runs.job[i]], None, f"its reason is none of {', '.join(REASONS)}")


def _lost_suspended(case: _Case, outcome: Ints, lost: Lost) -> Mask:
    """Jobs that may have failed while they were suspended: what their last run held went away after it."""
    found = np.zeros(len(case.workload.jobs), np.bool_)
    if case.replay is None or lost != "fail":
        return found
    demand = _demand(case.workload, case.platform)
    for seat in np.flatnonzero((case.runs.last & (outcome == PREEMPTED))[case.seat_run]).tolist():
        run, node = int(case.seat_run[seat]), int(case.seat_node[seat])
        job, steps = int(case.runs.job[run]), case.replay.nodes[node] if node >= 0 else []
        held = demand[job] * case.seat_tasks[seat]
        found[job] |= any(time >= case.runs.end[run] and (room < held).any() for time, room, _ in steps)
    return found


def _check_runs(case: _Case, schedule: Schedule | ScheduleColumns, outcome: Ints, lost: Lost, waited: Mask) -> None:
    """A job runs again exactly where it was lost or preempted, and after that."""
    ids, report, runs = case.workload.jobs.job, case.report, case.runs
    next_of = np.flatnonzero(~runs.first)
    for i in report.each("runs", runs.start[next_of] < runs.end[next_of - 1]):
        text = f"starts before its run before ends, at {seconds_text(int(runs.end[next_of[i] - 1]))} s"
        report.add("runs", ids[runs.job[next_of[i]]], runs.start[next_of[i]], text)
    goes_on = (outcome == PREEMPTED) | ((outcome == NODE_FAIL) & (lost == "requeue"))
    for i in report.each("runs", ~runs.last & ~goes_on):
        report.add("runs", ids[runs.job[i]], runs.end[i], f"runs again although it was {STATES[outcome[i]]}")
    waits = runs.last & goes_on & ~waited[runs.job] & (case.cancelled[runs.job] == NEVER) & ~case.pending[runs.job]
    for i in report.each("runs", waits):
        report.add("runs", ids[runs.job[i]], runs.end[i], f"never runs again after it was {STATES[outcome[i]]}")
    if schedule.runs is None:
        return
    has = np.zeros(len(ids), np.bool_)
    has[runs.job] = True
    for row in report.each("runs", has != case.ran):
        report.add("runs", ids[row], None, "has a run but no start" if has[row] else "has a start but no run")
    end = runs.end if schedule.end is None else case.column(schedule.end)[runs.job]
    other = runs.last & case.ran[runs.job] & ((case.start[runs.job] != runs.start) | (end != runs.end))
    for i in report.each("runs", other):
        report.add("runs", ids[runs.job[i]], runs.start[i], "its row is not about this run, its last one")


def _check_progress(case: _Case, lengths: _Lengths, outcome: Ints) -> None:
    ids, report, runs = case.workload.jobs.job, case.report, case.runs
    stated, length = runs.kept != NO_TIME, runs.end - runs.start
    for i in report.each("progress", stated & ((runs.kept < 0) | (runs.kept > np.maximum(length, 0)))):
        text = f"keeps {seconds_text(int(runs.kept[i]))} s of a run of {seconds_text(int(length[i]))} s"
        report.add("progress", ids[runs.job[i]], runs.start[i], text)
    for i in report.each("progress", stated & (outcome == NODE_FAIL) & (runs.kept > 0)):
        text = f"keeps {seconds_text(int(runs.kept[i]))} s of a run that is lost"
        report.add("progress", ids[runs.job[i]], runs.start[i], text)
    wrong = stated & (outcome == COMPLETED) & (runs.state == COMPLETED) & (runs.kept != length - lengths.extra)
    for i in report.each("progress", wrong):
        text = f"completes with {seconds_text(int(runs.kept[i]))} s of progress; expected "
        text += f"{seconds_text(int(length[i] - lengths.extra[i]))} s"
        report.add("progress", ids[runs.job[i]], runs.start[i], text)


def _check_lost(case: _Case) -> None:
    """Runs are lost exactly where the events say so."""
    ids, report, runs = case.workload.jobs.job, case.report, case.runs
    lost = {run: time for time, rows in cast(Replay, case.replay).lost.items() for run in rows}
    must = np.full(len(runs), NO_TIME)
    must[list(lost)] = list(lost.values())
    for i in report.each("lost", (runs.state == NODE_FAIL) & (must != runs.end)):
        report.add("lost", ids[runs.job[i]], runs.end[i], "is lost, although no capacity that it must give is")
    for i in report.each("lost", (must != NO_TIME) & ~((runs.state == NODE_FAIL) & (must == runs.end))):
        text = "goes on, although the capacity that it holds goes away"
        report.add("lost", ids[runs.job[i]], must[i], text)


def _check_cancelled(case: _Case, until: Ints) -> None:
    ids, report, runs, cancelled = case.workload.jobs.job, case.report, case.runs, case.cancelled
    when = cancelled[runs.job]
    for i in report.each("cancel", runs.start >= when):
        text = f"starts although it was cancelled at {seconds_text(int(when[i]))} s"
        report.add("cancel", ids[runs.job[i]], runs.start[i], text)
    for i in report.each("cancel", (runs.start < when) & (when < until)):
        text = f"runs on although it was cancelled at {seconds_text(int(when[i]))} s"
        report.add("cancel", ids[runs.job[i]], runs.start[i], text)


def _check_windows(case: _Case, until: Ints, seen: Ints, lengths: _Lengths) -> None:
    """At the begin of each window that was known at a start, what is held then by walltimes fits beside it."""
    runs, platform, outages = case.runs, case.platform, cast(Outages, case.outages)
    real = (case.seat_node >= 0) & case.placed
    run, node, tasks = case.seat_run[real], case.seat_node[real], case.seat_tasks[real]
    licence_run, licence, copies = _copies_held(case)
    names = case.workload.resources

    def limit(of: Ints, time: Ints | int) -> Ints:
        walltime = outages.walltime(runs.job[of], seen, time)
        at: Ints = runs.start[of] + np.maximum(walltime - lengths.spent[of] + lengths.extra[of], 1)
        return at

    def check(window: Window, lane: int, resource: int, held: Ints, amount: Ints) -> None:
        begin = window.begin
        start, end = runs.start[held], until[held]
        late = np.flatnonzero((window.known <= start) & (start < begin) & (amount > 0) & (limit(held, start) > begin))
        for time in np.unique(start[late]).tolist():
            there = (start <= time) & (time < np.maximum(end, start + 1)) & (limit(held, time) > begin)
            taken = sum(amount[there].tolist())
            room = _room_then(case, lane, resource, time, begin, window.licence)
            if taken <= room:
                continue
            if case.report.each("window", np.ones(1, np.bool_)):
                last = runs.job[held[late[start[late] == time][-1]]]
                what = platform.licences[lane] if window.licence else platform.resources[resource]
                where = "" if window.licence else f" of node {platform.nodes[lane]}"
                text = (
                    f"may run into the window at {seconds_text(begin)} s, known since {seconds_text(window.known)} s: "
                )
                text += f"by walltimes {taken} {what}{where} are held then of {room}"
                case.report.add("window", case.workload.jobs.job[last], time, text)

    for window in outages.windows:
        if window.begin <= window.known:
            continue
        if window.licence:
            mine = licence == window.lanes[0]
            check(window, window.lanes[0], 0, licence_run[mine], copies[mine])
            continue
        taken = range(len(platform.resources)) if window.resource < 0 else [window.resource]
        for lane in window.lanes:
            mine = node == lane
            for k in taken:
                if platform.resources[k] in names:
                    demand = case.workload.jobs.demand[runs.job[run[mine]], names.index(platform.resources[k])]
                    check(window, lane, k, run[mine], tasks[mine] * demand)


def _room_then(case: _Case, lane: int, resource: int, now: int, then: int, licence: bool) -> int:
    """What there will be of a lane at a later time, by what is known now: capacity now, without the windows then."""
    room = int(cast(Replay, case.replay).without_windows(lane, now, licence)[resource])
    for window in cast(Outages, case.outages).windows:
        there = window.known <= now and window.begin <= then < window.until and lane in window.lanes
        if there and window.licence == licence:
            if window.resource < 0 and not licence:
                return 0
            room -= window.amount if licence or window.resource == resource else 0
    return max(room, 0)


def _coded(column: Any, names: tuple[str, ...]) -> Ints:
    """Indexes into `names`; -1 for an empty text, -2 for what is none of them."""
    values = np.asarray(column)
    if values.dtype.kind in "iu":
        return np.where((values >= -1) & (values < len(names)), values, -2).astype(np.int64)
    code = {"": -1} | {name: i for i, name in enumerate(names)}
    return np.fromiter((code.get(text, -2) for text in values.tolist()), np.int64, len(values))


def _check_after(case: _Case, until: Ints) -> None:
    ids, after, report, runs = case.workload.jobs.job, case.workload.jobs.after, case.report, case.runs
    over, gone = np.full(len(ids), NEVER), ~case.ran & (case.cancelled < NEVER)
    over[runs.job] = until  # of several runs the last one stays
    over[gone] = case.cancelled[gone]
    index, owner = _items(after, runs.job)
    before = after.items[index]
    think = case.workload.jobs.think[runs.job[owner]]
    for i in report.each("start", runs.start[owner] < over[before] + think):
        never = "" if case.ran[before[i]] or gone[before[i]] else ", and which never ran"
        late = f"{seconds_text(int(think[i]))} s after " if think[i] else ""
        text = f"starts before {late}the end of job {ids[before[i]]}, which it comes after{never}"
        report.add("start", ids[runs.job[owner[i]]], runs.start[owner[i]], text)


def _check_rejected(case: _Case, schedule: Schedule | ScheduleColumns) -> None:
    """A job stays without a start only where it must; one that was cancelled may be rejected before that."""
    jobs, report, platform = case.workload.jobs, case.report, case.platform
    stays = ~case.ran & (case.cancelled == NEVER) & ~case.pending
    if schedule.state is not None and case.outages is not None:
        stays |= ~case.ran & (case.column(_coded(schedule.state, STATES), -1) == REJECTED)
    if case.outages is not None:
        platform = replace(platform, capacity=case.outages.most, copies=case.outages.most_copies)
    idle = np.flatnonzero(stays & (case.line >= 0))
    index, owner = _items(jobs.after, idle)
    follows = np.zeros(len(idle), np.bool_)
    follows[owner[stays[jobs.after.items[index]]]] = True
    alone = _Alone(case.workload, platform)
    wronged = idle[[not follows[i] and alone.runs(row) for i, row in enumerate(idle.tolist())]] if len(idle) else idle
    for i in report.each("rejected", np.ones(len(wronged), np.bool_)):
        report.add("rejected", jobs.job[wronged[i]], None, "never starts, although the platform can run it")
    for row in report.each("rejected", stays & (case.cancelled <= jobs.submit)):
        report.add("rejected", jobs.job[row], None, "is REJECTED, although it was cancelled before it came")
    for row in report.each("cancel", _too_late(case, stays, alone)):
        report.add("cancel", jobs.job[row], None, "is CANCELLED, although it was rejected when it came")


def _check_pending(case: _Case) -> None:
    """Somebody lacks what the events took for good; behind that one others may wait for ever."""
    pending, replay = np.flatnonzero(case.pending), cast(Replay, case.replay)
    if not len(pending):
        return
    capacity = np.array([steps[-1][1] for steps in replay.nodes])
    copies = np.array([int(steps[-1][1][0]) for steps in replay.licences], np.int64)
    alone = _Alone(case.workload, replace(case.platform, capacity=capacity, copies=copies))
    all_fit = all(alone.runs(row) for row in pending.tolist())
    for row in case.report.each("pending", case.pending & all_fit):
        case.report.add("pending", case.workload.jobs.job[row], None, "waits for ever, although there is room for it")


def _too_late(case: _Case, stays: Mask, alone: "_Alone") -> Mask:
    """Which jobs were cancelled after they had been rejected, since they can never run."""
    found = ~case.ran & ~stays & (case.cancelled > case.workload.jobs.submit) & (case.line >= 0)
    rows = np.flatnonzero(found).tolist()
    found[rows] = [not alone.runs(row) for row in rows]
    return found


class _Alone:
    """Whether a job could run if it had the platform to itself; equal demands are worked out once."""

    def __init__(self, workload: Workload, platform: Platform) -> None:
        self.jobs, self.platform = workload.jobs, platform
        _, self.demand, self.capacity = _limited(workload, platform)
        self.licence = _licence_index(workload, platform)
        self.known: dict[tuple[bytes, bytes, int, int, str, str], bool] = {}

    def runs(self, row: int) -> bool:
        jobs, demand = self.jobs, self.demand[row]
        asked = np.sort(self.licence[jobs.licences[row]])
        bound = (jobs.site[row], jobs.constraint[row])
        key = (demand.tobytes(), asked.tobytes(), int(jobs.tasks[row]), int(jobs.spread[row]), *bound)
        if key not in self.known:
            self.known[key] = self._work_out(demand, asked, *key[2:])
        return self.known[key]

    def _work_out(self, demand: Ints, asked: Ints, tasks: int, spread: int, site: str, constraint: str) -> bool:
        platform = self.platform
        if (asked < 0).any() or (np.bincount(asked, minlength=len(platform.licences)) > platform.copies).any():
            return False
        needed = demand > 0
        room = (self.capacity[:, needed] // demand[needed]).min(axis=1, initial=tasks)
        room[~platform.hosts[:, asked].all(axis=1)] = 0
        if site:
            room[[platform.sites[s] != site for s in platform.site]] = 0
        if constraint:
            room[~np.array(_meets(platform, constraint))] = 0
        if SPREAD[spread] == "node":
            return bool(room.max() >= tasks)
        if SPREAD[spread] == "site":
            return bool(np.bincount(platform.site, room).max() >= tasks)
        return bool(room.sum() >= tasks)


def _limited(workload: Workload, platform: Platform) -> tuple[list[str], Ints, Ints]:
    """The resources that jobs ask for and the platform limits, demand per task and capacity per node."""
    names = [name for name in workload.resources if platform.limits(name)]
    demand = workload.jobs.demand[:, [workload.resources.index(name) for name in names]]
    place = {name: k for k, name in enumerate(platform.resources)}
    capacity = np.pad(platform.capacity, ((0, 0), (0, 1)))  # the last column is what the platform does not have
    return names, demand, capacity[:, [place.get(name, -1) for name in names]]


def _licence_index(workload: Workload, platform: Platform) -> Ints:
    """The platform's licence for each of the workload's; -1 where it has none."""
    place = {name: i for i, name in enumerate(platform.licences)}
    return np.array([place.get(name, -1) for name in workload.licences], np.int64)


def _check_nodes(case: _Case) -> None:
    """All tasks of a job are on nodes, and a gang keeps together."""
    jobs, report, runs, n = case.workload.jobs, case.report, case.runs, len(case.runs)
    seated, strange = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    np.add.at(seated, case.seat_run, case.seat_tasks)
    strange[case.seat_run[(case.seat_node < 0) | (case.seat_tasks < 1)]] = True
    for i in report.each("node", strange | (seated != jobs.tasks[runs.job])):
        text = f"sits on {str(case.place(i))!r}; expected {jobs.tasks[runs.job[i]]} tasks on nodes of the platform"
        report.add("node", jobs.job[runs.job[i]], runs.start[i], text)

    real = case.seat_node >= 0
    run, node = case.seat_run[real], case.seat_node[real]
    for rule, where in (("node", node), ("site", case.platform.site[node])):
        low, high = np.full(n, 2**62), np.full(n, -1)
        np.minimum.at(low, run, where)
        np.maximum.at(high, run, where)
        for i in report.each("spread", (low < high) & (jobs.spread[runs.job] == SPREAD.index(rule))):
            report.add("spread", jobs.job[runs.job[i]], runs.start[i], f"sits on more than one {rule}")


def _check_hosts(case: _Case) -> None:
    """Jobs sit only where their site, their constraint and their licences let them."""
    jobs, platform, report = case.workload.jobs, case.platform, case.report
    real = case.seat_node >= 0
    job, node = case.seat_job[real], case.seat_node[real]
    start = case.runs.start[case.seat_run[real]]
    place = {name: i for i, name in enumerate(platform.sites)}
    pinned = np.array([place.get(name, -2) for name in jobs.site.names] + [-1], np.int64)[jobs.site.codes[job]]
    for i in report.each("site", (pinned != -1) & (pinned != platform.site[node])):
        text = f"sits on node {platform.nodes[node[i]]}; expected site {jobs.site[job[i]]}"
        report.add("site", jobs.job[job[i]], start[i], text)

    fitting = np.array(
        [_meets(platform, text) for text in jobs.constraint.names] + [np.ones(len(platform.nodes))], bool
    )
    for i in report.each("constraint", ~fitting[jobs.constraint.codes[job], node]):
        text = f"sits on node {platform.nodes[node[i]]}; expected {jobs.constraint[job[i]]}"
        report.add("constraint", jobs.job[job[i]], start[i], text)

    index, seat = _items(jobs.licences, job)
    asked = _licence_index(case.workload, platform)[jobs.licences.items[index]]
    seat, asked = seat[asked >= 0], asked[asked >= 0]
    for i in report.each("host", ~platform.hosts[node[seat], asked]):
        row, where = job[seat[i]], platform.nodes[node[seat[i]]]
        text = f"sits on node {where}, which may not host licence {platform.licences[asked[i]]}"
        report.add("host", jobs.job[row], start[seat[i]], text)


def _check_capacity(case: _Case, until: Ints) -> None:
    workload, platform = case.workload, case.platform
    if case.outages is not None:
        platform = replace(platform, capacity=case.outages.most)
    resources, demand, capacity = _limited(workload, platform)
    blocked = _Blocked.none()
    if case.replay is not None:
        lane, begin, end, less = case.replay.blocked(platform.capacity)
        columns = [platform.resources.index(name) if name in platform.resources else -1 for name in resources]
        less = np.pad(less, ((0, 0), (0, 1)))[:, columns]
        blocked = _Blocked(lane if case.placed else np.zeros_like(lane), begin, end, less)
    holders = [f"node {name}" for name in platform.nodes] if case.placed else ["the platform"]
    capacity = capacity if case.placed else capacity.sum(axis=0, keepdims=True)
    real = case.seat_node >= 0
    run, node, tasks = case.seat_run[real], case.seat_node[real], case.seat_tasks[real]
    job = case.runs.job[run]
    sweep = _Sweep(node, case.runs.start[run], until[run], blocked)
    for k, resource in enumerate(resources):
        amount, most = tasks * demand[job, k], capacity[:, k]
        for seat, time, at, held, there in sweep.above(k, amount, most, case.report, "capacity"):
            text = f"{holders[at]} holds {held} {resource} of {there}"
            case.report.add("capacity", workload.jobs.job[job[seat]], time, text)


def _check_licences(case: _Case, until: Ints) -> None:
    licences, platform, runs = case.workload.jobs.licences, case.platform, case.runs
    index, run = _items(licences, runs.job)
    asked = licences.items[index]
    place = _licence_index(case.workload, platform)
    copies, blocked = platform.copies, _Blocked.none()
    if case.outages is not None and case.replay is not None:
        copies = case.outages.most_copies
        lane, begin, end, less = case.replay.blocked(copies[:, None], licences=True)
        known = np.isin(lane, place)
        asked_as = np.array([np.flatnonzero(place == each)[0] for each in lane[known].tolist()], np.int64)
        blocked = _Blocked(asked_as, begin[known], end[known], less[known])
    copies = np.append(copies, 0)[place]
    sweep = _Sweep(asked, runs.start[run], until[run], blocked)
    for item, time, licence, held, most in sweep.above(0, np.ones(len(run), np.int64), copies, case.report, "licence"):
        text = f"{held} copies of {case.workload.licences[licence]} are held of {most}"
        case.report.add("licence", case.workload.jobs.job[runs.job[run[item]]], time, text)


def _meets(platform: Platform, constraint: str) -> list[bool]:
    """Whether each node has the features that a constraint asks for."""
    features = platform.features or [()] * len(platform.nodes)
    there = [{node, *each} for node, each in zip(platform.nodes, features, strict=True)]
    asked = [[term.strip() for term in part.split("&")] for part in constraint.split("|")]
    if not platform.features:
        asked = [[term for term in terms if term.lstrip("!") in platform.nodes] for terms in asked]
    return [
        any(all((term[1:] not in has) if term[0] == "!" else (term in has) for term in terms) for terms in asked)
        for has in there
    ]


@dataclass(frozen=True, eq=False, slots=True)
class _Blocked:
    """What cannot be held on [begin, end), since it is less than the most that there ever is."""

    lane: Ints
    begin: Ints
    end: Ints
    amount: Ints  # shape (spans, resources)

    @classmethod
    def none(cls) -> "_Blocked":
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, nothing, np.zeros((0, 0), np.int64))


class _Sweep:
    """Amounts held on intervals [begin, end), each in its lane, in order of time; what is blocked comes first."""

    def __init__(self, lane: Ints, begin: Ints, end: Ints, blocked: _Blocked) -> None:
        self.blocked, self.skip = blocked, len(blocked.lane)
        if self.skip:
            lane, begin, end = (
                np.concatenate(pair) for pair in ((blocked.lane, lane), (blocked.begin, begin), (blocked.end, end))
            )
        self.lane, self.begin, self.end = lane, begin, end
        real = np.flatnonzero(begin < end)
        lanes, times = np.tile(lane[real], 2), np.concatenate([begin[real], end[real]])
        order = np.lexsort((times, lanes))
        self.lanes, self.times = lanes[order], times[order]
        self.interval, self.sign = np.tile(real, 2)[order], np.where(order < len(real), 1, -1)

    def above(
        self, k: int, amount: Ints, limit: Ints, report: _Report, rule: str
    ) -> Iterator[tuple[int, int, int, int, int]]:
        """Where a lane rises above its limit: (the last interval that begins there, instant, lane, held, limit then).

        k: the resource. Where no interval begins there, because the limit falls: the one that began last.
        """
        if self.skip:
            amount = np.concatenate([self.blocked.amount[:, k], amount])
        change = amount[self.interval] * self.sign
        # In two halves, so that no sum passes 2^63: `>>` rounds down and `&` is its remainder, also below zero.
        low = np.cumsum(change & _LOW)
        high = np.cumsum(change >> 32) + (low >> 32)
        low &= _LOW
        most = limit[self.lanes]
        over = (high > most >> 32) | ((high == most >> 32) & (low > most & _LOW))
        # Only what is held once all events of an instant are done counts.
        at = np.flatnonzero(np.append((self.lanes[1:] != self.lanes[:-1]) | (self.times[1:] != self.times[:-1]), True))
        at = at[: len(over)]
        was = np.append(False, over[at[:-1]])[: len(at)] & (self.lanes[at] == self.lanes[at - 1])
        rises = at[over[at] & ~was]
        for i in report.each(rule, np.ones(len(rises), np.bool_)):
            event = rises[i]
            lane, time = int(self.lanes[event]), int(self.times[event])
            mine = (self.lane == lane) & (amount > 0)
            cause = int(np.flatnonzero(mine & (self.begin == time))[-1])
            gone = 0
            if self.skip:
                holding = np.flatnonzero(mine & (self.begin <= time) & (time < self.end))
                gone = sum(amount[holding[holding < self.skip]].tolist())
                held = holding[holding >= self.skip]
                cause = int(held[np.argsort(self.begin[held], kind="stable")[-1]])
            total = (int(high[event]) << 32) + int(low[event])
            yield cause - self.skip, time, lane, total - gone, int(limit[lane]) - gone
