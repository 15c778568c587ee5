"""Advance reservations of a live queue: who gets what, who may use it, and what outlives a daemon that is killed."""

import getpass
import json
import time

import pytest

from backfill.queue.book import Book
from backfill.queue.commands import hopeless, never
from backfill.queue.events import Entry, Opened, Reserve, Start, Submit, Unreserve
from backfill.queue.reserving import admit, cancelled, due, made, next_instant
from backfill.queue.schema import Refused
from backfill.worlds.workload import parsed
from tests.queue.world import CLUSTER, SECOND, World

ME = getpass.getuser()
T = 1_000 * SECOND


def book(*jobs, reservations=()):
    """A cluster of nodes a and b with 4 cpus, and c with 2, at 1,000 s. jobs: placement, walltime, more facts."""
    found = Book()
    found.apply([Entry(CLUSTER, T)])
    for number, (nodes, walltime, *more) in enumerate(jobs, 1):
        row = {"id": number, "token": str(number), "need": {"cpus": 2}, "walltime": walltime * SECOND, "user": "ana"}
        start = Start(number, 1, T, "head", [], [], [[node, 1] for node in nodes])
        found.apply([Entry(Submit(number, {**row, **dict(*more)}), T), Entry(start, T)])
    found.apply(Entry(each, T) for each in reservations)
    return found


def asked(**more):
    span = {"begin_ahead": 100 * SECOND, "span": 100 * SECOND}
    request = {"token": "x", "reservation": "r", "user": "ana", **span, **more}
    return {name: value for name, value in request.items() if value is not None}


def grant(book, **more):
    return made(asked(**more), book, T, parsed(CLUSTER.platform))


def places(event):
    return [[name, amounts.get("cpus"), whole] for name, amounts, whole in event.nodes]


def test_nodes_and_amounts_are_chosen_among_those_that_jobs_leave_by_then():
    there = book((["c"], 200), (["b"], 50), (["a"], 400))
    assert places(grant(there, count=1)) == [["b", 4, True]]
    assert places(grant(there, amount={"cpus": 6})) == [["a", 2, False], ["b", 4, False]]
    assert places(grant(there, nodes=["b"], amount={"cpus": 1})) == [["b", 1, False]]
    assert places(grant(there, nodes=["?"], amount={"cpus": 2}, begin_ahead=500 * SECOND)) == [
        ["a", 2, False], ["b", 2, False], ["c", 2, False]]  # fmt: skip
    assert places(grant(there, count=3, begin_ahead=500 * SECOND)) == [["a", 4, True], ["b", 4, True], ["c", 2, True]]
    assert (grant(there, count=1).begin, grant(there, count=1).until) == (T + 100 * SECOND, T + 200 * SECOND)
    assert grant(there, count=1, span=None, until_ahead=150 * SECOND).until == T + 150 * SECOND


def test_a_reservation_that_would_end_jobs_is_refused_unless_that_is_wanted():
    there = book((["c"], 200), (["b"], 50), (["a"], 400))
    with pytest.raises(Refused, match=r"^reservation r would end job 3 \(may run until .*; expected .* or --force$"):
        grant(there, nodes=["a", "b"])
    with pytest.raises(Refused, match=r"only 1 of 2 nodes are free by then .*; expected fewer, a later --from, or --f"):
        grant(there, count=2)
    with pytest.raises(Refused, match=r"only 6 of 8 cpus are free beside"):
        grant(there, amount={"cpus": 8})
    event = grant(there, nodes=["a", "b"], force=True)
    there.apply([Entry(event, T)])
    assert [*due(there, T + 99 * SECOND)] == []
    stop, opened = due(there, T + 100 * SECOND)
    assert (stop.kind, stop.job, stop.cause, opened) == ("stop", 3, "reservation-began", Opened("r"))
    there.apply([Entry(opened, T + 100 * SECOND)])
    assert [*due(there, T + 101 * SECOND)] == []
    assert next_instant(there, T) == T + 100 * SECOND


