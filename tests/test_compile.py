"""What is compiled ahead is all that a run with a policy of the package, or one in plain Python, needs."""

import numpy as np
import pytest
from numba.core.event import install_recorder
from tools.compile import compile_for_python

from backfill import policy, simulate
from backfill.compiler import jit
from backfill.model.platform import Platform
from backfill.verbs import (
    HEAD,
    arrange_waiting,
    following,
    head,
    held_back,
    is_first,
    is_ready,
    place,
    place_on,
    predecessor,
    rewind,
    start,
    waiting_jobs,
    waiting_times,
    waiting_walltimes,
)
from backfill.workloads import generate


@policy("plain", source="plain", order="fcfs", compiled=False, sorts=True)
def plain(state):
    if len(waiting_jobs(state, 0)):
        arrange_waiting(state, 0, waiting_times(state, 0) / (1.0 + waiting_walltimes(state, 0)))
    job = head(state)
    while job >= 0 and place(state, job):
        start(state, job, HEAD)
        job = head(state)
    rewind(state, 0)
    job = following(state, 0)
    if job >= 0 and not held_back(state, job) and is_ready(state, job) and predecessor(state, job, 0) < 0:
        place_on(state, job, np.zeros(state.jobs.tasks[job], np.int64))
        is_first(state, job)


@pytest.mark.skipif(jit.PLAIN, reason="nothing is compiled")
def test_a_policy_in_plain_python_waits_for_no_compiler():
    compile_for_python()
    with install_recorder("numba:compile") as recorded:
        simulate(generate("lublin?jobs=300&cpus=64&load=0.9&seed=1"), Platform.pool(64), plain)
    assert {event.data["dispatcher"].__name__ for _, event in recorded.buffer} == set()
