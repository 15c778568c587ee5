"""The policy `slurm` against the debug log of a real slurmctld, re-synchronised: at each pass of the log a State gets
what the log says of waiting and running jobs, and the model decides once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from backfill.compiler.view import View
from backfill.core.once import arranger
from backfill.core.policy import Policy
from backfill.core.queue.walk import arrange_by
from backfill.core.runs import RUNNING
from backfill.core.transitions import ask, begin, put, release, submit, tick
from backfill.core.verbs import HEAD
from backfill.model.platform import Platform
from backfill.model.slurm_log import Decided, LoopPass, SlurmctldLog
from backfill.model.units import SECOND
from backfill.model.workload import Ints, Jobs, Ragged, Workload
from backfill.policies import get
from backfill.policies.slurm.backfill import cycle
from backfill.policies.slurm.fairshare import decay_per_second
from backfill.policies.slurm.main import main_pass
from backfill.policies.slurm.minutes import (
    count_spared,
    forget_minutes,
    hold_minutes,
    let_accrue,
    limit_seconds,
    use_minutes,
)
from backfill.policies.slurm.priority import points_of
from backfill.policies.slurm.queue import is_limited, key_of, list_of
from backfill.policies.slurm.reasons import LIMIT, say_limit
from backfill.worlds.options import Options
from backfill.worlds.simulated import Begun
from backfill.worlds.simulated import begin as begin_run
from backfill.worlds.slurm_reasons import NONE, code_of_reason
from backfill.worlds.slurm_tasks import tasks_on
from backfill.worlds.slurm_watch import entries, recording

KEPT = 2**62  # a limit that was the reason before a pass
SHOWN = 5  # differences that are quoted


@dataclass
class Agreement:
    """How often the model decided as the log says: kind -> number alike, and number in all; and some differences."""

    alike: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    different: int = 0
    skipped: int = 0  # passes of the log that are not compared
    # tasks of each running job on each node, by its name, as the model gave them: the log does not say
    held: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    # of each waiting job by its name, as the last pass left it: policies/slurm/reasons.py, and Slurm's code
    reasons: dict[str, tuple[int, str]] = field(default_factory=dict)

    def note(self, kind: str, same: bool, story: str) -> None:
        """Count one decision. story: what to say if it is not the same."""
        self.total[kind] += 1
        self.alike[kind] += same
        if not same:
            self.different += 1
            if len(self.differences) < SHOWN:
                self.differences.append(story)

    def plus(self, other: "Agreement") -> "Agreement":
        """Return both together."""
        return Agreement(
            self.alike + other.alike,
            self.total + other.total,
            [*self.differences, *other.differences],
            self.different + other.different,
            self.skipped + other.skipped,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the agreement as in the JSON output."""
        counts = {kind: {"alike": self.alike[kind], "total": total} for kind, total in self.total.items()}
        return {"decisions": counts, "differences": self.differences}


def agreement(
    log: SlurmctldLog, workload: Workload, platform: Platform, params: Mapping[str, float | str] | None = None
) -> Agreement:
    """Compare the starts and plans of each pass with those of the model, from the state in the log.

    workload: the jobs of the log as they were requested. platform: with its `slurm`. Passes with jobs that the workload
    does not have, or whose end the log lacks, are skipped.
    """
    found, params, policy = Agreement(), params or {}, recording(get("slurm"))
    used = _Used(log, workload, platform, params, policy)
    known = {str(name): row for row, name in enumerate(workload.jobs.job.tolist())}
    ages, arrays = _Ages(log), _Arrays(workload)
    for before in log.passes:
        each = arrays.by_tasks(before)
        if not each.ended or not (each.waiting.keys() | each.running.keys() | each.completing.keys()) <= known.keys():
            found.skipped += 1
            continue
        if each.waiting:
            used.go_on(each.at)
            _judge(each, log, workload, platform, policy, params, found, used, ages)
    return found


