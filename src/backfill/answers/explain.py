"""Explain why a pending job does not run: what it lacks, which jobs hold that or go first, and what would help."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from backfill.analysis.explain.lacks import LICENCE
from backfill.answers.ahead import ahead, keeping, listed
from backfill.answers.asked import Queue
from backfill.answers.situation import BOUND, Situation, lack_facts, may_run
from backfill.answers.whatif import estimates_of
from backfill.core.plan.promises import NO_TIME
from backfill.core.runs import RUNNING
from backfill.model.schedule import REASONS
from backfill.model.units import NEVER, seconds
from backfill.queue import feed
from backfill.queue.job import Facts, Job
from backfill.queue.nodes import FLOATING
from backfill.queue.shapes import Change
from backfill.queue.states import CANCELLED, PENDING
from backfill.queue.words import WHOLE

SHOWN = 5  # most holders and jobs that went first that are listed, and holders whose end is tried
STEPS = 16  # number of steps in which less memory is tried
KNOWN = 10  # ended jobs of the same user and name needed for a statement about their run times
LITTLE = 0.5  # share of the walltime: if nine of ten jobs use no more, a shorter walltime is suggested
SLACK = 1.25  # suggested walltime as a multiple of the longest run time
HELPS = 0.1  # changes that shorten the wait by a smaller share are not listed
HELP_S = 20.0  # seconds of cpu time, after which changes are listed only if the job would start at once
SECOND = 1_000_000
MINUTE = 60 * SECOND


def explain(queue: Queue, number: int, reason: str, to: Change | None = None) -> Facts:
    """Return all facts about why a job waits. reason: the queue's reason; to: a walltime and amounts to try."""
    job = queue.jobs.get(number)
    if job is None:  # the daemon knows that it waits, and the planner has not been told of it
        problem = {"code": "starting", "message": "the planner does not know the job yet; ask again", "field": ""}
        return {"error": problem}
    answer: Facts = {"schema": 1, "now_s": queue.now / 1e6, "policy": queue.planner.spec, "id": number,
                   "reason": reason}  # fmt: skip
    if job.state != PENDING:
        return answer | {"state": "starting"}
    answer |= {"label": job.label, "state": job.state, "need": job.need, "limit_s": job.walltime / 1e6}
    answer |= {"held": job.held, "begin_s": seconds(job.begin), "after": _after(queue, job), "throttle": job.throttle}
    answer |= {"preemptions": job.preemptions, "preempted_for": job.preempted_for}
    answer |= {"keeps": job.keeps, "done_s": job.done / 1e6}
    if job.deadline is not None:
        answer["estimate"] = estimates_of(queue, [job], queue.futures([job]))[0]
    if not job.waits or number in queue.at_once:  # it is not in the policy's queue
        return answer | {"at_once": number in queue.at_once, "throttled_by": listed(_throttled_by(queue, job))}
    situation, among = Situation.of(queue, job), queue.planner.named
    lacks, before = lack_facts(situation, among), ahead(queue, job)
    kept_by = [] if lacks else keeping(queue, job, before)
    if among:
        bound = {name: text for name in BOUND if (text := situation.room.asks.jobs[name][0])}
        if queue.planner.divided is not None:  # which adds to constraints
            bound |= {"constraint": job.constraint, "reservation": job.reservation}
        bound = {name: text for name, text in bound.items() if text}
        labels = {number: other.label for number, other in queue.jobs.items()}
        answer["nodes"] = situation.facts(labels, queue.planner, bound)
    return answer | {
        "reservations": _reservations(queue, job),
        "lacks": lacks,
        "holders": _holders(queue, situation, among),
        "ahead": listed(before),
        "kept_by": None if lacks else listed(kept_by),
        "behind": _behind(queue, kept_by),
        "reserved_s": seconds(queue.reserved(number)),
        "binds": queue.binds,
        "promise_s": seconds(job.promise),
        "moves": [
            {"t_s": move.t / 1e6, "start_s": move.start / 1e6, "cause": move.cause, "by": move.by, "ended": move.gone}
            for move in queue.planner.moves.of(number)
        ],
        "went_first": _went_first(queue, job, situation),
        **_help(queue, job, situation),
        **({"tried": _tried(queue, job, to)} if to else {}),
    }


