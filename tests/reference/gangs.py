"""Gangs on a grid of sites, as passes over a view: with outages, announced windows, chains of jobs, and changes.

What happens without these has a twin that is no policy at all: grid.py.
Source: Dimitriadou and Karatza, CISIS 2010: gang_site is its approach 1, gang_span approach 2.
"""

from dataclasses import dataclass, field
from math import inf

from backfill.model.units import SECOND

from .chance import Chance
from .placement import may_use, node_slots
from .words import Decision, Job, Placement, Policy, Reservation, Start, Time, View


def gang_site(tolerance: float = 0, delay: str = "current") -> Policy:
    return lambda view: Pass(view, grid_of(view), tolerance, delay, span=False, cross="empty").decide()


def gang_span(tolerance: float = 0, delay: str = "current", cross: str = "empty") -> Policy:
    return lambda view: Pass(view, grid_of(view), tolerance, delay, span=True, cross=cross).decide()


@dataclass(eq=False)
class Gang:
    """A job, or jobs of one task each that came together as one project. Its size is the number of processors."""

    jobs: list[Job]
    wide: bool = False  # it may use several sites
    holds: list[int] = field(default_factory=list)  # processors; none while it waits at the grid scheduler
    known: Time = 0  # when it was expected to start, as it was given its processors

    @property
    def size(self) -> int:
        return len(self.jobs) if len(self.jobs) > 1 else self.jobs[0].tasks

    @property
    def age(self) -> tuple[Time, int]:
        return self.jobs[0].submit, self.jobs[0].row


@dataclass(eq=False)
class Processor:
    site: int
    gang: Gang | None = None
    local: list[Job] = field(default_factory=list)  # those that wait, behind the gang

    @property
    def empty(self) -> bool:
        return self.gang is None and not self.local


@dataclass(eq=False)
class Grid:
    """What the schedulers remember between two passes."""

    processors: list[Processor]
    waiting: list[Gang] = field(default_factory=list)  # at the grid scheduler
    chance: Chance = field(default_factory=Chance)

    @property
    def bound(self) -> list[Gang]:
        return list({id(p.gang): p.gang for p in self.processors if p.gang}.values())

    @property
    def sites(self) -> list[int]:
        """In the order of their first processors."""
        return list(dict.fromkeys(p.site for p in self.processors))

    def of_site(self, site: int) -> list[int]:
        return [p for p, each in enumerate(self.processors) if each.site == site]


def grid_of(view: View) -> Grid:
    return view.memory.setdefault("grid", Grid([Processor(node.site) for node in view.platform.nodes]))


def asks(job: Job) -> tuple[object, ...]:
    """Jobs that ask for the same may be one gang."""
    return job.project, job.tasks, job.demand, job.site, job.constraint, job.partition