def _judge(
    each: LoopPass,
    log: SlurmctldLog,
    workload: Workload,
    platform: Platform,
    policy: Policy,
    params: Mapping[str, float | str],
    found: Agreement,
    used: "_Used",
    ages: "_Ages",
) -> None:
    present = {*each.waiting, *each.running, *each.completing}
    jobs = workload.jobs
    rows = np.array([row for row, name in enumerate(jobs.job.tolist()) if str(name) in present], np.int64)
    some = replace(workload, jobs=_take(jobs, rows))
    begun = begin_run(some, platform, policy, params, Options(), None, False)
    state, names = begun.state, [str(name) for name in begun.jobs.job.tolist()]
    view: Any = View(state, policy.layout)
    can_run = [cause in ("", *begun.platform.licences) for cause in begun.causes]
    _load(state, each, names, platform, found.held, can_run, view.own.closed)
    tell_lowered(view, begun)
    arranger(policy)(state)
    for job in range(len(names)):
        if state.queue.waits[job]:
            view.own.since[job] = log.submits.get(names[job].partition("_")[0], each.at)
            view.own.points[job] = float(each.waiting[names[job]])
            _rank_pairs(view, job, names[job], begun.jobs.partition.names, each)
            view.own.key[job] = key_of(view, job)
    arrange_by(view, 0, view.own.key)
    used.tell(view, each)
    count_spared(view)
    ages.go_on(view, each.at, names, found)
    for job, name in enumerate(names):
        if name in found.reasons:
            reason = found.reasons[name][0]
            view.own.reason[job] = reason if reason < LIMIT else KEPT
        elif state.queue.waits[job] and is_limited(view, job, False):
            say_limit(view, job)
    if each.backfill:
        cycle(view)
    else:
        main_pass(view, each.full)
    for job, name in enumerate(names):
        if (reason := int(view.own.reason[job])) != KEPT:  # accounts of limits have other numbers at each pass
            found.reasons[name] = reason, code_of_reason(reason, view.own, begun.platform)
    parts = {name: begun.jobs.partition[job] for job, name in enumerate(names)}
    _compare(each, state, view, names, platform, found, parts)


class _Arrays:
    """The tasks of arrays in a log that tells them together until they start."""

    def __init__(self, workload: Workload) -> None:
        self.tasks: dict[str, list[str]] = {}
        self.begun = set[str]()
        for name in map(str, workload.jobs.job.tolist()):
            if name.partition("_")[2].isdecimal():
                self.tasks.setdefault(name.partition("_")[0], []).append(name)
        for several in self.tasks.values():
            several.sort(key=lambda name: int(name.partition("_")[2]))

    def by_tasks(self, each: LoopPass) -> LoopPass:
        """Return a pass with tasks in place of arrays: those that have not begun wait, the first have the plans."""
        self.begun |= each.running.keys() | each.completing.keys()
        started = {start.job for start in each.starts}
        left = {name: [task for task in tasks if task not in self.begun] for name, tasks in self.tasks.items()}
        behind = {name: iter([task for task in tasks if task not in started]) for name, tasks in left.items()}

        def first(job: str) -> str:
            return next((task for task in left.get(job, ()) if task not in started), job)

        def spread(values: Mapping[Any, int], name: Callable[[Any], str], task: Callable[[Any, str], Any]) -> Any:
            return {task(key, job): value for key, value in values.items() for job in left.get(name(key), [name(key)])}

        return replace(
            each,
            waiting=spread(each.waiting, lambda key: key, lambda _, job: job),
            pairs=spread(each.pairs, lambda key: key[0], lambda key, job: (job, key[1])),
            plans=[replace(plan, job=next(behind.get(plan.job, iter(())), plan.job)) for plan in each.plans],
            reasons={first(job): reason for job, reason in each.reasons.items()},
        )


