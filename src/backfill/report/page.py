"""Write results as one HTML page that needs neither network nor other files."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from backfill.analysis.metric_table import described
from backfill.analysis.metrics import NOTHING, Counted, Metrics, Trim
from backfill.analysis.resources import shared
from backfill.analysis.series import window
from backfill.model.events import BoundEvents
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.units import NEVER
from backfill.model.workload import Labels, Workload
from backfill.report import losers
from backfill.report.chart import SIDE
from backfill.report.dates import Dates
from backfill.report.differences import Differences
from backfill.report.distances import distance_rows
from backfill.report.fidelity import fidelity_section
from backfill.report.findings import Findings
from backfill.report.first import First
from backfill.report.gantt import has_sites, pack
from backfill.report.lines import lines
from backfill.report.predicted import predicted
from backfill.report.projects import RESULTS, ROW, Projects
from backfill.report.reality import Reality, class_rows, replay_rows
from backfill.report.rows import licence_lanes, turns_of
from backfill.report.sentences import chance, with_baseline
from backfill.report.settings import settings_section
from backfill.report.shown import Shown
from backfill.report.swept import swept
from backfill.report.templating import templates
from backfill.report.values import EXPLAINED, best, columns, cut, headline, wait_unit
from backfill.traces.files import written

USERS = 500  # offered by the filter field; any other can be typed
# Scripts of every page, of the timelines of projects, and of the chart of every job.
BASE = ("dates", "words", "tables", "plots")
PROJECTS = ("hand", "projects")
SCRIPTS = ("data", "rows", "raster", "colours", "front", "use", "chart", "hand", "found", "view", "page")
CONTENTS: dict[str, tuple[str, str | None]] = {  # section id -> its name, and the value that it needs
    "fidelity": ("fidelity", "fidelity"),
    "settings": ("settings of Slurm", "settings"),
    "summary": ("all policies", "headline"),
    "losers": ("who waits longer", "groups"),
    "estimates": ("wrong estimates", "sweep"),
    "predictions": ("predictions", "predictions"),
    "projects": ("projects", "projects"),
    "gantt": ("every job", "gantt"),
    "distributions": ("waits and slowdowns", "lines"),
    "time": ("over time", "lines"),
    "differences": ("how sure", "pairs"),
    "reality": ("against reality", "reality"),
    "bounds": ("optimum", "gaps"),
    "metrics": ("all metrics", None),
    "provenance": ("how this report was made", None),
}
_NOTHING_FOUND: dict[str, Any] = {
    "sweep": None,
    "settings": None,
    "pairs": (),
    "gaps": (),
    "distances": (),
    "groups": (),
    "reality": None,
    "first": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The origin of the numbers, and the command that reproduces them."""

    version: str
    seed: int
    command: str  # as typed
    hashes: Mapping[str, str] = field(default_factory=dict)  # input -> its SHA-256
    notes: Sequence[str] = ()  # assumptions and omissions, one sentence each


