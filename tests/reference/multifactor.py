"""A site's priorities as Slurm computes them every PriorityCalcPeriod, in plain words: usage, ranks, sums of factors.

Every period is gone through second by second of each run, in floats as slurmctld has them. Source: section 2 of the
specification, which is priority_multifactor.c of Slurm 22.05.8.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

from backfill.model.units import SECOND

from .fairtree import Node, fair_tree
from .words import Decision, Job, Time, View


@dataclass(frozen=True)
class Site:
    """Users with their shares, one account above each; weights of the factors; times in seconds."""

    accounts: Sequence[int]  # shares
    users: Sequence[tuple[int, int]]  # (number of the account, shares)
    age: int = 0
    fair: int = 0
    longest_age: int = 7 * 86_400
    half_life: int = 7 * 86_400
    period: int = 300


@dataclass
class Ledger:
    """What is kept from pass to pass."""

    accounted: Time | None = None
    usage: dict[int, float] = field(default_factory=dict)  # of each user
    factor: dict[int, float] = field(default_factory=dict)
    since: dict[int, Time] = field(default_factory=dict)
    points: dict[int, int] = field(default_factory=dict)  # row of a waiting job -> priority


class Multifactor:
    """Ranks the queue; `who` gives the number of the user of a job."""

    def __init__(self, site: Site, who):  # type: ignore[no-untyped-def]
        self.site, self.who, self.ledger = site, who, Ledger()

    def rank(self, view: View) -> list[Job]:
        """The queue by priority, highest first, then by submit."""
        site, ledger, now = self.site, self.ledger, view.now
        step = site.period * SECOND
        if ledger.accounted is None:
            ledger.accounted = -(-(now - step + 1) // step) * step
            self.set_factors()
        over = [(run.job, run.start, now) for run in view.over]
        anew = False
        while ledger.accounted + step < now or (ledger.accounted + step == now and not over):
            running = [(run.job, run.start) for run in view.running] + [(job, start) for job, start, _ in over]
            self.end_period(running)
            anew = True
        for job, start, end in over:
            self.charge(job, max(start, ledger.accounted), end)
        if ledger.accounted + step == now:
            self.end_period([(run.job, run.start) for run in view.running])
            anew = True
        if anew:
            self.set_factors()
        for job in view.queue:
            if job.row not in ledger.since:
                ledger.since[job.row] = now
                ledger.points[job.row] = self.points(job, now)
            elif anew:
                ledger.points[job.row] = self.points(job, now)
        return sorted(view.queue, key=lambda job: (-ledger.points[job.row], job.submit, job.row))

    def with_timers(self, view: View, decision: Decision) -> Decision:
        """Ask for a pass at the end of this period, if the order may change then."""
        started = len(decision.starts)
        step = self.site.period * SECOND
        if len(view.queue) - started > 1 and len(view.running) + started > 0:
            decision.timers.add((view.now // step + 1) * step)
        return decision

    @property
    def decay(self) -> float:
        return 1 - 0.693 / self.site.half_life

    def charge(self, job: Job, begin: Time, end: Time) -> None:
        length = max((end - begin) // SECOND, 0)
        user = self.who(job)
        self.ledger.usage[user] = self.ledger.usage.get(user, 0.0) + length * self.decay**length * job.procs

    def end_period(self, running: list[tuple[Job, Time]]) -> None:
        ledger = self.ledger
        assert ledger.accounted is not None
        end = ledger.accounted + self.site.period * SECOND
        ledger.usage = {user: used * self.decay**self.site.period for user, used in ledger.usage.items()}
        for job, start in running:
            self.charge(job, max(start, ledger.accounted), end)
        ledger.accounted = end

    def set_factors(self) -> None:
        site, usage = self.site, self.ledger.usage
        of_account = [sum(usage.get(u, 0.0) for u, (a, _) in enumerate(site.users) if a == i)
                      for i in range(len(site.accounts))]  # fmt: skip
        tree = [Node(-1, False, 1, Fraction(sum(of_account)))]
        tree += [Node(0, False, shares, Fraction(used)) for shares, used in zip(site.accounts, of_account, strict=True)]
        tree += [Node(1 + account, True, shares, Fraction(usage.get(u, 0.0)))
                 for u, (account, shares) in enumerate(site.users)]  # fmt: skip
        first = 1 + len(site.accounts)
        self.ledger.factor = {i - first: float(rank) for i, rank in fair_tree(tree).items()}

    def points(self, job: Job, now: Time) -> int:
        site, waited = self.site, now // SECOND - self.ledger.since[job.row] // SECOND
        age = min(waited / site.longest_age, 1.0) * site.age
        return floor(max(1.0, age + self.ledger.factor[self.who(job)] * site.fair))
