"""Compare policies over the same workload: paired differences, groups that lose, and distances from lower bounds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from backfill import __version__
from backfill.analysis.bounds import Bound, BoundGap, gaps, mean_bounds
from backfill.analysis.departures import farthest
from backfill.analysis.distance import Distance
from backfill.analysis.groups import Fairness, Groups, LongWait, classes, fairness, groups, longest_waits
from backfill.analysis.metrics import Counted, Metrics, in_common
from backfill.analysis.paired import Each, Pair, pairs_of_log, pairs_of_replications
from backfill.analysis.recorded import explain
from backfill.analysis.replay import Replay, reality, replay
from backfill.api import SCHEMA, Result, check_inputs
from backfill.distances import check as check_windows
from backfill.distances import distances
from backfill.executors import Executor, Processes, Progress, Where, held_back, in_threads
from backfill.model import frames, notebook
from backfill.model.errors import BadArgument, UsageError, wrong_type
from backfill.model.platform import Platform
from backfill.model.units import span
from backfill.model.workload import Ints, Workload
from backfill.runs import Done, Keeper, Log, RunKey, Shared, carry_out, source_of
from backfill.settings import PHASES, Settings, is_of_settings, settings
from backfill.shards import Shard, needed, run_shard, saved_runs
from backfill.spec import Chosen, Given, Params, RunSpec, names, shows_given, with_events

if TYPE_CHECKING:
    from backfill.report.outcome import Outcome


class Pairs(list[Pair]):
    """The differences of every two policies, metric by metric; a notebook shows them as a table with intervals."""

    def _repr_html_(self) -> str:
        from backfill.report.in_notebooks import pairs_html

        return pairs_html(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison:
    """The results of several policies over the same workload, or the same generated workloads.

    With replications, `metrics` and `bounds` are means over them, and `pairs` are about these means; `results`,
    `groups`, `fairness` and `waits` are of the first replication.

    >>> import backfill as bf
    >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
    >>> comparison
    <Comparison on lublin: 100 jobs on 64 cpus: mean waits fcfs 183 min; easy 31.3 min>
    """

    names: Sequence[str]  # names of the policies in pairs and groups
    results: Sequence[Result]  # one per policy
    replicated: Sequence[Sequence[Metrics]]  # [policy][replication]; one replication for a log
    pairs: Pairs  # every two policies x metric, the later policy minus the earlier one
    groups: Sequence[Groups]
    fairness: Sequence[Fairness]  # every two policies, in the order of `pairs`
    waits: Sequence[LongWait]  # the longest, policy by policy
    bounds: Sequence[Bound]
    interrupted: str = ""  # what an interrupt by Ctrl-C left out
    distances: Sequence[Distance] = ()  # from the optimum on sampled windows, policy by policy
    settings: Settings | None = None  # if all policies are `slurm` with a site

    def with_optimum(self, windows: int, where: Where = None, progress: Progress | None = None) -> "Comparison":
        """Return the same with the distance of each policy from the best possible schedule, on windows of the log.

        Needs the extra `optimum`. With replications the windows are those of the first one.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> comparison.with_optimum(1).distances[1].windows
        1
        """
        return replace(self, distances=distances(self.results, self.names, windows, where=where, progress=progress))

    def with_settings(
        self, phases: int = PHASES, where: Where = None, progress: Progress | None = None
    ) -> "Comparison":
        """Return the same with the effect of the settings of a site's own Slurm, beside the noise floor of the model.

        All policies are `slurm`, on the platform of a site. phases: of Slurm's clocks, see docs/reference/slurm.md.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> comparison.with_settings()
        Traceback (most recent call last):
        backfill.model.errors.UsageError: settings compare policy slurm on the platform of a site; expected --site DIR
        """
        if not is_of_settings(self.results):
            raise UsageError("settings compare policy slurm on the platform of a site; expected --site DIR")
        return replace(self, settings=settings(self.results, self.names, phases, where, progress))

    @property
    def metrics(self) -> list[Metrics]:
        """The metrics of each policy; means over the replications, of those in which they are defined.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> [each["jobs"] for each in comparison.metrics]
        [100, 100]
        """
        return [each[0] if len(each) == 1 else _means(each) for each in self.replicated]

    @property
    def title(self) -> str:
        """The workload, the platform and the variant of the rules in one line.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> comparison.title
        'lublin: 100 jobs on 64 cpus'
        """
        return ", ".join([*self.on, *self.results[0].variant])

    @property
    def on(self) -> list[str]:
        """The workload and the platform, and the number of replications.

        >>> import backfill as bf
        >>> comparison = bf.compare("lublin?jobs=20&cpus=64", None, ["fcfs", "easy"], replications=2)
        >>> comparison.on
        ['lublin: 20 jobs on 64 cpus', '2 replications']
        """
        count = len(self.replicated[0])
        return [self.results[0].title, *([f"{count} replications"] if count > 1 else [])]

    @property
    def notes(self) -> list[str]:
        """Notes that limit the meaning of the comparison, one sentence each.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> comparison.notes
        []
        """
        remarks = list(dict.fromkeys(note for result in self.results for note in result.notes))
        if len(self.replicated[0]) > 1:
            remarks.append("groups, fairness and longest waits are those of the first replication")
        return [*remarks, *([self.interrupted] if self.interrupted else [])]

    @property
    def happened(self) -> list[str]:
        """The events and their effects under each policy, a line each; empty without events.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> comparison.happened
        []
        """
        events = [(name, each.happened) for name, each in zip(self.names, self.results, strict=True)]
        return [f"{name}: {each.sentence}" for name, each in events if each is not None]

    @property
    def gaps(self) -> list[BoundGap]:
        """The distance of every policy from every lower bound.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> {gap.metric for gap in comparison.gaps if gap.policy == "easy"} == {"makespan_s", "mean_wait_s"}
        True
        """
        return gaps(self.names, self.metrics, self.bounds)

    @cached_property
    def replays(self) -> list[Replay]:
        """The comparison of each policy with the recorded waits; empty if the log has none.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> comparison.replays
        []
        """
        first = self.results[0]
        explained = explain(first.workload, first.platform)  # once for all, as it is the same
        for result in self.results:
            if "replay" not in vars(result):
                vars(result)["replay"] = replay(result, explained)
        compared = [(name, result.replay) for name, result in zip(self.names, self.results, strict=True)]
        return [replace(each, policy=name) for name, each in compared if each is not None]

    @property
    def reality(self) -> str:
        """The policy that comes closest to the recorded waits, or why none can; empty if the log has none.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> comparison.reality
        ''
        """
        return reality(self.replays, self.unit) if self.replays else ""

    @property
    def sentences(self) -> list[str]:
        """One plain sentence for each pair of policies, in the order of `fairness`.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> len(comparison.sentences)
        1
        """
        from backfill.report.sentences import pair_sentence

        unit = self.unit
        waits = [pair for pair in self.pairs if pair.metric == "mean_wait_s"]
        return [pair_sentence(pair, fair, unit) for pair, fair in zip(waits, self.fairness, strict=True)]

    @property
    def unit(self) -> str:
        """The unit of every wait in the texts: `d`, `h`, `min` or `s`.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> comparison.unit
        'min'
        """
        from backfill.report.values import wait_unit

        return wait_unit(self.metrics)

    def summary(self) -> str:
        """Return headline metrics, distances from the optimum, pairs and groups that lose, as text 80 columns wide.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> print(comparison.summary().splitlines()[0])
        lublin: 100 jobs on 64 cpus
        """
        from backfill.report.compared import compared_table, compared_text
        from backfill.report.settings import settings_text
        from backfill.report.terminal import as_text, used_table

        used = used_table(list(zip(self.names, self.metrics, strict=True)))
        table = as_text(compared_table(self.names, self.metrics, self.gaps))
        table += "" if used is None else f"\n\n{used[0]}\n{as_text(used[1])}"
        return "\n".join(
            [
                self.title,
                "",
                table,
                "",
                *([*self.happened, ""] if self.happened else []),
                *compared_text(
                    self.sentences,
                    self.fairness,
                    self.waits,
                    self.gaps,
                    self.unit,
                    self.reality,
                    distances=self.distances,
                ),
                *([] if self.settings is None else settings_text(self.settings.to_dict())),
            ]
        )

    def outcome(self, command: str = "", *notes: str) -> "Outcome":
        """Return the data that a page shows and a folder stores.

        command: the command line that reproduces it; notes: further notes.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> len(comparison.outcome().data["results"])
        2
        """
        from backfill.report.outcome import Outcome

        results = self.to_dict()
        results["notes"] = [*results["notes"], *notes]
        return Outcome.of(self.results, command, results, names=self.names, title=self.title)

    def save(self, folder: str | Path, command: str = "") -> None:
        """Write the results into a folder, from which `backfill report` makes the page again.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> comparison.save("saved")
        """
        from backfill.report.saved import save

        save(folder, self.outcome(command))

    def report(self, path: str | Path, command: str = "", *notes: str) -> None:
        """Write the comparison as one HTML page.

        command: the command line that reproduces it; notes: further notes.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> comparison.report("compared.html")
        """
        from backfill.report.write import write_report

        write_report(path, self.outcome(command, *notes))

    def to_polars(self) -> Any:
        """Return the metrics as a polars DataFrame, one row per policy. Needs the extra `data`.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> comparison.to_polars()["policy"].to_list()
        ['fcfs', 'easy']
        """
        return frames.to_polars(self._columns(), ("policy",))

    def to_pandas(self) -> Any:
        """Return the metrics as a pandas DataFrame, one row per policy. Needs pandas.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> comparison.to_pandas()["policy"].tolist()
        ['fcfs', 'easy']
        """
        return frames.to_pandas(self._columns(), ("policy",))

    def _columns(self) -> frames.Columns:
        names = dict.fromkeys(name for each in self.metrics for name in each)
        return {"policy": list(self.names), **{name: [each.get(name) for each in self.metrics] for name in names}}

    def __repr__(self) -> str:
        waits = (span(each.get("mean_wait_s") or 0, self.unit) for each in self.metrics)
        waits_by_name = "; ".join(f"{name} {wait}" for name, wait in zip(self.names, waits, strict=True))
        return f"<Comparison on {self.title}: mean waits {waits_by_name}>"

    def _repr_html_(self) -> str:
        from backfill.report.values import columns, headline

        shown = columns(headline(self.metrics), self.metrics, self.unit)
        rows = [[name, *(cells[i] for _, cells in shown)] for i, name in enumerate(self.names)]
        table = notebook.table(self.title, ["policy", *(head for head, _ in shown)], rows)
        return table + notebook.paragraphs([*self.sentences, *self.notes])

    @cached_property
    def _projects(self) -> Ints:
        """Return the projects to report, the same for every policy so that they can be compared."""
        first = self.results[0].workload
        return farthest([(r.departures, r.schedule) for r in self.results if r.departures is not None], first)

    def _named(self, name: str, result: Result) -> dict[str, Any]:
        """Return a result for JSON, with the policy's name in its replay."""
        fields = result.to_dict()
        if "projects" in fields:
            fields["projects"] = result.project_promises(self._projects)
        if "replay" in fields:
            fields["replay"]["policy"] = name
        return fields

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of `compare --json`.

        >>> import backfill as bf
        >>> comparison = bf.compare(bf.generate("lublin?jobs=100&cpus=64"), None, ["fcfs", "easy"])
        >>> [each["policy"] for each in comparison.to_dict()["results"]]
        ['fcfs', 'easy']
        """
        fields: dict[str, Any] = {
            "schema": SCHEMA,
            "backfill": __version__,
            "results": [self._named(name, result) for name, result in zip(self.names, self.results, strict=True)],
            "pairs": [asdict(pair) for pair in self.pairs],
            "sentences": self.sentences,
            "fairness": [asdict(each) | {"later_share": each.later_share} for each in self.fairness],
            "groups": [asdict(each) | {"policies": list(self.names)} for each in self.groups],
            "longest_waits": [asdict(each) for each in self.waits],
            "bounds": [asdict(each) for each in self.bounds],
            "gaps": [asdict(each) for each in self.gaps],
            "notes": self.notes,
        }
        if self.reality:
            fields["reality"] = self.reality
        if self.distances:
            fields["optimum"] = [asdict(each) for each in self.distances]
        if self.settings is not None:
            fields["settings"] = self.settings.to_dict()
        if len(self.replicated[0]) > 1:
            fields["replications"] = [
                {"policy": name, "mean": mean, "metrics": list(each)}
                for name, mean, each in zip(self.names, self.metrics, self.replicated, strict=True)
            ]
        return fields


@overload
def compare(
    log: Log,
    pool: Platform | None = None,
    policies: Sequence[Chosen | tuple[Chosen, Params]] = ("fcfs", "easy", "conservative"),
    *,
    replications: int = 1,
    workers: int = 1,
    executor: Executor | None = None,
    optimum: int | None = None,
    progress: Progress | None = None,
    save: str | Path | None = None,
    shard: None = None,
    **given: Unpack[Given],
) -> Comparison: ...
@overload
def compare(
    log: Log,
    pool: Platform | None = None,
    policies: Sequence[Chosen | tuple[Chosen, Params]] = ("fcfs", "easy", "conservative"),
    *,
    replications: int = 1,
    workers: int = 1,
    executor: Executor | None = None,
    optimum: int | None = None,
    progress: Progress | None = None,
    save: str | Path | None = None,
    shard: tuple[int, int],
    **given: Unpack[Given],
) -> Shard: ...
@shows_given
def compare(
    log: Log,
    pool: Platform | None = None,
    policies: Sequence[Chosen | tuple[Chosen, Params]] = ("fcfs", "easy", "conservative"),
    *,
    replications: int = 1,
    workers: int = 1,
    executor: Executor | None = None,
    optimum: int | None = None,
    progress: Progress | None = None,
    save: str | Path | None = None,
    shard: tuple[int, int] | None = None,
    **given: Unpack[Given],
) -> Comparison | Shard:
    """Run several policies over the same workload and compare them in pairs, each with those before it.

    log:          a Workload, or for replications a model, `lublin?jobs=1000&seed=7`, or a function that returns the
                  Workload of a seed. Replication i has the model's seed + i, or calls the function with `seed` + i.
    pool:         None takes the size of the machine from the log.
    policies:     as for `simulate`, each alone or with its parameters: `("k-reservations", {"k": 4})`.
    workers:      processes that share the work. With more than one, a script needs `if __name__ == "__main__"`.
    executor:     runs the simulations instead: anything with the `submit` of a `concurrent.futures.Executor`.
    optimum:      number of windows of the log on which policies are compared with the best possible schedule.
    progress:     called from time to time with the number of finished runs, plus fractions of current ones.
    save:         folder that keeps each run as soon as it has finished; the same call goes on where an earlier one
                  stopped. A folder with the runs of another question raises UsageError.
    shard:        (3, 20) carries out the third of 20 shares of the runs, into the folder `save`, and returns a Shard.
                  When all shards are there, the same call without `shard`, or `merge_shards`, compares.
    The other arguments are those of `simulate`. Ctrl-C ends it early: the finished part is returned, with a note about
    what is missing; if nothing is finished, KeyboardInterrupt is raised.

    >>> import backfill as bf
    >>> log = bf.generate("lublin?jobs=100&cpus=64")
    >>> comparison = bf.compare(log, None, ["fcfs", "easy", ("k-reservations", {"k": 4})])
    >>> comparison.names
    ['fcfs', 'easy', 'k-reservations']
    """
    specs, where = described(log, policies, replications, workers, executor, given)
    if optimum is not None:
        check_windows(optimum)
    if (of := needed(shard, save)) is not None and optimum is not None:
        raise UsageError("optimum is about all runs; expected it without shard")
    names(specs)
    saved = None if save is None else saved_runs(log, pool, specs, (), replications, save, shard=of)
    if of is not None and saved is not None:
        return run_shard(log, pool, [specs], of, saved, where, progress)
    comparison = compare_specs(log, pool, specs, replications, where, progress, saved)
    return comparison if optimum is None else comparison.with_optimum(optimum, where)


def described(
    log: Log,
    policies: Sequence[Chosen | tuple[Chosen, Params]],
    replications: int,
    workers: int,
    executor: Executor | None,
    given: Given,
) -> tuple[list[RunSpec], Where]:
    """Return the runs that the arguments of `compare` describe, and the executor for them. Raises UsageError."""
    for name, count in (("replications", replications), ("workers", workers)):
        if count < 1:
            raise BadArgument(name, count, "a whole number >= 1")
    if replications > 1 and isinstance(log, Workload):
        raise UsageError("replications need a generated workload; expected a model, or a function of a seed")
    if isinstance(policies, str):
        raise wrong_type("policies", policies, f"a list such as ['fcfs', {policies!r}]")
    each = [policy if isinstance(policy, tuple) else (policy, None) for policy in policies]
    given = with_events(given)  # read once
    specs = [RunSpec.of(policy, params, **given) for policy, params in each]
    return specs, executor or (Processes(workers) if workers > 1 else None)


def compare_specs(
    log: Log,
    pool: Platform | None,
    specs: Sequence[RunSpec],
    replications: int = 1,
    where: Where = None,
    progress: Progress | None = None,
    keeper: Keeper | None = None,
) -> Comparison:
    """Compare specs that differ only in their policies. The other arguments are as for `compare`.

    keeper: has the runs that were finished before, and gets the others.

    Raises UsageError if they are too few, or a policy occurs twice.
    """
    called = names(specs)
    source = source_of(log, specs[0].options.seed)
    first = source(0)
    check_inputs(first, pool)
    plan = Shared(source=source, platform=pool, specs=specs, made={0: first})
    runs = [RunKey(p, r) for r in range(replications) for p in range(len(specs))]
    done, interrupted = carry_out(plan, runs, where, progress, keeper)
    if not any(run.replication == 0 for run in done):
        raise KeyboardInterrupt
    with held_back() as pressed, in_threads(where) as each:
        comparison = _comparison(plan, first, called, runs, done, interrupted, each)
    if pressed and not interrupted:
        return replace(comparison, interrupted="interrupted while the runs were compared; all runs are included")
    return comparison


def _comparison(
    plan: Shared,
    log: Workload,
    names: Sequence[str],
    runs: Sequence[RunKey],
    done: Mapping[RunKey, Done],
    interrupted: bool,
    each: Each,
) -> Comparison:
    """Compare the policies whose first replication is done, over the replications that all of these have finished.

    each: `map`, or that of an executor.
    """
    there = [p for p in range(len(names)) if RunKey(p, 0) in done]
    whole = [r for r in {run.replication: None for run in runs} if all(RunKey(p, r) in done for p in there)]
    results, counted = [], []
    for p in there:
        spec, first = plan.specs[p], done[RunKey(p, 0)]
        assert first.simulation is not None
        platform = Platform.of(log) if plan.platform is None else plan.platform
        results.append(
            Result(workload=log, platform=platform, spec=spec, metrics=first.metrics, simulation=first.simulation)
        )
        counted.append(Counted.of(log, first.simulation.schedule, spec.warmup, spec.cooldown))
    counted = in_common(counted)
    kept = [names[p] for p in there]
    replicated = [[done[RunKey(p, r)].metrics for r in whole] for p in there]
    if len(whole) > 1:
        pairs = pairs_of_replications(kept, replicated)
    else:
        procs = log.jobs.procs[counted[0].rows] if counted else log.jobs.procs
        seed = plan.specs[0].options.seed
        first_ones = [metrics[0] for metrics in replicated]
        pairs = pairs_of_log(kept, first_ones, counted, procs, results[0].platform.cpus, seed, each)

    by_class = [*each(lambda one: classes(log, one)["size x run time"], counted)]

    def fair(pair: tuple[int, int]) -> Fairness:
        b, a = pair
        return fairness(log, (kept[a], kept[b]), counted[a], counted[b], by_class[b])

    def longest(place: int) -> Iterable[LongWait]:
        return longest_waits(kept[place], log, results[place].schedule, counted[place])

    return Comparison(
        names=kept,
        results=results,
        replicated=replicated,
        pairs=Pairs(pairs),
        groups=groups(log, counted),
        fairness=[*each(fair, combinations(range(len(kept)), 2))],
        waits=[wait for some in each(longest, range(len(kept))) for wait in some],
        bounds=mean_bounds([done[RunKey(0, r)].bounds for r in whole if 0 in there]),
        interrupted=_left_out(names, there, runs, done, len(whole)) if interrupted else "",
    )


def _left_out(
    names: Sequence[str], there: Sequence[int], runs: Sequence[RunKey], done: Mapping[RunKey, Done], kept: int
) -> str:
    absent = [name for p, name in enumerate(names) if p not in there]
    parts = [f"interrupted after {len(done)} of {len(runs)} runs"]
    parts += [f"left out: {', '.join(absent)}"] if absent else []
    asked = len({run.replication for run in runs})
    parts += [f"{kept} of {asked} replications"] if asked > 1 else []
    return "; ".join(parts)


def _means(metrics: Sequence[Metrics]) -> Metrics:
    means: Metrics = {}
    for name in metrics[0]:
        values = [value for each in metrics if (value := each[name]) is not None]
        means[name] = math.fsum(values) / len(values) if values else None
    return means
