"""Claims about several cases, each of which has bounds of its own: over all seeds, and over as few as the paper has."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from backfill.analysis.interval import Estimate
from backfill.papers.claims import Claim

SHOWN = 10  # cases in a note


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

    Its note has all cases, or of many the first and the last. Beside each stands what the first seeds alone give.
    """
    worst = min(cases, key=lambda case: case.margin)
    scale = 100 if share else 1
    low, high = (scale * worst.found.low, scale * worst.found.high) if worst.found.bounded else (None, None)
    measured = f"{_short(worst.found, share)}, {worst.where}"
    if worst.few.count < worst.found.count:
        measured += f"; the first {worst.few.count} seeds: {_mean(worst.few, share)}"
    return Claim(name, claim, expected, measured, worst.margin > 0, low, high, _note(cases, share))


def _note(cases: Sequence[Case], share: bool) -> str:
    if len(cases) == 1:
        return ""
    shown = cases if len(cases) <= SHOWN else (cases[0], cases[-1])
    few = {case.few.count for case in shown if case.few.count < case.found.count}
    shown_cases = "; ".join(
        f"{case.where}: {_short(case.found, share)}" + (f" ({_mean(case.few, share)})" if few else "") for case in shown
    )
    return shown_cases + "".join(f"; in brackets the first {count} seeds" for count in few)


def _short(estimate: Estimate, share: bool) -> str:
    if not estimate.bounded:
        return _mean(estimate, share)
    low, high = (f"{_percent(x):.3g}" if share else f"{x:,.0f}" for x in (estimate.low, estimate.high))
    return f"{_mean(estimate, share)} [{low}, {high}]"


def _mean(estimate: Estimate, share: bool) -> str:
    return f"{_percent(estimate.mean):+.3g}%" if share else f"{estimate.mean:,.0f} s"


def _percent(share: float) -> float:
    return round(100 * share, 2)
