"""The compiled policies against their slow twins: equal starts, ends, reasons, nodes and promises."""

import numpy as np
import pytest
from hypothesis import given

from backfill import policies
from backfill.model.schedule import NO_TIME, REASONS
from backfill.worlds.estimates import Estimates
from backfill.worlds.simulated import Options, simulate
from tests.reference import world
from tests.reference.workloads import Case, as_model, general_cases, pool_cases

NAMES = [name for name in policies.TABLE if name in world.POLICIES]


class Given(Estimates):
    """Estimates as the case states them."""

    def __init__(self, jobs, estimates):
        object.__setattr__(self, "by_name", dict(zip(jobs.job.tolist(), estimates.tolist(), strict=True)))

    def of(self, jobs, seed):
        return np.array([self.by_name[name] for name in jobs.job.tolist()], np.int64)


def compare(case: Case, name: str, ties: str = "batch", overrun: str = "kill") -> None:
    workload, platform, estimates = as_model(case.jobs, case.platform)
    expected = world.run(case.jobs, case.platform, world.POLICIES[name], ties=ties, overrun=overrun)
    options = Options(ties=ties, overrun=overrun, estimates=Given(workload.jobs, estimates))
    got = simulate(workload, platform, policies.get(name), options=options).schedule
    for row, want in enumerate(expected):
        if want.start is None:
            assert got.start[row] == NO_TIME
            continue
        have = (
            int(got.start[row]),
            int(got.end[row]),
            REASONS[got.reason[row]],
            tuple(map(tuple, got.held[row].reshape(-1, 2).tolist())),
            None if got.promise[row] == NO_TIME else int(got.promise[row]),
        )
        wanted = (want.start, want.end, want.reason, tuple(want.nodes), want.promise)
        assert have == wanted, f"{name}, job {want.name}: {have}, the twin says {wanted}"


@pytest.mark.parametrize("name", NAMES)
@given(case=pool_cases())
def test_on_a_pool_every_start_equals_the_twin(name, case):
    compare(case, name)


@pytest.mark.parametrize("name", NAMES)
@given(case=pool_cases())
def test_on_a_pool_in_steps_every_start_equals_the_twin(name, case):
    compare(case, name, ties="step")


@pytest.mark.parametrize("name", NAMES)
@given(case=pool_cases())
def test_with_overrun_extend_every_start_equals_the_twin(name, case):
    compare(case, name, overrun="extend")


@pytest.mark.parametrize("name", NAMES)
@given(case=general_cases())
def test_with_nodes_licences_and_gangs_every_start_equals_the_twin(name, case):
    compare(case, name)


@pytest.mark.parametrize("name", NAMES)
@given(case=general_cases())
def test_with_nodes_licences_gangs_and_overrun_every_start_equals_the_twin(name, case):
    compare(case, name, overrun="extend")
