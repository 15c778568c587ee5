"""Flexible backfilling: EASY over a queue sorted by three priorities, in exact fractions until the sum.

Source: docs/reference/policies.md, `flexible`.
"""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from backfill.model.units import SECOND

from .easy import one_reservation
from .orders import rounded
from .words import Decision, Job, Policy, View


@dataclass(frozen=True)
class Weights:
    w_admin: str = "1"
    w_user: str = "1"
    w_wait: str = "1"
    w_xf: str = "0"
    w_bypass: str = "0"
    w_procs: str = "0"
    w_walltime: str = "0"


def flexible(weights: Weights = Weights()) -> Policy:
    """Highest priority first."""
    w = {name: Fraction(value) for name, value in vars(weights).items()}

    def decide(view: View) -> Decision:
        bypassed: Counter[int] = view.memory.setdefault("bypassed", Counter())
        p = {job.row: priority(job, view.now, bypassed[job.row], w) for job in view.queue}
        decision = one_reservation(view, sorted(view.queue, key=lambda job: (-p[job.row], job.submit, job.row)), None)
        gone = {start.job.row for start in decision.starts}
        for start in decision.starts:
            if start.reason == "backfill":
                overtaken = (job for job in view.queue if job.row not in gone and before(job, start.job))
                bypassed.update(job.row for job in overtaken)
        return decision

    return decide


def before(job: Job, other: Job) -> bool:
    return (job.submit, job.row) < (other.submit, other.row)


def priority(job: Job, now: int, bypasses: int, w: dict[str, Fraction]) -> float:
    wait, walltime = Fraction(now - job.submit, SECOND), Fraction(job.estimate, SECOND)
    return rounded(
        w["w_admin"] * Fraction(job.admin_priority)
        + w["w_user"] * Fraction(job.priority)
        + w["w_wait"] * wait / 60
        + w["w_xf"] * (1 + wait / (walltime or Fraction(1, 10)))
        + w["w_bypass"] * bypasses
        + w["w_procs"] * job.procs
        + w["w_walltime"] * walltime / 3600
    )
