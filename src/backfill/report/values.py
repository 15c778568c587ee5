"""How metrics read: a heading and texts for people, the same in the terminal and on a page."""

import re
from collections.abc import Sequence

from backfill.analysis.metrics import Metrics
from backfill.model.units import SECOND, span_text

HEADLINE = ("mean_wait_s", "p95_wait_s", "mean_bounded_slowdown", "utilization", "max_queue")
FARM = ("out_deadline", "licence_usage", "mean_project_turnaround_s")  # told where a workload or platform has them
SHARES = ("utilization", "fragmentation", "out_deadline", "system_usage", "licence_usage")  # so their names begin
TROUBLE = ("killed_jobs", "rejected_jobs", "lost_cpu_hours", "failed_jobs", "pending_jobs")  # told where there are any

NONE = "-"
NAME_MAX = 80  # characters of a name that a table shows
_HEADINGS = {
    "out_deadline": "missed deadlines",
    "mean_bounded_slowdown": "bounded slowdown",
    "mean_project_turnaround_s": "project turn-around",
    "throughput_jobs_per_h": "jobs per hour",
}
UNITS = {"d": 86_400, "h": 3600, "min": 60, "s": 1}

# Why a job started, in the words of the page; the keys are REASONS. static/words.js tells them at more length.
WHY = {
    "head": "first in the queue",
    "backfill": "backfilled",
    "reserved": "its reserved time came",
    "moved-up": "reservation moved up",
    "fit": "fitted",
    "gang": "gang",
    "thread": "thread",
    "resumed": "resumed",
}
# Until when a job waited, as far as the reason of its start tells.
UNTIL = {
    "head": "until it was first in the queue and enough was free for it",
    "backfill": "until a hole opened that no earlier job could use",
    "reserved": "until its reserved time came",
    "moved-up": "until its reservation moved forward when another job ended",
    "fit": "until enough was free for it",
    "gang": "until all tasks of its gang could start together",
    "thread": "until its thread's turn came",
    "resumed": "until it was resumed",
}
# What a reader may not know of the headline metrics.
EXPLAINED = {
    "mean_bounded_slowdown": "(wait + run) / run, where runs below 10 s count as 10 s",
    "p95_wait_s": "95 of 100 jobs wait no longer",
}
BOUND_0 = "the bound is 0: some schedule might let nobody wait"


def heading(name: str) -> str:
    """What a metric is called: `mean wait` for `mean_wait_s`."""
    return _HEADINGS.get(name) or name.removesuffix("_s").replace("_", " ")


def cut(name: str) -> str:
    """A name short enough for a table."""
    return name if len(name) <= NAME_MAX else name[: NAME_MAX - 1] + "…"


def texts(name: str, values: Sequence[float | int | None], unit: str | None = None) -> list[str]:
    """Values of one metric to stand side by side: `-` where there is none.

    Times share a unit where all read well in it, so that they compare at a glance; shares are in percent.

    unit: of every wait, see `wait_unit`; other times then have one unit as well, whatever their range.
    """
    if name.endswith("_s"):
        return _times(values) if unit is None else times(values, unit if "wait" in name else None)
    return [NONE if value is None else f"{value:.1%}" if name.startswith(SHARES) else number(value) for value in values]


def columns(names: Sequence[str], metrics: Sequence[Metrics], unit: str | None = None) -> list[tuple[str, list[str]]]:
    """Metrics of results side by side: (heading, a text per result) for each of these metrics. unit: of waits."""
    return [(heading(name), texts(name, [each.get(name) for each in metrics], unit)) for name in names]


def wait_unit(metrics: Sequence[Metrics]) -> str:
    """The unit of every wait on a page: the one in which mean and 95th percentile of all policies read well."""
    waits = [value for each in metrics for name in ("mean_wait_s", "p95_wait_s") if (value := each.get(name))]
    least, most = min(waits, default=0), max(waits, default=0)
    large = [u for u, size in UNITS.items() if most >= 2 * size and least >= 0.75 * size and most < 10_000 * size]
    return next(iter(large), _one_unit(waits))


