"""Checks of the start and end of each run, and of the way in which it ended.

Rules `submit`, `start`, `promise`; `end`, `state`, `reason`; `runs`, `progress`; `lost`, `cancel`. The required length
of each run (`lengths_of`) and its outcome (`outcomes`) are computed first; the checks compare.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np

from backfill.analysis.outages import Outages, Replay
from backfill.analysis.verify.case import (
    Case,
    CheckedRuns,
    Lost,
    Mask,
    Overrun,
    ScheduleColumns,
    codes_of,
    demand_of,
    items_of,
)
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
    at_speed,
)
from backfill.model.units import NEVER, seconds_text
from backfill.model.workload import Floats, Ints


def check_starts(
    case: Case, schedule: Schedule | ScheduleColumns, promises_bind: bool, predicted: bool = False
) -> None:
    """Check that no start precedes its submit or `eligible`, none follows its promise, and stated submits match the
    workload's.

    predicted: whether the policy planned by predictions, which give no promises.
    """
    ids, submit, report, runs = case.workload.jobs.job, case.workload.jobs.submit, case.report, case.runs
    for i in report.each("start", runs.start < submit[runs.job]):
        text = f"starts before its submit at {report.date(submit[runs.job[i]])}"
        report.add("start", ids[runs.job[i]], runs.start[i], text)
    if schedule.submit is not None:
        stated = case.column(schedule.submit)
        for row in report.each("submit", (stated != NO_TIME) & (stated != submit)):
            report.add("submit", ids[row], stated[row], f"was submitted at {report.date(submit[row])}")
    if isinstance(schedule, Schedule):
        job, start = runs.job, runs.start
        eligible, promise = case.column(schedule.eligible)[job], case.column(schedule.promise)[job]
        for i in report.each("start", (submit[job] <= start) & (start < eligible)):
            report.add("start", ids[job[i]], start[i], f"starts before it is eligible at {report.date(eligible[i])}")
        broken = runs.first & (promise != NO_TIME) & (promise < start) & promises_bind
        for i in report.each("promise", broken):
            report.add("promise", ids[job[i]], start[i], f"was promised to start at {report.date(promise[i])}")
        for i in report.each("promise", runs.first & (promise != NO_TIME) & predicted):
            report.add("promise", ids[job[i]], start[i], "was promised a start, but predictions give no promises")


def check_after(case: Case, until: Ints) -> None:
    """Check that no job starts before the end, and the think time, of its predecessors."""
    ids, after, report, runs = case.workload.jobs.job, case.workload.jobs.after, case.report, case.runs
    over, gone = np.full(len(ids), NEVER), ~case.ran & (case.cancelled < NEVER)
    over[runs.job] = until  # the last of several runs remains
    over[gone] = case.cancelled[gone]
    index, owner = items_of(after, runs.job)
    before = after.items[index]
    think = case.workload.jobs.think[runs.job[owner]]
    for i in report.each("start", runs.start[owner] < over[before] + think):
        never = "" if case.ran[before[i]] or gone[before[i]] else ", and which never ran"
        late = f"{seconds_text(int(think[i]))} s after " if think[i] else ""
        text = f"starts before {late}the end of job {ids[before[i]]}, which it depends on{never}"
        report.add("start", ids[runs.job[owner[i]]], runs.start[owner[i]], text)


@dataclass(frozen=True, eq=False, slots=True)
class Lengths:
    """The minimum and maximum length of each run if only its end or its walltime stops it."""

    shortest: Ints
    longest: Ints
    rounding: Ints  # tolerance
    killed: Mask  # whether the walltime certainly cuts it
    spared: Mask  # whether it certainly does not
    extra: Ints  # the overhead of a resumed run, included in its length
    spent: Ints  # the kept time of earlier runs of its job, which counts against its walltime


def lengths_of(case: Case, overrun: Overrun, overhead: int) -> Lengths:
    """Return the required length of each run by its run time, pace, walltime and the earlier runs of its job."""
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
        length: Ints = np.where(speeds == 1, left, at_speed(left, speeds)) + extra
        return length

    needed, at_most = at(fast), at(slow)
    rounding = number * ((needed != left + extra) | (at_most != left + extra))
    nothing = np.zeros(len(runs), np.bool_)
    if overrun == "extend":
        return Lengths(needed, at_most, rounding, nothing, ~nothing, extra, spent)
    walltime = jobs.walltime[runs.job]
    if case.outages is not None:
        walltime = case.outages.walltime(runs.job, jobs.walltime, runs.start)
    limit = np.maximum(walltime - spent + extra, 0)
    shortest, longest = np.minimum(needed, limit), np.minimum(at_most, limit)
    for i in np.flatnonzero(np.isin(runs.job, list(case.outages.walltimes) if case.outages else [])).tolist():
        for time, value in cast(Outages, case.outages).walltimes[int(runs.job[i])]:
            past, more = time - int(runs.start[i]), max(value - int(spent[i]) + int(extra[i]), 0)
            for each, whole in ((shortest, needed), (longest, at_most)):
                if 0 < past < each[i]:  # it is still running
                    each[i] = max(past, min(int(whole[i]), more))
    return Lengths(shortest, longest, rounding, needed > shortest, at_most <= longest, extra, spent)


def _overheads(runs: CheckedRuns, preempted: Mask, overhead: int) -> Ints:
    """Return the overhead of each run: its own, and the rest that the previous run was too short for."""
    extra = np.where(preempted, overhead, 0)
    for i in np.flatnonzero(extra).tolist():
        extra[i] += max(int(extra[i - 1] - (runs.end[i - 1] - runs.start[i - 1])), 0)
    return extra


def _before(runs: CheckedRuns, values: Ints) -> Ints:
    """Return the sum of a value over the earlier runs of the same job."""
    upto = np.cumsum(values) - values
    before: Ints = upto - upto[runs.first][np.cumsum(runs.first) - 1]
    return before


def _paces(case: Case) -> tuple[Floats, Floats]:
    """Return the maximum and minimum pace of each run: a gang has the pace of its slowest node, less on several
    sites.

    If the nodes are unknown, every pace of the platform is accepted.
    """
    speed = case.platform.speed
    pace = np.full(len(case.runs), np.inf)
    seated = (case.seat_node >= 0) & case.placed
    np.minimum.at(pace, case.seat_run[seated], speed[case.seat_node[seated]])
    known, slower = np.isfinite(pace), 1 + case.platform.coallocation_overhead
    if slower > 1:
        site, run = case.platform.site[case.seat_node[seated]], case.seat_run[seated]
        least, greatest = np.full(len(pace), len(case.platform.sites)), np.full(len(pace), -1)
        np.minimum.at(least, run, site)
        np.maximum.at(greatest, run, site)
        pace = np.where(greatest > least, pace / slower, pace)
    return np.where(known, pace, speed.max()), np.where(known, pace, speed.min() / slower)


def outcomes(case: Case, lengths: Lengths, preempts: bool) -> Ints:
    """Return the required outcome of each run, as far as it is determined."""
    runs = case.runs
    outcome = np.where(lengths.killed, TIMEOUT, COMPLETED)
    cut = (runs.end != NO_TIME) & (runs.end - runs.start < lengths.longest + lengths.rounding)
    # with --ties step, a run may be preempted at the very instant of its end
    halted = (runs.end != NO_TIME) & (runs.end - runs.start <= lengths.longest + lengths.rounding)
    outcome[halted & (runs.state == PREEMPTED) & preempts] = PREEMPTED
    over = (runs.state == outcome) & (runs.end - runs.start >= lengths.shortest - lengths.rounding)
    outcome[cut & ~over & (runs.start < runs.end) & (case.cancelled[runs.job] == runs.end)] = CANCELLED
    if case.replay is not None:
        for time, lost in case.replay.lost.items():
            rows = np.array(sorted(lost), np.int64)
            outcome[rows[runs.end[rows] == time]] = NODE_FAIL
    return outcome


def check_ends(case: Case, schedule: Schedule | ScheduleColumns, lengths: Lengths, outcome: Ints) -> Ints:
    """Check the ends; return when each run ended, computed if the schedule does not state it."""
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
    for i in report.each("end", (runs.end != NO_TIME) & np.where(cut, (held < 0) | (held > longest + rounding), wrong)):
        text = f"ends {seconds_text(int(held[i]))} s after its start; expected {seconds_text(int(shortest[i]))} s"
        report.add("end", ids[runs.job[i]], runs.end[i], text)
    return np.where(runs.end != NO_TIME, runs.end, runs.start + shortest)


def check_states(
    case: Case, schedule: Schedule | ScheduleColumns, lengths: Lengths, outcome: Ints, lost: Lost, waited: Mask
) -> None:
    """Check that the state of each job and run follows from its outcome, with a known reason."""
    jobs, report, listed, runs = case.workload.jobs, case.report, case.line >= 0, case.runs
    expected = np.full(len(jobs), REJECTED)
    expected[runs.job] = outcome  # the last of several runs remains
    either = np.zeros(len(jobs), np.bool_)
    either[runs.job] = ~lengths.killed & ~lengths.spared & (outcome < REJECTED)
    idle = ~case.ran & (case.cancelled < NEVER)
    expected[idle] = CANCELLED
    again = ((expected == NODE_FAIL) & (lost == "requeue")) | (expected == PREEMPTED)
    expected[again & (case.cancelled < NEVER)] = CANCELLED  # while it waited for another run
    expected[case.pending & (again | ~case.ran) & (case.cancelled == NEVER)] = PENDING
    if schedule.state is not None:
        state = case.column(codes_of(schedule.state, STATES), -1)
        spared = either & ((state == TIMEOUT) | (state == COMPLETED))
        spared |= idle & (state == REJECTED)  # checked by `check_rejected`
        spared |= waited & (state == NODE_FAIL)
        for row in report.each("state", listed & (state != -1) & (state != expected) & ~spared):
            stated = STATES[state[row]] if state[row] >= 0 else "not one of the known states"
            report.add("state", jobs.job[row], None, f"is {stated}; expected {STATES[expected[row]]}")
    if schedule.runs is not None:
        spared = ~lengths.killed & ~lengths.spared & (outcome < REJECTED) & (runs.state < REJECTED)
        for i in report.each("state", (runs.state != outcome) & ~spared):
            stated = STATES[runs.state[i]] if runs.state[i] >= 0 else "not one of the known states"
            text = f"this run is {stated}; expected {STATES[outcome[i]]}"
            report.add("state", jobs.job[runs.job[i]], runs.start[i], text)
    if schedule.reason is not None or schedule.runs is not None:
        for i in report.each("reason", runs.reason == -2):
            report.add("reason", jobs.job[runs.job[i]], None, f"its reason is not one of {', '.join(REASONS)}")


def lost_suspended(case: Case, outcome: Ints, lost: Lost) -> Mask:
    """Return the mask of jobs that may have failed while suspended: capacity of their last run went away after it."""
    failed = np.zeros(len(case.workload.jobs), np.bool_)
    if case.replay is None or lost != "fail":
        return failed
    demand = demand_of(case.workload, case.platform)
    for seat in np.flatnonzero((case.runs.last & (outcome == PREEMPTED))[case.seat_run]).tolist():
        run, node = int(case.seat_run[seat]), int(case.seat_node[seat])
        job, steps = int(case.runs.job[run]), case.replay.nodes[node] if node >= 0 else []
        held = demand[job] * case.seat_tasks[seat]
        failed[job] |= any(time >= case.runs.end[run] and (room < held).any() for time, room, _ in steps)
    return failed


def check_runs(case: Case, schedule: Schedule | ScheduleColumns, outcome: Ints, lost: Lost, waited: Mask) -> None:
    """Check that a job runs again exactly after a run that was lost or preempted."""
    ids, report, runs = case.workload.jobs.job, case.report, case.runs
    next_of = np.flatnonzero(~runs.first)
    for i in report.each("runs", runs.start[next_of] < runs.end[next_of - 1]):
        text = f"starts before its previous run ends at {report.date(runs.end[next_of[i] - 1])}"
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
        report.add(
            "runs", ids[runs.job[i]], runs.start[i], "the row of the job does not describe this run, which is its last"
        )


def check_progress(case: Case, lengths: Lengths, outcome: Ints) -> None:
    """Check that each run keeps at most its length, nothing if it is lost, and everything if it completes."""
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


def check_lost(case: Case) -> None:
    """Check that runs are lost exactly if the events require it."""
    ids, report, runs = case.workload.jobs.job, case.report, case.runs
    lost = {run: time for time, rows in cast(Replay, case.replay).lost.items() for run in rows}
    must = np.full(len(runs), NO_TIME)
    must[list(lost)] = list(lost.values())
    for i in report.each("lost", (runs.state == NODE_FAIL) & (must != runs.end)):
        report.add("lost", ids[runs.job[i]], runs.end[i], "is lost, although no capacity that it holds was taken away")
    for i in report.each("lost", (must != NO_TIME) & ~((runs.state == NODE_FAIL) & (must == runs.end))):
        text = "continues, although capacity that it holds was taken away"
        report.add("lost", ids[runs.job[i]], must[i], text)


def check_cancelled(case: Case, until: Ints) -> None:
    """Check that no run starts or continues after its job is cancelled."""
    ids, report, runs, cancelled = case.workload.jobs.job, case.report, case.runs, case.cancelled
    when = cancelled[runs.job]
    for i in report.each("cancel", runs.start >= when):
        text = f"starts although it was cancelled at {report.date(when[i])}"
        report.add("cancel", ids[runs.job[i]], runs.start[i], text)
    for i in report.each("cancel", (runs.start < when) & (when < until)):
        text = f"continues to run although it was cancelled at {report.date(when[i])}"
        report.add("cancel", ids[runs.job[i]], runs.start[i], text)
