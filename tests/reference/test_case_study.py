"""The case study of Lin, Thai, Wang and Lai, JNCA 52, 2015: Tables 3 and 4.

Table 3 contradicts the text: with J3.2 asking for (2, 1) it fits beside J2.1 on [6, 7), so that nobody has to move.
Four changes of one cell each give all of Table 4. We take (2, 2) for J3.2, the job that the text is about.
"""

from fractions import Fraction

import pytest

from backfill.model.units import SECOND
from tests import compiled

from . import world
from .twotier import Pass
from .words import Job, Platform

JOBS = {"J1.1": (0, 2), "J1.2": (0, 6), "J2.1": (1, 1), "J3.1": (2, 1), "J3.2": (2, 4), "J4.1": (5, 2)}
PRINTED = {"J1.1": (1, 2), "J1.2": (1, 2), "J2.1": (1, 3), "J3.1": (1, 2), "J3.2": (2, 1), "J4.1": (1, 2)}
REPAIRS = [{"J3.2": (2, 2)}, {"J2.1": (2, 3)}, {"J2.1": (3, 3)}, {"J2.1": (1, 4)}]
every_repair = pytest.mark.parametrize("repair", REPAIRS, ids=str)
RUNNERS = {"twin": lambda *case: world.run(*case[:2], world.POLICIES[case[2]]), "compiled": compiled.run}
every_runner = pytest.mark.parametrize("runner", RUNNERS)


def case(repair):
    demands = PRINTED | repair
    jobs = [
        Job(
            row=row, name=name, project=name[:2], submit=submit * SECOND, runtime=service * SECOND,
            walltime=service * SECOND, demand=demands[name], spread="node",
        )
        for row, (name, (submit, service)) in enumerate(JOBS.items())
    ]  # fmt: skip
    return jobs, Platform.pool(3, 4)


def table(rows):
    """Starts and ends in seconds, the turn-around time of each project, and their mean."""
    starts, ends = [row.start // SECOND for row in rows], [row.end // SECOND for row in rows]
    turns = {}
    for row, end in zip(rows, ends, strict=True):
        submit = JOBS[row.name][0]
        turns[row.name[:2]] = max(turns.get(row.name[:2], 0), end - submit)
    return starts, ends, [*turns.values()], Fraction(sum(turns.values()), len(turns))


@every_runner
@every_repair
def test_2tsb(runner, repair):
    found = table(RUNNERS[runner](*case(repair), "2tsb"))
    assert found == ([0, 0, 6, 2, 7, 7], [2, 6, 7, 3, 11, 9], [6, 6, 9, 4], Fraction("6.25"))


@every_runner
@every_repair
def test_2tfb_sf_lowers_the_mean_turn_around_time_by_8_percent(runner, repair):
    found = table(RUNNERS[runner](*case(repair), "2tfb-sf:sf=0.2"))
    assert found == ([0, 0, 7, 2, 3, 8], [2, 6, 8, 3, 7, 10], [6, 7, 5, 5], Fraction("5.75"))
    assert found[3] / Fraction("6.25") == Fraction("0.92")


@every_runner
@pytest.mark.parametrize("policy", ["2tsb", "2tfb-sf:sf=0.2"])
def test_as_printed_nobody_has_to_move(runner, policy):
    found = table(RUNNERS[runner](*case({}), policy))
    assert found == ([0, 0, 6, 2, 3, 7], [2, 6, 7, 3, 7, 9], [6, 6, 5, 4], Fraction("5.25"))


@every_runner
@every_repair
def test_2tfb_without_slack_is_2tsb(runner, repair):
    assert table(RUNNERS[runner](*case(repair), "2tfb")) == table(RUNNERS[runner](*case(repair), "2tsb"))


def test_j2_1_may_start_until_7_2_and_slot_6_is_refused_to_j4_1(monkeypatch):
    latest, refused = {}, []
    check = Pass.check

    def noting(self, job, at, departures):
        allowed = check(self, job, at, departures)
        latest.update(self.latest)
        if not allowed:
            refused.append((job.name, at.start / SECOND))
        return allowed

    monkeypatch.setattr(Pass, "check", noting)
    world.run(*case(REPAIRS[0]), world.POLICIES["2tfb-sf:sf=0.2"])
    assert latest[2] == 7.2 * SECOND
    assert ("J4.1", 6) in refused
