"""Why a job waited under the policy `slurm`, in Slurm's words: its reason codes, plans and the loop that started it.

A reason stays from the loop that last reached the job: a limit, Licenses, Resources for the job that blocks its
partition, Priority for those behind it, ReqNodeNotAvail if higher tiers have taken its nodes; None before the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from backfill.core.place.placement import DISTINCT, NODE
from backfill.core.verbs import BACKFILL
from backfill.model.platform import Platform
from backfill.model.units import SECOND, counted, span_text
from backfill.model.workload import Workload
from backfill.policies import get
from backfill.policies.slurm.backfill import cycle
from backfill.policies.slurm.main import main_pass
from backfill.policies.slurm.queue import is_limited
from backfill.policies.slurm.reasons import say_limit
from backfill.policies.slurm.told import BEYOND, LIMITED, TOO_DEEP, UNLICENSED
from backfill.worlds.options import Options
from backfill.worlds.slurm_idle import limit_of
from backfill.worlds.slurm_reasons import NONE, code_of_reason
from backfill.worlds.slurm_resync import Happened, moment
from backfill.worlds.slurm_truth import Agreement
from backfill.worlds.slurm_watch import Seen, recording, watch_job

SHOWN = 5  # jobs that are named
_VERDICTS = {
    LIMITED: "a limit stopped it",
    TOO_DEEP: "a limit of jobs looked at (bf_max_job_user, bf_max_job_part) was used up",
    UNLICENSED: "licences were missing",
    BEYOND: "its start would be beyond bf_window",
}


@dataclass(frozen=True, slots=True)
class Story:
    """The wait of a job under `slurm`. Spans in seconds, instants in seconds of the run."""

    job: str
    loop: str  # that started it: main or backfill; empty if none did
    reasons: tuple[tuple[str, float], ...]  # reason code and how long, in order of first appearance
    behind: tuple[tuple[str, float], ...]  # jobs that blocked its partition meanwhile, and how long
    kept_for: tuple[tuple[str, float], ...]  # jobs whose plan kept nodes on which it would have fitted, and how long
    cycles: int  # of the backfill loop while it waited
    reached: int  # of these, those that tested or planned it
    first_reached_s: float | None  # after its submit
    first_plan_s: float | None  # planned start after its submit, in the first plan
    last_plan_s: float | None
    verdicts: tuple[tuple[str, int], ...]  # why cycles gave it no plan, and how many

    @property
    def text(self) -> list[str]:
        """The story, a sentence each."""
        waited = ", ".join(f"{code} for {_span(spent)}" for code, spent in self.reasons)
        said = [f"reasons: {waited}" if waited else "it did not wait"]
        for who, what in (
            (self.behind, "its partition was blocked by"),
            (self.kept_for, "nodes on which it would have fitted were planned for"),
        ):
            if who:
                said.append(f"{what}: {', '.join(f'job {job} ({_span(spent)})' for job, spent in who)}")
        if self.cycles:
            reached = f"{self.reached:,} of {counted(self.cycles, 'backfill cycle')} reached it"
            if self.first_reached_s is not None:
                reached += f", the first one {_span(self.first_reached_s)} after its submit"
            said.append(reached)
        if self.first_plan_s is not None and self.last_plan_s is not None:
            first, last = _span(self.first_plan_s), _span(self.last_plan_s)
            said.append(f"its first plan was to start {first} after its submit, the last one {last}")
        said += [f"no plan in {counted(many, 'cycle')}: {why}" for why, many in self.verdicts]
        if self.loop:
            said.append(f"started by the {self.loop} loop (Sched{self.loop.capitalize()})")
        return said

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "job": self.job,
            "loop": self.loop,
            "reasons": [{"reason": code, "for_s": spent} for code, spent in self.reasons],
            "behind": [{"job": job, "for_s": spent} for job, spent in self.behind],
            "kept_for": [{"job": job, "for_s": spent} for job, spent in self.kept_for],
            "cycles": self.cycles,
            "reached": self.reached,
            "first_plan_s": self.first_plan_s,
            "last_plan_s": self.last_plan_s,
            "text": self.text,
        }


@dataclass
class _Told:
    reasons: dict[str, float] = field(default_factory=dict)
    behind: dict[str, float] = field(default_factory=dict)
    kept_for: dict[str, float] = field(default_factory=dict)
    verdicts: dict[str, int] = field(default_factory=dict)


def story(
    workload: Workload, platform: Platform, params: Mapping[str, float | str], options: Options, row: int
) -> Story:
    """Return the story of the job in a row of the workload; the policy runs once more."""
    submit, told = int(workload.jobs.submit[row]), _Told()
    cycles, reached, loop = 0, 0, ""
    first_reached = first_plan = last_plan = None
    last: tuple[str, str, tuple[str, ...]] | None = None
    since = submit
    for seen, job in watch_job(workload, platform, params, options, row):
        if last is not None:
            _add(told, last, (seen.now - since) / SECOND)
        names, decisions = seen.begun.jobs.job, seen.decisions
        run = int(seen.begun.state.runs.last[job])
        if seen.cycle and decisions is not None:
            cycles += 1
            plan, verdict = decisions.plans.get(job), decisions.verdicts.get(job)
            if plan is not None or verdict is not None or run >= 0:
                reached += 1
                first_reached = (seen.now - submit) / SECOND if first_reached is None else first_reached
            if plan is not None:
                last_plan = (plan.begin - submit) / SECOND
                first_plan = last_plan if first_plan is None else first_plan
            elif verdict in _VERDICTS:
                told.verdicts[_VERDICTS[verdict]] = told.verdicts.get(_VERDICTS[verdict], 0) + 1
        if run >= 0:
            loop = "backfill" if int(seen.begun.state.runs.reason[run]) == BACKFILL else "main"
        else:
            reason, first = reason_of(seen, job), blocker_of(seen, job)
            keepers = tuple(str(names[other]) for other in _keepers(seen, job))
            last, since = (reason, str(names[first]) if first >= 0 else "", keepers), seen.now
    return Story(
        job=str(workload.jobs.job[row]),
        loop=loop,
        reasons=tuple((code, spent) for code, spent in told.reasons.items() if spent > 0),
        behind=_most(told.behind),
        kept_for=_most(told.kept_for),
        cycles=cycles,
        reached=reached,
        first_reached_s=first_reached,
        first_plan_s=first_plan,
        last_plan_s=last_plan,
        verdicts=tuple(told.verdicts.items()),
    )


def _add(told: _Told, what: tuple[str, str, tuple[str, ...]], spent: float) -> None:
    reason, first, keepers = what
    told.reasons[reason] = told.reasons.get(reason, 0.0) + spent
    if first:
        told.behind[first] = told.behind.get(first, 0.0) + spent
    for job in keepers:
        told.kept_for[job] = told.kept_for.get(job, 0.0) + spent


def _most(spent: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(((job, time) for job, time in spent.items() if time > 0), key=lambda each: -each[1])[:SHOWN])


def reason_of(seen: Seen, job: int) -> str:
    """Return the reason code of a job that has not started."""
    if not seen.begun.state.queue.waits[job]:
        return "Dependency"
    return code_of_reason(int(seen.view.own.reason[job]), seen.view.own, seen.begun.platform)


def blocker_of(seen: Seen, job: int) -> int:
    """Return the job that blocks the partition of a waiting job for the main loop; -1 if none but itself does.

    The first job of a partition that does not fit blocks it and takes its nodes away.
    """
    own, nodes = seen.view.own, int(seen.view.machine.nodes)
    inside = own.partition_nodes.reshape(-1, nodes) != 0
    left, blocked = np.asarray(seen.view.machine.capacity)[:, 0] > 0, dict[int, int]()
    for other in seen.waiting:
        part = int(own.partition[other])
        if other == job or part in blocked:
            if other == job:
                return blocked.get(part, -1)
            continue
        if limit_of(seen, other, amounts=False) or lacks_licences(seen, other):
            continue
        if not (limit_of(seen, other, amounts=True) and _could_fit(seen, other, inside[part] & left)):
            blocked[part] = other
            left &= ~inside[part]
    return -1


def reasons_alike(
    workload: Workload,
    platform: Platform,
    params: Mapping[str, float | str],
    happened: Happened,
    expected: Mapping[str, str],
    now: int,
) -> Agreement:
    """Compare reason codes with those of `squeue`, as a cycle of the backfill loop and a pass of the main loop leave
    them. now: when that cycle began.

    expected: reason by job; `None` is that of a job that no loop has looked at, and is not compared.
    """
    found = Agreement()
    at = moment(workload, platform, recording(get("slurm")), params, happened, now)
    for job in at.waiting:
        if is_limited(at.view, job, False):
            say_limit(at.view, job)
    cycle(at.view)
    main_pass(at.view, False)
    for job in at.waiting:
        if (real := expected.get(at.names[job], NONE)) != NONE:
            mine = code_of_reason(int(at.view.own.reason[job]), at.view.own, at.begun.platform)
            mine = mine if at.begun.state.queue.waits[job] else "nothing: it starts"
            found.note("squeue: reason", mine == real, f"job {at.names[job]}: {real}, in the model {mine}")
    return found


def lacks_licences(seen: Seen, job: int) -> bool:
    """Return whether a licence that a job needs is not free."""
    state = seen.begun.state
    items = range(int(state.jobs.licence_first[job]), int(state.jobs.limit_first[job]))
    return any(state.free.licences[state.jobs.licence[i]] < state.jobs.licence_count[i, 0] for i in items)


def _could_fit(seen: Seen, job: int, may: Any) -> bool:
    """Return whether these nodes could hold a job if they were empty, by the sum of its tasks."""
    view = seen.view
    demand, tasks = np.asarray(view.jobs.demand[job]), int(view.jobs.tasks[job])
    asked = np.flatnonzero(demand)
    if not len(asked):
        return bool(may.any())
    fit = (np.asarray(view.machine.capacity)[may][:, asked] // demand[asked]).min(axis=1).clip(0, tasks)
    least = int(view.own.min_nodes[job]) if len(view.own.min_nodes) else 0
    if view.jobs.spread[job] == DISTINCT:
        return int(np.count_nonzero(fit)) >= tasks
    if tasks == 1 or view.jobs.spread[job] == NODE or (len(view.own.max_nodes) and view.own.max_nodes[job] == 1):
        return bool((fit >= tasks).any())
    return int(fit.sum()) >= tasks and int(np.count_nonzero(fit)) >= max(least, 1)


def _keepers(seen: Seen, job: int) -> list[int]:
    """Return the jobs for which nodes are planned on which a task of this job would fit now."""
    if seen.decisions is None:
        return []
    view = seen.view
    demand = np.asarray(view.jobs.demand[job])
    asked = np.flatnonzero(demand)
    inside = view.own.partition_nodes.reshape(-1, int(view.machine.nodes))[int(view.own.partition[job])] != 0
    fits = inside & (np.asarray(view.free.nodes)[:, asked] >= demand[asked]).all(axis=1)
    return [
        other
        for other, plan in seen.decisions.plans.items()
        if other != job and view.queue.waits[other] and fits[list(plan.nodes)].any()
    ]


def _span(seconds: float) -> str:
    return span_text(seconds * SECOND)
