"""Replay of what a queue has recorded.

Open loop: every pass in the log is decided again; the decisions must be the same. Closed loop (worlds/recorded.py): the
jobs start when the policy decides so, run as long as they did, and must start at the same microsecond; if there were
only submits and ends, `simulate` must give the same starts.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from backfill.answers.history import recorded
from backfill.model.errors import InputError
from backfill.queue import events, feed, protocol
from backfill.queue.book import each_job
from backfill.queue.events import Entry
from backfill.queue.job import PREEMPT, whole
from backfill.queue.shapes import Basis
from backfill.queue.store import Store, StoreError
from backfill.worlds.live import LOCAL, Planner, load_policy, platform_of
from backfill.worlds.options import Options
from backfill.worlds.prediction import Prediction
from backfill.worlds.recorded import Away, Closed, lives
from backfill.worlds.simulated import simulate

SHOWN = 5
# Events that `simulate` does not support.
UNKNOWN = (
    events.Hold, events.Release, events.Edit, events.Unstarted, events.Requeue, events.Declined, events.Capacity,
    events.NodeSet, events.Began, events.Withdrawn,
)  # fmt: skip


@dataclass
class Epoch:
    """A part of a log with one policy: its first state, and its passes."""

    facts: Basis
    events: list[Entry]
    passes: list[protocol.Pass] = field(default_factory=list)
    away: Away = field(default_factory=list)  # spans without decisions, once they are known


@dataclass
class Check:
    """The result of a comparison with the log."""

    passes: int = 0
    starts: int = 0
    open_loop: list[str] = field(default_factory=list)  # differences
    closed_jobs: int = 0  # jobs compared in the closed loop; one that is open in two epochs counts twice
    simulated_jobs: int = 0  # those of them also compared with `simulate`
    closed_loop: list[str] = field(default_factory=list)  # differences
    left_out: dict[str, int] = field(default_factory=dict)  # number of epochs by reason


def epochs(folder: Path) -> list[Epoch]:
    """Read the epochs in a queue's folder. Raises InputError."""
    path = folder / "store.db" if folder.is_dir() else folder
    if not path.is_file():
        raise InputError(f"{folder}: no queue is recorded there; expected a folder with a store.db")
    try:
        store = Store(path, readonly=True)
        log = [*store.events()]
        store.close()
    except (StoreError, ValueError) as error:
        raise InputError(str(error)) from None
    found: list[Epoch] = []
    for entry in log:
        if isinstance(entry.event, events.Epoch):
            found.append(Epoch(entry.event.basis, []))
        elif found:
            found[-1].events.append(entry)
    for one in found:
        one.passes, _ = feed.passes(one.events)
    return found


def check(some: list[Epoch]) -> Check:
    """Replay epochs, open and closed loop, and compare them with the log."""
    result = Check()
    for number, one in enumerate(some, 1):
        if not _check_open(one, number, result):
            continue
        _check_closed(one, number, result)
        why = _cannot_simulate(one)
        if why:
            result.left_out[why] = result.left_out.get(why, 0) + 1
        else:
            _check_simulated(one, number, result)
    return result


def _check_open(one: Epoch, number: int, result: Check) -> bool:
    """Decide each pass again, and find the spans in which the requested passes did not happen.

    Returns whether all decisions are the same.
    """
    planner, wake = Planner(one.facts["policy"], one.facts), None
    for place, then in enumerate(one.passes):
        if wake is not None and wake < then.now:
            one.away.append((wake, then.now))
        decided = planner.decide(then.now, then.messages)
        done, wake = planner.last, decided["wake"]
        result.passes += 1
        result.starts += sum(why != PREEMPT for _, why, *_ in then.decided)
        if done == then.decided:
            continue
        if place + 1 == len(one.passes) and not then.decided:  # the pass may have got no answer
            del one.passes[-1]
            return True
        what = f"epoch {number}, pass {place + 1} at {then.now}: {then.decided} in the log, {done} now"
        result.open_loop.append(what)
        return False
    return True


def _check_closed(one: Epoch, number: int, result: Check) -> None:
    if not one.passes or one.facts.get("advises"):
        return
    again = Closed(one.facts["policy"], one.facts, one.passes, one.away)
    again.live(one.passes[-1].now)
    running = {job: 1 for job, _, start in one.facts["base"] if start is not None}
    for job, life in again.lives.items():
        result.closed_jobs += 1
        starts = life.starts[running.get(job, 0) :]
        if starts != again.starts[job]:
            result.closed_loop.append(
                f"epoch {number}, job {job}: recorded starts {starts}, replayed starts {again.starts[job]}"
            )
        elif life.nodes != again.nodes[job]:
            result.closed_loop.append(
                f"epoch {number}, job {job}: recorded nodes {life.nodes}, replayed nodes {again.nodes[job]}"
            )


