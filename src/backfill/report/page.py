"""Results as one HTML page that needs nothing else: no network, no other file."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from backfill.analysis.metrics import Metrics
from backfill.model.platform import Platform
from backfill.model.units import span_text
from backfill.model.workload import Workload
from backfill.report.chart import SIDE, count_chart, share_chart, tail_chart
from backfill.report.gantt import pack
from backfill.report.shown import BINS, QUANTILES, Shown, longest, quantiles
from backfill.report.values import cut, heading, headline, texts
from backfill.traces.files import written

SCRIPTS = ("data", "rows", "raster", "words", "colours", "front", "chart", "hand", "page")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where the numbers come from, and how to get them again."""

    version: str
    seed: int
    command: str  # exactly as it was typed
    hashes: Mapping[str, str] = field(default_factory=dict)  # what was read -> its SHA-256
    notes: Sequence[str] = ()  # what was assumed or left out, one sentence each


def write_page(
    path: str | Path,
    title: str,
    results: Sequence[Shown],
    provenance: Provenance,
    ran: tuple[Workload, Platform] | None = None,
) -> None:
    """Write the page for these results, the whole file at once or not at all. Raises BackfillError."""
    page = render(title, results, provenance, ran)
    with written(path) as out:
        out.write(page.encode(errors="replace"))  # a name of a file need not be UTF-8


def render(
    title: str,
    results: Sequence[Shown],
    provenance: Provenance,
    ran: tuple[Workload, Platform] | None = None,
) -> str:
    """The page as HTML; every text from outside is escaped.

    ran: the jobs and the platform, for the chart of every job; without them the page has none.
    """
    metrics = [shown.metrics for shown in results]
    names = list(dict.fromkeys(name for each in metrics for name in each))
    schedules = [(shown.policy, shown.schedule) for shown in results if shown.schedule is not None]
    gantt = pack(*ran, [(cut(name), schedule) for name, schedule in schedules]) if ran and schedules else None
    script = _script() if gantt else ""
    return _TEMPLATES.get_template("page.html.j2").render(
        title=title,
        contents=_contents(gantt is not None),
        policies=[shown.policy for shown in results],
        headline=_rows(headline(metrics), metrics),
        everything=_rows(names, metrics),
        used=share_chart([shown.held for shown in results], [shown.cpus for shown in results]),
        queue=count_chart([shown.queue for shown in results]),
        inside=count_chart([shown.inside for shown in results]),
        queue_peaks=[f"most {shown.queue.most.max(initial=0):,}" for shown in results],
        inside_peaks=[f"most {shown.inside.most.max(initial=0):,}" for shown in results],
        waits=tail_chart([shown.waits for shown in results], seconds=True),
        slowdowns=tail_chart([shown.slowdowns for shown in results], seconds=False),
        wait_table=_quantiles("wait_s", [quantiles(shown.waits) for shown in results]),
        slowdown_table=_quantiles("slowdown", [quantiles(shown.slowdowns) for shown in results]),
        bin=span_text(longest(results) / BINS),
        side=SIDE,
        provenance=provenance,
        gantt=gantt,
        jobs=len(ran[0]) if ran else 0,
        nodes=len(ran[1].nodes) if ran else 0,
        style=Markup(_static("report.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _rows(names: Sequence[str], metrics: Sequence[Metrics]) -> list[tuple[str, list[str]]]:
    return [(heading(name), texts(name, [each.get(name) for each in metrics])) for name in names]


def _contents(gantt: bool) -> list[tuple[str, str]]:
    """The sections of the page: id and name."""
    jobs = [("gantt", "every job")] if gantt else []
    return [
        ("summary", "summary"),
        ("distributions", "waits and slowdowns"),
        ("time", "over time"),
        *jobs,
        ("metrics", "all metrics"),
        ("provenance", "where this comes from"),
    ]


def _quantiles(name: str, values: Sequence[Sequence[float | None]]) -> list[tuple[str, list[str]]]:
    """A column per quantile: its heading, and a cell per policy."""
    heads = [*(f"{percent}%" for percent in QUANTILES), "100%"]
    return [(head, texts(name, [each[i] for each in values])) for i, head in enumerate(heads)]


@cache
def _static(name: str) -> str:
    return (files(__package__) / "static" / name).read_text(encoding="utf-8")


def _script() -> str:
    """All of the page's own JavaScript, in a scope of its own."""
    return "".join(['"use strict";\n(() => {\n', *(_static(f"{name}.js") for name in SCRIPTS), "})();\n"])


_TEMPLATES = Environment(
    loader=PackageLoader("backfill.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["cut"] = cut
