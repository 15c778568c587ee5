"""The plan of the queue as text: a line for each node and licence, and one for each job, over time."""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich.text import Text

from backfill.model.names import printable
from backfill.model.units import counted, local_text
from backfill.queue.protocol import PLANNED

Facts = Mapping[str, Any]
LEAST_S = 60.0  # of time in a chart, in seconds
NARROWEST = 16  # columns of a chart
LABEL = 12  # characters of a name
LANES = 16  # lines of nodes and licences at most
JOBS = 40  # lines of jobs at most, unless another number is asked for
PAST = 0.3  # of a chart at most, if its begin is not given
STEPS = (10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
APART = 9  # columns between two marks of the axis, at least
MONTH, YEAR = 28 * 86_400, 365 * 86_400
FAILED = ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "DEADLINE")


@dataclass(frozen=True)
class Signs:
    """The characters of a chart. levels: from nothing to all of a lane."""

    ran: str
    runs: str
    likely: str
    limit: str
    waits: str
    dots: str
    median: str
    bound: str
    promise: str
    reserved: str
    now: str
    line: str
    mark: str
    here: str
    levels: str


DRAWN = Signs("█", "█", "▓", "░", "▒", "·", "○", ")", "◆", "▚", "│", "─", "┴", "▼", " ▁▂▃▄▅▆▇█")
PLAIN = Signs("#", "#", "=", "-", ":", ".", "o", ")", "!", "%", "|", "-", "+", "v", " .:-=+*#@")


@dataclass(frozen=True)
class Scale:
    """The time of a chart, in seconds, and its columns."""

    begin: float
    end: float
    columns: int

    def at(self, t: float) -> float:
        """Return the place of an instant, in columns."""
        return (t - self.begin) / (self.end - self.begin) * self.columns

    def cells(self, begin: float, end: float) -> range:
        """Return the columns of a span, at least one if any of it is inside."""
        if end < self.begin or begin >= self.end:
            return range(0)
        first = max(math.floor(self.at(begin)), 0)
        return range(first, max(min(round(self.at(end)), self.columns), min(first + 1, self.columns)))


class Line:
    """A line of a chart: a character and a style for each column."""

    def __init__(self, scale: Scale, signs: Signs, now: float) -> None:
        self.scale, self.cells = scale, [(" ", "")] * scale.columns
        for column in scale.cells(now, now):
            self.cells[column] = (signs.now, "dim")

    def fill(self, begin: float | None, end: float | None, sign: str, style: str) -> None:
        """Draw a span; nothing if one of its ends is not known."""
        if begin is not None and end is not None and end > begin:
            for column in self.scale.cells(begin, end):
                self.cells[column] = (sign, style)

    def mark(self, t: float | None, sign: str, style: str) -> None:
        """Draw an instant, if it is known and inside."""
        if t is not None and self.scale.begin <= t < self.scale.end:
            self.cells[int(self.scale.at(t))] = (sign, style)

    @property
    def signs(self) -> set[str]:
        """The characters drawn."""
        return {sign for sign, _ in self.cells}

    def after(self, label: str, style: str = "") -> Text:
        """Return the line after its label."""
        text = Text()
        text.append(label, style)
        for style, some in groupby(self.cells, key=itemgetter(1)):
            text.append("".join(sign for sign, _ in some), style)
        return text


def chart(plan: Facts, width: int, lines: int = JOBS, plain: bool = False, whole_past: bool = False) -> Iterator[Text]:
    """Yield the lines of a chart of a plan (answers/plan.py), none wider than `width`, or than a chart of 16 columns.

    lines: of jobs at most. plain: ASCII alone. whole_past: from the plan's begin on, even if little came after it.
    """
    signs, now = PLAIN if plain else DRAWN, plan["now_s"]
    begin, end = _span(plan, whole_past)
    jobs, left = _chosen({**plan, "past": [bar for bar in plan["past"] if bar["end_s"] >= begin]}, lines)
    lanes, lanes_left = [*plan["lanes"]][:LANES], max(len(plan["lanes"]) - LANES, 0)
    heads, shown = _labels(jobs, lanes, plan["reservations"], width)
    scale = Scale(begin, end, max(width - sum(map(len, heads)) - len(heads), NARROWEST))
    blank = " " * (sum(map(len, heads)) + len(heads))
    yield from _axis(scale, signs, now, blank)
    used: set[str] = set()
    for lane, label in zip(lanes, shown[: len(lanes)], strict=True):
        yield _lane(plan, lane, scale, signs).after(label, "bold")
    for each, label in zip(plan["reservations"], shown[len(lanes) :], strict=False):
        line = Line(scale, signs, now)
        line.fill(each["begin_s"], each["until_s"], signs.reserved, "magenta")
        used |= line.signs
        yield line.after(label, "magenta")
    if lanes_left:
        yield Text(f"and {counted(lanes_left, 'more lane')} of nodes and licences; --nodes NAME,... chooses")
    if jobs:
        yield Text(" ".join(heads) + " ", "bold")
    for bar, label in zip(jobs, shown[len(lanes) + len(plan["reservations"]) :], strict=True):
        line = _job(bar, scale, signs, now)
        used |= line.signs
        yield line.after(label)
    if left:
        yield Text(f"and {counted(left, 'more job')}; --lines N shows more, --user and --until choose")
    for kind, count in plan["omitted"].items():
        if count:
            yield Text(
                f"{count:,} {kind} jobs were not read: the plan holds {PLANNED:,} of each kind; --since, --user choose"
            )
    for legend in _legend(signs, used, width):
        yield Text(legend, "dim")


