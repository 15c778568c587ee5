"""The claims of a paper, what was measured for each, and the verdict on it: docs/decisions/0062-verdicts.md."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from backfill.analysis.interval import Estimate

HOLDS, CONTRADICTED, UNDECIDED, FITTED = "holds", "contradicted", "undecided", "fitted"
VERDICTS = {
    HOLDS: "every interval lies where the claim has it",
    CONTRADICTED: "some interval lies wholly elsewhere",
    UNDECIDED: "an interval is too wide to tell, or it was a quick look, or a log was not there",
    FITTED: "a parameter was chosen so that the number comes out, so it tests nothing",
}


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: what the paper says, what was expected of it here, what was measured, and the verdict."""

    id: str
    claim: str
    expected: str
    measured: str
    verdict: str  # one of VERDICTS
    low: float | None = None  # interval of the case that speaks most against it
    high: float | None = None
    note: str = ""

    @classmethod
    def of(
        cls, name: str, claim: str, expected: str, worst: Estimate, verdict: str, where: str, unit: str = ""
    ) -> "Claim":
        """A claim that is judged by its worst case, which stands `where`, in a unit such as ` points`."""
        low, high = (worst.low, worst.high) if worst.bounded else (None, None)
        return cls(name, claim, expected, f"{worst}{unit}, {where}", verdict, low, high)

    @property
    def held(self) -> bool | None:
        """Whether it holds; None where nothing was decided, or nothing was tested."""
        return {HOLDS: True, CONTRADICTED: False}.get(self.verdict)

    def noted(self, note: str) -> "Claim":
        """The same with a further note, before its own."""
        return replace(self, note="; ".join(filter(None, (note, self.note))))

    def fitted(self) -> "Claim":
        """A claim on a number for which a parameter was chosen: where the number comes out, that tests nothing."""
        return replace(self, verdict=FITTED) if self.verdict == HOLDS else self

    def to_dict(self) -> dict[str, Any]:
        """The fields for JSON."""
        return {
            "id": self.id, "claim": self.claim, "expected": self.expected, "measured": self.measured,
            "held": self.held, "verdict": self.verdict, "low": self.low, "high": self.high, "note": self.note,
        }  # fmt: skip


def within(estimate: Estimate, least: float = -math.inf, most: float = math.inf) -> bool | None:
    """Whether an interval lies between two bounds; None where it reaches over one of them, or there is no interval."""
    if not estimate.bounded:
        return None
    if least < estimate.low and estimate.high < most:
        return True
    return False if estimate.high <= least or most <= estimate.low else None


def verdict_of(cases: Iterable[bool | None]) -> str:
    """The verdict on a claim of several cases, each of which is as it says, is not, or is open."""
    found = {*cases}
    return CONTRADICTED if False in found else UNDECIDED if None in found else HOLDS


Cases = Mapping[str, Estimate]  # where -> what is measured there


def worst_of(cases: Cases) -> tuple[str, Estimate]:
    """The case whose interval reaches highest, and where it is."""
    return max(cases.items(), key=lambda case: case[1].high)


def below(name: str, claim: str, expected: str, cases: Cases, unit: str = "", scale: float = 1) -> Claim:
    """A claim that holds where every interval lies below 0; told in a unit, of which `scale` are 1.

    Cases without an interval leave it open where no other contradicts it; they are noted.
    """
    scaled = {where: each.times(scale) for where, each in cases.items()}
    bounded = {where: each for where, each in scaled.items() if each.bounded}
    against = {where: each for where, each in bounded.items() if each.low >= 0}
    where, worst = worst_of(against or bounded or scaled)
    verdict = verdict_of(within(each, most=0) for each in scaled.values())
    judged = Claim.of(name, claim, expected, worst, verdict, where, unit)
    open_ = "; ".join(f"{each}{unit}, {w}" for w, each in scaled.items() if not each.bounded)
    return judged.noted(f"no interval: {open_}") if open_ else judged
