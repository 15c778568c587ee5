"""The two-tier paper reproduced: its case study exactly, its claims by intervals, and its laws in every run."""

import json
from dataclasses import replace

import pytest

from backfill.analysis.interval import Estimate
from backfill.api import simulate
from backfill.papers import case_study, twotier
from backfill.papers.asked import Asked
from backfill.papers.blocks import Blocks, Held
from backfill.papers.cases import Case, judged
from backfill.papers.sweep import Sweep
from backfill.papers.twotier_claims import (
    FACTORS,
    INTERARRIVALS,
    PRINTED_JOBS,
    PROJECTS,
    TSB,
    calibration,
    feedback,
    of_ends,
    of_moves,
    of_slack,
    with_priority,
    with_slack,
)
from backfill.papers.twotier_runs import BROKEN, HIGH, JOB, LOW, MOVED, PROJECT, PROMISED, RUN, WAIT, Cell, laws, run
from backfill.papers.write import write
from backfill.spec import RunSpec
from backfill.workloads.twotier import two_tier

CALIBRATION = {  # inter-arrival -> job and project turn-around, project waiting and running, from 5 seeds
    10: (54_956, 74_277, 24_054, 50_223),
    40: (42_485, 59_597, 16_462, 43_136),
}


def test_the_case_study_is_table_4():
    found = case_study.outcomes(case_study.TAKEN)
    one, other = found[case_study.TSB], found[case_study.TFB_SF]
    assert (one.starts, one.ends, one.mean) == ((0, 0, 6, 2, 7, 7), (2, 6, 7, 3, 11, 9), 6.25)
    assert (other.starts, other.ends, other.mean) == ((0, 0, 7, 2, 3, 8), (2, 6, 8, 3, 7, 10), 5.75)


def test_the_case_study_as_printed_is_not_and_the_claims_say_so():
    assert {each.mean for each in case_study.outcomes({}).values()} == {5.25}
    assert [(claim.id, claim.verdict) for claim in case_study.claims()] == [
        ("Table 4", "holds"),
        ("Table 4, as printed", "contradicted"),
    ]


def test_figure_6_has_a_block_for_each_resource_type(tmp_path):
    from matplotlib.figure import Figure

    figure = case_study.figure()
    assert figure.rows[4] == ("2TSB", "J3.2", "7", "11", "2", "2")
    assert figure.lines["2TFB-SF, SF 0.2"][2] == "7 to 8"
    drawn = Figure()
    figure.draw(drawn)
    assert [ax.get_ylabel() for ax in drawn.axes] == ["r1, units held", "", "r2, units held", ""]


def test_a_job_takes_the_lowest_free_units_also_when_these_do_not_touch():
    from matplotlib.figure import Figure

    jobs = [
        Held("a", "a", 0, 2, (1,)),
        Held("b", "b", 0, 4, (1,)),
        Held("c", "c", 2, 4, (2,)),
        Held("d", "d", 0, 4, (0,)),
    ]
    drawn = Figure()
    Blocks("x", "x", {"r": 3}, {"policy": jobs}).draw(drawn)
    boxes = [(box.get_x(), box.get_y(), box.get_width(), box.get_height()) for box in drawn.axes[0].patches]
    assert boxes == [(0, 0, 2, 1), (0, 1, 4, 1), (2, 0, 2, 1), (2, 2, 2, 1)]


@pytest.mark.parametrize("interarrival", CALIBRATION)
def test_numbers_lie_near_those_of_another_program(interarrival):
    """15 %: each of both is a mean over few seeds."""
    rows = [run(Cell.of([TSB], interarrival=interarrival, seed=seed)) for seed in range(6)]
    sweep = Sweep({interarrival: rows})
    for metric, expected in zip((JOB, PROJECT, WAIT, RUN), CALIBRATION[interarrival], strict=True):
        assert sweep.mean(interarrival, TSB, metric).mean == pytest.approx(expected, rel=0.15)


POLICIES = (TSB, feedback(), with_slack(), with_priority(), with_slack(reading="compress=true"))


def test_every_run_keeps_its_laws_and_moves_promises():
    found = run(Cell.of(POLICIES, projects=150, interarrival=40, high=0.2))
    assert {name: numbers[BROKEN] for name, numbers in found.items()} == dict.fromkeys(POLICIES, 0)
    assert {numbers[PROMISED] for numbers in found.values()} == {150}
    assert found[TSB][MOVED] == 0
    assert min(found[name][MOVED] for name in POLICIES[1:]) > 0


def test_a_departure_beyond_its_slack_is_noticed():
    result = simulate(two_tier(projects=150, interarrival=40, high=0.2), None, with_slack())
    assert laws(result)[2] == 0
    held_to = {name: laws(replace(result, spec=RunSpec.of(name)))[2] for name in (TSB, feedback(), with_priority(0.4))}
    assert min(held_to.values()) > 10
    assert held_to[TSB] > held_to[feedback()]


def test_turn_around_by_priority_is_that_of_all_projects():
    (numbers,) = run(Cell.of([with_priority()], projects=150, interarrival=40, high=1)).values()
    assert numbers[HIGH] == pytest.approx(numbers[PROJECT])
    assert numbers[LOW] != numbers[LOW]  # NaN: there are none


def made_up(change, trend=0):
    """A sweep in which 2TFB-SF changes the numbers of 2TSB by shares, and 2TFB does not; trend: seconds per SF of 1."""
    base = {JOB: 50_000.0, PROJECT: 70_000.0, WAIT: 20_000.0, RUN: 50_000.0}
    other = {name: value * (1 + change.get(name, 0)) for name, value in base.items()}
    numbers = {TSB: base, feedback(): base}
    numbers |= {with_slack(sf): {name: value + trend * sf for name, value in other.items()} for sf in FACTORS}
    return Sweep({ia: [numbers, numbers] for ia in INTERARRIVALS})