def _chosen(plan: Facts, lines: int) -> tuple[list[Facts], int]:
    """Return the jobs that have a line: all that run, the first that wait and the last that ran; and how many have not.

    A line is kept for jobs whose start is not known only if there is room.
    """
    running, pending, past = ([*plan[kind]] for kind in ("running", "pending", "past"))
    some = [*running, *pending][:lines]
    ran = past[len(past) - min(max(lines - len(some), lines // 4), len(past)) :]
    some = some[: max(lines - len(ran), 0)]
    return [*ran, *some], len(past) + len(running) + len(pending) - len(ran) - len(some)


def _span(plan: Facts, whole_past: bool) -> tuple[float, float]:
    """Return the begin and the end of the chart, in seconds."""
    now, until = plan["now_s"], plan["until_s"]
    if until is None:
        ends = [bar["latest_end_s"] for bar in plan["running"]]
        ends += [begin + bar["limit_s"] for bar in plan["pending"] if (begin := bar["drawn_s"]) is not None]
        ends += [each["until_s"] for each in plan["reservations"]]
        until = max([*ends, now + LEAST_S])
    since = plan["since_s"]
    if not whole_past:
        first = min([bar["start_s"] for kind in ("past", "running") for bar in plan[kind]], default=now)
        since = max(since, min(first, now), now - max(PAST * (until - now), LEAST_S))
    return since, max(until, since + LEAST_S)


def _labels(
    jobs: Sequence[Facts], lanes: Sequence[Facts], reservations: Sequence[Facts], width: int
) -> tuple[list[str], list[str]]:
    """Return the headings of the columns beside the chart, and the label of each line; narrow charts have fewer."""
    rows = [["JOB", "NAME", "USER", "CPUS"]]
    for lane in lanes:
        what = "cpus" if lane["lane"] == "node" else "copies"
        out = f"/{lane['stated']}" if lane["stated"] != lane["amount"] else ""
        rows.append([printable(lane["name"])[:LABEL], what, "", f"{lane['amount']}{out}"])
    rows += [[printable(each["reservation"])[:LABEL], "reserved", "", ""] for each in reservations]
    rows += [[bar["label"], *(printable(bar[name])[:LABEL] for name in ("name", "user")), str(bar["cpus"])]
             for bar in jobs]  # fmt: skip
    columns = [0, 1, 2, 3]
    wide = [max(len(row[column]) for row in rows) for column in columns]
    for spared in (2, 3, 1):
        if width - sum(wide[column] + 1 for column in columns) < 2 * width / 3:
            columns.remove(spared)
    cells = [
        [row[column].rjust(wide[column]) if column == 3 else row[column].ljust(wide[column]) for column in columns]
        for row in rows
    ]
    return cells[0], [" ".join(row) + " " for row in cells[1:]]


def _axis(scale: Scale, signs: Signs, now: float, blank: str) -> Iterator[Text]:
    """Yield the marks of time, and the line below them."""
    span = scale.end - scale.begin
    step = next((each for each in STEPS if each * scale.columns / span >= APART), None)
    if step is None:
        step = math.ceil(span / scale.columns * APART / MONTH) * MONTH
    shift = time.localtime(now).tm_gmtoff
    texts, line = [" "] * scale.columns, [signs.line] * scale.columns
    t = math.ceil((scale.begin + shift) / step) * step - shift
    while t < scale.end:
        column = int(scale.at(t))
        when = time.localtime(t)
        text = time.strftime("%b %Y" if span > YEAR else
                             "%d %b" if when.tm_hour == when.tm_min == 0 or step >= 86_400 else
                             "%H:%M:%S" if step < 60 else "%H:%M", when)  # fmt: skip
        if column + len(text) <= scale.columns:
            texts[column : column + len(text)] = text
        line[column] = signs.mark
        t += step
    for column in scale.cells(now, now):
        line[column] = signs.here
    yield Text(f"{blank}{''.join(texts)}".rstrip())
    yield Text(f"{blank}{''.join(line)}", "dim")


def _lane(plan: Facts, lane: Facts, scale: Scale, signs: Signs) -> Line:
    """Return the share of a node's cpus, or of a licence's copies, that jobs hold in each column."""
    kind, name = "nodes" if lane["lane"] == "node" else "licences", lane["name"]
    area, alone = [0.0] * scale.columns, sum(each["lane"] == "node" for each in plan["lanes"]) == 1
    for begin, end, bar in _spans(plan):
        held = bar[kind].get(name, 0)
        if alone and kind == "nodes" and not bar["nodes"]:
            held = bar["cpus"]
        first, last = max(scale.at(begin), 0.0), min(scale.at(end), float(scale.columns))
        for column in range(int(first), math.ceil(last)) if held else ():
            area[column] += held * max(min(last, column + 1) - max(first, column), 0.0)
    line, full = Line(scale, signs, plan["now_s"]), len(signs.levels) - 1
    ahead = scale.at(plan["now_s"])
    for column, held in enumerate(area):
        share = held / lane["amount"] if lane["amount"] else float(held > 0)
        if held > 1e-9:
            style = "red" if share > 1 + 1e-6 else "cyan" if column >= ahead else "green"
            line.cells[column] = (signs.levels[min(max(math.ceil(share * full - 1e-6), 1), full)], style)
    return line


def _spans(plan: Facts) -> Iterable[tuple[float, float, Facts]]:
    """Yield begin and end of each bar: a job that runs or waits may last until its limit."""
    yield from ((bar["start_s"], bar["end_s"], bar) for bar in plan["past"])
    yield from ((bar["start_s"], bar["latest_end_s"], bar) for bar in plan["running"])
    for bar in plan["pending"]:
        if (begin := bar["drawn_s"]) is not None:
            yield begin, begin + bar["limit_s"], bar


def _job(bar: Facts, scale: Scale, signs: Signs, now: float) -> Line:
    """Return the line of a job."""
    line = Line(scale, signs, now)
    if "end_s" in bar:
        line.fill(bar["start_s"], bar["end_s"], signs.ran, "red" if bar["state"] in FAILED else "bright_black")
    elif "start_s" in bar:
        line.fill(max(bar["likely_end_s"], now), bar["latest_end_s"], signs.limit, "green")
        line.fill(now, bar["likely_end_s"], signs.likely, "green")
        line.fill(bar["start_s"], now, signs.runs, "green")
    elif (begin := bar["drawn_s"]) is not None:
        promised = bar["guaranteed_s"] is not None
        style = "cyan" if promised else "yellow"
        line.fill(bar["median_s"], begin, signs.dots, style)
        line.fill(begin, begin + bar["limit_s"], signs.waits, style)
        line.mark(bar["median_s"], signs.median, f"bold {style}")
        line.mark(bar["p90_s"], signs.bound, style)
        line.mark(bar["guaranteed_s"], signs.promise, style)
    else:
        for column, sign in enumerate(f" {bar['reason']}"[: scale.columns - (start := int(scale.at(now)) + 1)], start):
            line.cells[column] = (sign, "dim")
    return line


def _legend(signs: Signs, used: set[str], width: int) -> Iterator[str]:
    """Yield what the characters mean that were used, in lines of this width."""
    meanings = [(signs.ran, "ran"), (signs.likely, "likely goes on"), (signs.limit, "until its limit"),
                (signs.waits, "waits: from its start to its limit"), (signs.median, "likely start"),
                (signs.bound, "start in nine of ten cases"), (signs.promise, "guaranteed start"),
                (signs.reserved, "reservation")]  # fmt: skip
    line = ""
    for sign, text in meanings:
        if sign in used:
            if line and len(line) + len(text) + 4 > width:
                yield line
                line = ""
            line += f"{'  ' if line else ''}{sign} {text}"
    if line:
        yield line


def summary(plan: Facts, part: bool) -> str:
    """Return a line about the plan: how many jobs run and wait, and which policy planned it.

    part: whether only some of the jobs are in it.
    """
    running, pending = len(plan["running"]), len(plan["pending"]) + plan["omitted"]["pending"]
    promises = "guarantees starts" if plan["binds"] else "guarantees no starts"
    if plan["shadow"]:
        promises = f"only watches {plan['pool']}"
    starting = ", which is starting" if plan["planner"] != "ready" else ""
    paused = ". paused: nothing starts until backfill resume" if plan["paused"] else ""
    at = local_text(round(plan["now_s"] * 1e6), round(plan["now_s"] * 1e6))
    policy = f"policy {printable(plan['policy'])} {promises}{starting}{paused}"
    return f"{at}: {running} running, {pending} pending{' in this part' if part else ''}. {policy}"
