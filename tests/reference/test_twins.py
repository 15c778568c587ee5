"""The twins themselves: placement, scores, laws on random workloads, schedules of other simulators."""

import csv
import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.model.units import SECOND
from tests.shares import LONG, examples

from .easy import several_reservations
from .orders import SCORES, ranked, rounded, score
from .placement import held, place, whole
from .profile import Profile, span
from .words import Job, Node, Platform, Reservation, View
from .workloads import Case, as_model, from_model, general_cases, pool_cases
from .world import POLICIES, Row, run

TWO_SITES = Platform(
    nodes=(
        Node((4, 8), site=0, hosts=frozenset({0})),
        Node((2, 8), site=1, hosts=frozenset({0, 1})),
        Node((4, 4), site=1, hosts=frozenset({0, 1})),
        Node((3, 1), site=0, hosts=frozenset()),
    ),
    copies=(2, 1),
)


@pytest.mark.parametrize(
    ("job", "placement"),
    [
        ({"tasks": 3, "spread": "node"}, ((0, 3),)),
        ({"tasks": 3, "spread": "node", "site": 1}, ((2, 3),)),
        ({"tasks": 3, "spread": "node", "licences": (1,)}, ((2, 3),)),
        ({"tasks": 5, "spread": "node"}, None),
        ({"tasks": 5, "spread": "site"}, ((0, 4), (3, 1))),
        ({"tasks": 5, "spread": "site", "licences": (0,)}, ((1, 2), (2, 3))),
        ({"tasks": 8, "spread": "site"}, None),
        ({"tasks": 8, "spread": "any"}, ((0, 4), (1, 2), (2, 2))),
        ({"tasks": 8, "spread": "any", "demand": (1, 3)}, None),
        ({"tasks": 5, "spread": "any", "demand": (1, 3)}, ((0, 2), (1, 2), (2, 1))),
        ({"tasks": 1, "licences": (0, 0)}, ((0, 1),)),
        ({"tasks": 1, "licences": (0, 0, 0)}, None),
        ({"tasks": 9, "demand": (0, 0)}, ((0, 9),)),
    ],
)
def test_a_gang_sits_on_the_first_nodes_that_its_rule_allows(job, placement):
    job = Job(row=0, submit=0, runtime=1, walltime=1, **{"demand": (1, 0), **job})
    assert place(TWO_SITES, job, whole(TWO_SITES)) == placement


def test_scores_are_those_of_the_papers():
    job = Job(row=0, submit=1100 * SECOND, runtime=0, walltime=100 * SECOND, tasks=4)
    view = view_of([job], now=1300 * SECOND, first_submit=100 * SECOND)
    expected = {
        "sjf": 100,
        "ljf": -100,
        "saf": 400,
        "laf": -400,
        "lxf": -3,
        "wfp3": -32,
        "unicef": -1,
        "f1": 2 * 4 + 870 * 3,
        "f2": 10 * 4 + 25_600 * 3,
        "f3": 400 + 6.86e6 * 3,
        "f4": 200 + 5.30e5 * 3,
    }
    assert {order: score(job, order, view) for order in expected} == pytest.approx(expected, rel=2e-9)
    assert expected.keys() == SCORES.keys() - {"fcfs", "priority"}


def test_a_walltime_of_zero_and_a_first_submit_do_not_upset_a_score():
    job = Job(row=0, submit=0, runtime=0, walltime=0)
    view = view_of([job], now=0, first_submit=0)
    assert score(job, "f1", view) == pytest.approx(-1)
    assert score(job, "unicef", view) == 0
    assert score(job, "lxf", view) == -1


def test_scores_that_differ_by_less_than_their_error_are_a_tie():
    assert rounded(0.1 + 0.2) == rounded(0.3)
    assert rounded(-1e9) == -rounded(1e9) == -1e9
    assert rounded(1.0) != rounded(1.0 + 4e-9)
    assert rounded(0.0) == 0.0


def test_step_and_extend_exclude_each_other():
    with pytest.raises(ValueError, match="step"):
        run([], Platform.pool(1), POLICIES["easy"], ties="step", overrun="extend")


@examples(50)
@given(general_cases())
def test_no_policy_ever_holds_more_than_there_is(case: Case):
    for policy in ("fcfs", "easy-lxf", "first-fit", "k-reservations", "conservative"):
        for overrun in ("kill", "extend"):
            rows = run(case.jobs, case.platform, POLICIES[policy], overrun=overrun)
            assert_lawful(case, rows)


@examples(100)
@given(general_cases(honest=True))
def test_conservative_keeps_its_promises(case: Case):
    rows = run(case.jobs, case.platform, POLICIES["conservative"])
    assert all(row.start <= row.promise for row in rows if row.start is not None)


@examples(100)
@given(general_cases(honest=True, chains=False))
def test_easy_keeps_its_promises(case: Case):
    rows = run(case.jobs, case.platform, POLICIES["easy"])
    assert all(row.start <= row.promise for row in rows if row.promise is not None)


