"""Arrange a schedule and its workload as a `Case`: the row of each job, its runs, their places, the effects of events.

Rule `jobs` is checked on the way: jobs that are not in the workload cannot be arranged by it.
"""

import re
from dataclasses import replace
from typing import Any, cast

import numpy as np

from backfill.analysis.outages import Holders, Outages
from backfill.analysis.verify.case import (
    Case,
    CheckedRuns,
    Mask,
    Report,
    RunColumns,
    ScheduleColumns,
    codes_of,
    copies_held,
    demand_of,
    items_of,
    said_pending,
)
from backfill.model.events import BoundEvents
from backfill.model.platform import Platform
from backfill.model.schedule import (
    CANCELLED,
    NO_TIME,
    NODE_FAIL,
    PREEMPTED,
    REASONS,
    STATES,
    Schedule,
    place_text,
)
from backfill.model.units import NEVER
from backfill.model.workload import Counted, Ints, Ragged, Workload


def with_node_licences(workload: Workload, platform: Platform) -> Workload:
    """Turn node-bound licences, which jobs of one task request by name, into resources, as on the platform."""
    bound = [x for x, name in enumerate(workload.licences) if name in platform.resources[1:]]
    if not bound:
        return workload
    jobs, resources = workload.jobs, list(workload.resources)
    demand, licences = jobs.demand.copy(), jobs.licences
    for name in (workload.licences[x] for x in bound):
        if name not in resources:
            resources.append(name)
            demand = np.pad(demand, ((0, 0), (0, 1)))
    moved = np.isin(licences.items, bound) & (jobs.tasks[licences.jobs] == 1)
    for job, x, copies in zip(licences.jobs[moved], licences.items[moved], licences.counts[moved], strict=True):
        demand[job, resources.index(workload.licences[x])] += copies
    kept = (each[~moved] for each in (licences.jobs, licences.items, licences.counts))
    jobs = jobs.replace(demand=demand, licences=Counted.of_items(len(jobs), *kept))
    return replace(workload, jobs=jobs, resources=tuple(resources))


def read(workload: Workload, platform: Platform, schedule: Schedule | ScheduleColumns) -> Case:
    """Return the case without events, arranged by the rows of the workload; it reports violations of rule `jobs`."""
    report = Report(workload.calendar)
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
    return Case(workload, platform, line, start, ran, runs, placed, run, node, tasks, place, report, never, pending)


def _runs_of(
    workload: Workload, schedule: Schedule | ScheduleColumns, line: Ints, ran: Mask, report: Report
) -> CheckedRuns:
    def column(values: Any, missing: int = NO_TIME) -> Ints:
        return np.full(len(lines), missing) if values is None else np.asarray(values, np.int64)[lines]

    def coded(values: Any, names: tuple[str, ...]) -> Ints:
        return column(None if values is None else codes_of(values, names), -1)

    if schedule.runs is None:
        rows = np.flatnonzero(ran)
        lines = line[rows]
        states, reasons = coded(schedule.state, STATES), coded(schedule.reason, REASONS)
        times = (column(schedule.start), column(schedule.end))
        return CheckedRuns(rows, *times, states, reasons, column(None), lines)

    runs = schedule.runs
    if isinstance(schedule, Schedule):
        row_of = np.full(len(schedule) + 1, -1)
        row_of[line[line >= 0]] = np.flatnonzero(line >= 0)
        jobs, ids = row_of[np.asarray(runs.job)], schedule.job[np.asarray(runs.job)]
        kept = schedule.runs.progress if schedule.runs is not None else None
    else:
        rows_of = {str(job): row for row, job in enumerate(workload.jobs.job.tolist())}
        jobs = np.array([rows_of.get(str(job), -1) for job in runs.job.tolist()], np.int64)
        kept, ids = cast(RunColumns, runs).kept, runs.job
    for i in report.each("jobs", jobs < 0):
        report.add("jobs", ids[i], int(runs.start[i]), "a run of a job that is not in the workload")
    lines = np.flatnonzero(jobs >= 0)
    lines = lines[np.lexsort((runs.start[lines], jobs[lines]))]
    states, reasons = coded(runs.state, STATES), coded(runs.reason, REASONS)
    return CheckedRuns(jobs[lines], column(runs.start), column(runs.end), states, reasons, column(kept), lines)


def with_events(case: Case, schedule: Schedule | ScheduleColumns, events: BoundEvents) -> Case:
    """Return the case after its events."""
    workload, platform, runs = case.workload, case.platform, case.runs
    outages = Outages(events, platform, len(workload))
    over = ~np.isin(runs.state, (CANCELLED, NODE_FAIL, PREEMPTED))
    end = np.where(runs.end == NO_TIME, runs.start + workload.jobs.runtime[runs.job], runs.end)
    real = (case.seat_node >= 0) & case.placed
    job, tasks = case.seat_job[real], case.seat_tasks[real]
    seats = (case.seat_node[real], case.seat_run[real], tasks[:, None] * demand_of(workload, platform)[job])
    run, licence, copies = copies_held(case)
    nodes = Holders(*seats, runs.start, end, over)
    replay = outages.replay(nodes, Holders(licence, run, copies[:, None], runs.start, end, over), runs.job)
    pending = said_pending(case, schedule.state)
    return replace(case, cancelled=outages.cancelled, pending=pending, outages=outages, replay=replay)


def _lines(workload: Workload, schedule: Schedule | ScheduleColumns, report: Report) -> Ints:
    """Return the schedule's line about each job, by id; reports ids that are unknown, duplicate or missing."""
    ours, theirs = workload.jobs.job, np.asarray(schedule.job)
    if ours.dtype.kind == theirs.dtype.kind and np.array_equal(ours, theirs):
        return np.arange(len(ours))
    row_of = {str(job): row for row, job in enumerate(ours.tolist())}
    names = [str(job) for job in theirs.tolist()]
    rows = np.array([row_of.get(name, -1) for name in names], np.int64)
    for i in report.each("jobs", rows < 0):
        report.add("jobs", names[i], None, "is not in the workload")
    listed, first = np.unique(rows, return_index=True)
    again = rows >= 0
    again[first] = False
    for i in report.each("jobs", again):
        report.add("jobs", names[i], None, "is in the schedule more than once")
    line = np.full(len(ours), -1, np.int64)
    line[listed[listed >= 0]] = first[listed >= 0]
    for row in report.each("jobs", line < 0):
        report.add("jobs", ours[row], None, "is not in the schedule")
    return line


def _seats_of_pairs(names: tuple[str, ...], held: Ragged, platform: Platform, lines: Ints) -> tuple[Ints, Ints, Ints]:
    place = {name: node for node, name in enumerate(platform.nodes)}
    nodes = np.array([place.get(name, -1) for name in names] + [-1], np.int64)
    index, owner = items_of(held, lines)
    pairs = held.items[index].reshape(-1, 2)
    strange = (pairs[:, 0] < 0) | (pairs[:, 0] >= len(names))
    return owner[::2], nodes[np.where(strange, -1, pairs[:, 0])], pairs[:, 1]


def _seats_of_text(texts: Any, platform: Platform, lines: Ints) -> tuple[Ints, Ints, Ints]:
    """Parse `name`, with -1 tasks meaning all of the job's, or `a*2;b*3`."""
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
