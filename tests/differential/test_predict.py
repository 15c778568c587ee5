"""Policies that plan by predictions against their slow twins."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.model.units import NEVER
from backfill.worlds.prediction import CORRECTIONS, Prediction
from backfill.worlds.simulated import simulate
from tests import compiled
from tests.reference import world
from tests.reference.predict import Average2
from tests.reference.workloads import Case, general_cases, pool_cases

SCALE = 50  # so that corrections of a minute and more take several steps
PLANNING = ("easy", "easy-sjbf", "conservative", "k-reservations:k=3,order=lxf,tried=saf", "gang-matrix-backfill")


def in_seconds(case: Case) -> Case:
    """The case with times long enough to be predicted in seconds, and three users."""
    jobs = [
        replace(
            job,
            submit=job.submit * SCALE,
            runtime=job.runtime * SCALE,
            walltime=job.walltime * SCALE,
            estimate=job.walltime * SCALE,
            user=job.row % 3,
            deadline=NEVER,
        )
        for job in case.jobs
    ]
    return replace(case, jobs=jobs)


def compare(case: Case, name: str, ties: str, correct: str) -> None:
    case = in_seconds(case)
    workload, machine, options = compiled.asked(case.jobs, case.platform, ties)
    options = replace(options, predict=Prediction("average2", correct))
    got = simulate(workload, machine, *compiled.policy(name), options).schedule
    twin = Average2(correct)
    expected = world.run(case.jobs, case.platform, world.POLICIES[name], ties, predictor=twin)
    for row, want in enumerate(expected):
        have = compiled.row_of(got, row, want.name)
        assert (have.start, have.end, have.state) == (want.start, want.end, want.state), f"{name}, job {want.name}"
        assert have.promise is None


@pytest.mark.parametrize("name", PLANNING)
@pytest.mark.parametrize("correct", CORRECTIONS)
@given(case=pool_cases(), ties=st.sampled_from(["batch", "step"]))
def test_on_a_pool_every_start_by_predictions_equals_the_twin(name, correct, ties, case):
    compare(case, name, ties, correct)


@pytest.mark.parametrize("name", PLANNING)
@given(case=general_cases())
def test_with_nodes_licences_and_gangs_every_start_by_predictions_equals_the_twin(name, case):
    compare(case, name, "batch", "incremental")
