"""Effects of other settings of a site's own Slurm: phases of the clocks, causes of idle nodes, use of the shares."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backfill.analysis.metrics import kept
from backfill.analysis.settings import Effect, effect
from backfill.api import Result, run_spec
from backfill.executors import Progress, Where, carry_out
from backfill.model.errors import BadArgument
from backfill.model.platform import Platform
from backfill.model.workload import Ints, Workload
from backfill.policies.slurm.conf import lines_of
from backfill.spec import RunSpec
from backfill.worlds.slurm_idle import Watched, watched
from backfill.worlds.slurm_watch import Windows

PHASES = 6
GOLDEN = 0.6180339887  # its multiples spread evenly over a period
COST_MS = 0.4  # by which a backfill test takes longer from run to run; a slurmctld needs 0.1 ms to some ms


@dataclass(frozen=True, slots=True)
class Settings:
    """The comparison of configurations of a site's own Slurm; the first one is the baseline."""

    names: tuple[str, ...]
    effects: tuple[Effect, ...]  # of the others, in order
    watched: tuple[Watched, ...]  # of all
    phases: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "phases": self.phases,
            "effects": [each.to_dict() for each in self.effects],
            "idle": [{"policy": name, **each.idle.to_dict()} for name, each in zip(self.names, self.watched,
                                                                                   strict=True)],
            "shares": [{"policy": name, **each.shares.to_dict()} for name, each in zip(self.names, self.watched,
                                                                                      strict=True) if each.shares],
            "cycles": [{"policy": name, "cycles": each.cycles, "mean_reached": each.reached}
                       for name, each in zip(self.names, self.watched, strict=True)],
        }  # fmt: skip


def is_of_settings(results: Sequence[Result]) -> bool:
    """Return whether all results are of the policy `slurm` with a site, and so differ in settings only."""
    return len(results) > 1 and all(r.policy.name == "slurm" and r.platform.slurm is not None for r in results)


def in_phases(spec: RunSpec, platform: Platform, phases: int) -> list[RunSpec]:
    """Return a run of `slurm` with other phases of its clocks and costs of a backfill test, the plain one first."""
    interval = max(spec.policy.resolved(spec.params, platform)["bf_interval"], 1.0)
    found = [spec]
    for i in range(1, phases):
        shifts = {
            "tick_phase": round(i * GOLDEN % 1, 3),
            "bf_phase": round(i * GOLDEN**2 % 1 * interval, 3),
            "bf_test_cost": round(i * COST_MS, 3),
        }
        given = {**spec.given, **{name: value for name, value in shifts.items() if name not in spec.given}}
        found.append(replace(spec, given=given, watched=None, explained=None))
    return found


@dataclass(frozen=True, eq=False)
class _Study:
    """The runs beside those of the comparison; can be sent to another process."""

    workload: Workload
    platform: Platform

    def carry_out(self, task: tuple[RunSpec, Windows | None]) -> Any:
        """Return the waits of a run; with windows, what watching it there finds."""
        spec, windows = task
        if windows is not None:
            return watched(self.workload, self.platform, spec.params, spec.options, windows)
        return _waits(run_spec(self.workload, self.platform, spec))


def windows_of(result: Result) -> Windows:
    """Return the parts of a run in which it is watched."""
    schedule = result.schedule
    end = int(schedule.end[schedule.ran].max(initial=0))
    return Windows.of(int(schedule.submit.min(initial=end)), end, result.simulation.passes)


def _waits(result: Result) -> tuple[Ints, Any]:
    """Return the wait of each job, and whether it ran."""
    schedule = result.schedule
    return schedule.start - np.maximum(result.workload.jobs.submit, schedule.eligible), schedule.finished


def settings(
    results: Sequence[Result],
    names: Sequence[str],
    phases: int = PHASES,
    where: Where = None,
    progress: Progress | None = None,
) -> Settings:
    """Compare configurations of a site's own Slurm, the first one with each of the others.

    results: for which `is_of_settings` holds. phases: of the clocks, with which each configuration runs; 1 has no noise
    floor. Raises UsageError.
    """
    if phases < 1:
        raise BadArgument("phases", phases, "a whole number >= 1")
    first = results[0]
    workload, platform = first.workload, first.platform
    shifted: list[tuple[RunSpec, Windows | None]] = [
        (spec, None) for each in results for spec in in_phases(each.spec, platform, phases)[1:]
    ]
    seen: list[tuple[RunSpec, Windows | None]] = [(each.spec, windows_of(each)) for each in results]
    found = carry_out(_Study(workload, platform).carry_out, [*shifted, *seen], where, progress)
    runs: list[list[tuple[Ints, Any]]] = []
    for i, each in enumerate(results):
        mine = found[i * (phases - 1) : (i + 1) * (phases - 1)]
        runs.append([_waits(each), *mine])
    there = kept(workload.jobs.submit, first.warmup, first.cooldown)
    effects = []
    for i in range(1, len(results)):
        ran = np.all([finished for _, finished in (*runs[0], *runs[i])], axis=0)
        before, after = ([wait for wait, _ in runs[j]] for j in (0, i))
        rows = np.flatnonzero(there & ran)
        effects.append(effect(workload, (names[i], names[0]), rows, before, after, _lines(results[i])))
    return Settings(tuple(names), tuple(effects), tuple(found[len(shifted) :]), phases)


def _lines(result: Result) -> list[str]:
    """Return the lines of slurm.conf of a configuration."""
    assert result.platform.slurm is not None
    return lines_of(result.platform.slurm, result.spec.params)
