"""Backfilling with look-ahead: the set of jobs beside the head is chosen by the table of the paper.

M[j, f, e] is the greatest value of jobs from j on with f processors free, of which those may be used beyond the shadow
time that the head leaves: e. On several nodes the processors of all of them are counted together, and a chosen job
that finds no place any more stays.
Source: Shmueli and Feitelson, JPDC 65(9), 2005.
"""

from functools import cache

from .balance import Beside, amounts
from .easy import capped
from .orders import ranked
from .words import Decision, Job, Policy, View

GREATEST = 2**62  # value of a set


def lookahead(
    depth: float = 50, objective: str = "processors", order: str = "fcfs", tried: str | None = None
) -> Policy:
    def decide(view: View) -> Decision:
        room = Beside.of(view, ranked(view.queue, order, view), tried)
        while room.head is not None:
            candidates = first_candidates(room, depth)
            if not candidates:
                break
            for job in best_set(room, candidates, objective):
                if room.fits(job):
                    room.start(job)
        return room.decision

    return decide


def combinational(depth: float = 50, order: str = "fcfs", tried: str | None = None) -> Policy:
    def decide(view: View) -> Decision:
        room = Beside.of(view, ranked(view.queue, order, view), tried)
        start_combinations(room, depth)
        return room.decision

    return decide


def start_combinations(room: Beside, depth: float) -> None:
    """Again and again the combination of most processors, of jobs that could all start without delaying the head."""
    while room.head is not None and (candidates := first_candidates(room, depth)):
        _, extra = idle_cpus(room)
        harmless = []
        for job in candidates:
            used = job.procs if room.outlasts(job) else 0
            if used <= extra:
                extra -= used
                harmless.append(job)
        for job in best_combination(harmless, idle_cpus(room)[0]):
            if room.fits(job):
                room.start(job)


def best_combination(jobs: list[Job], free: int) -> tuple[Job, ...]:
    """Return the combination with most processors; among equals, the one of the earliest jobs."""

    @cache
    def best(j: int, left: int) -> tuple[Job, ...]:
        if j == len(jobs):
            return ()
        without = best(j + 1, left)
        if jobs[j].procs > left:
            return without
        taking = (jobs[j], *best(j + 1, left - jobs[j].procs))
        return taking if sum(job.procs for job in taking) >= sum(job.procs for job in without) else without

    return best(0, free)


def first_candidates(room: Beside, depth: float) -> list[Job]:
    """The first jobs that could start without delaying the head."""
    found = [job for job in room.waiting if room.fits(job)]
    return found[: int(min(depth, len(found)))]


def best_set(room: Beside, jobs: list[Job], objective: str) -> list[Job]:
    """The set of greatest value, of equal ones that with the earlier jobs."""
    free, extra = idle_cpus(room)
    longest = GREATEST // max(free, 1)

    def value(job: Job) -> int:
        return job.procs * (min(job.estimate, longest) if objective == "processor_seconds" else 1)

    @cache
    def m(j: int, f: int, e: int) -> int:
        if j == len(jobs):
            return 0
        return max(m(j + 1, f, e), taking(j, f, e))

    def taking(j: int, f: int, e: int) -> int:
        left = (f - jobs[j].procs, e - (jobs[j].procs if room.outlasts(jobs[j]) else 0))
        return value(jobs[j]) + m(j + 1, *left) if min(left) >= 0 else -1

    chosen = []
    for j, job in enumerate(jobs):
        if taking(j, free, extra) == m(j, free, extra):
            chosen.append(job)
            free, extra = free - job.procs, extra - (job.procs if room.outlasts(job) else 0)
    return chosen


def idle_cpus(room: Beside) -> tuple[int, int]:
    """The processors that are free, and those of them that the head will not need at its shadow time.

    Where windows are known, every job that has a place in the profile is harmless.
    """
    free = [max(amount, 0) for amount in room.free]
    beside = free if room.profile else [max(amount, 0) for amount in capped(free, room.extra, room.watched)]
    return amounts(room.view, free)[0], amounts(room.view, beside)[0]
