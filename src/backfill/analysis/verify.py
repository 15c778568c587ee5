"""An independent checker of any schedule. It shares no code with what makes schedules, so it cannot share a mistake.

| rule | what must hold |
| --- | --- |
| `jobs` | every job of the workload is in the schedule, exactly once, and no other |
| `submit` | a submit that the schedule states is the workload's |
| `start` | no start before the submit, before `eligible`, or before the end of a job that it comes after |
| `end` | end = start + the time the job holds its node: run time / speed, cut at the walltime where jobs are killed |
| `state` | TIMEOUT exactly for killed jobs (a run just as long as the walltime is none), REJECTED without a start |
| `reason` | the reason of a start is one of the closed list |
| `rejected` | a job without a start could not run even alone, or comes after one that has no start |
| `node` | the nodes exist, and the tasks on them are all the job's tasks |
| `spread` | a gang that must stay on one node, or on one site, does |
| `site` | a job pinned to a site sits there |
| `constraint` | a job sits only on nodes with the features that it asks for |
| `host` | a node holds no job with a licence that it may not host |
| `capacity` | no resource of a node is held beyond its capacity at any instant |
| `licence` | no floating licence is held beyond its copies at any instant |
| `promise` | no job starts later than the first start promised to it (only with `promises_bind`) |

A job holds what it holds on [start, end): one that starts when another ends may take its place.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from backfill.model.platform import Platform
from backfill.model.schedule import COMPLETED, NO_TIME, REASONS, REJECTED, STATES, TIMEOUT, Schedule
from backfill.model.units import seconds_text
from backfill.model.workload import SPREAD, Floats, Ints, Ragged, Workload

SHOWN = 20  # violations of one rule that are told in full

Overrun = Literal["kill", "extend"]
Mask = NDArray[np.bool_]

_LOW = 0xFFFFFFFF  # the lower half of 64 bits


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
) -> list[Violation]:
    """Every rule that the schedule breaks, empty when it is lawful; at most 20 of a rule in full, then their count.

    Columns that the schedule does not have are not checked: an end is then computed, and without nodes only the sums
    over the platform are compared (which on a platform of one node is everything). Of a resource or a licence that the
    platform does not name it has none, but a memory that it does not name is unlimited. A licence that stays on nodes
    is a resource there: a job of one task may ask for it as for any licence, a gang by a column, per task.
    Where a speed is not 1, an end may differ by a microsecond, the rounding of a division.
    """
    case = _read(_with_node_licences(workload, platform), platform, schedule)
    _check_starts(case, schedule, promises_bind)
    until = _check_ends(case, schedule, overrun)
    _check_states(case, schedule, overrun)
    _check_after(case, until)
    _check_rejected(case)
    if case.placed:
        _check_nodes(case, schedule)
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
class _Case:
    """A schedule laid out by the rows of its workload, and what is wrong with it so far."""

    workload: Workload
    platform: Platform
    line: Ints  # shape (jobs,): the schedule's line about a job; -1 = none
    start: Ints
    ran: Mask
    placed: bool  # whether nodes are known; where not, all is one node with the sums
    seat_job: Ints  # shape (seats,): one per job and node
    seat_node: Ints  # -1 = no node of the platform
    seat_tasks: Ints
    report: _Report

    def column(self, values: Any, missing: int = NO_TIME) -> Ints:
        """A column of the schedule by workload row."""
        picked: Ints = np.append(np.asarray(values, np.int64), missing)[self.line]  # -1 finds what was appended
        return picked


def _read(workload: Workload, platform: Platform, schedule: Schedule | ScheduleColumns) -> _Case:
    report = _Report()
    line = _lines(workload, schedule, report)
    start = np.append(np.asarray(schedule.start, np.int64), NO_TIME)[line]
    ran = start != NO_TIME
    rows = np.flatnonzero(ran)
    placed = True
    if isinstance(schedule, Schedule):
        job, node, tasks = _seats_of_pairs(schedule, platform, rows, line)
    elif schedule.node is not None:
        job, node, tasks = _seats_of_text(schedule.node, platform, rows, line)
        tasks = np.where(tasks == -1, workload.jobs.tasks[job], tasks)
    else:
        job, node, tasks = rows, np.zeros(len(rows), np.int64), workload.jobs.tasks[rows]
        placed = len(platform.nodes) == 1
    return _Case(workload, platform, line, start, ran, placed, job, node, tasks, report)


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


def _seats_of_pairs(schedule: Schedule, platform: Platform, rows: Ints, line: Ints) -> tuple[Ints, Ints, Ints]:
    place = {name: node for node, name in enumerate(platform.nodes)}
    nodes = np.array([place.get(name, -1) for name in schedule.nodes] + [-1], np.int64)
    index, owner = _items(schedule.held, line[rows])
    pairs = schedule.held.items[index].reshape(-1, 2)
    strange = (pairs[:, 0] < 0) | (pairs[:, 0] >= len(schedule.nodes))
    return rows[owner[::2]], nodes[np.where(strange, -1, pairs[:, 0])], pairs[:, 1]


def _seats_of_text(texts: Any, platform: Platform, rows: Ints, line: Ints) -> tuple[Ints, Ints, Ints]:
    """From `name`, with -1 tasks standing for all of the job's, or `a*2;b*3`."""
    place = {name: node for node, name in enumerate(platform.nodes)}
    known: dict[str, list[tuple[int, int]]] = {}
    seats: list[tuple[int, int, int]] = []
    for row, text in zip(rows.tolist(), np.asarray(texts)[line[rows]].tolist(), strict=True):
        if text not in known:
            parts = [part.rpartition("*") for part in text.split(";")]
            gang = text not in place and all(re.fullmatch("[0-9]{1,12}", count) for _, _, count in parts)
            pairs = [(name, int(count)) for name, _, count in parts] if gang else [(text, -1)]
            known[text] = [(place.get(name, -1), count) for name, count in pairs]
        seats += [(row, node, tasks) for node, tasks in known[text]]
    job, node, tasks = np.array(seats, np.int64).reshape(-1, 3).T
    return job, node, tasks