def test_of_several_jobs_beside_an_amount_the_last_ones_are_ended():
    there = book((["a"], 400), (["a"], 400, {"requeue": True}))
    event = grant(there, nodes=["a"], amount={"cpus": 2}, force=True)
    there.apply([Entry(event, T)])
    assert [(each.job, each.cause) for each in [*due(there, T + 100 * SECOND)][:-1]] == [(2, "requeue")]


def test_reservations_that_come_later_or_were_before_take_nothing_from_what_runs_now():
    there = book((["a"], 150, {"need": {"cpus": 3}}))
    for name, ahead, span in (("now", 0, 500), ("later", 200, 100)):
        there.apply([Entry(grant(there, reservation=name, nodes=["a"], amount={"cpus": 1}, begin_ahead=ahead * SECOND,
                                 span=span * SECOND), T)])  # fmt: skip
    assert [*due(there, T)] == [Opened("now")]
    there.apply([Entry(Opened("now"), T)])
    there.nodes.set("a", {"cpus": 0, "gpus": 0}, "drained")
    assert [*due(there, T + 100 * SECOND)] == []
    there.nodes.set("a", {"cpus": 4, "gpus": 1})
    with pytest.raises(Refused, match=r"^reservation r would end job 1 "):
        grant(there, nodes=["a"], amount={"cpus": 1})


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"nodes": ["z*"]}, "node 'z*' is unknown; expected a, b, c"),
        ({}, "reservation r: it has no resources; expected --nodes or --amount"),
        (
            {"count": 9},
            "reservation r: only 3 of 9 nodes are free by then beside jobs and other reservations; expected",
        ),
        ({"amount": {"matlab": 1}}, "reservation r: 'matlab' is not a resource of a node; expected cpus, gpus"),
        ({"amount": {"cpus": 11}}, "reservation r: only 10 of 11 cpus are free beside windows and other reservations"),
        ({"amount": {"cpus": 1}, "count": 1}, "reservation r: amounts are taken from named nodes, or from any nodes;"),
        ({"count": 1, "user": None}, "the reservation has no owner; expected --user, --group or --project"),
        ({"count": 1, "reservation": "a b"}, "'a b' is not the name of a reservation; expected"),
        ({"count": 1, "reservation": "none"}, "'none' is not the name of a reservation; expected"),
        ({"count": 1, "reservation": "a@b"}, "'a@b' is not the name of a reservation; expected"),
        ({"count": 1, "span": None}, "expected either --until or --for"),
        ({"count": 1, "until": 2 * T}, "expected either --until or --for"),
        ({"count": 1, "begin_ahead": None, "begin": T - 1}, "its begin has passed; expected a time to come, or"),
        ({"count": 1, "until_ahead": 2 * T}, "expected either --until or --for"),
        ({"count": 1, "span": None, "until_ahead": SECOND}, "it ends before it begins; expected a later --until"),
        ({"count": 1, "span": None, "until": T + SECOND}, "it ends before it begins; expected a later --until"),
    ],
)
def test_what_cannot_be_reserved_is_refused_in_one_line(more, told):
    with pytest.raises(Refused) as refused:
        grant(book(), **more)
    assert str(refused.value).startswith(told)


def test_names_are_used_once_and_a_reservation_keeps_others_off_its_nodes():
    there = book()
    there.apply([Entry(grant(there, nodes=["b"]), T)])
    with pytest.raises(Refused, match="there is a reservation r already; expected another name"):
        grant(there, count=1)
    with pytest.raises(Refused, match="node b is part of reservation r at that time"):
        grant(there, reservation="s", nodes=["*"])
    assert places(grant(there, reservation="s", count=2)) == [["a", 4, True], ["c", 2, True]]
    assert places(grant(there, reservation="s", count=3, begin_ahead=200 * SECOND))
    assert cancelled("r", False, there, T) == Unreserve("r", early=True)
    there.apply([Entry(Unreserve("r"), T)])
    with pytest.raises(Refused, match="there was a reservation r already; expected another name"):
        grant(there, count=1)
    assert cancelled("r", False, there, T) is None
    with pytest.raises(Refused, match="there is no reservation z; there are none"):
        cancelled("z", False, there, T)


