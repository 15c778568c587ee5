"""The exact optimum of a small workload, or a bound for a long one from its windows. See docs/reference/optimum.md."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from backfill import __version__
from backfill.analysis.bounds import bounds
from backfill.analysis.metrics import Counted, Metrics, metrics
from backfill.analysis.optimum.instance import OBJECTIVES, Instance, check_modelled, check_windows, instance
from backfill.analysis.optimum.solver import Solved, check_installed, costs, solve
from backfill.analysis.verify import Violation, verify
from backfill.api import SCHEMA, Result, run_spec
from backfill.executors import Progress
from backfill.model.errors import BadArgument, UsageError
from backfill.model.events import BoundEvents
from backfill.model.platform import Platform
from backfill.model.schedule import FIT, NO_TIME, Schedule
from backfill.model.units import SECOND, counted
from backfill.model.workload import Ints, Ragged, Workload
from backfill.spec import RunSpec

JOBS_MOST = 200  # in one instance
TIME_LIMIT = 60.0
BASE = "easy"  # the solver begins with the schedule of this policy
_METRIC = {"mean-wait": "mean_wait_s", "makespan": "makespan_s"}  # objectives that analysis/bounds.py bounds as well


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Jobs in sequence, scheduled by themselves on an empty machine."""

    first: str  # id of the first job
    jobs: int
    bound: float  # lower bound for every schedule of these jobs
    proven: bool  # whether the bound is reached


