"""backfill demo: a bundled real log through several policies."""

from pathlib import Path
from typing import Annotated

import typer

from backfill.cli import say
from backfill.cli.options import Quiet, Verbose, examples
from backfill.cli.output import print_table
from backfill.traces.files import check_writable

POLICIES = ("fcfs", "easy", "easy-sjbf", "conservative")
PAGE = "backfill-demo.html"


@examples("backfill demo", "backfill demo --out /tmp")
def demo(
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where the page goes.")] = ".",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run a bundled real log through several policies; print a table and write a page."""
    page = Path(out) / PAGE
    check_writable(page)

    from backfill.cli.run import compare_all
    from backfill.data import EAGLE, EAGLE_CPUS, EAGLE_LOAD
    from backfill.model.platform import Platform
    from backfill.spec import RunSpec
    from backfill.traces.read import read

    pool = Platform.pool(EAGLE_CPUS)
    workload = read(EAGLE).at_load(EAGLE_LOAD)
    why = (
        f"at its own pace the log leaves this machine idle, so jobs arrive {EAGLE_LOAD:g} times as fast as they did; "
        "the machine's size is assumed"
    )
    found = compare_all(workload, pool, [RunSpec.of(name) for name in POLICIES])
    say.note(why)
    print_table(list(zip(found.names, found.metrics, strict=True)), found.title)
    found.report(page, "backfill demo", why)
    say.note(f"wrote {page}")
    say.following("backfill compare LOG, with a log of your own; backfill policies lists what can be compared")
