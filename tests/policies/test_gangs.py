"""Gangs and local jobs on sites where windows are announced: who goes where, on a few processors by hand."""

import pytest

from backfill.model.units import SECOND
from tests import compiled
from tests.reference import world
from tests.reference.words import Event, Job, Node, Platform

every_approach = pytest.mark.parametrize("name", ["gang-site", "gang-span"])


def job(row, submit, length, **more):
    times = {"submit": submit * SECOND, "walltime": length * SECOND, "runtime": length * SECOND}
    return Job(row=row, name=f"j{row}", **times, **more)


def window(at, begin, until, *nodes):
    return Event(time=at * SECOND, kind="window", nodes=nodes, value=begin * SECOND, until=until * SECOND)


def starts(name, nodes, jobs, *events):
    """Start and node of each job; sites of the processors as digits."""
    platform = Platform(tuple(Node((1,), site=int(site)) for site in nodes))
    found = compiled.run(jobs, platform, name, events=events)
    assert found == world.run(jobs, platform, world.POLICIES[name], events=events)
    return [(row.start // SECOND, "".join(str(node) for node, _ in row.nodes), row.reason) for row in found]


@every_approach
def test_a_gang_holds_processors_on_which_it_may_start_now_rather_than_those_before_a_window(name):
    gang = job(0, 1, 10, tasks=2, spread="any")
    assert starts(name, "0001", [gang], window(0, 5, 500, 0)) == [(1, "12", "gang")]


@every_approach
def test_a_gang_goes_to_the_site_where_no_window_is_in_its_way(name):
    gang = job(0, 1, 10, tasks=2, spread="any")
    assert starts(name, "0011", [gang], window(0, 5, 500, 0)) == [(1, "23", "gang")]
    assert starts(name, "0011", [gang], window(0, 5, 500, 2)) == [(1, "01", "gang")]


def test_a_gang_is_spread_over_sites_rather_than_held_up_by_a_window():
    """Under gang-site only once the windows have begun, as no site has two processors then."""
    gang = job(0, 1, 10, tasks=2, spread="any")
    assert starts("gang-span", "0011", [gang], window(0, 5, 500, 0, 2)) == [(1, "13", "gang")]
    assert starts("gang-site", "0011", [gang], window(0, 5, 500, 0, 2)) == [(5, "13", "gang")]


@every_approach
def test_a_gang_waits_for_processors_that_no_window_parts(name):
    """The idle processor 0 is away when 1 becomes idle; 2 becomes idle later, and stays."""
    jobs = [job(0, 0, 8, site=0, constraint="n1"), job(1, 0, 9, site=0, constraint="n2"), job(2, 1, 5, tasks=2)]
    assert starts(name, "000", jobs, window(1, 10, 500, 0))[2] == (9, "12", "gang")


@every_approach
def test_a_window_announced_later_sends_a_waiting_gang_elsewhere(name):
    jobs = [job(0, 0, 8, site=0, constraint="n1"), job(1, 0, 9, site=0, constraint="n2"), job(2, 1, 5, tasks=2)]
    assert starts(name, "000", jobs)[2] == (8, "01", "gang")
    assert starts(name, "000", jobs, window(4, 10, 500, 0))[2] == (9, "12", "gang")


@every_approach
def test_a_local_job_starts_where_no_window_is_in_its_way(name):
    """One is drawn among the idle ones; nine of ten are away before the job could end."""
    assert starts(name, "0000000000", [job(0, 1, 10, site=0)], window(0, 5, 500, *range(9))) == [(1, "9", "head")]


@every_approach
def test_a_local_job_waits_at_a_busy_processor_rather_than_before_a_window(name):
    jobs = [job(0, 0, 8, site=0, constraint="n1"), job(1, 1, 10, site=0)]
    assert starts(name, "00", jobs, window(0, 9, 500, 0))[1] == (8, "1", "head")


@every_approach
def test_whom_a_window_stops_at_the_front_of_a_queue_goes_to_another_queue(name):
    """Job 3 waits behind job 0; when that is over, a window is in its way there."""
    first, second = {"site": 0, "constraint": "n0"}, {"site": 0, "constraint": "n1"}
    jobs = [job(0, 0, 4, **first), job(1, 0, 7, **second), job(2, 0, 1, **second), job(3, 1, 10, site=0)]
    assert starts(name, "00", jobs)[3] == (4, "0", "head")
    assert starts(name, "00", jobs, window(3, 12, 500, 0))[3] == (8, "1", "head")


@every_approach
def test_behind_a_job_that_a_window_stops_everywhere_those_that_end_before_it_go_on(name):
    jobs = [job(0, 0, 4, site=0), job(1, 1, 10, site=0), job(2, 2, 3, site=0), job(3, 5, 2, site=0)]
    assert starts(name, "0", jobs, window(0, 9, 20, 0)) == [
        (0, "0", "head"),
        (20, "0", "head"),
        (4, "0", "backfill"),
        (7, "0", "backfill"),
    ]
