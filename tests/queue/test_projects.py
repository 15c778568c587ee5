"""Projects on a virtual clock: queued as a whole or not at all, their promised departures, and why these slip."""

import json
import random
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from backfill.analysis.departures import Departures
from backfill.answers.estimates import KINDS, kept
from backfill.daemon.projects import project_row
from backfill.model.units import SECOND as MICROS
from backfill.model.workload import Labels
from backfill.policies import get
from backfill.pools.base import Foreign, Verdict
from backfill.queue import commands
from backfill.queue.deep import judge
from backfill.queue.events import Submit
from backfill.queue.job import Job
from backfill.queue.nodes import MACHINE
from backfill.queue.states import COMPLETED
from backfill.queue.store import APPLICATION, SCHEMA, Store
from backfill.worlds.simulated import simulate
from tests.analysis.by_hand import farm, workload
from tests.queue.test_eta import ask
from tests.queue.test_upgrade import three_nodes
from tests.queue.virtual import BEGIN, SECOND, Virtual
from tests.shares import seeds


def request(queue, name, *jobs):
    """A request to submit jobs (cpus, walltime, places of those that they come after)."""
    some = [
        {"job": {"need": {"cpus": cpus}, "walltime": walltime * SECOND, "name": f"j{place}"}, "spec": {},
         "after": [["afterok", on] for on in after]}
        for place, (cpus, walltime, *after) in enumerate(jobs)
    ]  # fmt: skip
    for one in some:
        one["spec"] = {"argv": ["true"]}
    token = f"{name}-{queue.engine.book.last_job}"
    return {"do": "submit_project", "token": token, "user": "ana", "project": name, "jobs": some}


def submit(queue, name, *jobs, runtime=None):
    """Submit a project; its jobs run for their walltimes, or for `runtime`. Returns their numbers."""
    told = queue.request(**request(queue, name, *jobs))
    numbers = [*range(told["id"], told["id"] + told["count"])]
    for number, (_, walltime, *_) in zip(numbers, jobs, strict=True):
        queue.runtime[number] = (walltime if runtime is None else runtime) * SECOND
    return numbers


def refusal(queue, message):
    found = []
    queue.engine.request(message, found.append)
    queue.flush()
    return found[0]["error"]


def promises(queue, name):
    """Return what a project was promised: the departure in seconds, the jobs that do not count, and why."""
    found = queue.store.project(name).promises
    return [(None if one.until is None else (one.until - BEGIN) / SECOND, one.left, one.cause) for one in found]


def departed(queue, name):
    project = queue.store.project(name)
    return (project.end - BEGIN) / SECOND, project.slip


def sound(queue):
    assert judge(queue.store.events()) == []
    assert queue.store.differences() == []


