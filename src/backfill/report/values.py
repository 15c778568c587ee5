"""The text form of metrics, with headings, the same in the terminal and on a page."""

import re
from collections.abc import Sequence

from backfill.analysis.metrics import Metrics
from backfill.model.spans import NONE, UNITS, times, unit_of

HEADLINE = ("mean_wait_s", "p95_wait_s", "mean_bounded_slowdown", "utilization", "max_queue")
FARM = ("out_deadline", "licence_usage", "mean_project_turnaround_s")  # told where a workload or platform has them
SHARES = ("utilization", "fragmentation", "out_deadline", "system_usage", "licence_usage")  # so their names begin
TROUBLE = ("killed_jobs", "rejected_jobs", "lost_cpu_hours", "failed_jobs", "pending_jobs")  # told where there are any

NAME_MAX = 80  # characters of a name that a table shows
_HEADINGS = {
    "out_deadline": "missed deadlines",
    "mean_bounded_slowdown": "bounded slowdown",
    "mean_project_turnaround_s": "project turn-around",
    "throughput_jobs_per_h": "jobs per hour",
}

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
BOUND_0 = "the bound is 0: there may be a schedule in which no job waits"


def heading(name: str) -> str:
    """The heading of a metric: `mean wait` for `mean_wait_s`."""
    return _HEADINGS.get(name) or name.removesuffix("_s").replace("_", " ")


def cut(name: str) -> str:
    """A name short enough for a table."""
    return name if len(name) <= NAME_MAX else name[: NAME_MAX - 1] + "…"


def texts(name: str, values: Sequence[float | int | None], unit: str | None = None) -> list[str]:
    """Values of one metric to stand side by side: `-` where there is none.

    Times have one unit, so that they compare at a glance; shares are in percent. unit: of waits, see `wait_unit`.
    """
    if name.endswith("_s"):
        return times(values, unit if "wait" in name else None)
    return [NONE if value is None else f"{value:.1%}" if name.startswith(SHARES) else number(value) for value in values]


def columns(names: Sequence[str], metrics: Sequence[Metrics], unit: str | None = None) -> list[tuple[str, list[str]]]:
    """Metrics of results side by side: (heading, a text per result) for each of these metrics. unit: of waits."""
    return [(heading(name), texts(name, [each.get(name) for each in metrics], unit)) for name in names]


def wait_unit(metrics: Sequence[Metrics]) -> str:
    """The unit of every wait of an output: the one in which mean and 95th percentile of all policies read well."""
    waits = [value for each in metrics for name in ("mean_wait_s", "p95_wait_s") if (value := each.get(name))]
    least, most = min(waits, default=0), max(waits, default=0)
    large = [u for u, size in UNITS.items() if most >= 2 * size and least >= 0.75 * size and most < 10_000 * size]
    return next(iter(large), unit_of(waits))


def number(value: float) -> str:
    """A number with at least four digits: `0.1200`, `92.58`, `6,815`."""
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 999.95 else f"{value:#.4g}"


def share_text(share: float) -> str:
    """A share as a percentage; one that is not 0 does not read as 0."""
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def grouped(text: str) -> str:
    """Whole numbers of a text with commas: `jobs of 4,096 or more cpus`."""
    return re.sub(r"(?<![\w.,])\d{4,}(?![\w.,]*\d)", lambda digits: f"{int(digits[0]):,}", text)


def headline(all_metrics: Sequence[Metrics]) -> list[str]:
    """The names of the metrics worth a column, given those of all the results side by side."""
    farm = [name for name in FARM if any(name in metrics for metrics in all_metrics)]
    usual = [name for name in HEADLINE if name != "utilization" or not without_cpus(all_metrics)]
    return [*usual, *farm, *(name for name in TROUBLE if any(metrics.get(name) for metrics in all_metrics))]


def without_cpus(all_metrics: Sequence[Metrics]) -> bool:
    """Whether no job held a cpu, but some held another resource: then the utilization of cpus tells nothing."""
    held = any(value for each in all_metrics for name, value in each.items() if name.startswith("utilization_"))
    return held and not any(metrics["utilization"] for metrics in all_metrics)
