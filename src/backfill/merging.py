"""Merge the shards of a comparison or a sweep."""

from pathlib import Path

from backfill.comparison import Comparison, compare_specs
from backfill.estimate_sweep import EstimateSweep, sweep_specs
from backfill.saved_runs import SavedRuns


def merge_shards(*folders: str | Path) -> Comparison | EstimateSweep:
    """Return the comparison, or the sweep, whose shards are in these folders: the same as one without shards.

    Nothing is run. Raises InputError if a run is missing or damaged, and UsageError if the folders have the runs of
    different questions.

    >>> import backfill as bf
    >>> log = bf.generate("lublin?jobs=100&cpus=64")
    >>> shards = [bf.compare(log, None, ["fcfs", "easy"], shard=(i, 2), save=f"runs-{i}") for i in (1, 2)]
    >>> bf.merge_shards("runs-1", "runs-2")
    <Comparison on lublin: 100 jobs on 64 cpus: mean waits fcfs 183 min; easy 31.3 min>
    """
    return merged(SavedRuns.read(*folders))


def merged(saved: SavedRuns) -> Comparison | EstimateSweep:
    """Return the comparison or the sweep of saved runs, all of which must be there. Raises InputError."""
    saved.check_whole()
    inputs, question = saved.inputs(), saved.question
    log, pool, specs = inputs.log, inputs.platform, inputs.specs
    if question.kinds:
        return sweep_specs(log, pool, specs, question.kinds, question.replications, saved=saved)
    return compare_specs(log, pool, specs, question.replications, keeper=saved)
