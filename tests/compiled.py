"""The compiled policies, asked and answering in the words of the slow twins."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from backfill.core.policy import Policy
from backfill.loading import load
from backfill.model.events import Events
from backfill.model.platform import Platform as Machine
from backfill.model.schedule import NO_TIME, REASONS, STATES, Schedule
from backfill.model.workload import Ints, Workload
from backfill.worlds.estimates import Estimates
from backfill.worlds.simulated import Options, simulate
from tests.reference.words import Event, Job, Placement, Platform
from tests.reference.workloads import Case, as_model, as_table
from tests.reference.world import Row, Stay


@cache
def policy(text: str) -> tuple[Policy, dict[str, float]]:
    """The policy and parameters of this text, always the same: a new one would load its compiled form anew."""
    return load(text)


def runs_on(name: str, case: Case, events: Sequence[Event] = ()) -> bool:
    """Whether the policy of this text schedules such a case: some know but one node, or jobs on nodes of one cpu each.

    events: what happens meanwhile; a node may grow.
    """
    chosen, platform = policy(name)[0], case.platform
    plain = not (platform.copies or platform.limits)
    if chosen.processors:
        other = any(event.kind == "capacity" for event in events) or any(job.demand[0] == 0 for job in case.jobs)
        return plain and not other and all(node.capacity[0] == 1 for node in platform.nodes)
    if shares(name):
        whole = all(not refused(event) for event in events)
        return whole and not any(job.exclusive for job in case.jobs)
    return True


def shares(name: str) -> bool:
    """Return whether runs share processors in turns under the policy of this text."""
    chosen, params = policy(name)
    return chosen.shares and chosen.sharing(chosen.in_full(params))[0] > 1


def refused(event: Event) -> bool:
    """Takes away some cpus of a node, or a licence for a time: no policy decides that whose runs share processors."""
    if event.kind == "capacity":
        return event.resource == 0
    return event.kind == "window" and (event.resource == 0 or event.licence is not None)


class Given(Estimates):
    """Estimates as the case states them."""

    def __init__(self, jobs, estimates):
        object.__setattr__(self, "by_name", dict(zip(jobs.job.tolist(), estimates.tolist(), strict=True)))

    def of(self, jobs, seed):
        return np.array([self.by_name[name] for name in jobs.job.tolist()], np.int64)


def asked(
    jobs: list[Job],
    platform: Platform,
    ties: str = "batch",
    overrun: str = "kill",
    events: Sequence[Event] = (),
    lost: str = "requeue",
) -> tuple[Workload, Machine, Options]:
    """A case in the words of the model."""
    workload, machine, estimates = as_model(jobs, platform)
    happens = Events.of(as_table(list(events), jobs)) if events else None
    given = Given(workload.jobs, estimates)
    return workload, machine, Options(ties=ties, overrun=overrun, estimates=given, events=happens, lost=lost)


def run(jobs: list[Job], platform: Platform, name: str, *options: Any, **more: Any) -> list[Row]:
    """Return the outcome of each job. options: as in `asked`."""
    workload, machine, asks = asked(jobs, platform, *options, **more)
    return rows_of(simulate(workload, machine, *policy(name), asks).schedule, [job.name for job in jobs])


def rows_of(got: Schedule, names: Sequence[str]) -> list[Row]:
    """Return the outcome of each job of a schedule, and its runs."""
    found = [row_of(got, row, name) for row, name in enumerate(names)]
    runs = got.all_runs
    columns = (runs.job.tolist(), runs.start.tolist(), runs.end.tolist(), runs.state.tolist())
    for number, (row, begin, end, how) in enumerate(zip(*columns, strict=True)):
        found[row].runs.append(Stay(begin, end, pairs(runs.held[number]), STATES[how]))
    return found


def row_of(got: Schedule, row: int, name: str) -> Row:
    state = STATES[got.state[row]]
    found = Row(name=name, state=None if state == "PENDING" else state, promise=time(got.promise[row]))
    if state != "REJECTED":
        found.eligible = time(got.eligible[row])
    if got.start[row] != NO_TIME:
        found.start, found.end = time(got.start[row]), time(got.end[row])
        found.reason, found.nodes = REASONS[got.reason[row]], pairs(got.held[row])
    return found


def pairs(held: Ints) -> Placement:
    return tuple(map(tuple, held.reshape(-1, 2).tolist()))


def time(t: np.int64) -> int | None:
    return None if t == NO_TIME else int(t)
