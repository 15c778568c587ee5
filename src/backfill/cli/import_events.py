"""backfill import slurm-events: outages and reservations of Slurm as a file of events."""

import shlex
from pathlib import Path

from backfill.cli import say
from backfill.cli.inputs import check_outputs, inputs
from backfill.cli.output import print_json
from backfill.model.errors import BadArgument, EventsError, UsageError
from backfill.model.units import counted
from backfill.traces.files import Source

SUFFIXES = (".csv", ".csv.gz")


def import_events(
    file: str,
    log: str | None,
    platform: str | None,
    out: str | None,
    zone: str | None,
    fields: str | None,
    as_json: bool,
) -> None:
    """Read the outages and reservations that concern a log and its platform; write them with --out."""
    if log is None:
        raise UsageError("slurm-events needs --log FILE, the log on whose nodes and in whose time the events happen")
    if file == log == "-":
        raise UsageError("only one of FILE and --log can come from standard input")
    if out is not None and not out.lower().endswith(SUFFIXES):
        raise BadArgument("out", out, f"a name that ends in {' or '.join(SUFFIXES)}")
    check_outputs({"the file": file, "the log": log, "the platform": platform}, out=out)

    from backfill import __version__
    from backfill.traces.accounting.slurm_events import EVENTS, read_slurm_events
    from backfill.traces.dates import zone_of
    from backfill.traces.events import write_events

    zone_of(zone)
    source = Source.of(file, EventsError)
    workload, machine = inputs(log, platform=platform, cpus=None, nodes=None, memory=None)
    taken = read_slurm_events(source, workload, machine, zone, fields)
    if out is not None:
        write_events(taken.events, out)
    kinds = {
        "outage": taken.outages,
        "drain": taken.drains,
        "reservation": taken.reservations,
        "window": taken.windows,
    }
    if as_json:
        about = {"schema": 1, "backfill": __version__, "format": EVENTS, "sha256": source.sha256}
        taken_json = {f"{kind}s": count for kind, count in kinds.items()}
        more = {"left_out": dict(taken.left_out), "not_carried": dict(taken.not_carried), "notes": list(taken.notes)}
        print_json({**about, **taken_json, **more, "out": out})
    else:
        print(f"{taken.events.name}: {', '.join(counted(count, kind) for kind, count in kinds.items() if count)}")
    for text in taken.notes:
        say.note(f"{taken.events.name}: {text}")
    for heading, counts in (("left out", taken.left_out), ("not carried over from reservations", taken.not_carried)):
        if counts:
            say.note(f"{taken.events.name}: {heading}: {', '.join(f'{what} ({n:,})' for what, n in counts.items())}")
    if out is not None:
        say.note(f"wrote {out}: {counted(len(taken.events), 'event')}")
        words = ["backfill", "compare", say.path(log), "--events", say.path(out), "--policy", "easy"]
        words += ["--policy", "conservative", *(() if platform is None else ("--platform", platform))]
        say.following(shlex.join(words))
    elif file != "-":
        say.following(say.command("--out", f"{Path(file).name.partition('.')[0] or 'events'}-events.csv"))
