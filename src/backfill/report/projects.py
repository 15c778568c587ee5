"""The section of a page on projects: a chart of every promised departure over time, and an equivalent table."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from backfill.analysis.departures import KEPT, LATE, LATER
from backfill.analysis.promises import WHY
from backfill.model.clock import Clock, instant_text
from backfill.model.units import NONE, SECOND, counted, span_text
from backfill.report.chart import Tick
from backfill.report.dates import Dates
from backfill.report.values import cut, texts

ROW = 30  # pixels per row, as in static/projects.css and projects.js
MOVES_DRAWN, MOVES_TOLD = 50, 3  # of one project
RESULTS = {
    KEPT: "kept: no later than first promised",
    LATER: "later than first promised, no later than last promised",
    LATE: "late: later than last promised",
    None: "not departed: a job never ran",
}
_WHY = {**WHY, "given": "more jobs of the project came"}
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)  # see static/dates.js
_DAY = 86_400
_MARKS = 7  # of the axis, at most
_TURN = 60  # percent of the axis; beyond it a row's label is on the left


@dataclass(frozen=True, slots=True)
class Move:
    """A change of a promised departure."""

    begin: float  # percent of the axis
    end: float
    at: str  # time of the change
    far: str
    job: str  # the preferred job, or empty
    project: str  # of that job, or empty
    why: str  # reason otherwise
    grown: bool  # caused only by new jobs of the project

    @property
    def summary(self) -> str:
        """The move as a text."""
        return f"{self.at}: departure moved by {self.far}{self.whom}"

    @property
    def whom(self) -> str:
        """The job that it was moved for, or another reason."""
        if not self.job:
            return f": {self.why}" if self.why else ""
        return f" for project {self.project} (job {self.job})" if self.project else f" for job {self.job}"


@dataclass(frozen=True, slots=True)
class Row:
    """One project; positions are in percent of the axis, instants are texts."""

    name: str
    top: int  # pixels
    result: str | None
    submit: float
    start: float | None
    end: float | None
    promised: list[float]
    drawn: list[Move]
    moves: list[Move]  # those listed in the table
    moved: int  # their number
    cells: list[str]  # submit, first and last promise, departure
    label: tuple[float, str, str] | None  # begin or end of the label on preferred jobs, its alignment, its text

    @property
    def until(self) -> float:
        """The position at which its wait for the first start ends."""
        return self.submit if self.start is None else self.start

    @property
    def last(self) -> float:
        """The end of everything drawn for it."""
        return max(each for each in (self.submit, self.end, *self.promised) if each is not None)

    @property
    def summary(self) -> str:
        """The project as a line of text."""
        submit, first, last, end = self.cells
        again = f", last {last}" if self.moved else ""
        return f"{cut(self.name)}: submit {submit}, promised {first}{again}, departed {end} ({RESULTS[self.result]})"


@dataclass(frozen=True, slots=True)
class Timeline:
    """The projects of one policy."""

    policy: str
    rows: list[Row]
    sentences: list[str]

    @property
    def height(self) -> int:
        """The height in pixels."""
        return ROW * len(self.rows)


@dataclass(frozen=True, slots=True)
class Projects:
    """The timelines of all policies that promise departures, on one axis."""

    timelines: list[Timeline]
    zero: float  # the first submit of the log, in seconds
    begin: float  # seconds after it
    length: float
    ticks: list[Tick]
    which: str  # a sentence on the selection of these projects; empty if all are shown
    dates: Dates | None  # if the log has a calendar

    @property
    def time_basis(self) -> str:
        """The reference of shown instants: dates in a zone, or time since the first submit."""
        return f"dates in {self.dates.zone}" if self.dates else "time since the first submit"

    @property
    def open(self) -> bool:
        """Return whether any project never departed."""
        return any(row.result is None for each in self.timelines for row in each.rows)

    @classmethod
    def of(
        cls, names: Sequence[str], results: Sequence[Mapping[str, Any]], replicated: bool = False
    ) -> "Projects | None":
        """Build the timelines from results; None if no policy promised a departure to a project.

        results: as in the JSON. replicated: whether they are those of the first of several replications.
        """
        those = [(name, each) for name, each in zip(names, results, strict=True) if "projects" in each]
        shown = [project for _, each in those for project in each["projects"]["shown"]]
        if not shown:
            return None
        zero, calendar = those[0][1]["projects"]["first_submit_s"], those[0][1].get("workload", {}).get("calendar")
        begin = min(each["submit_s"] for each in shown)
        length = max(max(_instants(each)) for each in shown) - begin or 1.0
        clock = None if calendar is None else Clock(int(calendar["epoch_s"]), str(calendar["zone"]))
        dates = Dates.of(clock, int(begin * SECOND), int((begin + length) * SECOND))
        axis = _Axis(zero, begin, length, dates)
        timelines = [
            Timeline(
                cut(name),
                [axis.row(i, project) for i, project in enumerate(each["projects"]["shown"])],
                _sentences(each["metrics"]),
            )
            for name, each in those
        ]
        which = _which([each for _, each in those], replicated)
        return cls(timelines, zero, begin - zero, length, axis.ticks, which, dates)


def _instants(project: Mapping[str, Any]) -> list[float]:
    instants = [project["submit_s"], project["end_s"], *(each["departure_s"] for each in project["promises"])]
    return [each for each in instants if each is not None]


@dataclass(frozen=True, slots=True)
class _Axis:
    zero: float  # the first submit of the log, the origin of shown instants
    begin: float
    length: float  # seconds
    dates: Dates | None

    @property
    def ticks(self) -> list[Tick]:
        if self.dates is not None:
            first, last = int(self.begin * SECOND), int((self.begin + self.length) * SECOND)
            return [Tick(self.place(at / SECOND), text) for at, text in self.dates.marks(first, last, _MARKS)]
        least = self.length / _MARKS
        step = next((step for step in _STEPS if step >= least), _DAY * math.ceil(least / _DAY))
        begin = self.begin - self.zero
        marks = range(math.ceil(begin / step) * step, math.floor(begin + self.length) + 1, step)
        texts = [instant_text(at * SECOND, None) for at in marks]
        cut = " 00:00:00" if step >= _DAY else ":00" if step >= 60 else ""
        texts = [text.removesuffix(cut) for text in texts]
        return [Tick(100 * (at - begin) / self.length, text) for at, text in zip(marks, texts, strict=True)]

    def place(self, seconds: float) -> float:
        return round(100 * (seconds - self.begin) / self.length, 4)

    def text(self, seconds: float | None) -> str:
        if seconds is None:
            return NONE
        if self.dates is not None:
            return self.dates.text(int(seconds * SECOND), with_seconds=True)
        alone = self.begin - self.zero + self.length < _DAY  # the day would be the same everywhere
        date = instant_text(math.floor(seconds - self.zero) * SECOND, None)
        return date.rpartition(" ")[2] if alone else date

    def row(self, number: int, project: Mapping[str, Any]) -> Row:
        kept = [each for each in project["promises"] if each["departure_s"] is not None]
        departures = [each["departure_s"] for each in kept]
        changes = [self.move(*two) for two in pairwise(kept)]
        moves = [move for move in changes if not move.grown]
        start, end = project["start_s"], project["end_s"]
        drawn = kept[:1] + kept[1:][-MOVES_DRAWN:]
        return Row(
            name=project["project"],
            top=ROW * number,
            result=project["result"],
            submit=self.place(project["submit_s"]),
            start=None if start is None else self.place(start),
            end=None if end is None else self.place(end),
            promised=[self.place(each["departure_s"]) for each in drawn],
            drawn=changes[-MOVES_DRAWN:],
            moves=moves[:MOVES_TOLD],
            moved=len(moves),
            cells=[self.text(each) for each in (project["submit_s"], departures[0], departures[-1], end)],
            label=self.label(moves, [self.place(each) for each in departures]),
        )

    def move(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> Move:
        far = after["departure_s"] - before["departure_s"]
        sign = "+" if far > 0 else "\N{MINUS SIGN}"
        return Move(
            begin=self.place(before["departure_s"]),
            end=self.place(after["departure_s"]),
            at=self.text(after["at_s"]),
            far=sign + span_text(abs(far) * SECOND),
            job=cut(after.get("for", "")),
            project=cut(after.get("for_project") or ""),
            why=_WHY.get(after["cause"], ""),
            grown=after["cause"] == "given",
        )

    @staticmethod
    def label(moves: Sequence[Move], places: Sequence[float]) -> tuple[float, str, str] | None:
        whom = [*dict.fromkeys(move.project or move.job for move in moves if move.job)]
        if not whom:
            return None
        text = f"for {', '.join(map(_short, whom[:2]))}" + (f" and {len(whom) - 2} more" if whom[2:] else "")
        right = max(places)
        return (right, "start", text) if right < _TURN else (min(places), "end", text)


def _short(name: str) -> str:
    return name if len(name) <= 12 else f"{name[:11]}…"


def _sentences(metrics: Mapping[str, Any]) -> list[str]:
    """Return sentences on how the promises were kept and moved."""
    kept, last, ran = (metrics[name] for name in ("kept_departures", "kept_last_departures", "promised_projects"))
    moved, times = metrics["moved_projects"], metrics["moved_departures"]
    whole = counted(ran, "project")
    sentences = [f"{kept:,} of {whole} departed no later than first promised, {last:,} no later than last promised."]
    if moved:
        mean, most = (texts(name, [metrics[name]])[0] for name in ("mean_departure_move_s", "max_departure_move_s"))
        often = f"{counted(times, 'time')}, by {mean} on average and {most} at most"
        sentences.append(f"The promised departures of {counted(moved, 'project')} moved {often}.")
        if metrics["made_way_projects"]:
            sentences.append(f"{counted(metrics['made_way_projects'], 'project')} made way for jobs of others.")
    else:
        sentences.append("No promised departure moved.")
    return sentences


def _which(results: Sequence[Mapping[str, Any]], replicated: bool) -> str:
    """Return a sentence on the projects that are shown, unless these are all."""
    promised = max(each["projects"]["promised"] for each in results)
    shown = max(len(each["projects"]["shown"]) for each in results)
    numbers = [each["metrics"] for each in results]
    parts = []
    if shown < promised:
        under = " under any of the policies" if len(results) > 1 else ""
        which = f"{shown} of {promised:,} projects"
        if any(each["moved_projects"] for each in numbers):
            which += f" whose departures moved farthest{under}"
        elif any(each["kept_departures"] < each["promised_projects"] for each in numbers):
            which += f" that departed latest after their promise{under}"
        else:
            which = f"first {which}"
        parts.append(f"Shown are the {which}, in order of submit.")
    return " ".join([*parts, *(["They are of the first replication."] if replicated else [])])
