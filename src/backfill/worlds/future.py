"""Possible futures: run the real policy on from the State of the live queue, with run times drawn from its history.

A run into the future changes its State: it uses copies of the planner (questions.py) that are restored afterwards
(aside.py).
"""

import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np

from backfill.compiler.far import address_of
from backfill.compiler.record import SMALL, column, zeros
from backfill.compiler.users import Misused
from backfill.core import acts
from backfill.core.errors import OK, raise_misuse
from backfill.core.plan.promises import NO_TIME
from backfill.core.random import FIRST, GOLDEN, SECOND
from backfill.core.runs import RUNNING
from backfill.model.platform import Platform
from backfill.model.units import NEVER
from backfill.model.workload import Floats, Ints, Jobs, Ragged
from backfill.queue.book import each_job
from backfill.queue.job import Job
from backfill.queue.states import PENDING
from backfill.worlds.acts import CLOSING, OPENING, STATED
from backfill.worlds.adapt import as_run
from backfill.worlds.live import Planner
from backfill.worlds.reserved import Lane, Reserved
from backfill.worlds.runtimes import CAUTIOUS, SHAPE, Pool
from backfill.worlds.virtual import new_world, pass_time

PASSES = 128  # passes between two checks of the time, at first
QUICK_S = 0.02  # if the passes took less cpu time than this, their number is doubled
LONGEST_S = 10.0  # limit of the cpu time for one future
LAST = 20  # number of last tasks of an array on which a dependent job waits: tasks start in order
DAY = 86_400_000_000
FORTNIGHT = 14 * DAY
LEAST = 3_600_000_000  # shortest span for an arrival rate, so that a first burst is not repeated for ever
COMERS, MOST = 20, 1_000  # jobs needed to know how jobs arrive, and most arrivals in one future

# ---------------------------------------------------------------------- jobs to come


@dataclass(frozen=True)
class Coming:
    """Arrivals in one future, in order of submit, and their run times."""

    jobs: Jobs
    machine: Platform  # with the accounts of limits that count them
    runtime: Ints


