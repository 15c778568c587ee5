"""What a check of `backfill doctor` has found."""

from dataclasses import dataclass

OK, WARN, FAIL = "ok", "warn", "FAIL"
SETUP = "backfill pool setup --print --part"  # in hints; then comes which part


@dataclass(frozen=True)
class Finding:
    """What a check found, and what to do about it."""

    verdict: str  # OK, WARN or FAIL
    check: str
    told: str
    hint: str = ""
