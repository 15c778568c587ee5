"""Claims about several cases, each of which has bounds of its own: over all seeds, and over as few as the paper has."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from backfill.papers.claims import Claim, Estimate


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured somewhere, and the bounds between which its interval must lie."""

    where: str
    found: Estimate
    few: Estimate  # of as many seeds as the paper has
    least: float = -math.inf
    most: float = math.inf

    @property
    def margin(self) -> float:
        """How far the interval is from the nearer bound; below 0 it reaches beyond."""
        return min(self.found.low - self.least, self.most - self.found.high)


def judged(name: str, claim: str, expected: str, cases: Sequence[Case], share: bool = True) -> Claim:
    """A claim that holds where every interval lies within its bounds; shares are told in percent.

    All cases are told in its note, with the first seeds alone, as many as the paper has.
    """
    worst = min(cases, key=lambda case: case.margin)
    scale = 100 if share else 1
    low, high = (scale * worst.found.low, scale * worst.found.high) if worst.found.bounded else (None, None)
    told = "; ".join(f"{case.where}: {_short(case.found, share)} ({_mean(case.few, share)})" for case in cases)
    measured = f"{_short(worst.found, share)}, {worst.where}; the first {worst.few.count} seeds: "
    measured += _mean(worst.few, share)
    note = f"{told}; in brackets the first {worst.few.count} seeds" if len(cases) > 1 else ""
    return Claim(name, claim, expected, measured, worst.margin > 0, low, high, note)


def _short(found: Estimate, share: bool) -> str:
    if not found.bounded:
        return _mean(found, share)
    low, high = (f"{100 * x:.1f}" if share else f"{x:,.0f}" for x in (found.low, found.high))
    return f"{_mean(found, share)} [{low}, {high}]"


def _mean(found: Estimate, share: bool) -> str:
    return f"{100 * found.mean:+.1f}%" if share else f"{found.mean:,.0f} s"