class _Ages:
    """The age factors of waiting jobs in a log, of those that limits on the number of jobs that grow old count."""

    def __init__(self, log: SlurmctldLog) -> None:
        self.ages, self.place, self.new = log.ages, 0, {*log.submits}
        self.since: dict[str, int] = {}  # since when jobs grow old, + 1; 0: they do not

    def go_on(self, view: Any, now: int, names: Sequence[str], found: Agreement) -> None:
        """Compare those that the log says before an instant, and let jobs grow old at the pass that begins then."""
        own = view.own
        if not len(own.scope_most):
            return
        span = float(own.PriorityMaxAge) * 60
        while self.place < len(self.ages) and self.ages[self.place].at < now:
            each = self.ages[self.place]
            self.place += 1
            if each.job in self.new:  # at its submit, before any pass
                self.new.discard(each.job)
            elif each.job in self.since:
                begin = self.since[each.job] - 1
                aged = min((each.at // SECOND - begin // SECOND) / span, 1.0) if begin >= 0 else 0.0
                text = f"job {each.job}: age factor {each.factor}, in the model {aged:.6f}"
                found.note("age factor", abs(aged - each.factor) <= 1.5 / span, text)  # a second
        for job, name in enumerate(names):
            own.accrued[job] = self.since.get(name, 0)
        let_accrue(view)
        for job, name in enumerate(names):
            if own.scope_first[job] < own.scope_first[job + 1]:
                self.since[name] = int(own.accrued[job])


class _Used:
    """The minutes that the owners of limits have used at a pass, and what running jobs may still use, by the charges
    of a log. Nothing if no limit counts them.
    """

    def __init__(
        self,
        log: SlurmctldLog,
        workload: Workload,
        platform: Platform,
        params: Mapping[str, float | str],
        policy: Policy,
    ) -> None:
        self.charges = iter(log.charges)
        self.next = next(self.charges, None)
        self.plain = dict.fromkeys((each.job for each in log.charges), 0.0)  # seconds that each job was charged for
        if platform.slurm is None or not platform.slurm.limits_minutes:
            self.next = None
            return
        begun = begin_run(workload, platform, policy, params, Options(), None, False)
        for _ in range(len(workload)):
            submit(begun.state)
        self.begun = begun  # it keeps the State
        self.view: Any = View(begun.state, policy.layout)
        self.row = {str(name): job for job, name in enumerate(begun.jobs.job.tolist())}

    def go_on(self, now: int) -> None:
        """Charge what the log has charged before an instant."""
        while self.next is not None and self.next.at < now:
            job, amount = self.next.job, self.next.amount
            if job in self.row:
                decay = float(decay_per_second(self.view))
                use_minutes(self.view, self.row[job], amount, amount * decay**amount)
                self.plain[job] += amount
            elif not job:
                forget_minutes(self.view, amount)
            self.next = next(self.charges, None)

    def tell(self, view: Any, each: LoopPass) -> None:
        """Write it to a State at a pass."""
        if not len(view.own.minute_kinds):
            return
        own = self.view.own
        own.minute_held[:] = 0.0
        for job in each.running:
            row = self.row[job]
            hold_minutes(self.view, row, max(limit_seconds(self.view, row) - self.plain.get(job, 0.0), 0.0))
        view.own.minute_use[:] = own.minute_use
        view.own.minute_held[:] = own.minute_held


def _rank_pairs(view: Any, job: int, name: str, names: Sequence[str], each: LoopPass) -> None:
    """Give a job that asked for several partitions the priority that the log says for each."""
    own, which = view.own, list_of(view, job)
    if which < 0:
        return
    own.bare[job] = 0.0
    for x, part in enumerate(own.list_part[own.list_first[which] : own.list_first[which + 1]].tolist()):
        own.pair_points[own.pair_first[job] + x] = each.pairs.get((name, names[part]), each.waiting[name])


def _take(jobs: Jobs, rows: Any) -> Jobs:
    return jobs.take(rows).replace(after=Ragged.empty(len(rows)))


def tell_lowered(view: Any, begun: Begun) -> None:
    """Tell a State which limits of running jobs the backfill loop has lowered."""
    assert begun.platform.slurm is not None
    lowered, runs = begun.platform.slurm.lowered, begun.state.runs
    for run in runs.by_limit[: runs.active].tolist() if lowered else ():
        job = int(runs.job[run])
        view.own.lowered[job] = lowered.get(str(begun.jobs.job[job]), 0)


def _load(
    state: Any,
    each: LoopPass,
    names: list[str],
    platform: Platform,
    held: Mapping[str, tuple[tuple[int, int], ...]],
    can_run: Sequence[bool],
    closed: Ints,
) -> None:
    """Tell a State what waits and runs at a pass.

    The nodes of jobs that are over, but not yet out of the way, take no new job. The main loop does not see what these
    jobs have left, the backfill loop sees it, and learns by `closed` (m,) that they are not out of the way.
    """
    place = {name: node for node, name in enumerate(platform.nodes)}
    tick(state, each.at)
    for job in range(len(names)):
        submit(state)
        ask(state, job)
    for job, name in enumerate(names):
        over = each.completing.get(name)
        if over is not None:
            closed[[place[node] for node in over.nodes]] = 1
        run = each.running.get(name)
        if run is None:
            if over is None and can_run[job]:
                release(state, job)
            continue
        nodes = sorted(place[node] for node in run.nodes)
        pairs = held.get(name, ())
        if [node for node, _ in pairs] != nodes:
            pairs = tasks_on(state, job, nodes)
        for pair, (node, tasks) in enumerate(pairs):
            put(state, job, np.int64(pair), np.int64(node), np.int64(tasks))
        begin(state, job, run.at // SECOND * SECOND, HEAD)
    if not each.backfill:
        for node in np.flatnonzero(closed).tolist():
            state.free.nodes[node] = np.minimum(state.free.nodes[node], 0)


def _compare(
    each: LoopPass,
    state: Any,
    view: Any,
    names: list[str],
    platform: Platform,
    found: Agreement,
    parts: Mapping[str, str],
) -> None:
    """Compare the decisions of the model with those of the log. parts: the partition of each job, or its list."""
    loop = "backfill" if each.backfill else "main"
    where = f"line {each.line}, {loop}"
    model: dict[str, tuple[str, ...]] = {}
    for i in range(state.batch.starts):
        run = state.batch.started[i]
        name = names[state.runs.job[run]]
        model[name] = _nodes_of_run(state, run, platform)
        if not state.machine.pool:
            first = state.runs.first[run]
            pairs = state.runs.held[first : first + state.runs.many[run]].tolist()
            found.held[name] = tuple((node, tasks) for node, tasks in pairs)
        assert state.runs.how[run] == RUNNING
    real = {start.job: tuple(start.nodes) for start in each.starts}
    story = f"{where}: slurmctld starts {_listed(real)}, the model {_listed(model)}"
    found.note(f"{loop}: jobs started", model.keys() == real.keys(), story)
    for job in sorted(real.keys() & model.keys(), key=_number):
        same = {*real[job]} == {*model[job]}
        text = f"{where}: job {job} starts on {','.join(real[job])}, in the model on {','.join(model[job])}"
        found.note(f"{loop}: nodes of a start", same, text)
    for job, reason in each.reasons.items():
        if "," in parts.get(job, ""):  # another of its partitions may have the last word
            continue
        mine = found.reasons[job][1] if job in found.reasons else NONE
        text = f"{where}: job {job} waits for {reason}, in the model for {mine}"
        found.note("main: reason of a blocked job", mine == reason, text)
    if not each.backfill:
        return
    planned, theirs = _recorded(view, names, platform), _by_job(each.plans)
    for job in sorted({*each.waiting} - real.keys() - model.keys(), key=_number):
        plans = [*zip_longest(theirs.get(job, ()), planned.get(job, ()))]  # one for each partition that it asked for
        for one, other in plans or [(None, None)]:
            if one is None or other is None:
                text = f"{where}: job {job} has {'a' if one else 'no'} plan, in the model {'one' if other else 'none'}"
                found.note("backfill: no plan", one is other, text)
                continue
            text = f"{where}: job {job} planned {_plan(one, each.at)}, in the model {_plan(other, each.at)}"
            found.note("backfill: begin of a plan", one.at == other.at, text)
            found.note("backfill: nodes of a plan", {*one.nodes} == {*other.nodes}, text)


def _nodes_of_run(state: Any, run: int, platform: Platform) -> tuple[str, ...]:
    if state.machine.pool:
        return platform.nodes[:1]
    first = state.runs.first[run]
    return tuple(platform.nodes[node] for node in state.runs.held[first : first + state.runs.many[run], 0].tolist())


def _recorded(view: Any, names: list[str], platform: Platform) -> dict[str, list[Decided]]:
    """Return the plans of each job in a cycle."""
    plans = (
        Decided(names[job], begins, tuple(platform.nodes[node] for node in nodes))
        for job, begins, nodes in entries(view.own.record)
        if nodes
    )
    return _by_job(plans)


def _by_job(plans: Iterable[Decided]) -> dict[str, list[Decided]]:
    found: dict[str, list[Decided]] = {}
    for plan in plans:
        found.setdefault(plan.job, []).append(plan)
    return found


def _listed(started: Mapping[str, tuple[str, ...]]) -> str:
    return ", ".join(sorted(started, key=_number)) or "none"


def _number(job: str) -> tuple[int, ...]:
    """Return the numbers in a name, `17` or `17_3`, by which jobs are sorted."""
    return tuple(map(int, job.split("_")))


def _plan(plan: Decided, now: int) -> str:
    return f"{(plan.at - now // SECOND * SECOND) // SECOND} s later on {','.join(plan.nodes)}"


def priorities(
    log: SlurmctldLog, workload: Workload, platform: Platform, params: Mapping[str, float | str] | None = None
) -> Agreement:
    """Compare the priority of each job at its submit with that in the log, given its fair-share factor there."""
    policy, found = get("slurm"), Agreement()
    state = begin_run(workload, platform, policy, params or {}, Options(), None, False).state
    names = [str(name) for name in workload.jobs.job[np.argsort(workload.jobs.submit, kind="stable")].tolist()]
    for _ in names:
        submit(state)
    view: Any = View(state, policy.layout)
    for job, name in enumerate(names):
        if name not in log.priorities:
            continue
        now = int(state.jobs.submit[job])
        view.own.since[job] = now
        if (who := int(view.own.association[job])) >= 0:
            view.own.share[who] = log.shares.get(name, 0.0)
        model = int(points_of(view, job, now))
        text = f"job {name}: priority {log.priorities[name]}, in the model {model}"
        found.note("priority at submit", model == log.priorities[name], text)
    return found
