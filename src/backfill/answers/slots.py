"""Find the amounts that fit now, and for how long, by submitting trial jobs to the copy of the planner."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from backfill.answers.asked import Queue
from backfill.answers.kinds import Kind, choices
from backfill.answers.situation import may_run
from backfill.core.plan.promises import NO_TIME
from backfill.model.reservations import Reservation
from backfill.model.units import NEVER, names_text
from backfill.queue.job import Job
from backfill.queue.shapes import JsonObject, Row

SECOND = 1_000_000
ALWAYS = 3650 * 86_400 * SECOND  # stands for an unlimited walltime
LONGEST_S = 30.0  # seconds of cpu time after which no more sets of nodes are tried


def slots(
    queue: Queue, need: dict[str, int], grace: int, user: str = "", group: str = "", gpu_type: str = ""
) -> JsonObject:
    """Return how long a job may run if it starts at once, by its number of cpus; on a cluster, by its number of tasks.

    need: what else it requests; on a cluster, the request of each task, with one cpu by default. user, group: whose
    limits and partitions apply. Each combination is tried with the policy itself.
    """
    planner, state = queue.planner, queue.planner.state
    answer: dict[str, object] = {"schema": 1, "now_s": queue.now / 1e6, "policy": planner.spec, "need": need}
    if not planner.named:
        answer["slots"] = _on_one_machine(queue, need, grace)
    else:
        answer |= _among_nodes(queue, need, grace, {"user": user, "group": group}, gpu_type)
    names, platform, nodes = planner.whole.resources, planner.whole, len(planner.nodes)
    free = dict(zip(names, np.maximum(state.free.nodes[:nodes], 0).sum(axis=0).tolist(), strict=True))
    there = dict(zip(names, state.machine.capacity[:nodes].sum(axis=0).tolist(), strict=True))
    for licence, name in enumerate(platform.licences):
        free[name], there[name] = max(int(state.free.licences[licence]), 0), int(state.machine.copies[licence])
    return answer | {"free": free, "capacity": there}


def _on_one_machine(queue: Queue, need: dict[str, int], grace: int) -> list[JsonObject]:
    free = dict(zip(queue.planner.platform.resources, queue.planner.state.free.nodes[0].tolist(), strict=True))
    if not all(amount <= free.get(name, 0) for name, amount in need.items()):
        return []
    ends = _ends(queue, grace)

    def facts(cpus: int, walltime: int) -> Row:
        return {"need": {**need, "cpus": cpus}, "walltime": walltime, "grace": grace}

    return [{"cpus": cpus, **_span(queue, end, grace)} for cpus, end in _holes(queue, facts, free["cpus"], ends)]


def _among_nodes(queue: Queue, need: dict[str, int], grace: int, whose: dict[str, str], gpu_type: str) -> JsonObject:
    """Return the gaps in each set of nodes that a job can request, spread over all of them and on one of them."""
    planner, state, platform = queue.planner, queue.planner.state, queue.planner.whole
    all_free = np.maximum(state.free.nodes[: len(planner.nodes)], 0)
    need = {"cpus": 1, **need}
    wanted = np.array([need.get(name, 0) for name in platform.resources])
    licences = [place for place, name in enumerate(platform.licences) if need.get(name)]
    free = np.where(wanted > 0, all_free // np.maximum(wanted, 1), 1 << 40).min(axis=1)
    free *= platform.hosts[:, licences].all(axis=1)
    found: list[JsonObject] = []
    untried: list[str] = []
    shut = np.flatnonzero((state.machine.base[: len(planner.nodes)] < platform.capacity).any(axis=1))
    for each in choices(platform, gpu_type):
        fits, name = free[each.nodes], names_text(platform.nodes[node] for node in each.nodes)
        if queue.used_s > LONGEST_S:
            untried.append(name)
            continue
        ends = _ends(queue, grace, _longest(queue, each))
        for on_one in (False, True):

            def facts(tasks: int, walltime: int, each: Kind = each, on_one: bool = on_one) -> Row:
                return {"need": need, "tasks": tasks, "spread": "node" if on_one else "any", **whose,
                        "walltime": walltime, "grace": grace, "partition": each.partition,
                        "constraint": each.constraint}  # fmt: skip

            most = int(fits.max(initial=0) if on_one else fits.sum())
            found += [
                {"partition": each.partition, "constraint": each.constraint, "nodes": name, "count": len(each.nodes),
                 "mixed": each.mixed, "on_one": on_one, "tasks": tasks, "cpus": tasks * need["cpus"],
                 **_span(queue, end, grace)}
                for tasks, end in _holes(queue, facts, most, ends)
            ]  # fmt: skip
    lowered = {"count": len(shut), "names": names_text(platform.nodes[node] for node in shut)}
    shared = {name: amount for name, amount in need.items() if name in platform.licences}
    per_task = {name: amount for name, amount in need.items() if name not in shared}
    return {
        "per_task": per_task,
        "per_job": shared,
        "slots": found,
        "untried": untried,
        "shut": lowered,
        "nodes": len(planner.nodes),
    }


def _longest(queue: Queue, kind: Kind) -> int:
    """Return the longest walltime that a partition allows, including grace; 0 for any."""
    return next((each.max_walltime for each in queue.planner.platform.partitions if each.name == kind.partition), 0)


def _holes(queue: Queue, facts: Callable[[int, int], Row], most: int, ends: list[int]) -> list[tuple[int, int]]:
    """Return the amounts that start at once with their walltimes, shortest first.

    Listed is the largest amount for each walltime in `ends`, if it is larger than for longer ones. facts: of a job with
    this amount and walltime.
    """
    number = max(queue.planner.rows, default=0) + 1

    def works(amount: int, walltime: int) -> bool:
        job = {"walltime": walltime, **facts(amount, walltime)}
        if not queue.planner.state.machine.pool and not may_run(queue.planner, Job(number, **job)):
            return False  # a rule forbids it
        return queue.starts_now(number, [["submit", number, job], ["wait", number]])

    def longest(amount: int) -> int:
        """Return the index in `ends` of the longest walltime with which this amount starts; -1 if none."""
        if not works(amount, ends[0]):
            return -1
        low, high = 0, len(ends) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if works(amount, ends[middle]) else (low, middle - 1)
        return low

    found: dict[int, int] = {}  # largest amount by index in `ends`
    if most > 0:
        for amount, place in _steps(longest, 1, most):
            if place >= 0:
                found[place] = max(found.get(place, 0), amount)
    return [(amount, ends[place]) for place, amount in sorted(found.items())]


def _span(queue: Queue, end: int, grace: int) -> JsonObject:
    """Return how long a gap lasts, and the reserved start that ends it."""
    then = queue.next_pass + end + grace
    facts = {"for_s": None if end == ALWAYS else end // SECOND, "until": _begins(queue, then)}
    return facts | {"reservation": next((each.name for each in _reservations(queue) if each.begin == then), "")}


def _reservations(queue: Queue) -> list[Reservation]:
    """Return the reservations that have not begun yet."""
    now, divided = queue.next_pass, queue.planner.divided
    return [] if divided is None else [each for each in divided.ahead(now, NEVER) if each.begin > now]


def _ends(queue: Queue, grace: int, longest: int = 0) -> list[int]:
    """Return the walltimes at which the free resources may change.

    They last until the limit of a run or a reserved start; the last one is unlimited, or the longest that is allowed.
    """
    state, rows, now = queue.planner.state, queue.planner.rows, queue.next_pass
    reserved = state.promises.reserved[[rows[job.id] for job in queue.pending()]].tolist()
    limits = state.runs.limits[: state.runs.active].tolist()
    last = longest - grace if longest else ALWAYS
    begins = [each.begin for each in _reservations(queue)]
    ends = {t - now - grace for t in [*reserved, *limits, *begins] if t != NO_TIME and SECOND <= t - now - grace < last}
    return [*sorted(ends), last]


def _steps(value: Any, low: int, high: int) -> Iterable[tuple[int, int]]:
    """Return the values of a non-increasing function at the ends of its steps."""
    known = {low: value(low), high: value(high)}
    todo = [(low, high)]
    while todo:
        first, last = todo.pop()
        if known[first] != known[last] and last - first > 1:
            middle = (first + last) // 2
            known[middle] = value(middle)
            todo += [(first, middle), (middle, last)]
    return known.items()


def _begins(queue: Queue, t: int) -> str:
    """Return the job whose reserved start is at this time; empty if there is none."""
    return next((job.label for job in queue.pending() if job.waits and queue.reserved(job.id) == t), "")
