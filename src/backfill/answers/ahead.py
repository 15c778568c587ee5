"""The jobs ahead of a waiting job: those before it in the policy's order, and those that keep it back if it fits."""

from collections.abc import Sequence

import numpy as np

from backfill.answers.asked import Queue
from backfill.answers.situation import asked
from backfill.core.queue.places import BLOCK
from backfill.queue.job import Job
from backfill.queue.shapes import JsonObject
from backfill.queue.states import CANCELLED

SHOWN = 5  # most jobs that are listed
ALONE = 8  # most jobs each of whose removal is tried alone
COMPARED = 2_000  # most jobs ahead whose nodes are compared with those of the job


def in_order(queue: Queue) -> list[int]:
    """Return the jobs in the policy's queue, in its order; the first one, if it has two."""
    planner, q = queue.planner, queue.planner.state.queue
    if q.deep:
        blocks = np.arange(int(q.places) // BLOCK)
        places = np.concatenate([block * BLOCK + np.arange(int(q.count[block])) for block in blocks])
    else:
        places = np.arange(int(q.front[0]), int(q.back[0]))
        if q.loose[0]:
            places = places[np.lexsort((q.line[places], q.rank[places]))]
    rows = [*q.line[places].tolist(), *q.fresh[: int(q.fresh_count)].tolist()]
    return [number for row in rows if (number := planner.ids[row]) in queue.jobs]


def ahead(queue: Queue, job: Job) -> list[Job]:
    """Return the jobs before a waiting job in the policy's order that could use the same nodes or licences."""
    order = in_order(queue)
    before = [queue.jobs[number] for number in order[: order.index(job.id)]] if job.id in order else []
    if not before or not queue.planner.named:
        return before
    some = before[:COMPARED]
    asks, _ = asked(queue.planner, [job, *some])
    nodes, licences = asks.nodes(0), asks.licences_of(0)[0]
    meets = [
        bool((asks.nodes(row) & nodes).any()) or bool(np.isin(licences, asks.licences_of(row)[0]).any())
        for row in range(1, len(some) + 1)
    ]
    return [other for other, is_met in zip(some, meets, strict=True) if is_met] + before[COMPARED:]


def keeping(queue: Queue, job: Job, before: Sequence[Job]) -> list[Job]:
    """Return the waiting jobs without which a job that fits would start at once: one, if there is such a one.

    Otherwise they are the fewest of the first ones, those ahead of it (`before`) first; empty if it would not start
    without any of them.
    """
    reserved, rows = queue.planner.state.promises.reserved, queue.planner.rows
    place = {other.id: i for i, other in enumerate(before)}
    others = [one for one in queue.pending() if one.waits and one.id != job.id]
    others.sort(key=lambda one: (one.id not in place, int(reserved[rows[one.id]]) if queue.binds else 0,
                                 place.get(one.id, one.id)))  # fmt: skip

    def starts(some: Sequence[Job]) -> bool:
        return queue.starts_now(job.id, [["gone", other.id, CANCELLED] for other in some])

    for other in others[:ALONE]:
        if starts([other]):
            return [other]
    if not others or not starts(others):
        return []
    low, high = 1, len(others)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if starts(others[:middle]) else (middle + 1, high)
    return others[:low]


def listed(some: Sequence[Job]) -> JsonObject:
    """Return how many jobs these are, and the first ones, for JSON."""
    first = [{"id": one.id, "label": one.label, "name": one.name, "user": one.user} for one in some[:SHOWN]]
    return {"count": len(some), "first": first}
