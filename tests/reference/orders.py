"""Orders of the queue: a score per job, lowest first, ties by (submit, file order).

Sources: Carastan-Santos and de Camargo, SC'17 (F1..F4); Zhang et al., RLScheduler, SC'20 (WFP3, UNICEF);
Chiang et al., JSSPP 2002 (expansion factor).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from backfill.model.units import SECOND

from .words import Job, View


@dataclass(frozen=True)
class Facts:
    """What the formulas are made of."""

    r: Fraction  # requested time in seconds; 0 counts as 0.1
    n: int  # processors of the whole job
    s: Fraction  # seconds from the first submit of the log to this one, at least 1
    wait: Fraction  # seconds
    priority: float


SCORES: dict[str, Callable[[Facts], Fraction | float]] = {
    "fcfs": lambda j: 0,
    "priority": lambda j: -j.priority,
    "sjf": lambda j: j.r,
    "ljf": lambda j: -j.r,
    "saf": lambda j: j.r * j.n,
    "laf": lambda j: -j.r * j.n,
    "lxf": lambda j: -(j.wait + j.r) / j.r,
    "wfp3": lambda j: rounded(-((j.wait / j.r) ** 3) * j.n),
    "unicef": lambda j: rounded(-j.wait / (math.log2(max(j.n, 2)) * j.r)),
    "f1": lambda j: rounded(math.log10(j.r) * j.n + 8.70e2 * math.log10(j.s)),
    "f2": lambda j: rounded(math.sqrt(j.r) * j.n + 2.56e4 * math.log10(j.s)),
    "f3": lambda j: rounded(j.r * j.n + 6.86e6 * math.log10(j.s)),
    "f4": lambda j: rounded(j.r * math.sqrt(j.n) + 5.30e5 * math.log10(j.s)),
}


def ranked(jobs: list[Job], order: str, view: View) -> list[Job]:
    """These jobs by (score, submit, file order)."""
    return sorted(jobs, key=lambda job: (score(job, order, view), job.submit, job.row))


def score(job: Job, order: str, view: View) -> Fraction | float:
    facts = Facts(
        r=Fraction(job.estimate, SECOND) if job.estimate > 0 else Fraction(1, 10),
        n=job.procs,
        s=max(Fraction(1), Fraction(job.submit - view.first_submit, SECOND)),
        wait=Fraction(view.now - job.submit, SECOND),
        priority=job.priority,
    )
    return SCORES[order](facts)


def rounded(x: Fraction | float) -> float:
    """To 1e-9 relative: machines differ in the last bit of a logarithm, and a tie must be one everywhere."""
    x = float(x)
    mantissa, exponent = math.frexp(abs(x))
    return math.copysign(math.ldexp(round(mantissa * 2**30) / 2**30, exponent), x)
