"""From results over one workload to their page."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from backfill.analysis.metrics import Metrics
from backfill.analysis.replay import Run as Ran
from backfill.report.findings import Findings
from backfill.report.page import Page, Provenance, Run, write_page
from backfill.report.reality import Reality

NO_WAITS = "the log has no recorded waits, so nothing says how near these policies come to what really happened"


class Finished(Ran, Protocol):
    """One policy's run over one workload; `backfill.Result` is one."""

    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def metrics(self) -> Metrics: ...  # noqa: D102
    @property
    def notes(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def seed(self) -> int: ...  # noqa: D102


def write_report(
    path: str | Path,
    results: Sequence[Finished],
    command: str = "",
    *notes: str,
    title: str = "",
    names: Sequence[str] | None = None,
    metrics: Sequence[Metrics] | None = None,
    findings: Findings | None = None,
    sentences: Sequence[str] = (),
    reality: Reality | None = None,
) -> None:
    """Write results over the same workload as one HTML page, whole or not at all.

    title:     by default that of the first result.
    names:     what the page calls the results; by default what they call themselves.
    metrics:   what stands in its tables; by default those of the results.
    findings:  what a comparison of them found, in their order and under these names; sentences: what it says in words.
    reality:   how near the results come to the waits that the log recorded.
    """
    first = results[0]
    known = zip(names or [r.name for r in results], metrics or [r.metrics for r in results], results, strict=True)
    page = Page.of(
        title or first.title,
        [Run(name, numbers, result.schedule) for name, numbers, result in known],
        provenance(
            first.seed,
            command,
            {first.workload.name: first.workload.sha256, f"platform {first.platform.name}": first.platform.sha256},
            [
                machine_note(first.workload.cpus, first.platform.as_dict()),
                *([] if reality else [NO_WAITS]),
                *first.workload.remarks,
                *(note for result in results for note in result.notes),
                *notes,
            ],
        ),
        first.workload,
        first.platform,
        trims=(first.warmup, first.cooldown),
        findings=findings,
        sentences=sentences,
        reality=reality,
    )
    write_page(path, page)


def machine_note(stated: int | None, platform: Mapping[str, Any]) -> str:
    """How large the machine is and who says so. stated: its processors in the log; platform: as in the JSON."""
    cpus, nodes = platform["cpus"], platform["nodes"]
    size = f"{cpus:,} cpus" + (f" on {nodes:,} nodes" if nodes > 1 else "")
    if stated is None:
        return f"the machine: {size}, as given; the log does not say"
    return f"the machine: {size}, as " + ("the log says" if stated == cpus else f"given; the log says {stated:,} cpus")


def provenance(seed: int, command: str, hashes: Mapping[str, str], notes: Sequence[str]) -> Provenance:
    """Where a page that this version of backfill makes comes from; no note is told twice."""
    return Provenance(
        version=version("backfill"), seed=seed, command=command, hashes=hashes, notes=list(dict.fromkeys(notes))
    )
