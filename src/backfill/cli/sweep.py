"""backfill compare --sweep: the same policies under estimates that get worse, as a table and as figures."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill.cli import say
from backfill.cli.options import RunOptions
from backfill.cli.output import print_json, print_lines
from backfill.model.errors import UsageError
from backfill.traces.files import check_folder, make_folder

if TYPE_CHECKING:
    from backfill.estimate_sweep import EstimateSweep
    from backfill.executors import Where
    from backfill.model.platform import Platform
    from backfill.report.plots import Figure
    from backfill.saved_runs import SavedRuns
    from backfill.spec import RunSpec

SHOWN = ("mean_wait_s", "mean_bounded_slowdown", "broken_share", "mean_slip_s", "max_slip_s")
DRAWN = {  # metric: name of its figure
    "mean_wait_s": "wait",
    "mean_bounded_slowdown": "slowdown",
    "mean_slip_s": "slip",
    "broken_share": "broken",
}


def check_sweep(
    specs: "Sequence[RunSpec]", sweep: str, figures: str | None, options: RunOptions, others: Mapping[str, object]
) -> None:
    """Raise UsageError for options that cannot be combined with a sweep."""
    from backfill.analysis.names import names_of
    from backfill.estimate_sweep import parse_kind

    if given := [name for name, value in others.items() if value]:
        raise UsageError(f"--{given[0]} shows one kind of estimates and cannot be combined with --sweep")
    if options.estimates != "requested":
        raise UsageError("--estimates cannot be combined with --sweep, which names the estimates")
    if options.predict is not None:
        raise UsageError("--predict cannot be combined with --sweep, which names the predictors")
    names_of([(spec.policy.name, spec.non_defaults) for spec in specs])
    for kind in sweep.split(","):
        parse_kind(kind)
    if figures is not None:
        from backfill.report.plots import check_plot

        check_folder(figures)
        check_plot()


def compare_under(
    log: Any,
    platform: "Platform | None",
    specs: "Sequence[RunSpec]",
    sweep: str,
    replications: int,
    where: "Where",
    as_json: bool,
    figures: str | None,
    saved: "SavedRuns | None" = None,
) -> "EstimateSweep":
    """Run a sweep, print it, and draw its figures. saved: has the runs that were finished before."""
    from backfill.cli.run import compile_one, engine

    engine()
    from backfill.estimate_sweep import sweep_specs

    for spec in specs:
        compile_one(spec.policy)
    kinds = sweep.split(",")
    with say.bar("compare", 1000) as bar:
        many = len(kinds) * len(specs) * replications
        tell = None if bar is None else lambda done: bar(min(round(1000 * done / many), 1000))
        swept = sweep_specs(log, platform, specs, kinds, replications, where, tell, saved)
    if as_json:
        print_json(swept.to_dict())
    else:
        print_swept(swept)
    if figures is not None:
        _draw(swept, Path(figures))
    return swept


def print_swept(swept: "EstimateSweep") -> None:
    """Print a sweep as a table, and the jobs that start later than under the first kind."""
    from rich import box
    from rich.table import Table

    from backfill.analysis.metric_table import described
    from backfill.report.terminal import stacked
    from backfill.report.values import texts

    print(swept.title)
    print()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for head in ("policy", "estimates"):
        table.add_column(head, overflow="fold", vertical="bottom")
    for metric in SHOWN:
        table.add_column(stacked(described(metric).heading), justify="right", no_wrap=True, vertical="bottom")
    hurt, last = [], ""
    for row in swept.rows():
        cells = [texts(metric, [row[metric]])[0] for metric in SHOWN]
        table.add_row("" if row["policy"] == last else row["policy"], row["estimates"], *cells)
        last = row["policy"]
        if row["estimates"] != swept.kinds[0] and row["worst_class"]:
            more = texts("mean_wait_s", [row["worst_class_s"]])[0]
            hurt.append(
                f"{row['policy']}, {row['estimates']}: {row['jobs_later']:,} jobs; hit most: jobs of "
                f"{row['worst_class']}, by {more} on average"
            )
    print_lines(table)
    print()
    if hurt:
        print(f"jobs that start later than under {swept.kinds[0]}:")
    for line in hurt:
        print(textwrap.fill(line, 80, initial_indent="  ", subsequent_indent="    "))


def _draw(swept: "EstimateSweep", folder: Path) -> None:
    from backfill.report.plots import write_figure

    make_folder(folder)
    drawn = _figures(swept)
    for figure in drawn:
        write_figure(figure, folder)
    say.note(f"wrote {len(drawn)} figures to {folder}: {', '.join(figure.name for figure in drawn)}")


def _figures(swept: "EstimateSweep") -> "list[Figure]":
    from backfill.analysis.interval import Estimate
    from backfill.analysis.metric_table import described
    from backfill.report.plots import Figure

    figures = []
    for metric, name in DRAWN.items():
        about = described(metric)
        lines = {}
        for policy, each in enumerate(swept.names):
            values = swept.values(metric, policy)
            if any(values):
                lines[each] = [Estimate.of(replicated) if replicated else None for replicated in values]
        if lines:
            title, unit = about.heading, ", s" if about.unit == "s" else ", %" if about.share else ""
            figures.append(
                Figure(
                    f"estimates-{name}",
                    title[0].upper() + title[1:],
                    "estimates",
                    f"{title}{unit}",
                    list(swept.kinds),
                    lines,
                    percent=about.share,
                )
            )
    return figures