def _cannot_simulate(one: Epoch) -> str:
    """Return why `simulate` cannot repeat an epoch; empty if it can."""
    if one.facts.get("advises"):
        return "its policy gave only advice"
    if one.away:
        return "a pass came late"
    if one.facts["base"]:
        return "jobs were open when it began"
    if one.facts.get("ended"):
        return "its predictor knew jobs that had ended before"
    if one.facts.get("nodes"):
        return "nodes were out of service when it began"
    preempted: set[int] = set()
    now, started, progress = 0, dict[int, int](), dict[int, int]()
    for event, _, _ in one.events:
        if isinstance(event, UNKNOWN):
            return f"it has an event of kind {event.kind}"
        if isinstance(event, events.Spared) or (isinstance(event, events.End | events.Stop) and event.job in preempted):
            return "a job ended by itself, or was cancelled, when it was preempted"
        if isinstance(event, events.PassBegun):
            now = event.now
        elif isinstance(event, events.Start | events.Due):
            started[event.job] = event.start if isinstance(event, events.Due) or event.due is None else event.due
        elif isinstance(event, events.Kept) and event != events.Kept(event.job, progress.get(event.job, 0), event.how):
            return "a job that kept its progress was not stopped, or started, when the policy decided it"
        if isinstance(event, events.Preempt):
            preempted.add(event.job)
            done = progress.get(event.job, 0) + now - started.get(event.job, now) - event.overhead
            progress[event.job] = done if event.how else 0
        elif isinstance(event, events.Preempted):
            preempted.discard(event.job)
    for then in one.passes:
        for kind, *about in then.messages:
            if kind in protocol.WAITS and ["submit", about[0]] not in [message[:2] for message in then.messages]:
                return "a job had to wait for something else than the machine"
    found, _ = lives([], one.passes)
    if any(life.steps[-1].message is not None and not life.starts and len(life.steps) > 2 for life in found.values()):
        return "a pending job was cancelled"
    if any(not life.waits for life in found.values()):
        return "a job never came to the queue of the policy"
    if any(not life.ends for life in found.values()):
        return "some of its jobs are not over"
    for life in found.values():
        longest = life.facts["walltime"] + life.facts["grace"]
        if one.facts.get("predict") and any(
            end - start > longest for start, end in zip(life.starts, life.ends, strict=False)
        ):
            return "a job ran beyond its walltime, which predictions do not allow for"
        if life.keeps:
            continue
        *before, last = (end - start for start, end in zip(life.starts, life.ends, strict=False))
        if last <= max(before, default=-1):
            return "a job ran longer before a preemption than in its last run"
    return ""


def _check_simulated(one: Epoch, number: int, result: Check) -> None:
    """Compare the starts and nodes of the ended jobs with those of `simulate`."""
    known, _ = lives([], one.passes)
    ran = {job: life for job, life in known.items() if life.starts and len(life.ends) == len(life.starts)}
    if not ran:
        return
    log = recorded([Entry(events.Epoch(one.facts)), *one.events], ran)
    policy, params = load_policy(one.facts["policy"], log.platform, one.facts.get("preempts", LOCAL))
    predict = one.facts.get("predict")
    options = Options(predict=Prediction.parse(predict)) if predict else Options(overrun="extend")
    schedule = simulate(log.workload, log.platform, policy, params, options).schedule
    runs = schedule.all_runs
    for row, job in enumerate(log.workload.jobs.job.tolist()):
        result.simulated_jobs += 1
        life, mine = ran[int(job)], np.flatnonzero(runs.job == row).tolist()
        starts = runs.start[mine].tolist()
        if starts != life.starts:
            result.closed_loop.append(f"epoch {number}, job {job}: started at {life.starts}, simulated at {starts}")
            continue
        nodes = [
            [[schedule.nodes[node], tasks] for node, tasks in runs.held[run].reshape(-1, 2).tolist()] for run in mine
        ]
        if one.facts.get("platform") and nodes != life.nodes:
            result.closed_loop.append(f"epoch {number}, job {job}: ran on {life.nodes}, simulated on {nodes}")


@dataclass
class WhatIf:
    """The recorded waits of jobs and their waits under another policy, in microseconds, in the order of `jobs`."""

    jobs: list[int] = field(default_factory=list)
    was: list[int] = field(default_factory=list)
    would_be: list[int] = field(default_factory=list)


def what_if(some: list[Epoch], policy: str) -> WhatIf:
    """Replay each epoch under another policy, with all actions of users, and return the waits of the jobs that ran.

    A wait begins when the job may start, and ends with its last start; jobs that depend on ends of others follow these.
    Spans without a daemon are not repeated.
    """
    result = WhatIf()
    for one in some:
        load_policy(policy, platform_of(one.facts), one.facts.get("preempts", LOCAL))
        jobs = {event.job: (t, whole(event.row)) for event, t, _ in one.events if isinstance(event, events.Submit)}
        submits = {job: t for job, (t, _) in jobs.items()}
        arrays: dict[int, list[int]] = {}
        for job, (_, facts) in sorted(jobs.items()):
            arrays.setdefault(facts["array"], []).append(job)
        after = {
            job: [on for _, on in each_job(facts["after"], arrays)]
            for job, (_, facts) in jobs.items()
            if not facts["any_of"]
        }
        again = Closed(policy, one.facts, one.passes, [], submits, after)
        again.live()
        for job, life in again.lives.items():
            if life.waits and life.starts and again.starts[job] and life.starts[0] >= life.waits[0]:
                result.jobs.append(job)
                result.was.append(life.starts[-1] - life.waits[0])
                result.would_be.append(again.starts[job][-1] - again.waits[job])
    return result
