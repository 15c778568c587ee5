"""backfill report: the page of a saved result."""

from typing import Annotated

import typer

from backfill.cli import say
from backfill.cli.options import Json, Quiet, Verbose, examples
from backfill.cli.output import print_json
from backfill.traces.files import check_writable


@examples("backfill report saved", "backfill report saved --out page.html")
def report(
    result: Annotated[
        str, typer.Argument(metavar="RESULT", help="A folder that --save wrote, or a file that --json printed.")
    ],
    out: Annotated[str, typer.Option("--out", metavar="OUT.html", help="File or folder for the page.")] = "report.html",
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Make the page of a saved result again."""
    check_writable(out)

    from backfill.report.saved import rewrite

    page = rewrite(result, out)
    if as_json:
        print_json({"schema": 1, "out": out, "charts": bool(page.shown)})
    if not page.shown:
        say.note("tables only: the file holds no schedules; a folder made by --save DIR does")
    say.note(f"wrote {out}")
