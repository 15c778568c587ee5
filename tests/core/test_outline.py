"""The outline of a plan, while many gangs wait: it bounds the plan at each pass, and every start is the slow twin's."""

from dataclasses import replace

import numpy as np
import pytest

from backfill.core.plan.plan import book_reserved, lift
from backfill.core.plan.promises import NO_TIME
from backfill.worlds.simulated import simulate
from tests.compiled import asked
from tests.core.test_check import checked
from tests.differential.test_events import compare
from tests.reference.workloads import Case, throng

# More memory than an outline counts one by one: it is counted in units.
MEMORY = (0, 3, 10**10 + 7)


@pytest.mark.parametrize("memory", MEMORY[1:])
def test_the_outline_bounds_what_the_plan_leaves_free(memory):
    kept = []
    case, events = throng(1, jobs=150, nodes=6, events=3, memory=memory)
    workload, platform, asks = asked(case.jobs, case.platform, events=events)
    simulate(workload, platform, *checked("conservative", 4, lambda state: kept.append(state.plan.outline.kept)), asks)
    assert sum(kept) > 10


def test_it_still_does_after_thousands_of_bookings_that_were_undone():
    case, events = throng(1, jobs=150, nodes=6, events=3, memory=10**10 + 7)
    workload, platform, asks = asked(case.jobs, case.platform, events=events)
    undone = []

    def undo(state):
        if not state.plan.outline.kept or undone:
            return
        for job in np.flatnonzero(state.queue.waits & (state.promises.reserved != NO_TIME))[:3].tolist():
            for _ in range(25_000):  # each may raise a rounded bound by one; they have 15 bits
                lift(state, job)
                book_reserved(state, job)
            undone.append(job)

    simulate(workload, platform, *checked("conservative", 4, undo), asks)
    assert len(undone) == 3


@pytest.mark.parametrize(("memory", "seed"), [*zip(MEMORY, (0, 1, 0), strict=True)])
def test_with_many_gangs_that_wait_every_start_equals_the_twin(memory, seed):
    compare(throng(seed, jobs=150, nodes=6, events=3, memory=memory), "conservative")


@pytest.mark.parametrize("seed", range(2))
def test_with_gangs_that_need_features_and_licences_every_start_equals_the_twin(seed):
    compare(throng(seed, jobs=150, nodes=9, events=6, memory=3, bound=True), "conservative")


def test_with_gangs_of_more_tasks_than_the_outline_counts_on_a_node_every_start_equals_the_twin():
    case, _ = throng(0, jobs=100, nodes=6, events=0)
    scale = 9_000
    jobs = [
        replace(job, tasks=job.tasks * scale, demand=(1,), spread="any")
        if job.tasks > 1
        else replace(job, demand=(job.demand[0] * scale,), spread="any")
        for job in case.jobs
    ]
    nodes = tuple(replace(node, capacity=(node.capacity[0] * scale,)) for node in case.platform.nodes)
    compare((Case(jobs, replace(case.platform, nodes=nodes)), []), "conservative")