def _tried(queue: Queue, job: Job, to: Change) -> Facts:
    """Return when a job would start if it were edited so, and all jobs ran until their limits; start_s is None if
    that is too far ahead."""
    if "need" in to:
        changed = {**to, "need": {**job.need, **to["need"]}}
        number = max(queue.planner.rows) + 1
        facts = {**feed.planner_facts({**job.facts(), **changed}), "submit": job.submit}
        messages = [["gone", job.id, CANCELLED], ["submit", number, facts], ["wait", number]]
    else:
        number, messages = job.id, _walltime(job, to["walltime"])
    at_once, starts = queue.try_out(messages)
    now = number in at_once
    start = queue.now if now else int(starts[queue.planner.rows.get(number, len(starts) - 1)])
    asked = {"limit_s": to.get("walltime", job.walltime) / 1e6, "need": {**job.need, **to.get("need", {})}}
    return {**asked, "now": now, "start_s": None if start == NO_TIME else start / 1e6}


def _reservations(queue: Queue, job: Job) -> list[Facts]:
    """Return the reservations that a job would meet if it started now, always with its own one, and their nodes."""
    divided, now = queue.planner.divided, queue.next_pass
    if divided is None:
        return []
    names = queue.planner.whole.nodes
    some = [each for each in divided.ahead(now, NEVER) if each.name == job.reservation]
    some += [] if job.reservation else divided.ahead(now, now + job.left + job.grace)
    return [{"reservation": each.name, "own": each.name == job.reservation, "begin_s": each.begin / 1e6,
             "until_s": each.until / 1e6, "nodes": [names[node] for node in each.nodes]} for each in some]  # fmt: skip


def _after(queue: Queue, job: Job) -> list[Facts]:
    """Return the jobs that a job depends on."""
    found = []
    for kind, number in job.after:
        if kind.endswith(WHOLE):
            left = [other for other in queue.jobs.values() if other.array == number]
            found.append({"kind": kind.removesuffix(WHOLE), "id": number, "label": str(number), "tasks": len(left),
                          "state": "", "held": any(other.held for other in left)})  # fmt: skip
            continue
        other = queue.jobs.get(number) or queue.over(number)
        label = other.label if other else str(number)
        found.append({"kind": kind, "id": number, "label": label, "tasks": None,
                      "state": other.state if other else "", "held": bool(other and other.held)})  # fmt: skip
    if job.singleton:
        mates = [one.id for one in queue.jobs.values() if (one.user, one.name) == (job.user, job.name)]
        found += [
            {
                "kind": "singleton",
                "tasks": None,
                "id": one,
                "label": queue.jobs[one].label,
                "state": queue.jobs[one].state,
                "held": bool(queue.jobs[one].held),
            }
            for one in mates
            if one < job.id
        ]
    return found


def _throttled_by(queue: Queue, job: Job) -> list[Job]:
    """Return the tasks for which a task that its array's throttle holds back waits."""
    if not job.throttle:
        return []
    tasks = [one for one in queue.jobs.values() if one.array == job.array and one.id != job.id]
    return sorted((one for one in tasks if one.waits or one.attempt is not None), key=lambda one: one.id)


def _behind(queue: Queue, kept_by: list[Job]) -> Facts | None:
    """Return the job that blocks this one although it would fit, if it is one alone, with its reserved start."""
    if len(kept_by) != 1:
        return None
    (other,) = kept_by
    return {"id": other.id, "label": other.label, "name": other.name, "reserved_s": seconds(queue.reserved(other.id))}


def _holders(queue: Queue, situation: Situation, among: bool) -> Facts:
    """Return the holders of what the job lacks, the largest first, with their latest and median ends."""
    names, nodes = [lack.name for lack in situation.lacks], queue.planner.names
    found = []
    for run in np.flatnonzero(situation.held.any(axis=1)).tolist():
        job, limit = queue.jobs[situation.ids[run]], int(situation.limit[run])
        start = int(queue.planner.state.runs.start[situation.runs[run]])
        start -= job.done
        used = max((queue.now - start) / job.walltime, 0.0)
        share = float(queue.times.of(job.user, job.name).draw(np.array(0.5), np.array(used)))
        likely = max(start + round(share * job.walltime), queue.now)
        amounts = zip(names, situation.held[run].tolist(), strict=True)
        facts: Facts = {
            "id": job.id, "label": job.label, "name": job.name, "user": job.user,
            "held": {name: amount for name, amount in amounts if amount},
            "latest_end_s": limit / 1e6, "likely_s": min(likely, limit) / 1e6,
        }  # fmt: skip
        if among:
            facts["nodes"] = [
                [nodes[situation.node[seat]], int(situation.tasks[seat])]
                for seat in np.flatnonzero(situation.owner == run)[:SHOWN]
            ]
        found.append(facts)
    found.sort(key=lambda one: ([-one["held"].get(name, 0) for name in names], one["latest_end_s"]))
    return {"count": len(found), "first": found[:SHOWN]}


