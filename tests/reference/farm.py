"""The schedulers of the computational farm: EASY around the job of the highest priority P.

Source: Baraglia et al., CoreGRID 2007, sections 4 (heuristics), 5 (BF_UNMOD) and 6 (BF_MOD). Exact fractions until the
sum, which is rounded so that ties are ties on every machine.
"""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

from backfill.model.units import NEVER, SECOND

from .easy import one_reservation
from .orders import rounded
from .placement import licence_slot
from .words import Decision, Job, Policy, View


@dataclass(frozen=True)
class Weights:
    age_factor: str = "0.01"
    k: str = "1.3"
    low: str = "0.1"
    high: str = "10"
    boost: str = "2"
    w_aging: str = "1"
    w_deadline: str = "1"
    w_licences: str = "1"
    w_wait: str = "1"


def bf_mod(weights: Weights = Weights()) -> Policy:
    """Nothing is pinned: the reservation goes to whoever has the highest priority now."""

    def decide(view: View) -> Decision:
        p = priorities(view, weights)
        return one_reservation(view, sorted(view.queue, key=lambda job: (-p[job.row], job.submit, job.row)), None)

    return decide


def bf_unmod(weights: Weights = Weights()) -> Policy:
    """The job that held the reservation in the last pass and still waits goes first."""

    def decide(view: View) -> Decision:
        p = priorities(view, weights)
        rest = sorted(view.queue, key=lambda job: (-p[job.row], job.submit, job.row))
        pinned = [job for job in rest if job.row in view.promises]
        return one_reservation(view, pinned + [job for job in rest if job not in pinned], None)

    return decide


def priorities(view: View, weights: Weights) -> dict[int, float]:
    """P of every waiting job, by row."""
    w = {name: Fraction(value) for name, value in vars(weights).items()}
    real = range(len(view.platform.copies) - view.platform.accounts)
    total = [view.capacity[0][1][licence_slot(view.platform, x)] for x in real]
    asked = Counter(x for job in view.queue for x in job.licences if x < len(total))
    rho = {licence: Fraction(count, max(total[licence], 1)) for licence, count in asked.items()}  # 0 for the time being
    d = max(sum(ratio <= 1 for ratio in rho.values()), 1)
    least = min((seconds(job.estimate) for job in view.queue), default=Fraction(0))
    return {
        job.row: rounded(
            w["w_aging"] * w["age_factor"] * seconds(view.now - job.submit)
            + w["w_deadline"] * deadline(job, view.now, w["k"], w["low"], w["high"])
            + w["w_licences"] * licences(job, rho, d)
            + w["w_wait"] * w["boost"] * (1 if job.estimate == 0 else least / seconds(job.estimate))
        )
        for job in view.queue
    }


def deadline(job: Job, now: int, k: Fraction, low: Fraction, high: Fraction) -> Fraction:
    """The deadline term, as the paper writes it."""
    if job.deadline == NEVER:
        return low
    ex, dline = seconds(job.estimate), seconds(job.deadline)
    te = seconds(now) + ex
    over = k * ex
    ts = dline - over
    if te > dline:
        return Fraction(0)
    if te < ts:
        return low
    if over == 0:
        return high
    return low + (high - low) / over * (te - ts)


def licences(job: Job, rho: dict[int, Fraction], d: int) -> Fraction:
    """The licence term: a licence counts once, however many copies of it the job asks for."""
    mine = [rho[licence] for licence in set(job.licences) & {*rho}]
    return sum((r for r in mine if r <= 1), Fraction(0)) + d * sum((r for r in mine if r > 1), Fraction(0))


def seconds(time: int) -> Fraction:
    return Fraction(time, SECOND)
