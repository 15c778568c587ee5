"""The figures of the IBB paper, and our additional ones."""

from collections.abc import Mapping, Sequence

from backfill.papers import nas
from backfill.papers.ibb_claims import BB, IBB, LABELS, WORDS
from backfill.papers.ibb_logs import BOUNDED, LOADS, METRICS, RESPONSE, SLOWDOWN, WAIT, LogSweep
from backfill.papers.sweep import Sweep
from backfill.report.plots import Figure

UNITS = {WAIT: "mean wait, s", RESPONSE: "mean response, s", SLOWDOWN: "mean slowdown",
         BOUNDED: "mean bounded slowdown"}  # fmt: skip
AT = [f"{load:g}" for load in LOADS]
X = "relative load"


def of_sweep(sweep: LogSweep, policies: Sequence[str], number: int, suffix: str, what: str) -> list[Figure]:
    """Draw Figure 1 or 2: the metrics over load, and the gains of IBB over BB."""
    metrics = [
        Figure(f"figure-{number}{letter}{suffix}", f"Figure {number}{letter}: {_word(metric)}, {what}", X,
               UNITS[metric], AT,
               {LABELS[p]: [sweep.value(load, p, metric) for load in LOADS] for p in policies}, log=True)
        for letter, metric in zip("abcd", METRICS, strict=True)
    ]  # fmt: skip
    gains = {word: [sweep.change(load, IBB, metric).negative() for load in LOADS] for metric, word in WORDS.items()}
    title = f"Gains of IBB over BB, {what}"
    return [Figure(f"gain-{number}{suffix}", title, X, "gain, % of BB", AT, gains, percent=True, of="metric"), *metrics]


def of_readings(sweeps: Mapping[str, LogSweep], number: int, what: str) -> list[Figure]:
    """Draw BB and IBB with three readings of walltimes."""
    return [
        Figure(f"walltimes-{number}{letter}", f"{what}, walltimes read in three ways", X,
               UNITS[metric], AT,
               {f"{name}, {walltime}": [sweep.value(load, policy, metric) for load in LOADS]
                for name, policy in (("BB", BB), ("IBB", IBB)) for walltime, sweep in sweeps.items()}, log=True)
        for letter, metric in zip("abc", WORDS, strict=True)
    ]  # fmt: skip


def of_54_jobs(sweep: Sweep, policies: Sequence[str]) -> list[Figure]:
    """Draw Figure 3: each job by its processes and its work, over all orders of submission."""
    names = [shape.name for shape in sorted(nas.SHAPES, key=lambda shape: (shape.cpus, shape.work))]
    return [
        Figure(f"figure-3{letter}", f"Figure 3{letter}: {what} of 54 jobs on four nodes, by processes and work", "job",
               f"{what}{unit}", names,
               {LABELS[p]: [sweep.mean(54, p, f"{what} {name}") for name in names] for p in policies}, log=True)
        for letter, what, unit in (("a", "wait", ", s"), ("b", "response", ", s"), ("c", "slowdown", ""))
    ]  # fmt: skip


def of_resources(sweep: Sweep, policies: Sequence[str]) -> Figure:
    """Return the figure of the older paper's claim: mean response over K."""
    return Figure(
        "resources", "Several resources: BB beside first fit", "resources K", "mean response, s",
        [str(k) for k in sweep.found], {LABELS[p]: [sweep.mean(k, p, RESPONSE) for k in sweep.found] for p in policies},
    )  # fmt: skip


def of_lublin(sweep: Sweep, policies: Sequence[str]) -> list[Figure]:
    """Draw the mean wait over load, for each kind of memory demand."""
    kinds = dict.fromkeys(memory for memory, _ in sweep.found)
    at = {memory: [load for kind, load in sweep.found if kind == memory] for memory in kinds}
    return [
        Figure(f"lublin-{memory}", f"Lublin's jobs with {memory} memory", "offered load of cpus", "mean wait, s",
               [f"{load:g}" for load in loads],
               {LABELS[p]: [sweep.mean((memory, load), p, WAIT) for load in loads] for p in policies})
        for memory, loads in at.items()
    ]  # fmt: skip


def _word(metric: str) -> str:
    return UNITS[metric].partition(",")[0]
