"""Translate an event file into steps of the simulated world."""

from typing import Any

import numpy as np

from backfill.core.acts import (
    ANNOUNCE,
    CANCEL,
    CAPACITY,
    CLOSE,
    COPIES,
    DOWN,
    NEW_PRIORITY,
    NEW_WALLTIME,
    OPEN,
    REVOKE,
    UP,
)
from backfill.model import events
from backfill.model.events import BoundEvents
from backfill.model.units import NEVER
from backfill.model.workload import Floats, Ints, Jobs

CLOSING, OPENING, STATED = range(3)  # at one instant windows end, then others begin, then the file's events are applied
OF_JOBS = {events.CANCEL: CANCEL, events.WALLTIME: NEW_WALLTIME, events.PRIORITY: NEW_PRIORITY}
OF_NODES = {events.DOWN: DOWN, events.UP: UP}


def acts(bound: BoundEvents, resources: int, place: Ints, jobs: Jobs) -> tuple[Ints, Floats]:
    """Return the steps, (steps, 8) in the columns of World.act, and the new priority of each.

    resources: number of the platform's resources; higher numbers in events are licences. jobs: in the core's order;
    place: the row there of each job of the workload. A window is announced, begins and ends, unless it is revoked
    before.

    An event of a job before its submit is applied at the very first submit, so that it causes no pass of its own: no
    policy sees the job before. This does not hold for a cancel if other jobs depend on the job, as it may release them.
    """
    submit, first = jobs.submit, int(jobs.submit.min(initial=NEVER))
    followed = np.isin(np.arange(len(jobs)), jobs.after.items)
    steps_found: list[tuple[tuple[int, int, int, int], list[int], float]] = []

    def add(when: int, phase: int, what: int, *, job: int = -1, node: int = -1, k: int = -1, value: int = 0,
            until: int = 0, amount: int = 0, priority: float = 0.0) -> None:  # fmt: skip
        early = what <= NEW_PRIORITY and when <= submit[job] and not (what == CANCEL and followed[job])
        row = [first if early else when, what, job, node, k, value, until, amount]
        steps_found.append(((row[0], phase, when, len(steps_found)), row, priority))

    columns = (bound.time, bound.kind, bound.job, bound.resource, bound.value, bound.until, bound.amount)
    revoked = np.full(len(bound), NEVER) if bound.revoked is None else bound.revoked
    rows = zip(*(column.tolist() for column in columns), revoked.tolist(), bound.priority.tolist(), strict=True)
    for row, (t, kind, job, k, value, until, amount, back, priority) in enumerate(rows):
        nodes = bound.nodes[row].tolist()
        if kind in OF_JOBS:
            add(t, STATED, OF_JOBS[kind], job=int(place[job]), value=value, priority=priority)
        elif kind in OF_NODES:
            for node in nodes:
                add(t, STATED, OF_NODES[kind], node=node)
        elif kind == events.CAPACITY and k >= resources:
            add(t, STATED, COPIES, k=k - resources, value=value)
        elif kind == events.CAPACITY:
            for node in nodes:
                add(t, STATED, CAPACITY, node=node, k=k, value=value)
        elif until > t:
            about: Any = {"value": value, "until": until, "amount": amount, "k": k if k < resources else 0}
            for node in nodes if k < resources else [resources - 1 - k]:
                add(t, STATED, ANNOUNCE, node=node, **about)
                if back < until:
                    add(back, STATED, REVOKE, node=node, **about)
                if max(value, t) < back:
                    add(max(value, t), OPENING if value > t else STATED, OPEN, node=node, **about)
                    add(min(until, back), CLOSING if until <= back else STATED, CLOSE, node=node, **about)
    steps_found.sort(key=lambda act: act[0])
    steps = np.array([row for _, row, _ in steps_found], np.int64).reshape(-1, 8)
    return steps, np.array([priority for *_, priority in steps_found])


def cancelled_at(bound: BoundEvents, jobs: Jobs, place: Ints) -> Ints:
    """Return when each job, in the core's order, is first cancelled by an event; NEVER if it is not."""
    instants = np.full(len(jobs), NEVER)
    cancels = bound.kind == events.CANCEL
    np.minimum.at(instants, place[bound.job[cancels]], bound.time[cancels])
    return instants
