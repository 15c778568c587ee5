"""A schedule: when and where each job of a workload ran, and why it started then.

A job is what a user submitted; a run is one stay on the machine. A job has no run, one run, or several if it was
requeued after a node failure or a preemption.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.model import frames, notebook
from backfill.model.units import LATEST, counted, seconds_text
from backfill.model.workload import Floats, Ints, Jobs, Ragged

STATES = ("COMPLETED", "TIMEOUT", "REJECTED", "CANCELLED", "NODE_FAIL", "PREEMPTED", "PENDING")
COMPLETED, TIMEOUT, REJECTED, CANCELLED, NODE_FAIL, PREEMPTED, PENDING = range(7)  # PREEMPTED is a state of runs only
NO_TIME = -(2**62)  # no such instant: a rejected job has no start, most jobs have no promise
TEXTS = ("job", "state", "reason", "node")  # text columns of a table
# Reasons of a start; a closed list, whose indices the core writes.
REASONS = ("head", "backfill", "reserved", "fit", "gang", "thread", "moved-up", "resumed")
HEAD, BACKFILL, RESERVED, FIT, GANG, THREAD, MOVED_UP, RESUMED = range(8)


def at_speed(runtime: Any, speed: Any, rounded: Callable[[Any], Any] = np.ceil) -> Any:
    """Return the run times on nodes of these speeds, in whole microseconds, at most LATEST."""
    return np.minimum(rounded(runtime / speed), LATEST).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Spans:
    """Intervals of runs with constant turns on shared processors; a run that shares none is one interval."""

    run: Ints  # row of the runs
    start: Ints
    end: Ints
    rows: Ints  # rows in which it has turns, as bits
    of: Ints  # number of rows that take turns

    @property
    def share(self) -> Floats:
        """The share of the turns in each interval."""
        count = np.zeros(len(self.rows), np.int64)
        for row in range(int(self.of.max(initial=1))):
            count += (self.rows >> row) & 1
        share: Floats = count / self.of
        return share


@dataclass(frozen=True, eq=False)
class Runs:
    """One row per run, in order of (job, start); times in int64 microseconds."""

    job: Ints  # row of the schedule
    start: Ints
    end: Ints
    state: NDArray[np.int8]  # index into STATES: how the run ended; NODE_FAIL also if its job was requeued
    reason: NDArray[np.int8]  # index into REASONS
    held: Ragged  # pairs (node, tasks), concatenated
    progress: Ints  # kept part of end - start: all of it, or 0 if the run was lost
    # for runs that share processors: start of each interval, rows (bits) and number of rows, concatenated
    turns: Ragged | None = None

    def __repr__(self) -> str:
        return f"<Runs: {counted(len(self), 'run')}>"

    def __len__(self) -> int:
        return len(self.job)

    @property
    def length(self) -> Ints:
        """The length of each run, end - start."""
        return self.end - self.start

    @property
    def lost(self) -> Ints:
        """The time without kept progress: length - progress, excluding the turns of other runs."""
        if self.turns is None:
            return self.length - self.progress
        lost: Ints = np.where(self.state == NODE_FAIL, self.occupied, 0).astype(np.int64)
        return lost

    @property
    def spans(self) -> Spans:
        """The intervals with constant turns of each run, in order of run and time."""
        if self.turns is None:
            one = np.ones(len(self), np.int64)
            return Spans(np.arange(len(self)), self.start, self.end, one, one)
        since, rows, of = self.turns.items.reshape(-1, 3).T
        first = self.turns.first // 3
        end = np.append(since[1:], 0)[: len(since)]
        end[first[1:] - 1] = self.end
        return Spans(np.repeat(np.arange(len(self)), np.diff(first)), since, end, rows, of)

    @property
    def occupied(self) -> Ints | Floats:
        """The time for which each run had its processors: its length, or the sum of its turns if it shares them."""
        if self.turns is None:
            return self.length
        spans = self.spans
        return np.bincount(spans.run, (spans.end - spans.start) * spans.share, len(self))

    def dangled(self, ready: Ints) -> Ints:
        """Return the time that runs held their nodes idle because predecessors of their jobs were still running.

        ready: shape (jobs,), the end of the predecessors (`Schedule.ready`).
        """
        dangled: Ints = np.clip(ready[self.job] - self.start, 0, self.lost)
        return dangled

    @property
    def number(self) -> Ints:
        """The number of each run among those of its job, from 1."""
        return np.arange(1, len(self) + 1) - np.searchsorted(self.job, self.job)

    def since(self, eligible: Ints) -> Ints:
        """Return when the job began to wait for each run: when it was eligible, or the end of its previous run."""
        begin = eligible[self.job]
        again = np.flatnonzero(np.diff(self.job) == 0)
        begin[again + 1] = self.end[again]
        return begin

    def total(self, values: Ints, jobs: int) -> Ints:
        """Return the sum of one value per run over the runs of each of `jobs` jobs."""
        sums = np.zeros(jobs, np.int64)
        np.add.at(sums, self.job, values)
        return sums

    def take(self, rows: Ints) -> "Runs":
        """Return the rows with these indices, in this order."""
        columns: dict[str, Any] = {column.name: getattr(self, column.name) for column in fields(self)}
        return Runs(**{name: columns[name] if columns[name] is None else columns[name].take(rows) for name in columns})

    def of_jobs(self, rows: Ints) -> "Runs":
        """Return the runs of these jobs, renumbered in this order."""
        most = max(int(rows.max(initial=-1)), int(self.job.max(initial=-1))) + 1
        index = Ragged(np.searchsorted(self.job, np.arange(most + 1)), np.arange(len(self))).take(rows)
        return replace(self.take(index.items), job=np.repeat(np.arange(len(rows)), np.diff(index.first)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Schedule:
    """One row per job in the workload's file order; times in int64 microseconds, NO_TIME if undefined.

    For a job with several runs, `start`, `end`, `state`, `reason` and `held` are those of the last one. A job that was
    cancelled before it started has neither start nor end.
    """

    job: NDArray[Any]
    submit: Ints
    start: Ints
    end: Ints
    state: NDArray[np.int8]  # index into STATES
    reason: NDArray[np.int8]  # index into REASONS; -1 if the job never started
    rejected_for: NDArray[Any]  # for a rejected job the resource, licence or cause; else ""
    eligible: Ints  # when only resources could delay the job: its submit, or the end of its predecessors
    promise: Ints  # the first start that the policy promised; NO_TIME = none
    nodes: tuple[str, ...]
    held: Ragged  # pairs (node, tasks), concatenated
    runs: Runs | None = None  # None: each job that ran had one run

    def __repr__(self) -> str:
        several = f", {counted(len(self.runs), 'run')}" if self.runs is not None else ""
        return f"<Schedule: {counted(len(self), 'job')}{several} on {counted(len(self.nodes), 'node')}>"

    def _repr_html_(self) -> str:
        def cells(row: int) -> list[object]:
            times = (self.submit[row], self.start[row], self.end[row])
            instants = ["" if t == NO_TIME else seconds_text(int(t)) for t in times]
            return [self.job[row], STATES[self.state[row]], *instants]

        head = ["job", "state", "submit (s)", "start (s)", "end (s)"]
        caption = f"{counted(len(self), 'job')} on {counted(len(self.nodes), 'node')}"
        return notebook.first_rows(caption, head, cells, len(self))

    def __len__(self) -> int:
        return len(self.job)

    @property
    def shares(self) -> bool:
        """Return whether any runs share processors in turns."""
        return self.runs is not None and self.runs.turns is not None

    @property
    def all_runs(self) -> Runs:
        """The runs, also if each job had at most one."""
        if self.runs is not None:
            return self.runs
        rows = np.flatnonzero(self.ran)
        return replace(self.runs_of(rows), job=rows)

    def runs_of(self, rows: Ints) -> Runs:
        """Return the runs of these jobs, all of which ran; `job` is the index in `rows`."""
        if self.runs is not None:
            return self.runs.of_jobs(rows)
        start, end, state = self.start[rows], self.end[rows], self.state[rows]
        progress = np.where(state == NODE_FAIL, 0, end - start)
        return Runs(np.arange(len(rows)), start, end, state, self.reason[rows], self.held.take(rows), progress)

    def ready(self, jobs: Jobs) -> Ints:
        """Return when the predecessors of each job had ended, plus the think time; NO_TIME if none of them ran."""
        after, ready = jobs.after, np.full(len(self), NO_TIME)
        owner = np.repeat(np.arange(len(self)), np.diff(after.first))
        np.maximum.at(ready, owner, self.end[after.items] + jobs.think[owner])
        return ready

    @property
    def ran(self) -> NDArray[np.bool_]:
        """The mask of jobs that started."""
        ran: NDArray[np.bool_] = self.start != NO_TIME
        return ran

    @property
    def finished(self) -> NDArray[np.bool_]:
        """The mask of jobs that ran to their end or walltime: neither cancelled nor lost with a node."""
        finished: NDArray[np.bool_] = self.ran & ~np.isin(self.state, (CANCELLED, NODE_FAIL, PENDING))
        return finished

    def take(self, rows: Ints) -> "Schedule":
        """Return the rows with these indices, in this order."""
        columns: dict[str, Any] = {column.name: getattr(self, column.name) for column in fields(self)}
        for name, value in columns.items():
            if isinstance(value, np.ndarray | Ragged):
                columns[name] = value.take(rows)
        return Schedule(**columns | {"runs": None if self.runs is None else self.runs.of_jobs(rows)})

    def columns(self) -> frames.Columns:
        """Return the outcome of each job as table columns; times in seconds."""
        why = (*REASONS, "")
        reasons = zip(self.reason.tolist(), self.rejected_for, strict=True)
        return {
            "job": [str(job) for job in self.job.tolist()],
            **{name: frames.seconds(getattr(self, name).tolist(), NO_TIME) for name in ("submit", "start", "end")},
            "state": [STATES[state] for state in self.state.tolist()],
            "reason": [why[code] or cause for code, cause in reasons],
            "node": [self.node_text(row) for row in range(len(self))],
        }

    def run_columns(self) -> frames.Columns:
        """Return every run of every job as table columns; times in seconds."""
        runs = self.all_runs
        return {
            "job": [str(job) for job in self.job[runs.job].tolist()],
            "run": runs.number.tolist(),
            **{name: frames.seconds(getattr(runs, name).tolist(), NO_TIME) for name in ("start", "end", "progress")},
            "state": [STATES[state] for state in runs.state.tolist()],
            "reason": [REASONS[code] for code in runs.reason.tolist()],
            "node": [place_text(self.nodes, runs.held[row]) for row in range(len(runs))],
        }

    def node_text(self, row: int) -> str:
        """Format a job's nodes: `name`, or `a*2;b*3` for a gang on several nodes; empty for a rejected job."""
        return place_text(self.nodes, self.held[row])


