"""Claims about several cases, each with its own bounds: over all seeds, and over the paper's number of seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from backfill.analysis.interval import Estimate
from backfill.papers.claims import Claim, verdict_of, within

SHOWN = 10  # cases in a note


@dataclass(frozen=True, slots=True)
class Case:
    """A measured value, and the bounds between which its interval must lie."""

    where: str
    found: Estimate
    few: Estimate | None = None  # over the paper's number of seeds
    least: float = -math.inf
    most: float = math.inf

    @property
    def fits(self) -> bool | None:
        """Return whether the interval lies within the bounds; None if it crosses one."""
        return within(self.found, self.least, self.most)

    @property
    def margin(self) -> float:
        """The distance of the interval from the nearer bound; negative if it crosses it."""
        return min(self.found.low - self.least, self.most - self.found.high)

    @property
    def beyond(self) -> float:
        """The distance of the whole interval beyond a bound; negative if part of it lies within."""
        return max(self.least - self.found.high, self.found.low - self.most)


def judged(name: str, claim: str, expected: str, cases: Sequence[Case], share: bool = True) -> Claim:
    """Return a claim that holds if every interval lies within its bounds; shares are shown in percent.

    Its note lists all cases, or the first and the last of many, each with the value of the first seeds alone.
    """
    against = [case for case in cases if case.fits is False]
    worst = max(against, key=lambda case: case.beyond) if against else min(cases, key=lambda case: case.margin)
    scale = 100 if share else 1
    low, high = (scale * worst.found.low, scale * worst.found.high) if worst.found.bounded else (None, None)
    measured = f"{_short(worst.found, share)}, {worst.where}"
    if (few := _fewer(worst)) is not None:
        measured += f"; the first {few.count} seeds: {_mean(few, share)}"
    return Claim(name, claim, expected, measured, verdict_of(case.fits for case in cases), low, high,
                 _note(cases, share))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Size:
    """A measured value, and the number that the paper prints for it, a mean over `seeds`."""

    where: str
    found: Estimate
    printed: float
    seeds: int

    @property
    def further(self) -> Estimate:
        """The prediction interval of a mean over the paper's number of seeds."""
        return self.found.of_further(self.seeds)

    @property
    def fits(self) -> bool | None:
        """Return whether the printed number may be such a mean; None if our interval includes 0 or is missing."""
        if not self.found.bounded:
            return None
        if not self.further.low <= self.printed <= self.further.high:
            return False
        return None if self.found.low <= 0 <= self.found.high else True

    def __str__(self) -> str:
        low, high = (f"{_percent(x):.3g}" for x in (self.further.low, self.further.high))
        reach = f", {self.seeds} seeds give {low} to {high}" if self.found.bounded else ""
        return f"{_short(self.found, True)} {self.where}{reach}, the paper {_percent(self.printed):+.3g}%"


def sizes(name: str, claim: str, cases: Sequence[Size]) -> Claim:
    """Return a claim on printed numbers: it holds if each may be a mean over the paper's number of seeds."""
    worst = max(cases, key=lambda case: abs(case.found.mean - case.printed) / max(_reach(case.further), 1e-12))
    low, high = (100 * worst.found.low, 100 * worst.found.high) if worst.found.bounded else (None, None)
    expected = f"each printed number where the mean of {cases[0].seeds} seeds lies with 95%, and ours not 0"
    others = "; ".join(str(case) for case in cases if case is not worst)
    return Claim(name, claim, expected, str(worst), verdict_of(case.fits for case in cases), low, high, others)


def _reach(estimate: Estimate) -> float:
    return (estimate.high - estimate.low) / 2


def _fewer(case: Case) -> Estimate | None:
    """Return the estimate from the paper's number of seeds, if we have more."""
    return case.few if case.few is not None and case.few.count < case.found.count else None


def _note(cases: Sequence[Case], share: bool) -> str:
    if len(cases) == 1:
        return ""
    shown = cases if len(cases) <= SHOWN else (cases[0], cases[-1])
    counts = {few.count for case in shown if (few := _fewer(case)) is not None}
    shown_cases = "; ".join(
        f"{case.where}: {_short(case.found, share)}"
        + (f" ({_mean(few, share)})" if (few := _fewer(case)) is not None else "")
        for case in shown
    )
    return shown_cases + "".join(f"; in brackets the first {count} seeds" for count in counts)


def _short(estimate: Estimate, share: bool) -> str:
    if not estimate.bounded:
        return _mean(estimate, share)
    low, high = (f"{_percent(x):.3g}" if share else f"{x:,.0f}" for x in (estimate.low, estimate.high))
    return f"{_mean(estimate, share)} [{low}, {high}]"


def _mean(estimate: Estimate, share: bool) -> str:
    return f"{_percent(estimate.mean):+.3g}%" if share else f"{estimate.mean:,.0f} s"


def _percent(share: float) -> float:
    return round(100 * share, 2)
