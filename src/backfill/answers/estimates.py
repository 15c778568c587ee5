"""Estimates of starts that were shown to users: cached, recorded in the log, and compared with the actual starts."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Literal, TypedDict

from backfill.queue.events import Began, Departed, Departure, Edit, End, Entry, Expected, Promise, Start
from backfill.queue.events import Shown as ShownEvent
from backfill.queue.shapes import Estimate, Eta

FRESH_S = 30.0  # seconds for which an answer is reused if nothing happened
TIMES = 20  # most records of estimates per job
COLUMNS: tuple[Literal["guaranteed_s", "median_s", "p90_s", "history", "ended_jobs"], ...] = (
    "guaranteed_s",
    "median_s",
    "p90_s",
    "history",
    "ended_jobs",
)
LATELY, ENOUGH = 200, 50  # number of recent estimates evaluated, and the least number for a statement
TOO_FEW = 0.85  # below this share of 90 % bounds that held, bounds are widened
LEADS = ((3_600, "< 1 h"), (21_600, "1 - 6 h"), (float("inf"), "> 6 h"))  # time from estimate to likely start


Cell = float | str | int | None  # value of an estimate in the log


@dataclass
class Estimates:
    """The last answer of the planner's copy, and the estimates shown before."""

    of: tuple[int, ...]  # fingerprint of the queue at the time of the answer
    answer: Eta
    shown: dict[int, list[Cell]] = field(default_factory=dict)  # estimate by job, as last recorded
    times: dict[int, int] = field(default_factory=dict)  # number of records by job

    @cached_property
    def rows(self) -> dict[int, Estimate]:
        """The estimates with a known likely start, by job."""
        return {row["id"]: row for row in self.answer["jobs"] if row["median_s"] is not None}

    @cached_property
    def fewest(self) -> int | None:
        """The smallest number of ended jobs from which a wide bound was made; None if no bound is wide."""
        known = (row["fewest_ended_jobs"] for row in self.rows.values() if row.get("wide"))
        return min((jobs for jobs in known if jobs is not None), default=None)

    def holds(self, of: tuple[int, ...], now: int) -> bool:
        """Return whether the answer is still valid for this state of the queue and this time."""
        return of == self.of and now / 1e6 - self.answer["now_s"] < FRESH_S

    def eta(self, now: int) -> Eta:
        """Return the answer for a client, with its age."""
        return {**self.answer, "age_s": max(round(now / 1e6 - self.answer["now_s"], 3), 0.0)}

    def news(self, before: "Estimates | None") -> list[list[Cell]]:
        """Return the estimates to be recorded, as [job, COLUMNS...]: those of jobs whose estimate has changed."""
        found: list[list[Cell]] = []
        for row in self.answer["jobs"]:
            number, facts = row["id"], [row[name] for name in COLUMNS]
            times = before.times.get(number, 0) if before else 0
            last = before.shown.get(number) if before else None
            changed = row["median_s"] is not None and (last is None or facts[:3] != last[:3]) and times < TIMES
            if changed:
                found.append([number, *facts])
                times, last = times + 1, facts
            self.times[number] = times
            if last is not None:
                self.shown[number] = last
        return found


@dataclass(frozen=True)
class Shown:
    """An estimate that was shown, and the actual start."""

    told_s: float
    guaranteed_s: float | None
    median_s: float
    p90_s: float
    start_s: float


# Kinds of the events that `kept` and `foretold` evaluate.
KINDS = ("shown", "promise", "start", "edit", "end", "departure", "departed", "began", "expected")


class Promises(TypedDict):
    """The number of promises that were kept, and of broken ones by cause."""

    kept: int
    slips: dict[str, int]


class Kept(Promises):
    """The promises of starts of jobs, and of departures promised to projects for all of their jobs."""

    departures: Promises


class Lead(TypedDict):
    """The accuracy of estimates with similar lead times: shares of them, and the median of the errors."""

    lead: str
    estimates: int
    within_90: float
    median_error_s: float
    early: float
    late: float


