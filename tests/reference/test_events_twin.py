"""Events and preemption in the slow world: scenarios by hand, and laws on random workloads."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.model.events import Events
from backfill.model.units import SECOND, seconds_text
from tests.compiled import runs_on, shares
from tests.shares import a_share, examples

from . import table, world
from .easy import several_reservations
from .machine import Machine, with_presence
from .orders import ranked
from .placement import held, place, whole
from .words import Decision, Event, Job, Node, Platform, Policy, View
from .workloads import (
    Case,
    as_model,
    as_table,
    cases_with_events,
    chained_cases,
    from_events,
    general_cases,
    pool_cases,
    rich_pool_cases,
)

POLICIES = world.POLICIES
PREEMPTIVE = [name for name in POLICIES if name.startswith("preemptive")]
Runner = Callable[[list[Job], Platform, str, list[Event], str, str], list[world.Row]]


def run_twin(jobs, platform, policy, events, lost, overrun):
    return world.run(jobs, platform, POLICIES[policy], overrun=overrun, events=events, lost=lost)


# `check` runs each table through all of these; another implementation is added here under its name.
RUNNERS: dict[str, Runner] = {"twin": run_twin}


def check(
    policy: str,
    text: str,
    events: str = "",
    nodes: int = 4,
    platform: Platform | None = None,
    lost: str = "requeue",
    overrun: str = "kill",
) -> None:
    """Every runner gives every job what the table expects. events: `time event name=value ...` in each line."""
    scenario, platform = table.read(text), platform or Platform.pool(nodes)
    workload, machine, _ = as_model(scenario.jobs, platform)
    lines = [line.split() for line in events.splitlines() if line.strip()]
    rows = [{"time": t, "event": kind, **dict(cell.split("=") for cell in cells)} for t, kind, *cells in lines]
    happens = from_events(Events.of(rows).bind(workload, machine), platform)
    for runner, run in RUNNERS.items():
        found = {
            row.name: {column: shown(row, column) for column in scenario.expected[row.name]}
            for row in run(scenario.jobs, platform, policy, happens, lost, overrun)
        }
        assert found == scenario.expected, f"{policy} by {runner}"


def shown(row: world.Row, column: str) -> str:
    if column == "runs":
        return ";".join(f"{seconds_text(r.start)}-{seconds_text(r.end)}:{r.how}" for r in row.runs) or "-"
    if column == "state":
        return row.state or "-"
    return table.shown(row, column)


TWO = Platform((Node((2,)), Node((2,))))
FARM = Platform((Node((4,)), Node((2,))), copies=(2,))

# Tables keep the form in which they are easy to read.
# fmt: off


def test_a_waiting_job_that_is_cancelled_leaves_and_a_running_one_ends_now():
    check("fcfs", nodes=4, events="""
        5 cancel job=a
        5 cancel job=c
        9 cancel job=d
        9 cancel job=a
    """, text="""
        # job  submit nodes walltime runtime | start end state     runs
          a      0     4      10       10    |   0    5  CANCELLED 0-5:CANCELLED
          b      1     4      10       10    |   5   15  COMPLETED 5-15:COMPLETED
          c      2     4      10       10    |   -    -  CANCELLED -
          d      9     4      10       10    |   -    -  CANCELLED -                  events come before submits
          e      9     4      10       12    |  15   25  TIMEOUT   15-25:TIMEOUT
          f      9     9      10       10    |   -    -  REJECTED  -
    """)


def test_a_job_after_a_cancelled_one_becomes_eligible():
    check("fcfs", nodes=4, events="""
        2 cancel job=a
        3 cancel job=b
    """, text="""
        # job  submit nodes walltime runtime after | start eligible
          a      0     4      10       10     -    |   0      0
          b      5     4      10       10     -    |   -      -
          c      1     4      10       10     a    |   2      2
          d      1     4      10       10     b    |  12      3
          e      4     4      10       10     b    |  22      4
    """)


def test_a_new_walltime_ends_a_running_job_at_its_new_limit_or_now():
    check("fcfs", nodes=4, events="""
        4 walltime job=a value=6
        4 walltime job=b value=3
        4 walltime job=c value=20
        4 walltime job=d value=9
    """, text="""
        # job  submit nodes walltime runtime | start end state
          a      0     1      10       10    |   0    6  TIMEOUT
          b      0     1      10       10    |   0    4  TIMEOUT    its limit has passed
          c      0     1      10       15    |   0   15  COMPLETED
          d      0     1      10        9    |   0    9  COMPLETED
    """)


def test_policies_see_the_new_walltime():
    check("easy", nodes=4, events="""
        1 walltime job=a value=20
        1 walltime job=c value=9
        1 walltime job=d value=3
    """, text="""
        # job  submit nodes walltime runtime | start end state
          a      0     3      10       20    |   0   20  COMPLETED
          b      0     4      10       10    |  20   30  COMPLETED
          c      0     1      30       30    |   1   10  TIMEOUT    it fits before b now
          d      2     1      30       30    |  10   13  TIMEOUT    not yet submitted
    """)


def test_a_new_priority_changes_the_order_of_those_who_wait():
    check("easy-priority", nodes=4, events="""
        5 priority job=c value=3
        5 priority job=d value=2
    """, text="""
        # job  submit nodes walltime runtime priority | start
          a      0     4      10       10       0     |   0
          b      1     4      10       10       1     |  30
          c      2     4      10       10       0     |  10
          d      9     4      10       10       0     |  20
    """)


def test_what_runs_on_a_node_that_goes_down_begins_anew_at_its_place():
    check("fcfs", platform=TWO, events="""
        4 down node=n1
        4 down node=n1
        9 up node=n1
    """, text="""
        # job  submit nodes walltime runtime | start end place runs                            eligible
          a      0     2      20       20    |   0   20   0*2  0-20:COMPLETED                      0
          b      0     2      10       10    |   9   19   1*2  0-4:NODE_FAIL;9-19:COMPLETED        0
          c      1     1       5        5    |  19   24   1*1  19-24:COMPLETED                     1
    """)


def test_or_it_is_over_and_those_who_come_after_it_are_eligible():
    check("fcfs", platform=TWO, lost="fail", events="""
        4 down node=n1
        9 up node=n[01]
    """, text="""
        # job  submit nodes walltime runtime after | start end state     eligible
          a      0     2      20       20     -    |   0   20  COMPLETED    0
          b      0     2      10       10     -    |   0    4  NODE_FAIL    0
          c      1     1       5        5     b    |   9   14  COMPLETED    4
    """)


def test_a_gang_is_lost_with_any_of_its_nodes():
    check("fcfs", platform=TWO, events="4 down node=n1", text="""
        # job  submit nodes walltime runtime | start end runs
          a      0     3      10       10    |   0   4   0-4:NODE_FAIL     the capacity never returns
          b      0     1      10       10    |   0   4   0-4:NODE_FAIL
    """)


def test_of_a_pool_that_shrinks_the_runs_that_started_last_are_lost_of_equals_the_later_job():
    check("fcfs", nodes=6, events="""
        5 capacity resource=cpus value=3
        20 capacity resource=cpus value=6
    """, text="""
        # job  submit nodes walltime runtime | start end runs
          a      0     1      30       30    |   0   30  0-30:COMPLETED
          b      1     1      30       30    |   1   31  1-31:COMPLETED
          c      1     1      30       30    |   1   31  1-31:COMPLETED
          d      1     2      30       30    |  20   50  1-5:NODE_FAIL;20-50:COMPLETED
          e      2     1       5        5    |  20   25  2-5:NODE_FAIL;20-25:COMPLETED
    """)


def test_copies_of_a_licence_can_be_lost_to_others():
    check("fcfs", platform=FARM, events="""
        5 capacity resource=licence0 value=1
        7 capacity resource=licence0 value=3
    """, text="""
        # job  submit licences walltime runtime | start end runs
          a      0      0         10      10    |   0   10  0-10:COMPLETED
          b      0      -         10      10    |   0   10  0-10:COMPLETED
          c      0      0         10      10    |   7   17  0-5:NODE_FAIL;7-17:COMPLETED
          d      6      0;0;0     10      10    |  17   27  17-27:COMPLETED      more than the platform has at first
          e      6      0;0;0;0   10      10    |   -    -  -
    """)


def test_nothing_starts_that_would_run_into_a_window():
    check("fcfs", nodes=4, events="0 window node=n0 value=10 until=15", text="""
        # job  submit nodes walltime runtime | start
          a      0     2      10       10    |   0     ends exactly at its begin
          b      1     1      10        1    |  15     could still run at its begin
          c      2     1       3        3    |  15     fcfs: b blocks
    """)


def test_a_window_of_some_of_a_resource_leaves_the_rest():
    check("first-fit", nodes=4, events="0 window resource=cpus amount=3 value=10 until=15", text="""
        # job  submit nodes walltime runtime | start end reason
          a      1     2      20       20    |  15   35   head
          b      1     1      20       20    |   1   21   fit
          c      1     1      20       20    |  15   35   head
          d      1     3       9        9    |   1   10   fit
    """)


def test_a_window_that_is_known_too_late_takes_its_room_from_those_who_run():
    check("fcfs", nodes=4, events="""
        5 window resource=cpus amount=2 value=8 until=12
        6 window resource=cpus amount=9 value=1 until=6
        7 window resource=cpus amount=1 value=3 until=9
    """, text="""
        # job  submit nodes walltime runtime | start end runs
          a      0     1      10       10    |   0   10  0-10:COMPLETED
          b      0     2      10       10    |  10   20  0-8:NODE_FAIL;10-20:COMPLETED     beside the window
          c      0     1       2        2    |   0    2  0-2:COMPLETED
    """)


def test_a_window_whose_begin_has_passed_begins_at_once():
    check("fcfs", nodes=4, events="5 window node=n0 value=2 until=9", text="""
        # job  submit nodes walltime runtime | start end runs
          a      0     4      10       10    |   9   19  0-5:NODE_FAIL;9-19:COMPLETED
    """)


def test_easy_reserves_for_its_head_after_the_window():
    check("easy", nodes=4, events="0 window node=n0 value=10 until=15", text="""
        # job  submit nodes walltime runtime | start reason   promise
          a      0     3       8        8    |   0   head        -
          b      1     4       5        5    |  15   head       15     8 + 5 is beyond 10
          c      2     1       8        8    |   2   backfill    -     ends with the window's begin
          d      2     1       9        9    |  20   head       20
          e      3     3       2        2    |   8   backfill    -
    """)


OUTAGE = """
    2 down node=n1
    20 up node=n1
