"""backfill compare --shard and --save: shares of a comparison, and runs that are kept as soon as they have finished."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from backfill.cli import say
from backfill.cli.output import print_compared, print_json
from backfill.model.errors import UsageError
from backfill.traces.files import check_folder, make_folder

if TYPE_CHECKING:
    from backfill.executors import Where
    from backfill.model.platform import Platform
    from backfill.runs import Log
    from backfill.saved_runs import SavedRuns
    from backfill.spec import RunSpec

INTERRUPTED = 130
SCHEMA = 1  # of the JSON of a shard
# Words of a command line that do not change its runs.
OPTIONS = ("--shard", "--save", "--report", "--figures", "--optimum", "--workers", "--cluster")
FLAGS = ("--json", "--quiet", "-q", "--verbose", "--verify")


def check_save(save: str | None, shard: str | None, others: Mapping[str, object]) -> tuple[int, int] | None:
    """Return the shard, and check that the folder can be written. Raises UsageError and BackfillError.

    others: the options, by name, that need all runs, and their values.
    """
    if shard is None:
        if save is not None:
            check_folder(save)
        return None
    from backfill.saved_runs import check_shard

    number = check_shard(shard)
    if save is None:
        raise UsageError("--shard needs --save DIR, a folder for its runs")
    if given := [name for name, value in others.items() if value]:
        raise UsageError(f"--{given[0]} needs all runs and cannot be combined with --shard; give it when they are done")
    make_folder(save)  # check_folder would remove it again, under another shard that begins now
    return number


def opened(
    log: "Log",
    platform: "Platform | None",
    specs: "Sequence[RunSpec]",
    kinds: Sequence[str],
    replications: int,
    folder: str,
    shard: tuple[int, int] | None,
) -> "SavedRuns":
    """Return the folder of the runs, and print how many of them are there already."""
    from backfill.cli.run import engine

    engine()
    from backfill.saved_runs import share
    from backfill.shards import saved_runs

    words = say.command_without(OPTIONS, FLAGS)
    saved = saved_runs(log, platform, specs, kinds, replications, folder, command=words, shard=shard)
    numbers = share(saved.question.count, shard or (1, 1))
    if there := saved.there(numbers):
        say.note(f"{folder}: {there} of {len(numbers)} runs {'was' if there == 1 else 'were'} there already")
    return saved


def run_share(
    log: "Log",
    platform: "Platform | None",
    variants: "Sequence[Sequence[RunSpec]]",
    shard: tuple[int, int],
    saved: "SavedRuns",
    where: "Where",
    as_json: bool,
) -> None:
    """Run a shard, and say what is next."""
    from backfill.cli.run import compile_one
    from backfill.saved_runs import share
    from backfill.shards import run_shard

    numbers = share(saved.question.count, shard)
    for policy in {saved.key(each)[1].policy for each in numbers if not saved.there([each])}:
        compile_one(variants[0][policy].policy)
    try:
        with say.bar(f"shard {shard[0]}/{shard[1]}", max(1000 * len(numbers), 1)) as bar:
            progress = None if bar is None else lambda done: bar(round(1000 * done))
            done = run_shard(log, platform, variants, shard, saved, where, progress)
    except KeyboardInterrupt:
        say_kept(saved, shard)
        raise typer.Exit(INTERRUPTED) from None
    text, folder = f"{done.number}/{done.of}", say.path(str(done.folder))
    if as_json:
        print_json({"schema": SCHEMA, "shard": text, "runs": done.runs, "before": done.before, "folder": folder})
    say.note(f"shard {text}: {done.runs} of {saved.question.count} runs, kept in {done.folder}")
    if saved.there(range(saved.question.count)) == saved.question.count:
        say.following(f"backfill report {folder}")


def say_kept(saved: "SavedRuns", shard: tuple[int, int] = (1, 1)) -> None:
    """Print, after an interrupt, how many runs of a shard are kept."""
    from backfill.saved_runs import share

    numbers = share(saved.question.count, shard)
    kept = f"{saved.there(numbers)} of {len(numbers)} runs are kept in {saved.folders[0]}"
    say.note(f"interrupted: {kept}; the same command goes on")


def print_merged(folders: Sequence[str], out: str, as_json: bool) -> None:
    """Print the comparison or the sweep whose runs are in these folders, and write its page."""
    from backfill.cli.run import engine

    engine()
    from backfill.comparison import Comparison
    from backfill.merging import merged
    from backfill.saved_runs import SavedRuns

    saved = SavedRuns.read(*folders)
    found = merged(saved)
    if isinstance(found, Comparison):
        for text in found.notes:
            say.note(text)
    if as_json:
        print_json(found.to_dict())
    elif isinstance(found, Comparison):
        print_compared(found)
    else:
        from backfill.cli.sweep import print_swept

        print_swept(found)
    found.report(out, _command(saved, out))


def _command(saved: "SavedRuns", out: str) -> str:
    """Return the command that gives the page of these runs without shards; empty if they were not made by a command."""
    return say.joined(say.with_options(saved.question.command, "--report", out)) if saved.question.command else ""
