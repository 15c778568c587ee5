"""The policy `slurm`, re-synchronised with a site's own log: at an instant the State is what the log shows.

Jobs that run in the log run where they ran, jobs that wait there wait, with the priorities of the model; then the model
decides alone for an hour. An error of a rule shows itself within that hour, chaos adds up over weeks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backfill.compiler.record import SMALL, zeros
from backfill.compiler.view import View
from backfill.core.acts import ANNOUNCE
from backfill.core.once import arranger
from backfill.core.plan.promises import NO_TIME
from backfill.core.policy import Policy
from backfill.core.queue.walk import arrange_by
from backfill.core.transitions import announce, ask, begin, put, release, submit, tick
from backfill.core.verbs import HEAD, wake
from backfill.model.events import Events
from backfill.model.platform import Platform
from backfill.model.units import SECOND, counted, time_text, times
from backfill.model.workload import Floats, Ints, Ragged, Workload
from backfill.policies import get
from backfill.policies.slurm.backfill import cycle
from backfill.policies.slurm.clock import LONG_AGO
from backfill.policies.slurm.fairshare import rank_all
from backfill.policies.slurm.minutes import count_spared
from backfill.policies.slurm.priority import points_of
from backfill.policies.slurm.queue import is_limited, key_of
from backfill.worlds.options import Options
from backfill.worlds.simulated import Begun, world_of
from backfill.worlds.simulated import begin as begin_run
from backfill.worlds.slurm_tasks import tasks_on
from backfill.worlds.slurm_truth import Agreement, tell_lowered
from backfill.worlds.slurm_watch import Decisions, recording
from backfill.worlds.virtual import pass_time

HOUR = 3600 * SECOND
INSTANTS = 24  # at most, spread evenly over the log
QUANTILES = (0.5, 0.9)


@dataclass(frozen=True, slots=True)
class Window:
    """Nodes that are reserved from `begin` to `end`, in microseconds."""

    begin: int
    end: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Happened:
    """The facts of a log about the jobs of a workload, arrays of shape (jobs,). Times in microseconds, 0 for none."""

    start: Ints
    end: Ints
    nodes: Sequence[Sequence[str]]
    reserved: Sequence[Window] = ()  # reservations


@dataclass(frozen=True, slots=True)
class Resynchronised:
    """The starts of the log and of the model in the hours after some instants."""

    instants: int
    step_s: float  # time from each instant on
    logged: int  # starts in the log
    model: int  # starts in the model
    both: int  # jobs started by both
    errors_s: tuple[float, ...]  # QUANTILES of the distance of the starts of these

    @property
    def sentence(self) -> str:
        """The agreement in one sentence."""
        span, others = time_text(round(self.step_s * SECOND)), self.model - self.both
        said = (
            f"re-synchronised with the log at {counted(self.instants, 'instant')}, for {span} each: of "
            f"{counted(self.logged, 'start')} in the log the model makes {self.both:,}, and {others:,} others"
        )
        if not self.both:
            return said
        half, most = times(list(self.errors_s))
        return f"{said}; of the starts in both, half lie within {half} and 90% within {most} of each other"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "instants": self.instants,
            "step_s": self.step_s,
            "logged": self.logged,
            "model": self.model,
            "both": self.both,
            "start_error_s": dict(zip(("p50", "p90"), self.errors_s, strict=False)),
            "sentence": self.sentence,
        }


@dataclass(frozen=True, eq=False, slots=True)
class Moment:
    """The State of the log at an instant, before the model decides."""

    begun: Begun
    view: Any
    policy: Policy
    options: Options
    names: tuple[str, ...]  # of the jobs, by their index in the State
    waiting: tuple[int, ...]  # indices


def moment(
    workload: Workload,
    platform: Platform,
    policy: Policy,
    params: Mapping[str, float | str],
    happened: Happened,
    now: int,
    horizon: int = 0,
    usage: Floats | None = None,
) -> Moment:
    """Return the State of the log at an instant.

    horizon: jobs that are submitted until now + horizon are known to the world. usage: of each association; by default
    that of the site.
    """
    jobs = workload.jobs
    gone = (happened.end > 0) & (happened.end <= now)
    rows = np.flatnonzero((jobs.submit <= now + horizon) & ~gone)
    runs_on = (happened.start[rows] == 0) | (happened.end[rows] == 0)
    runtime = np.where(runs_on, jobs.walltime[rows], jobs.runtime[rows])
    taken = jobs.take(rows).replace(runtime=runtime, after=Ragged.empty(len(rows)))
    some = Workload(taken, name=workload.name, resources=workload.resources, licences=workload.licences)
    options = Options(events=_reserved(happened, rows, platform, now))
    begun = begin_run(some, platform, policy, params, options, None, False)
    rows = rows[begun.rows]
    state, place = begun.state, {name: node for node, name in enumerate(platform.nodes)}
    view: Any = View(state, policy.layout)
    tick(state, now)
    known = int(np.searchsorted(begun.jobs.submit, now, side="right"))
    for job in range(known):
        submit(state)
        ask(state, job)
    waiting = []
    for job in range(known):
        since = int(happened.start[rows[job]])
        nodes = [place[name] for name in happened.nodes[rows[job]] if name in place]
        if 0 < since <= now and nodes:
            for pair, (node, tasks) in enumerate(tasks_on(state, job, sorted(nodes))):
                put(state, job, np.int64(pair), np.int64(node), np.int64(tasks))
            begin(state, job, since, HEAD)
        elif begun.causes[job] in ("", *begun.platform.licences) and not 0 < since <= now:
            release(state, job)
            waiting.append(job)
    own = view.own
    tell_lowered(view, begun)
    own.begun[0] = own.request[0] = own.dirty[0] = own.stale[0] = 1
    own.last_background[0], own.next_cycle[0], own.accounted[0] = LONG_AGO, NO_TIME, NO_TIME
    own.cycle_end[0] = now // SECOND * SECOND - round(own.bf_interval * 1e6)
    if usage is not None:
        own.usage[:] = usage
    if own.stored[0]:
        rank_all(view)
    count_spared(view)
    arranger(policy)(state)
    for job in waiting:
        own.since[job] = begun.jobs.submit[job]
        own.looked[job] = not is_limited(view, job, False)
        own.points[job] = points_of(view, job, now)
        own.key[job] = key_of(view, job)
    arrange_by(view, 0, own.key)
    if begun.bound is not None:
        for node, begins, ends in zip(begun.bound.nodes.items, begun.bound.value, begun.bound.until, strict=True):
            announce(state, np.int64(node), np.int64(-1), np.int64(0), np.int64(begins), np.int64(ends))
    return Moment(begun, view, policy, options, tuple(str(name) for name in begun.jobs.job.tolist()), tuple(waiting))


def _reserved(happened: Happened, rows: Ints, platform: Platform, now: int) -> Events | None:
    """Return the reservations from an instant on as windows of nodes. One in which a job runs already is left out:
    Slurm has let it in.
    """
    busy = {node for row in rows.tolist() if 0 < happened.start[row] <= now for node in happened.nodes[row]}
    found = [
        {"time": now / SECOND, "event": "window", "node": node, "value": max(each.begin, now) / SECOND,
         "until": each.end / SECOND}
        for each in happened.reserved if each.end > now
        for node in each.nodes if node in platform.nodes and (each.begin > now or node not in busy)
    ]  # fmt: skip
    return Events.of(found) if found else None


def resynchronised(
    workload: Workload,
    platform: Platform,
    params: Mapping[str, float | str],
    happened: Happened,
    most: int = INSTANTS,
) -> Resynchronised | None:
    """Let the model decide alone from each of some instants of the log on; None if the log has no starts.

    For an hour each time, or for a twelfth of a log that is shorter than half a day.
    """
    ran = np.flatnonzero((happened.start > 0) & np.array([len(each) > 0 for each in happened.nodes], np.bool_))
    if not len(ran) or platform.slurm is None:
        return None
    policy, submits = get("slurm"), workload.jobs.submit
    first, last = int(submits.min()), int(happened.start[ran].max())
    step = min(max((last - first) // 12 // SECOND, 1) * SECOND, HOUR)
    grid = np.arange(first + step, last, step)
    if len(grid) > most:
        grid = grid[np.linspace(0, len(grid) - 1, most).astype(np.int64)]
    charges = _charges(workload, platform, policy, params)
    index = {str(name): row for row, name in enumerate(workload.jobs.job.tolist())}
    logged = model = both = 0
    errors: list[float] = []
    for now in grid.tolist():
        usage = _usage(charges, happened, first, now)
        at = moment(workload, platform, policy, params, happened, now, step, usage)
        starts = _hour(at, happened, index, now, step)
        real = {str(workload.jobs.job[row]): int(happened.start[row]) for row in ran.tolist()
                if now < happened.start[row] <= now + step}  # fmt: skip
        logged, model = logged + len(real), model + len(starts)
        same = real.keys() & starts.keys()
        both += len(same)
        errors += [abs(real[job] - starts[job]) / SECOND for job in same]
    quantiles = tuple(np.quantile(errors, QUANTILES).tolist()) if errors else ()
    return Resynchronised(len(grid), step / SECOND, logged, model, both, quantiles)


def _hour(at: Moment, happened: Happened, index: Mapping[str, int], now: int, step: int) -> dict[str, int]:
    """Let the model decide until now + step, and return its starts."""
    state, count = at.begun.state, int(at.begun.state.runs.count)
    over = np.array([happened.end[index[at.names[job]]] for job in state.runs.job[:count].tolist()], np.int64)
    limits = state.runs.limit[:count]
    due = np.maximum(np.where(over > 0, over, limits), now + 1)
    order = np.argsort(due, kind="stable")
    rooms = max(count, SMALL)
    world = world_of(
        at.begun,
        at.options,
        at.policy,
        due=_padded(due, rooms),
        cut=np.zeros(rooms, np.int8),
        end_time=_padded(due[order], rooms),
        end_run=_padded(order, rooms),
        ends=count,
        book=np.maximum(state.free.nodes, 0),
        book_licences=np.maximum(state.free.licences, 0),
    )
    if at.begun.bound is not None:  # the State has heard of the windows
        steps = world.act[world.act[:, 1] != ANNOUNCE]
        world.act[: len(steps)], world.acts_left = steps, len(steps)
    wake(at.view, now + 1)
    arrange = arranger(at.policy)
    while int(state.now) <= now + step and pass_time(at.policy, arrange, state, world, 16) == 16:
        pass
    runs = state.runs
    return {
        at.names[runs.job[run]]: int(runs.start[run])
        for run in range(count, int(runs.count))
        if runs.start[run] <= now + step
    }


def _padded(values: Any, room: int) -> Ints:
    found: Ints = zeros(room)
    found[: len(values)] = values
    return found


@dataclass(frozen=True, eq=False, slots=True)
class _Charges:
    """Billing per second and association of each job of a workload; the tree of associations."""

    charge: Floats
    association: Ints
    above: Ints
    usage: Floats  # at the begin of the log
    decay: float  # factor per second


def _charges(workload: Workload, platform: Platform, policy: Policy, params: Mapping[str, float | str]) -> _Charges:
    begun = begin_run(workload, platform, policy, params, Options(), None, False)
    for _ in range(len(workload)):
        submit(begun.state)
    view: Any = View(begun.state, policy.layout)
    own = view.own
    place = begun.place
    half_life = float(own.PriorityDecayHalfLife) * 60
    return _Charges(
        np.array(own.charge)[place],
        np.array(own.association)[place],
        np.array(own.above),
        np.array(own.usage),
        1.0 - 0.693 / half_life if half_life else 1.0,
    )


def _usage(charges: _Charges, happened: Happened, first: int, now: int) -> Floats:
    """Return the usage of each association at an instant: a run counts second by second, with decay."""
    usage: Floats = charges.usage * charges.decay ** ((now - first) / SECOND)
    begun = (happened.start > 0) & (happened.start < now) & (charges.association >= 0)
    end = np.where(happened.end > 0, np.minimum(happened.end, now), now)
    ago = [(now - each[begun]) / SECOND for each in (end, happened.start)]
    if charges.decay < 1.0:
        length = (charges.decay ** ago[0] - charges.decay ** ago[1]) / -np.log(charges.decay)
    else:
        length = ago[1] - ago[0]
    for who, amount in zip(charges.association[begun].tolist(), (charges.charge[begun] * length).tolist(), strict=True):
        each = who
        while each >= 0:
            usage[each] += amount
            each = int(charges.above[each])
    return usage


def ranked_alike(
    workload: Workload,
    platform: Platform,
    params: Mapping[str, float | str],
    happened: Happened,
    ranked: Mapping[str, tuple[int, Mapping[str, int]]],
    now: int,
) -> Agreement:
    """Compare priorities and their factors with those of `sprio -l`, with the usage of the site (sshare).

    ranked: by job, its priority and its factors, each times its weight, as named by read_sprio. The age is that of
    sprio, since the dump does not say when it was printed; sprio prints whole numbers, so the others may differ by 1.
    """
    found = Agreement()
    at = moment(workload, platform, get("slurm"), params, happened, now)
    own, index = at.view.own, {at.names[job]: job for job in at.waiting}
    for job, (priority, factors) in ranked.items():
        if (row := index.get(job)) is None:
            found.skipped += 1
            continue
        who = int(own.association[row])
        fair = float(own.share[who]) * float(own.PriorityWeightFairshare) if who >= 0 and own.stored[0] else 0.0
        model = {
            "association": own.of_association[row],
            "fair share": fair,
            "job size": (own.of_held_size if own.looked[row] else own.of_size)[row],
            "partition": own.of_partition[row],
            "QOS": own.of_qos[row],
            "TRES": own.of_tres[row],
            "nice": own.nice[row],
        }
        for name, value in model.items():
            if name in factors:
                text = f"job {job}: {name} {factors[name]}, in the model {float(value):.1f}"
                found.note(f"sprio: {name}", abs(float(value) - factors[name]) <= 1.0, text)
        total = sum(map(float, model.values())) - 2 * float(model["nice"]) + factors.get("age", 0)
        points = int(np.floor(max(total, 1.0)))
        text = f"job {job}: priority {priority}, in the model {points}"
        found.note("sprio: priority", abs(points - priority) <= 1, text)
    return found


def planned_alike(
    workload: Workload,
    platform: Platform,
    params: Mapping[str, float | str],
    happened: Happened,
    expected: Mapping[str, int | None],
    now: int,
) -> Agreement:
    """Compare the plan of one backfill cycle with `squeue --start`. now: when that cycle began.

    expected: by job, its start in microseconds, None for N/A.
    """
    found = Agreement()
    at = moment(workload, platform, recording(get("slurm")), params, happened, now)
    index = {at.names[job]: job for job in at.waiting}
    cycle(at.view)
    plans = Decisions.read(at.view.own.record, now).plans
    resolution = float(at.view.own.bf_resolution)
    for job, start in expected.items():
        if (row := index.get(job)) is None:
            found.skipped += 1
            continue
        plan = plans.get(row)
        if start is None or plan is None:
            text = (
                f"job {job}: start {'N/A' if start is None else 'known'}, in the model {'planned' if plan else 'none'}"
            )
            found.note("squeue: no plan", start is None and plan is None, text)
            continue
        apart = (plan.begin - start) / SECOND
        found.note("squeue: start", abs(apart) <= resolution, f"job {job}: planned {apart:+.0f} s later in the model")
    return found
