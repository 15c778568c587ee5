"""A planner with advance reservations decides as a simulation with the same events, and its answers name real nodes."""

import random

import numpy as np
import pytest

from backfill.answers.explain import explain
from backfill.answers.history import recorded
from backfill.answers.replay import Epoch, check, epochs
from backfill.answers.slots import slots
from backfill.answers.whatif import estimates
from backfill.api import simulate
from backfill.queue import events
from backfill.queue.events import Entry
from backfill.queue.feed import passes
from backfill.worlds.live import Planner
from backfill.worlds.workload import parsed
from tests.queue.logs import of_kind
from tests.queue.nodes import Nodes
from tests.queue.test_planner import SECOND, jobs_for_nodes
from tests.queue.virtual import BEGIN as BEGIN_S
from tests.queue.virtual import Virtual
from tests.shares import LONG

BEGIN = 1_000 * SECOND
POLICIES = ("easy", "conservative", "fcfs", "first-fit", "k-reservations", "relaxed")
WHOLE = [["n5", {"cpus": 4, "memory": 8}, True], ["n6", {"cpus": 4, "memory": 8}, True]]
PARTS = [["m1", {"cpus": 4, "memory": 8, "abaqus": 1}, False], ["m2", {"cpus": 2, "memory": 4}, False]]


def grant(name, begin, until, nodes, **owners):
    span = {"begin": BEGIN + begin * SECOND, "until": BEGIN + until * SECOND}
    return {"reservation": name, "user": "", "group": "", "project": "", **owners, **span, "nodes": nodes}


THREE = [
    grant("course", 200, 700, WHOLE, user="a"),
    grant("demo", 300, 900, PARTS, project="p"),
    grant("now", -50, 400, [["g1", {"cpus": 8, "memory": 32, "gpus": 2}, True]], user="b"),
]


def some_jobs(seed, count):
    """Jobs of which some ask for a reservation of their owner."""
    chance, jobs = random.Random(seed), jobs_for_nodes(seed, count)
    for *_, facts in jobs:
        own = [each for each in THREE if any(facts[name] and facts[name] == each[name] for name in ("user", "project"))]
        if own and chance.random() < 0.6:
            facts |= {"reservation": chance.choice(own)["reservation"], "partition": "", "constraint": "", "qos": ""}
            facts |= {"tasks": 1, "exclusive": False, "need": {"cpus": chance.choice([1, 2])}}
    return jobs


def lived(policy, seed, count=60, **more):
    queue = Nodes(policy, seed, some=some_jobs(seed, count), reservations=THREE, **{"shut": 0.0, **more})
    queue.drain(to_the_end=True)
    return queue


def epoch_of(queue):
    return Epoch(queue.epoch, queue.log, passes(queue.log)[0])


@pytest.mark.parametrize("policy", POLICIES)
def test_a_queue_with_reservations_starts_jobs_when_and_where_the_simulation_does(policy):
    inside = 0
    for seed in range(3):
        queue = lived(policy, seed)
        one = epoch_of(queue)
        starts = {event.job: event for event in of_kind(queue.log, "start")}
        ids = [event.job for event in of_kind(queue.log, "submit")]
        found = recorded([Entry(events.Epoch(one.facts)), *one.events], ids)
        platform = found.platform
        assert [*platform.nodes] == [*queue.planner.nodes]
        schedule = simulate(found.workload, platform, policy, overrun="extend", events=found.events).schedule
        for row, job in enumerate(schedule.job.tolist()):
            if int(job) not in starts:
                assert schedule.start[row] < 0, f"job {job} started in the simulation alone"
                continue
            start = starts[int(job)]
            assert schedule.start[row] == start.start, f"job {job}, seed {seed}"
            held = schedule.held[row].reshape(-1, 2).tolist()
            assert [[platform.nodes[node], tasks] for node, tasks in held] == [one[:2] for one in start.nodes]
        asked = {job: facts["reservation"] for job, *_, facts in some_jobs(seed, 60) if facts.get("reservation")}
        inside += sum(job in starts for job in asked)
    assert inside >= 10


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_a_log_with_reservations_and_nodes_that_come_and_go_is_lived_again(policy):
    queue = lived(policy, 4, shut=0.15)
    assert len(of_kind(queue.log, "node")) > 3
    found = check([epoch_of(queue)])
    assert (found.open_loop, found.closed_loop) == ([], [])
    assert found.closed_jobs > 30


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_a_planner_read_back_within_a_reservation_goes_on_as_the_one_that_lived(policy):
    queue = Nodes(policy, 1, some=some_jobs(1, 60), reservations=THREE, shut=0.0)
    while queue.now < BEGIN + 450 * SECOND:
        queue.now = queue.due() or BEGIN + 450 * SECOND
        queue.decide(queue.ends())
    other = queue.again()
    assert queue.waiting()
    messages = [message for job in [*queue.jobs.values()][:5] for message in (["gone", job.id, "CANCELLED"],)]
    at = queue.now + SECOND
    assert queue.planner.decide(at, messages) == other.decide(at, messages)


