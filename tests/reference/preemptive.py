"""Preemptive backfilling: holes are filled without regard to the head, which takes its room back when that is enough.

Source: Jackson, Snell and Clement, JSSPP 2001 (Maui's PREEMPT); Snell, Clement and Jackson, JSSPP 2002.
A backfilled job that could delay the head is preemptible. When the head would fit without some of these, the fewest
leave, youngest first: by `requeue` they begin anew, by `checkpoint` they go on anywhere after an overhead, by `suspend`
they go on where they were, and give back all that they held, their memory too.
"""

from dataclasses import replace

from backfill.model.units import SECOND

from .placement import held
from .profile import Profile
from .words import Decision, Job, Placement, Policy, Preempted, Reservation, Running, Start, View


def preemptive(how: str = "requeue", overhead: str = "60") -> Policy:
    """A job leaves only for a head that was before it in the queue: what has overtaken nobody is left alone."""
    cost = round(float(overhead) * SECOND) if how == "checkpoint" else 0

    def decide(view: View) -> Decision:
        room = Pass(view, how, cost)
        while room.waiting and room.head is None:
            job = room.waiting.pop(0)
            if room.now().held_back(job):
                continue
            if placement := room.place_now(job) or room.make_way(job):
                room.start(job, placement, room.reason, preemptible=False)
            else:
                room.reason = "backfill"
                room.reserve(job)
        for job in room.waiting:
            if placement := room.place_beside(job):
                room.start(job, placement, "backfill", preemptible=False)
            elif placement := room.place_now(job):
                room.start(job, placement, "backfill", preemptible=True)
        return room.decision

    return decide


class Pass:
    """One pass: who runs, who waits, who has to leave, and what the head has reserved."""

    def __init__(self, view: View, how: str, overhead: int):
        self.view, self.how, self.overhead = view, how, overhead
        self.running, self.waiting = list(view.running), list(view.queue)
        self.paused = dict(view.paused)
        self.taken: set[int] = set()  # rows that leave in this pass, and do not start again in it
        self.started: set[int] = set()  # rows that do not leave in this pass
        self.head: Job | None = None
        self.reserved: Reservation | None = None
        self.reason = "head"
        self.decision = Decision()

    def now(self) -> Profile:
        """Return what is free from now on, by limits."""
        return Profile.of_running(self.view, self.running)

    def without_those_behind(self, head: Job) -> Profile:
        """Return what is free after all jobs that the head may preempt have left."""
        return Profile.of_running(self.view, [r for r in self.running if not (r.preemptible and behind(r.job, head))])

    def place_now(self, job: Job) -> Placement | None:
        return self.seat(job, self.now())

    def place_beside(self, job: Job) -> Placement | None:
        """Return where it can run now without a delay for the head."""
        later = self.without_those_behind(self.head)
        later.book(self.head, self.reserved)
        return self.seat(job, self.now().within(later))

    def seat(self, job: Job, profile: Profile) -> Placement | None:
        """Return where it may start now; a suspended job only where it was."""
        where = self.paused.get(job.row)
        if job.row in self.taken:
            return None
        if where is None:
            return profile.place_now(job)
        return where if profile.fits(job, Reservation(self.view.now, where)) else None

    def make_way(self, head: Job) -> Placement | None:
        """Take preemptible jobs off, youngest first, until the head fits; give back each that need not leave."""
        before, taken = list(self.running), []
        for r in sorted(before, key=lambda r: (r.start, r.job.submit, r.job.row), reverse=True):
            if r.preemptible and r.job.row not in self.started and behind(r.job, head) and not self.place_now(head):
                self.running.remove(r)
                taken.append(r)
        placement = self.place_now(head)
        if placement is None:
            self.running = before
            return None
        for r in list(reversed(taken)):  # the oldest first
            self.running.append(r)
            if self.place_now(head):
                taken.remove(r)
            else:
                self.running.remove(r)
        for r in taken:
            self.send_away(r)
        return self.place_now(head)

    def send_away(self, r: Running) -> None:
        """It waits again at its place, with what is left of its walltime."""
        job = r.job
        if self.how != "requeue":
            job = replace(job, estimate=max(job.estimate - (self.view.now - r.start) + self.overhead, 0))
            self.paused[job.row] = r.placement if self.how == "suspend" else None
        self.taken.add(job.row)
        self.waiting = sorted([*self.waiting, job], key=lambda job: (job.submit, job.row))
        self.decision.preempted.append(Preempted(job.row, self.how, self.overhead))

    def reserve(self, job: Job) -> None:
        """It is the head, with the earliest start after those behind it have left; not one that has no start."""
        profile, where = self.without_those_behind(job), self.paused.get(job.row)
        if where is None:
            found = profile.earliest(job, self.view.now)
        else:
            starts = [Reservation(t, where) for t in profile.times]
            found = next((at for at in starts if profile.fits(job, at)), None)
        if found is not None:
            self.head, self.reserved = job, found
            self.decision.promises[job.row] = found

    def start(self, job: Job, placement: Placement, reason: str, preemptible: bool) -> None:
        reason = "resumed" if job.row in self.paused else reason
        self.decision.starts.append(Start(job, placement, reason, preemptible))
        self.started.add(job.row)
        room = held(self.view.platform, job, placement)
        self.running.append(Running(job, self.view.now, placement, room, preemptible))


def behind(job: Job, other: Job) -> bool:
    return (job.submit, job.row) > (other.submit, other.row)
