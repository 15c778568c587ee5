"""Slurm's two loops, as `slurm` runs them without a site: a queue by priority, and nodes that best fit chooses.

Everything is planned and looked up anew; sets of node numbers stand for the table of the backfill loop.
Source: Slurm 22.05.8 and 24.11.5 (job_scheduler.c, backfill.c, select/cons_tres).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import floor, inf
from typing import Any

from backfill.model.units import SECOND

from .minutes import Ledger, Limits
from .placement import held, may_use, minus, node_slots, plus
from .words import Decision, Job, Placement, Policy, Reservation, Room, Running, Start, Time, View

PLENTY = 2**40
YEAR = 365 * 86_400 * SECOND
Part = tuple[Any, ...]


@dataclass(frozen=True)
class Keys:
    """Parameters of slurm.conf, with the defaults of 22.05; times in seconds, the window in minutes."""

    bf_interval: int = 30
    bf_window: int = 1440
    bf_resolution: int = 60
    bf_max_job_test: int = 500
    bf_max_job_part: int = 0
    bf_max_job_user: int = 0
    bf_max_job_assoc: int = 0  # of a user; beats bf_max_job_user
    bf_max_job_start: int = 0
    bf_max_job_array_resv: int = 20
    bf_node_space_size: int = 500
    bf_min_age_reserve: int = 0
    bf_min_prio_reserve: int = 0
    reserves_from: Mapping[int, int] = field(default_factory=dict)  # row of a job -> what its QOS has in place of that
    bf_job_part_count_reserve: int = 0
    bf_window_linear: int = 0
    bf_running_job_reserve: bool = False
    bf_licenses: bool = False
    assoc_limit_stop: bool = False
    pack_serial_at_end: bool = False
    default_queue_depth: int = 100
    partition_job_depth: int = 0
    sched_interval: int = 60
    sched_max_job_start: int = 0
    batch_sched_delay: int = 3
    epilog: bool = False
    tick_phase: float = 0
    bf_phase: float = 0
    bf_test_cost: float = 0  # ms
    estimates: bool = False  # the starts that are planned are told
    version: float = 22.05
    bf_one_resv_per_job: bool = False
    lists: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # partition -> those that it stands for
    least_loaded: tuple[int, ...] = ()  # partitions
    named: Mapping[int, frozenset[int]] = field(default_factory=dict)  # row of a job -> nodes, all of which it needs
    least: Mapping[int, int] = field(default_factory=dict)  # row of a job -> least number of its nodes
    most: Mapping[int, int] = field(default_factory=dict)  # row of a job -> greatest number of its nodes, if it has one
    whole: frozenset[int] = frozenset()  # rows of jobs that hold whole nodes
    least_limits: Mapping[int, Time] = field(default_factory=dict)  # row of a job -> the time that it is planned for
    arrays: Mapping[int, str] = field(default_factory=dict)  # row of a task -> its array
    throttles: Mapping[str, int] = field(default_factory=dict)  # array -> how many of its tasks run at once
    minutes: Limits | None = None
    tiers: tuple[int, ...] = ()  # of each partition
    factors: tuple[float, ...] = ()  # what each adds to the priority, which else has only what its user gives


def second(t: Time) -> Time:
    return t // SECOND * SECOND


def first_from(t: Time, step: Time, phase: Time) -> Time:
    """The first instant not before t on this grid."""
    return t + (phase - t) % step


def slurm(keys: Keys = Keys()) -> Policy:
    def decide(view: View) -> Decision:
        new = Clock(ledger=Ledger(keys.minutes) if keys.minutes else None)
        return Pass(view, keys, view.memory.setdefault("slurm", new)).decide()

    return decide


@dataclass
class Clock:
    """What the loops remember."""

    request: bool = False  # main is to run at a tick
    stale: bool = False  # a full pass may start what the last pass did not
    dirty: bool = False  # something changed since the last cycle
    busy: bool = False  # a job waited behind a blocked one
    background: Time | None = None  # last pass at a tick
    cycle_end: Time | None = None
    cycle_length: Time = 0
    next_cycle: Time | None = None
    since: dict[int, Time] = field(default_factory=dict)  # row of a waiting job -> since when
    ledger: Ledger | None = None  # of limits on minutes
    lowered: dict[int, Time] = field(default_factory=dict)  # row of a job that the backfill loop started -> its limit


@dataclass
class Seats:
    """The tasks of a job on nodes: as many as each can take, but one is left for each node that it still needs.

    A job that wants `spare` nodes more than it needs gets them as far as there are some.
    """

    usable: dict[int, int]
    left: int
    need: int
    most: float
    spare: int = 0
    found: dict[int, int] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        return self.left <= 0 and self.need + self.spare <= 0

    @property
    def enough(self) -> bool:
        return self.left <= 0 and self.need <= 0

    def take(self, n: int) -> None:
        if n not in self.found and self.most > 0 and not self.full:
            self.found[n] = max(min(self.usable[n], self.left - max(self.need - 1, 0)), 1)
            self.left, self.need, self.most = self.left - self.found[n], self.need - 1, self.most - 1

    def tasks(self, count: int) -> dict[int, int] | None:
        """Node -> tasks: of so many tasks one for each node, the others on the first nodes; None where that fails."""
        if not self.enough:
            return None
        left, found = count, dict[int, int]()
        for after, n in zip(reversed(range(len(self.found))), sorted(self.found), strict=True):
            found[n] = min(self.usable[n], left - after)
            left -= found[n]
        return found if sum(self.found.values()) > count else self.found


class Pass:
    def __init__(self, view: View, keys: Keys, clock: Clock):
        self.view, self.keys, self.clock, self.now = view, keys, clock, view.now
        self.free, self.starts, self.promises = view.free, list[Start](), dict[int, Reservation]()
        self.nodes = range(len(view.platform.nodes))
        pairs = [pair for job in view.queue for pair in self.pairs(job)]
        self.queue = self.sorted(pairs)
        self.up = {n for n in self.nodes if any(self.of_node(view.capacity[0][1], n))}

    def sorted(self, pairs: list[Job]) -> list[Job]:
        return sorted(pairs, key=lambda job: (-self.tier(job), -self.priority(job), job.submit, job.row))

    def pairs(self, job: Job) -> list[Job]:
        """The job in each of the partitions that it asks for."""
        if job.partition not in self.keys.lists:
            return [job]
        parts = sorted(self.keys.lists[job.partition], key=lambda part: -self.keys.tiers[part])
        return [replace(job, partition=part) for part in parts]

    def tier(self, job: Job) -> int:
        return self.keys.tiers[job.partition] if self.keys.tiers else 0

    def priority(self, job: Job) -> int:
        if self.keys.factors:
            age = 0.0 if self.clock.ledger is None else self.clock.ledger.points.get(job.row, 0.0)
            return floor(max(1, min(2**32 - 1, age + self.keys.factors[job.partition] + job.admin_priority)))
        return max(-(2**32) + 1, min(2**32 - 1, floor(job.priority)))

    def decide(self) -> Decision:
        keys, clock, now = self.keys, self.clock, self.now
        at_once = self.hear()
        if clock.ledger is not None:
            anew = clock.ledger.account(self.view)
            clock.stale, clock.dirty = clock.stale or anew, clock.dirty or anew
            clock.ledger.grow_old(self.queue, clock.since, now, anew)
            self.queue = self.sorted(self.queue)
        phase, timers = round(keys.tick_phase * SECOND), set[Time]()
        on_tick = first_from(now, SECOND, phase) == now
        full = on_tick and clock.stale and first_from(now, keys.sched_interval * SECOND, phase) == now
        waited = inf if clock.background is None else second(now) - second(clock.background)
        if full or at_once or (on_tick and clock.request and waited >= keys.batch_sched_delay * SECOND):
            clock.stale = self.main(full)
            if full or not at_once:
                clock.request, clock.background = False, now
            clock.dirty |= bool(self.starts)
        self.set_next_cycle()
        if clock.next_cycle is not None and clock.next_cycle <= now:
            before = len(self.starts)
            clock.cycle_length = Cycle(self).run() if self.waiting() else 0
            clock.cycle_end, clock.next_cycle = now + clock.cycle_length, None
            clock.dirty = len(self.starts) > before
            clock.stale |= clock.dirty
        if self.waiting():
            if clock.request:
                ready = -inf if clock.background is None else second(clock.background) + keys.batch_sched_delay * SECOND
                timers.add(first_from(max(now + 1, ready), SECOND, phase))  # type: ignore[arg-type]
            if clock.stale:
                timers.add(first_from(now + 1, keys.sched_interval * SECOND, phase))
            self.set_next_cycle()
            if clock.next_cycle is not None:
                timers.add(max(clock.next_cycle, now + 1))
            if clock.ledger is not None:
                period = clock.ledger.timer(now, [*{job.row: job for job in self.waiting()}.values()], self.running())
                timers |= {period} if period is not None else set()
        return Decision(self.starts, self.promises if keys.estimates else {}, timers)

    def hear(self) -> bool:
        """Note the events of this instant; says whether main runs at once."""
        view, keys, clock = self.view, self.keys, self.clock
        if clock.cycle_end is None:
            clock.cycle_end = second(self.now) + round((keys.bf_phase - keys.bf_interval) * SECOND)
        new = {job.row for job in self.queue} - {*clock.since}
        others = bool(new or view.changed or view.left)
        clock.since = {job.row: clock.since.get(job.row, self.now) for job in self.queue}
        clock.request |= others or (view.ended and not keys.epilog)
        clock.dirty |= others or view.ended
        return view.ended and keys.epilog

    def set_next_cycle(self) -> None:
        clock = self.clock
        if not clock.dirty or clock.next_cycle is not None:
            return
        assert clock.cycle_end is not None
        due = clock.cycle_end + self.keys.bf_interval * SECOND
        period = self.keys.bf_interval * SECOND + clock.cycle_length if clock.busy else SECOND
        clock.next_cycle = due if self.now <= due else first_from(self.now, period, due)

    # the queue

    def waits(self, job: Job) -> bool:
        return all(start.job.row != job.row for start in self.starts)

    def waiting(self) -> list[Job]:
        return [job for job in self.queue if self.waits(job)]

    def part(self, job: Job) -> Part:
        """Without a site, what binds jobs to nodes stands for partitions."""
        return (job.partition,) if self.keys.tiers else (job.site, job.constraint, job.partition, job.reservation)

    def of_part(self, job: Job) -> set[int]:
        platform, plain = self.view.platform, Job(
            row=-1, submit=0, runtime=0, walltime=0, site=job.site, partition=job.partition,
            constraint="" if self.keys.tiers else job.constraint, reservation=job.reservation,
        )  # fmt: skip
        return {n for n in self.nodes if may_use(platform, n, plain)}

    def lacks(self, job: Job, accounts: bool) -> bool:
        """A licence that it needs is not free, or a limit holds it back."""
        platform = self.view.platform
        first = len(platform.copies) - platform.accounts
        at = len(self.nodes) * len(platform.nodes[0].capacity)
        return any(self.free[at + x] < n for x, n in Counter(job.licences).items() if (x >= first) == accounts)

    def short(self, job: Job) -> bool:
        """A limit on minutes holds it back."""
        ledger = self.clock.ledger
        return ledger is not None and ledger.lacks(job, self.running())

    def reserves_nothing(self, job: Job) -> bool:
        least = self.keys.reserves_from.get(job.row, self.keys.bf_min_prio_reserve)
        waited = (second(self.now) - second(self.clock.since[job.row])) // SECOND
        return waited < self.keys.bf_min_age_reserve or self.priority(job) < least

    def start(self, job: Job, placement: Placement, reason: str) -> None:
        self.starts.append(Start(job, placement, reason))
        self.free = minus(self.free, held(self.view.platform, job, placement))

    def running(self) -> list[Running]:
        """All runs by their limit, those of this pass too; of equals the one that started first."""
        platform = self.view.platform
        fresh = [Running(s.job, self.now, s.placement, held(platform, s.job, s.placement)) for s in self.starts]
        lowered = self.clock.lowered
        runs = [
            replace(run, job=replace(run.job, estimate=lowered[run.job.row])) if run.job.row in lowered else run
            for run in [*self.view.running, *fresh]
        ]
        return sorted(runs, key=lambda r: r.limit)

    # arrays

    def passes_over(self, job: Job, rejected: list[Part]) -> bool:
        """Tasks of an array in a partition behind one that was rejected there, and those of which enough run."""
        array = self.keys.arrays.get(job.row)
        if array is None:
            return False
        if rejected == [(array, self.part(job))]:
            return True
        rejected[:] = [(array, self.part(job))]
        runs = sum(self.keys.arrays.get(run.job.row) == array for run in self.running())
        return runs >= self.keys.throttles.get(array, PLENTY)

    # main

    def main(self, full: bool) -> bool:
        """Start jobs in order; says whether the pass ended at its depth."""
        keys, left = self.keys, {*self.nodes}
        blocked, tested = set[Part](), Counter[Part]()
        depth, begun, overtakes, touched, rejected = 0, 0, False, False, list[Part]()
        for job in self.queue:
            if not self.waits(job):
                continue
            part = self.part(job)
            if keys.sched_max_job_start and begun >= keys.sched_max_job_start:
                break
            if self.passes_over(job, rejected):
                overtakes = True
                continue
            if keys.partition_job_depth and tested[part] >= keys.partition_job_depth:
                continue
            if not full and depth > keys.default_queue_depth:
                self.clock.busy = touched
                return True
            depth += 1
            tested[part] += 1
            if part in blocked:
                touched = True
                continue
            if self.lacks(job, accounts=True):
                overtakes = True
                continue
            allowed = self.of_part(job) & self.up & left
            lacks = not self.named(job) & self.of_part(job) & self.up <= allowed
            if len(allowed) >= self.least(job) and not lacks:
                if self.lacks(job, accounts=False) and keys.bf_licenses:
                    break
                if self.lacks(job, accounts=False) or (self.short(job) and not keys.assoc_limit_stop):
                    overtakes = True
                    continue
                placement = self.seat(job, allowed, self.free)
                if placement and self.ends_before_windows(job, placement):
                    self.start(job, placement, "fit" if overtakes else "head")
                    self.clock.lowered.pop(job.row, None)
                    begun += 1
                    rejected = rejected if job.row not in keys.arrays else []
                    continue
                hopeless = self.seat(job, allowed, self.view.capacity[0][1]) is None  # for the nodes that are left
                if self.reserves_nothing(job) or (hopeless and not placement):
                    overtakes = True
                    continue
            overtakes = True
            if not lacks and len(self.named(job)) >= self.least(job):
                left -= self.named(job)
                continue
            blocked.add(part)
            left -= self.of_part(job)
        self.clock.busy = touched
        return False

    # nodes

    def named(self, job: Job) -> frozenset[int]:
        """The nodes that it names, none if it names none."""
        return self.keys.named.get(job.row, frozenset())

    def least(self, job: Job) -> int:
        """On how many nodes it runs at least."""
        return job.tasks if job.spread == "distinct" else self.keys.least.get(job.row, 1)

    def of_node(self, room: Room, n: int) -> list[int]:
        return [room[slot] for slot in node_slots(self.view.platform, n)]

    def usable(self, job: Job, n: int, room: Room) -> int:
        if not may_use(self.view.platform, n, job):
            return 0
        amounts, most = [*zip(self.of_node(room, n), job.demand, strict=True)], PLENTY
        if self.keys.version >= 26.05 and (self.most(job) == 1 or self.most(job) == self.least(job) == job.tasks):
            most = job.tasks if self.most(job) == 1 else 1
        return min([most, *(max(amount, 0) // demand for amount, demand in amounts if demand)])

    def seat(self, job: Job, allowed: set[int], room: Room) -> Placement | None:
        """The nodes that select/cons_tres takes, without those of fewest usable cpus where it would fail with them."""
        sites: list[int | None] = [None]
        if job.spread == "site" and job.tasks > 1:
            sites = [*dict.fromkeys(node.site for node in self.view.platform.nodes)]
        for site in sites:
            mine = {n for n in allowed if site is None or self.view.platform.nodes[n].site == site}
            least = job.tasks if self.most(job) == 1 else 1
            usable = {n: tasks for n in sorted(mine) if (tasks := self.usable(job, n, room)) >= least}
            if not self.named(job) <= {*usable}:
                continue
            if self.keys.pack_serial_at_end and job.tasks == job.demand[0] == 1 and not self.named(job):
                return ((max(usable), 1),) if usable else None
            if job.partition in self.keys.least_loaded:
                size = {n: self.view.platform.nodes[n].capacity[0] for n in usable}
                emptiest_first(seats := self.seats(job, usable), size)
                found = seats.tasks(job.tasks)
                return tuple(sorted(found.items())) if found else None
            for least in (0, *sorted({*usable.values()})):
                larger = {n: tasks for n, tasks in usable.items() if tasks > least or n in self.named(job)}
                fill(seats := self.seats(job, larger))
                if found := seats.tasks(job.tasks):
                    return tuple(sorted(found.items()))
        return None

    def most(self, job: Job) -> float:
        """On how many nodes it runs at most."""
        if job.tasks == 1 or job.spread == "node":
            return 1
        return job.tasks if job.spread == "distinct" else self.keys.most.get(job.row, inf)

    def seats(self, job: Job, usable: dict[int, int]) -> Seats:
        """With tasks on the nodes that it names."""
        spare = max(min(self.keys.most.get(job.row, 0), job.tasks) - self.least(job), 0)
        found = Seats(usable, job.tasks, self.least(job), self.most(job), spare)
        for n in sorted(self.named(job)):
            found.take(n)
        return found

    def ends_before_windows(self, job: Job, placement: Placement) -> bool:
        """Known windows leave it what it needs for its whole walltime, beside what others hold now."""
        needed = held(self.view.platform, job, placement)
        now = self.view.capacity[0][1]
        for t, room in self.view.capacity:
            if t > self.now and t < self.now + job.estimate:
                for n, _ in placement:
                    for slot in node_slots(self.view.platform, n):
                        if room[slot] - (now[slot] - self.free[slot]) < needed[slot]:
                            return False
        return True


def emptiest_first(seats: Seats, size: dict[int, int]) -> None:
    """First the nodes with the largest free share."""
    for n in sorted(seats.usable, key=lambda n: (-seats.usable[n] / size[n], n)):
        seats.take(n)


def neighbours(nodes: Iterable[int]) -> list[list[int]]:
    """Runs of neighbouring nodes."""
    runs: list[list[int]] = []
    for n in sorted(nodes):
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return runs


def fill(seats: Seats) -> None:
    """Run after run of neighbouring nodes.

    Nodes that have tasks already are those that the job names.
    """
    named, runs = {*seats.found}, neighbours(seats.usable)
    while not seats.full:
        best, best_total, best_fits = None, 0, False
        for run in runs:
            others = [n for n in run if n not in named]
            total = sum(seats.usable[n] for n in others)
            fits = total >= seats.left and len(others) >= seats.need
            if not others:
                continue
            if best is None or (named & {*run} and not named & {*best}):
                better = True
            else:
                better = (fits and (not best_fits or total < best_total)) or (
                    not fits and not best_fits and total > best_total
                )
            if better:
                best, best_total, best_fits = run, total, fits
        if best is None or seats.most <= 0:
            break
        runs.remove(best)
        if mine := named & {*best}:
            first = min(mine)
            for n in [*(n for n in best if n > first), *reversed([n for n in best if n < first])]:
                seats.take(n)
            continue
        single = [n for n in best if seats.usable[n] >= seats.left]
        if seats.need + seats.spare <= 1 and single:
            seats.take(min(single, key=lambda n: seats.usable[n]))
            break
        for n in best:
            if seats.most != 1 or seats.usable[n] >= seats.left:
                seats.take(n)


@dataclass
class Record:
    """The nodes that no planned job has on [begin, end), and the copies of licences, where these are planned."""

    begin: Time
    end: Time
    nodes: set[int]
    copies: Counter[int] = field(default_factory=Counter)

    def has(self, copies: Counter[int]) -> bool:
        return all(self.copies[licence] >= count for licence, count in copies.items())


class Cycle:
    """One cycle of the backfill loop."""

    def __init__(self, of: Pass):
        self.of, self.keys, self.now = of, of.keys, second(of.now)
        resolution, window = self.keys.bf_resolution * SECOND, self.keys.bf_window * 60 * SECOND
        self.resolution, self.until = resolution, self.now + window
        there = of.view.platform.copies[: len(of.view.platform.copies) - of.view.platform.accounts]
        first, last = (t // resolution * resolution for t in (self.now, self.until))
        self.space = [Record(first, last, {*of.up}, Counter(dict(enumerate(there))))]
        self.made, self.headed = 1, False  # records that Slurm has made, one of which may have no length

    def run(self) -> Time:
        """Return how long it takes."""
        keys, of_part, of_user, planned = self.keys, Counter[Part](), Counter[int | None](), Counter[Part]()
        tested = begun = 0
        rejected, tasks = list[Part](), ("", 0)
        work, most = 0.0, min(keys.bf_interval * SECOND, 2 * SECOND)
        if keys.bf_running_job_reserve or keys.bf_licenses:
            for run in sorted(self.of.running(), key=lambda run: run.job.row):
                self.hold(run.job, run.placement, second(run.limit))
        for job in self.of.waiting():
            if not self.of.waits(job):
                continue
            part = self.of.part(job)
            if keys.bf_max_job_start and begun >= keys.bf_max_job_start:
                break
            if self.of.lacks(job, accounts=True) and not keys.assoc_limit_stop:
                continue
            if self.of.passes_over(job, rejected):
                continue
            if keys.bf_max_job_part and of_part[part] >= keys.bf_max_job_part:
                continue
            of_one = keys.bf_max_job_assoc or keys.bf_max_job_user
            if of_one and of_user[job.user] >= of_one:
                continue
            of_part[part] += 1
            of_user[job.user] += 1
            if self.of.lacks(job, accounts=False) and not keys.bf_licenses:
                continue
            crowded = keys.bf_job_part_count_reserve and planned[part] >= keys.bf_job_part_count_reserve
            again = keys.bf_one_resv_per_job and job.row in self.of.promises
            what = self.plan(job, only_now=bool(crowded) or again or self.of.reserves_nothing(job))
            if what in ("full", "stuck"):
                work = most if what == "stuck" else work
                break
            if (array := keys.arrays.get(job.row)) is not None and what in ("started", "planned"):
                if what == "planned":
                    tasks = (array, 1 + (tasks[1] if tasks[0] == array else 0))
                if what == "started" or tasks[1] < keys.bf_max_job_array_resv:
                    rejected = []
            begun += what == "started"
            planned[part] += what == "planned"
            if what != "skipped":
                tested += 1
                work += keys.bf_test_cost * 1000
            if tested >= keys.bf_max_job_test or slept(work) >= most:
                break
        return int(slept(work))

    def plan(self, job: Job, only_now: bool) -> str:
        length, after, what = min(job.estimate, YEAR, self.keys.least_limits.get(job.row, YEAR)), self.now, "skipped"
        while True:
            later, allowed = self.next_chance(job, after, length), self.allowed(job, after, length)
            begin, nodes = None, ()
            lacking = [r for r in self.covering(after, length) if not r.has(self.copies(job))]
            later = lacking[-1].end if lacking else later
            named = self.of.named(job) & self.of.of_part(job) & self.of.up
            if len(allowed) >= self.of.least(job) and named <= allowed and not lacking:
                what = "tested"
                begin, nodes = self.expected(job, allowed, after, later)
            if begin is None:
                if later is None or only_now:
                    return what
                after = later
                continue
            begin, recent, tested = max(begin, after), self.keys.version >= 24.11, False
            taken = {n for n, _ in nodes}
            if recent and begin > self.now:
                tested = True
                if self.overlaps(job, begin, length, taken):
                    if begin == after and self.keys.version < 25.05:
                        return "stuck"
                    after = begin + self.resolution if begin == after else begin
                    continue
            if self.of.short(job) and not self.keys.assoc_limit_stop:
                return "tested"
            if self.of.lacks(job, accounts=True) and (begin <= self.now or not recent):
                begin, tested = self.now + 500 * SECOND if later is None else later, False
            elif begin <= self.now and self.of.lacks(job, accounts=False):
                later, tested = None, False
            elif begin <= self.now:
                placement = self.of.seat(job, allowed, self.of.free)
                if placement and self.of.ends_before_windows(job, placement):
                    self.of.start(job, placement, "backfill")
                    if job.row in self.keys.least_limits:
                        self.of.clock.lowered[job.row] = length
                    self.of.promises.pop(job.row, None)  # of another partition
                    self.hold(job, placement, self.now + length)
                    return "started"
                return "tested"
            estimate = Reservation(begin, nodes)
            if only_now:
                self.tell(job, estimate)
                return "tested"
            if later is not None and begin > later:
                after = later
                continue
            if begin > self.until:
                self.tell(job, estimate)
                return "tested"
            if not tested and self.overlaps(job, begin, length, taken):
                if begin == after and self.keys.version < 25.05:
                    return "stuck"
                after = begin + self.resolution if begin == after else begin
                continue
            self.tell(job, estimate)
            if self.made >= self.keys.bf_node_space_size:
                return "full"
            self.occupy(*self.slot(begin, begin + length), taken, self.copies(job))
            return "planned"

    def copies(self, job: Job) -> Counter[int]:
        """The licences that it needs, where these are planned."""
        real = len(self.of.view.platform.copies) - self.of.view.platform.accounts
        return Counter(each for each in job.licences if each < real and self.keys.bf_licenses)

    def hold(self, job: Job, placement: Placement, end: Time) -> None:
        """What a running job keeps from the plan until its end."""
        taken = {n for n, _ in placement} if job.row in self.keys.whole else set()
        real = len(self.of.view.platform.copies) - self.of.view.platform.accounts
        if (taken or any(each < real for each in job.licences)) and self.made < self.keys.bf_node_space_size:
            self.occupy(*self.slot(self.space[0].begin, end), taken, self.copies(job))

    def overlaps(self, job: Job, begin: Time, length: Time, taken: set[int]) -> bool:
        begins, ends = self.slot(begin, begin + length)
        inside = [r for r in self.space if r.end > begins and r.begin < ends]
        return any(not taken <= r.nodes or not r.has(self.copies(job)) for r in inside)

    def tell(self, job: Job, estimate: Reservation) -> None:
        """The earliest of its partitions counts."""
        known = self.of.promises.get(job.row)
        if known is None or estimate.start < known.start:
            self.of.promises[job.row] = estimate

    def slot(self, begin: Time, end: Time) -> tuple[Time, Time]:
        first = begin // self.resolution * self.resolution
        last = -(-end // self.resolution) if self.keys.version >= 24.11 else end // self.resolution
        return first, max(last * self.resolution, first + self.resolution)

    def next_chance(self, job: Job, after: Time, length: Time) -> Time | None:
        so_far, part = {*self.of.nodes}, self.of.of_part(job)
        for i, record in enumerate(self.space):
            behind = self.space[i + 1 :]
            if record.end <= after:
                continue
            if behind:
                so_far &= record.nodes
                if not behind[0].nodes & part <= so_far:
                    return record.end
            if record.begin > after + length:
                return behind[0].end if self.keys.version >= 24.11 and len(behind) > 1 else None
        return None

    def allowed(self, job: Job, after: Time, length: Time) -> set[int]:
        found = self.of.of_part(job) & self.of.up
        for record in self.covering(after, length):
            found &= record.nodes
        return found

    def covering(self, after: Time, length: Time) -> list[Record]:
        return [record for record in self.space if record.end > after and record.begin <= after + length]

    def occupy(self, begin: Time, end: Time, taken: set[int], copies: Counter[int]) -> None:
        begin, there = max(begin, self.space[0].begin), len(self.space)
        for bound in (begin, end):
            self.space = [part for record in self.space for part in parts(record, bound)]
        self.made += len(self.space) - there
        if begin == self.space[0].begin and not self.headed:
            self.made, self.headed = self.made + 1, True
        inside = [i for i, record in enumerate(self.space) if record.begin >= begin and record.end <= end]
        for i in inside:
            self.space[i].nodes = self.space[i].nodes - taken
            self.space[i].copies = self.space[i].copies.copy()
            self.space[i].copies.subtract(copies)
        first, last = (inside[0], inside[-1]) if inside else (len(self.space), len(self.space))
        near = self.space[max(first - 2, 0) : last + 2]
        for one, other in pairwise(near):
            if one.nodes == other.nodes and one.copies == other.copies:
                one.end = other.end
                self.space.remove(other)
                break

    def expected(self, job: Job, allowed: set[int], after: Time, later: Time | None) -> tuple[Time | None, Placement]:
        """When and where it could start on these nodes if nobody else waited."""
        of, recent, room, runs = self.of, self.keys.version >= 24.11, self.of.free, self.of.running()
        if not (recent and after > self.now) and (found := of.seat(job, allowed, room)):
            return self.now, found
        if recent:
            for r in (gone := [r for r in runs if second(r.limit) < after]):
                room = plus(room, r.held)
            if (gone or after > self.now) and (found := of.seat(job, allowed, room)):
                return after, found
            runs = runs[len(gone) :]
        for group in self.groups(runs, allowed, later):
            for r in group:
                room = plus(room, r.held)
            if found := of.seat(job, allowed, room):
                last = group[-1]
                if self.keys.version >= 25.05:
                    on = {n for n, _ in found}
                    last = [last, *(r for r in group if on & {n for n, _ in r.placement})][-1]
                return self.guess(last), found
        return None, ()

    def groups(self, runs: list[Running], allowed: set[int], later: Time | None) -> Iterator[list[Running]]:
        """The runs on these nodes, in groups of growing width."""
        window, barrier = 30 * SECOND, None
        group: list[Running] = []
        for r, following in zip(runs, [*runs[1:], None], strict=False):
            if not allowed & {n for n, _ in r.placement}:
                continue
            if self.keys.version >= 24.11 and later is not None and second(r.limit) > later:
                break
            if barrier is None:
                barrier = (second(r.limit) // (30 * SECOND) + 1) * 30 * SECOND
            group.append(r)
            if following is not None and second(following.limit) > barrier + window:
                yield group
                group = []
                window += self.keys.bf_window_linear * SECOND or window
                while second(following.limit) > barrier + window:  # a width that no run is within is skipped
                    window += self.keys.bf_window_linear * SECOND or window
        if group:
            yield group

    def guess(self, r: Running) -> Time:
        end = second(r.limit)
        if end > self.now:
            return end
        end += 30 * SECOND
        return end if end > self.now else self.now + SECOND


def parts(record: Record, bound: Time) -> list[Record]:
    """The record, divided at a bound within it."""
    if record.begin < bound < record.end:
        return [replace(record, end=bound), replace(record, begin=bound)]
    return [record]


def slept(work: float) -> float:
    """How long a cycle takes with its sleeps."""
    return work + floor(work / (2 * SECOND)) * SECOND / 2
