"""The checker against the slow world: what it makes of events is lawful, and what is taken out of it is not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from backfill.analysis.verify import verify
from backfill.model.events import Events
from backfill.model.schedule import NO_TIME, NODE_FAIL, REASONS, STATES, Runs, Schedule
from backfill.model.workload import Ragged, Workload
from tests.reference import world
from tests.reference.workloads import (
    Case,
    as_model,
    as_table,
    cases_with_events,
    from_events,
    general_cases,
    pool_cases,
)
from tests.shares import examples

CASES = st.one_of(cases_with_events(pool_cases()), cases_with_events(general_cases()))


def ints(values: list[Any]) -> np.ndarray:
    return np.array([NO_TIME if value is None else value for value in values], np.int64)


def codes(values: list[Any], names: tuple[str, ...]) -> np.ndarray:
    return np.array([-1 if value is None else names.index(value) for value in values], np.int8)


def flat(placements: list[Any]) -> Ragged:
    return Ragged.of([[number for pair in placement for number in pair] for placement in placements])


def as_schedule(rows: list[world.Row], workload: Workload, nodes: tuple[str, ...]) -> Schedule:
    """Return a result of the slow twin as a schedule, for policies that do not preempt."""
    stays = [(row, stay) for row, each in enumerate(rows) for stay in each.runs]
    start, end = ints([stay.start for _, stay in stays]), ints([stay.end for _, stay in stays])
    state = codes([stay.how for _, stay in stays], STATES)
    last = [each.runs[-1] if each.runs else None for each in rows]
    return Schedule(
        job=workload.jobs.job,
        submit=workload.jobs.submit,
        start=ints([each and each.start for each in last]),
        end=ints([each and each.end for each in last]),
        state=codes([row.state for row in rows], STATES),
        reason=codes([row.reason for row in rows], REASONS),
        rejected_for=np.full(len(rows), "", object),
        eligible=np.array([each.eligible if each.eligible is not None else NO_TIME for each in rows], np.int64),
        promise=ints([row.promise for row in rows]),
        nodes=nodes,
        held=flat([each.nodes if each else () for each in last]),
        runs=Runs(
            job=np.array([row for row, _ in stays], np.int64),
            start=start,
            end=end,
            state=state,
            reason=np.zeros(len(stays), np.int8),
            held=flat([stay.nodes for _, stay in stays]),
            progress=np.where(state == NODE_FAIL, 0, end - start),
        ),
    )


def ran(found: tuple[Case, list[Any]], policy: str, **options: str) -> tuple[Any, ...]:
    """Workload, platform, events, estimates and schedule of a case."""
    case, events = found
    workload, platform, seen = as_model(case.jobs, case.platform)
    happened = Events.of(as_table(events, case.jobs))
    happens = from_events(happened.bind(workload, platform), case.platform)
    rows = world.run(case.jobs, case.platform, world.POLICIES[policy], events=happens, **options)
    assume(all(row.state is not None for row in rows))  # some wait for ever
    return workload, platform, happened, seen, as_schedule(rows, workload, platform.nodes)


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
@examples(40)
@given(CASES, st.sampled_from(["requeue", "fail"]), st.sampled_from(["kill", "extend"]))
def test_what_a_policy_does_with_events_is_lawful(policy, found, lost, overrun):
    workload, platform, happened, seen, schedule = ran(found, policy, lost=lost, overrun=overrun)
    options: Any = {"events": happened, "lost": lost, "overrun": overrun, "seen": seen}
    assert [str(each) for each in verify(workload, platform, schedule, **options)] == []


@examples(40)
@given(CASES, st.data())
def test_a_last_run_that_is_left_out_is_missed(found, data):
    workload, platform, happened, seen, schedule = ran(found, "easy")
    assert schedule.runs is not None
    assume(len(schedule.runs))
    last = np.flatnonzero(np.diff(schedule.runs.job, append=-1))
    out = data.draw(st.sampled_from(last.tolist()))
    less = replace(schedule, runs=schedule.runs.take(np.delete(np.arange(len(schedule.runs)), out)))
    assert verify(workload, platform, less, events=happened, seen=seen)
