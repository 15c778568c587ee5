"""Compare policies with the best possible schedule, on windows of a log that begin in the middle of its run.

docs/decisions/0056-a-distance-from-the-optimum.md defines a window.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from backfill.analysis.distance import Distance
from backfill.analysis.metrics import NOTHING, Counted
from backfill.analysis.optimum.instance import check_modelled, instance
from backfill.analysis.optimum.solver import check_installed, costs
from backfill.api import Result, run_spec
from backfill.executors import Progress, Where, carry_out
from backfill.model.errors import BadArgument, UsageError
from backfill.model.platform import Platform
from backfill.model.units import NEVER, SECOND
from backfill.model.workload import Ints, Workload
from backfill.optima import best_of
from backfill.spec import RunSpec

JOBS = 40  # in a window
TIME_LIMIT = 5.0  # deterministic seconds for each window


@dataclass(frozen=True, eq=False, slots=True)
class _Window:
    """Jobs that run at an instant, submitted at their starts, and the next ones, submitted then or later."""

    log: Workload
    running: int  # number of first rows that are running already


@dataclass(frozen=True, slots=True)
class _Waits:
    """Mean waits in one window, in seconds."""

    by_policy: tuple[float, ...]
    best: float
    bound: float
    proven: bool


@dataclass(frozen=True, eq=False)
class _Measured:
    """The measurement of one window; can be sent to another process."""

    platform: Platform
    specs: Sequence[RunSpec]
    names: Sequence[str]
    time_limit: float

    def window(self, window: _Window) -> _Waits:
        """Return the waits under each policy and the least possible ones."""
        results = [run_spec(window.log, self.platform, spec) for spec in self.specs]
        overrun = self.specs[0].options.overrun
        rows = np.arange(len(window.log))
        made = instance(window.log, self.platform, rows, overrun=overrun, running=range(window.running))
        for name, result in zip(self.names, results, strict=True):
            self._check(name, result, window.running)
        waits = [Counted.at(rows[window.running :], window.log, result.schedule).wait for result in results]
        totals = [float(each.sum()) for each in waits]
        schedule = results[int(np.argmin(totals))].schedule
        solved = best_of(made, "mean-wait", schedule, self.time_limit, self.specs[0].options.seed)
        unit, count = made.unit / SECOND, len(rows) - window.running
        if made.pooled:  # a schedule for one large node cannot be run
            best = min(totals) / count / SECOND
            return _Waits(tuple(each / count / SECOND for each in totals), best, min(solved.bound * unit, best), False)
        best = costs(made, "mean-wait", solved.starts) * unit
        bound = min(best if solved.proven else solved.bound * unit, best)
        return _Waits(tuple(each / count / SECOND for each in totals), best, bound, solved.proven or bound == best)

    def _check(self, name: str, result: Result, running: int) -> None:
        """Raise UsageError if the optimum does not model the policy, or the window does not begin as required."""
        jobs, schedule = result.workload.jobs, result.schedule
        held = jobs.runtime if self.specs[0].options.overrun == "extend" else np.minimum(jobs.runtime, jobs.walltime)
        speed = float(self.platform.speed[0])
        changed = schedule.runs is not None or (speed == 1 and (schedule.end - schedule.start != held).any())
        if changed or not schedule.finished.all():
            raise UsageError(
                f"--optimum cannot judge {name}: it interrupts jobs or changes how long they run, and the best "
                "schedule does neither"
            )
        if (schedule.start[:running] != jobs.submit[:running]).any():
            raise UsageError(
                f"--optimum cannot judge {name}: it does not start jobs that fit on an idle machine at once, "
                "so its windows begin in another state"
            )


def distances(
    results: Sequence[Result],
    names: Sequence[str],
    windows: int,
    jobs: int = JOBS,
    time_limit: float = TIME_LIMIT,
    where: Where = None,
    progress: Progress | None = None,
) -> list[Distance]:
    """Return the distance of each policy from the best possible mean wait, on windows drawn from the run of the first.

    windows: their number, one from each of as many equal parts of the log. Raises UsageError for what is not modelled.
    """
    check(windows, jobs, len(results[0].workload))
    first = results[0]
    check_modelled(first.workload, first.platform)
    if first.events is not None or len(first.workload.jobs.after.items):
        raise UsageError("--optimum does not model events, or jobs that come after others")
    drawn = _drawn(first, windows, jobs)
    specs = [replace(each.spec, warmup=NOTHING, cooldown=NOTHING, watched=None, explained=None) for each in results]
    measured = _Measured(first.platform, specs, names, time_limit)
    found = carry_out(measured.window, drawn, where, progress)
    best, bound = [each.best for each in found], [each.bound for each in found]
    proven = sum(each.proven for each in found)
    return [
        Distance.of(name, [each.by_policy[k] for each in found], best, bound, jobs, proven)
        for k, name in enumerate(names)
    ]


def check(windows: int, jobs: int = JOBS, there: int | None = None) -> None:
    """Raise UsageError if this many windows cannot be drawn, or the solver is not installed."""
    if windows < 1:
        raise BadArgument("optimum", windows, "a number of windows >= 1")
    if there is not None and there < jobs:
        raise BadArgument("optimum", windows, f"a log of {jobs} jobs or more, a window; this one has {there}")
    if there is not None and windows * jobs > there:
        raise BadArgument("optimum", windows, f"at most {there // jobs} windows of {jobs} jobs, which do not overlap")
    check_installed()


def _drawn(result: Result, windows: int, jobs: int) -> list[_Window]:
    """Return one window from each of `windows` equal parts of the jobs, at a random position given by the seed."""
    log, schedule = result.workload, result.schedule
    rows = np.flatnonzero(schedule.finished)
    rows = rows[np.argsort(log.jobs.submit[rows], kind="stable")]
    if len(rows) < windows * jobs:
        raise BadArgument("optimum", windows, f"at most {len(rows) // jobs} windows of {jobs} jobs that ran")
    edges = np.linspace(0, len(rows), windows + 1).astype(np.int64)
    draw = np.random.default_rng(result.seed)
    # Computed from plain random words, so that the positions do not depend on the version of numpy.
    words = draw.bit_generator.random_raw(windows)
    spare = np.diff(edges) - jobs
    places = [int(edge) + int(word) % (int(room) + 1) for edge, word, room in zip(edges, words, spare, strict=False)]
    return [_window(result, rows, place, jobs) for place in places]


def _window(result: Result, rows: Ints, place: int, count: int) -> _Window:
    """Return the window that begins at the submit of the job at an index of `rows`, which are in order of submit."""
    log, schedule = result.workload, result.schedule
    now = int(log.jobs.submit[rows[place]])
    start, end = schedule.start[rows], schedule.end[rows]
    running = rows[(start < now) & (end > now)]
    running = running[np.argsort(schedule.start[running], kind="stable")]
    coming = rows[start >= now][:count]
    jobs = log.jobs.take(np.concatenate([running, coming]))
    submit = np.concatenate([schedule.start[running], np.maximum(log.jobs.submit[coming], now)])
    none = np.full(len(submit), -1)
    return _Window(
        replace(
            log, jobs=jobs.replace(submit=submit, waited=none, deadline=np.full(len(submit), NEVER)), platform=None
        ),
        len(running),
    )
