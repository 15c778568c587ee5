"""Golden schedules that run everywhere: start times in microseconds, from the slow twins, under review like code."""

import csv

import pytest

from backfill.analysis.verify import verify
from backfill.loading import load
from backfill.model.schedule import NO_TIME
from backfill.worlds.simulated import Options, simulate
from tests.golden.regenerate import FOLDER, VARIANTS, cases

CASES = cases()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("policy", "ties"), VARIANTS)
def test_every_start_is_the_golden_one(name, policy, ties):
    workload, platform = CASES[name]
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        expected = [int(row[f"{policy} {ties}"] or NO_TIME) for row in csv.DictReader(file)]
    decides, params = load(policy)
    schedule = simulate(workload, platform, decides, params, options=Options(ties=ties)).schedule
    assert verify(workload, platform, schedule, sharing=decides.sharing(decides.in_full(params))) == []
    assert schedule.start.tolist() == expected
    assert (schedule.start > workload.jobs.submit).sum() > 20  # somebody waits, or this shows nothing
