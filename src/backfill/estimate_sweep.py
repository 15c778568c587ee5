"""Compare policies under several kinds of estimates: longer waits, slipping promises, and the groups that lose."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from backfill.analysis.groups import Fairness, fairness
from backfill.analysis.metrics import Counted, Metrics, in_common
from backfill.comparison import Comparison, compare_specs, described
from backfill.executors import Executor, Progress, Where
from backfill.model import notebook
from backfill.model.errors import BadArgument
from backfill.model.platform import Platform
from backfill.runs import Log
from backfill.saved_runs import SavedRuns
from backfill.shards import Shard, behind, needed, run_shard, saved_runs
from backfill.spec import Chosen, Given, Params, RunSpec
from backfill.worlds.estimates import EXPECTED, Estimates
from backfill.worlds.prediction import EXPECTED as PREDICTORS
from backfill.worlds.prediction import Prediction, is_prediction

if TYPE_CHECKING:
    from backfill.report.outcome import Outcome

METRICS = ("mean_wait_s", "mean_bounded_slowdown", "utilization", "mean_slip_s", "max_slip_s")


@dataclass(frozen=True, eq=False, kw_only=True)
class EstimateSweep:
    """A comparison of policies for each kind of estimates; the first kind is the baseline.

    >>> import backfill as bf
    >>> log = bf.generate("lublin?jobs=50&cpus=64")
    >>> swept = bf.sweep_estimates(log, None, ["fcfs", "easy"], ["exact", "inflate:2"])
    >>> swept.kinds
    ['exact', 'inflate:2']
    """

    kinds: Sequence[str]
    comparisons: Sequence[Comparison]
    interrupted: str = ""  # what an interrupt left out

    @property
    def title(self) -> str:
        """The workload, the platform and the variant of the rules in one line.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=50&cpus=64")
        >>> swept = bf.sweep_estimates(log, None, ["fcfs", "easy"], ["exact", "inflate:2"])
        >>> swept.title
        'lublin: 50 jobs on 64 cpus'
        """
        first, swept = self.comparisons[0], ("estimates ", "predict ")
        return ", ".join([*first.on, *(each for each in first.results[0].variant if not each.startswith(swept))])

    @property
    def names(self) -> Sequence[str]:
        """The names of the policies.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=50&cpus=64")
        >>> swept = bf.sweep_estimates(log, None, ["fcfs", "easy"], ["exact", "inflate:2"])
        >>> list(swept.names)
        ['fcfs', 'easy']
        """
        return self.comparisons[0].names

    def values(self, metric: str, policy: int) -> list[list[float]]:
        """Return a metric of a policy, or `broken_share`, under each kind: one value for each replication that has one.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=50&cpus=64")
        >>> swept = bf.sweep_estimates(log, None, ["fcfs", "easy"], ["exact", "inflate:2"])
        >>> [len(values) for values in swept.values("mean_wait_s", policy=1)]
        [1, 1]
        """
        of = broken_share if metric == "broken_share" else lambda metrics: metrics.get(metric)
        replicated = [[of(each) for each in c.replicated[policy]] for c in self.comparisons]
        return [[float(value) for value in values if value is not None] for values in replicated]

    def hurt(self, kind: int, policy: int) -> Fairness:
        """Return the jobs, users and classes that wait longer under this kind of estimates than under the first.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=50&cpus=64")
        >>> swept = bf.sweep_estimates(log, None, ["fcfs", "easy"], ["exact", "inflate:2"])
        >>> swept.hurt(kind=1, policy=1).jobs
        50
        """
        results = [self.comparisons[place].results[policy] for place in (kind, 0)]
        log = results[0].workload
        one, other = in_common([Counted.of(log, each.schedule, each.warmup, each.cooldown) for each in results])
        return fairness(log, (self.kinds[kind], self.kinds[0]), one, other)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per policy and kind: the means of METRICS, the share of broken promises, the groups hit most.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=50&cpus=64")
        >>> swept = bf.sweep_estimates(log, None, ["fcfs", "easy"], ["exact", "inflate:2"])
        >>> [(row["policy"], row["estimates"]) for row in swept.rows()][:2]
        [('fcfs', 'exact'), ('fcfs', 'inflate:2')]
        """
        table = []
        for policy, name in enumerate(self.names):
            for kind, text in enumerate(self.kinds):
                metrics = self.comparisons[kind].metrics[policy]
                row: dict[str, Any] = {"policy": name, "estimates": text} | {m: metrics.get(m) for m in METRICS}
                row["broken_share"] = broken_share(metrics)
                fairness = self.hurt(kind, policy)
                row |= {"jobs_later": fairness.later, "later_share": fairness.later_share, "users": fairness.users,
                        "users_longer": fairness.users_longer, "worst_class": fairness.worst_class,
                        "worst_class_s": fairness.worst_class_s, "worst_user": fairness.worst_user,
                        "worst_user_s": fairness.worst_user_s}  # fmt: skip
                table.append(row)
        return table

    def outcome(self, command: str = "") -> "Outcome":
        """Return the data for a page or a folder: the comparison under the first kind, and changes under the others.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=50&cpus=64")
        >>> swept = bf.sweep_estimates(log, None, ["fcfs", "easy"], ["exact", "inflate:2"])
        >>> swept.outcome().data["sweep"]["kinds"]
        ['exact', 'inflate:2']
        """
        first = self.comparisons[0].outcome(command)
        return replace(first, data={**first.data, "sweep": {"kinds": list(self.kinds), "rows": self.rows()}})

    def report(self, path: str | Path, command: str = "") -> None:
        """Write all of it as one HTML page. command: the command line that reproduces it.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=50&cpus=64")
        >>> swept = bf.sweep_estimates(log, None, ["fcfs", "easy"], ["exact", "inflate:2"])
        >>> swept.report("estimates.html")
        """
        from backfill.report.write import write_report

        write_report(path, self.outcome(command))

    def save(self, folder: str | Path, command: str = "") -> None:
        """Write it into a folder, from which `backfill report` makes the page again.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=50&cpus=64")
        >>> swept = bf.sweep_estimates(log, None, ["fcfs", "easy"], ["exact", "inflate:2"])
        >>> swept.save("estimates")
        """
        from backfill.report.saved import save

        save(folder, self.outcome(command))

    def __repr__(self) -> str:
        return f"<EstimateSweep of {', '.join(self.names)} on {self.title}: {', '.join(self.kinds)}>"

    def _repr_html_(self) -> str:
        from backfill.report.in_notebooks import sweep_html

        shown = sweep_html(self.title, {"kinds": self.kinds, "rows": self.rows()}, self.comparisons[0].unit)
        return shown + notebook.paragraphs([self.interrupted] if self.interrupted else [])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of `compare --sweep --json`.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=50&cpus=64")
        >>> swept = bf.sweep_estimates(log, None, ["fcfs", "easy"], ["exact", "inflate:2"])
        >>> swept.to_dict()["kinds"]
        ['exact', 'inflate:2']
        """
        return {"kinds": list(self.kinds), "rows": self.rows(), "comparisons": [c.to_dict() for c in self.comparisons]}


def broken_share(metrics: Metrics) -> float | None:
    """Return the share of the promised jobs that started later than first promised; None if none was promised."""
    promised, kept = metrics.get("promised_jobs"), metrics.get("kept_promises")
    return 1 - kept / promised if promised and kept is not None else None


def sweep_specs(
    log: Log,
    pool: Platform | None,
    specs: Sequence[RunSpec],
    kinds: Sequence[str],
    replications: int = 1,
    where: Where = None,
    progress: Progress | None = None,
    saved: SavedRuns | None = None,
) -> EstimateSweep:
    """Compare specs under each kind of estimates. Raises UsageError for an unknown kind.

    progress: called with the number of finished runs of all kinds.
    saved:    has the runs that were finished before, and gets the others.
    """
    names, comparisons, interrupted = kinds_of(kinds), list[Comparison](), ""
    for kind, under in enumerate(variants(specs, names)):
        keeper = None if saved is None else saved.of_kind(kind)
        tell = None if progress is None else behind(progress, len(comparisons) * len(specs) * replications)
        try:
            one = compare_specs(log, pool, under, replications, where, tell, keeper)
        except KeyboardInterrupt:
            if not comparisons:
                raise
            one = None
        if one is None or one.interrupted:
            if not comparisons:
                raise KeyboardInterrupt
            interrupted = f"interrupted; left out: {', '.join(names[len(comparisons) :])}"
            break
        comparisons.append(one)
    return EstimateSweep(kinds=names[: len(comparisons)], comparisons=comparisons, interrupted=interrupted)


def kinds_of(kinds: Sequence[str]) -> list[str]:
    """Return the kinds of a sweep in their full form. Raises UsageError unless they are two or more different ones."""
    if len(kinds) < 2 or len(set(kinds)) < len(kinds):
        raise BadArgument("sweep", ",".join(kinds), "two or more different kinds of estimates, separated by commas")
    return [str(parse_kind(kind)) for kind in kinds]


def variants(specs: Sequence[RunSpec], kinds: Sequence[str]) -> list[list[RunSpec]]:
    """Return the specs under each kind of estimates."""
    return [[_with(spec, each) for spec in specs] for each in map(parse_kind, kinds)]


def parse_kind(text: str) -> Estimates | Prediction:
    """Return the estimates or predictions of one part of a sweep. Raises UsageError."""
    try:
        return Prediction.parse(text) if is_prediction(text) else Estimates.parse(text)
    except BadArgument as error:
        raise BadArgument("sweep", text, f"{EXPECTED}; or {PREDICTORS}") from error


def _with(spec: RunSpec, kind: Estimates | Prediction) -> RunSpec:
    """Return the spec with other estimates, or with predictions."""
    changed: Any = {"predict": kind} if isinstance(kind, Prediction) else {"estimates": kind}
    other = replace(spec, options=replace(spec.options, **changed))
    vars(other)["policy"] = spec.policy
    return other


@overload
def sweep_estimates(
    log: Log,
    pool: Platform | None = None,
    policies: Sequence[Chosen | tuple[Chosen, Params]] = ("easy", "conservative"),
    kinds: Sequence[str] = ("exact", "lognormal:0.5", "lognormal:1", "requested"),
    *,
    replications: int = 1,
    workers: int = 1,
    executor: Executor | None = None,
    save: str | Path | None = None,
    shard: None = None,
    **given: Unpack[Given],
) -> EstimateSweep: ...
@overload
def sweep_estimates(
    log: Log,
    pool: Platform | None = None,
    policies: Sequence[Chosen | tuple[Chosen, Params]] = ("easy", "conservative"),
    kinds: Sequence[str] = ("exact", "lognormal:0.5", "lognormal:1", "requested"),
    *,
    replications: int = 1,
    workers: int = 1,
    executor: Executor | None = None,
    save: str | Path | None = None,
    shard: tuple[int, int],
    **given: Unpack[Given],
) -> Shard: ...
def sweep_estimates(
    log: Log,
    pool: Platform | None = None,
    policies: Sequence[Chosen | tuple[Chosen, Params]] = ("easy", "conservative"),
    kinds: Sequence[str] = ("exact", "lognormal:0.5", "lognormal:1", "requested"),
    *,
    replications: int = 1,
    workers: int = 1,
    executor: Executor | None = None,
    save: str | Path | None = None,
    shard: tuple[int, int] | None = None,
    **given: Unpack[Given],
) -> EstimateSweep | Shard:
    """Compare policies under estimates of several kinds; the other arguments are those of `compare`.

    kinds: as for the argument `estimates`, and predictors as for `predict`.

    Ctrl-C ends it early: the finished kinds are returned, with a note about the missing ones; if none is finished,
    KeyboardInterrupt is raised.

    >>> import backfill as bf
    >>> log = bf.generate("lublin?jobs=100&cpus=64")
    >>> swept = bf.sweep_estimates(log, None, ["fcfs", "easy"], ["exact", "inflate:2"])
    >>> swept.kinds
    ['exact', 'inflate:2']
    """
    specs, where = described(log, policies, replications, workers, executor, given)
    of, names = needed(shard, save), kinds_of(kinds)
    saved = None if save is None else saved_runs(log, pool, specs, names, replications, save, shard=of)
    if of is not None and saved is not None:
        return run_shard(log, pool, variants(specs, names), of, saved, where)
    return sweep_specs(log, pool, specs, kinds, replications, where, saved=saved)