def test_a_reservation_is_closed_before_and_after_and_its_nodes_within():
    made = grant("r", 100, 200, [["machine", {"cpus": 3}, False]], user="a")
    basis = {"policy": "easy", "platform": "", "resources": {"cpus": 4}, "base": [], "now": BEGIN}
    planner = Planner("easy", {**basis, "reservations": [made]})

    def start(now, job, cpus, walltime, **more):
        facts = {"need": {"cpus": cpus}, "walltime": walltime * SECOND, "user": "a", **more}
        told = planner.decide(BEGIN + now * SECOND, [["submit", job, facts], ["wait", job]])
        return [[number, *more] for number, _, *more in told["starts"]], told["wake"]

    assert start(1, 1, 2, 99) == ([[1]], BEGIN + 100 * SECOND)  # a machine of one node: its log has no placements
    assert start(2, 2, 2, 99)[0] == []  # it would run into the reservation
    assert start(3, 3, 3, 100, reservation="r")[0] == []
    told = planner.decide(BEGIN + 100 * SECOND, [["gone", 1, "COMPLETED"]])
    assert [(number, why) for number, why in told["starts"]] == [(3, "backfill")]
    assert told["wake"] == BEGIN + 200 * SECOND
    told = planner.decide(BEGIN + 200 * SECOND, [["gone", 3, "COMPLETED"]])
    assert [number for number, _ in told["starts"]] == [2]
    assert told["wake"] is None


def test_answers_name_nodes_and_reservations_and_no_parts():
    queue = Nodes("easy", some=[], reservations=THREE)
    ask = {"walltime": 300 * SECOND, "grace": 0, "need": {"cpus": 1}}
    full = {**ask, "constraint": "n5", "user": "b", "need": {"cpus": 4}}
    for number, facts in enumerate(({**ask, "reservation": "course", "user": "a"}, full), 1):
        queue.step(number, 60 * SECOND, facts)
    asked = queue.queue()
    own = explain(asked, 1, "")
    assert own["reservations"][0] | {"begin_s": 0, "until_s": 0} == {
        "reservation": "course", "own": True, "begin_s": 0, "until_s": 0, "nodes": ["n5", "n6"]}  # fmt: skip
    assert own["nodes"]["bound"]["reservation"] == "course"
    assert (own["nodes"]["may_use"], own["nodes"]["of"]) == (2, 12)
    other = explain(asked, 2, "")
    assert [each["reservation"] for each in other["reservations"]] == ["now", "course", "demo"]
    assert other["lacks"] == []
    assert "@" not in str(other) + str(own)
    starts, rows = asked.by_walltimes(), asked.planner.rows
    assert [starts[rows[job]] for job in (1, 2)] == [THREE[0]["begin"], THREE[0]["until"]]
    assert all(one["why_not"] == "" for one in estimates(asked))
    told = slots(asked, {"cpus": 4}, 0)
    assert "@" not in str(told)
    assert (told["nodes"], told["shut"]["count"]) == (12, 0)
    hole = next(one for one in told["slots"] if one["reservation"] == "course")
    assert hole["for_s"] == (THREE[0]["begin"] - asked.next_pass) // SECOND


def test_what_is_reserved_is_lived_again_under_another_policy_and_written_down_with_the_workload():
    queue = lived("easy", 2)
    found = recorded(
        [Entry(events.Epoch(queue.epoch)), *queue.log], [event.job for event in of_kind(queue.log, "submit")]
    )
    cells = found.events.cells
    rows = [row for row, kind in enumerate(cells["event"]) if kind == "reserve"]
    assert len(rows) == 2 + 2 * len(found.platform.resources) + 1
    assert {cells["reservation"][row] for row in rows} == {"course", "demo", "now"}
    assert {*np.unique(found.workload.jobs.reservation.codes)} == {-1, 0, 1, 2}


# ---------------------------------------------------------------------- with the engine

FOUR = '[[node]]\nname = "n"\ncount = 4\ncpus = 4\n'


def asked(queue, **message):
    """The answer to a request, which may be an error."""
    told = []
    queue.engine.request(message, told.append)
    queue.flush()
    return told[0]


