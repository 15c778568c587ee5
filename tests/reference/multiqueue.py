"""Multiple-queue backfilling: queues by walltime, a partition for each, and a reservation for every head.

What a run holds of its own partition is remembered; reservations are made anew in every pass, and again after each
start of a head.
Source: Lawson and Smirni, JSSPP 2002; docs/decisions/0060-queues-partitions-and-shares.md.
"""

from bisect import bisect_left
from dataclasses import dataclass, field

from backfill.model.units import SECOND

from .easy import any_waits
from .limits import holds_turn, in_turn, keep_turn
from .placement import held
from .profile import Profile
from .words import Decision, Job, Policy, Reservation, Running, Start, Time, View


def multi_queue(bounds: tuple[float, ...] = (100, 1000, 10_000), high: float = 1) -> Policy:
    def decide(view: View) -> Decision:
        return Pass(view, sorted(bound * SECOND for bound in bounds), high).decide()

    return decide


@dataclass
class Pass:
    view: View
    bounds: list[float]
    high: float
    decision: Decision = field(default_factory=Decision)

    def decide(self) -> Decision:
        self.running = list(self.view.running)
        self.own: dict[int, int] = self.view.memory.setdefault("own", {})  # row -> of the partition of its queue
        self.order = sorted(self.view.queue, key=lambda job: (job.priority < self.high, job.submit, job.row))
        while (booked := self.start_a_head()) is None:
            pass
        self.start_beside(booked)
        return self.decision

    def queue_of(self, job: Job) -> int:
        return bisect_left(self.bounds, job.estimate)

    @property
    def queues(self) -> range:
        return range(len(self.bounds) + 1)

    def size(self, partition: int) -> int:
        resources = len(self.view.platform.nodes[0].capacity)
        cpus = sum(self.view.capacity[0][1][node * resources] for node in range(len(self.view.platform.nodes)))
        return cpus // len(self.queues) + (partition < cpus % len(self.queues))

    def idle(self, queue: int) -> int:
        """Processors of its partition that the queue itself does not use."""
        return self.size(queue) - sum(self.own[r.job.row] for r in self.running if self.queue_of(r.job) == queue)

    def profile(self) -> Profile:
        return Profile.of_running(self.view, self.running)

    def start_a_head(self) -> dict[Job, Reservation] | None:
        """The reservations of the heads; None where one of them starts, so that they are to be made anew."""
        profile = self.profile()
        booked = self.book_heads(profile)
        for job, at in booked.items():
            profile.lift(job, at)
            booked[job] = profile.book(job, profile.earliest(job, self.view.now))
            if booked[job].start == self.view.now:
                self.start(job, booked[job], self.reason(job))
                self.own[job.row] = max(min(job.procs, self.idle(self.queue_of(job))), 0)
                return None
        self.decision.promises.update({job.row: at for job, at in booked.items()})
        for job in [*booked][:1]:
            keep_turn(self.view, self.order, job, self.profile().rooms[0])
        return booked

    def book_heads(self, profile: Profile) -> dict[Job, Reservation]:
        """Each head when its own partition has room; one that is larger than that, as soon as the machine has."""
        booked: dict[Job, Reservation] = {}
        for job in in_turn(self.view, self.order):
            if self.queue_of(job) in map(self.queue_of, booked):
                continue
            if profile.held_back(job) and not holds_turn(self.view, job):
                continue
            within = job.procs <= self.size(self.queue_of(job))
            if at := profile.earliest(job, self.own_time(job) if within else self.view.now):
                booked[job] = profile.book(job, at)
        return booked

    def own_time(self, job: Job) -> Time:
        """Return when its own partition has room for it."""
        queue = self.queue_of(job)
        idle, mine = self.idle(queue), [r for r in self.running if self.queue_of(r.job) == queue]
        ends = sorted((max(r.limit, self.view.now), self.own[r.job.row]) for r in mine)
        for t, given_back in [(self.view.now, 0), *ends]:
            idle += given_back
            if idle >= job.procs:
                return t
        raise AssertionError("no larger than its partition")

    def reason(self, job: Job) -> str:
        in_order, now = in_turn(self.view, self.order), self.profile()
        before = in_order[: in_order.index(job)]
        return "backfill" if any_waits(before, now) or any(holds_turn(self.view, each) for each in before) else "head"

    def start(self, job: Job, at: Reservation, reason: str) -> None:
        room = held(self.view.platform, job, at.placement)
        self.running.append(Running(job, self.view.now, at.placement, room))
        self.own[job.row] = 0
        self.decision.starts.append(Start(job, at.placement, reason))
        self.order.remove(job)

    def start_beside(self, booked: dict[Job, Reservation]) -> None:
        """Whoever delays no head; all that they hold is lent to them."""
        profile = self.profile()
        for job, at in booked.items():
            profile.book(job, at)
        for job in list(self.order):
            if job not in booked and (placement := profile.place_now(job)):
                self.start(job, profile.book(job, Reservation(self.view.now, placement)), "backfill")
