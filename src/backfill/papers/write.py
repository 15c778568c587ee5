"""Write the output of a reproduction: its figures, its claims as JSON, and a page with both."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from backfill.papers.claims import VERDICTS, Claim
from backfill.report.plots import Drawing, write_figure
from backfill.report.templating import templates
from backfill.traces.files import make_folder, written_text


@dataclass(frozen=True, eq=False, slots=True)
class Reproduction:
    """The repeated experiments of one paper."""

    paper: str  # full reference
    setting: Sequence[str]  # the runs, one sentence each
    claims: Sequence[Claim]
    figures: Sequence[Drawing]
    provenance: dict[str, str] = field(default_factory=dict)


def write(found: Reproduction, folder: str | Path) -> None:
    """Write NAME.png, NAME.svg and NAME.csv of every figure, claims.json, and index.html last."""
    folder = Path(folder)
    make_folder(folder)
    for figure in found.figures:
        write_figure(figure, folder)
    with written_text(folder / "claims.json") as out:
        json.dump([claim.to_dict() for claim in found.claims], out, indent=2, ensure_ascii=False, allow_nan=False)
        out.write("\n")
    with written_text(folder / "index.html") as out:
        out.write(_TEMPLATES.get_template("paper.html.j2").render(found=found, verdicts=VERDICTS))


_TEMPLATES = templates("backfill.papers")
