"""Flexible backfilling: EASY over a queue sorted by three priorities, in exact fractions until the sum.

Source: docs/reference/policies.md, `flexible`.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from backfill.model.units import SECOND

from .balance import Beside, amounts
from .easy import one_reservation
from .lookahead import start_combinations
from .orders import rounded
from .words import Decision, Job, Policy, View


@dataclass(frozen=True)
class Weights:
    w_admin: str = "1"
    w_user: str = "1"
    w_wait: str = "1"
    w_xf: str = "0"
    w_bypass: str = "0"
    w_target_wait: str = "0"
    target_wait: str = "60"
    w_target_xf: str = "0"
    target_xf: str = "10"
    w_procs: str = "0"
    w_pe: str = "0"
    w_walltime: str = "0"
    cred: str = "1"
    serv: str = "1"
    target: str = "1"
    res: str = "1"


More = Callable[[View], Callable[[Job], Fraction]]  # what a pass adds to the priority of each job


def flexible(
    weights: Weights = Weights(), backfill: str = "first-fit", depth: float = 50, more: More | None = None
) -> Policy:
    """Highest priority first."""
    w = {name: Fraction(value) for name, value in vars(weights).items()}

    def decide(view: View) -> Decision:
        bypassed: Counter[int] = view.memory.setdefault("bypassed", Counter())
        added = more(view) if more else lambda job: Fraction(0)
        p = {job.row: rounded(priority(job, view, bypassed[job.row], w) + added(job)) for job in view.queue}
        in_order = sorted(view.queue, key=lambda job: (-p[job.row], job.submit, job.row))
        decision = filled(view, in_order, backfill, depth)
        gone = {start.job.row for start in decision.starts}
        for start in decision.starts:
            if start.reason == "backfill":
                overtaken = (job for job in view.queue if job.row not in gone and before(job, start.job))
                bypassed.update(job.row for job in overtaken)
        return decision

    return decide


def filled(view: View, in_order: list[Job], backfill: str, depth: float) -> Decision:
    """EASY with another choice of the jobs beside the head."""
    if backfill == "first-fit":
        return one_reservation(view, in_order, None)
    room = Beside.of(view, in_order)
    if backfill == "greedy":
        start_combinations(room, depth)
    while room.head is not None and (fitting := [job for job in room.waiting if room.fits(job)]):
        room.start(max(fitting, key=lambda job: (job.procs, job.estimate)))
    return room.decision


def before(job: Job, other: Job) -> bool:
    return (job.submit, job.row) < (other.submit, other.row)


def priority(job: Job, view: View, bypasses: int, w: dict[str, Fraction]) -> Fraction:
    wait, walltime = Fraction(view.now - job.submit, SECOND), Fraction(job.estimate, SECOND)
    xf = 1 + wait / (walltime or Fraction(1, 10))
    cred = w["w_admin"] * Fraction(job.admin_priority) + w["w_user"] * Fraction(job.priority)
    serv = w["w_wait"] * wait / 60 + w["w_xf"] * xf + w["w_bypass"] * bypasses
    until_wait = w["w_target_wait"] * urgency(wait / 60 / w["target_wait"])
    target = until_wait + w["w_target_xf"] * urgency(xf / w["target_xf"])
    res = w["w_procs"] * job.procs + w["w_pe"] * equivalents(job, view) + w["w_walltime"] * walltime / 3600
    return w["cred"] * cred + w["serv"] * serv + w["target"] * target + w["res"] * res


def urgency(share: Fraction) -> Fraction:
    return share / max(1 - share, Fraction(1, 100)) ** 2


def equivalents(job: Job, view: View) -> Fraction:
    """The largest share of any resource, in processors."""
    whole = amounts(view, view.capacity[0][1])
    shares = [Fraction(job.tasks * job.demand[i], whole[i]) for i in view.asked if whole[i]]
    return max(shares, default=Fraction(0)) * (whole[0] if 0 in view.asked else 0)
