"""The slow world: time passes, jobs are submitted and end, and the policy is asked. Plain and in full view."""

from collections import deque
from dataclasses import dataclass
from math import ceil
from typing import Any

from .balance import backfill_lowest, bb, best_fit, ibb
from .conservative import conservative
from .easy import ALL, easy
from .farm import Weights, bf_mod, bf_unmod
from .fcfs import fcfs
from .flexible import Weights as Priorities
from .flexible import flexible
from .orders import SCORES
from .placement import held, minus, place, whole
from .words import Decision, Job, Placement, Platform, Policy, Reservation, Running, Start, Time, View

POLICIES: dict[str, Policy] = {
    "fcfs": fcfs,
    "easy": easy(),
    **{f"easy-{order}": easy(order) for order in SCORES if order != "fcfs"},
    "easy-sjbf": easy(tried="sjf"),
    "first-fit": easy(reservations=0),
    "k-reservations": easy(reservations=4),
    "k-reservations:k=2": easy(reservations=2),
    "k-reservations:k=inf": easy(reservations=ALL),
    "k-reservations:k=3,order=lxf,tried=saf": easy("lxf", "saf", 3),
    "easy:order=saf,tried=ljf": easy("saf", "ljf"),
    "first-fit:order=sjf": easy("sjf", reservations=0),
    "conservative": conservative,
    "bf-fcfs": easy(),
    "bf-mod": bf_mod(),
    "bf-unmod": bf_unmod(),
    "bf-mod:age_factor=0,k=2,w_licences=3": bf_mod(Weights(age_factor="0", k="2", w_licences="3")),
    "bf-mod:w_aging=0,w_licences=0,w_wait=0": bf_mod(Weights(w_aging="0", w_licences="0", w_wait="0")),
    "bf-mod:w_aging=0,w_deadline=0,w_wait=0": bf_mod(Weights(w_aging="0", w_deadline="0", w_wait="0")),
    "flexible": flexible(),
    "flexible:w_admin=-2,w_wait=0,w_xf=3,w_bypass=1.5": flexible(
        Priorities(w_admin="-2", w_wait="0", w_xf="3", w_bypass="1.5")
    ),
    "flexible:w_user=10,w_wait=0,w_bypass=4": flexible(Priorities(w_user="10", w_wait="0", w_bypass="4")),
    "flexible:w_wait=30,w_procs=-1,w_walltime=-600": flexible(Priorities(w_wait="30", w_procs="-1", w_walltime="-600")),
    "bb": bb(),
    "bb:per_event=until_empty": bb("until_empty"),
    "backfill-lowest": backfill_lowest(),
    "ibb": ibb(),
    "ibb:test=balance": ibb("balance"),
    "ibb:refresh=false": ibb(refresh="false"),
    "best-fit": best_fit(),
    "best-fit:fit=tightest": best_fit("tightest"),
    "bf-unmod:w_deadline=0,boost=40": bf_unmod(Weights(w_deadline="0", boost="40")),
}


@dataclass
class Row:
    """What became of a job. One that never started was rejected: no room, or it comes after one without room."""

    name: str
    eligible: Time | None = None  # when nothing but resources held it back
    promise: Time | None = None  # the first start that the policy promised
    start: Time | None = None
    end: Time | None = None
    reason: str | None = None
    nodes: Placement = ()


def run(jobs: list[Job], platform: Platform, policy: Policy, ties: str = "batch", overrun: str = "kill") -> list[Row]:
    """One row per job, in file order.

    ties: `batch` - all ends at t, limits, timers, all submits, then one pass; `step` - a pass after each event.
    overrun: a job that reaches its walltime is killed, or with `extend` runs on; then its limit is an event.
    """
    if ties not in ("batch", "step") or overrun not in ("kill", "extend"):
        raise ValueError(f"ties is batch or step, overrun is kill or extend; not {ties} and {overrun}")
    if ties == "step" and overrun == "extend":
        raise ValueError("ties=step is for reproducing published schedules, where jobs are killed; not with extend")
    assert [job.row for job in jobs] == list(range(len(jobs)))
    world = World(jobs, platform, policy, overrun)
    work_through = world.batch if ties == "batch" else world.step
    while (now := world.next_instant()) is not None:
        work_through(now)
    return world.rows