def reserve(queue, chance, number):
    """Somebody makes a reservation, without force; or one is cancelled."""
    there = sorted(queue.engine.book.reservations)
    if there and chance.random() < 0.2:
        return asked(queue, do="unreserve", reservation=chance.choice(there))
    some = [{"amount": {"cpus": chance.randint(1, 5)}}]
    if queue.engine.book.platform:
        some += [{"count": chance.choice([1, 2])}, {"nodes": ["n3"]}, {"nodes": ["n1", "n2"], "amount": {"cpus": 2}}]
    span = {"begin_ahead": chance.choice([0, 30, 200]) * SECOND, "span": chance.choice([100, 300]) * SECOND}
    return asked(
        queue, do="reserve", token=f"r{number}", reservation=f"r{number}", user="ana", **span, **chance.choice(some)
    )


def lived_with_an_engine(folder, policy, seed, platform):
    chance = random.Random(f"{policy} {seed}")
    queue, made, t = Virtual(folder, policy, platform=parsed(FOUR) if platform else None, cpus=8), 0, 0
    for number in range(60):
        t += chance.choice([0, 1, 10, 40])
        queue.until(t)
        if chance.random() < 0.25:
            made += "error" not in reserve(queue, chance, number)
        if chance.random() < 0.05:
            queue.restart(kill=chance.random() < 0.5)
        there = sorted(queue.engine.book.reservations)
        walltime = chance.choice([10, 60, 90])
        job = {"need": {"cpus": chance.choice([1, 2, 4])}, "walltime": walltime * SECOND, "name": "job"}
        job |= {"reservation": chance.choice(there)} if there and chance.random() < 0.5 else {}
        told = asked(queue, do="submit", token=str(number), user="ana", job=job, spec={"argv": ["true"]})
        if "error" not in told:
            queue.runtime[told["id"]] = chance.choice([1, walltime, walltime // 2]) * SECOND
    queue.drain()
    return queue, made


@pytest.mark.parametrize("platform", [False, True])
@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_reservations_that_are_not_forced_end_nobody_and_are_kept_from_others(tmp_path, policy, platform):
    total = inside = 0
    for seed in range(3 if LONG else 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        queue, made = lived_with_an_engine(folder, policy, seed, platform)
        total += made
        log = [*queue.store.events()]
        ends, spans = {e.event.job: e for e in log if e.event.kind == "end"}, {}
        assert not {e.event.reason for e in ends.values()} & {"ReservationBegan"}
        for event, t, _ in log:
            if event.kind == "reserve":
                spans[event.reservation] = [event, event.until]
            elif event.kind == "unreserve":
                spans[event.reservation][1] = min(t, spans[event.reservation][1])
        runs = []
        for event, _, _ in log:
            if event.kind == "start":
                job = queue.job(event.job)
                places = event.nodes or [["machine", 1]]
                runs += [
                    (event.start, ends[job.id].t, job, name, tasks * job.need["cpus"]) for name, tasks, *_ in places
                ]
        for begin, end, job, name, _ in runs:
            if job.reservation:
                inside += 1
                made_, until = spans[job.reservation]
                assert made_.begin <= begin <= end <= until
                assert name in [one[0] for one in made_.nodes]
        for t in {*(begin for begin, *_ in runs), *(made_.begin for made_, _ in spans.values())}:
            for name in queue.engine.book.nodes.names:
                there = queue.engine.book.nodes.stated[name]["cpus"]
                beside = sum(cpus for b, e, job, at, cpus in runs if at == name and b <= t < e and not job.reservation)
                kept = sum(amounts.get("cpus", 0) for made_, until in spans.values() if made_.begin <= t < until
                           for at, amounts, _ in made_.nodes if at == name)  # fmt: skip
                assert beside + kept <= there, f"seed {seed}: {beside} cpus beside {kept} reserved on {name} at {t}"
        assert "bug" not in {job.attempt.slip for job in queue.store.jobs() if job.attempt}
        queue.store.close()
        found = check(epochs(folder))
        assert (found.open_loop, found.closed_loop) == ([], [])
    assert total > 10
    assert inside > 10


def clusters(folder, predict=""):
    return Virtual(folder, "easy", platform=parsed(FOUR), predict=predict)


def course(queue, name="course", user="ana", **more):
    more = {"nodes": ["n4"], "begin_ahead": 10 * SECOND, "span": 1_000 * SECOND, **more}
    return asked(queue, do="reserve", token=name, reservation=name, user=user, **more)


def began(queue, job):
    """The second at which a job started; passes of one instant are microseconds apart."""
    return (queue.job(job).start - BEGIN_S) // SECOND


def edit(queue, job, **to):
    return asked(queue, do="edit", ids=[job], to=to).get("error", {}).get("message")


def test_a_job_is_moved_into_a_reservation_into_another_one_and_out_of_it(tmp_path):
    queue = clusters(tmp_path)
    early = queue.submit(cpus=1, held=True)
    assert edit(queue, early, reservation="course") == "the queue has no reservation; expected no --reservation"
    course(queue)
    course(queue, "lab", nodes=["n3"])
    course(queue, "theirs", user="bob", nodes=["n2"], amount={"cpus": 1})
    job = queue.submit(cpus=4, reservation="lab")
    plain = queue.submit(cpus=4, reservation="lab")
    queue.until(1)
    assert queue.job(job).state == queue.job(plain).state == "PENDING"
    assert edit(queue, job, reservation="theirs").startswith("reservation theirs is for user bob")
    assert edit(queue, job, reservation="nothing").startswith("reservation 'nothing' is not there; expected course, ")
    assert edit(queue, job, walltime=1_001 * SECOND).startswith("reservation lab has 16 min 40 s left")
    assert edit(queue, job, need={"cpus": 5}) is not None
    assert edit(queue, job, reservation="course") is None
    assert edit(queue, early, reservation="course") is None
    assert edit(queue, plain, reservation="") is None
    queue.until(20)
    assert queue.job(job).attempt.nodes == [["n4", 1]]
    assert began(queue, job) == 10
    assert began(queue, plain) == 1
    queue.request(do="release", ids=[early])
    queue.drain()
    assert began(queue, early) == 110  # behind the other job on n4
    queue.store.close()
    found = check(epochs(tmp_path))
    assert (found.open_loop, found.closed_loop) == ([], [])


def test_a_log_with_an_edited_reservation_is_simulated_with_it(tmp_path):
    queue = clusters(tmp_path)
    queue.submit(cpus=4, walltime=50, tasks=4)
    job = queue.submit(cpus=4, walltime=60)
    queue.until(5)
    course(queue, begin_ahead=100 * SECOND)
    assert edit(queue, job, reservation="course") is None
    queue.drain()
    assert began(queue, job) == 105
    log = [*queue.store.events()]
    found = recorded(log, [event.event.job for event in log if event.event.kind == "submit"])
    result = simulate(found.workload, found.platform, "easy", overrun="extend", events=found.events)
    assert result.schedule.start.tolist() == found.started.tolist()


def test_jobs_of_a_reservation_whose_nodes_leave_are_held_until_these_come_back(tmp_path):
    queue = clusters(tmp_path)
    course(queue)
    job = queue.submit(cpus=2, reservation="course")
    queue.move_to(parsed(FOUR.replace("count = 4", "count = 3")))
    assert (queue.job(job).state, queue.job(job).held) == ("PENDING", "BadConstraints")
    told = "the queue has no node of reservation course any more, which has n4; expected another one, or none"
    assert queue.engine.never(queue.job(job)) == told
    more = {"need": {"cpus": 1}, "walltime": SECOND, "name": "more", "reservation": "course"}
    refused = asked(queue, do="submit", token="more", user="ana", job=more, spec={"argv": ["true"]})
    assert refused["error"] == {"code": "impossible", "message": told, "field": "reservation"}
    plain = queue.submit(cpus=2)
    queue.request(do="release", ids=[job])
    queue.until(20)
    assert began(queue, plain) == 0
    assert queue.job(job).held == "BadConstraints"
    queue.move_to(parsed(FOUR))
    queue.drain()
    assert began(queue, job) == 20


def test_predictions_count_once_the_last_reservation_is_over(tmp_path):
    """Reservations are refused while the policy plans by predictions, so there are older ones alone."""
    queue = clusters(tmp_path)
    course(queue, span=50 * SECOND)
    queue.predict = "average2"
    queue.restart()
    assert queue.planner.foresight is None
    queue.until(59)
    assert queue.planner.foresight is None
    queue.until(60)
    assert queue.planner.foresight is not None
    assert "reservations" not in queue.engine.book.epoch


# ---------------------------------------------------------------------- nodes that shrink


@pytest.mark.parametrize(("shrunk", "kept"), [(4, (3, 1, 3)), (3, (2, 0, 3)), (1, (0, 0, 1))])
def test_a_node_that_shrinks_leaves_each_reservation_what_others_do_not_have_at_the_worst_of_its_instants(shrunk, kept):
    """Two of them meet, the third one comes later and has the node for itself."""
    spans = {"first": (100, 200, 3), "second": (150, 250, 1), "third": (300, 400, 3)}
    grants = [grant(name, begin, until, [["machine", {"cpus": cpus}, False]], user="a")
              for name, (begin, until, cpus) in spans.items()]  # fmt: skip
    basis = {"policy": "easy", "platform": "", "resources": {"cpus": 4}, "base": [], "now": BEGIN}
    planner = Planner("easy", {**basis, "reservations": grants})
    planner.decide(BEGIN, [])
    planner.decide(BEGIN + SECOND, [["capacity", {"cpus": shrunk}]])
    assert planner.state.machine.base[1:, 0].tolist() == [*kept]
