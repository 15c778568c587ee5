"""Write the page of an outcome, new or saved."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from backfill.analysis.metrics import Metrics
from backfill.model.errors import check_path
from backfill.model.platform import size_text
from backfill.model.schedule import Schedule
from backfill.model.units import counted
from backfill.model.workload import remarks
from backfill.report.explained import explained
from backfill.report.findings import Findings
from backfill.report.outcome import Outcome
from backfill.report.page import Page, PolicyRun, Provenance, write_page
from backfill.report.projects import Projects
from backfill.report.reality import Reality
from backfill.report.values import wait_unit

NO_WAITS = "the log records no waits, so these policies cannot be compared with what really happened"


def write_report(path: str | Path, outcome: Outcome) -> None:
    """Write an outcome as one HTML page, completely or not at all."""
    check_path("path", path)
    write_page(path, page_of(outcome))


def page_of(outcome: Outcome) -> Page:
    """Return the page of an outcome; without details it has tables only."""
    saved, details = outcome.data, outcome.details
    results = saved.get("results", [saved])
    names = saved.get("names", [each["policy"] for each in results])
    means: Sequence[Metrics] = [each["mean"] for each in saved.get("replications", [])]
    metrics = means or [each["metrics"] for each in results]
    workload, on = results[0]["workload"], results[0]["platform"]
    size = size_text(on["cpus"], "estimated" in on)
    title = saved.get("title", f"{workload['name']}: {counted(workload['jobs'], 'job')} on {size}")
    real = Reality.of(saved)
    made = provenance(
        results[0]["seed"],
        saved.get("command", ""),
        {workload["name"]: workload["sha256"], f"platform {on['name']}": on["sha256"], **_of_events(results[0])},
        [
            machine_note(workload.get("cpus"), on),
            *([] if real else [NO_WAITS]),
            *remarks(workload["dropped"], workload["notes"]),
            *(note for each in results for note in each["notes"]),
            *saved.get("notes", []),
        ],
    )
    schedules: Sequence[Schedule | None] = details.schedules if details else [None] * len(results)
    runs = [PolicyRun(*each) for each in zip(names, metrics, schedules, strict=True)]
    said: dict[str, Any] = {"findings": Findings.read(saved), "sentences": saved.get("sentences", []), "reality": real}
    said["sweep"], said["fidelity"] = saved.get("sweep"), saved.get("fidelity")
    errors = [(name, each["predictions"]) for name, each in zip(names, results, strict=True) if each.get("predictions")]
    said["predictions"] = errors[0] if errors else None
    said["settings"] = saved.get("settings")
    said["projects"] = Projects.of(names, results, replicated=bool(means))
    if details is None:
        return Page.of(title, runs, made, **said)
    jobs, machines, events = details.workload, details.platform, details.events
    bound = None if events is None else events.bind(jobs, machines)
    said["explained"] = [
        explained(result, jobs, machines, schedule, bound, wait_unit(metrics))
        for result, schedule in zip(results, details.schedules, strict=True)
    ]
    asked = results[0].get("explanation")
    said["asked"] = None if asked is None else jobs.row_of(asked["job"])
    return Page.of(title, runs, made, jobs, machines, trims=details.trims, events=bound, **said)


def _of_events(result: Mapping[str, Any]) -> dict[str, str]:
    """Return the name and hash of its events; empty if it has none."""
    events = result.get("options", {}).get("events")
    return {f"events {events['name']}": events["sha256"]} if events else {}


def machine_note(stated: int | None, platform: Mapping[str, Any]) -> str:
    """Return a note on the machine's size and its source. stated: its processors in the log; platform: as in JSON."""
    cpus, nodes = platform["cpus"], platform["nodes"]
    if "estimated" in platform:
        return f"the machine: {size_text(cpus, True)}; differences between policies depend on its real size"
    size = f"{cpus:,} cpus" + (f" on {nodes:,} nodes" if nodes > 1 else "")
    if stated is None:
        return f"the machine: {size}, as given; the log does not say"
    return f"the machine: {size}, as " + ("the log says" if stated == cpus else f"given; the log says {stated:,} cpus")


def provenance(seed: int, command: str, hashes: Mapping[str, str], notes: Sequence[str]) -> Provenance:
    """Return the origin of a page made by this version of backfill, without duplicate notes."""
    return Provenance(
        version=version("backfill"), seed=seed, command=command, hashes=hashes, notes=list(dict.fromkeys(notes))
    )
