"""Shares of a comparison or a sweep, which run on several machines and are merged afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from backfill.api import check_inputs
from backfill.executors import Progress, Where
from backfill.model import notebook
from backfill.model.errors import UsageError
from backfill.model.platform import Platform
from backfill.model.units import counted
from backfill.runs import Log, Shared, carry_out, source_of
from backfill.saved_runs import Inputs, Question, SavedRuns, check_shard, share
from backfill.spec import RunSpec


@dataclass(frozen=True, kw_only=True)
class Shard:
    """A share of the runs of a comparison or a sweep, all of which are in a folder.

    >>> import backfill as bf
    >>> log = bf.generate("lublin?jobs=50&cpus=64")
    >>> bf.compare(log, None, ["fcfs", "easy"], shard=(1, 2), save="runs")
    <Shard 1/2: 1 run in runs, 0 of them from before>
    """

    number: int  # from 1
    of: int
    runs: int
    before: int  # how many of the runs had finished before
    folder: Path

    def __repr__(self) -> str:
        runs = f"{counted(self.runs, 'run')} in {self.folder}, {self.before} of them from before"
        return f"<Shard {self.number}/{self.of}: {runs}>"

    def _repr_html_(self) -> str:
        rows = [(self.runs, self.before, self.folder)]
        return notebook.table(f"shard {self.number} of {self.of}", ["runs", "of them from before", "folder"], rows)


def saved_runs(
    log: Log,
    pool: Platform | None,
    specs: Sequence[RunSpec],
    kinds: Sequence[str],
    replications: int,
    folder: str | Path,
    *,
    command: Sequence[str] = (),
    shard: tuple[int, int] | None = None,
) -> SavedRuns:
    """Return the folder that keeps the runs of a comparison, or with kinds of estimates of a sweep.

    Raises UsageError if the folder has the runs of another question, BackfillError if it cannot be written.
    """
    first = source_of(log, specs[0].options.seed)(0)
    check_inputs(first, pool)
    inputs = Inputs(log=first, platform=pool, specs=list(specs))
    question = Question.of(inputs, kinds, replications, log, command, None if shard is None else shard[1])
    return SavedRuns.open(folder, inputs, question)


def run_shard(
    log: Log,
    pool: Platform | None,
    variants: Sequence[Sequence[RunSpec]],
    shard: tuple[int, int],
    saved: SavedRuns,
    where: Where = None,
    progress: Progress | None = None,
) -> Shard:
    """Run a share of a comparison or a sweep, as far as it has not finished before.

    variants: the runs of each policy under each kind of estimates; of a comparison, a single one.
    progress: called with the number of finished runs of the shard.

    Raises KeyboardInterrupt after Ctrl-C; the finished runs stay in the folder.
    """
    number, of = check_shard(shard)
    numbers = share(saved.question.count, (number, of))
    keys, done = [saved.key(each) for each in numbers], 0
    before = saved.there(numbers)
    for kind in dict.fromkeys(kind for kind, _ in keys):
        specs = variants[kind]
        runs = [run for of_kind, run in keys if of_kind == kind]
        plan = Shared(source=source_of(log, specs[0].options.seed), platform=pool, specs=specs)
        tell = None if progress is None else behind(progress, done)
        _, interrupted = carry_out(plan, runs, where, tell, saved.of_kind(kind))
        if interrupted:
            raise KeyboardInterrupt
        done += len(runs)
    return Shard(number=number, of=of, runs=len(numbers), before=before, folder=saved.folders[0])


def behind(progress: Progress, done: float) -> Progress:
    """Return the progress of runs that follow others."""
    return lambda more: progress(done + more)


def needed(shard: object, save: object) -> tuple[int, int] | None:
    """Return the shard of a call, checked. Raises UsageError if there is no folder for it."""
    if shard is None:
        return None
    if save is None:
        raise UsageError("a shard needs a folder for its runs; expected save as well")
    return check_shard(shard)