def _items(ragged: Ragged, rows: Ints) -> tuple[Ints, Ints]:
    """Where the items of these rows lie, end to end, and for each item the place of its row in `rows`."""
    count = ragged.first[rows + 1] - ragged.first[rows]
    owner = np.repeat(np.arange(len(rows)), count)
    skipped = ragged.first[rows] - (np.cumsum(count) - count)
    return np.arange(len(owner)) + skipped[owner], owner


def _check_starts(case: _Case, schedule: Schedule | ScheduleColumns, promises_bind: bool) -> None:
    ids, submit, start, report = case.workload.jobs.job, case.workload.jobs.submit, case.start, case.report
    for row in report.each("start", case.ran & (start < submit)):
        report.add("start", ids[row], start[row], f"starts before its submit at {seconds_text(int(submit[row]))} s")
    if schedule.submit is not None:
        stated = case.column(schedule.submit)
        for row in report.each("submit", (stated != NO_TIME) & (stated != submit)):
            report.add("submit", ids[row], stated[row], f"was submitted at {seconds_text(int(submit[row]))} s")
    if isinstance(schedule, Schedule):
        eligible, promise = case.column(schedule.eligible), case.column(schedule.promise)
        for row in report.each("start", case.ran & (submit <= start) & (start < eligible)):
            when = seconds_text(int(eligible[row]))
            report.add("start", ids[row], start[row], f"starts before it is eligible at {when} s")
        broken = case.ran & (promise != NO_TIME) & (promise < start) & promises_bind
        for row in report.each("promise", broken):
            report.add("promise", ids[row], start[row], f"was promised {seconds_text(int(promise[row]))} s")


def _check_ends(case: _Case, schedule: Schedule | ScheduleColumns, overrun: Overrun) -> Ints:
    """Check the ends; return when each job that ran ended, computed where the schedule does not say."""
    jobs, start, report = case.workload.jobs, case.start, case.report
    shortest, longest = _runs(case)
    rounding = (shortest != jobs.runtime) | (longest != jobs.runtime)
    if overrun == "kill":
        shortest, longest = np.minimum(shortest, jobs.walltime), np.minimum(longest, jobs.walltime)
    if schedule.end is None:
        return start + shortest

    ids, end = jobs.job, case.column(schedule.end)
    for row in report.each("end", case.ran & (end == NO_TIME)):
        report.add("end", ids[row], start[row], "has a start but no end")
    for row in report.each("end", (case.line >= 0) & ~case.ran & (end != NO_TIME)):
        report.add("end", ids[row], end[row], "has an end but no start")
    held = end - start
    wrong = (held < shortest - rounding) | (held > longest + rounding)
    for row in report.each("end", case.ran & (end != NO_TIME) & wrong):
        text = f"ends {seconds_text(int(held[row]))} s after its start; expected {seconds_text(int(shortest[row]))} s"
        report.add("end", ids[row], end[row], text)
    return np.where(case.ran & (end != NO_TIME), end, start + shortest)


