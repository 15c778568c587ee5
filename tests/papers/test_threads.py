"""The paper on the thread matrix reproduced: its figures exactly, its laws in every run, its ratios by intervals."""

import json

import numpy as np
import pytest

from backfill.model.errors import BackfillError
from backfill.papers import threads, threads_claims, threads_runs
from backfill.papers.asked import Asked
from backfill.papers.sweep import Sweep
from backfill.papers.threads_claims import (
    ARRIVING,
    AT_ONCE,
    LOADS,
    ORDER,
    SIZES,
    of_arrivals,
    of_figures,
    of_laws,
    of_responses,
    of_use,
    of_wide,
    order,
)
from backfill.papers.threads_runs import (
    BEHIND,
    DIFFERENT,
    FCFS,
    FIRST_FIT,
    HEAD,
    IDLE,
    MAKESPAN,
    MATRIX,
    ONE_COLUMN,
    RATE,
    RESPONSE,
    SMALL,
    USED,
    Cell,
    behind_largest,
    run,
)
from backfill.papers.write import write
from backfill.workloads.threads import threads as model


def test_the_threads_of_the_figures_leave_the_matrix_as_printed():
    assert order() == ORDER


def test_numbers_lie_near_those_of_another_program():
    """3113 jobs: FCFS 4323 s, and shares of it; another program, ten seeds of its own."""
    rows = [run(Cell.of([FCFS, FIRST_FIT, MATRIX], jobs=3113, seed=seed)) for seed in range(3)]
    sweep = Sweep({3113: rows})
    assert sweep.mean(3113, FCFS, MAKESPAN).mean == pytest.approx(4323, rel=0.02)
    expected = {
        (FIRST_FIT, MAKESPAN): 0.963,
        (MATRIX, MAKESPAN): 0.891,
        (FIRST_FIT, RESPONSE): 0.71,
        (MATRIX, RESPONSE): 0.89,
    }
    for (policy, metric), share in expected.items():
        assert sweep.ratio(3113, policy, FCFS, metric).mean == pytest.approx(share, abs=0.02)


def test_laws_hold_in_a_run_and_a_run_that_breaks_them_is_noticed():
    numbers = run(Cell.of([MATRIX, ONE_COLUMN, "fcfs", FCFS], jobs=200, cpus=32, seed=1))
    assert numbers[MATRIX][IDLE] == 0
    assert numbers[ONE_COLUMN][DIFFERENT] == 0
    assert numbers[FCFS][IDLE] > 0
    sweep = Sweep({size: [numbers] for size in SIZES})
    assert [claim.held for claim in of_laws(sweep)] == [True, True, True]
    wrong = {**numbers, MATRIX: {**numbers[MATRIX], IDLE: 0.1}, ONE_COLUMN: {**numbers[ONE_COLUMN], DIFFERENT: 1.0}}
    assert [claim.held for claim in of_laws(Sweep({size: [wrong] for size in SIZES}))] == [False, False, True]


def test_idle_time_that_was_not_measured_does_not_read_as_none(monkeypatch):
    of_run = threads_runs.run_spec

    def unmeasured(log, platform, spec):
        result = of_run(log, platform, spec)
        vars(result)["metrics"] = {**result.metrics, "idle_while_waiting_cpu_hours": None}
        return result

    monkeypatch.setattr(threads_runs, "run_spec", unmeasured)
    with pytest.raises(BackfillError, match="thread-matrix with seed 0: idle_while_waiting_cpu_hours has no value"):
        run(Cell.of([MATRIX], jobs=5))


def test_who_stands_behind_the_largest_jobs():
    log = model(100, seed=4)
    sizes, work = np.bincount(log.jobs.project.codes), np.bincount(log.jobs.project.codes, log.jobs.runtime)
    (behind,) = behind_largest(log)
    assert sizes[behind - 1] == sizes.max()
    assert work[behind - 1] == work[sizes == sizes.max()].max()


def made_up(makespan, response):
    """A sweep in which backfilling and the matrix change the numbers of FCFS by shares."""
    base = {MAKESPAN: 4313.0, RESPONSE: 2000.0, HEAD: 100.0, BEHIND: 2000.0}
    numbers = {FCFS: base}
    for policy, one, other in zip((FIRST_FIT, MATRIX), makespan, response, strict=True):
        numbers[policy] = {MAKESPAN: 4313.0 * (1 + one), RESPONSE: 2000.0 * (1 + other), HEAD: 101.0, BEHIND: 1900.0}
    return Sweep({size: [numbers, numbers] for size in SIZES})


