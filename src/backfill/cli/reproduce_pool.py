"""backfill reproduce ibb --pool htcondor: the experiment of the IBB paper on a real pool."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from backfill.cli import say
from backfill.cli.output import print_lines
from backfill.model.errors import BadArgument, UsageError
from backfill.model.units import SECOND
from backfill.traces.files import make_folder, written_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backfill.papers.claims import Claim
    from backfill.papers.ibb_pool import OnPool, PoolAsked

POOLS = ("htcondor",)
PAPER = "ibb"


@dataclass(frozen=True, slots=True)
class OfPool:
    """The options that only apply to a real pool."""

    scale: float | None
    policies: tuple[str, ...]
    cycle: str | None

    def refused(self) -> str:
        """Return the first of these options that is given; empty if none is."""
        given = {"--scale": self.scale is not None, "--policy": bool(self.policies), "--cycle": self.cycle is not None}
        return next((name for name, is_given in given.items() if is_given), "")


def check_pool(pool: str | None, paper: str, own: OfPool, others: dict[str, bool]) -> None:
    """Raise an error for options that cannot be combined. others: options without effect on a pool -> whether given."""
    if pool is None:
        if name := own.refused():
            raise UsageError(f"{name} is for a real pool; add --pool htcondor")
        return
    if pool not in POOLS:
        raise BadArgument("pool", pool, " or ".join(POOLS))
    if paper != PAPER:
        raise UsageError(f"--pool is for the experiment of {PAPER} on a real pool; {paper} has none")
    if given := [name for name, is_given in others.items() if is_given]:
        raise UsageError(f"{given[0]} cannot be combined with --pool; leave one of them out")


def reproduce_on_pool(own: OfPool, replications: int | None, seed: int, folder: str) -> "Sequence[Claim]":
    """Run the experiment on the pool that CONDOR_CONFIG names, write the results, and return the claims."""
    from backfill.gang_run import htcondor
    from backfill.papers.ibb_pool import POLICIES, REPLICATIONS, reproduce
    from backfill.papers.write import write
    from backfill.policies import get
    from backfill.report.plots import check_plot

    check_plot()
    asked, path = _asked(own, replications, seed), Path(folder)
    pool = htcondor(path)
    try:
        make_folder(folder)
        with say.busy(f"preparing {PAPER}"):
            for name in asked.policies:
                _ = get(name).entry
        with say.bar(f"reproduce {PAPER} on htcondor", 1000) as bar:
            tell = (lambda done, of: None) if bar is None else lambda done, of: bar(round(1000 * done / of))
            found = reproduce(asked, pool, progress=tell)
    finally:
        pool.close()
    found.reproduction.provenance.update(
        {"command": say.command(), "seed": str(seed), "replications": str(asked.replications)}
    )
    with written_text(path / "runs.json") as out:
        json.dump(found.runs, out, indent=1, allow_nan=False)
        out.write("\n")
    write(found.reproduction, folder)
    _print(found)
    if asked.replications < REPLICATIONS or {*asked.policies} != {*POLICIES}:
        say.note(f"quick look: {REPLICATIONS} replications of {', '.join(POLICIES)} are usual")
    figures = len(found.reproduction.figures)
    say.note(f"wrote {folder}/index.html, claims.json, runs.json and {figures} figures as PNG, SVG and CSV")
    return found.reproduction.claims


def _asked(own: OfPool, replications: int | None, seed: int) -> "PoolAsked":
    """Check the options and return them as a request."""
    from backfill.cli.inputs import span_of
    from backfill.papers.ibb_pool import NEGOTIATION_S, POLICIES, REPLICATIONS, SCALE, PoolAsked

    scale = SCALE if own.scale is None else own.scale
    if not 0 < scale <= 1:
        raise BadArgument("scale", scale, "a number > 0 and <= 1")
    if unknown := [name for name in own.policies if name not in POLICIES]:
        raise BadArgument("policy", unknown[0], f"one of {', '.join(POLICIES)}")
    cycle = NEGOTIATION_S * scale if own.cycle is None else span_of("cycle", own.cycle) / SECOND
    policies = tuple(dict.fromkeys(own.policies)) or POLICIES
    return PoolAsked(policies, REPLICATIONS if replications is None else replications, seed, scale, cycle)


def _print(found: "OnPool") -> None:
    from rich import box
    from rich.table import Table

    from backfill.papers.ibb_claims import LABELS
    from backfill.papers.ibb_pool import METRICS

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("")
    for name in found.names:
        table.add_column(LABELS[name], justify="right")
    for metric, (what, unit) in METRICS.items():
        for world, each in found.table[metric].items():
            values = [f"{one.mean:.3g}" + (f" ±{_half(one.low, one.high):.2g}" if one.bounded else "") for one in each]
            table.add_row(f"{what}{f', {unit}' if unit else ''}, {world}", *values)
    print_lines(table)


def _half(low: float, high: float) -> float:
    return (high - low) / 2 if math.isfinite(low) else 0.0