def job(there, number=9, **more):
    row = {
        "id": number,
        "token": str(number),
        "need": {"cpus": 2},
        "walltime": 60 * SECOND,
        "user": "ana",
        "reservation": "r",
    }
    there.apply([Entry(Submit(number, {**row, **more}), T)])
    return there.jobs[number]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"reservation": "s"}, "reservation 's' is not there; expected r"),
        ({"user": "bob"}, "reservation r is for user ana, and the job is of user bob; expected another one, or none"),
        (
            {"walltime": 101 * SECOND},
            "reservation r has 1 min 40 s left, and the job may take 1 min 41 s",
        ),
        ({"tasks": 3}, "reservation r has room for 2 tasks of 2 cpus, and the job asks for 3"),
        ({"constraint": "a"}, "reservation r has room for 0 tasks of 2 cpus, and the job asks for 1"),
        ({"tasks": 2, "spread": "distinct"}, "reservation r has room for 1 task of 2 cpus, and the job asks for 2"),
    ],
)
def test_a_job_that_may_not_use_a_reservation_is_refused_in_one_line(more, told):
    there = book()
    there.apply([Entry(grant(there, nodes=["b"]), T)])
    admit(job(there), there, T, parsed(CLUSTER.platform))
    with pytest.raises(Refused) as refused:
        admit(job(there, 8, **more), there, T, parsed(CLUSTER.platform))
    assert str(refused.value).removesuffix(" with its grace") == told


def test_a_reservation_whose_nodes_have_left_takes_no_job():
    there = book()
    there.apply([Entry(Reserve("r", T, T + 100 * SECOND, [["z", {"cpus": 4}, True]], "ana"), T)])
    told = "the queue has no node of reservation r any more, which has z; expected another one, or none"
    with pytest.raises(Refused, match=told):
        admit(job(there), there, T, parsed(CLUSTER.platform))
    assert never(job(there, 8), there, parsed(CLUSTER.platform)) == told


def test_what_runs_in_a_reservation_ends_with_it_and_what_waits_for_it_leaves():
    there = book((["b"], 100, {"reservation": "r"}))
    there.apply([Entry(Reserve("r", T, T + 50 * SECOND, [["b", {"cpus": 4}, True]], "ana"), T)])
    job(there)
    with pytest.raises(Refused, match=r"^the end of reservation r would end job 1 \(may run until"):
        cancelled("r", False, there, T)
    assert cancelled("r", True, there, T) == Unreserve("r", early=True)
    told = [(each.kind, getattr(each, "job", 0)) for each in due(there, T + 50 * SECOND)]
    assert told == [("stop", 1), ("unreserve", 0)]
    waits = there.jobs[9]
    assert hopeless(waits, T, there) is None
    there.apply([Entry(Unreserve("r"), T)])
    assert {1, 9} <= there.review
    assert hopeless(waits, T, there).reason == "ReservationOver"


# ---------------------------------------------------------------------- with a daemon


def rows(live):
    return json.loads(live.run("reserve", "--json").stdout)["reservations"]