def test_claims_hold_where_every_interval_lies_within_its_bounds():
    good = made_up((-0.03, -0.1), (-0.1, -0.2))
    assert [claim.verdict for claim in [*of_figures(good), *of_responses(good)]] == [
        "holds", "fitted", "fitted", "holds", "holds", "holds"
    ]  # fmt: skip
    bad = made_up((-0.1, -0.05), (-0.3, 0.1))
    lost = [claim.id for claim in [*of_figures(bad), *of_responses(bad)] if claim.held is False]
    assert lost == ["F3.1", "F3.2", "F3.2b", "F3.2c"]


def test_with_arrivals_the_printed_shares_may_be_mean_responses():
    found = {load: made_up((0, 0), (-0.03, -0.1)).found[SIZES[0]] for load in LOADS}
    below, near = of_arrivals(Sweep(found))
    assert (below.verdict, near.verdict) == ("holds", "fitted")
    assert "it is open (A26)" in near.note
    found[LOADS[0]] = made_up((0, 0), (-0.1, -0.03)).found[SIZES[0]]
    assert of_arrivals(Sweep(found))[0].verdict == "contradicted"


@pytest.mark.parametrize(("small", "verdicts"), [(-0.3, ["holds"] * 4), (0.1, ["holds", *["contradicted"] * 3])])
def test_small_jobs_behind_big_ones_are_set_against_all_jobs(small, verdicts):
    (row, _) = made_up((0, 0), (0, -0.2)).found[SIZES[0]]
    for policy, changed in ((FCFS, 0), (MATRIX, small)):
        row[policy] = {**row[policy], SMALL: 1000.0 * (1 + changed)}
    none = {policy: {**numbers, SMALL: float("nan")} for policy, numbers in row.items()}  # a seed without such a job
    claims = of_wide(Sweep({x: [row, row, none] for x in (AT_ONCE, ARRIVING)}))
    assert [claim.verdict for claim in claims] == verdicts


@pytest.mark.parametrize(("more", "verdict"), [(0.1, "holds"), (-0.1, "contradicted")])
def test_utilization_and_throughput_are_judged(more, verdict):
    numbers = {policy: {USED: 0.8, RATE: 10.0} for policy in (FCFS, FIRST_FIT)}
    numbers[MATRIX] = {USED: 0.8 + more, RATE: 10 + more}
    claims = of_use(Sweep({size: [numbers, numbers] for size in SIZES}))
    assert [(claim.id, claim.verdict) for claim in claims] == [("F3.5a", verdict), ("F3.5b", verdict)]


@pytest.fixture(scope="module")
def small():
    """All experiments with few jobs."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (threads, threads_claims):
            patch.setattr(module, "SIZES", (60, 80, 100))
            patch.setattr(module, "MOST", 100)
        patch.setattr(threads, "SETTINGS_JOBS", 60)
        patch.setattr(threads, "WIDE_JOBS", 100)
        patch.setattr(threads, "SETTINGS", {"as taken": {}, "32 processors": {"cpus": 32}})
        yield threads.reproduce(Asked(replications=2, quick=True, sensitivity=True))


def test_every_claim_has_a_verdict_and_every_figure_its_files(small, tmp_path):
    assert [claim.id for claim in small.claims] == [
        "F3.1", "F3.2", "F3.2a", "F3.2b", "F3.2c", "F3.3a", "F3.2d", "F3.2e", "F3.3a, wide", "F3.3b",
        "F3.3b, arrivals", "F3.3c", "F3.5a", "F3.5b", "F3.4a", "F3.4b", "Figures 1-3",
    ]  # fmt: skip
    assert {claim.verdict for claim in small.claims} == {"undecided"}
    assert [claim.measured[:2] for claim in small.claims[-3:]] == ["0 ", "0 ", "th"]
    names = [figure.name for figure in small.figures]
    assert names == ["figure-5", "figure-6", "figure-7", "figure-8", "utilization", "throughput", "arrivals",
                     "response-by-place", "policies", "sensitivity"]  # fmt: skip
    write(small, tmp_path / "out")
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert {f"{name}.{suffix}" for name in names for suffix in ("png", "svg", "csv")} < files
    told = json.loads((tmp_path / "out" / "claims.json").read_text())
    assert told == [claim.to_dict() for claim in small.claims]
    assert "Quick look: 2 replications instead of 10" in (tmp_path / "out" / "index.html").read_text()


def test_the_last_experiment_has_the_printed_numbers_beside_ours(small):
    figure = next(figure for figure in small.figures if figure.name == "figure-7")
    assert [figure.text(each) for each in figure.lines["paper"]] == ["4313", "4197", "3861"]
    assert figure.at == ["FCFS", "backfilling", "thread matrix"]
