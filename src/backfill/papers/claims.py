"""The claims of a paper, the measurement for each, and the verdict on it: docs/decisions/0062-verdicts.md."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from backfill.analysis.interval import Estimate

HOLDS, CONTRADICTED, UNDECIDED, FITTED = "holds", "contradicted", "undecided", "fitted"
VERDICTS = {
    HOLDS: "every interval lies within the bounds of the claim",
    CONTRADICTED: "some interval lies entirely outside of them",
    UNDECIDED: "an interval is too wide to tell, or it was a quick look, or a log was not there",
    FITTED: "a parameter was chosen so that the number comes out, so it tests nothing",
}


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: the paper's statement, the expectation here, the measurement, and the verdict."""

    id: str
    claim: str
    expected: str
    measured: str
    verdict: str  # one of VERDICTS
    low: float | None = None  # interval of the case that contradicts it most
    high: float | None = None
    note: str = ""

    @classmethod
    def of(
        cls, name: str, claim: str, expected: str, worst: Estimate, verdict: str, where: str, unit: str = ""
    ) -> "Claim":
        """Build a claim judged by its worst case, at `where`, in a unit such as ` points`."""
        low, high = (worst.low, worst.high) if worst.bounded else (None, None)
        return cls(name, claim, expected, f"{worst}{unit}, {where}", verdict, low, high)

    @property
    def held(self) -> bool | None:
        """Return whether it holds; None if undecided or not tested."""
        return {HOLDS: True, CONTRADICTED: False}.get(self.verdict)

    def noted(self, note: str) -> "Claim":
        """Return the claim with a further note, before its own."""
        return replace(self, note="; ".join(filter(None, (note, self.note))))

    def fitted(self) -> "Claim":
        """Return the claim marked as fitted: a parameter was chosen for its number, so a match tests nothing."""
        return replace(self, verdict=FITTED) if self.verdict == HOLDS else self

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "id": self.id, "claim": self.claim, "expected": self.expected, "measured": self.measured,
            "held": self.held, "verdict": self.verdict, "low": self.low, "high": self.high, "note": self.note,
        }  # fmt: skip


def within(estimate: Estimate, least: float = -math.inf, most: float = math.inf) -> bool | None:
    """Return whether an interval lies between two bounds; None if it crosses one, or if there is no interval."""
    if not estimate.bounded:
        return None
    if least < estimate.low and estimate.high < most:
        return True
    return False if estimate.high <= least or most <= estimate.low else None


def verdict_of(cases: Iterable[bool | None]) -> str:
    """Return the verdict on a claim of several cases, each of which confirms it, contradicts it, or is open."""
    outcomes = {*cases}
    return CONTRADICTED if False in outcomes else UNDECIDED if None in outcomes else HOLDS


Cases = Mapping[str, Estimate]  # place -> estimate


def worst_of(cases: Cases) -> tuple[str, Estimate]:
    """Return the case with the highest end of the interval, and its place."""
    return max(cases.items(), key=lambda case: case[1].high)


def below(name: str, claim: str, expected: str, cases: Cases, unit: str = "", scale: float = 1) -> Claim:
    """Return a claim that holds if every interval lies below 0, shown in a unit of which `scale` make 1.

    Cases without an interval leave it open if no other one contradicts it; they are noted.
    """
    scaled = {where: each.times(scale) for where, each in cases.items()}
    bounded = {where: each for where, each in scaled.items() if each.bounded}
    against = {where: each for where, each in bounded.items() if each.low >= 0}
    where, worst = worst_of(against or bounded or scaled)
    verdict = verdict_of(within(each, most=0) for each in scaled.values())
    judged = Claim.of(name, claim, expected, worst, verdict, where, unit)
    open_ = "; ".join(f"{each}{unit}, {w}" for w, each in scaled.items() if not each.bounded)
    return judged.noted(f"no interval: {open_}") if open_ else judged
