"""The distance from the best possible schedule, as lines of a page with a bar for each interval."""

from collections.abc import Sequence
from dataclasses import dataclass

from backfill.analysis.distance import Distance


@dataclass(frozen=True, slots=True)
class DistanceRow:
    """One policy: a sentence, and the positions of its value and interval on an axis from 0 to 100; None if missing."""

    sentence: str
    label: str
    at: float | None
    left: float | None
    right: float | None
    end: str  # of the axis


def distance_rows(distances: Sequence[Distance]) -> list[DistanceRow]:
    """Return a row for each policy; all share one axis."""
    far = max((max(each.above or 0, each.high or 0) for each in distances), default=0) or 1.0

    def place(share: float | None) -> float | None:
        return None if share is None else round(99 * share / far, 2)

    return [
        DistanceRow(
            sentence=each.sentence,
            label=f"{each.policy}: {each.above:.0%} above the best" if each.above is not None else each.policy,
            at=place(each.above),
            left=place(each.low if each.low is not None else each.above),
            right=place(each.high),
            end=f"{far:.0%}",
        )
        for each in distances
    ]
