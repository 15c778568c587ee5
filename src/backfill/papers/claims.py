"""The claims of a paper, with the value measured for each."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from backfill.analysis.interval import Estimate


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim: what the paper says, what was expected of it here, what was measured, and whether it holds."""

    id: str
    claim: str
    expected: str
    measured: str
    held: bool | None  # None: it cannot be judged
    low: float | None = None  # interval of the case that speaks most against it
    high: float | None = None
    note: str = ""

    @classmethod
    def of(
        cls, name: str, claim: str, expected: str, worst: Estimate, held: bool, where: str, unit: str = ""
    ) -> "Claim":
        """A claim that is judged by its worst case, which stands `where`, in a unit such as ` points`."""
        low, high = (worst.low, worst.high) if worst.bounded else (None, None)
        return cls(name, claim, expected, f"{worst}{unit}, {where}", held, low, high)

    @property
    def verdict(self) -> str:
        """The verdict as a text."""
        return {True: "held", False: "not reproduced", None: "not judged"}[self.held]

    def to_dict(self) -> dict[str, Any]:
        """The fields for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class OfFew(Claim):
    """A claim that is judged by few replications: it may be neither held nor refuted."""

    @property
    def verdict(self) -> str:
        """The verdict as a text."""
        return {True: "held", False: "not held", None: "not conclusive"}[self.held]

    def to_dict(self) -> dict[str, Any]:
        """The fields for JSON."""
        return {**asdict(self), "verdict": self.verdict}


Cases = Mapping[str, Estimate]  # where -> what is measured there


def worst_of(cases: Cases) -> tuple[str, Estimate]:
    """The case whose interval reaches highest, and where it is."""
    return max(cases.items(), key=lambda case: case[1].high)


def below(name: str, claim: str, expected: str, cases: Cases, unit: str = "", scale: float = 1) -> Claim:
    """A claim that holds where every interval lies below 0; told in a unit, of which `scale` are 1.

    Cases without an interval cannot decide it, but leave it open where the others speak for it; they are noted.
    """
    scaled = {where: each.times(scale) for where, each in cases.items()}
    bounded = {where: each for where, each in scaled.items() if each.bounded}
    where, worst = worst_of(bounded or scaled)
    judged = Claim.of(name, claim, expected, worst, worst.high < 0, where, unit)
    if len(bounded) == len(scaled):
        return judged
    note = "no interval: " + "; ".join(f"{each}{unit}, {w}" for w, each in scaled.items() if not each.bounded)
    return replace(judged, held=None if worst.high < 0 or not bounded else False, note=note)


def decided(name: str, claim: str, expected: str, cases: Cases, unit: str = "", scale: float = 1) -> Claim:
    """A claim that holds where every interval lies below 0, does not where one lies above, and else stays open."""
    against = {where: each for where, each in cases.items() if each.bounded and each.low > 0}
    judged = below(name, claim, expected, against or cases, unit, scale)
    return OfFew(**{**asdict(judged), "held": True if judged.held else False if against else None})
