"""Limits on minutes of cpus, as Slurm counts them each PriorityCalcPeriod, in plain words."""

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


@dataclass
class Ledger:
    """What is kept from pass to pass: seconds of cpus that each owner has used."""

    limits: Limits
    accounted: Time | None = None
    used: dict[str, float] = field(default_factory=dict)

    def account(self, view: View) -> bool:
        """Charge what has run; says whether a period is over."""
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
        length, qos = max((end - begin) // SECOND, 0), self.limits.qos[job.row]
        for owner in (qos, *self.limits.owners[job.row]):
            seconds = length if owner in self.limits.keeps else length * self.decay**length
            self.used[owner] = self.used.get(owner, 0.0) + seconds * job.procs * self.factor(job)

    def held(self, owner: str, running: list[Running]) -> int:
        """Minutes that running jobs may still use."""
        assert self.accounted is not None
        total = 0.0
        for run in running:
            if owner in (self.limits.qos[run.job.row], *self.limits.owners[run.job.row]):
                charged = max(self.accounted // SECOND - run.start // SECOND, 0)
                total += max(60 * minutes(run.job) - charged, 0) * run.job.procs * self.factor(run.job)
        return floor(total / 60)

    def lacks(self, job: Job, running: list[Running], now: bool = True) -> bool:
        """Some limit keeps a job from starting now, or even without what decays of its use."""
        of, qos = self.limits, self.limits.qos[job.row]
        each = minutes(job)
        asked = (floor(each * self.factor(job)) if qos in of.careful else each) * job.procs
        for owner in (qos, *of.owners[job.row]):
            counts = self.factor(job) != 0
            used = floor(self.used.get(owner, 0.0) / 60) if counts and (now or owner in of.keeps) else 0
            held = self.held(owner, running) if counts and now else 0
            group, most, one = (
                None if owner != qos and qos in limits else limits.get(owner)
                for limits in (of.group, of.running, of.job)
            )
            if group is not None and used >= group:
                return True
            if group is not None and of.safe and asked + held > group - used:
                return True
            if most is not None and asked + held > most:
                return True
            if one is not None and asked > one and owner in (qos, of.owners[job.row][0]):
                return True
        return False

    def timer(self, now: Time, waiting: list[Job], running: list[Running]) -> Time | None:
        """The end of this period, if that may let a waiting job start."""
        step = self.limits.period * SECOND
        if waiting and (running or any(self.lacks(job, []) and not self.lacks(job, [], False) for job in waiting)):
            return (now // step + 1) * step
        return None


def minutes(job: Job) -> int:
    """The time limit in whole minutes."""
    return -(-job.walltime // (60 * SECOND))