@dataclass(frozen=True, eq=False, kw_only=True)
class Optimum:
    """The best schedule of a workload with its proven bound, or for windows the bound alone.

    Values are in seconds for `mean-wait` and `makespan`.

    >>> import backfill as bf
    >>> log = bf.generate("lublin?jobs=8&cpus=64&seed=3")
    >>> bf.optimum(log)
    <Optimum of lublin: 8 jobs on 64 cpus: mean wait 0 s, proven>
    """

    base: Result  # under the policy whose schedule the solver begins with
    objective: str
    value: float | None  # of `schedule`
    bound: float  # lower bound for every schedule
    proven: bool  # whether `schedule` is optimal
    schedule: Schedule | None  # None for windows, and if nodes were pooled
    pooled: bool  # whether the nodes were treated as one, so that there is only a bound
    windows: Sequence[Window] = ()
    seed: int = 0
    time_limit: float = TIME_LIMIT

    @property
    def policy_value(self) -> float:
        """The objective under the policy with which the solver began.

        >>> import backfill as bf
        >>> bf.optimum(bf.generate("lublin?jobs=8&cpus=64&seed=3")).policy_value
        0.0
        """
        rows = np.flatnonzero(self.base.schedule.finished)
        return _value(self.base.workload, self.base.platform, self.base.schedule, rows, self.objective, self._overrun)

    @property
    def _overrun(self) -> str:
        return self.base.options.overrun

    @cached_property
    def metrics(self) -> Metrics:
        """Every metric of the best schedule; empty if there is none.

        >>> import backfill as bf
        >>> bf.optimum(bf.generate("lublin?jobs=8&cpus=64&seed=3")).metrics["jobs"]
        8
        """
        return {} if self.schedule is None else metrics(self.base.workload, self.base.platform, self.schedule)

    def verify(self) -> list[Violation]:
        """Return the violations that the independent checker finds in the best schedule.

        >>> import backfill as bf
        >>> bf.optimum(bf.generate("lublin?jobs=8&cpus=64&seed=3")).verify()
        []
        """
        overrun: Any = self._overrun
        return [] if self.schedule is None else verify(self.base.workload, self.base.platform, self.schedule,
                                                       overrun=overrun, events=self.base.events)  # fmt: skip

    def write(self, path: str | Path) -> None:
        """Write the best schedule as a CSV file, which `backfill verify` reads. Raises UsageError if there is none.

        >>> import backfill as bf
        >>> bf.optimum(bf.generate("lublin?jobs=8&cpus=64&seed=3")).write("best.csv")
        """
        from backfill.traces.schedules import write_schedule

        if self.schedule is None:
            raise UsageError(f"there is no schedule to write: {self.why_no_schedule}")
        write_schedule(self.schedule, str(path))

    @property
    def why_no_schedule(self) -> str:
        """The reason why there is a bound but no schedule; empty if there is a schedule.

        >>> import backfill as bf
        >>> bf.optimum(bf.generate("lublin?jobs=8&cpus=64&seed=3"), window=4).why_no_schedule
        'windows are scheduled each by itself'
        """
        if self.windows:
            return "windows are scheduled each by itself"
        return "jobs x nodes are too many to place, so the nodes count as one" if self.pooled else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of `optimum --json`.

        >>> import backfill as bf
        >>> bf.optimum(bf.generate("lublin?jobs=8&cpus=64&seed=3")).to_dict()["proven"]
        True
        """
        workload, solved = self.base.workload, [each.proven for each in self.windows]
        return {
            "schema": SCHEMA,
            "backfill": __version__,
            "workload": {"name": workload.name, "sha256": workload.sha256, "jobs": len(workload)},
            "platform": self.base.platform.as_dict(),
            "objective": self.objective,
            "value": self.value,
            "bound": self.bound,
            "proven": self.proven,
            "nodes_pooled": self.pooled,
            "policy": {"name": self.base.name, "value": self.policy_value},
            "windows": [
                {"first": each.first, "jobs": each.jobs, "bound": each.bound, "proven": each.proven}
                for each in self.windows
            ],
            "windows_proven": sum(solved),
            "seed": self.seed,
            "time_limit": self.time_limit,
            "notes": self.base.notes,
            "metrics": self.metrics,
        }

    def text(self, value: float) -> str:
        """Return a value of the objective with its unit.

        >>> import backfill as bf
        >>> bf.optimum(bf.generate("lublin?jobs=8&cpus=64&seed=3")).text(90)
        '90.0 s'
        """
        from backfill.model.units import times, unit_of

        if self.objective not in _METRIC:
            return f"{value:.3f}"
        known = [each for each in (self.value, self.bound, self.policy_value) if each is not None]
        return times([value, *known], unit_of(known))[0]

    def summary(self) -> str:
        """Return the result as text.

        >>> import backfill as bf
        >>> print(bf.optimum(bf.generate("lublin?jobs=8&cpus=64&seed=3")).summary())
        lublin: 8 jobs on 64 cpus
        <BLANKLINE>
        mean wait
          best possible  0 s  (proven)
          easy           0 s
        """
        lines = [self.base.title, "", OBJECTIVES[self.objective]]
        if self.proven and self.value is not None:
            rows = [("best possible", self.text(self.value), "(proven)")]
        else:
            found = [] if self.value is None else [("best found", self.text(self.value), "")]
            solved = sum(each.proven for each in self.windows)
            of = f", {solved} solved to the end" if self.windows else ""
            how = f"(from {counted(len(self.windows), 'window')}{of})" if self.windows else "(proven)"
            rows = [*found, ("at least", self.text(self.bound), how)]
        rows.append((self.base.name, self.text(self.policy_value), _above(self.policy_value, self.value, self.bound)))
        width, wide = (max(len(row[k]) for row in rows) for k in (0, 1))
        lines += [f"  {name:<{width}}  {value:>{wide}}  {more}".rstrip() for name, value, more in rows]
        return "\n".join(lines)

    def __repr__(self) -> str:
        said = f"at least {self.text(self.bound)}" if self.value is None else self.text(self.value)
        proven = ", proven" if self.proven else "" if self.value is None else f", at least {self.text(self.bound)}"
        return f"<Optimum of {self.base.title}: {OBJECTIVES[self.objective]} {said}{proven}>"


def optimum(
    log: Workload,
    pool: Platform | None = None,
    objective: str = "mean-wait",
    *,
    window: int | None = None,
    time_limit: float = TIME_LIMIT,
    seed: int = 0,
    overrun: str = "kill",
    policy: str = BASE,
    events: Any = None,
    progress: Progress | None = None,
) -> Optimum:
    """Return the best schedule that is possible if all jobs and their run times are known in advance.

    objective:  `mean-wait`, `makespan` or `weighted-bounded-slowdown` (by processors).
    window:     number of jobs per window, in order of submit, each solved by itself: a bound for a long log.
    time_limit: for each instance, in deterministic seconds of the solver: the same result on any machine.
    policy:     the solver begins with its schedule.
    events:     windows of whole nodes, see `simulate`.
    progress:   called with the number of finished windows.

    Needs the extra `optimum`. Raises UsageError for what is not modelled: docs/reference/optimum.md.

    >>> import backfill as bf
    >>> best = bf.optimum(bf.generate("lublin?jobs=20&cpus=64"), objective="makespan")
    >>> best.value == best.bound <= best.policy_value
    True
    """
    check_arguments(objective, window, time_limit)
    check_installed()
    spec = RunSpec.of(policy, seed=seed, overrun=overrun, events=events)
    base = run_spec(log, pool, spec)
    check_modelled(base.workload, base.platform)
    if (windows := _windows(base.workload, base)) is not None:
        check_windows(windows)
    rows = np.flatnonzero(base.schedule.finished)
    if not len(rows):
        raise UsageError(f"{base.workload.name}: no job can run here, so there is nothing to schedule")
    solver = _Solver(objective, time_limit, seed, spec)
    if window is None:
        if len(rows) > JOBS_MOST:
            raise UsageError(
                f"{base.workload.name}: {len(rows):,} jobs are too many for one instance; expected {JOBS_MOST} "
                "at most, or windows (--window 40), which give a bound"
            )
        return solver.whole(base, rows)
    return solver.rolling(base, rows, window, progress)


def check_arguments(objective: str, window: int | None, time_limit: float) -> None:
    """Raise UsageError for an invalid argument."""
    if objective not in OBJECTIVES:
        raise BadArgument("objective", objective, ", ".join(OBJECTIVES))
    if window is not None and not 1 <= window <= JOBS_MOST:
        raise BadArgument("window", window, f"a whole number of jobs from 1 to {JOBS_MOST}")
    if not 0 < time_limit < float("inf"):
        raise BadArgument("time_limit", time_limit, "a number of seconds > 0")


@dataclass(frozen=True, slots=True)
class _Solver:
    objective: str
    time_limit: float
    seed: int
    spec: RunSpec

    def whole(self, base: Result, rows: Ints) -> Optimum:
        """Solve all jobs as one instance."""
        windows = _windows(base.workload, base)
        made = instance(base.workload, base.platform, rows, overrun=self.spec.options.overrun, events=windows)
        solved = best_of(made, self.objective, base.schedule, self.time_limit, self.seed)
        bound = max(self._in_seconds(made, solved.bound), self._known(base, rows))
        schedule = None if made.pooled else _scheduled(base, made, solved)
        value = None if schedule is None else self._in_seconds(made, costs(made, self.objective, solved.starts))
        proven = value is not None and (solved.proven or bound >= value)
        return self._optimum(
            base, value, value if proven and value is not None else bound, proven, schedule, made.pooled
        )

    def rolling(self, base: Result, rows: Ints, size: int, progress: Progress | None) -> Optimum:
        """Solve windows in order of submit, each on an empty machine; leaving jobs out keeps a schedule valid."""
        workload, makespan = base.workload, self.objective == "makespan"
        alone = np.diff(workload.jobs.after.first)[rows] == 0
        chosen = rows if makespan else rows[alone]  # the schedule determines when waits of dependent jobs begin
        chosen = chosen[np.argsort(workload.jobs.submit[chosen], kind="stable")]
        origin, windows, values, pooled = int(workload.jobs.submit[rows].min()), [], [], False
        weights = np.ones_like(workload.jobs.procs) if self.objective == "mean-wait" else workload.jobs.procs
        for place in range(0, len(chosen), size):
            part = chosen[place : place + size]
            own = run_spec(workload.with_rows(np.sort(part)), base.platform, self.spec)
            made = instance(own.workload, base.platform, np.arange(len(part)), overrun=self.spec.options.overrun,
                            alone=True, events=_windows(own.workload, own))  # fmt: skip
            solved = best_of(made, self.objective, own.schedule, self.time_limit, self.seed)
            bound = max(self._in_seconds(made, solved.bound), self._known(own, np.arange(len(part))))
            exact = solved.proven and not made.pooled
            windows.append(Window(first=str(workload.jobs.job[part[0]]), jobs=len(part), bound=bound, proven=exact))
            values.append(bound + (made.begin - origin) / SECOND if makespan else bound * int(weights[part].sum()))
            pooled = pooled or made.pooled
            if progress is not None:
                progress(place + len(part))
        if makespan:
            bound = max(values)
        else:
            least = 0.0 if self.objective == "mean-wait" else float(weights[rows].sum() - weights[chosen].sum())
            bound = (sum(values) + least) / max(int(weights[rows].sum()), 1)
        return self._optimum(base, None, max(bound, self._known(base, rows)), False, None, pooled, windows)

    def _optimum(
        self,
        base: Result,
        value: float | None,
        bound: float,
        proven: bool,
        schedule: Schedule | None,
        pooled: bool,
        windows: Sequence[Window] = (),
    ) -> Optimum:
        return Optimum(
            base=base,
            objective=self.objective,
            value=value,
            bound=bound,
            proven=proven,
            schedule=schedule,
            pooled=pooled,
            windows=windows,
            seed=self.seed,
            time_limit=self.time_limit,
        )

    def _in_seconds(self, made: Instance, value: float) -> float:
        return value * made.unit / SECOND if self.objective in _METRIC else value

    def _known(self, base: Result, rows: Ints) -> float:
        """Return the bound of docs/reference/bounds.md, which needs no search."""
        jobs = Counted.at(rows, base.workload, base.schedule)
        found = bounds(base.workload, base.platform, jobs, self.spec.options.overrun)
        known = {each.metric: each.value or 0.0 for each in found}
        return known.get(_METRIC.get(self.objective, ""), 0.0)


def _windows(workload: Workload, base: Result) -> BoundEvents | None:
    return None if base.events is None else base.events.bind(workload, base.platform)


def best_of(made: Instance, objective: str, schedule: Schedule, time_limit: float, seed: int) -> Solved:
    """Return the better of the solver's schedule and a valid one, with the solver's bound."""
    hint = ((schedule.start[made.rows] - made.begin) // made.unit).tolist()
    solved = solve(made, objective, hint, time_limit, seed)
    if solved.starts and costs(made, objective, solved.starts) <= costs(made, objective, hint):
        return solved
    pairs = [schedule.held[row].reshape(-1, 2).tolist() for row in made.rows.tolist()]
    places = tuple(tuple((node, tasks) for node, tasks in each) for each in pairs)
    return replace(solved, starts=tuple(hint), held=places, proven=False)


def _scheduled(base: Result, made: Instance, solved: Solved) -> Schedule:
    """Return the schedule with these starts; rejected jobs stay rejected."""
    jobs, rows = base.workload.jobs, made.rows
    start, end = base.schedule.start.copy(), base.schedule.end.copy()
    start[rows] = made.begin + np.array(solved.starts, np.int64) * made.unit
    end[rows] = start[rows] + np.array([task.held for task in made.tasks], np.int64) * made.unit
    held: list[list[int]] = [[] for _ in range(len(jobs))]
    for row, places in zip(rows.tolist(), solved.held, strict=True):
        held[row] = [number for place in places for number in place]
    schedule = replace(base.schedule, start=start, end=end, held=Ragged.of(held), runs=None,
                       reason=np.where(start == NO_TIME, -1, FIT).astype(np.int8),
                       promise=np.full(len(jobs), NO_TIME))  # fmt: skip
    return replace(schedule, eligible=np.maximum(jobs.submit, schedule.ready(jobs)))


def _value(
    workload: Workload, platform: Platform, schedule: Schedule, rows: Ints, objective: str, overrun: str
) -> float:
    made = instance(workload, platform, rows, overrun=overrun)
    starts = ((schedule.start[rows] - made.begin) / made.unit).tolist()
    value = costs(made, objective, starts)
    return value * made.unit / SECOND if objective in _METRIC else value


def _above(value: float, best: float | None, bound: float) -> str:
    """Return how far a value is from the best one, as text."""
    if best is not None and best < value and best > 0:
        return f"({value / best - 1:.1%} above)"
    return f"(at most {value / bound - 1:.1%} above)" if best is None and 0 < bound < value else ""