def test_jobs_run_in_their_reservation_and_leave_with_it(live):
    assert live.run("reserve").stdout == "no reservations; next: backfill reserve --help\n"
    told = live.run("submit", "-t", "1s", "--reservation", "lab", "--", "true").stderr
    assert told == "backfill: ignored options, which this queue does not have: --reservation\n"
    told = live.run("reserve", "lab", "--amount", "cpus:3", "--for", "6s", "--user", ME).stdout
    assert told.startswith("reservation lab: 3 cpus")
    assert "next: backfill submit --reservation lab -- COMMAND" in told
    inside = live.submit("-t", "2s", "-c", "3", "--reservation", "lab", "--", "true")
    beside = live.submit("-t", "60s", "-c", "1", "--", "true")
    later = live.submit("-t", "60s", "-c", "2", "--", "true")
    held = live.submit("-t", "2s", "--hold", "--reservation", "lab", "--", "true")
    assert live.run("wait", inside).returncode == live.run("wait", beside).returncode == 0
    assert live.job(later)["state"] == "PENDING"
    (line,) = [line for line in live.run("queue").stdout.splitlines() if line.startswith("reservation lab")]
    assert f"for user {ME}" in line
    assert live.job(held)["reservation"] == "lab"
    live.until(lambda: live.job(held)["state"] == "CANCELLED")
    assert live.job(held)["reason"] == "ReservationOver"
    assert rows(live) == []
    live.until(lambda: live.job(later)["state"] == "COMPLETED")
    told = live.run("submit", "-t", "1s", "--reservation", "lab", "--", "true", check=1).stderr
    assert told == "backfill: reservation 'lab' is over; there are none\n"


def test_a_killed_daemon_and_a_killed_planner_come_back_with_reservations(live):
    live.run("reserve", "lab", "--amount", "cpus:3", "--from", "now+4s", "--for", "60s", "--user", ME)
    inside = live.submit("-t", "30s", "-c", "3", "--reservation", "lab", "--", "sleep", "0.1")
    beside = live.submit("-t", "60s", "-c", "2", "--", "true")
    before = rows(live)
    live.until(lambda: live.job(inside)["reason"] == "Reservation")
    live.kill(live.daemon())
    assert rows(live) == before
    live.kill(*live.request("ping")["planner"]["pids"].values())
    live.until(lambda: live.job(inside)["state"] == "COMPLETED")
    assert live.job(inside)["start_s"] >= before[0]["begin_s"]
    assert live.job(beside)["state"] == "PENDING"
    live.kill(live.daemon())
    assert live.run("unreserve", "lab").stdout == "reservation lab is over\n"
    live.until(lambda: live.job(beside)["state"] == "COMPLETED")
    assert live.run("unreserve", "lab").stdout == "reservation lab is over\n"
    assert live.run("serve", "--stop").returncode == 0
    assert "all start at the same microsecond" in live.run("replay", str(live.folder), "--check").stdout


def test_a_reservation_that_ends_jobs_does_so_when_it_begins(live):
    job = live.submit("-t", "60s", "--", "sleep", "60")
    live.until(lambda: live.job(job)["state"] == "RUNNING")
    words = ("lab", "--nodes", "machine", "--from", "now+1s", "--for", "60s", "--project", "p")
    told = live.run("reserve", *words, check=1).stderr
    assert told.startswith(f"backfill: reservation lab would end job {job} (may run until ")
    assert told.count("\n") == 1
    begin = time.time()
    live.run("reserve", *words, "--force")
    live.until(lambda: live.job(job)["state"] == "CANCELLED")
    found = live.job(job)
    assert found["reason"] == "ReservationBegan"
    assert found["end_s"] >= begin + 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["lab"], "expected either --until or --for"),
        (["lab", "--for", "1h"], "the reservation has no owner; expected --user, --group or --project"),
        (
            ["lab", "--nodes", "0"],
            "--nodes: '0' is neither nodes nor a number of them; expected for instance n1,n2 or 2",
        ),
        (["lab", "--amount", "cpus"], "--amount: 'cpus' is not an amount; expected for instance cpus:4 or memory:8G"),
        (["lab", "--amount", "cpus:0"], "--amount: 'cpus:0' is no amount; expected for instance cpus:4"),
        (["lab", "--from", "soon"], "'soon' is not a time; expected for instance now+2h, 16:00 or 2030-01-31T08:00"),
        (["a", "b"], "expected the name of one reservation"),
    ],
)
def test_a_command_line_that_reserves_nothing_is_refused_in_one_line(live, words, told):
    found = live.run("reserve", *words, check=2).stderr
    assert found.startswith("backfill: ")
    assert told in found
    assert found.count("\n") == 1


