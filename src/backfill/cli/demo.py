"""backfill demo: a bundled real log through several policies."""

from pathlib import Path
from typing import Annotated

import typer

from backfill.cli import say
from backfill.cli.options import Json, Quiet, Verbose, examples
from backfill.cli.output import USUAL, print_compared, print_json
from backfill.traces.files import check_writable, make_folder

LOG = "sample:itp"
PAGE = "backfill-demo.html"


@examples("backfill demo", "backfill demo --out /tmp")
def demo(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Page, or folder for it.")] = ".",
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run a bundled real log through several policies; print a table and write a page."""
    page = Path(out)
    if page.suffix != ".html":
        make_folder(out)
        page /= PAGE
    check_writable(page)

    from backfill.cli.run import compare_all
    from backfill.spec import RunSpec
    from backfill.traces.read import read

    workload = read(LOG)
    comparison = compare_all(workload, workload.platform, [RunSpec.of(name) for name in USUAL])
    for text in workload.remarks:
        say.note(text)
    if as_json:
        print_json(comparison.to_dict())
    else:
        print_compared(comparison)
    comparison.report(page, "backfill demo")
    say.note(f"wrote {page}: open it in a browser")
    longest = next(wait for wait in comparison.waits if wait.policy == USUAL[1])
    say.following(f"backfill simulate {LOG} --policy {longest.policy} --explain {longest.job}")
