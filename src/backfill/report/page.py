"""Results as one HTML page that needs nothing else: no network, no other file."""

import base64
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from backfill.analysis.metrics import NOTHING, Counted, Metrics, Trim
from backfill.analysis.series import Binned, window
from backfill.model.events import BoundEvents
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.units import NEVER, SECOND, amount, span_text
from backfill.model.workload import Workload
from backfill.report import losers
from backfill.report.chart import SIDE, count_chart, ratio_chart, share_chart, table, tail_chart
from backfill.report.differences import Differences
from backfill.report.findings import Findings
from backfill.report.gantt import pack
from backfill.report.projects import RESULTS, ROW, Projects
from backfill.report.reality import Reality, class_rows, replay_rows
from backfill.report.rows import licence_lanes
from backfill.report.sentences import chance, one_by_one
from backfill.report.shown import BINS, QUANTILES, Shown, Used, longest, quantiles
from backfill.report.templating import templates
from backfill.report.values import EXPLAINED, NONE, UNTIL, columns, cut, heading, headline, number, texts
from backfill.traces.files import written

FIGURES, AT_ONCE = 100, 8  # so many licences have a figure, and these are seen at once; the table has all
PROJECTS = ("words", "hand", "projects")  # scripts of the timelines of projects
SCRIPTS = ("data", "rows", "raster", "words", "colours", "front", "chart", "hand", "page")
CONTENTS = {  # id of a section -> its name, and the value without which the page does not have it
    "reality": ("against reality", "reality"),
    "summary": ("summary", "headline"),
    "differences": ("differences", "pairs"),
    "bounds": ("optimum", "gaps"),
    "distributions": ("waits and slowdowns", "lines"),
    "time": ("over time", "lines"),
    "losers": ("who loses", "groups"),
    "projects": ("projects", "projects"),
    "gantt": ("every job", "gantt"),
    "metrics": ("all metrics", None),
    "provenance": ("where this comes from", None),
}
_NOTHING_FOUND: dict[str, Any] = {"pairs": (), "gaps": (), "groups": (), "reality": None}


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
    events: BoundEvents | None = None  # whose outages the chart shades
    explained: Sequence[Mapping[int, str]] = ()  # of each run: row of the workload -> why that job waited
    asked: int | None = None  # the row of the job that the chart tells of at first
    projects: Projects | None = None  # where policies promised them departures

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
        events: BoundEvents | None = None,
        explained: Sequence[Mapping[int, str]] = (),
        asked: int | None = None,
        projects: Projects | None = None,
    ) -> "Page":
        """The page of runs over one workload; without workload, platform or schedules it has tables only.

        trims:    the jobs left out of the metrics, first and last.
        findings: with the policies in the order of `runs`.
        """
        schedules = [(run.policy, run.schedule) for run in runs if run.schedule is not None]
        if workload is None or platform is None or len(schedules) < len(runs):
            found = findings or Findings([], [])
            return cls(title, runs, provenance, found, sentences, reality=reality, projects=projects)
        span = window(*(schedule for _, schedule in schedules))
        shown = [
            Shown.of(workload, platform, schedule, Counted.of(workload, schedule, *trims), span)
            for _, schedule in schedules
        ]
        found = findings or Findings.of(workload, schedules, *trims)
        both = (workload, platform)
        return cls(title, runs, provenance, found, sentences, shown, both, reality, events, explained, asked, projects)


def write_page(path: str | Path, page: Page) -> None:
    """Write the page, the whole file at once or not at all. Raises BackfillError."""
    text = render(page)
    with written(path) as out:
        out.write(text.encode(errors="replace"))  # a name of a file need not be UTF-8


def render(page: Page) -> str:
    """The page as HTML; every text from outside is escaped."""
    metrics = [run.metrics for run in page.runs]
    nothing = _nothing(page)
    chart = _jobs(page)
    projects = page.projects if not nothing else None
    script = _script([*(SCRIPTS if chart["gantt"] else ()), *(PROJECTS if projects else ())])
    values: dict[str, Any] = {
        "title": page.title,
        "policies": [run.policy for run in page.runs],
        "provenance": page.provenance,
        "nothing": nothing,
        "headline": columns(headline(metrics), metrics) if not nothing else [],
        "explained": {heading(name): text for name, text in EXPLAINED.items()},
        "everything": columns(_names(metrics, known=bool(nothing)), metrics),
        "lines": _lines(page) if page.shown and not nothing else None,
        "until": UNTIL,
        "side": SIDE,
        "style": Markup(_static("report.css") + (_static("projects.css") if projects else "")),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        **(_found(page) if not nothing else _NOTHING_FOUND),
        **chart,
        "projects": projects,
        "results": RESULTS,
        "row_height": ROW,
    }
    values["contents"] = [(at, name) for at, (name, need) in CONTENTS.items() if not need or values[need]]
    return _TEMPLATES.get_template("page.html.j2").render(values)