def test_claims_of_moves_hold_where_every_interval_lies_within_its_bounds():
    good = made_up({JOB: -0.1, WAIT: -0.3, RUN: 0.05})
    held = {claim.id: claim.held for claim in of_moves(good)}
    assert [name for name in held if held[name]] == ["F4.1a", "F4.2", "F4.3", "F4.4a", "F4.5"]
    assert {name for name in held if held[name] is False} == {"F4.1b", "F4.4b", "F4.5b", "F4.1c", "F4.4c", "F4.5c"}
    bad = made_up({JOB: -0.3, PROJECT: 0.1, WAIT: -0.1, RUN: -0.01})
    lost = [claim.id for claim in of_moves(bad) if not claim.held]
    assert lost == ["F4.1b", "F4.1c", "F4.3", "F4.4b", "F4.4c", "F4.5", "F4.5b", "F4.5c"]


def test_printed_ends_and_their_trend_are_judged_apart():
    """Ours is -5 % at 10 and -20 % at 160: the trend of the paper, with other numbers than its -7.5 and -15.5 %."""
    rows = {ia: made_up({JOB: share}).found[ia] for ia, share in ((10, -0.05), (160, -0.2))}
    size, trend = of_ends(Sweep(rows), PRINTED_JOBS, "size", "trend")
    assert (size.verdict, trend.verdict) == ("contradicted", "holds")
    as_printed = {
        ia: [made_up({JOB: share + off}).found[ia][0] for off in (-0.005, 0.005, -0.004, 0.004)]
        for ia, share in ((10, -0.075), (160, -0.155))
    }
    assert of_ends(Sweep(as_printed), PRINTED_JOBS, "size", "trend")[0].verdict == "holds"


@pytest.mark.parametrize(("trend", "held"), [(-100, [True, False]), (100, [False, True])])
def test_a_trend_over_sf_has_a_sign(trend, held):
    assert [claim.held for claim in of_slack(made_up({}, trend))] == held


def test_numbers_of_fewer_projects_are_not_held_against_the_paper():
    sweep = made_up({})
    assert [claim.held for claim in calibration(sweep, PROJECTS)] == [True, False, True, True]
    assert {claim.held for claim in calibration(sweep, 10)} == {None}


def test_a_claim_tells_its_worst_case_and_the_few_seeds_beside():
    good, bad = Estimate(-0.1, -0.12, -0.08, 30), Estimate(-0.02, -0.05, 0.01018, 30)
    few = Estimate(-0.03, -0.2, 0.1, 5)
    claim = judged("x", "", "", [Case("at 10", good, few, most=0), Case("at 20", bad, few, most=0)])
    assert (claim.verdict, claim.low, claim.high) == ("undecided", -5, 1.018)
    assert claim.measured == "-2% [-5, 1.02], at 20; the first 5 seeds: -3%"
    assert claim.note == ("at 10: -10% [-12, -8] (-3%); at 20: -2% [-5, 1.02] (-3%); in brackets the first 5 seeds")


@pytest.fixture(scope="module")
def small():
    """All experiments with few projects."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(twotier, "QUICK_PROJECTS", 40)
        yield twotier.reproduce(Asked(replications=2, quick=True, sensitivity=True))


def test_every_claim_has_a_verdict_and_every_figure_its_files(small, tmp_path):
    claims = [claim.id for claim in small.claims]
    assert claims[:36] == [
        "F4.0a", "F4.0b", "F4.0c", "F4.0d", "F4.1a", "F4.1b", "F4.1c", "F4.2", "F4.3", "F4.4a", "F4.4b", "F4.4c",
        "F4.5", "F4.5b", "F4.5c", "F4.6a", "F4.6b", "F4.7a", "F4.7b", "F4.7c", "F4.7d", "F4.7e", "F4.7f", "F4.7g",
        "F4.7h", "F4.8a", "F4.8b", "F4.8c", "F4.8d", "F4.8e", "F4.8f", "F4.8g", "F4.9", "F4.10", "Table 4",
        "Table 4, as printed",
    ]  # fmt: skip
    assert claims[36:38] == ["F4.1a, one", "F4.1b, one"]
    assert next(claim for claim in small.claims if claim.id == "F4.10").measured.startswith("0 of ")
    assert {claim.verdict for claim in small.claims} == {"undecided"}
    names = [figure.name for figure in small.figures]
    assert len(names) == len(set(names)) == 18
    few = replace(small, figures=[small.figures[0], small.figures[1], small.figures[-1]])  # one of each kind
    write(few, tmp_path / "out")
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert {f"{figure.name}.{suffix}" for figure in few.figures for suffix in ("png", "svg", "csv")} < files
    told = json.loads((tmp_path / "out" / "claims.json").read_text())
    assert told == [claim.to_dict() for claim in small.claims]
    page = (tmp_path / "out" / "index.html").read_text()
    assert all(claim.id in page for claim in small.claims)
    assert "Quick look: 40 projects instead of 1,000" in page
    assert "Quick look: 2 replications instead of 30" in page


def test_the_tables_of_readings_have_the_paper_beside_each(small):
    one, other, busy = small.figures[-3:]
    assert [*one.lines] == [*twotier.READINGS, "paper"]
    assert [*other.lines] == [*twotier.OF_PRIORITY, "paper"]
    assert [busy.text(each) for each in busy.lines["paper"]] == ["-7.5", "0", "-5", "0.7"]
    assert [one.text(each) for each in one.lines["paper"]] == ["-15.5", "0", "-33", "7"]
    assert [other.text(each) for each in other.lines["paper"]] == ["-27", "26", "16"]
