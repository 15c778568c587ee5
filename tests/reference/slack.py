"""Slack-based backfilling: every job is promised a start that may be moved later, within a slack of its own.

The moves are those of two-tier scheduling, with any number of jobs, each of which stands for itself.
Source: Talby and Feitelson, IPPS 1999.
"""

from math import inf

from .twotier import Pass, Rules, copy_of
from .words import Job, Policy, Reservation, Time, View


def slack(sf: float = 3, base: str = "average_wait", best: float = 1, compress: bool = True) -> Policy:
    return lambda view: SlackPass(view, sf, base, best, compress).decide()


class SlackPass(Pass):
    def __init__(self, view: View, sf: float, base: str, best: float, compress: bool):
        super().__init__(view, Rules(True, sf, inf, "any", "from_now", compress, None))
        self.base, self.best = base, best
        self.waits: list[Time] = view.memory.setdefault("waits", [])

    def whose(self, job: Job) -> str:
        return f"the job of row {job.row} alone"

    def start_due(self, moved_up: set[int]) -> None:
        before = len(self.starts)
        super().start_due(moved_up)
        self.waits += [self.view.now - start.job.submit for start in self.starts[before:]]

    def promise(self, project: str, jobs: list[Job]) -> None:
        for job in jobs:
            if found := self.cheapest(job):
                self.promises[job.row] = self.given[job.row] = found
                self.latest[job.row] = found.start + self.slack_of(job, found)

    def cheapest(self, job: Job) -> Reservation | None:
        """Of the first gaps in which the job has its place when others have moved; it and they are booked."""
        found = []
        for at in self.gaps(job):
            before = copy_of(self.profile), dict(self.promises)
            moved = self.check(job, self.profile.book(job, at), {})
            if moved is not None:
                cost = price(job, at.start - self.view.now)
                for other in moved:
                    cost += price(other, self.promises[other.row].start - before[1][other.row].start)
                found.append((cost, at, self.profile, self.promises))
            self.profile, self.promises = before
            if moved == [] or len(found) == self.best:
                break
        if not found:
            return None
        _, at, self.profile, self.promises = min(found, key=lambda each: (each[0], each[1].start))
        return at

    def slack_of(self, job: Job, promise: Reservation) -> Time:
        if self.base == "average_wait":
            base = sum(self.waits) / max(len(self.waits), 1)
        elif self.base == "walltime":
            base = job.estimate
        else:
            base = promise.start + job.estimate - job.submit
        return round((1 - max(min(job.priority, 1), 0)) * self.rules.sf * base)


def price(job: Job, delay: Time) -> float:
    return float(delay) * float(job.procs) * float(job.estimate)
