"""The section of a page that compares the recorded waits of a log with those under each policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backfill.model.units import NONE, brief

NEAR_S = "600"  # seconds; the share of jobs that start within this distance of their real start


@dataclass(frozen=True, slots=True)
class Reality:
    """The distance of each policy from the recorded waits."""

    sentence: str
    replays: Sequence[Mapping[str, Any]]  # as in the JSON: one per policy, all of the same recorded waits

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> "Reality | None":
        """Return the comparison in the JSON of a result or of several; None if it has no replay."""
        replays = [each["replay"] for each in result.get("results", [result]) if each.get("replay")]
        return cls(result.get("reality") or replays[0]["sentence"], replays) if replays else None


def replay_rows(reality: Reality, unit: str) -> list[tuple[str, list[str]]]:
    """Return the rows (policy, cells) for each policy; waits are in this unit."""
    return [
        (
            each["policy"],
            [
                brief(each["recorded_s"], unit),
                brief(each["simulated_s"], unit),
                _change(each["relative"]),
                f"{each['within_s'][NEAR_S]:.0%}",
                NONE if each["correlation"] is None else f"{each['correlation']:.2f}".replace("-", "\N{MINUS SIGN}"),
            ],
        )
        for each in reality.replays
    ]


def class_rows(reality: Reality, unit: str) -> list[tuple[str, str, str, str, list[str]]]:
    """Return the rows (by, class, jobs, recorded, value of each policy) by size and by run time; waits in this unit."""
    first, *_ = reality.replays
    rows = []
    for i, one in enumerate(first["classes"]):
        each = [replay["classes"][i] for replay in reality.replays]
        cells = [f"{brief(c['simulated_s'], unit)} ({_change(c['relative'])})" for c in each]
        rows.append((one["by"], one["class"], f"{one['jobs']:,}", brief(one["recorded_s"], unit), cells))
    return rows


def _change(share: float | None) -> str:
    return NONE if share is None else f"{share:+,.0%}".replace("-", "\N{MINUS SIGN}")
