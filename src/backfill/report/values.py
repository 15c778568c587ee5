"""How metrics read: a heading and texts for people, the same in the terminal and on a page."""

from collections.abc import Sequence

from backfill.analysis.metrics import Metrics
from backfill.model.units import SECOND, span_text

HEADLINE = ("mean_wait_s", "p95_wait_s", "mean_bounded_slowdown", "utilization", "max_queue")
TROUBLE = ("killed_jobs", "rejected_jobs")  # told where there are any

NONE = "-"
NAME_MAX = 80  # characters of a name that a table shows
_HEADINGS = {"mean_bounded_slowdown": "bounded slowdown", "throughput_jobs_per_h": "jobs per hour"}
_UNITS = {"d": 86_400, "h": 3600, "min": 60, "s": 1}

# Why a job started, in the words of the page; the keys are REASONS. static/words.js tells them at more length.
WHY = {
    "head": "first in order",
    "backfill": "backfilled",
    "reserved": "its reserved time came",
    "moved-up": "reservation moved up",
    "fit": "fitted",
    "gang": "gang",
    "thread": "thread",
    "resumed": "resumed",
}


def heading(name: str) -> str:
    """What a metric is called: `mean wait` for `mean_wait_s`."""
    return _HEADINGS.get(name) or name.removesuffix("_s").replace("_", " ")


def cut(name: str) -> str:
    """A name short enough for a table."""
    return name if len(name) <= NAME_MAX else name[: NAME_MAX - 1] + "…"


def texts(name: str, values: Sequence[float | int | None]) -> list[str]:
    """Values of one metric to stand side by side: `-` where there is none.

    Times share a unit where that stays readable, so that they compare at a glance; shares are in percent.
    """
    if name.endswith("_s"):
        return _times(values)
    return [NONE if value is None else f"{value:.1%}" if name == "utilization" else number(value) for value in values]


def columns(names: Sequence[str], metrics: Sequence[Metrics]) -> list[tuple[str, list[str]]]:
    """Metrics of results side by side: (heading, a text per result) for each of these metrics."""
    return [(heading(name), texts(name, [each.get(name) for each in metrics])) for name in names]


def brief(seconds: float) -> str:
    """A span of time to two digits or so, for where many stand together."""
    text = span_text(seconds * SECOND)
    amount, unit = text.rsplit(" ", 1)
    return f"{float(amount):,.0f} {unit}" if float(amount) >= 10 else text


def number(value: float) -> str:
    """To four digits at least: `0.1200`, `92.58`, `6,815`."""
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 999.95 else f"{value:#.4g}"


def _times(seconds: Sequence[float | int | None]) -> list[str]:
    some = [abs(value) for value in seconds if value]
    if not some or max(some) > 1e4 * min(some):
        return [NONE if value is None else span_text(value * SECOND) for value in seconds]
    unit, size = next((unit, size) for unit, size in _UNITS.items() if min(some) >= 2 * size or size == 1)
    return [NONE if value is None else f"{value / size:,.1f} {unit}" if value else "0 s" for value in seconds]


def headline(all_metrics: Sequence[Metrics]) -> list[str]:
    """The names of the metrics worth a column, given those of all the results side by side."""
    return [*HEADLINE, *(name for name in TROUBLE if any(metrics.get(name) for metrics in all_metrics))]
