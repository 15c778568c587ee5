"""Gangs and local jobs on a grid, as a queueing network: customers, queues, servers, one event after another.

Written from the papers (Dimitriadou and Karatza, CISIS 2010; docs/decisions/0026-grid-readings.md), not from the
policies: there is no view and no pass here, and no outage. An empty queue is one in which nobody waits; the processor
itself may be busy. E is the time until a gang could start.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import groupby
from math import inf

from backfill.model.units import SECOND

from .chance import Chance
from .words import Job, Platform, Time
from .world import Row, Stay


@dataclass(eq=False)
class Customer:
    """A local job, or a gang: of one job, or of jobs of one task each that end by themselves."""

    jobs: list[Job]
    site: int | None  # of a local job
    processors: list["Processor"] = field(default_factory=list)  # in whose queues a gang is
    first_start: Time = 0  # of a gang, as it was known when it was put there

    @property
    def size(self) -> int:
        return sum(job.tasks for job in self.jobs)

    @property
    def service(self) -> Time:
        """Return the service time of a local job, as far as known."""
        return self.jobs[0].estimate


@dataclass(eq=False)
class Processor:
    number: int
    site: int
    queue: list[Customer] = field(default_factory=list)  # a gang can only be in front
    limit: Time | None = None  # when what runs here should end; None: idle

    @property
    def idle(self) -> bool:
        return self.limit is None

    @property
    def gang(self) -> Customer | None:
        return self.queue[0] if self.queue and self.queue[0].site is None else None


class Network:
    def __init__(
        self, jobs: list[Job], platform: Platform, approach: int, tolerance: float, delay: str, cross: str, overrun: str
    ) -> None:
        self.processors = [Processor(number, node.site) for number, node in enumerate(platform.nodes)]
        self.sites = list(dict.fromkeys(p.site for p in self.processors))
        self.approach, self.delay, self.cross, self.overrun = approach, delay, cross, overrun
        self.tolerance = inf if tolerance == inf else round(tolerance * SECOND)
        self.chance, self.now = Chance(), 0
        self.rows = [Row(job.name, eligible=job.submit) for job in jobs]
        self.arrivals = customers(jobs)
        self.waiting: list[Customer] = []  # gangs at the grid scheduler, oldest first
        self.ends: list[tuple[Time, int, list[Processor]]] = []  # heap; the second is the number of the start
        self.starts = 0

    def run(self) -> list[Row]:
        while self.arrivals or self.ends:
            self.now = min([c.jobs[0].submit for c in self.arrivals[:1]] + [end for end, *_ in self.ends[:1]])
            ended: list[Processor] = []
            while self.ends and self.ends[0][0] == self.now:
                ended += heappop(self.ends)[2]
            for p in ended:
                p.limit = None
            for p in ended:
                self.becomes_idle(p)
            if ended:
                self.serve_waiting_gangs()
            while self.arrivals and self.arrivals[0].jobs[0].submit == self.now:
                customer = self.arrivals.pop(0)
                if customer.site is not None:
                    self.local_job_arrives(customer)
                elif not self.allocate(customer):
                    self.waiting.append(customer)
        return self.rows

    def one_of(self, processors: list[Processor]) -> Processor:
        return processors[self.chance.pick(len(processors))]

    def start(self, job: Job, processors: list[Processor], reason: str) -> None:
        killed = self.overrun == "kill" and job.runtime > job.walltime
        end = self.now + (job.walltime if killed else job.runtime)
        for p in processors:
            p.limit = self.now + job.estimate
        self.starts += 1
        heappush(self.ends, (end, self.starts, processors))
        row = self.rows[job.row]
        row.state, row.reason = "TIMEOUT" if killed else "COMPLETED", reason
        row.start, row.end, row.nodes = self.now, end, tuple((p.number, 1) for p in processors)
        row.runs = [Stay(row.start, end, row.nodes, row.state)]

    # the local schedulers

    def local_job_arrives(self, customer: Customer) -> None:
        here = [p for p in self.processors if p.site == customer.site]
        if alone := [p for p in here if p.idle and not p.queue]:
            self.start(customer.jobs[0], [self.one_of(alone)], "head")
        elif held := [p for p in here if p.idle and p.gang and self.in_time(customer, p.gang)]:
            self.start(customer.jobs[0], [self.one_of(held)], "backfill")
        else:
            fewest = min(len(p.queue) for p in here)
            self.one_of([p for p in here if len(p.queue) == fewest]).queue.append(customer)

    def becomes_idle(self, p: Processor) -> None:
        gang = p.gang
        if not p.idle or (gang and self.start_if_all_idle(gang)):
            return  # it was served together with another one, or its gang began
        for customer in p.queue[1 if gang else 0 :]:
            if gang is None or self.in_time(customer, gang):
                p.queue.remove(customer)
                self.start(customer.jobs[0], [p], "backfill" if gang else "head")
                return

    def in_time(self, customer: Customer, gang: Customer) -> bool:
        """x <= E + T"""
        start = gang.first_start if self.delay == "bounded" else self.now + self.elapsed_time(gang)
        return self.now + customer.service <= start + self.tolerance

    def elapsed_time(self, gang: Customer) -> Time:
        """E"""
        return max(self.remaining(p) for p in gang.processors)

    def remaining(self, p: Processor) -> Time:
        return 0 if p.limit is None else max(p.limit - self.now, 0)

    def start_if_all_idle(self, gang: Customer) -> bool:
        if not all(p.idle for p in gang.processors):
            return False
        for p in gang.processors:
            p.queue.remove(gang)
        if len(gang.jobs) == 1:
            self.start(gang.jobs[0], gang.processors, "gang")
        else:
            for job, p in zip(gang.jobs, gang.processors, strict=True):
                self.start(job, [p], "gang")
        return True

    # the grid scheduler

    def allocate(self, gang: Customer) -> bool:
        """Steps 1, 2 and, under approach 2, 2b; False: it has to wait."""
        at = {site: [p for p in self.processors if p.site == site and not p.queue] for site in self.sites}
        idle = {site: [p for p in at[site] if p.idle] for site in self.sites}
        now = [site for site in self.sites if len(idle[site]) >= gang.size]
        later = [site for site in self.sites if len(at[site]) >= gang.size]
        if now:
            self.put(gang, idle[now[self.chance.pick(len(now))]])
        elif later:
            most = max(len(idle[site]) for site in later)
            best = [site for site in later if len(idle[site]) == most]
            self.put(gang, at[best[self.chance.pick(len(best))]])
        elif self.fits_on_several(gang):
            self.put(gang, self.of_all_sites())
        else:
            return False
        return True

    def of_all_sites(self) -> list[Processor]:
        return [p for p in self.processors if not p.queue and (p.idle or self.cross == "empty")]

    def fits_on_several(self, gang: Customer) -> bool:
        """A gang that no site could ever take may use several under approach 1, too."""
        largest = max(sum(p.site == site for p in self.processors) for site in self.sites)
        return (self.approach == 2 or gang.size > largest) and len(self.of_all_sites()) >= gang.size

    def put(self, gang: Customer, processors: Iterable[Processor]) -> None:
        """Into the queues of those that are idle, then of those that become idle soonest."""
        soonest = sorted(processors, key=lambda p: (not p.idle, self.remaining(p)))
        gang.processors = sorted(soonest[: gang.size], key=lambda p: p.number)
        for p in gang.processors:
            p.queue.append(gang)
        gang.first_start = self.now + self.elapsed_time(gang)
        if not self.start_if_all_idle(gang):
            for job in gang.jobs:
                self.rows[job.row].promise = gang.first_start

    def serve_waiting_gangs(self) -> None:
        """The largest that finds enough empty queues at a site; else, of all sites together; of equals the oldest."""
        while True:
            empty = [sum(p.site == site and not p.queue for p in self.processors) for site in self.sites]
            some = [gang for gang in self.waiting if gang.size <= max(empty)]
            some = some or [gang for gang in self.waiting if self.fits_on_several(gang)]
            if not some:
                return
            gang = max(some, key=lambda gang: gang.size)
            self.waiting.remove(gang)
            self.allocate(gang)


def customers(jobs: list[Job]) -> list[Customer]:
    """In the order in which they arrive; jobs of one project, which come together, are one gang."""
    found = []
    for _, some in groupby(sorted(jobs, key=lambda job: (job.submit, job.row)), key=lambda job: job.project or job.row):
        together = list(some)
        alone = len(together) == 1 and together[0].tasks == 1
        found.append(Customer(together, together[0].site if alone else None))
    return found


def simulate(
    jobs: list[Job],
    platform: Platform,
    approach: int,
    tolerance: float = 0,
    delay: str = "current",
    cross: str = "empty",
    overrun: str = "kill",
) -> list[Row]:
    """Return the outcome of each job. A local job has a site, and a gang has none; all processors are alike."""
    return Network(jobs, platform, approach, tolerance, delay, cross, overrun).run()
