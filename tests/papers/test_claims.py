"""Verdicts: what holds, is contradicted, undecided or fitted, by intervals that are made up."""

import json
import math
from dataclasses import replace

import pytest

from backfill.analysis.interval import Estimate
from backfill.papers.asked import Asked
from backfill.papers.cases import Case, Size, judged, sizes
from backfill.papers.claims import CONTRADICTED, FITTED, HOLDS, UNDECIDED, Claim, below, verdict_of, within
from backfill.papers.write import Reproduction, write

LOW, HIGH, OVER = Estimate(-2, -3, -1, 3), Estimate(1, 0.5, 2, 3), Estimate(-1, -3, 1, 3)
OPEN = Estimate.of([-2.0])


@pytest.mark.parametrize(
    ("cases", "verdict"),
    [
        ([LOW, Estimate(-1, -2, -0.1, 3)], HOLDS),
        ([LOW, HIGH], CONTRADICTED),
        ([LOW, OVER], UNDECIDED),
        ([OVER, HIGH, OPEN], CONTRADICTED),
        ([LOW, OPEN], UNDECIDED),
        ([OPEN], UNDECIDED),
        ([Estimate(0, 0, 0, 3)], CONTRADICTED),  # exactly equal is not below
    ],
)
def test_a_claim_that_all_is_below_0(cases, verdict):
    claim = below("F", "a claim", "is so", {str(i): case for i, case in enumerate(cases)})
    assert claim.verdict == claim.to_dict()["verdict"] == verdict
    assert claim.held is claim.to_dict()["held"] is {HOLDS: True, CONTRADICTED: False}.get(verdict)


def test_what_contradicts_a_claim_is_shown_before_what_is_only_unclear():
    wide = Estimate(0, -50, 50, 3)
    claim = below("F", "", "", {"wide": wide, "against": HIGH, "open": OPEN}, " s")
    assert claim.measured == "1 [0.5, 2] s, against"
    assert (claim.low, claim.high) == (0.5, 2)
    assert claim.note == "no interval: -2 s, open"
    bounds = {"least": -3.5, "most": 0}
    assert judged("F", "", "", [Case("wide", wide, **bounds), Case("against", HIGH, **bounds)]).measured.endswith(
        "against"
    )


@pytest.mark.parametrize(
    ("low", "high", "fits"),
    [(-1, 1, True), (-3, -2, False), (2, 3, False), (-3, 1, None), (1, 3, None), (-3, 3, None), (-math.inf, 3, None)],
)
def test_an_interval_lies_within_bounds_or_elsewhere_or_reaches_over_one(low, high, fits):
    assert within(Estimate(0, low, high, 3), -2, 2) is fits
    assert verdict_of([True, fits]) == {True: HOLDS, False: CONTRADICTED, None: UNDECIDED}[fits]


def claim_of(verdict):
    return Claim("F", "a claim", "is so", "1", verdict, note="by hand")


def test_a_number_that_was_fitted_tests_nothing_but_one_that_does_not_come_out_is_contradicted():
    verdicts = [claim_of(each).fitted().verdict for each in (HOLDS, CONTRADICTED, UNDECIDED)]
    assert verdicts == [FITTED, CONTRADICTED, UNDECIDED]
    assert claim_of(HOLDS).fitted().held is None


def test_a_quick_look_judges_nothing_and_fewer_replications_judge():
    claims = [claim_of(each) for each in (HOLDS, CONTRADICTED, UNDECIDED, FITTED)]
    quick, few = Asked(replications=3, quick=True), Asked(replications=3)
    assert {claim.verdict for claim in quick.judged(claims)} == {UNDECIDED}
    assert {claim.note for claim in quick.judged(claims)} == {"quick look; by hand"}
    assert few.judged(claims) == claims
    assert quick.caveat(30) == ["Quick look: 3 replications instead of 30; no claim is judged."]
    assert few.caveat(30) == ["3 replications instead of 30: intervals are wider, so more claims stay undecided."]


def test_the_page_says_what_the_verdicts_mean_and_the_json_has_both_words(tmp_path):
    claims = [claim_of(each) for each in (HOLDS, CONTRADICTED, UNDECIDED, FITTED)]
    write(Reproduction("a paper", [], claims, []), tmp_path)
    told = json.loads((tmp_path / "claims.json").read_text())
    assert [(each["held"], each["verdict"]) for each in told] == [
        (True, "holds"), (False, "contradicted"), (None, "undecided"), (None, "fitted")
    ]  # fmt: skip
    page = (tmp_path / "index.html").read_text()
    for verdict in (HOLDS, CONTRADICTED, UNDECIDED, FITTED):
        assert f'<td class="{verdict}">{verdict}</td>' in page
        assert f"<b>{verdict}</b>: " in page


def test_the_interval_of_a_median_is_that_of_the_sign_test():
    """Of 30 signs at most 9 on one side have probability 0.0214, at most 10 have 0.0494."""
    values = [-100.0] * 21 + [1.0] * 9
    assert Estimate.of_median(values).high < 0
    assert Estimate.of_median([-100.0] * 20 + [1.0] * 10).high > 0
    assert Estimate.of_median([float(i) for i in range(1, 31)]) == Estimate(15.5, 10, 21, 30)
    assert Estimate.of_median([1.0, 2, 3, 4, 5, 60]) == Estimate(3.5, 1, 60, 6)
    assert not Estimate.of_median([1.0] * 5).bounded


def test_one_huge_value_decides_a_mean_and_no_median():
    values = [-0.3 - i / 1000 for i in range(29)] + [40.0]
    assert Estimate.of(values).high > 0
    assert Estimate.of_median(values).high < 0


def test_a_printed_number_holds_where_it_may_be_the_mean_of_as_few_seeds_as_the_paper_has():
    ours = Estimate(-0.1, -0.12, -0.08, 30)  # a mean of 5 lies within 0.02 sqrt(7) = 0.053 of it
    assert ours.of_further(5).low == pytest.approx(-0.1529, abs=1e-4)
    good, bad = Size("at 10", ours, -0.15, 5), Size("at 160", ours, -0.155, 5)
    assert (good.fits, bad.fits) == (True, False)
    assert Size("at 10", replace(ours, low=-0.3, high=0.1), -0.15, 5).fits is None  # ours is not told from none
    assert Size("at 10", Estimate.of([-0.1]), -0.1, 5).fits is None
    claim = sizes("F", "two ends", [good, bad])
    assert (claim.verdict, claim.low, claim.high) == (CONTRADICTED, -12, -8)
    assert claim.measured == "-10% [-12, -8] at 160, 5 seeds give -15.3 to -4.71, the paper -15.5%"
    assert sizes("F", "one end", [good]).verdict == HOLDS
