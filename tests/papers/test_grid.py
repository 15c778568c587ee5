"""The grid paper reproduced: theory without gangs, numbers near those of another program, claims by intervals."""

import numpy as np
import pytest

from backfill.papers import grid
from backfill.papers.asked import Asked
from backfill.papers.grid_claims import (
    LOCAL,
    SITE,
    SIZES,
    SPAN,
    gangs_respond_sooner,
    local_jobs_respond_later,
    policy,
)
from backfill.papers.grid_runs import (
    ARRIVED,
    COMPLETED,
    JOBS,
    LATE,
    LEFT,
    OTHER,
    RT,
    SLD,
    WAIT,
    WRT,
    WSLD,
    GridTask,
    run,
)
from backfill.papers.grid_steady import Steady
from backfill.papers.sweep import Sweep
from backfill.papers.write import write
from backfill.workloads.grid import POWERS, UNIFORM


@pytest.mark.parametrize("name", [SITE, SPAN])
def test_without_gangs_every_wait_is_that_of_a_reference_simulation(name):
    for given in ({"local": 12}, {"local": 0.7, "processors": 1}):
        found = run(GridTask.of([name], seed=1, gangs=0, **given))[name]
        assert found[OTHER] == 0
        assert found[JOBS] == 22_500
    assert found[WAIT] > 1


@pytest.mark.parametrize("reading", grid.READINGS)
def test_every_second_reading_changes_something(reading):
    both, more = grid.READINGS[reading]
    usual = run(GridTask.of([SPAN], seed=1, jobs=4000, local=12, gangs=0.5))[SPAN]
    other = run(GridTask.of(both, seed=1, jobs=4000, local=12, gangs=0.5, **more))[both[1]]
    assert other[RT] != usual[RT]
    assert other[WRT] != usual[WRT]
    if "estimates" in more:
        assert other[LATE] > 0


@pytest.mark.parametrize(
    ("sizes", "local", "site", "span"),
    [
        (UNIFORM, 8, (1.0, 1.18, 1.4), (1.0, 1.17, 1.4)),
        (POWERS, 13, (0.884, 2.04, 65), (0.939, 2.15, 44)),
    ],
)
def test_numbers_lie_near_those_of_another_program(sizes, local, site, span):
    """Completion, RT and WRT of two runs of it; the last is that of a queue that is nearly unstable."""
    found = [run(GridTask.of([SITE, SPAN], seed=seed, local=local, gangs=0.5, sizes=sizes)) for seed in range(2)]
    for name, wanted in ((SITE, site), (SPAN, span)):
        assert sum(each[name][LATE] for each in found) == 0
        values = [np.mean([each[name][metric] for each in found]) for metric in (COMPLETED, RT, WRT)]
        assert values[0] == pytest.approx(wanted[0], abs=0.05)
        assert values[1] == pytest.approx(wanted[1], rel=0.1)
        assert values[2] == pytest.approx(wanted[2], rel=0.7)


def test_a_large_tolerance_starves_gangs():
    found = run(GridTask.of([SPAN, policy(SPAN, 2)], seed=1, local=12, gangs=0.5, sizes=POWERS))
    assert found[policy(SPAN, 2)][COMPLETED] < found[SPAN][COMPLETED] - 0.2
    assert found[policy(SPAN, 2)][LATE] > 0


def test_the_page_has_all_figures_and_claims(tmp_path, monkeypatch):
    monkeypatch.setattr("backfill.papers.grid_runs.ARRIVALS", 3_000)
    monkeypatch.setattr("backfill.papers.grid.LOCAL", (8, 12, 13))
    monkeypatch.setattr("backfill.papers.grid_claims.LOCAL", (8, 12, 13))
    monkeypatch.setattr("backfill.papers.grid.STARVED", (12, 13))
    monkeypatch.setattr("backfill.papers.grid.TESTED", (12, 13))
    found = grid.reproduce(Asked(replications=2, quick=True, sensitivity=True))
    second = [claim.id for claim in found.claims if "," in claim.id]
    assert second[:3] == ["F2.2, cross=idle", "F2.4a, cross=idle", "F2.5a, cross=idle"]
    assert len(second) == 3 * len(grid.READINGS)
    assert "MSER-5" in " ".join(found.setting)
    assert [claim.id for claim in found.claims if "," not in claim.id] == [
        "F2.1", "F2.2", "F2.3", "F2.3b", "F2.4a", "F2.4b", "F2.5a", "F2.5b", "F2.6a", "F2.6b", "F2.7a", "F2.7b", "F2.7c"
    ]  # fmt: skip
    assert {claim.verdict for claim in found.claims} == {"undecided"}
    assert found.claims[10].measured.startswith("0 of ")
    assert "Steady state: " in " ".join(found.setting)
    names = [figure.name for figure in found.figures]
    assert names[:6] == [f"figure-{number}" for number in range(2, 8)]
    assert {"left-over", "starvation-gang-site", "starvation-gang-span", "tolerance-wrt", "warm-up"} <= {*names}
    write(found, tmp_path)
    assert "Quick look" in (tmp_path / "index.html").read_text(encoding="utf-8")


def rows(values, **other):
    """One row per seed: gang-site has 100 of each metric, gang-span so much more."""
    metrics = (RT, SLD, WRT, WSLD)
    return [
        {SITE: {**dict.fromkeys(metrics, 100.0), **other}, SPAN: {**dict.fromkeys(metrics, 100.0 * (1 + x)), **other}}
        for x in values
    ]


def by_sizes(values):
    return {sizes: Sweep({local: rows(values) for local in LOCAL}) for sizes in (UNIFORM, POWERS)}


def test_slowdowns_are_judged_seed_by_seed_whatever_their_tails():
    """Of 30 seeds 25 are lower; one huge value makes the mean higher."""
    found = by_sizes([-0.2] * 25 + [0.1] * 4 + [50.0])
    claim = gangs_respond_sooner(found, WSLD, "F2.4b")
    assert claim.verdict == "holds"
    assert "lower in 25 of 30" in claim.measured
    assert gangs_respond_sooner(by_sizes([-0.2] * 20 + [0.1] * 10), WSLD, "F2.4b").verdict == "undecided"


def test_local_jobs_are_judged_at_all_high_loads_and_both_sizes():
    found = by_sizes([0.05] * 30)
    assert local_jobs_respond_later(found, RT, "F2.5a").verdict == "holds"
    found[UNIFORM].found[12] = rows([-0.01] * 26 + [0.05] * 4)
    claim = local_jobs_respond_later(found, RT, "F2.5a")
    assert claim.verdict == "contradicted"
    assert "at 12, uniform 2-13, lower in 26 of 30" in claim.measured


def test_where_a_longer_run_leaves_as_many_more_gangs_there_is_no_steady_state():
    usual = {sizes: Sweep({12: rows([0.0] * 3, **{LEFT: 45.0, ARRIVED: 450.0})}) for sizes in (UNIFORM, POWERS)}
    longer = {
        UNIFORM: Sweep({12: rows([0.0] * 3, **{LEFT: 50.0, ARRIVED: 1800.0})}),
        POWERS: Sweep({12: rows([0.0] * 3, **{LEFT: 172.0, ARRIVED: 1800.0})}),
    }
    steady = Steady(usual, longer, SIZES, (SITE, SPAN))
    assert steady(UNIFORM, 12, SITE)
    assert not steady(POWERS, 12, SITE)
    assert steady(POWERS, 12, policy(SITE, 2))  # not tried
    assert "10.0% of the gangs (45, and 172 of 4 times as many) under gang-site at 12, 2, 4, 8, 16" in steady.sentence()
