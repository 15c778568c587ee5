"""The text form of metrics, with headings, the same in the terminal and on a page."""

import re
from collections.abc import Sequence

from backfill.analysis.metric_table import LOWER, NEITHER, described
from backfill.analysis.metrics import Metrics
from backfill.model.units import NONE, UNITS, times, unit_of

HEADLINE = ("mean_wait_s", "p95_wait_s", "mean_bounded_slowdown", "utilization", "max_queue")
FARM = ("out_deadline", "licence_usage", "mean_project_turnaround_s")  # shown if a workload or platform has them
TROUBLE = ("killed_jobs", "rejected_jobs", "lost_cpu_hours", "failed_jobs", "pending_jobs")  # shown if positive

NAME_MAX = 80  # characters of a name shown in a table

# Short reasons of a start, as on the page; the keys are REASONS. static/words.js has longer texts.
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
# The end of a wait, by the reason of the start.
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
EXPLAINED = ("mean_bounded_slowdown", "p95_wait_s")  # headline metrics whose headings do not explain them
BOUND_0 = "the bound is 0: there may be a schedule in which no job waits"


def cut(name: str) -> str:
    """Shorten a name for a table."""
    return name if len(name) <= NAME_MAX else name[: NAME_MAX - 1] + "…"


def texts(name: str, values: Sequence[float | int | None], unit: str | None = None) -> list[str]:
    """Format values of one metric side by side: `-` if missing.

    Times have one unit, so that they are easy to compare; shares are in percent. unit: of waits, see `wait_unit`.
    """
    if described(name).unit == "s":
        return times(values, unit if "wait" in name else None)
    share = described(name).share
    return [NONE if value is None else f"{value:.1%}" if share else number(value) for value in values]


def columns(names: Sequence[str], metrics: Sequence[Metrics], unit: str | None = None) -> list[tuple[str, list[str]]]:
    """Return the metrics of results side by side: (heading, a text per result) for each metric. unit: of waits."""
    return [(described(name).heading, texts(name, [each.get(name) for each in metrics], unit)) for name in names]


def best(name: str, metrics: Sequence[Metrics]) -> list[bool]:
    """Return for each of several results whether no other has a better value of a metric; none if all are equal."""
    values = [each.get(name) for each in metrics]
    known = {value for value in values if value is not None}
    if len(known) < 2 or described(name).better == NEITHER:
        return [False] * len(values)
    least = min(known) if described(name).better == LOWER else max(known)
    return [value == least for value in values]


def wait_unit(metrics: Sequence[Metrics]) -> str:
    """Return the unit of all waits of an output, in which mean and 95th percentile of all policies read well."""
    waits = [value for each in metrics for name in ("mean_wait_s", "p95_wait_s") if (value := each.get(name))]
    least, most = min(waits, default=0), max(waits, default=0)
    large = [u for u, size in UNITS.items() if most >= 2 * size and least >= 0.75 * size and most < 10_000 * size]
    return next(iter(large), unit_of(waits))


def number(value: float) -> str:
    """Format a number with at least four digits: `0.1200`, `92.58`, `6,815`."""
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 999.95 else f"{value:#.4g}"


def share_text(share: float) -> str:
    """Format a share as a percentage; a positive one is never shown as 0."""
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def grouped(text: str) -> str:
    """Group the digits of whole numbers in a text: `jobs of 4,096 or more cpus`."""
    return re.sub(r"(?<![\w.,])\d{4,}(?![\w.,]*\d)", lambda digits: f"{int(digits[0]):,}", text)


def headline(all_metrics: Sequence[Metrics]) -> list[str]:
    """Return the names of the metrics worth a column, given those of all the results side by side."""
    farm = [name for name in FARM if any(name in metrics for metrics in all_metrics)]
    usual = [name for name in HEADLINE if name != "utilization" or not without_cpus(all_metrics)]
    return [*usual, *farm, *(name for name in TROUBLE if any(metrics.get(name) for metrics in all_metrics))]


def without_cpus(all_metrics: Sequence[Metrics]) -> bool:
    """Return whether no job held a cpu, but some held another resource: then the utilization of cpus is meaningless."""
    held = any(value for each in all_metrics for name, value in each.items() if name.startswith("utilization_"))
    return held and not any(metrics["utilization"] for metrics in all_metrics)
