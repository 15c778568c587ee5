"""Time sharing: jobs in line run for a quantum each, and who has used its quantum makes way for the first in line."""

from backfill.model.units import SECOND

from .profile import Profile
from .words import Decision, Policy, Preempted, Reservation, Running, Start, View


def round_robin(quantum: float = 60, overhead: float = 0) -> Policy:
    """In seconds. A job that was preempted goes on anywhere, and takes longer by the overhead."""

    def decide(view: View) -> Decision:
        return Pass(view, round(quantum * SECOND), round(overhead * SECOND)).decide()

    return decide


class Pass:
    def __init__(self, view: View, quantum: int, overhead: int):
        self.view, self.quantum, self.overhead = view, quantum, overhead
        self.waiting, self.running = {job.row: job for job in view.queue}, list(view.running)
        self.line: list[int] = view.memory.setdefault("line", [])
        self.turns: list[int] = view.memory.setdefault("turns", [])  # who runs, in order of starts
        self.decision = Decision()

    def decide(self) -> Decision:
        self.line[:] = [row for row in self.line if row in self.waiting]
        self.turns[:] = [row for row in self.turns if row in self.view.unfinished and row not in self.waiting]
        self.line += [job.row for job in self.view.queue if job.row not in self.line]
        while self.someone_waits_for_room() and (oldest := self.oldest()) is not None:
            self.preempt(oldest)
        if self.line and self.turns:
            self.decision.timers.add(self.next_quantum())
        return self.decision

    def someone_waits_for_room(self) -> bool:
        """Start the first in line, one after the other, until one has no room, or was preempted in this pass."""
        for row in list(self.line):
            if row in [each.row for each in self.decision.preempted]:
                return False
            job, profile = self.waiting[row], self.profile()
            if profile.held_back(job):
                continue
            placement = profile.place_now(job)
            if placement is None:
                return True
            self.line.remove(row)
            self.turns.append(row)
            reason = "resumed" if row in self.view.paused else "thread"
            self.decision.starts.append(Start(job, placement, reason, preemptible=True))
        return False

    def profile(self) -> Profile:
        profile = Profile.of_running(self.view, self.running)
        for start in self.decision.starts:
            profile.book(start.job, Reservation(self.view.now, start.placement))
        return profile

    def began(self, row: int) -> int:
        return next((r.start for r in self.view.running if r.job.row == row), self.view.now)

    def oldest(self) -> Running | None:
        """Return the job that has run longest, if its quantum is over."""
        turns = [r for row in self.turns for r in self.running if r.job.row == row]
        return next((r for r in turns if r.start + self.quantum <= self.view.now), None)

    def preempt(self, r: Running) -> None:
        self.running.remove(r)
        self.turns.remove(r.job.row)
        self.line.append(r.job.row)
        self.decision.preempted.append(Preempted(r.job.row, "checkpoint", self.overhead))

    def next_quantum(self) -> int:
        ends = [self.began(row) + self.quantum for row in self.turns]
        return next((end for end in ends if end > self.view.now), self.view.now + self.quantum)