def _names(metrics: Sequence[Metrics], known: bool) -> list[str]:
    """Of all metrics, or of those that have a value."""
    names = dict.fromkeys(name for each in metrics for name in each)
    return [name for name in names if not known or any(each.get(name) is not None for each in metrics)]


def _nothing(page: Page) -> str:
    """A sentence for a page of which no job counts; empty where there is one."""
    if not page.runs or any(run.metrics.get("jobs") != 0 for run in page.runs):
        return ""
    if page.ran and not len(page.ran[0]):
        return "There is no job, so there is nothing to show."
    rejected = max(run.metrics.get("rejected_jobs") or 0 for run in page.runs)
    if rejected:
        return f"No job ran: {rejected:,} {'was' if rejected == 1 else 'were'} rejected."
    ran = any(run.schedule is not None and run.schedule.ran.any() for run in page.runs)
    return "No job counts: all that ran are left out at the begin or at the end." if ran else "No job ran."


def _lines(page: Page) -> dict[str, Any]:
    """The figures, and what stands beside their lines."""
    shown, policies = page.shown, [cut(run.policy) for run in page.runs]
    held, queue, inside = ([getattr(each, name) for each in shown] for name in ("held", "queue", "inside"))
    waits, slowdowns = ([quantiles(getattr(each, name)) for each in shown] for name in ("waits", "slowdowns"))
    cpus = [each.cpus for each in shown]
    return {
        "used": share_chart(held, cpus),
        "used_rows": [(when, _shares(row, cpus)) for when, row in table(held)],
        "used_told": _averages(policies, _shares(map(_mean, held), cpus)),
        **_counts("queue", policies, queue),
        **_counts("inside", policies, inside),
        "waits": tail_chart([each.waits for each in shown], seconds=True),
        "waits_told": _each(policies, [_spread("wait_s", each) for each in waits]),
        "wait_table": _quantiles("wait_s", waits),
        "slowdowns": tail_chart([each.slowdowns for each in shown], seconds=False),
        "slowdowns_told": _each(policies, [_spread("slowdown", each) for each in slowdowns]),
        "slowdown_table": _quantiles("slowdown", slowdowns),
        "licences": _used(policies, [each.licences for each in shown]),
        "resources": _used(policies, [each.resources for each in shown]),
        **_balance(policies, [each.imbalance for each in shown if each.imbalance is not None]),
        "bin": span_text(longest(shown) / BINS),
    }


def _used(policies: Sequence[str], shown: Sequence[Sequence[Used]]) -> dict[str, Any] | None:
    """The use of each licence or resource: figures, those in use most first, and a table."""
    rows = [*zip(*shown, strict=True)]
    if not rows:
        return None
    most = sorted(range(len(rows)), key=lambda i: -max(_mean(each.held) / max(each.there, 1) for each in rows[i]))
    cells = [[(_shares([_mean(each.held)], [each.there])[0], f"{each.all_held:.1%}") for each in row] for row in rows]
    highest = max(_most_unusable(row) for row in rows)
    return {
        "at_once": AT_ONCE,
        "rows": [(cut(row[0].name), _there(row), told) for row, told in zip(rows, cells, strict=True)],
        "figures": [_figure(policies, rows[i], highest) for i in most[:FIGURES]],
        "usable": [cut(row[0].name) for row in rows if row[0].unusable and not _most_unusable(row)],
    }


def _figure(policies: Sequence[str], row: Sequence[Used], highest: float) -> dict[str, Any]:
    """The use of one licence or resource under each policy, and what is free but unusable, where something is."""
    wholes, held = [each.there for each in row], [each.held for each in row]
    unusable = [each.unusable for each in row if each.unusable] if _most_unusable(row) else []
    return {
        "name": cut(row[0].name),
        "there": _there(row),
        "chart": share_chart(held, wholes),
        "told": _averages(policies, _shares(map(_mean, held), wholes)),
        "unusable": share_chart(unusable, wholes, highest) if unusable else None,
        "unusable_told": _averages(policies, _shares(map(_mean, unusable), wholes)) if unusable else "",
    }


def _there(row: Sequence[Used]) -> str:
    return amount(row[0].name, row[0].there)