@dataclass(frozen=True)
class Arrivals:
    """Recent jobs, which may arrive again. since: their submits, in microseconds since the span began."""

    span: int
    since: Ints
    jobs: Jobs  # as the planner counts them
    machine: Platform
    runtime: Ints  # run time of a job; 0 if it is not known

    @classmethod
    def of(cls, jobs: Sequence[Job], now: int, planner: Planner) -> "Arrivals | None":
        """Return the recent jobs; None if they are too few to know how jobs arrive.

        jobs: in order of submit. Jobs that the platform would no longer accept do not arrive again.
        """
        begin = max(now - FORTNIGHT, jobs[0].submit if jobs else now)
        if now - begin > 2 * DAY:
            begin = now - (now - begin) // DAY * DAY  # whole days: what arrived at night arrives at night again
        some = [job for job in jobs if job.submit >= begin and not job.reservation]
        if len(some) < COMERS or now - begin < LEAST:
            return None
        facts = [(job.id, {**job.facts(), "project": "", "deadline": None}) for job in some]
        those, machine, _, causes = as_run(planner.workload(facts), planner.platform, planner.policy.place)
        taken = np.flatnonzero(causes == "")
        if len(taken) < COMERS:
            return None
        ran = [job.end - job.start if job.end is not None and job.start is not None else 0 for job in some]
        those = those.take(taken)
        return cls(now - begin, those.submit - begin, those, machine, np.array(ran)[taken])

    @property
    def many(self) -> int:
        """The number of jobs."""
        return len(self.since)

    def coming(self, random: np.random.Generator, now: int, horizon: int) -> Coming:
        """Repeat these jobs, from a random instant of the span on, until the horizon or until there are MOST."""
        days = self.span // DAY
        shift = int(random.integers(days)) * DAY if days >= 2 else int(random.integers(self.span))
        order = np.argsort((self.since - shift) % self.span, kind="stable")
        rounds = min(horizon // self.span + 1, MOST // self.many + 1)
        since = ((self.since - shift) % self.span)[order]
        at = (now + 1 + since[None, :] + self.span * np.arange(rounds)[:, None]).reshape(-1)
        at = at[at <= now + horizon][:MOST]
        some = np.tile(order, rounds)[: len(at)]
        jobs = self.jobs.take(some).replace(submit=at)
        guessed = np.maximum((jobs.walltime * random.random(len(some)) ** (1 / SHAPE)).astype(np.int64), 1)
        return Coming(jobs, self.machine, np.where(self.runtime[some] > 0, self.runtime[some], guessed))


# ---------------------------------------------------------------------- one future


@dataclass
class Links:
    """Dependencies of jobs that are not in the policy's queue yet, by rows of the State."""

    before: dict[int, int] = field(default_factory=dict)  # row -> number of events to wait for
    follow: list[tuple[int, int]] = field(default_factory=list)  # (row, the row that follows it)
    times: list[tuple[int, int]] = field(default_factory=list)  # (instant, row)
    stuck: set[int] = field(default_factory=set)  # rows that are not released: held, or behind a held one

    def need(self, row: int, on: int) -> None:
        """Let one row wait for the end of another."""
        self.before[row] = self.before.get(row, 0) + 1
        self.follow.append((on, row))

    @cached_property
    def pairs(self) -> Ints:
        """Return pairs of a row and one that follows it, ordered by the former; shape (follow, 2)."""
        pairs = np.array(self.follow, np.int64).reshape(-1, 2)
        return pairs[np.argsort(pairs[:, 0], kind="stable")]

    @cached_property
    def let_go(self) -> Ints:
        """Return the rows that enter the policy's queue later."""
        return np.array([*(row for _, row in self.follow), *(row for _, row in self.times)], np.int64)

    def followers(self, rows: int) -> Ragged:
        """Return the rows that follow each row."""
        return Ragged(np.searchsorted(self.pairs[:, 0], np.arange(rows + 1)), self.pairs[:, 1].copy())


def links(jobs: Mapping[int, Job], rows: Mapping[int, int], now: int) -> Links:
    """Return what pending jobs wait for besides resources. Held jobs, and jobs that wait for the impossible, are stuck.

    A task that its array's throttle holds back follows the task that many positions before it; a job that waits for one
    of several follows the first of them.
    """
    found = Links()
    tasks: dict[int, list[int]] = {}
    mates: dict[tuple[str, str], int] = {}
    arrays: dict[int, list[int]] = {}
    for number, job in sorted(jobs.items()):
        if job.array:
            arrays.setdefault(job.array, []).append(number)

    @cache
    def rows_of(kind: str, on: int) -> list[int]:
        return [rows[other] for _, other in each_job([[kind, on]], arrays, LAST) if other in rows]

    for number, job in sorted(jobs.items()):
        row, mate = rows[number], mates.get((job.user, job.name))
        mates[job.user, job.name] = number
        if job.throttle:
            tasks.setdefault(job.array, []).append(number)
        if job.state != PENDING or job.waits:
            continue
        if not (job.held or job.never):
            on = [other for one in (job.after[:1] if job.any_of else job.after) for other in rows_of(*one)]
            if job.singleton and mate is not None:
                on.append(rows[mate])
            if job.throttle and len(tasks[job.array]) > job.throttle:
                on.append(rows[tasks[job.array][-1 - job.throttle]])
        if job.held or job.never or not found.stuck.isdisjoint(on):
            found.before[row] = 1
            found.stuck.add(row)
            continue
        for other in on:
            found.need(row, other)
        if job.begin is not None and job.begin > now:
            found.before[row] = found.before.get(row, 0) + 1
            found.times.append((job.begin, row))
    return found


def live_on(
    planner: Planner,
    runtime: Ints,
    linked: Links,
    now: int,
    longest_s: float = LONGEST_S,
    coming: Coming | None = None,
    wanted: Ints | None = None,
) -> Ints:
    """Simulate the queue until all jobs have run, job i for runtime[i] in all, or until the cpu time is used up.

    coming: jobs that arrive meanwhile; in that case simulate until the present jobs have started. The planner must have
    capacity for them. wanted: the rows whose starts matter; the future ends when all of them have started.

    Return the first starts by row, shape (jobs,); NO_TIME for jobs that run or are over now, that never start, or that
    did not start before the cpu time was used up.
    """
    end = time.process_time() + longest_s
    if coming is not None:
        planner.enter(coming.jobs, coming.machine)  # this may replace the State by a larger one
        runtime = np.concatenate((runtime, coming.runtime))
    state, policy, platform = planner.state, planner.policy, planner.platform
    count, own = int(state.runs.count), planner.jobs
    n = own + (0 if coming is None else len(coming.jobs))
    ends_early = coming is not None or wanted is not None
    if ends_early:
        waiting = state.queue.waits[:own] != 0
        waiting[linked.let_go] = True
        watched = np.flatnonzero(waiting) if wanted is None else wanted[waiting[wanted]]
    state.journal.kept = 0
    going = np.flatnonzero(state.runs.how[:count] == RUNNING)
    due = np.full(max(count, 1), NO_TIME)
    due[going] = np.maximum(state.runs.start[going] + runtime[state.runs.job[going]], now + 1)
    order = going[np.lexsort((going, due[going]))]
    rooms = max(len(order), SMALL)
    before = zeros(n)
    for row, many in linked.before.items():
        before[row] = many
    followers = linked.followers(n)
    times = sorted(linked.times)
    more = {} if planner.divided is None else _reserved(planner)
    world = new_world(
        n,
        platform,
        policy,
        submit=state.jobs.submit,
        runtime=column(runtime),
        kill=_kills(planner, n),
        tasks=state.jobs.tasks,
        demand=state.jobs.demand,
        licence_first=state.jobs.licence_first,
        licence=state.jobs.licence,
        copies=state.jobs.licence_count.reshape(-1),
        linked=int(bool(linked.before) and not policy.dangles),
        before=before,
        think=zeros(n),
        thought_time=_padded([t for t, _ in times]),
        thought_job=_padded([row for _, row in times]),
        thoughts=len(times),
        after_first=followers.first,
        after_item=followers.items,
        eligible=zeros(n),
        due=due,
        cut=np.zeros(len(due), np.int8),
        kept=zeros(len(due) if policy.preempts else 1),
        end_time=_padded(due[order], rooms),
        end_run=_padded(order, rooms),
        ends=len(order),
        # The world checks only starts against its account: an end on a closed node may make the free amount negative.
        book=np.maximum(state.free.nodes, 0),
        book_licences=np.maximum(state.free.licences, 0),
        # Walltimes and known run times refer to the nodes on which jobs ran, whatever their speed.
        speed=np.ones(len(platform.nodes)),
        coallocation=np.ones(1),
        **({} if planner.foresight is None else planner.foresight.fields),
        **more,
    )
    with suppress(Misused):  # reported below
        passes, begun = PASSES if policy.compiled else 1, time.process_time()
        while pass_time(policy, planner.arrange, state, world, passes) == passes and begun < end:
            if ends_early and (state.runs.last[watched] >= count).all():
                break
            last, begun = begun, time.process_time()
            passes *= 2 if begun - last < QUICK_S else 1
    if state.trace.error[0] != OK:
        raise_misuse(policy.name, state, np.array(planner.ids), platform)
    runs, starts = state.runs, np.full(n, NO_TIME)
    since = np.arange(count, runs.count)[::-1]  # written in reverse, so that the first run of a job prevails
    starts[runs.job[since]] = runs.start[since]
    starts[runs.job[going]] = NO_TIME
    found: Ints = starts[:own]
    return found


def _kills(planner: Planner, n: int) -> Ints:
    """Return the longest run time of the jobs in the first n rows; those behind the planner's own are arrivals."""
    found: Ints = planner.state.jobs.walltime[:n].copy()
    found[: planner.jobs] = planner.walltimes
    return found


def _reserved(planner: Planner) -> dict[str, Any]:
    """Return the fields of a world in which reservations begin and end."""
    divided, state = planner.divided, planner.state
    assert divided is not None
    now = int(state.now)
    asking = [(planner.rows[job], name) for job, name in planner.inside.items() if job in planner.rows]
    steps = _steps(divided, now, asking)
    taken = [divided.taken(lane, now) for lane in range(len(planner.platform.nodes))]
    shutting = [each.node for each in divided.lanes if each.resource < 0 and each.begin <= now < each.over]
    return {
        "base": state.machine.base.copy(),
        "less": np.array([less for less, _ in taken], np.int64),
        "shut": np.bincount(np.array(shutting, np.int64), minlength=len(taken)).astype(np.int64),
        "act": steps,
        "act_priority": np.zeros(len(steps)),
        "do_act": address_of(acts.do_act),
        "acts_left": len(steps),
    }


def _steps(divided: Reserved, now: int, asking: Iterable[tuple[int, str]]) -> Ints:
    """Return the future events of reservations, as in World.act.

    asking: rows of jobs that end with their reservation.
    """
    found: list[tuple[tuple[int, int], list[int]]] = []

    def add(t: int, phase: int, what: int, job: int, of: Lane) -> None:
        if now < t < NEVER:
            found.append(((t, phase), [t, what, job, of.node, of.resource, of.begin, of.until, of.amount]))

    for each in divided.lanes:
        add(each.revoked, STATED, acts.REVOKE, -1, each)
        if each.begin < each.over:
            add(each.begin, OPENING, acts.OPEN, -1, each)
            add(each.over, CLOSING if each.until <= each.revoked else STATED, acts.CLOSE, -1, each)
    over = {each.name: each.over for each in divided.division.reservations}
    for row, name in asking:
        add(over.get(name, NEVER), STATED + 1, acts.CANCEL, row, Lane(-1, -1, 0, 0, 0, 0))
    for part, (number, _) in divided.own.items():
        t = divided.division.reservations[number].over
        add(t, STATED + 2, acts.DOWN, -1, Lane(part, -1, 0, 0, 0, 0))
    return np.array([row for _, row in sorted(found, key=lambda each: each[0])], np.int64).reshape(-1, 8)


def _padded(values: Any, room: int = SMALL) -> Ints:
    """Return an array padded with unused rows."""
    found: Ints = zeros(max(len(values), room))
    found[: len(values)] = values
    return found


def drawn(
    planner: Planner, jobs: Mapping[int, Job], pool_of: Callable[[Job], Pool], stuck: set[int], samples: int, now: int
) -> Ints:
    """Return run times of all rows in each future, shape (samples, rows); jobs in `stuck` rows keep their walltime.

    The quantiles of a job are spread evenly over the futures and depend only on its number: a repeated query, or one
    from another queue, gets the same draws. The knowledge of run times is itself uncertain, in the same way for all
    jobs of a group: each future has other weights of it, see Pool.again.
    """
    walltimes = planner.walltimes
    found: Ints = np.repeat(walltimes[None, :], samples, axis=0)
    groups: dict[tuple[str, str], list[Job]] = {}
    for job in jobs.values():
        if planner.rows[job.id] not in stuck:
            groups.setdefault((job.user, job.name), []).append(job)
    again: dict[tuple[str, ...], list[Pool]] = {}
    for some in groups.values():
        pool = pool_of(some[0])
        if pool.key not in again:
            random = np.random.default_rng([zlib.crc32("\0".join(pool.key).encode()), samples])
            again[pool.key] = [pool.again(random, i % CAUTIOUS == CAUTIOUS - 1) for i in range(samples)]
        row = np.array([planner.rows[job.id] for job in some])
        walltime = np.array([job.walltime for job in some])
        done = np.array([max(job.done, 0) for job in some])  # work done by earlier runs
        here = np.array([0 if job.start is None else max(now - job.start, 0) for job in some])
        past = (done + here) / walltime
        chances = _chances(np.array([job.id for job in some]), samples)
        for future, known in enumerate(again[pool.key]):
            share = known.draw(chances[future], past)
            found[future, row] = np.clip(share * walltime - done, 1, walltimes[row]).astype(np.int64)
    return found


def _chances(number: Ints, samples: int) -> Floats:
    """Return quantiles of jobs in each future, shape (samples, jobs).

    A job has one quantile in each of `samples` equal parts of the interval from 0 to 1, in an order of its own.
    """
    words = np.arange(1, 2 * samples + 1, dtype=np.uint64)[:, None] * np.uint64(GOLDEN)
    words = words + (number.astype(np.uint64) << np.uint64(20))[None, :]
    for shift, factor in ((30, FIRST), (27, SECOND), (31, 1)):  # splitmix64, as core/random.py
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    part = np.argsort(words[:samples], axis=0)
    found: Floats = (part + (words[samples:] >> np.uint64(11)) * 2.0**-53) / samples
    return found
