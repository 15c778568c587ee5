"""What people were told of starts to come: kept for a while, written down, and held against what came."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Literal, TypedDict

from backfill.queue.events import Began, Departed, Departure, Edit, End, Entry, Expected, Promise, Start
from backfill.queue.events import Shown as ShownEvent
from backfill.queue.shapes import Estimate, Eta

FRESH_S = 30.0  # estimates are told again so long, if nothing happened
TIMES = 20  # that estimates of one job are written down
COLUMNS: tuple[Literal["guaranteed_s", "median_s", "p90_s", "history", "ended_jobs"], ...] = (
    "guaranteed_s",
    "median_s",
    "p90_s",
    "history",
    "ended_jobs",
)
LATELY, ENOUGH = 200, 50  # estimates that are looked at, and that are enough to say something
TOO_FEW = 0.85  # of the bounds at 90 % that held
LEADS = ((3_600, "< 1 h"), (21_600, "1 - 6 h"), (float("inf"), "> 6 h"))  # how long before the likely start it was told


Cell = float | str | int | None  # of an estimate as it is written down


@dataclass
class Estimates:
    """An answer of the planner's copy, and what was told before."""

    of: tuple[int, ...]  # what the queue was when it was asked
    answer: Eta
    shown: dict[int, list[Cell]] = field(default_factory=dict)  # of each job, as last written down
    times: dict[int, int] = field(default_factory=dict)  # of each job, how often

    @cached_property
    def rows(self) -> dict[int, Estimate]:
        """The jobs of which a likely start is known."""
        return {row["id"]: row for row in self.answer["jobs"] if row["median_s"] is not None}

    def holds(self, of: tuple[int, ...], now: int) -> bool:
        """Whether it may be told again."""
        return of == self.of and now / 1e6 - self.answer["now_s"] < FRESH_S

    def told(self, now: int) -> Eta:
        """For a client."""
        return {**self.answer, "age_s": max(round(now / 1e6 - self.answer["now_s"], 3), 0.0)}

    def news(self, before: "Estimates | None") -> list[list[Cell]]:
        """What is to be written down: [job, COLUMNS...] of those that are told another start than last time."""
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
    """One estimate that was told, and the start that came."""

    told_s: float
    guaranteed_s: float | None
    median_s: float
    p90_s: float
    start_s: float


KINDS = ("shown", "promise", "start", "edit", "end", "departure", "departed", "began", "expected")  # of the events
# that `kept` and `foretold` look at


class Promises(TypedDict):
    """How many promises were kept; the others by what broke them."""

    kept: int
    slips: dict[str, int]


class Kept(Promises):
    """The promised starts of jobs, and the departures of projects that were promised one for all of their jobs."""

    departures: Promises


class Lead(TypedDict):
    """Estimates that were told so long before the start; shares of them, but for the median of the errors."""

    lead: str
    estimates: int
    within_90: float
    median_error_s: float
    early: float
    late: float


def kept(entries: Iterable[Entry]) -> tuple[list[Shown], Kept]:
    """Estimates of jobs that have started since, and how many promises were kept; slips by cause."""
    told: dict[int, list[tuple[int, list[float | None]]]] = {}
    found: list[Shown] = []
    promised: dict[int, int] = {}
    projects: set[str] = set()  # with a promise that counts all jobs
    starts, departures = Promises(kept=0, slips={}), Promises(kept=0, slips={})
    for event, t, _ in entries:
        match event:
            case ShownEvent():
                for number, *facts in event.estimates:
                    told.setdefault(number, []).append((t, facts))
            case Promise():
                promised[event.job] = event.start
            case Start() | Began():
                for then, (guaranteed, middle, p90, *_) in told.pop(event.job, []):
                    if middle is not None and p90 is not None:
                        found.append(Shown(then / 1e6, guaranteed, middle, p90, event.start / 1e6))
                if promised.pop(event.job, None) is not None and isinstance(event, Start):
                    _count(starts, event.slip)
            case Departure() if event.until is not None and not event.left:
                projects.add(event.project)
            case Departed() if event.project in projects:
                _count(departures, event.slip)
            case Edit() | End():  # what was told was told of another job
                told.pop(event.job, None)
    return found, {**starts, "departures": departures}


def foretold(entries: Iterable[Entry]) -> list[Shown]:
    """The first start that a batch system expected of each job which it has started since; it gives no bound."""
    told: dict[int, tuple[int, int]] = {}
    found: list[Shown] = []
    for event, t, _ in entries:
        match event:
            case Expected():
                told.setdefault(event.job, (t, event.start))
            case Began() if (first := told.pop(event.job, None)) is not None:
                then, start = (each / 1e6 for each in first)
                found.append(Shown(then, None, start, start, event.start / 1e6))
            case Edit() | End():
                told.pop(event.job, None)
    return found


def _count(promises: Promises, slip: str) -> None:
    """Count a promise, kept or broken by something."""
    if slip:
        promises["slips"][slip] = promises["slips"].get(slip, 0) + 1
    else:
        promises["kept"] += 1


def widening(shown: Sequence[Shown]) -> tuple[float, float]:
    """By how much the bounds that were told lately were too near, and how many of them held; 1.0 where they will do.

    The part of the wait by which nine of ten would have held, as in conformal prediction.
    """
    some = [one for one in shown if one.p90_s > one.told_s + 1][-LATELY:]
    if len(some) < ENOUGH:
        return 1.0, 1.0
    ratios = sorted((one.start_s - one.told_s) / (one.p90_s - one.told_s) for one in some)
    held = sum(ratio <= 1 for ratio in ratios) / len(ratios)
    needed = ratios[min(math.ceil(0.9 * (len(ratios) + 1)), len(ratios)) - 1]
    return (max(needed, 1.0) if held < TOO_FEW else 1.0), held


def accuracy(shown: Iterable[Shown]) -> list[Lead]:
    """By how long before the start it was told: how many started by the 90% bound, and how far off the medians were."""
    groups: list[list[Shown]] = [[] for _ in LEADS]
    for one in shown:
        lead = one.median_s - one.told_s  # by the start that came, those that are late would be put together
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
