"""Results as one HTML page that needs nothing else: no script, no network, no other file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from backfill.analysis.metrics import Metrics
from backfill.analysis.series import Binned, held_cpus, waiting_jobs, window
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.units import span_text
from backfill.model.workload import Workload
from backfill.report.chart import SIDE, count_chart, share_chart
from backfill.report.values import heading, headline, texts
from backfill.traces.files import written

BINS = 100  # points of a line; with more of them lines that cross hide each other


@dataclass(frozen=True, eq=False, slots=True)
class Shown:
    """What the page shows of one policy's schedule."""

    policy: str
    metrics: Metrics
    cpus: int  # of the platform
    held: Binned  # processors held over time
    queue: Binned  # jobs waiting over time

    @classmethod
    def of(cls, policy: str, metrics: Metrics, workload: Workload, platform: Platform, schedule: Schedule) -> "Shown":
        """Of a schedule of `workload` on `platform`, and its metrics."""
        begin, end = window(schedule)
        return cls(
            policy,
            metrics,
            platform.cpus,
            held_cpus(workload, schedule).binned(begin, end, BINS),
            waiting_jobs(schedule).binned(begin, end, BINS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where the numbers come from, and how to get them again."""

    version: str
    seed: int
    command: str  # exactly as it was typed
    hashes: Mapping[str, str] = field(default_factory=dict)  # what was read -> its SHA-256
    notes: Sequence[str] = ()  # what was assumed or left out, one sentence each


def write_page(path: str | Path, title: str, results: Sequence[Shown], provenance: Provenance) -> None:
    """Write the page for these results, the whole file at once or not at all. Raises BackfillError."""
    page = render(title, results, provenance)
    with written(path) as out:
        out.write(page.encode(errors="replace"))  # a name of a file need not be UTF-8


def render(title: str, results: Sequence[Shown], provenance: Provenance) -> str:
    """The page as HTML; every text from outside is escaped."""
    metrics = [shown.metrics for shown in results]
    names = list(dict.fromkeys(name for each in metrics for name in each))
    longest = max((shown.held.edges[-1] - shown.held.edges[0] for shown in results if len(shown.held.mean)), default=0)
    return _TEMPLATES.get_template("page.html.j2").render(
        title=title,
        policies=[shown.policy for shown in results],
        headline=_rows(headline(metrics), metrics),
        everything=_rows(names, metrics),
        used=share_chart([shown.held for shown in results], [shown.cpus for shown in results]),
        queue=count_chart([shown.queue for shown in results]),
        queue_peaks=[f"max {shown.queue.most.max(initial=0):,}" for shown in results],
        bin=span_text(longest / BINS),
        side=SIDE,
        provenance=provenance,
    )


def _rows(names: Sequence[str], metrics: Sequence[Metrics]) -> list[tuple[str, list[str]]]:
    return [(heading(name), texts(name, [each.get(name) for each in metrics])) for name in names]


_TEMPLATES = Environment(
    loader=PackageLoader("backfill.report"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