class Pass:
    """What happens at one instant."""

    def __init__(self, view: View, grid: Grid, tolerance: float, delay: str, span: bool, cross: str):
        self.view, self.grid, self.delay, self.span, self.cross = view, grid, delay, span, cross
        self.tolerance = inf if tolerance == inf else round(tolerance * SECOND)
        self.free, self.decision = list(view.free), Decision()
        self.until: dict[int, Time] = {}  # processor -> limit of what runs there
        for r in view.running:
            self.until.update({node: r.limit for node, _ in r.placement})

    def decide(self) -> Decision:
        queue = {job.row: job for job in self.view.queue}
        self.refresh(queue)
        if self.view.changed:
            self.take_stock()
            served = list(range(len(self.grid.processors)))
        else:
            served = [node for r in self.view.over for node, _ in r.placement]
        for p in served:
            self.serve(p)
        if served:
            self.serve_gangs()
        for job in queue.values():
            if not self.somewhere(job) and job.row not in self.started:
                self.receive(job, list(queue.values()))
        for gang in self.grid.bound:
            for job in gang.jobs:
                self.decision.promises[job.row] = Reservation(gang.known, ())
        return self.decision

    def refresh(self, queue: dict[int, Job]) -> None:
        """Jobs as they are now; those that went away leave their queues, and their gangs with them."""
        for processor in self.grid.processors:
            processor.local = [queue[job.row] for job in processor.local if job.row in queue]
        for gang in [*self.grid.bound, *self.grid.waiting]:
            if all(job.row in queue for job in gang.jobs):
                gang.jobs = [queue[job.row] for job in gang.jobs]
            else:
                self.dissolve(gang)

    def dissolve(self, gang: Gang) -> None:
        if gang in self.grid.waiting:
            self.grid.waiting.remove(gang)
        for p in gang.holds:
            self.grid.processors[p].gang = None
        gang.holds = []

    def somewhere(self, job: Job) -> bool:
        gangs = [*self.grid.bound, *self.grid.waiting]
        rows = {each.row for gang in gangs for each in gang.jobs}
        return job.row in rows | {each.row for p in self.grid.processors for each in p.local}

    @property
    def started(self) -> set[int]:
        return {start.job.row for start in self.decision.starts}

    def take_stock(self) -> None:
        """Give jobs back to their scheduler if they wait at a processor where they can no longer run."""
        for gang in self.grid.bound:
            if not all(self.suits(gang.jobs[0], p) for p in gang.holds):
                self.dissolve(gang)
        for gang in self.grid.bound:
            longest = max(gang.jobs, key=lambda job: job.estimate)
            known = max(self.idle_from(p) for p in gang.holds)
            if not all(self.open(longest, p, known) for p in gang.holds):
                self.send_back(gang)
        for p, processor in enumerate(self.grid.processors):
            processor.local = [job for job in processor.local if self.suits(job, p)]
        for gang in list(self.grid.waiting):
            gang.wide = self.is_wide(gang)
            if len(gang.jobs) > 1 and not self.enough(gang.jobs[0], gang.size):
                self.grid.waiting.remove(gang)

    # a processor

    def there(self, p: int) -> list[int]:
        return [self.view.capacity[0][1][slot] for slot in node_slots(self.view.platform, p)]

    def idle(self, p: int) -> bool:
        there = self.there(p)
        return there[0] > 0 and there == [self.free[slot] for slot in node_slots(self.view.platform, p)]

    def suits(self, job: Job, p: int) -> bool:
        there = self.there(p)
        enough = all(asked <= amount for asked, amount in zip(job.demand, there, strict=True))
        return there[0] > 0 and enough and may_use(self.view.platform, p, job)

    def idle_from(self, p: int) -> Time:
        return self.view.now if self.idle(p) else max(self.until[p], self.view.now)

    def open(self, job: Job, p: int, t: Time) -> bool:
        """Do windows that are announced leave it room if it starts at t, from the instant on at which p is idle?"""
        slots = node_slots(self.view.platform, p)
        untils = [begin for begin, _ in self.view.capacity[1:]] + [inf]
        return all(
            room[slot] >= asked
            for (begin, room), until in zip(self.view.capacity, untils, strict=True)
            if begin < t + max(job.estimate, 1) and until > self.idle_from(p)
            for slot, asked in zip(slots, job.demand, strict=True)
        )

    # what starts

    def start(self, job: Job, processors: list[int], reason: str) -> bool:
        """False where a window that is announced is in the way."""
        if not all(self.open(job, p, self.view.now) for p in processors):
            return False
        placement: Placement = tuple((p, 1) for p in processors)
        self.decision.starts.append(Start(job, placement, reason))
        for p in processors:
            for slot, amount in zip(node_slots(self.view.platform, p), job.demand, strict=True):
                self.free[slot] -= amount
            self.until[p] = self.view.now + job.estimate
        return True

    def all_idle(self, gang: Gang) -> bool:
        return all(self.idle(p) for p in gang.holds)

    def start_gang(self, gang: Gang) -> bool:
        if len(gang.jobs) == 1:
            if not self.start(gang.jobs[0], gang.holds, "gang"):
                return False
        else:
            if not all(self.open(job, p, self.view.now) for job, p in zip(gang.jobs, gang.holds, strict=True)):
                return False
            for job, p in zip(gang.jobs, gang.holds, strict=True):
                self.start(job, [p], "gang")
        self.dissolve(gang)
        return True

    # local schedulers

    def serve(self, p: int) -> None:
        """The processor became idle."""
        gang = self.grid.processors[p].gang
        if not self.idle(p):
            return
        if gang and self.all_idle(gang):
            held = gang.holds
            if not self.start_gang(gang):
                self.send_back(gang)
                for each in held:
                    if self.idle(each):  # else a job that a window stopped elsewhere has come there
                        self.serve_local(each)
            return
        self.serve_local(p)

    def send_back(self, gang: Gang) -> None:
        self.dissolve(gang)
        self.grid.waiting.append(gang)

    def serve_local(self, p: int) -> None:
        """The first that may start; without a gang, whom a window stops goes where none does."""
        processor = self.grid.processors[p]
        for job in list(processor.local):
            first = not processor.gang and job is processor.local[0]
            if not processor.gang or self.may_pass(job, processor.gang):
                if self.start(job, [p], "head" if first else "backfill"):
                    processor.local.remove(job)
                    return
                here = [q for q in self.grid.of_site(processor.site) if self.suits(job, q)]
                if not processor.gang and any(self.open(job, q, self.idle_from(q)) for q in here):
                    processor.local.remove(job)
                    self.receive_local(job, processor.site)

    def may_pass(self, job: Job, gang: Gang) -> bool:
        known = gang.known if self.delay == "bounded" else max(self.idle_from(p) for p in gang.holds)
        return self.view.now + job.estimate <= known + self.tolerance

    def receive_local(self, job: Job, site: int) -> None:
        of, now = self.grid.processors, self.view.now
        here = [p for p in self.grid.of_site(site) if self.suits(job, p)]
        idle = [p for p in here if self.idle(p) and self.open(job, p, now)]
        alone = [p for p in idle if of[p].empty]
        passing = [p for p in idle if not of[p].empty and (not of[p].gang or self.may_pass(job, of[p].gang))]
        for reason, those in (("head", alone), ("backfill", passing)):
            if those:
                self.start(job, [those[self.grid.chance.pick(len(those))]], reason)
                return
        those = [p for p in here if self.open(job, p, self.idle_from(p))] or here
        if those:
            length = {p: len(of[p].local) + (of[p].gang is not None) for p in those}
            equals = [p for p in those if length[p] == min(length.values())]
            of[equals[self.grid.chance.pick(len(equals))]].local.append(job)

    # the grid scheduler

    def receive(self, job: Job, queue: list[Job]) -> None:
        home = self.home(job)
        if home is not None and job.tasks == 1:
            self.receive_local(job, home)
            return
        gang = Gang(self.gather(job, queue))
        gang.wide = self.is_wide(gang)
        if not self.dispatch(gang):
            self.grid.waiting.append(gang)

    def home(self, job: Job) -> int | None:
        sites = {node.site for p, node in enumerate(self.view.platform.nodes) if may_use(self.view.platform, p, job)}
        return sites.pop() if len(sites) == 1 else None

    def gather(self, job: Job, queue: list[Job]) -> list[Job]:
        if job.tasks > 1 or not job.project:
            return [job]
        others = [
            other
            for other in queue
            if (other.submit, other.row) > (job.submit, job.row)
            and asks(other) == asks(job)
            and self.home(other) is None
            and not self.somewhere(other)
            and other.row not in self.started
        ]
        return [job, *others] if self.enough(job, 1 + len(others)) else [job]

    def enough(self, job: Job, size: int) -> bool:
        return sum(self.suits(job, p) for p in range(len(self.grid.processors))) >= size

    def is_wide(self, gang: Gang) -> bool:
        job = gang.jobs[0]
        counts = [sum(self.suits(job, p) for p in self.grid.of_site(site)) for site in self.grid.sites]
        may = job.tasks == 1 or job.spread in ("any", "distinct")
        return may and (self.span or gang.size > max(counts))

    def takes(self, gang: Gang, p: int) -> bool:
        return self.grid.processors[p].empty and self.suits(gang.jobs[0], p)

    def soonest(self, gang: Gang, processors: list[int]) -> Time | None:
        """The first instant at which enough of these are idle, and no window is in the way of its longest job."""
        longest = max(gang.jobs, key=lambda job: job.estimate)
        for t in sorted({self.view.now, *(self.idle_from(p) for p in processors)}):
            if sum(self.idle_from(p) <= t and self.open(longest, p, t) for p in processors) >= gang.size:
                return t
        return None

    def dispatch(self, gang: Gang) -> bool:
        longest = max(gang.jobs, key=lambda job: job.estimate)
        queues = {site: [p for p in self.grid.of_site(site) if self.takes(gang, p)] for site in self.grid.sites}
        idle = {site: [p for p in queues[site] if self.idle(p)] for site in queues}
        ready = {site: [p for p in idle[site] if self.open(longest, p, self.view.now)] for site in queues}
        at_once = [site for site in queues if len(ready[site]) >= gang.size]
        later = [site for site in queues if self.soonest(gang, queues[site]) is not None]
        if at_once:
            self.bind(gang, queues[at_once[self.grid.chance.pick(len(at_once))]])
            return True
        if later:
            best = [site for site in later if len(ready[site]) == max(len(ready[other]) for other in later)]
            self.bind(gang, queues[best[self.grid.chance.pick(len(best))]])
            return True
        over_all = sorted(p for ps in (idle if self.cross == "idle" else queues).values() for p in ps)
        if gang.wide and self.soonest(gang, over_all) is not None:
            self.bind(gang, over_all)
            return True
        return False

    def bind(self, gang: Gang, processors: list[int]) -> None:
        longest = max(gang.jobs, key=lambda job: job.estimate)
        t = self.soonest(gang, processors)
        able = [p for p in processors if not self.view.windows or (self.idle_from(p) <= t and self.open(longest, p, t))]
        soonest = sorted(able, key=lambda p: (not self.idle(p), self.idle_from(p), p))
        gang.holds = sorted(soonest[: gang.size])
        for p in gang.holds:
            self.grid.processors[p].gang = gang
        gang.known = max(self.idle_from(p) for p in gang.holds)
        if not (self.all_idle(gang) and self.start_gang(gang)):
            for job in gang.jobs:
                self.decision.given[job.row] = Reservation(gang.known, ())

    def serve_gangs(self) -> None:
        """The largest that finds enough empty queues at a site, else over all sites; of equals the oldest."""
        while chosen := self.next_gang():
            self.grid.waiting.remove(chosen)
            self.dispatch(chosen)

    def next_gang(self) -> Gang | None:
        by_rank = sorted(self.grid.waiting, key=lambda gang: (-gang.size, gang.age))
        for gang in by_rank:
            for site in self.grid.sites:
                if self.soonest(gang, [p for p in self.grid.of_site(site) if self.takes(gang, p)]) is not None:
                    return gang
        for gang in by_rank:
            here = [p for p in range(len(self.grid.processors)) if self.takes(gang, p)]
            some = [p for p in here if self.cross == "empty" or self.idle(p)]
            if gang.wide and self.soonest(gang, some) is not None:
                return gang
        return None