def test_another_policy_takes_over_with_the_reservations(live):
    live.configure("slack")
    live.run("reserve", "lab", "--nodes", "machine", "--from", "now+1h", "--for", "1h", "--user", ME)
    live.run("serve", "--policy", "easy")
    assert "lab" in live.run("reserve").stdout
    assert "lab" in live.run("queue").stdout


def test_a_queue_that_plans_by_predictions_reserves_nothing_and_plans_by_walltimes_beside_older_ones(live):
    live.run("reserve", "older", "--amount", "cpus:1", "--from", "now+1h", "--until", "now+2h", "--user", ME)
    (older,) = rows(live)
    assert older["until_s"] - older["begin_s"] == pytest.approx(3600, abs=1)
    job = live.submit("-t", "60s", "--reservation", "older", "--", "true")
    assert live.run("edit", job, "--reservation", "none").stdout == f"changed job {job}\n"
    live.run("wait", job)
    assert "reservation=none" in live.run("show", job).stdout
    live.run("serve", "--stop")
    with (live.folder / "config.toml").open("a") as file:
        file.write('predict = "average2"\n')
    words = ("reserve", "lab", "--nodes", "machine", "--from", "now+1h", "--for", "1h", "--user", ME)
    told = live.run(*words, check=1).stderr
    assert "plans by predicted run times" in told
    assert told.count("\n") == 1
    later = "policy easy, by predictions of average2 once reservation older is over"
    assert later in live.run("queue").stdout
    assert later.removeprefix("policy ") in live.run("doctor", check=None).stdout
    live.run("unreserve", "older")
    live.until(lambda: "average2 once" not in live.run("queue").stdout)
    assert "policy easy, by predictions of average2" in live.run("queue").stdout


def test_promised_starts_move_only_where_a_reservation_takes_their_room_and_the_cause_is_kept(live):
    live.configure("conservative")
    live.submit("-t", "60s", "-c", "3", "--", "sleep", "60")
    promised = live.submit("-t", "60s", "-c", "3", "--", "true")
    start = live.until(lambda: live.job(promised)["guaranteed_s"])
    live.run("reserve", "beside", "--amount", "cpus:1", "--for", "1h", "--user", ME)
    assert live.until(lambda: live.job(promised)["guaranteed_s"]) == start
    live.run("reserve", "within", "--amount", "cpus:2", "--from", "now+70s", "--for", "1h", "--user", ME)
    later = live.until(lambda: [t for t in [live.job(promised)["guaranteed_s"]] if t and t > start])[0]
    (_, within) = rows(live)
    assert later == within["until_s"]
    live.run("unreserve", "within")
    assert live.until(lambda: [t for t in [live.job(promised)["guaranteed_s"]] if t and t < later])[0] >= start


def test_a_reservation_is_a_cause_for_which_a_promise_may_be_broken():
    there = book()
    there.apply([Entry(grant(there, count=1), T + SECOND)])
    assert there.trouble(T, T + 2 * SECOND) == "reservation-made"


@pytest.mark.parametrize("ahead", [-3600, 3600])
def test_reservations_move_with_the_calendar(ahead):
    world = World(1)
    world.let_answer()
    world.flush()
    world.engine.request({"do": "reserve", **asked(count=1, begin_ahead=7200 * SECOND)}, lambda answer: None)
    world.flush()
    (before,) = world.engine.book.epoch["reservations"]
    world.clock.ahead += ahead * SECOND
    world.engine.look_at_clock()
    world.flush()
    world.let_answer()
    world.flush()
    (after,) = world.engine.book.epoch["reservations"]
    assert abs(after["begin"] - before["begin"] + ahead * SECOND) < SECOND
    assert [event.kind for event, _, _ in world.store.events(kinds=("reserve", "unreserve"))] == ["reserve"]