"""


def test_a_head_for_which_there_is_no_capacity_holds_up_all_in_fcfs():
    check("fcfs", platform=TWO, events=OUTAGE, text="""
        # job  submit nodes walltime runtime | start reason
          a      0     4      10       10    |  20   head     lost at 2
          b      1     4      10       10    |  30   head
          c      3     2      30       30    |  40   head
          d      3     1      10       10    |  40   head
    """)


def test_and_nobody_in_easy():
    check("easy", platform=TWO, events=OUTAGE, text="""
        # job  submit nodes walltime runtime | start reason   promise
          a      0     4      10       10    |  33   head       33     lost at 2, and no promise until 20
          b      1     4      10       10    |  43   head       10     promised before the outage
          c      3     2      30       30    |   3   backfill    -     as if neither a nor b were there
          d      3     1      10       10    |  20   backfill   33     the head, of those that have a start
    """)


def test_conservative_keeps_the_promises_that_an_outage_leaves_standing():
    check("conservative", platform=TWO, events="""
        1 down node=n1
        11 up node=n1
    """, text="""
        # job  submit nodes walltime runtime | start promise reason     runs
          a      0     2      10       10    |   0     0     head       0-10:COMPLETED
          b      0     2      10       10    |  11     0     moved-up   0-1:NODE_FAIL;11-21:COMPLETED   from 15
          c      0     2       5        5    |  10    10     reserved   10-15:COMPLETED
          d      0     4       5        5    |  21    15     head       21-26:COMPLETED     no promise from 1 to 11
    """)


def test_conservative_promises_nothing_while_there_is_no_capacity():
    check("conservative", platform=TWO, events="""
        0 down node=n1
        5 up node=n1
    """, text="""
        # job  submit nodes walltime runtime | start promise reason
          a      0     2      10       10    |   0     0     head
          b      1     4      10       10    |  25    25     head       promised at 5, behind those that had promises
          c      2     1      20       20    |   5    10     moved-up   was promised n0 at 10
          d      3     2      10       10    |  10    30     reserved   n0 is left to it
    """)


def test_conservative_makes_room_for_a_window():
    check("conservative", nodes=4, events="""
        3 window resource=cpus amount=2 value=12 until=20
        4 walltime job=d value=2
    """, text="""
        # job  submit nodes walltime runtime | start promise reason
          a      0     4      10       10    |   0     0     head
          b      1     3      10       10    |  20    10     head       three are free from 20 on
          c      1     2       5        5    |  10    20     reserved   beside the window
          d      2     2       9        9    |  10    20     reserved   ends with the begin of the window, as of 4
    """)


def test_an_event_for_a_job_that_has_ended_changes_nothing():
    check("conservative", nodes=4, events="""
        6 cancel job=a
        7 walltime job=a value=1
    """, text="""
        # job  submit nodes walltime runtime | start state
          a      0     4      10        5    |   0   COMPLETED
          b      1     4      10       10    |   5   COMPLETED
    """)


HOLE = """
        # job  submit nodes walltime runtime | start end reason   runs
          a      0     2      10       10    |   0   10  head     0-10:COMPLETED
          b      1     3      10       10    |  10   20  head     10-20:COMPLETED
          c      2     1      30       30    |   2   32  backfill 2-32:COMPLETED        b leaves one free: it may stay
          d      3     1      30       30    | {d}