def _runs(case: _Case) -> tuple[Ints, Ints]:
    """How long each job runs where it is, at least and at most: a gang goes at the pace of its slowest node.

    Where that is not known, every pace of the platform is lawful.
    """
    speed, runtime = case.platform.speed, case.workload.jobs.runtime
    pace = np.full(len(runtime), np.inf)
    seated = (case.seat_node >= 0) & case.placed
    np.minimum.at(pace, case.seat_job[seated], speed[case.seat_node[seated]])
    known = np.isfinite(pace)

    def at(speeds: Floats) -> Ints:
        return np.where(speeds == 1, runtime, np.ceil(runtime / speeds)).astype(np.int64)

    return at(np.where(known, pace, speed.max())), at(np.where(known, pace, speed.min()))


def _check_states(case: _Case, schedule: Schedule | ScheduleColumns, overrun: Overrun) -> None:
    jobs, report, listed = case.workload.jobs, case.report, case.line >= 0
    if schedule.state is not None:
        state = case.column(_coded(schedule.state, STATES), -1)
        shortest, longest = _runs(case)
        killed, spared = shortest > jobs.walltime, longest <= jobs.walltime
        if overrun == "extend":
            killed, spared = np.zeros(len(jobs), np.bool_), np.ones(len(jobs), np.bool_)
        lawful = np.where(case.ran, np.where(killed, TIMEOUT, COMPLETED), REJECTED)
        either = case.ran & ~killed & ~spared & ((state == TIMEOUT) | (state == COMPLETED))
        for row in report.each("state", listed & (state != -1) & (state != lawful) & ~either):
            stated = STATES[state[row]] if state[row] >= 0 else "none of the known states"
            report.add("state", jobs.job[row], None, f"is {stated}; expected {STATES[lawful[row]]}")
    if schedule.reason is not None:
        reason = case.column(_coded(schedule.reason, REASONS), -1)
        for row in report.each("reason", case.ran & (reason == -2)):
            report.add("reason", jobs.job[row], None, f"its reason is none of {', '.join(REASONS)}")


def _coded(column: Any, names: tuple[str, ...]) -> Ints:
    """Indexes into `names`; -1 for an empty text, -2 for what is none of them."""
    values = np.asarray(column)
    if values.dtype.kind in "iu":
        return np.where((values >= -1) & (values < len(names)), values, -2).astype(np.int64)
    code = {"": -1} | {name: i for i, name in enumerate(names)}
    return np.fromiter((code.get(text, -2) for text in values.tolist()), np.int64, len(values))


def _check_after(case: _Case, until: Ints) -> None:
    ids, after, report = case.workload.jobs.job, case.workload.jobs.after, case.report
    rows = np.flatnonzero(case.ran)
    index, owner = _items(after, rows)
    row, before = rows[owner], after.items[index]
    for i in report.each("start", ~case.ran[before] | (case.start[row] < until[before])):
        never = "" if case.ran[before[i]] else ", and which never ran"
        text = f"starts before the end of job {ids[before[i]]}, which it comes after{never}"
        report.add("start", ids[row[i]], case.start[row[i]], text)


def _check_rejected(case: _Case) -> None:
    """A job stays without a start only where it must."""
    jobs, report = case.workload.jobs, case.report
    idle = np.flatnonzero(~case.ran & (case.line >= 0))
    index, owner = _items(jobs.after, idle)
    follows = np.zeros(len(idle), np.bool_)
    follows[owner[~case.ran[jobs.after.items[index]]]] = True
    alone = _Alone(case.workload, case.platform)
    wronged = idle[[not follows[i] and alone.runs(row) for i, row in enumerate(idle.tolist())]] if len(idle) else idle
    for i in report.each("rejected", np.ones(len(wronged), np.bool_)):
        report.add("rejected", jobs.job[wronged[i]], None, "never starts, although the platform can run it")


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


def _check_nodes(case: _Case, schedule: Schedule | ScheduleColumns) -> None:
    """All tasks of a job are on nodes, and a gang keeps together."""
    jobs, report, n = case.workload.jobs, case.report, len(case.workload)
    seated, strange = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    np.add.at(seated, case.seat_job, case.seat_tasks)
    strange[case.seat_job[(case.seat_node < 0) | (case.seat_tasks < 1)]] = True
    for row in report.each("node", case.ran & (strange | (seated != jobs.tasks))):
        text = schedule.node_text(case.line[row]) if isinstance(schedule, Schedule) else schedule.node[case.line[row]]
        wanted = f"{jobs.tasks[row]} tasks on nodes of the platform"
        report.add("node", jobs.job[row], case.start[row], f"sits on {str(text)!r}; expected {wanted}")

    real = case.seat_node >= 0
    job, node = case.seat_job[real], case.seat_node[real]
    for rule, where in (("node", node), ("site", case.platform.site[node])):
        low, high = np.full(n, 2**62), np.full(n, -1)
        np.minimum.at(low, job, where)
        np.maximum.at(high, job, where)
        for row in report.each("spread", (low < high) & (jobs.spread == SPREAD.index(rule))):
            report.add("spread", jobs.job[row], case.start[row], f"sits on more than one {rule}")


