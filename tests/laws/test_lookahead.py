"""Look-ahead that sees a single job is first fit, so every start is that of EASY."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.worlds.simulated import simulate
from tests.compiled import policy
from tests.reference.workloads import as_model, general_cases, limited_cases, pool_cases, rich_pool_cases


def starts(case, name):
    workload, platform, _ = as_model(case.jobs, case.platform)
    return simulate(workload, platform, *policy(name)).schedule.start.tolist()


@pytest.mark.parametrize(
    "name", ["lookahead:depth=1", "lookahead:depth=1,objective=processor_seconds", "combinational:depth=1"]
)
@given(case=st.one_of(pool_cases(), rich_pool_cases(), general_cases(), limited_cases()))
def test_with_a_depth_of_one_every_start_is_that_of_easy(name, case):
    assert starts(case, name) == starts(case, "easy")


@given(case=st.one_of(pool_cases(), general_cases()))
def test_in_another_order_too(case):
    assert starts(case, "lookahead:depth=1,order=lxf,tried=saf") == starts(case, "easy:order=lxf,tried=saf")
