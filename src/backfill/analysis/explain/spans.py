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
    """The amount of a resource, licence or limit that the job lacked over a stretch of time."""

    kind: str  # resource, licence or scattered
    name: str
    needed: int
    free_least: int
    free_most: int
    there: int  # at most
    on_one: int = -1  # where it is scattered: the most that was free on any one node; else -1

    def __add__(self, other: "Short") -> "Short":
        least, most = min(self.free_least, other.free_least), max(self.free_most, other.free_most)
        there, on_one = max(self.there, other.there), max(self.on_one, other.on_one)
        return Short(self.kind, self.name, self.needed, least, most, there, on_one)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of the wait with one cause."""

    begin: int
    until: int
    kind: str
    lacks: tuple[Short, ...] = ()
    who: int = -1  # the job whose reservation or turn it was, or that had to end first; of a window its place
    seated: int = -1  # where something is scattered: the most tasks that would have found a place; else -1

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
    who: tuple[tuple[int, int], ...]  # (job or window, for how long), the longest first
    seated: int  # as in spans, the most of all


def spans_of(room: Stretch, rules: Rules, promises: Promises | None) -> list[Span]:
    """The spans in which one cause kept the job of a room from starting, in order of time; neighbours with the same
    cause are one span.
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
    """The least and the greatest value from each of these places until the next."""
    return np.minimum.reduceat(values, first).tolist(), np.maximum.reduceat(values, first).tolist()


def causes_of(spans: Iterable[Span]) -> list[tuple[Cause, list[Span]]]:
    """The causes of these spans with the spans of each, those that took longest first."""
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
    """The spans from the submit of a job until it was eligible: the jobs that had to end first, one after another, and
    its think time.
    """
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