def _most_unusable(row: Sequence[Used]) -> float:
    """The greatest share that is free but unusable in any part of the time, under any policy."""
    return max((float(u.unusable.mean.max(initial=0)) / max(u.there, 1) for u in row if u.unusable), default=0.0)


def _balance(policies: Sequence[str], series: Sequence[Binned]) -> dict[str, Any]:
    """The figure of the imbalance over time, where there are several resources."""
    if not series:
        return {"imbalance": None}
    means = [number(_mean(each)) for each in series]
    rows = table(series)
    return {
        "imbalance": ratio_chart(series),
        "imbalance_means": [f"mean {mean}" for mean in means],
        "imbalance_rows": [(when, [NONE if math.isnan(mean) else number(mean) for mean in row]) for when, row in rows],
        "imbalance_told": _averages(policies, means),
    }


def _counts(name: str, policies: Sequence[str], series: Sequence[Binned]) -> dict[str, Any]:
    """A figure of numbers of jobs over time."""
    most = [f"{each.most.max(initial=0):,}" for each in series]
    means = [f"{_mean(each):,.1f}" for each in series]
    return {
        name: count_chart(series),
        f"{name}_peaks": [f"most {number}" for number in most],
        f"{name}_rows": [(when, [f"{mean:,.1f}" for mean in row]) for when, row in table(series)],
        f"{name}_told": _each(policies, [f"{a} on average, at most {b}" for a, b in zip(means, most, strict=True)]),
    }


def _shares(held: Iterable[float], cpus: Sequence[int]) -> list[str]:
    return [f"{mean / max(whole, 1):.1%}" for mean, whole in zip(held, cpus, strict=True)]


def _each(policies: Sequence[str], texts_: Sequence[str]) -> str:
    """A text for each policy, for those who do not see the lines."""
    return "; ".join(f"{policy}: {text}" for policy, text in zip(policies, texts_, strict=True))


def _averages(policies: Sequence[str], means: Sequence[str]) -> str:
    return _each(policies, [f"{mean} on average" for mean in means])


def _mean(binned: Binned) -> float:
    some = binned.time > 0
    return float(np.average(binned.mean[some], weights=binned.time[some])) if some.any() else 0.0


def _spread(name: str, values: Sequence[float | None]) -> str:
    half, *_, most = (texts(name, [value])[0] for value in values)
    return f"half of the jobs above {half}, at most {most}"


def _found(page: Page) -> dict[str, Any]:
    """What was found about differences, bounds and who loses."""
    found = page.findings
    policies = [run.policy for run in page.runs]
    told = one_by_one(found.fairness)
    differences = Differences.of(found.pairs, _values(page), None if len(told) == len(found.fairness) else policies[0])
    counts, crossings = losers.crossings(found.groups, policies)
    return {
        "pairs": found.pairs,
        "differences": differences,
        "chance": chance(differences.intervals),
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
    if not page.ran or not any(run.schedule is not None and run.schedule.ran.any() for run in page.runs):
        return {"gantt": None}
    workload, platform = page.ran
    schedules = [(cut(run.policy), run.schedule) for run in page.runs if run.schedule is not None]
    return {
        "gantt": pack(workload, platform, schedules, events=page.events, explained=page.explained, asked=page.asked),
        "jobs": len(workload),
        "nodes": len(platform.nodes),
        "deadlines": bool((workload.jobs.deadline < NEVER).any()),
        "licences": len(licence_lanes(workload, platform)) > 0,
    }


def _quantiles(name: str, values: Sequence[Sequence[float | None]]) -> list[tuple[str, list[str]]]:
    """A column for each share; all of the table in one unit where that reads well."""
    heads = [*(f"{percent}%" for percent in QUANTILES), "100%"]
    cells = texts(name, [each[i] for i in range(len(heads)) for each in values])
    return [(head, cells[i * len(values) : (i + 1) * len(values)]) for i, head in enumerate(heads)]


@cache
def _static(name: str) -> str:
    return (files(__package__) / "static" / name).read_text(encoding="utf-8")


def _script(names: Sequence[str]) -> str:
    """The page's own JavaScript, each file once, in a scope of its own; empty where it needs none."""
    each = [_static(f"{name}.js") for name in dict.fromkeys(names)]
    return "".join(['"use strict";\n(() => {\n', *each, "})();\n"]) if each else ""


_TEMPLATES = templates("backfill.report")
_TEMPLATES.filters["cut"] = cut
_TEMPLATES.filters["span"] = lambda seconds: span_text(seconds * SECOND)
