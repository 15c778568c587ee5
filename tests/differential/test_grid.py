"""Gangs on grids of sites: the compiled policies do what their slow twins do."""

import pytest
from hypothesis import given

from tests.differential import test_events, test_twins
from tests.reference import world
from tests.reference.workloads import grid_cases, grids_with_events

GRID = [name for name in world.POLICIES if name.startswith("gang")]
every_gang_policy = pytest.mark.parametrize("name", GRID)


@pytest.mark.parametrize("options", [{}, {"ties": "step"}, {"overrun": "extend"}], ids=["batch", "step", "extend"])
@every_gang_policy
@given(case=grid_cases())
def test_every_start_equals_the_twin(name, options, case):
    test_twins.compare(case, name, **options)


@pytest.mark.parametrize("options", [{}, {"lost": "fail"}, {"overrun": "extend"}], ids=["requeue", "fail", "extend"])
@every_gang_policy
@given(happening=grids_with_events())
def test_with_events_every_start_equals_the_twin(name, options, happening):
    test_events.compare(happening, name, **options)
