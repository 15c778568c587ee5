"""Figures for papers, drawn with matplotlib (the extra `plot`): every job, lines over time, distributions."""

from typing import Any

import numpy as np

from backfill.analysis.metrics import NOTHING, Counted, Trim
from backfill.analysis.series import Steps, held_cpus, jobs_inside, waiting_jobs, window
from backfill.model.errors import BadArgument, MissingExtra
from backfill.model.platform import Platform
from backfill.model.schedule import REASONS, Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Floats, Ints, Workload
from backfill.report.rows import boxes, lanes, lay_out
from backfill.report.values import WHY, cut

KINDS = ("gantt", "utilization", "queue", "jobs", "wait", "slowdown")
SCHEMES = ("why", "user", "project")  # what colours of the Gantt chart tell
# Okabe and Ito's palette; the keys are REASONS.
COLOURS = dict(zip(REASONS, ("#56b4e9", "#e69f00", "#009e73", "#999999", "#d55e00", "#0072b2", "#cc79a7", "#f0e442"),
                   strict=True))  # fmt: skip
_BINS = 500
_ROOM = 0.025  # share of the height from which a node or licence has its name beside it
_HOUR, _DAY = 3600 * SECOND, 86_400 * SECOND


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
    """Draw one of KINDS on `ax`, or on a new figure; returns the axes. Raises UsageError, MissingExtra.

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


def _unit(length: int) -> tuple[str, int]:
    return ("days", _DAY) if length >= 3 * _DAY else ("hours", _HOUR)


def _gantt(workload: Workload, platform: Platform, schedule: Schedule, ax: Any, colour: str) -> None:
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    begin, end = window(schedule)
    name, unit = _unit(end - begin)
    box, low, high = lay_out(workload, platform, schedule).T
    run = boxes(schedule).take(box)
    left, right = (run.start - begin) / unit, (run.end - begin) / unit
    deadline = workload.jobs.deadline[run.job]
    late = run.end > deadline
    due = (np.maximum(run.start, deadline)[late] - begin) / unit
    dangled = run.dangled(schedule.ready(workload.jobs))
    waits = dangled > 0
    since = (run.start + dangled - begin)[waits] / unit
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
    names, floor = lanes(workload, platform)
    ax.set(xlim=(0, max((end - begin) / unit, 1e-9)), ylim=(max(floor[-1], 1), 0), ylabel="processors")
    ax.set_xlabel(f"{name} since the first submit")
    if len(names) > 1:
        named = np.flatnonzero(np.diff(floor) >= _ROOM * floor[-1])
        ax.set_yticks((floor[named] + floor[named + 1]) / 2, [cut(names[i]) for i in named.tolist()])
        ax.set_ylabel("" if len(named) else "processors, node after node")
        ax.hlines(floor[1:-1], *ax.get_xlim(), colors="lightgrey", linewidths=0.5)
    if len(names) > len(platform.nodes):
        ax.axhline(platform.cpus, color="black", linewidth=1)
    if waits.any():
        handles.append(Patch(facecolor="white", edgecolor="grey", hatch="....", label="held, and not busy"))
    if late.any():
        handles.append(Patch(facecolor="white", edgecolor="black", hatch="////", label="after its deadline"))
    if handles:
        ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False)


def _boxes(left: Floats, right: Floats, low: Ints, high: Ints) -> Any:
    """The corners of rectangles: shape (rectangles, 4, 2)."""
    return np.stack([np.stack(c, -1) for c in ((left, low), (left, high), (right, high), (right, low))], 1)


def _line(kind: str, workload: Workload, platform: Platform, schedule: Schedule, ax: Any, label: str) -> None:
    begin, end = window(schedule)
    steps: Steps = {"utilization": held_cpus(workload, schedule), "queue": waiting_jobs(schedule),
                    "jobs": jobs_inside(schedule)}[kind]  # fmt: skip
    binned = steps.binned(begin, end, _BINS)
    name, unit = _unit(end - begin)
    share = platform.cpus if kind == "utilization" else 1
    if len(binned.mean):
        ax.stairs(binned.mean / share, (binned.edges - begin) / unit, label=label or None, baseline=None)
    ax.set_xlabel(f"{name} since the first submit")
    ax.set_ylabel({"utilization": "utilization", "queue": "jobs waiting", "jobs": "jobs in the system"}[kind])
    ax.set_ylim(bottom=0)


def _tail(kind: str, values: Floats, ax: Any, label: str) -> None:
    ranked, above = np.sort(values), 1 - np.arange(len(values)) / max(len(values), 1)
    ax.step(np.maximum(ranked, 1), above, where="pre", label=label or None)
    ax.set(xscale="log", yscale="log", ylabel="share of jobs at or above")
    ax.set_xlabel("wait (s); shorter ones at 1 s" if kind == "wait" else "bounded slowdown")