def joined(parts: Sequence[Schedule]) -> Schedule:
    """Return one schedule of the jobs of several, one or more, in this order; all with runs, or none."""
    first = parts[0]
    if len(parts) == 1:
        return first
    columns: dict[str, Any] = {}
    for column in fields(first):
        values = [getattr(part, column.name) for part in parts]
        if isinstance(values[0], np.ndarray):
            columns[column.name] = np.concatenate(values)
        elif isinstance(values[0], Ragged):
            columns[column.name] = Ragged.joined(values)
    runs = [part.runs for part in parts if part.runs is not None]
    if runs:
        before = np.cumsum([0, *(len(part) for part in parts[:-1])])
        of_runs: dict[str, Any] = {
            column.name: np.concatenate([getattr(each, column.name) for each in runs])
            for column in fields(Runs)
            if column.name not in ("job", "held", "turns")
        }
        job = np.concatenate([each.job + rows for each, rows in zip(runs, before.tolist(), strict=True)])
        columns["runs"] = Runs(job=job, held=Ragged.joined([each.held for each in runs]), **of_runs)
    return replace(first, **columns)


def place_text(nodes: tuple[str, ...], held: Ints) -> str:
    """Format tasks on nodes: `name`, or `a*2;b*3` for several nodes; empty if nothing is held."""
    pairs = held.reshape(-1, 2).tolist()
    if len(pairs) == 1:
        return nodes[pairs[0][0]]
    return ";".join(f"{nodes[node]}*{tasks}" for node, tasks in pairs)