def _went_first(queue: Queue, job: Job, situation: Situation) -> list[Facts]:
    """Return the latest jobs that were submitted later and started earlier, and why they could."""
    planner, runs = queue.planner, queue.planner.state.runs
    count, row = int(runs.count), planner.rows[job.id]
    limits = planner.limits(np.arange(count))  # whatever the policy predicts
    since = np.flatnonzero((runs.start[:count] >= job.submit) & (runs.job[:count] > row))
    moves = planner.moves.of(job.id)
    found = []
    for run in since.tolist():
        other, start, limit = planner.ids[int(runs.job[run])], int(runs.start[run]), int(runs.limit[run])
        if queue.shadow and (runs.last[runs.job[run]] != run or other in queue.at_once):
            continue  # this start was only advice
        reserved = [move.start for move in moves if move.t <= start][-1:]
        if not _meet(planner.state, row, run, situation.room.nodes):
            why = "elsewhere"
        elif reserved and limit <= reserved[0]:
            why = "in-time"
        else:
            why = REASONS[int(runs.reason[run])]
        found.append({"id": other, "start_s": start / 1e6, "limit_s": int(limits[run]) / 1e6, "why": why,
                      "runs": bool(runs.how[run] == RUNNING)})  # fmt: skip
    return found[::-1]


def _meet(state: Any, row: int, run: int, nodes: Any) -> bool:
    """Return whether a run took resources that the job of a row could have used: on one of its nodes, licences or
    limits."""
    jobs, runs = state.jobs, state.runs
    first, other = jobs.licence_first, int(runs.job[run])
    mine, its = (jobs.licence[first[each] : first[each + 1]] for each in (row, other))
    if np.isin(mine, its).any():
        return True
    both = bool(((jobs.need[row] > 0) & (jobs.need[other] > 0)).any())
    if state.machine.pool or not both:
        return both
    seats = runs.held[runs.first[run] : runs.first[run] + runs.many[run], 0]
    return bool(np.isin(seats, nodes).any())


