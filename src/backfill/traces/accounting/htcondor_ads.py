"""The attributes of an HTCondor job, in the queue or in the history.

Source: the HTCondor manual, "Job ClassAd Attributes".
"""

import re
from typing import Any

from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND
from backfill.traces.accounting.stays import SECONDS_MAX
from backfill.traces.broken import COUNT_MAX, BrokenLine, whole

Ad = dict[str, Any]

IDLE, RUNNING, REMOVED, COMPLETED, HELD, TRANSFERRING, SUSPENDED = range(1, 8)  # JobStatus
PARALLEL = 11  # a universe
ON_THE_ACCESS_POINT = {7: "scheduler", 12: "local"}  # universes whose jobs hold no slot
MIB = 2**20
LIMITS = (
    ("AllowedExecuteDuration", 1),
    ("AllowedJobDuration", 1),
    ("MaxRuntime", 1),
    ("MaxWallTimeMins", 60),
    ("BFWallTime", 1),
)
# Expressions that remove or hold a run by its length: `JobStatus == 2 && time() - EnteredCurrentStatus > 2 * 3600`
_TOO_LONG = re.compile(
    r"\(?(?:time\(\)|CurrentTime) *- *(?:MY\.)?(EnteredCurrentStatus|JobCurrentStartDate|JobStartDate)\)?"
    r" *>=? *\(?([\w.]+(?: *\* *[\w.]+)*)\)?",
    re.IGNORECASE,
)
_WHILE_IT_RUNS = re.compile(r"JobStatus *={2,3} *2", re.IGNORECASE)


def id_of(ad: Ad) -> str:
    """Return the id of a job, such as `7.0`. Raises BrokenLine."""
    return f"{number(ad, 'ClusterId')}.{number(ad, 'ProcId')}"


def limit_of(ad: Ad) -> int:
    """Return the longest run that the job's expressions allow, in microseconds; NO_TIME if none. Raises BrokenLine."""
    for name, unit in LIMITS:
        if isinstance(ad.get(name), int | float):
            return number(ad, name, SECONDS_MAX // unit) * unit * SECOND
    for name in ("PeriodicRemove", "PeriodicHold"):
        text = ad.get(name)
        for part in text.split("||") if isinstance(text, str) else ():
            match = _TOO_LONG.search(part)
            if match and (match[1].lower() != "enteredcurrentstatus" or _WHILE_IT_RUNS.search(part)):
                seconds = _product(match[2], ad)
                if 0 < seconds <= SECONDS_MAX:
                    return seconds * SECOND
    return NO_TIME


def _product(text: str, ad: Ad) -> int:
    """Return the product of the numbers and attributes in a text; 0 if one of them is unknown."""
    product = 1
    for factor in text.split("*"):
        name = factor.strip().rpartition(".")[2]
        value = int(name) if name.isdecimal() and len(name) < 18 else ad.get(name)
        product *= int(value) if isinstance(value, int | float) and 0 < value <= SECONDS_MAX else 0
    return product


def licences_of(ad: Ad) -> list[tuple[str, int]]:
    """Parse `ConcurrencyLimits`, such as `lic:2,other`; a name without a number is one copy. Raises BrokenLine."""
    text = ad.get("ConcurrencyLimits")
    if not isinstance(text, str):
        return []
    licences = []
    for part in text.split(","):
        name, _, count = part.strip().partition(":")
        if re.fullmatch(r"[\w.]+", name):
            licences.append((name.lower(), whole("ConcurrencyLimits", count.partition(".")[0]) if count else 1))
    return licences


def start_of(ad: Ad) -> int:
    """Return the start of the last run, in microseconds; NO_TIME if the job never ran. Raises BrokenLine."""
    start = instant(ad, "JobCurrentStartDate")
    return instant(ad, "JobStartDate") if start == NO_TIME else start


def has_failed(ad: Ad) -> bool:
    """Return whether a job ran to its end but failed."""
    return bool(ad.get("ExitBySignal") or ad.get("ExitCode"))


def number(ad: Ad, name: str, most: int = COUNT_MAX) -> int:
    """Return the whole part of a number, 0 if it is missing, undefined or an expression. Raises BrokenLine."""
    value = ad.get(name)
    if not isinstance(value, int | float):
        return 0
    if not abs(value) <= most:
        raise BrokenLine(name, str(value), f"a number up to {most:,}")
    return int(value)


def instant(ad: Ad, name: str) -> int:
    """Return microseconds since 1970, NO_TIME if missing. Raises BrokenLine."""
    value = ad.get(name)
    if value in (None, 0) or (isinstance(value, str) and name == "DeferralTime"):
        return NO_TIME
    if not isinstance(value, int | float) or not 0 < value <= SECONDS_MAX:
        raise BrokenLine(name, str(value), "seconds since 1970")
    return round(value * SECOND)