@dataclass(frozen=True, eq=False, slots=True)
class PolicyRun:
    """The result of one policy: its metrics, and its schedule if available."""

    policy: str
    metrics: Metrics
    schedule: Schedule | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Page:
    """The content of a page."""

    title: str
    runs: Sequence[PolicyRun]
    provenance: Provenance
    findings: Findings
    sentences: Sequence[str] = ()  # the findings in words
    shown: Sequence[Shown] = ()  # lines over time and distributions, of all runs or of none
    ran: tuple[Workload, Platform] | None = None  # for the chart of every job
    reality: Reality | None = None  # if the log recorded waits
    events: BoundEvents | None = None  # whose outages the chart shades
    explained: Sequence[Mapping[int, str]] = ()  # for each run: row of the workload -> explanation of that job's wait
    asked: int | None = None  # the row of the job selected in the chart at first
    projects: Projects | None = None  # if policies promised them departures
    sweep: Mapping[str, Any] | None = None  # kinds of estimates, and a row for each policy under each
    fidelity: Mapping[str, Any] | None = None  # of a model of the watched pool
    predictions: tuple[str, Sequence[Mapping[str, Any]]] | None = None  # of a policy: errors for each user
    settings: Mapping[str, Any] | None = None  # the effect of other settings of a site's own Slurm

    @classmethod
    def of(
        cls,
        title: str,
        runs: Sequence[PolicyRun],
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
        sweep: Mapping[str, Any] | None = None,
        fidelity: Mapping[str, Any] | None = None,
        predictions: tuple[str, Sequence[Mapping[str, Any]]] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> "Page":
        """Build the page of runs over one workload; without workload, platform or schedules it has tables only.

        trims:    the jobs left out of the metrics, first and last.
        findings: with the policies in the order of `runs`.
        """
        schedules = [(run.policy, run.schedule) for run in runs if run.schedule is not None]
        if workload is None or platform is None or len(schedules) < len(runs):
            found = findings or Findings([], [])
            more: dict[str, Any] = {"reality": reality, "projects": projects, "sweep": sweep, "fidelity": fidelity}
            more["predictions"], more["settings"] = predictions, settings
            return cls(title, runs, provenance, found, sentences, **more)
        span = window(*(schedule for _, schedule in schedules))
        shown = [
            Shown.of(workload, platform, schedule, Counted.of(workload, schedule, *trims), span)
            for _, schedule in schedules
        ]
        found = findings or Findings.of(workload, schedules, *trims)
        both = (workload, platform)
        chart = (both, reality, events, explained, asked)
        judged = (projects, sweep, fidelity, predictions, settings)
        return cls(title, runs, provenance, found, sentences, shown, *chart, *judged)


def write_page(path: str | Path, page: Page) -> None:
    """Write the page to a file, completely or not at all. Raises BackfillError."""
    text = render(page)
    with written(path) as out:
        out.write(text.encode(errors="replace"))  # a file name need not be UTF-8


def render(page: Page) -> str:
    """Render the page as HTML; every external text is escaped."""
    policies, metrics = [run.policy for run in page.runs], [run.metrics for run in page.runs]
    nothing = _nothing(page)
    chart = _jobs(page)
    projects = page.projects if not nothing else None
    scripts = [*(() if nothing else BASE), *(SCRIPTS if chart["gantt"] else ()), *(PROJECTS if projects else ())]
    script, unit, dates = _script(scripts), wait_unit(metrics), _dates(page) or (projects.dates if projects else None)
    values: dict[str, Any] = {
        "title": page.title,
        "policies": policies,
        "provenance": page.provenance,
        "nothing": nothing,
        "headline": columns(headline(metrics), metrics, unit) if not nothing else [],
        "explained": {described(name).heading: described(name).explanation for name in EXPLAINED},
        "everything": _everything(_names(metrics, known=bool(nothing)), metrics, unit),
        "lines": lines([run.policy for run in page.runs], page.shown, unit, dates)
        if page.shown and not nothing
        else None,
        "unit": unit,
        "dates": dates,
        "side": SIDE,
        "style": Markup(_static("report.css") + (_static("projects.css") if projects else "")),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        **(_found(page, unit) if not nothing else _NOTHING_FOUND),
        **chart,
        "projects": projects,
        "predictions": None if page.predictions is None else predicted(*page.predictions),
        "fidelity": None if page.fidelity is None else fidelity_section(page.fidelity),
        "results": RESULTS,
        "row_height": ROW,
    }
    parts = CONTENTS if page.fidelity is None else dict.fromkeys(("fidelity", "losers", *CONTENTS))
    values["contents"] = [(at, CONTENTS[at][0]) for at in parts if not (need := CONTENTS[at][1]) or values[need]]
    return _TEMPLATES.get_template("page.html.j2").render(values)


def _names(metrics: Sequence[Metrics], known: bool) -> list[str]:
    """Return the names of all metrics, or of those that have a value."""
    names = dict.fromkeys(name for each in metrics for name in each)
    return [name for name in names if not known or any(each.get(name) is not None for each in metrics)]


def _everything(
    names: Sequence[str], metrics: Sequence[Metrics], unit: str
) -> list[tuple[str, list[tuple[str, bool]], str]]:
    """Return the heading of each metric, the text for each result and whether it is the best, and its explanation."""
    rows = []
    for name, (head, cells) in zip(names, columns(names, metrics, unit), strict=True):
        # What reads like the best value is marked like it.
        marked = {cell for cell, is_best in zip(cells, best(name, metrics), strict=True) if is_best}
        rows.append((head, [(cell, cell in marked) for cell in cells], described(name).explanation))
    return rows


def _nothing(page: Page) -> str:
    """Return a sentence for a page without counted jobs; empty if there are any."""
    if not page.runs or any(run.metrics.get("jobs") != 0 for run in page.runs):
        return ""
    if page.ran and not len(page.ran[0]):
        return "There is no job, so there is nothing to show."
    rejected = max(run.metrics.get("rejected_jobs") or 0 for run in page.runs)
    if rejected:
        return f"No job ran: {rejected:,} {'was' if rejected == 1 else 'were'} rejected."
    ran = any(run.schedule is not None and run.schedule.ran.any() for run in page.runs)
    return "No job counts: all jobs that ran are in the warm-up or cool-down." if ran else "No job ran."


def _dates(page: Page) -> Dates | None:
    """Return the calendar of the page, if the log has one."""
    if page.ran is None or not len(page.ran[0]):
        return None
    begin, end = window(*(run.schedule for run in page.runs if run.schedule is not None))
    submit = page.ran[0].jobs.submit
    return Dates.of(
        page.ran[0].calendar,
        min(begin, int(submit.min())) if end > begin else int(submit.min()),
        max(end, int(submit.max())),
    )


def _found(page: Page, unit: str) -> dict[str, Any]:
    """Return the findings of a page: the first screen, differences, bounds and losers."""
    findings = page.findings
    policies = [run.policy for run in page.runs]
    shown = with_baseline(findings.fairness)
    differences = Differences.of(findings.pairs, _values(page), next(iter(policies), ""), unit)
    counts, crossings = losers.crossings(findings.groups, policies, unit)
    return {
        "first": First.of(policies, [run.metrics for run in page.runs], findings, page.reality, unit),
        "pairs": findings.pairs,
        "differences": differences,
        "chance": chance(differences.intervals),
        "sentences": [page.sentences[i] for i in shown if page.sentences],
        "gaps": losers.gap_rows(findings.gaps, unit),
        "distances": distance_rows(findings.distances),
        "groups": losers.by_name(findings.groups, unit),
        "rows_most": losers.ROWS_MOST,
        "counts": counts,
        "crossings": crossings,
        "fairness": losers.fairness_rows(findings.fairness, unit),
        "fairness_heads": losers.FAIRNESS_HEADS,
        "reality": page.reality,
        "replays": replay_rows(page.reality, unit) if page.reality else [],
        "replay_classes": class_rows(page.reality, unit) if page.reality else [],
        "sweep": None if page.sweep is None else swept(page.sweep, unit),
        "long_waits": losers.long_waits(findings.waits, unit),
        "settings": None if page.settings is None else settings_section(page.settings, _dates(page)),
    }


def _values(page: Page) -> dict[str, Metrics]:
    return {run.policy: run.metrics for run in page.runs}


def _jobs(page: Page) -> dict[str, Any]:
    """Return the chart of every job."""
    if not page.ran or not any(run.schedule is not None and run.schedule.ran.any() for run in page.runs):
        return {"gantt": None}
    workload, platform = page.ran
    schedules = [(cut(run.policy), run.schedule) for run in page.runs if run.schedule is not None]
    return {
        "gantt": pack(workload, platform, schedules, events=page.events, explained=page.explained, asked=page.asked),
        "jobs": len(workload),
        "nodes": len(platform.nodes),
        "tied": bool((workload.jobs.project.codes >= 0).any()),
        "deadlines": bool((workload.jobs.deadline < NEVER).any()),
        "licences": len(licence_lanes(workload, platform)) > 0,
        "resources": len(shared(workload, platform)) > 1,
        "users": [cut(name) for name in _frequent(workload.jobs.user)],
        "sites": has_sites(platform),
        "turns": turns_of(schedule for _, schedule in schedules) > 1,
    }


def _frequent(users: Labels) -> list[str]:
    """Return the user names, by number of jobs, descending."""
    count = np.bincount(users.codes[users.codes >= 0], minlength=len(users.names))
    order = np.argsort(-count, kind="stable")[:USERS]
    return [users.names[code] for code in order.tolist() if count[code]]


@cache
def _static(name: str) -> str:
    return (files(__package__) / "static" / name).read_text(encoding="utf-8")


def _script(names: Sequence[str]) -> str:
    """Return the page's own JavaScript, each file once, in a scope of its own; empty if unneeded."""
    each = [_static(f"{name}.js") for name in dict.fromkeys(names)]
    return "".join(['"use strict";\n(() => {\n', *each, "})();\n"]) if each else ""


_TEMPLATES = templates("backfill.report")
_TEMPLATES.filters["cut"] = cut
