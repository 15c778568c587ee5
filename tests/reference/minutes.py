"""Limits on minutes of cpus and on jobs that grow old, as Slurm counts them each PriorityCalcPeriod, in plain words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import floor

from backfill.model.units import SECOND

from .words import Job, Running, Time, View


@dataclass(frozen=True)
class Limits:
    """Who counts each job, and how many minutes of cpus they allow."""

    qos: Mapping[int, str]  # row of a job -> its QOS
    owners: Mapping[int, Sequence[str]]  # row of a job -> its association and those above it
    group: Mapping[str, int] = field(default_factory=dict)  # of an owner, GrpTRESMins
    running: Mapping[str, int] = field(default_factory=dict)  # GrpTRESRunMins
    job: Mapping[str, int] = field(default_factory=dict)  # MaxTRESMins
    factor: Mapping[str, float] = field(default_factory=dict)  # UsageFactor of a QOS
    keeps: frozenset[str] = frozenset()  # NoDecay
    careful: frozenset[str] = frozenset()  # UsageFactorSafe
    safe: bool = False
    half_life: int = 7 * 86_400  # s
    period: int = 300
    of_partition: Mapping[int, str] = field(default_factory=dict)  # row of a job -> the QOS of its partition
    over: frozenset[str] = frozenset()  # OverPartQOS
    resets: Sequence[int] = ()  # s, when all use is forgotten
    age: tuple[float, int] = (0.0, 1)  # weight and the age in s at which it is reached
    old: Mapping[tuple[str, ...], int] = field(default_factory=dict)  # a count of jobs that grow old -> how many may
    counts: Mapping[int, Sequence[tuple[str, ...]]] = field(
        default_factory=dict
    )  # row -> its counts; the first decides

    def of_qos(self, job: Job) -> list[str]:
        """The QOS that count a job: first the one that goes before the other."""
        mine, there = self.qos[job.row], self.of_partition.get(job.row)
        found = [mine] if there in (None, mine) else [there, mine]
        return [name for name in (found[::-1] if mine in self.over else found) if name is not None]

    def of(self, job: Job) -> list[str]:
        """All that count its minutes, in the order in which they are asked."""
        return [*self.of_qos(job), *self.owners[job.row]]


@dataclass
class Ledger:
    """What is kept from pass to pass: seconds of cpus that each owner has used."""

    limits: Limits
    accounted: Time | None = None
    now: Time = 0
    used: dict[str, float] = field(default_factory=dict)
    old_since: dict[int, Time] = field(default_factory=dict)  # row of a waiting job that grows old -> since when
    points: dict[int, float] = field(default_factory=dict)  # of age, row of a waiting job

    def grow_old(self, waiting: Sequence[Job], since: Mapping[int, Time], now: Time, anew: bool) -> None:
        """Let jobs grow old as far as they may, and give new jobs their points of age, or all of them."""
        of, rows = self.limits, sorted({job.row for job in waiting})
        self.old_since = {row: t for row, t in self.old_since.items() if row in rows}
        self.points = {row: points for row, points in self.points.items() if row in rows}
        count = Counter(scope for row in self.old_since for scope in of.counts.get(row, ()))
        for row in rows:
            if (
                (scopes := of.counts.get(row, ()))
                and row not in self.old_since
                and count[scopes[0]] < of.old[scopes[0]]
            ):
                self.old_since[row] = now
                count.update(scopes)
        for row in rows:
            if anew or row not in self.points:
                begin = self.old_since.get(row) if of.counts.get(row) else since.get(row, now)
                aged = 0 if begin is None else now // SECOND - begin // SECOND
                self.points[row] = min(max(aged / of.age[1], 0.0), 1.0) * of.age[0]

    def account(self, view: View) -> bool:
        """Charge what has run; says whether a period is over."""
        self.now = view.now
        now, step, anew = view.now, self.limits.period * SECOND, False
        if self.accounted is None:
            self.accounted = -(-(now - step + 1) // step) * step
        over = [(run.job, run.start) for run in view.over]
        running = [(run.job, run.start) for run in view.running]
        while self.accounted + step < now or (self.accounted + step == now and not over):
            self.end_period([*running, *over])
            anew = True
        for job, start in over:
            self.charge(job, max(start, self.accounted), now)
        if self.accounted + step == now:
            self.end_period(running)
            anew = True
        return anew

    def end_period(self, running: list[tuple[Job, Time]]) -> None:
        assert self.accounted is not None
        end, keeps = self.accounted + self.limits.period * SECOND, self.limits.keeps
        decay = self.decay**self.limits.period
        if any(self.accounted < reset * SECOND <= end for reset in self.limits.resets):
            self.used = {}
        self.used = {owner: used * (1 if owner in keeps else decay) for owner, used in self.used.items()}
        for job, start in running:
            self.charge(job, max(start, self.accounted), end)
        self.accounted = end

    @property
    def decay(self) -> float:
        return 1 - 0.693 / self.limits.half_life

    def factor(self, job: Job) -> float:
        return self.limits.factor.get(self.limits.qos[job.row], 1.0)

    def charge(self, job: Job, begin: Time, end: Time) -> None:
        length = max((end - begin) // SECOND, 0)
        for owner in self.limits.of(job):
            seconds = length if owner in self.limits.keeps else length * self.decay**length
            self.used[owner] = self.used.get(owner, 0.0) + seconds * job.procs * self.factor(job)

    def held(self, owner: str, running: list[Running]) -> int:
        """Minutes that running jobs may still use."""
        assert self.accounted is not None
        total = 0.0
        for run in running:
            if owner in self.limits.of(run.job):
                charged = max(self.accounted // SECOND - run.start // SECOND, 0)
                total += max(60 * minutes(run.job) - charged, 0) * run.job.procs * self.factor(run.job)
        return floor(total / 60)

    def lacks(self, job: Job, running: list[Running], now: bool = True) -> bool:
        """Some limit keeps a job from starting now, or even without what decays of its use."""
        of, before = self.limits, list[str]()
        each = minutes(job)
        asked = (floor(each * self.factor(job)) if of.qos[job.row] in of.careful else each) * job.procs
        for owner in of.of(job):
            counts, stays = self.factor(job) != 0, owner in of.keeps and not any(self.is_ahead(t) for t in of.resets)
            used = floor(self.used.get(owner, 0.0) / 60) if counts and (now or stays) else 0
            held = self.held(owner, running) if counts and now else 0
            group, most, one = (
                None if any(qos in limits for qos in before) else limits.get(owner)
                for limits in (of.group, of.running, of.job)
            )
            before += [owner] if owner in of.of_qos(job) else []
            if group is not None and used >= group:
                return True
            if group is not None and of.safe and asked + held > group - used:
                return True
            if most is not None and asked + held > most:
                return True
            if one is not None and asked > one and owner in (*of.of_qos(job), of.owners[job.row][0]):
                return True
        return False

    def is_ahead(self, reset: int) -> bool:
        return reset * SECOND > self.now

    def timer(self, now: Time, waiting: list[Job], running: list[Running]) -> Time | None:
        """The end of this period, if that may let a waiting job start."""
        step = self.limits.period * SECOND
        if waiting and (running or any(self.lacks(job, []) and not self.lacks(job, [], False) for job in waiting)):
            return (now // step + 1) * step
        return None


def minutes(job: Job) -> int:
    """The time limit in whole minutes."""
    return -(-job.walltime // (60 * SECOND))
