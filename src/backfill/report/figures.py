"""Figures for papers, drawn with matplotlib (the extra `plot`): every job, lines over time, distributions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from backfill.analysis.metrics import NOTHING, Counted, Trim
from backfill.analysis.series import Steps, held_cpus, jobs_inside, waiting_jobs, window
from backfill.model.errors import BadArgument, MissingExtra
from backfill.model.platform import Platform
from backfill.model.schedule import REASONS, Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Floats, Ints, Workload
from backfill.report.rows import drawn, lanes, lay_out, turns_of
from backfill.report.values import WHY, cut

KINDS = ("gantt", "utilization", "queue", "jobs", "wait", "slowdown")
SCHEMES = ("why", "user", "project")  # meanings of the colours of the Gantt chart
# Okabe and Ito's palette; the keys are REASONS.
COLOURS = dict(zip(REASONS, ("#56b4e9", "#e69f00", "#009e73", "#999999", "#d55e00", "#0072b2", "#cc79a7", "#f0e442"),
                   strict=True))  # fmt: skip
_BINS = 500
_ROOM = 0.04  # share of the height above which a node or licence is labelled
_DAY = 86_400 * SECOND
_UNITS = (("days", _DAY), ("hours", 3600 * SECOND), ("minutes", 60 * SECOND), ("seconds", SECOND))
_WAITS = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 86_400: "1 d", 864_000: "10 d"}


def figure(
    kind: str,
    workload: Workload,
    platform: Platform,
    schedule: Schedule,
    ax: Any = None,
    label: str = "",
    trims: tuple[Trim, Trim] = (NOTHING, NOTHING),
    colour: str = "why",
) -> Any:
    """Draw one of KINDS on `ax`, or on a new figure; return the axes. Raises UsageError, MissingExtra.

    trims: the jobs left out of the distributions, first and last. colour: of the Gantt chart, one of SCHEMES.
    """
    if kind not in KINDS:
        raise BadArgument("kind", kind, f"one of {', '.join(KINDS)}")
    if colour not in SCHEMES:
        raise BadArgument("colour", colour, f"one of {', '.join(SCHEMES)}")
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtra("a figure", "plot") from None
    if ax is None:
        ax = plt.subplots(figsize=(8, 4), layout="constrained")[1]
    if kind == "gantt":
        _gantt(workload, platform, schedule, ax, colour)
    elif kind in ("wait", "slowdown"):
        counted = Counted.of(workload, schedule, *trims)
        _tail(kind, counted.wait / SECOND if kind == "wait" else counted.bounded_slowdown, ax, label)
    else:
        _line(kind, workload, platform, schedule, ax, label)
    return ax


def _time_axis(ax: Any, workload: Workload, begin: int, end: int) -> Callable[[Any], Any]:
    """Label the time axis: dates in the log's zone if known, else time since the first submit.

    Returns a function from an instant in microseconds to its position.
    """
    clock = workload.calendar
    first = None if clock is None else clock.date(begin)
    if clock is None or first is None or clock.date(end) is None:
        name, unit = next((pair for pair in _UNITS if end - begin >= 3 * pair[1]), _UNITS[-1])
        ax.set_xlabel(f"{name} since the first submit")
        return lambda times: (times - begin) / unit
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    ticks = AutoDateLocator(tz=first.tzinfo)
    ax.xaxis.set_major_locator(ticks)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(ticks, tz=first.tzinfo))
    ax.set_xlabel(f"date ({clock.name})")
    return lambda times: (times + clock.epoch * SECOND) / _DAY


def _gantt(workload: Workload, platform: Platform, schedule: Schedule, ax: Any, colour: str) -> None:
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    begin, end = window(schedule)
    turns = turns_of([schedule])
    on_axis = _time_axis(ax, workload, begin, end)
    box, low, high = lay_out(workload, platform, schedule).T
    run = drawn(schedule).take(box)
    left, right = on_axis(run.start), on_axis(run.end)
    deadline = workload.jobs.deadline[run.job]
    late = run.end > deadline
    due = on_axis(np.maximum(run.start, deadline)[late])
    dangled = run.dangled(schedule.ready(workload.jobs))
    waits = dangled > 0
    since = on_axis((run.start + dangled)[waits])
    if colour == "why":
        words = [REASONS[code] for code in run.reason.tolist()]
        colours = [COLOURS[word] for word in words]
        handles = [Patch(color=COLOURS[w], label=WHY[w]) for w in REASONS if w in set(words)]
    else:
        palette = [*COLOURS.values()]
        colours = [palette[code % len(palette)] for code in workload.jobs[colour].codes[run.job].tolist()]
        handles = [Patch(facecolor="none", label=f"different colours: different {colour}s")]
    ax.add_collection(
        PolyCollection(_boxes(left, right, low, high), facecolors=colours, edgecolors="white", linewidths=0.2)
    )
    ax.add_collection(
        PolyCollection(
            _boxes(left[waits], since, low[waits], high[waits]),
            facecolors=(1, 1, 1, 0.6),
            edgecolors="grey",
            hatch="....",
            linewidths=0,
        )
    )
    ax.add_collection(
        PolyCollection(
            _boxes(due, right[late], low[late], high[late]),
            facecolors="none",
            edgecolors="black",
            hatch="////",
            linewidths=0,
        )
    )
    names, floor = lanes(workload, platform, turns)
    ax.set(xlim=(on_axis(begin), on_axis(max(end, begin + SECOND))), ylim=(max(floor[-1], 1), 0), ylabel="processors")
    if len(names) > 1:
        named = np.flatnonzero(np.diff(floor) >= _ROOM * floor[-1])
        ax.set_yticks((floor[named] + floor[named + 1]) / 2, [cut(names[i]) for i in named.tolist()])
        ax.set_ylabel("" if len(named) else "processors, node after node")
        ax.hlines(floor[1:-1], *ax.get_xlim(), colors="lightgrey", linewidths=0.5)
    if len(names) > turns * len(platform.nodes):
        ax.axhline(turns * platform.cpus, color="black", linewidth=1)
    if waits.any():
        handles.append(Patch(facecolor="white", edgecolor="grey", hatch="....", label="held but not busy"))
    if late.any():
        handles.append(Patch(facecolor="white", edgecolor="black", hatch="////", label="after its deadline"))
    if handles:
        _legend(ax, handles)


def _boxes(left: Floats, right: Floats, low: Ints, high: Ints) -> Any:
    """Return the corners of rectangles: shape (rectangles, 4, 2)."""
    return np.stack([np.stack(c, -1) for c in ((left, low), (left, high), (right, high), (right, low))], 1)


def _line(kind: str, workload: Workload, platform: Platform, schedule: Schedule, ax: Any, label: str) -> None:
    begin, end = window(schedule)
    steps: Steps = {"utilization": held_cpus(workload, schedule), "queue": waiting_jobs(schedule),
                    "jobs": jobs_inside(schedule)}[kind]  # fmt: skip
    binned = steps.binned(begin, end, _BINS)
    on_axis = _time_axis(ax, workload, begin, end)
    share = platform.cpus if kind == "utilization" else 1
    if len(binned.mean):
        ax.stairs(binned.mean / share, on_axis(binned.edges), label=label or None, baseline=None)
    ax.set_ylabel({"utilization": "utilization", "queue": "jobs waiting", "jobs": "jobs in the system"}[kind])
    ax.set_ylim(bottom=0)
    if kind == "utilization":
        ax.yaxis.set_major_formatter("{x:.0%}")
    _legend(ax, ax.get_legend_handles_labels()[0])


def _tail(kind: str, values: Floats, ax: Any, label: str) -> None:
    ranked, above = np.sort(values), 1 - np.arange(len(values)) / max(len(values), 1)
    ax.step(np.maximum(ranked, 1), above, where="pre", label=label or None)
    ax.set(xscale="log", yscale="log")
    ax.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
    if kind == "wait":
        ax.set_xticks(list(_WAITS), _WAITS.values())
        ax.set_xticks([], minor=True)
        ax.set(xlabel="wait (shorter waits are drawn at 1 s)", ylabel="jobs that wait at least as long")
    else:
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set(xlabel="bounded slowdown", ylabel="jobs with at least this slowdown")
    _legend(ax, ax.get_legend_handles_labels()[0])


def _legend(ax: Any, handles: list[Any]) -> None:
    """Draw the legend of the colours above the axes."""
    if handles:
        ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False)
