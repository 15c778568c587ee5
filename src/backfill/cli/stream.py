"""backfill stream: one policy over a log of any length, its schedule written to a folder."""

from typing import Annotated

import typer

from backfill.cli import say
from backfill.cli.inputs import check_outputs, say_load, stream_inputs, windows_of_site
from backfill.cli.options import (
    Json,
    Log,
    Machine,
    OnePolicy,
    Part,
    Quiet,
    RunOptions,
    Settings,
    Verbose,
    examples,
    grouped,
)
from backfill.cli.output import print_json, print_table
from backfill.model.units import counted


@examples(
    "backfill stream 'model:lublin?jobs=100000000&cpus=256&load=0.8' -o lublin",
    "backfill stream KTH-SP2.swf.gz -o kth --policy conservative --format parquet",
    "backfill stream jobs.csv -o out --platform farm.toml --events outages.csv --part 10000",
)
@grouped
def stream(
    *,
    log: Log,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the schedule; empty, or a new one.")
    ],
    machine: Machine,
    policy: OnePolicy = "easy",
    settings: Settings = None,
    part: Part,
    options: RunOptions,
    size: Annotated[
        int, typer.Option("--part", metavar="N", help="Jobs that come into memory together, and in each file.")
    ] = 262_144,
    format: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="Of the files: csv, csv.gz or parquet.")
    ] = "csv",
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run one policy over a log of any length: jobs come part by part, the schedule goes into a folder file by file."""
    check_outputs({"the log": log, "the events": options.events})

    from backfill.cli.run import described
    from backfill.cli.run import stream as run
    from backfill.streams import check_empty

    check_empty(out, format)
    spec = described(policy, options, settings or [])
    source, pool = stream_inputs(log, size, **vars(machine), **vars(part))
    spec = spec.under(windows_of_site(machine.site, options.events, source.first, pool))
    say_load(options.events, part.load)
    try:
        done = run(source, pool, spec, out, size, format)
    except KeyboardInterrupt:
        say.note(f"the files of the schedule that are in {out} are whole; stream.json, the totals, is missing")
        raise
    for text in done.notes:
        if text not in source.first.notes:
            say.note(text)
    if as_json:
        print_json(done.to_dict())
    else:
        print_table([(spec.policy.name, done.metrics)], ", ".join([done.title, *spec.options.variant]))
        print(f"\n{counted(len(done.files), 'file')} of the schedule and stream.json in {out}")
    if log != "-":
        other = "conservative" if spec.policy.name == "easy" else "easy"
        words = say.command_without(("--policy", "--set", "--out", "-o"), ())
        say.following(say.joined([*words, "-o", f"{out.rstrip('/')}-{other}", "--policy", other]))