def times(seconds: Sequence[float | int | None], unit: str | None = None) -> list[str]:
    """Spans of time in one unit, by default the one in which they read best."""
    some = [abs(value) for value in seconds if value]
    unit = unit or unit_of(seconds)
    size = UNITS[unit]
    digits = 1 if min(some, default=0) >= 2 * size or max(some, default=0) < 0.005 * size else 2
    return [NONE if value is None else _in_unit(value / size, digits, unit) for value in seconds]


def brief(seconds: float, unit: str) -> str:
    """A span of time in this unit to two digits or so, for where many stand together."""
    value = seconds / UNITS[unit]
    return _in_unit(value, 0 if abs(value) >= 9.95 else 1, unit)


def span(seconds: float, unit: str) -> str:
    """A span of time within a sentence: in this unit, or in a smaller one where it is short."""
    if abs(seconds) < max(0.1 * UNITS[unit], 2):
        return span_text(seconds * SECOND)
    if unit == "s":
        return f"{seconds:,.0f} s"
    return brief(seconds, unit) if abs(seconds) >= 100 * UNITS[unit] else times([seconds], unit)[0]


def _in_unit(value: float, digits: int, unit: str) -> str:
    least = 10.0**-digits
    if 0 < abs(value) < least / 2:
        return f"{'-' if value < 0 else ''}<{least:.{digits}f} {unit}"
    return f"{value:,.{digits}f} {unit}" if value else f"0 {unit}"


def unit_of(seconds: Sequence[float | int | None]) -> str:
    """The unit in which these spans of time read best, those that there are."""
    return _one_unit([abs(value) for value in seconds if value])


def _one_unit(some: Sequence[float]) -> str:
    """The unit in which all of these read well, or else the largest one that the longest of them has ten of."""
    if not some:
        return "s"
    least, most = min(some), max(some)
    return _unit(least, most) or next((unit for unit, size in UNITS.items() if most >= 10 * size), "s")


def number(value: float) -> str:
    """To four digits at least: `0.1200`, `92.58`, `6,815`."""
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 999.95 else f"{value:#.4g}"


def _times(seconds: Sequence[float | int | None]) -> list[str]:
    some = [abs(value) for value in seconds if value]
    unit = _unit(min(some), max(some)) if some else None
    if unit is None:
        return [NONE if value is None else span_text(value * SECOND) for value in seconds]
    size = UNITS[unit]
    digits = 1 if min(some) >= 2 * size else 2
    return [NONE if value is None else f"{value / size:,.{digits}f} {unit}" if value else "0 s" for value in seconds]


def _unit(least: float, most: float) -> str | None:
    """The unit for times of this range: the largest of which all have two, or one, and none a thousand; else that of
    the longest if the shortest has two digits in it."""
    units = [unit for unit, size in UNITS.items() if most >= 2 * size or size == 1]
    full = [u for floor in (2, 1) for u in units if least >= floor * UNITS[u] and most < 1000 * UNITS[u]]
    return next(iter(full), units[0] if least >= 0.095 * UNITS[units[0]] else None)


def grouped(text: str) -> str:
    """Whole numbers of a text with commas: `jobs of 4,096 or more cpus`."""
    return re.sub(r"(?<![\w.,])\d{4,}(?![\w.,]*\d)", lambda found: f"{int(found[0]):,}", text)


def headline(all_metrics: Sequence[Metrics]) -> list[str]:
    """The names of the metrics worth a column, given those of all the results side by side."""
    farm = [name for name in FARM if any(name in metrics for metrics in all_metrics)]
    usual = [name for name in HEADLINE if name != "utilization" or not without_cpus(all_metrics)]
    return [*usual, *farm, *(name for name in TROUBLE if any(metrics.get(name) for metrics in all_metrics))]


def without_cpus(all_metrics: Sequence[Metrics]) -> bool:
    """Whether no job held a cpu, but some held another resource: then the utilization of cpus tells nothing."""
    held = any(value for each in all_metrics for name, value in each.items() if name.startswith("utilization_"))
    return held and not any(metrics["utilization"] for metrics in all_metrics)