def test_a_project_is_promised_the_last_end_of_its_jobs(tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    submit(queue, "p", (2, 100), (2, 50), (4, 30))
    submit(queue, "q", (2, 40), (1, 10))
    assert promises(queue, "p") == [(130, 0, "given")]
    assert promises(queue, "q") == [(100, 0, "given")]
    queue.drain()
    assert departed(queue, "p") == (130, "")
    assert departed(queue, "q") == (100, "")
    assert not queue.engine.book.projects
    sound(queue)


def test_jobs_that_come_after_others_are_promised_theirs_once_these_have_ended(tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    a, b, c = submit(queue, "p", (4, 100), (1, 50, 0), (1, 60, 0, 1), runtime=40)
    assert promises(queue, "p") == [(100, 2, "given")]
    assert [one[0] for one in queue.job(c).after] == ["afterok", "afterok"]
    queue.until(39)
    assert (queue.job(b).state, queue.job(c).state) == ("PENDING", "PENDING")
    queue.drain()
    assert promises(queue, "p") == [(100, 2, "given"), (90, 1, "more-jobs"), (140, 0, "more-jobs")]
    assert queue.job(b).start == queue.job(a).end
    assert queue.job(c).start == queue.job(b).end
    assert departed(queue, "p") == (120, "")  # before 140, the first promise that counts all jobs
    sound(queue)


@seeds(6, here=2)
@pytest.mark.parametrize("policy", ["2tsb", "2tfb-sf", "2tpb"])
def test_a_queue_promises_the_departures_that_a_simulation_promises(policy, seed, tmp_path):
    chance, queue = random.Random(seed), Virtual(tmp_path, policy)
    jobs, names = [], []
    for number in range(12):
        name = f"p{number}"
        some = [(chance.randint(1, 4), chance.randint(20, 200)) for _ in range(chance.randint(1, 5))]
        jobs += [(queue.t, name, *job) for job in some]
        names.append(name)
        submit(queue, name, *some)
        queue.until((queue.t - BEGIN) / SECOND + chance.randint(1, 40))
    queue.drain()
    submits, of, cpus, runtimes = zip(*jobs, strict=True)
    log = workload([(t - BEGIN) / SECOND for t in submits], runtimes, cpus=cpus)
    log = log.with_jobs(log.jobs.replace(project=Labels.of(of)))
    done = simulate(log, farm(4), get(policy))
    made = Departures.of(done.promises, log.jobs.project.codes)
    for row, code in enumerate(made.project[made.first[:-1]].tolist()):
        expected = [change.until / MICROS for change in made.changes(row)]
        found = [until for until, *_ in promises(queue, log.jobs.project.names[code])]
        assert found == expected
    ends = {
        name: max(end for end, of in zip(done.schedule.end.tolist(), of, strict=True) if of == name) for name in names
    }
    assert {name: departed(queue, name)[0] for name in names} == {name: end / MICROS for name, end in ends.items()}
    sound(queue)


@pytest.mark.parametrize("how", ["stopped", "killed", "another program"])
@pytest.mark.parametrize("platform", [None, three_nodes()], ids=["machine", "nodes"])
def test_a_promise_outlives_daemon_and_planner(how, platform, tmp_path):
    queue = Virtual(tmp_path, "2tsb", platform=platform)
    submit(queue, "p", (4, 100), (4, 100), (3, 30))
    submit(queue, "q", (4, 50), (2, 20), (4, 200, 0))
    before = {name: promises(queue, name) for name in "pq"}
    queue.until(20)
    queue.restart("another" if how == "another program" else "test", kill=how == "killed")
    queue.until(30)
    assert {name: promises(queue, name) for name in "pq"} == before
    assert {*queue.engine.book.projects} == {"p", "q"}
    queue.drain()
    assert [departed(queue, name)[1] for name in "pq"] == ["", ""]
    sound(queue)


def test_less_on_a_node_is_why_a_departure_slips(tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    submit(queue, "p", (2, 100), (2, 100), (2, 50))
    queue.until(10)
    queue.engine.set_capacity(MACHINE, {**queue.resources, "cpus": 2})
    queue.flush()
    queue.until(120)
    assert promises(queue, "p")[0] == (150, 0, "given")
    queue.engine.set_capacity(MACHINE, {**queue.resources, "cpus": 1})
    queue.until(140)
    queue.engine.set_capacity(MACHINE, queue.resources)
    queue.flush()
    queue.drain()
    assert [cause for *_, cause in promises(queue, "p")[1:]] in ([], ["capacity-lowered"])


def test_a_late_departure_says_why(tmp_path):
    """Cpus go before the last job starts: it is promised nothing for a while, and departs late."""
    queue = Virtual(tmp_path, "2tsb")
    submit(queue, "p", (4, 100), (4, 50))
    queue.until(60)
    queue.engine.set_capacity(MACHINE, {**queue.resources, "cpus": 2})
    queue.until(300)
    queue.engine.set_capacity(MACHINE, queue.resources)
    queue.flush()
    queue.drain()
    found = promises(queue, "p")
    assert found[0] == (150, 0, "given")
    assert found[-1][0] == 350
    assert {cause for *_, cause in found[1:]} == {"capacity-lowered"}
    assert departed(queue, "p") == (350, "capacity-lowered")
    sound(queue)


def test_a_job_that_runs_beyond_its_limit_is_why(tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    first = queue.submit(4, 100, 160)
    submit(queue, "p", (4, 50))
    assert promises(queue, "p") == [(150, 0, "given")]
    queue.drain()
    assert queue.job(first).state == COMPLETED
    assert departed(queue, "p") == (210, "overrun-kill-late")
    assert {cause for *_, cause in promises(queue, "p")[1:]} <= {"overrun", "overrun-kill-late"}


def test_a_departure_by_less_than_a_second_later_is_not_late(tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    submit(queue, "p", (4, 100), runtime=100.5)
    queue.drain()
    found = project_row(queue.engine, queue.store, "p", queue.engine.clock.now())
    assert queue.store.project("p").end > queue.store.project("p").promise.until
    assert (found["slip_s"], found["slip"]) == (0.0, "")
    sound(queue)


def test_somebody_else_who_starts_a_job_is_why(tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    submit(queue, "p", (4, 100), (4, 50))
    queue.until(90)
    facts = {"name": "other", "user": "root", "need": {"cpus": 4}, "walltime": 200 * SECOND}
    run = Foreign(0, [[MACHINE, 1]], queue.t, facts, {"argv": ["true"]})
    queue.engine._foreign.append(run)
    queue.runtime[3] = 100 * SECOND
    queue.drain()
    end, slip = departed(queue, "p")
    assert end == 340
    assert slip == "foreign-start"


def test_other_jobs_for_which_a_project_makes_way_are_named(tmp_path):
    queue = Virtual(tmp_path, "2tfb-sf:sf=5")
    queue.submit(2, 100)
    submit(queue, "p", (4, 100))
    submit(queue, "q", (2, 50), (2, 60))
    queue.drain()
    (until, *_), (moved, _, cause) = promises(queue, "p")[:2]
    assert (until, cause) == (200, "made-way")
    assert moved > until
    by = queue.store.project("p").promises[1].ahead
    assert queue.job(by).project == "q"
    assert departed(queue, "p")[1] == "made-way"


def test_more_jobs_of_a_project_are_why(tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    submit(queue, "p", (4, 100))
    queue.until(10)
    queue.submit(2, 80, project="p")
    assert promises(queue, "p") == [(100, 0, "given"), (180, 0, "more-jobs")]
    queue.drain()
    assert departed(queue, "p") == (180, "more-jobs")


def test_a_policy_without_promises_takes_them_back_and_another_gives_new_ones(tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    submit(queue, "p", (4, 100), (4, 50))
    queue.until(10)
    queue.engine.take_over("easy", "test")
    queue.flush()
    queue.until(20)
    queue.submit(4, 30)
    queue.engine.take_over("2tsb", "test")
    queue.until(30)
    found = promises(queue, "p")
    assert found[:2] == [(150, 0, "given"), (None, 2, "policy-switched")]
    assert found[2][0] == 150
    queue.drain()
    assert departed(queue, "p") == (150, "")


def test_a_job_that_is_held_for_a_while_is_why(tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    _, last = submit(queue, "p", (4, 100), (4, 50))
    queue.request(do="hold", ids=[last])
    queue.until(200)
    queue.request(do="release", ids=[last])
    queue.drain()
    assert promises(queue, "p") == [(150, 0, "given"), (100, 1, "held"), (None, 1, "held"), (250, 0, "released")]
    assert departed(queue, "p") == (250, "released")


def test_a_job_that_runs_again_is_why(tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    (number,) = submit(queue, "p", (4, 100))
    queue.until(60)
    queue.request(do="requeue", ids=[number])
    queue.engine.settled(number, 1, Verdict("ended", {"status": 15, "cause": "requeue"}))
    queue.runtime[number] = 100 * SECOND
    queue.flush()
    queue.drain()
    assert departed(queue, "p") == (160, "run-again")


def test_cancelled_jobs_end_a_project(tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    submit(queue, "p", (4, 100), (4, 50), (1, 10, 1))
    other = queue.submit(1, 10)
    told = queue.request(do="cancel", ids=[{"project": "p"}])
    assert sorted(told["ids"]) == [1, 2, 3]
    queue.drain()
    assert departed(queue, "p")[1] == ""
    assert queue.job(other).state == COMPLETED
    assert "no job of project 'p' is open" in refusal(queue, {"do": "cancel", "ids": [{"project": "p"}]})["message"]
    sound(queue)


@pytest.mark.parametrize(
    ("jobs", "told", "field"),
    [
        ([(1, 10), (9, 10)], "job j1: the job asks for 9 cpus; the machine has 4", "jobs.1.cpus"),
        ([(1, 10, 1), (1, 10, 2), (1, 10, 0)], "jobs come after each other: j0 before", "jobs."),
        ([(1, 10), (1, 10, 1)], "jobs come after each other: j1 before j1", "jobs.1.after"),
        ([(1, 10), (1, 10, 7)], "after: expected indices below 2", "jobs.1.after"),
        ([(0, 10)], "job j0: cpus is 0; expected 1 or more", "jobs.0.cpus"),
    ],
)
def test_a_project_with_a_mistake_is_refused_as_a_whole(jobs, told, field, tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    before = queue.store.seq
    error = refusal(queue, request(queue, "p", *jobs))
    assert error["message"].startswith(told)
    assert error["field"].startswith(field)
    assert (queue.store.seq, queue.engine.book.jobs, queue.engine.book.projects) == (before, {}, {})
    submit(queue, "p", (1, 10))


def test_a_name_is_used_once_and_a_token_too(tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    asked = request(queue, "p", (1, 10), (1, 20))
    first = queue.request(**asked)
    queue.runtime |= {1: SECOND, 2: SECOND}
    assert queue.request(**asked)["id"] == first["id"]
    assert len(queue.engine.book.jobs) == 2
    assert "there is a project p already" in refusal(queue, request(queue, "p", (1, 10)))["message"]
    queue.drain()
    queue.restart()
    assert "there is a project p already" in refusal(queue, request(queue, "p", (1, 10)))["message"]
    assert queue.request(**asked)["id"] == first["id"]


def test_a_project_comes_in_one_transaction(tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    submit(queue, "p", *[(1, 10)] * 300)
    batches = {*queue.store._db.execute("SELECT batch FROM event WHERE kind IN ('project', 'submit')")}
    assert len(batches) == 1
    assert len(queue.engine.book.jobs) == 300
    assert np.all([job.project == "p" for job in queue.engine.book.jobs.values()])


@pytest.mark.parametrize("policy", ["easy", "2tsb"])
def test_the_likely_departure_is_the_last_end_where_run_times_are_known(policy, tmp_path):
    """Jobs that always use their walltimes, one behind the other and beside another project."""
    queue = Virtual(tmp_path, policy)
    submit(queue, "before", *[(4, 10)] * 5, *[(1, 10)] * 15)
    for name in ("j0", "j1", "j2", "j3"):
        for _ in range(5):
            queue.submit(4, 10, name=name)
    queue.drain()
    begin = queue.t
    jobs = [(4, 100), (2, 50, 0), (2, 30, 0), (1, 20, 1, 2)]
    tasks = request(queue, "p", *jobs)
    told = ask(queue, "test_project", tasks=[event.row for event in trial(queue, tasks) if isinstance(event, Submit)])
    numbers = submit(queue, "p", *jobs)
    for departure in (told["departure"], ask(queue, "eta_project", jobs=numbers)["departure"]):
        assert departure["median_s"] - begin / SECOND == pytest.approx(170, abs=31)  # told to the minute
        assert departure["median_s"] <= departure["p90_s"] <= departure["median_s"] + 60
        assert departure["departs"] == (policy == "2tsb")
        assert departure["left"] == (3 if policy == "2tsb" else 4)
        if policy == "2tsb":
            assert departure["promised_s"] - begin / SECOND == pytest.approx(100, abs=1e-3)
        else:
            assert departure["promised_s"] is None
    assert told["at_once"] == 1
    queue.drain()
    assert departed(queue, "p")[0] == pytest.approx((begin - BEGIN) / SECOND + 170)


def test_a_project_with_a_held_job_has_no_likely_departure(tmp_path):
    queue = Virtual(tmp_path, "easy")
    first, last = submit(queue, "p", (4, 100), (2, 50))
    queue.request(do="hold", ids=[last])
    told = ask(queue, "eta_project", jobs=[first, last])["departure"]
    assert (told["median_s"], told["why_not"]) == (None, "held")


@pytest.mark.parametrize("again", [False, True])
def test_a_project_departs_with_the_last_end_whenever_that_is_known(again, tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    queue.instant = lambda record: record["at"]
    first, last = submit(queue, "p", (2, 100), (2, 100))
    queue.until(50)
    for number, end in ((last, 40), (first, 30)):  # what ended last is known first
        queue.engine.settled(number, 1, Verdict("ended", {"status": 0, "cause": None, "at": BEGIN + end * SECOND}))
        queue.flush()
        if again:
            queue.restart(kill=True)
    assert departed(queue, "p") == (40, "")
    sound(queue)


def test_promised_departures_that_were_kept_are_counted(tmp_path):
    queue = Virtual(tmp_path, "2tsb")
    submit(queue, "p", (4, 100))
    submit(queue, "q", (4, 100), (1, 10, 0))
    submit(queue, "r", (4, 50))
    queue.until(10)
    queue.submit(4, 80, project="r")
    queue.submit(4, 10, project="unknown")
    queue.drain()
    found = kept(queue.store.events(kinds=KINDS))[1]["departures"]
    assert found == {"kept": 2, "slips": {"more-jobs": 1}}


def test_a_store_of_an_earlier_version_knows_its_projects(tmp_path):
    db = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    for number, step in enumerate(SCHEMA[:4], 1):
        db.executescript(f"{step} PRAGMA user_version={number}; PRAGMA application_id={APPLICATION};")
    for number, project in enumerate(("p", "", "p"), 1):
        facts = json.dumps(Job(number, token=str(number), project=project, state="COMPLETED").brief())
        db.execute(
            "INSERT INTO job VALUES (?, ?, 'ana', 'job', 'COMPLETED', 1, 2, 3, ?, NULL, NULL)",
            (number, str(number), facts),
        )
    db.close()
    store = Store(tmp_path / "store.db")
    assert [job.id for job in store.jobs_of("p")] == [1, 3]
    assert store.project("p") is None
    store.close()


def trial(queue, message):
    """The events that a request would bring about."""
    slices = commands.submit_project(message, replace(queue.engine.context(), keep=lambda spec: 0))
    try:
        next(slices)
    except StopIteration as over:
        return over.value.events
    raise AssertionError("a project comes in one slice")