def _by_history(queue: Queue, job: Job, base: int) -> Facts | None:
    """Return how much of their walltimes similar jobs used, and the start with a walltime sufficient for all of them.

    None if they are too few, or used most of it. base: the present estimate of the start.
    """
    pool = queue.times.of(job.user, job.name)
    jobs = len(pool.shares)
    used = pool.shares[math.ceil(0.9 * jobs) - 1] if jobs else 1.0
    if pool.grouped_by != "user and name" or jobs < KNOWN or used > LITTLE:
        return None
    answer: Facts = {
        "jobs": jobs,
        "used": used,
        "most": pool.shares[-1],
        "walltime_s": None,
        "now": False,
        "start_s": None,
    }
    longest = max(pool.shares[-1] * job.walltime, queue.times.longest(job.user, job.name))
    enough = math.ceil(SLACK * longest / MINUTE) * MINUTE
    if enough >= job.walltime:
        return answer
    at_once, starts = queue.try_out(_walltime(job, enough))
    start = queue.now if job.id in at_once else int(starts[queue.planner.rows[job.id]])
    answer |= {"walltime_s": enough // SECOND, "now": job.id in at_once}
    return answer | {"start_s": seconds(start) if _helps(start, base, queue.now) else None}


def _helps(start: int, base: int, now: int) -> bool:
    """Return whether a start is much earlier than the present estimate `base`."""
    return start != NO_TIME and (base == NO_TIME or base - start >= HELPS * (base - now))


def _help(queue: Queue, job: Job, situation: Situation) -> Facts:
    """Return changes with which the job would start at once or much earlier, each tried with the policy itself."""
    row = queue.planner.rows[job.id]
    _, as_it_is = queue.try_out([])
    base = int(as_it_is[row])
    found: list[Facts] = []

    def try_change(change: Facts, number: int, messages: list[Any]) -> None:
        """Record a change if it helps."""
        now, start = queue.starts_now(number, messages), queue.now
        if not now and queue.used_s < HELP_S:
            _, starts = queue.try_out(messages)
            start = int(starts[queue.planner.rows.get(number, len(starts) - 1)])
        elif not now:
            return
        if _helps(start, base, queue.now):
            earlier = None if base == NO_TIME else seconds(base - start)
            found.append({**change, "now": now, "start_s": seconds(start), "earlier_s": earlier})

    minutes = job.walltime // MINUTE
    shorter = _most(1, minutes - 1, lambda n: queue.starts_now(job.id, _walltime(job, n * MINUTE)))
    if shorter:
        try_change({"walltime_s": shorter * 60}, job.id, _walltime(job, shorter * MINUTE))
    elif minutes > 1:
        try_change({"walltime_s": minutes // 2 * 60}, job.id, _walltime(job, minutes // 2 * MINUTE))
    number = max(queue.planner.rows) + 1

    def other(to: Facts) -> list[Any]:
        """Return messages that cancel the job and submit it again with changed facts."""
        facts = feed.planner_facts({**job.facts(), **to})
        return [["gone", job.id, CANCELLED], ["submit", number, facts], ["wait", number]]

    def possible(to: Facts) -> bool:
        return may_run(queue.planner, Job.read({**job.facts(), **to}))

    for name, parts, grain, to in _amounts(job):

        def starts(n: int, to: Callable[[int], Facts] = to) -> bool:
            return possible(to(n)) and queue.starts_now(number, other(to(n)))

        less = _most(1, parts - 1, starts) or (parts // 2 if parts > 1 else 0)
        if less and possible(to(less)):
            change = {"tasks": less} if name == "tasks" else {"resource": name, "amount": less * grain}
            try_change(change, number, other(to(less)))
    for change, to_ in _elsewhere(queue, job, situation):
        try_change(change, number, other(to_))
    for change, message in _come_back(queue, situation):
        try_change(change, job.id, [message])
    for holder in _holders(queue, situation, False)["first"]:
        try_change({"cancel": holder["id"], "label": holder["label"]}, job.id, [["gone", holder["id"], CANCELLED]])
    return {"by_walltimes_s": None if base == NO_TIME else base / 1e6, "would_help": found,
            "by_history": _by_history(queue, job, base)}  # fmt: skip


def _amounts(job: Job) -> Iterator[tuple[str, int, int, Callable[[int], Facts]]]:
    """Yield the amounts that a job could reduce: name, number of parts, size of a part, and the facts with n parts."""
    for name, amount in job.need.items():
        grain = max(amount // STEPS, 1) if name == "memory" else 1
        yield (
            name,
            amount // grain,
            grain,
            lambda n, name=name, grain=grain: {"need": {**job.need, name: n * grain}},  # type: ignore[misc]
        )
    yield "tasks", job.tasks, 1, lambda n: {"tasks": n}


def _elsewhere(queue: Queue, job: Job, situation: Situation) -> Iterator[tuple[Facts, Facts]]:
    """Yield changes that give a job other nodes, with the facts that they change.

    These are every other partition that accepts it, no constraint, no site, and tasks that may share nodes.
    """
    platform, own = queue.planner.platform, situation.room.asks.jobs.partition[0]
    changes: list[Facts] = [{"partition": each.name} for each in platform.partitions if each.name != own]
    changes += [{name: ""} for name in ("constraint", "site") if getattr(job, name)]
    changes += [{"spread": "any"}] if job.tasks > 1 and job.spread != "any" else []
    for change in changes:
        if may_run(queue.planner, Job.read({**job.facts(), **change})):
            yield change, change


def _come_back(queue: Queue, situation: Situation) -> Iterator[tuple[Facts, Any]]:
    """Yield nodes and licences that are unavailable and would help the job, with the message that they are back."""
    platform = queue.planner.whole
    if not queue.planner.named:
        return
    for node in situation.shut[:SHOWN].tolist():
        whole = dict(zip(platform.resources, platform.capacity[node].tolist(), strict=True))
        yield {"node": platform.nodes[node]}, ["capacity", whole, platform.nodes[node]]
    for lack in situation.lacks:
        if lack.kind == LICENCE and lack.there[0] < platform.all_licences[lack.name]:
            copies = platform.all_licences[lack.name]
            yield {"licence": lack.name, "copies": copies}, ["capacity", {lack.name: copies}, FLOATING]


def _most(low: int, high: int, works: Callable[[int], bool]) -> int:
    """Return the greatest number that works, assuming that smaller numbers work as well; 0 if none does."""
    if high < low or not works(low):
        return 0
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if works(middle) else (low, middle - 1)
    return low


def _walltime(job: Job, walltime: int) -> list[Any]:
    return [["change", job.id, {"walltime": walltime}]]
