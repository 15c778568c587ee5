"""The wait of a job, divided into spans with one cause each, and the causes summed over the spans."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from backfill.analysis.explain.holding import KINDS, Holding, Rules
from backfill.analysis.explain.lacks import OUTAGE, SCATTERED, Lacking
from backfill.analysis.explain.room import Record, Stretch
from backfill.model.promises import Promises
from backfill.model.workload import Ints

DEPENDENCY, THINK = "dependency", "think"


@dataclass(frozen=True, slots=True)
class Short:
    """The amount of a resource, licence or limit that the job lacked during an interval."""

    kind: str  # resource, licence or scattered
    name: str
    needed: int
    free_least: int
    free_most: int
    there: int  # at most
    on_one: int = -1  # if scattered: the most that was free on any one node; else -1

    def __add__(self, other: "Short") -> "Short":
        least, most = min(self.free_least, other.free_least), max(self.free_most, other.free_most)
        there, on_one = max(self.there, other.there), max(self.on_one, other.on_one)
        return Short(self.kind, self.name, self.needed, least, most, there, on_one)


@dataclass(frozen=True, slots=True)
class Span:
    """An interval of the wait with one cause."""

    begin: int
    until: int
    kind: str
    lacks: tuple[Short, ...] = ()
    who: int = -1  # the job with the reservation or turn, or that had to end first; for a window, its index
    seated: int = -1  # if scattered: the most tasks that would have fitted; else -1

    @property
    def length(self) -> int:
        """The length in microseconds."""
        return self.until - self.begin

    @property
    def cause(self) -> tuple[str, ...]:
        """The key that spans of the same cause share: the kind, and the names of the missing resources."""
        return (self.kind, *(lack.name for lack in self.lacks))


@dataclass(frozen=True, slots=True)
class Cause:
    """All spans of one cause."""

    kind: str
    time: int
    spans: int
    lacks: tuple[Short, ...]
    who: tuple[tuple[int, int], ...]  # (job or window, duration), the longest first
    seated: int  # the maximum over the spans


def spans_of(room: Stretch, rules: Rules, promises: Promises | None) -> list[Span]:
    """Return the time spans in which one cause kept the room's job from starting, in order.

    Adjacent spans of the same cause are merged.
    """
    lacking = Lacking.of(room)
    holding = Holding.of(room, lacking.fits, rules, promises)
    kind = np.where(lacking.fits, holding.kind, -1 - lacking.away)
    columns = np.column_stack([lacking.short, kind, np.where(lacking.fits, holding.who, -1)])
    first = np.flatnonzero(np.append(True, (np.diff(columns, axis=0) != 0).any(axis=1)))
    last = np.append(first[1:], len(room.times))
    until = [*room.times[first[1:]].tolist(), room.until]
    amounts = [[*zip(*_ranges(each.free, first), _ranges(each.there, first)[1], strict=True)] for each in lacking.lacks]
    seated = _ranges(lacking.seated, first)[1]
    spans = []
    for i, (place, beyond) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        shorts = []
        for k in np.flatnonzero(lacking.short[place]).tolist():
            lack, (least, most, there) = lacking.lacks[k], amounts[k][i]
            on_one = room.most_on_one(lack.column, (place, beyond)) if lack.kind == SCATTERED else -1
            shorts.append(Short(lack.kind, lack.name, lack.needed, least, most, there, on_one))
        kind_of_span = KINDS[kind[place]] if kind[place] >= 0 else OUTAGE if kind[place] == -2 else shorts[0].kind
        apart = seated[i] if any(short.kind == SCATTERED for short in shorts) else -1
        begin, who = int(room.times[place]), int(columns[place, -1])
        spans.append(Span(begin, until[i], kind_of_span, tuple(shorts), who, apart))
    return spans


def _ranges(values: Ints, first: Ints) -> tuple[list[int], list[int]]:
    """Return the minimum and maximum value from each of these indices to the next."""
    return np.minimum.reduceat(values, first).tolist(), np.maximum.reduceat(values, first).tolist()


def causes_of(spans: Iterable[Span]) -> list[tuple[Cause, list[Span]]]:
    """Return the causes of these spans with their spans, the causes with the longest total time first."""
    each: dict[tuple[str, ...], list[Span]] = {}
    for span in spans:
        each.setdefault(span.cause, []).append(span)
    causes = [(_cause(those), those) for those in each.values()]
    return sorted(causes, key=lambda cause: -cause[0].time)


def _cause(spans: Sequence[Span]) -> Cause:
    lacks, who = list(spans[0].lacks), dict[int, int]()
    for span in spans:
        lacks = [one + other for one, other in zip(lacks, span.lacks, strict=True)]
        if span.who >= 0:
            who[span.who] = who.get(span.who, 0) + span.length
    longest = sorted(who.items(), key=lambda each: -each[1])
    return Cause(
        kind=spans[0].kind,
        time=sum(span.length for span in spans),
        spans=len(spans),
        lacks=tuple(lacks),
        who=tuple(longest),
        seated=max(span.seated for span in spans),
    )


def before(record: Record, row: int) -> list[Span]:
    """Return the spans from submit until eligible: the jobs that had to end first, one after another, and"""
    jobs, schedule = record.asks.workload.jobs, record.schedule
    now, eligible = int(schedule.submit[row]), int(schedule.eligible[row])
    spans = []
    ends = sorted((int(schedule.end[each]), each) for each in jobs.after[row].tolist())
    for end, each in ends:
        if now < end <= eligible:
            spans.append(Span(now, end, DEPENDENCY, who=each))
            now = end
    if now < eligible:
        spans.append(Span(now, eligible, THINK))
    return spans
