"""A policy that declares facts: what it knows of the platform and the jobs before the run."""

import numpy as np

from backfill.core.policy import Facts, Policy
from backfill.core.verbs import HEAD, start
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Workload
from backfill.verbs import following, place, rewind
from backfill.worlds.simulated import simulate

LOG = Workload(
    Jobs(
        job=np.array(["a", "b", "c"]),
        submit=np.array([0, 1, 2]) * SECOND,
        runtime=np.array([5, 1, 3]) * SECOND,
        walltime=np.array([5, 9, 9]) * SECOND,
        tasks=np.array([2, 2, 1]),
        requested=np.array([False, True, True]),
    )
)


def smallest_first(state):
    """Start jobs that fit, those of the class 1 first."""
    for wanted in (1, 0):
        rewind(state, 0)
        for _ in range(state.queue.waiting):
            job = following(state, 0)
            if state.own.small[job] == wanted and place(state, job):
                start(state, job, HEAD)


def test_the_memory_of_a_policy_begins_with_its_facts_and_no_run_time_is_among_what_they_are_made_of():
    seen = []

    def facts(params, platform, jobs, asked):
        seen.append((jobs.runtime.tolist(), jobs.walltime.tolist(), asked.tolist(), platform.capacity.tolist()))
        return Facts(np.zeros(1), {"small": (asked[:, 0] == 1).astype(np.int64)})

    policy = Policy("smallest-first", smallest_first, compiled=False, memory={"small": "facts"}, facts=facts)
    starts = simulate(LOG, Platform.pool(2), policy, options=None).schedule.start // SECOND
    assert starts.tolist() == [0, 8, 5]  # c, though it is behind b
    ((runtime, walltime, asked, capacity),) = seen
    assert runtime == walltime
    assert walltime[1:] == [9 * SECOND, 9 * SECOND]
    assert (asked, capacity) == ([[2], [2], [1]], [[2]])