@examples(100)
@given(general_cases())
def test_one_reservation_in_a_profile_is_easy(case: Case):
    def one(view: View):
        return several_reservations(view, ranked(view.queue, "fcfs", view), None, 1)

    found, expected = run(case.jobs, case.platform, one), run(case.jobs, case.platform, POLICIES["easy"])
    assert [(row.start, row.nodes) for row in found] == [(row.start, row.nodes) for row in expected]


@examples(100)
@given(general_cases())
def test_a_profile_is_what_its_bookings_leave(case: Case):
    profile, bookings = Profile(case.platform, 0), []
    for job in case.jobs:
        if place(case.platform, job, whole(case.platform)) is not None:
            found = profile.earliest(job, job.submit)
            assert found == earliest_by_trial(case.platform, bookings, job)
            bookings.append((job, profile.book(job, found)))


@examples(50)
@given(st.one_of(pool_cases(), general_cases()))
def test_a_case_survives_the_way_to_the_model_and_back(case: Case):
    workload, platform, estimates = as_model(case.jobs, case.platform)
    again = Case(*from_model(workload, platform, estimates))
    for policy in ("easy-f1", "conservative"):
        expected = run(case.jobs, case.platform, POLICIES[policy])
        assert run(again.jobs, again.platform, POLICIES[policy]) == expected


def earliest_by_trial(platform: Platform, bookings: list[tuple[Job, Reservation]], job: Job) -> Reservation:
    """The definition: try each instant at which a booking ends; look at each instant at which something changes."""

    def free(t: int):
        room = whole(platform)
        for other, at in bookings:
            if at.start <= t < at.start + span(other):
                room = [a - b for a, b in zip(room, held(platform, other, at.placement), strict=True)]
        return room

    ends = {at.start + span(other) for other, at in bookings}
    for start in sorted({job.submit} | {end for end in ends if end > job.submit}):
        inside = [at.start for _, at in bookings if start < at.start < start + span(job)]
        room = [min(amounts) for amounts in zip(*(free(t) for t in [start, *inside]), strict=True)]
        if placement := place(platform, job, room):
            return Reservation(start, placement)
    raise AssertionError("the last instant is all free")


def assert_lawful(case: Case, rows: list[Row]) -> None:
    """Starts neither before submit nor before the ends of what a job comes after; never more held than there is."""
    ran = [(job, row) for job, row in zip(case.jobs, rows, strict=True) if row.start is not None]
    assert all(row.start >= row.eligible >= job.submit for job, row in ran)
    assert all(rows[other].end <= row.start for job, row in ran for other in job.after)
    for _, now in ran:
        room = whole(case.platform)
        for job, row in ran:
            if row.start <= now.start < row.end:
                room = [a - b for a, b in zip(room, held(case.platform, job, row.nodes), strict=True)]
        assert min(room) >= 0


ORACLE = Path(__file__).parents[3] / "shared" / "oracle"


@pytest.mark.skipif(not ORACLE.exists(), reason="no schedules of other simulators beside the repository")
@pytest.mark.parametrize(
    ("policy", "ties", "schedule"),
    [
        ("fcfs", "batch", "kth.fcfs.pyss"),
        ("fcfs", "step", "kth.fcfs.pyss"),
        ("easy", "step", "kth.easy.pyss"),
        ("easy", "batch", "kth.easy-batch.ownref"),
        ("conservative", "step", "kth.conservative.pyss"),
    ],
)
def test_every_start_of_a_prefix_of_kth_equals_that_of_another_simulator(policy, ties, schedule):
    # A schedule of the first jobs is that of the whole log until the first of the others is submitted.
    count = 2500 if LONG else 800
    log = oracle_rows("kth.jobs")
    first_omitted = int(log[count]["submit"])
    jobs = [
        Job(
            row=row,
            name=line["job"],
            submit=int(line["submit"]) * SECOND,
            runtime=int(line["run"]) * SECOND,
            walltime=int(line["estimate"]) * SECOND,
            tasks=int(line["procs"]),
        )
        for row, line in enumerate(log[:count])
    ]
    found = seconds(run(jobs, Platform.pool(100), POLICIES[policy], ties))
    starts = {line["job"]: int(line["start"]) for line in oracle_rows(schedule)[:count]}
    expected = {name: start for name, start in starts.items() if start < first_omitted}
    assert len(expected) > 0.8 * count
    assert {name: found[name] for name in expected} == expected


def oracle_rows(name: str) -> list[dict[str, str]]:
    with gzip.open(ORACLE / f"{name}.csv.gz", "rt") as file:
        return list(csv.DictReader(file))


def seconds(rows: list[Row]) -> dict[str, float]:
    return {row.name: row.start / SECOND for row in rows if row.start is not None}


def view_of(queue: list[Job], now: int, first_submit: int) -> View:
    pool = Platform.pool(4)
    return View(
        now=now, platform=pool, capacity=[(now, whole(pool))], free=whole(pool), queue=queue, running=[], ended=False,
        over=[],
        promises={},
        first_submit=first_submit,
        asked=frozenset([0]),
    )  # fmt: skip
