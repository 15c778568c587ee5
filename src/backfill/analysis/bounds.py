"""Lower bounds that no policy can beat, whatever it knows. Proofs: docs/reference/bounds.md."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """No schedule of the same jobs on the same platform has less of this metric."""

    metric: str  # makespan_s or mean_wait_s
    value: float | None
    how: str  # which of the arguments gave it
