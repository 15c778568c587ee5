"""Explain why a job of a simulation waited: which resources were missing, which jobs held them, which were ahead of
it, which overtook it, and which start it was promised.

All is computed afterwards, from the workload, the platform, the schedule and the record of promises. This module
holds the complete explanation and its assembly; a job that ran several times waited several times.

| module | |
| --- | --- |
| `asks.py` | the requests of jobs, in the platform's terms |
| `room.py` | the resources free for one job during an interval |
| `lacks.py` | the missing resources: one function for each kind of amount |
| `holding.py` | if nothing was missing: the reservation, window or earlier job that held it back |
| `spans.py` | both as time spans, and the causes that spans share |
| `holders.py` | the jobs that held the missing resources, those that the policy preferred, and those that overtook it |
| `promised.py` | its promises, and the reasons for changes |
| `words.py` | the text of an explanation |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backfill.analysis.explain.asks import Asks
from backfill.analysis.explain.holders import Ahead, Held, Passed, ahead, held, passed
from backfill.analysis.explain.holding import Rules, instants
from backfill.analysis.explain.promised import Change, promised
from backfill.analysis.explain.room import Record, Stretch
from backfill.analysis.explain.spans import Cause, Span, before, causes_of, spans_of
from backfill.model import notebook
from backfill.model.clock import Clock
from backfill.model.promises import Promises
from backfill.model.units import SECOND, UNITS, unit_of
from backfill.model.workload import Ints

__all__ = ["Asks", "Explanation", "Record", "Rules", "brief", "explain"]


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation of one job's wait. `str()` is a text for people."""

    record: Record
    row: int  # of the job
    clock: Clock | None
    before: list[Span]  # from the submit until the job was eligible
    spans: list[Span]  # from then until its start, or as long as it waited
    causes: list[Cause]  # of the spans, longest first
    held: list[Held]  # of each cause: the jobs that held the missing resources
    passed: Passed
    promised: list[Change]
    policy: str
    wanted: str | None = None  # the unit of waits in the surrounding output
    ahead: Sequence[Ahead] = ()  # of each cause: the jobs that the policy preferred; empty in a brief explanation

    @property
    def unit(self) -> str:
        """The unit of the wait and its parts: the wanted one, unless the wait is too short for it."""
        seconds = self.waited / SECOND
        fits = self.wanted is not None and seconds >= 0.75 * UNITS[self.wanted]
        return self.wanted if fits and self.wanted else unit_of([seconds])

    @property
    def waited(self) -> int:
        """The length of the wait in microseconds."""
        return sum(span.length for span in self.spans)

    @property
    def sentence(self) -> str:
        """The summary in a few sentences."""
        from backfill.analysis.explain.words import summary

        return summary(self)

    @property
    def lines(self) -> list[str]:
        """The whole text, line by line."""
        from backfill.analysis.explain.words import lines

        return lines(self)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        return f"<Explanation under {self.policy}: {self.sentence.partition('. ')[0].rstrip('.')}>"

    def _repr_html_(self) -> str:
        return notebook.text(str(self))

    def as_dict(self) -> dict[str, Any]:
        """Return the explanation for JSON; docs/reference/files.md lists the fields."""
        from backfill.analysis.explain.facts import facts

        return facts(self)


def explain(
    record: Record, row: int, rules: Rules, promises: Promises | None = None, unit: str | None = None
) -> Explanation:
    """Explain the wait of the job in this row. Without a record of promises, no reservations are known.

    unit: of waits in the surrounding output.
    """
    rooms = _rooms(record, row, instants(record, promises))
    spans = [span for room in rooms for span in spans_of(room, rules, promises)]
    causes = causes_of(spans)
    return Explanation(
        record=record,
        row=row,
        clock=record.asks.workload.calendar,
        before=before(record, row),
        spans=spans,
        causes=[cause for cause, _ in causes],
        held=[held(record, row, cause, those) for cause, those in causes],
        passed=passed(rooms, promises),
        promised=[] if promises is None else promised(record, row, promises),
        policy=rules.name,
        wanted=unit,
        ahead=[ahead(rooms, cause, those) for cause, those in causes],
    )


def brief(record: Record, row: int, rules: Rules, unit: str | None = None) -> str:
    """Return the summary only, at less cost: without promises and without the jobs that overtook it."""
    spans = [span for room in _rooms(record, row) for span in spans_of(room, rules, None)]
    causes = causes_of(spans)
    those = [held(record, row, *each) for each in causes[:1]]
    found = [cause for cause, _ in causes]
    return Explanation(record, row, None, [], spans, found, those, Passed(), [], rules.name, unit).sentence


def _rooms(record: Record, row: int, more: Ints | None = None) -> list[Stretch]:
    """Return the room of a job for each interval in which it waited."""
    return [Stretch.of(record, row, begin, until, more) for begin, until in record.waits_of(row) if begin < until]
