"""Results as one HTML page that needs nothing else: no network, no other file."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from backfill.analysis.metrics import NOTHING, Counted, Metrics, Trim
from backfill.analysis.series import window
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.units import SECOND, span_text
from backfill.model.workload import Workload
from backfill.report import losers
from backfill.report.chart import SIDE, count_chart, share_chart, tail_chart
from backfill.report.differences import Differences
from backfill.report.findings import Findings, Grouped
from backfill.report.gantt import pack
from backfill.report.reality import Reality, class_rows, replay_rows
from backfill.report.sentences import one_by_one
from backfill.report.shown import BINS, QUANTILES, Shown, longest, quantiles
from backfill.report.values import WHY, columns, cut, headline, texts
from backfill.traces.files import written

SCRIPTS = ("data", "rows", "raster", "words", "colours", "front", "chart", "hand", "page")
CONTENTS = {  # id of a section -> its name, and the value without which the page does not have it
    "reality": ("against reality", "reality"),
    "summary": ("summary", None),
    "differences": ("differences", "pairs"),
    "bounds": ("optimum", "gaps"),
    "distributions": ("waits and slowdowns", "lines"),
    "time": ("over time", "lines"),
    "losers": ("who loses", "groups"),
    "gantt": ("every job", "gantt"),
    "metrics": ("all metrics", None),
    "provenance": ("where this comes from", None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where the numbers come from, and how to get them again."""

    version: str
    seed: int
    command: str  # exactly as it was typed
    hashes: Mapping[str, str] = field(default_factory=dict)  # what was read -> its SHA-256
    notes: Sequence[str] = ()  # what was assumed or left out, one sentence each


@dataclass(frozen=True, eq=False, slots=True)
class Run:
    """One policy's result: the metrics, and the schedule where it is at hand."""

    policy: str
    metrics: Metrics
    schedule: Schedule | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Page:
    """All that a page tells."""

    title: str
    runs: Sequence[Run]
    provenance: Provenance
    findings: Findings
    sentences: Sequence[str] = ()  # what the findings say in words
    shown: Sequence[Shown] = ()  # lines over time and distributions, of each run or of none
    ran: tuple[Workload, Platform] | None = None  # for the chart of every job
    reality: Reality | None = None  # where the log recorded waits

    @classmethod
    def of(
        cls,
        title: str,
        runs: Sequence[Run],
        provenance: Provenance,
        workload: Workload | None = None,
        platform: Platform | None = None,
        *,
        trims: tuple[Trim, Trim] = (NOTHING, NOTHING),
        findings: Findings | None = None,
        sentences: Sequence[str] = (),
        reality: Reality | None = None,
    ) -> "Page":
        """The page of runs over one workload; without workload, platform or schedules it has tables only.

        trims:    the jobs left out of the metrics, first and last.
        findings: with the policies in the order of `runs`.
        """
        schedules = [(run.policy, run.schedule) for run in runs if run.schedule is not None]
        if workload is None or platform is None or len(schedules) < len(runs):
            return cls(title, runs, provenance, findings or Grouped([], []), sentences, reality=reality)
        span = window(*(schedule for _, schedule in schedules))
        shown = [
            Shown.of(workload, platform, schedule, Counted.of(workload, schedule, *trims), span)
            for _, schedule in schedules
        ]
        found = findings or Grouped.of(workload, schedules, *trims)
        return cls(title, runs, provenance, found, sentences, shown, (workload, platform), reality)


def write_page(path: str | Path, page: Page) -> None:
    """Write the page, the whole file at once or not at all. Raises BackfillError."""
    text = render(page)
    with written(path) as out:
        out.write(text.encode(errors="replace"))  # a name of a file need not be UTF-8


def render(page: Page) -> str:
    """The page as HTML; every text from outside is escaped."""
    metrics = [run.metrics for run in page.runs]
    script = _script() if page.shown else ""
    values: dict[str, Any] = {
        "title": page.title,
        "policies": [run.policy for run in page.runs],
        "provenance": page.provenance,
        "headline": columns(headline(metrics), metrics),
        "everything": columns(list(dict.fromkeys(name for each in metrics for name in each)), metrics),
        "lines": _lines(page.shown) if page.shown else None,
        "why": WHY,
        "side": SIDE,
        "style": Markup(_static("report.css")),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        **_found(page),
        **_jobs(page),
    }
    values["contents"] = [(at, name) for at, (name, need) in CONTENTS.items() if not need or values[need]]
    return _TEMPLATES.get_template("page.html.j2").render(values)


def _lines(shown: Sequence[Shown]) -> dict[str, Any]:
    """The figures, and what stands beside their lines."""
    return {
        "used": share_chart([each.held for each in shown], [each.cpus for each in shown]),
        "queue": count_chart([each.queue for each in shown]),
        "inside": count_chart([each.inside for each in shown]),
        "queue_peaks": [f"most {each.queue.most.max(initial=0):,}" for each in shown],
        "inside_peaks": [f"most {each.inside.most.max(initial=0):,}" for each in shown],
        "waits": tail_chart([each.waits for each in shown], seconds=True),
        "slowdowns": tail_chart([each.slowdowns for each in shown], seconds=False),
        "wait_table": _quantiles("wait_s", [quantiles(each.waits) for each in shown]),
        "slowdown_table": _quantiles("slowdown", [quantiles(each.slowdowns) for each in shown]),
        "bin": span_text(longest(shown) / BINS),
    }


def _found(page: Page) -> dict[str, Any]:
    """What was found about differences, bounds and who loses."""
    found = page.findings
    policies = [run.policy for run in page.runs]
    told = one_by_one(found.fairness)
    counts, crossings = losers.crossings(found.groups, policies)
    return {
        "pairs": found.pairs,
        "differences": Differences.of(
            found.pairs, _values(page), None if len(told) == len(found.fairness) else policies[0]
        ),
        "sentences": [page.sentences[i] for i in told if page.sentences],
        "gaps": losers.gap_rows(found.gaps),
        "groups": losers.by_name(found.groups),
        "counts": counts,
        "crossings": crossings,
        "fairness": losers.fairness_rows(found.fairness),
        "fairness_heads": losers.FAIRNESS_HEADS,
        "reality": page.reality,
        "replays": replay_rows(page.reality) if page.reality else [],
        "replay_classes": class_rows(page.reality) if page.reality else [],
        "long_waits": losers.long_waits(found.waits),
    }


def _values(page: Page) -> dict[str, Metrics]:
    return {run.policy: run.metrics for run in page.runs}


def _jobs(page: Page) -> dict[str, Any]:
    """The chart of every job."""
    if not page.ran:
        return {"gantt": None}
    workload, platform = page.ran
    schedules = [(cut(run.policy), run.schedule) for run in page.runs if run.schedule is not None]
    return {"gantt": pack(workload, platform, schedules), "jobs": len(workload), "nodes": len(platform.nodes)}


def _quantiles(name: str, values: Sequence[Sequence[float | None]]) -> list[tuple[str, list[str]]]:
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
_TEMPLATES.filters["span"] = lambda seconds: span_text(seconds * SECOND)