def kept(entries: Iterable[Entry]) -> tuple[list[Shown], Kept]:
    """Return the estimates of jobs that have started since, and the numbers of kept and broken promises."""
    shown_before: dict[int, list[tuple[int, list[float | None]]]] = {}
    found: list[Shown] = []
    promised: dict[int, int] = {}
    projects: set[str] = set()  # with a promise that covers all jobs
    starts, departures = Promises(kept=0, slips={}), Promises(kept=0, slips={})
    for event, t, _ in entries:
        match event:
            case ShownEvent():
                for number, *facts in event.estimates:
                    shown_before.setdefault(number, []).append((t, facts))
            case Promise():
                promised[event.job] = event.start
            case Start() | Began():
                for then, (guaranteed, middle, p90, *_) in shown_before.pop(event.job, []):
                    if middle is not None and p90 is not None:
                        found.append(Shown(then / 1e6, guaranteed, middle, p90, event.start / 1e6))
                if promised.pop(event.job, None) is not None and isinstance(event, Start):
                    _count(starts, event.slip)
            case Departure() if event.until is not None and not event.left:
                projects.add(event.project)
            case Departed() if event.project in projects:
                _count(departures, event.slip)
            case Edit() | End():  # the estimate was for a different request
                shown_before.pop(event.job, None)
    return found, {**starts, "departures": departures}


def foretold(entries: Iterable[Entry]) -> list[Shown]:
    """Return the first start that a batch system expected of each job that it has started since; it has no bound."""
    shown_before: dict[int, tuple[int, int]] = {}
    found: list[Shown] = []
    for event, t, _ in entries:
        match event:
            case Expected():
                shown_before.setdefault(event.job, (t, event.start))
            case Began() if (first := shown_before.pop(event.job, None)) is not None:
                then, start = (each / 1e6 for each in first)
                found.append(Shown(then, None, start, start, event.start / 1e6))
            case Edit() | End():
                shown_before.pop(event.job, None)
    return found


def _count(promises: Promises, slip: str) -> None:
    """Count a promise as kept, or as broken for a cause."""
    if slip:
        promises["slips"][slip] = promises["slips"].get(slip, 0) + 1
    else:
        promises["kept"] += 1


def widening(shown: Sequence[Shown]) -> tuple[float, float]:
    """Return the factor by which recent 90 % bounds were too early, and the share that held; 1.0 if they hold well
    enough.

    The factor is that of the wait with which nine of ten bounds would have held, as in conformal prediction.
    """
    some = [one for one in shown if one.p90_s > one.told_s + 1][-LATELY:]
    if len(some) < ENOUGH:
        return 1.0, 1.0
    ratios = sorted((one.start_s - one.told_s) / (one.p90_s - one.told_s) for one in some)
    held = sum(ratio <= 1 for ratio in ratios) / len(ratios)
    needed = ratios[min(math.ceil(0.9 * (len(ratios) + 1)), len(ratios)) - 1]
    return (max(needed, 1.0) if held < TOO_FEW else 1.0), held


def accuracy(shown: Iterable[Shown]) -> list[Lead]:
    """Return the accuracy of estimates by lead time: the share within the 90 % bound, and the errors of medians."""
    groups: list[list[Shown]] = [[] for _ in LEADS]
    for one in shown:
        lead = one.median_s - one.told_s  # the actual lead would group late jobs together
        groups[next(place for place, (most, _) in enumerate(LEADS) if lead < most)].append(one)
    found: list[Lead] = []
    for (_, name), some in zip(LEADS, groups, strict=True):
        if some:
            early = sum(one.start_s < one.median_s for one in some)
            found.append({
                "lead": name,
                "estimates": len(some),
                "within_90": sum(one.start_s <= one.p90_s + 1 for one in some) / len(some),
                "median_error_s": median(abs(one.start_s - one.median_s) for one in some),
                "early": early / len(some),
                "late": sum(one.start_s > one.median_s + 1 for one in some) / len(some),
            })  # fmt: skip
    return found
