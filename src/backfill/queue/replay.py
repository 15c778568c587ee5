"""What a queue has recorded, lived again.

Open loop: every pass that is in the log is asked for again; the policy must decide the same. Closed loop: the jobs
become a workload with the run times that they had, and `simulate` must start each at the very microsecond.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from backfill.core.policy import Policy
from backfill.model.errors import InputError
from backfill.model.schedule import NO_TIME
from backfill.model.workload import Jobs, Labels, Workload
from backfill.queue import feed
from backfill.queue.book import Event, Facts
from backfill.queue.planner import Planner, load_policy, platform_of
from backfill.queue.store import Store, StoreError
from backfill.worlds.simulated import simulate

SHOWN = 5


@dataclass
class Epoch:
    """A stretch of a log with one policy: its begin, its passes."""

    facts: Facts
    events: list[Event]
    passes: list[feed.Pass] = field(default_factory=list)


@dataclass
class Check:
    """What came out of a comparison with the log."""

    passes: int = 0
    starts: int = 0
    open_loop: list[str] = field(default_factory=list)  # differences
    closed_jobs: int = 0  # compared in the closed loop
    closed_loop: list[str] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)  # why an epoch has no closed loop -> how many


def epochs(folder: Path) -> list[Epoch]:
    """The epochs of a queue's folder. Raises InputError."""
    path = folder / "store.db" if folder.is_dir() else folder
    if not path.is_file():
        raise InputError(f"{folder}: no queue is recorded there; expected a folder with a store.db")
    try:
        store = Store(path, readonly=True)
        events = [*store.events()]
        store.close()
    except (StoreError, ValueError) as error:
        raise InputError(str(error)) from None
    found: list[Epoch] = []
    for event in events:
        if event.kind == "epoch":
            found.append(Epoch(event.data, []))
        elif found:
            found[-1].events.append(event)
    for one in found:
        one.passes, _ = feed.passes(one.events)
    return found


def check(some: list[Epoch]) -> Check:
    """Live them again, open and closed loop."""
    result = Check()
    for number, one in enumerate(some, 1):
        late = _check_open(one, number, result)
        why = "a pass came late" if late else _cannot_close(one)
        if why:
            result.left_out[why] = result.left_out.get(why, 0) + 1
        else:
            _check_closed(one, number, result)
    return result


def _check_open(one: Epoch, number: int, result: Check) -> bool:
    """Ask for each pass again. Returns whether one of them came later than the policy had asked for."""
    planner = Planner(one.facts["policy"], one.facts)
    for place, then in enumerate(one.passes):
        done = planner.decide(then.now, then.messages)["starts"]
        result.passes += 1
        result.starts += len(then.decided)
        last = place + 1 == len(one.passes)
        if done != then.decided and not (last and not then.decided):  # the last may have had no answer
            what = f"epoch {number}, pass {place + 1} at {then.now}: {then.decided} in the log, {done} now"
            result.open_loop.append(what)
            break
    return planner.late > 0


@dataclass
class _Life:
    """A job of an epoch: when the policy was told of it, when it started, when it was told of its end."""

    facts: Facts
    submit: int = 0
    start: int | None = None
    why: str = ""
    end: int | None = None


def _lives(one: Epoch) -> Iterator[tuple[int, _Life]]:
    found: dict[int, _Life] = {}
    for then in one.passes:
        for kind, job, *about in then.messages:
            if kind == "submit":
                found[job] = _Life(about[0], then.now)
            elif kind == "gone" and job in found:
                found[job].end = then.now
        for job, why in then.decided:
            found[job].start, found[job].why = then.now, why
    yield from found.items()


def _cannot_close(one: Epoch) -> str:
    """Why a simulation of an epoch's jobs does not know all that the policy was told; empty if it does."""
    if one.facts["base"]:
        return "jobs were open when it began"
    for event in one.events:
        if event.kind in ("hold", "release", "edit", "unstarted", "requeue", "declined", "capacity"):
            return f"it has a {event.kind}"
    told: set[int] = set()
    for then in one.passes:
        for kind, job, *_ in then.messages:
            if kind == "submit":
                told.add(job)
            elif kind == "wait" and ["submit", job] not in [message[:2] for message in then.messages]:
                return "a job had to wait for something else than the machine"
    lives = dict(_lives(one))
    if any(life.end is not None and life.start is None for life in lives.values()):
        return "a pending job was cancelled"
    waits = {job for then in one.passes for kind, job, *_ in then.messages if kind == "wait"}
    if waits != set(lives):
        return "a job never came to the queue of the policy"
    return ""


def workload(one: Epoch) -> tuple[Workload, dict[int, _Life]]:
    """The jobs of an epoch that are over, with the run times that they had.

    A job is killed at its walltime and its grace; one that was recorded beyond that ran a little longer.
    """
    lives = {job: life for job, life in _lives(one) if life.start is not None and life.end is not None}
    names = platform_of(one.facts["resources"]).resources
    some = [*lives.values()]
    return (
        Workload(
            Jobs(
                job=np.array([*lives], np.int64),
                submit=np.array([life.submit for life in some], np.int64),
                runtime=np.array([(life.end or 0) - (life.start or 0) for life in some], np.int64),
                walltime=np.array([life.facts["walltime"] + life.facts["grace"] for life in some], np.int64),
                demand=np.array(
                    [[life.facts["need"].get(name, 0) for name in names] for life in some], np.int64
                ).reshape(len(some), len(names)),
                priority=np.array([float(life.facts["priority"]) for life in some]),
                user=Labels.of([life.facts["user"] for life in some]),
                project=Labels.of([life.facts["project"] for life in some]),
            ),
            name="queue",
            resources=names,
        ),
        lives,
    )


def _check_closed(one: Epoch, number: int, result: Check) -> None:
    from backfill.worlds.options import Options

    log, lives = workload(one)
    if not len(log):
        return
    if len(lives) < sum(1 for _ in _lives(one)):
        result.left_out["some of its jobs are not over"] = result.left_out.get("some of its jobs are not over", 0) + 1
        return
    policy, params = load_policy(one.facts["policy"])
    platform = platform_of(one.facts["resources"])
    schedule = simulate(log, platform, policy, params, Options(overrun="extend")).schedule
    for row, (job, life) in enumerate(lives.items()):
        result.closed_jobs += 1
        start = None if schedule.start[row] == NO_TIME else int(schedule.start[row])
        if start != life.start:
            result.closed_loop.append(f"epoch {number}, job {job}: started at {life.start}, simulated at {start}")


def what_if(one: Epoch, policy: Policy, params: Mapping[str, float | str]) -> Any:
    """The jobs of an epoch under another policy."""
    from backfill.worlds.options import Options

    log, _ = workload(one)
    return simulate(log, platform_of(one.facts["resources"]), policy, params, Options(overrun="extend"))