def _check_hosts(case: _Case) -> None:
    """Jobs sit only where their site, their constraint and their licences let them."""
    jobs, platform, report = case.workload.jobs, case.platform, case.report
    real = case.seat_node >= 0
    job, node = case.seat_job[real], case.seat_node[real]
    place = {name: i for i, name in enumerate(platform.sites)}
    pinned = np.array([place.get(name, -2) for name in jobs.site.names] + [-1], np.int64)[jobs.site.codes[job]]
    for i in report.each("site", (pinned != -1) & (pinned != platform.site[node])):
        text = f"sits on node {platform.nodes[node[i]]}; expected site {jobs.site[job[i]]}"
        report.add("site", jobs.job[job[i]], case.start[job[i]], text)

    fitting = np.array(
        [_meets(platform, text) for text in jobs.constraint.names] + [np.ones(len(platform.nodes))], bool
    )
    for i in report.each("constraint", ~fitting[jobs.constraint.codes[job], node]):
        text = f"sits on node {platform.nodes[node[i]]}; expected {jobs.constraint[job[i]]}"
        report.add("constraint", jobs.job[job[i]], case.start[job[i]], text)

    index, seat = _items(jobs.licences, job)
    asked = _licence_index(case.workload, platform)[jobs.licences.items[index]]
    seat, asked = seat[asked >= 0], asked[asked >= 0]
    for i in report.each("host", ~platform.hosts[node[seat], asked]):
        row, where = job[seat[i]], platform.nodes[node[seat[i]]]
        text = f"sits on node {where}, which may not host licence {platform.licences[asked[i]]}"
        report.add("host", jobs.job[row], case.start[row], text)


def _check_capacity(case: _Case, until: Ints) -> None:
    resources, demand, capacity = _limited(case.workload, case.platform)
    holders = [f"node {name}" for name in case.platform.nodes] if case.placed else ["the platform"]
    capacity = capacity if case.placed else capacity.sum(axis=0, keepdims=True)
    real = case.seat_node >= 0
    job, node, tasks = case.seat_job[real], case.seat_node[real], case.seat_tasks[real]
    sweep = _Sweep(node, case.start[job], until[job])
    for k, resource in enumerate(resources):
        for seat, time, lane, held in sweep.above(tasks * demand[job, k], capacity[:, k], case.report, "capacity"):
            text = f"{holders[lane]} holds {held} {resource} of {capacity[lane, k]}"
            case.report.add("capacity", case.workload.jobs.job[job[seat]], time, text)


def _check_licences(case: _Case, until: Ints) -> None:
    licences = case.workload.jobs.licences
    rows = np.flatnonzero(case.ran)
    index, owner = _items(licences, rows)
    job, asked = rows[owner], licences.items[index]
    copies = np.append(case.platform.copies, 0)[_licence_index(case.workload, case.platform)]
    sweep = _Sweep(asked, case.start[job], until[job])
    for item, time, licence, held in sweep.above(np.ones(len(job), np.int64), copies, case.report, "licence"):
        text = f"{held} copies of {case.workload.licences[licence]} are held of {copies[licence]}"
        case.report.add("licence", case.workload.jobs.job[job[item]], time, text)


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


class _Sweep:
    """Amounts held on intervals [begin, end), each in its lane, in order of time."""

    def __init__(self, lane: Ints, begin: Ints, end: Ints) -> None:
        self.lane, self.begin = lane, begin
        real = np.flatnonzero(begin < end)
        lanes, times = np.tile(lane[real], 2), np.concatenate([begin[real], end[real]])
        order = np.lexsort((times, lanes))
        self.lanes, self.times = lanes[order], times[order]
        self.interval, self.sign = np.tile(real, 2)[order], np.where(order < len(real), 1, -1)

    def above(self, amount: Ints, limit: Ints, report: _Report, rule: str) -> Iterator[tuple[int, int, int, int]]:
        """Where a lane rises above its limit: (the last interval that begins there, instant, lane, amount held)."""
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
            cause = np.flatnonzero((self.lane == lane) & (self.begin == time) & (amount > 0))[-1]
            yield int(cause), time, lane, (int(high[event]) << 32) + int(low[event])
