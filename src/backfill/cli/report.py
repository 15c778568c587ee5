"""backfill report: the page of a saved result, or of the shards of a comparison."""

from typing import Annotated

import typer

from backfill.cli import say
from backfill.cli.inputs import check_outputs
from backfill.cli.options import Json, Quiet, Verbose, examples
from backfill.cli.output import print_json


@examples("backfill report saved", "backfill report saved --out page.html", "backfill report runs-1 runs-2 runs-3")
def report(
    results: Annotated[
        list[str],
        typer.Argument(
            metavar="RESULT...",
            help="A folder that --save wrote, or a file that --json printed. Folders of `compare --shard` are merged.",
        ),
    ],
    out: Annotated[str, typer.Option("--out", metavar="OUT.html", help="File or folder for the page.")] = "report.html",
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Make the page of a saved result again, or merge the shards of a comparison and print it as `compare` does."""
    check_outputs({}, out=out)

    from backfill.report.saved import has_only_runs, rewrite

    if len(results) > 1 or has_only_runs(results[0]):
        from backfill.cli.shards import print_merged

        print_merged(results, out, as_json)
        say.note(f"wrote {out}")
        return
    page = rewrite(results[0], out)
    if as_json:
        print_json({"schema": 1, "out": out, "charts": bool(page.shown)})
    if not page.shown:
        say.note("tables only: the file holds no schedules; a folder made by --save DIR does")
    say.note(f"wrote {out}")