class World:
    def __init__(self, jobs: list[Job], platform: Platform, policy: Policy, overrun: str):
        self.platform, self.policy, self.overrun = platform, policy, overrun
        self.first_submit = min((job.submit for job in jobs), default=0)
        hopeless: set[int] = set()
        while more := {job.row for job in jobs if self.can_never_run(job, hopeless)} - hopeless:
            hopeless |= more
        able = [job for job in jobs if job.row not in hopeless]
        self.asked = frozenset(k for job in able for k, amount in enumerate(job.demand) if amount)
        self.rows = [Row(job.name) for job in jobs]
        self.to_come = deque(sorted(jobs, key=lambda job: (job.submit, job.row)))
        self.held_back: list[Job] = []  # submitted; a job that they come after has not ended
        self.queue: list[Job] = []
        self.running: list[Running] = []  # in the order in which they started
        self.ends: dict[int, Time] = {}  # row -> when a running job will end
        self.gone: set[int] = set()  # rows that have ended
        self.rejected: set[int] = set()
        self.promises: dict[int, Reservation] = {}
        self.timers: set[Time] = set()
        self.memory: dict[str, Any] = {}  # the policy's own

    def next_instant(self) -> Time | None:
        submits = [self.to_come[0].submit] if self.to_come else []
        return min([*submits, *(self.ends[r.job.row] for r in self.running), *self.timers], default=None)

    def batch(self, now: Time) -> None:
        """All ends of this instant, limits and timers, all submits, then one pass.

        A job of zero run time that starts in this pass ends in a batch of its own at the same instant.
        """
        ending = [r for r in self.running if self.ends[r.job.row] == now]
        for r in ending:
            self.end(r)
        self.timers.discard(now)
        while self.to_come and self.to_come[0].submit == now:
            self.held_back.append(self.to_come.popleft())
        self.admit(now)
        self.decide(now, self.running, ended=bool(ending))

    def step(self, now: Time) -> None:
        """Each submit in file order with a pass, then each end in start order with a pass; or a timer with a pass."""
        self.timers.discard(now)
        something_happened = False
        while self.to_come and self.to_come[0].submit == now:
            self.held_back.append(self.to_come.popleft())
            self.admit(now)
            self.decide(now, self.not_counted_out(now), ended=False)
            something_happened = True
        while ending := [r for r in self.running if self.ends[r.job.row] == now]:
            self.end(ending[0])
            self.admit(now)
            self.decide(now, self.not_counted_out(now), ended=True)
            something_happened = True
        if not something_happened:
            self.decide(now, self.not_counted_out(now), ended=False)

    def not_counted_out(self, now: Time) -> list[Running]:
        """Without the jobs that end in this instant at their limit: in `step` they count as gone everywhere."""
        return [r for r in self.running if not (r.limit <= now and self.ends[r.job.row] == now)]

    def end(self, r: Running) -> None:
        self.running.remove(r)
        self.gone.add(r.job.row)

    def admit(self, now: Time) -> None:
        """Submitted jobs join the queue when all that they come after has ended; the impossible are rejected."""
        for job in list(self.held_back):
            if self.can_never_run(job, self.rejected):
                self.held_back.remove(job)
                self.rejected.add(job.row)
                return self.admit(now)  # others may come after it
            if self.gone.issuperset(job.after):
                self.held_back.remove(job)
                self.queue.append(job)
                self.rows[job.row].eligible = now
        self.queue.sort(key=lambda job: (job.submit, job.row))
        return None

    def can_never_run(self, job: Job, rejected: set[int]) -> bool:
        """The empty platform has no room for it, or a job that it comes after was rejected."""
        return place(self.platform, job, whole(self.platform)) is None or not rejected.isdisjoint(job.after)

    def decide(self, now: Time, running: list[Running], ended: bool) -> None:
        """One pass of the policy."""
        free = whole(self.platform)
        for r in running:
            free = minus(free, r.held)
        view = View(
            now=now,
            platform=self.platform,
            free=free,
            queue=list(self.queue),
            running=list(running),
            ended=ended,
            promises=self.promises,
            first_submit=self.first_submit,
            asked=self.asked,
            memory=self.memory,
        )
        self.obey(view, self.policy(view))

    def obey(self, view: View, decision: Decision) -> None:
        for row, promise in decision.promises.items():
            if self.rows[row].promise is None:
                self.rows[row].promise = promise.start
        free = view.free
        for start in decision.starts:
            free = minus(free, held(self.platform, start.job, start.placement))
            assert min(free) >= 0, f"job {start.job.name} does not fit at {view.now}"
            self.start(start, view.now)
        waiting = {job.row for job in self.queue}
        self.promises = {row: promise for row, promise in decision.promises.items() if row in waiting}
        self.timers |= {timer for timer in decision.timers if timer > view.now}

    def start(self, start: Start, now: Time) -> None:
        job, row = start.job, self.rows[start.job.row]
        assert sum(tasks for _, tasks in start.placement) == job.tasks
        self.queue.remove(job)
        slowest = min(self.platform.nodes[node].speed for node, _ in start.placement)
        runs = ceil(job.runtime / slowest)
        if self.overrun == "kill":
            runs = min(runs, job.walltime)
        row.start, row.end, row.reason, row.nodes = now, now + runs, start.reason, start.placement
        self.ends[job.row] = now + runs
        self.running.append(Running(job, now, start.placement, held(self.platform, job, start.placement)))
        if self.overrun == "extend" and job.estimate < runs:
            self.timers.add(now + job.estimate)  # its limit is an event