"""


def test_the_head_sends_a_backfilled_job_away_that_would_delay_it():
    check("preemptive", HOLE.format(d="20   50  head     3-10:PREEMPTED;20-50:COMPLETED"))


def test_a_checkpoint_keeps_the_progress_and_costs_its_overhead():
    check("preemptive:how=checkpoint,overhead=2", HOLE.format(d="20   45  resumed  3-10:PREEMPTED;20-45:COMPLETED"))
    check("preemptive:how=checkpoint", HOLE.format(d="20  103  resumed  3-10:PREEMPTED;20-103:COMPLETED"))


def test_a_suspended_job_goes_on_where_it_was():
    text = """
        # job  submit nodes walltime runtime | start reason  place   runs
          a      0     2      10       10    |   0   head     0*2       0-10:COMPLETED
          b      1     4      10       10    |  10   head     0*2;1*2   10-20:COMPLETED
          c      2     2      30       50    |  20   {c}
          d     11     1      40       40    |  20   head     {d}       20-60:COMPLETED
    """
    c, d = "resumed  1*2       2-10:PREEMPTED;20-42:TIMEOUT", "0*1"
    check("preemptive:how=suspend", text.format(c=c, d=d), platform=TWO)
    c, d = "head     0*2       2-10:PREEMPTED;20-50:TIMEOUT", "1*1"
    check("preemptive", text.format(c=c, d=d), platform=TWO)


def test_what_is_suspended_on_a_node_that_goes_down_is_lost():
    check("preemptive:how=suspend", platform=TWO, events="12 down node=n1", text="""
        # job  submit nodes walltime runtime | start reason   place  runs
          a      0     2      10       10    |   0   head     0*2    0-10:COMPLETED
          b      1     4      10       10    |  10   head     0*2;1*2 10-12:NODE_FAIL
          c      2     2      30       30    |  12   backfill 0*2    2-10:PREEMPTED;12-42:COMPLETED
    """)


def test_and_what_is_suspended_on_a_node_that_is_too_small_from_now_on():
    check("preemptive:how=suspend", platform=TWO, events="15 capacity node=n1 resource=cpus value=1", text="""
        # job  submit nodes walltime runtime | start state     place   runs
          a      0     2      10       10    |   0   COMPLETED 0*2     0-10:COMPLETED
          b      1     4      10       10    |  10   -         0*2;1*2 10-15:NODE_FAIL
          c      2     2      30       30    |  15   COMPLETED 0*2     2-10:PREEMPTED;15-45:COMPLETED
    """)


def test_as_few_as_possible_leave_and_the_oldest_of_them_come_back_first():
    check("preemptive", nodes=10, text="""
        # job  submit nodes walltime runtime | start end reason   runs
          a      0     3      10       10    |   0   10  head     0-10:COMPLETED
          b      1     9      10       10    |  10   20  head     10-20:COMPLETED
          c      2     1      30        4    |   2    6  backfill 2-6:COMPLETED                   uses what b leaves
          d      3     4      30       30    |  20   50  head     3-10:PREEMPTED;20-50:COMPLETED
          e      4     1      30       30    |   4   34  backfill 4-34:COMPLETED                  b has room for e or f
          f      5     1      30       30    |  20   50  head     5-10:PREEMPTED;20-50:COMPLETED
    """)


def test_nobody_leaves_where_all_would_not_be_enough():
    check("preemptive", nodes=4, text="""
        # job  submit nodes walltime runtime | start end reason   runs
          a      0     2      10       10    |   0   10  head     0-10:COMPLETED
          b      1     4      10       10    |  10   20  head     10-20:COMPLETED
          c      2     1      30        9    |  20   29  head     2-10:PREEMPTED;20-29:COMPLETED
          d      4     1      30        5    |   4    9  backfill 4-9:COMPLETED                   ends before b starts
    """)


def test_nobody_leaves_for_a_head_that_was_behind_it():
    check("preemptive", nodes=4, events="5 cancel job=b", text="""
        # job  submit nodes walltime runtime | start end runs
          a      0     2      10       10    |   0   10  0-10:COMPLETED
          b      1     4       5        5    |   -    -  -
          c      2     2      30       30    |   2   32  2-32:COMPLETED     could have been sent away for b alone
          d      6     4      10       10    |  32   42  32-42:COMPLETED
    """)


def test_nobody_starts_again_in_the_pass_that_sent_it_away():
    check("preemptive", platform=TWO, text="""
        # job  submit nodes walltime runtime constraint | start place runs
          a      0     1      10       10       n0      |   0   0*1   0-10:COMPLETED
          b      0     2       5        5       n1      |   0   1*2   0-5:COMPLETED
          c      1     2      10       10       n0      |  10   0*2   10-20:COMPLETED
          d      2     1      30       30       -       |  11   1*1   2-10:PREEMPTED;11-41:COMPLETED
          e     11     1      10       10       -       |  11   1*1   11-21:COMPLETED
    """)


# fmt: on


@pytest.mark.parametrize("name", ["bb", "bb:per_event=until_empty", "backfill-lowest", "ibb", "ibb:test=balance"])
def test_the_balance_counts_the_resources_that_were_asked_for_so_far(name):
    def job(row: int, submit: int, walltime: int, *demand: int) -> Job:
        length = walltime * SECOND
        return Job(row=row, name=str(row), submit=submit * SECOND, walltime=length, runtime=length, demand=demand)

    pool = Platform.pool(10, 10, 10)
    jobs = [job(0, 0, 9, 5, 5, 0), job(1, 1, 5, 6, 6, 0), job(2, 1, 5, 4, 0, 0), job(3, 1, 5, 4, 4, 0)]
    later = job(4, 10**6, 5, 0, 0, 1)
    seen: list[tuple[int, frozenset[int]]] = []

    def noting(view: View) -> Decision:
        seen.append((view.now, view.asked))
        return POLICIES[name](view)

    expected = world.run(jobs, pool, POLICIES[name])
    assert world.run([*jobs, later], pool, noting)[:4] == expected
    assert {asked for now, asked in seen if now < later.submit} == {frozenset([0, 1])}
    assert {asked for now, asked in seen if now >= later.submit} == {frozenset([0, 1, 2])}


SOME = ("fcfs", "easy", "easy-lxf", "k-reservations:k=2", "first-fit", "conservative", "bb:per_event=until_empty",
        "ibb", "bf-unmod", "flexible:w_user=10,w_wait=0,w_bypass=4", "best-fit:fit=tightest", *PREEMPTIVE)  # fmt: skip
IN_TURN = ("fcfs", "thread", "partition", "round", "gang")  # a job may wait behind one that can never start
some_twins = pytest.mark.parametrize("name", SOME)
any_case = st.one_of(pool_cases(12), general_cases(12), rich_pool_cases(12), chained_cases())
honest = st.one_of(pool_cases(12, honest=True), general_cases(12, honest=True))


@a_share(POLICIES)
@examples(15)
@given(given_case=cases_with_events(any_case), lost=st.sampled_from(["requeue", "fail"]), kill=st.booleans())
def test_with_events_never_more_is_held_than_there_is(name, given_case, lost, kill):
    case, events = given_case
    if not runs_on(name, case, events) or shares(name):  # which hold a processor more than once
        return
    overrun = "kill" if kill else "extend"
    rows = world.run(case.jobs, case.platform, watched(POLICIES[name]), overrun=overrun, events=events, lost=lost)
    case = Case(*with_presence(case.jobs, case.platform))
    assert_lawful(case, events, rows)
    assert lost == "requeue" or not any(
        row.state != r.how for row in rows for r in row.runs[:-1] if r.how == "NODE_FAIL"
    )
    left = there_is(case, events, max([event.until for event in events] + [event.time for event in events]))
    waiting = [case.jobs[n] for n, row in enumerate(rows) if row.state is None]
    short = [job.row for job in waiting if place(case.platform, job, left) is None or not {*job.after}.isdisjoint(
        other.row for other in waiting)]  # fmt: skip
    assert len(short) == len(waiting) or (name.startswith(IN_TURN) and short), "a job waits though there is room"


@some_twins
@examples(25)
@given(given_case=cases_with_events(general_cases(12, chains=False)), data=st.data())
def test_what_comes_later_decides_nothing(name, given_case, data):
    case, events = given_case
    t = data.draw(st.sampled_from(sorted({job.submit for job in case.jobs})))
    kept = [job.row for job in case.jobs if job.submit <= t]
    jobs = [replace(case.jobs[row], row=n) for n, row in enumerate(kept)]
    known = [
        replace(event, job=kept.index(event.job) if event.job >= 0 else -1)
        for event in events
        if (event.time <= t or event.kind == "capacity") and (event.job < 0 or event.job in kept)
    ]
    whole_log = world.run(case.jobs, case.platform, POLICIES[name], events=events)
    cut = world.run(jobs, case.platform, POLICIES[name], events=known)
    for row, want in zip(kept, cut, strict=True):
        assert started(whole_log[row], t) == started(want, t)


def started(row: world.Row, t: int) -> list:
    return [(r.start, r.nodes) for r in row.runs if r.start <= t]


@examples(50)
@given(cases_with_events(general_cases(12), kinds=("cancel", "walltime", "down", "up", "capacity")))
def test_easy_with_less_capacity_is_one_reservation_in_a_profile(given_case):
    case, events = given_case

    def one(view: View) -> Decision:
        return several_reservations(view, ranked(view.queue, "fcfs", view), None, 1)

    found = world.run(case.jobs, case.platform, one, events=events)
    expected = world.run(case.jobs, case.platform, POLICIES["easy"], events=events)
    assert [(row.runs, row.reason) for row in found] == [(row.runs, row.reason) for row in expected]


@examples(50)
@given(cases_with_events(any_case))
def test_events_survive_the_way_to_the_model_and_back(given_case):
    case, events = given_case
    workload, platform, _ = as_model(case.jobs, case.platform)
    bound = Events.of(as_table(events, case.jobs)).bind(workload, platform)
    again = from_events(bound, case.platform)
    assert [vars(event) for event in again] == [vars(event) for event in sorted(events, key=lambda event: event.time)]
    capacity, copies = bound.greatest(platform)
    greatest = world.World(case.jobs, case.platform, POLICIES["fcfs"], "kill", events, "requeue").greatest
    assert [*capacity.flatten().tolist(), *copies.tolist()] == greatest


@pytest.mark.parametrize("name", PREEMPTIVE)
@examples(50)
@given(case=pool_cases(honest=True))
def test_preempted_work_is_done_once_more_or_kept(name, case):
    how = name.partition("how=")[2].partition(",")[0] or "requeue"
    overhead = round(float(name.partition("overhead=")[2] or 60) * SECOND) if how == "checkpoint" else 0
    for job, row in zip(case.jobs, world.run(case.jobs, case.platform, POLICIES[name]), strict=True):
        if row.state == "REJECTED":
            continue
        lengths = [r.end - r.start for r in row.runs]
        done = lengths[-1] if how == "requeue" else sum(lengths)
        assert done == min(job.runtime, job.walltime) + overhead * (len(lengths) - 1)
        if len(lengths) == 1 and row.promise is not None:
            assert row.start <= row.promise
        else:
            assert row.reason in ("resumed", "head", "backfill")


def there_is(case: Case, events: list[Event], t: int) -> list[int]:
    """Return the capacity at an instant after all of its events, by the file alone."""
    machine = Machine(case.platform)
    happened = [event for event in sorted(events, key=lambda event: event.time) if event.time <= t]
    room = list(whole(case.platform))
    for event in happened:
        if event.kind == "capacity":
            for slot in machine.slots(event):
                room[slot] = event.value
    for event in happened:
        if event.kind == "window" and event.value <= t < event.until:
            for slot in machine.slots(event):
                room[slot] = max(0, room[slot] - event.amount)
    resources = len(case.platform.nodes[0].capacity)
    for node in range(len(case.platform.nodes)):
        about = [event for event in happened if node in event.nodes]
        switched = [event.kind for event in about if event.kind in ("down", "up")]
        closed = any(e.kind == "window" and e.whole_nodes and e.value <= t < e.until for e in about)
        if closed or switched[-1:] == ["down"]:
            room[node * resources : (node + 1) * resources] = [0] * resources
    return room


def assert_lawful(case: Case, events: list[Event], rows: list[world.Row]) -> None:
    """Of the runs alone: never more held than there is, one run of a job at a time, states that fit the runs."""
    runs = [(job, r) for job, row in zip(case.jobs, rows, strict=True) for r in row.runs]
    changes = {t for event in events for t in (event.time, event.value, event.until) if event.kind == "window"}
    changes |= {event.time for event in events}
    for t in {int(t) for t in changes} | {r.start for _, r in runs}:
        room = there_is(case, events, t)
        for job, r in runs:
            if r.start <= t < r.end:
                room = [a - b for a, b in zip(room, held(case.platform, job, r.nodes), strict=True)]
        assert min(room) >= 0
    for job, row in zip(case.jobs, rows, strict=True):
        assert all(one.end <= other.start for one, other in zip(row.runs, row.runs[1:], strict=False))
        assert all(r.how in ("NODE_FAIL", "PREEMPTED") for r in row.runs[:-1])
        if row.runs:
            last = row.runs[-1]
            assert (row.start, row.end, row.nodes) == (last.start, last.end, last.nodes)
            assert row.runs[0].start >= row.eligible >= job.submit
            assert all(rows[other].end is None or rows[other].end <= row.runs[0].start for other in job.after)
        assert row.state != "REJECTED" or not row.runs
        assert row.state not in ("COMPLETED", "TIMEOUT") or row.runs[-1].how == row.state
        assert all(r.end in changes for r in row.runs if r.how in ("NODE_FAIL", "CANCELLED"))


def watched(policy: Policy) -> Policy:
    """The policy, checked in each pass: who starts has its place for as long as it may run, by limits and windows."""

    def decide(view: View) -> Decision:
        decision = policy(view)
        left = {preempted.row for preempted in decision.preempted}
        holders = [(max(r.limit, view.now + 1), r.held) for r in view.running if r.job.row not in left]
        ours = [
            (view.now + max(start.job.estimate, 1), held(view.platform, start.job, start.placement))
            for start in decision.starts
        ]
        for until, mine in ours:
            for t, room in view.capacity:
                if t < until:
                    for slot in (slot for slot, amount in enumerate(mine) if amount):
                        assert sum(other[slot] for end, other in holders + ours if end > t) <= room[slot]
        return decision

    return decide
