"""The result of a check of `backfill doctor`."""

from dataclasses import dataclass

OK, WARN, FAIL = "ok", "warn", "FAIL"
SETUP = "backfill pool setup --print --part"  # in hints; the name of a part follows


@dataclass(frozen=True)
class Finding:
    """The result of a check, and what to do about it."""

    verdict: str  # OK, WARN or FAIL
    check: str
    told: str
    hint: str = ""
