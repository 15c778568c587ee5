"""What `queue` and `show` print of jobs on nodes."""

import json

import pytest

from backfill.client.printing import print_job, print_queue
from backfill.daemon import shown
from backfill.daemon.config import platform_facts
from backfill.queue.engine import Engine
from backfill.queue.events import Capacity
from backfill.queue.job import Attempt
from backfill.queue.store import Store
from tests.queue.test_possible import PLATFORM
from tests.queue.test_requests import Idle


@pytest.fixture
def engine(tmp_path):
    """A queue that decides on nodes, with three jobs, of which one runs."""
    store, idle = Store(tmp_path / "store.db"), Idle()
    made = Engine(store, idle, idle, idle, {"walltime": 60_000_000, "grace": 0}, encode=json.dumps)
    made.open(Capacity({}, [], [], **platform_facts(PLATFORM)), "easy", "p")
    asked = [
        {"need": {"cpus": 4}, "name": "wide", "tasks": 2, "ntasks": 8, "spread": "distinct"},
        {
            "need": {"cpus": 1},
            "name": "fast",
            "constraint": "new",
            "partition": "all",
            "qos": "urgent",
            "exclusive": True,
        },
        {"need": {"cpus": 1}, "name": "plain"},
    ]
    for number, job in enumerate(asked):
        answers = []
        request = {"do": "submit", "token": f"t{number}", "user": "ana", "job": job, "spec": {"argv": ["true"]}}
        made.request(request, answers.append)
        made.flush()
        assert "id" in answers[0], answers
    running = made.book.jobs[1]
    running.state, running.attempt = "RUNNING", Attempt(1, made.clock.now(), nodes=[["n1", 1], ["n4", 2, True]])
    made.book.holding.add(1)
    yield made
    store.close()


def rows(engine):
    slices = shown.queue_rows(engine, engine.store, engine.clock.now(), {}, {})
    try:
        while True:
            next(slices)
    except StopIteration as over:
        return json.loads(b"".join(shown.parts(over.value)))


def test_rows_have_what_is_not_usual(engine):
    wide, fast, plain = rows(engine)["jobs"]
    assert (wide["parts"], wide["ntasks"], wide["spread"], wide["nodes"]) == (
        2,
        8,
        "distinct",
        [["n1", 1], ["n4", 2, True]],
    )
    assert (fast["constraint"], fast["partition"], fast["qos"], fast["exclusive"]) == ("new", "all", "urgent", True)
    assert not plain.keys() & {"parts", "ntasks", "spread", "constraint", "partition", "qos", "exclusive", "nodes"}


def test_the_queue_shows_the_nodes_of_runs_and_the_cpus_of_whole_jobs(engine, capsys):
    found = rows(engine) | {"licences": {}, "estimates": None}
    print_queue(found)
    head, wide, fast, _, _ = capsys.readouterr().out.splitlines()
    assert head.split()[-2:] == ["NODES", "WHY"]
    assert wide.split()[1:5] == ["wide", "RUNNING", "8", "-"]
    assert wide.endswith("n1, n4*2")
    assert fast.split()[3] == "1"
    del found["jobs"][0]
    print_queue(found)
    assert "NODES" not in capsys.readouterr().out


class Elsewhere:
    """Evidence of a pool that knows no files of its jobs."""

    def files(self, job, spec):
        return dict.fromkeys(("input", "output", "error"))


def test_show_tells_what_a_job_asks_for_and_where_it_runs(engine, capsys):
    for number in (1, 2):
        story = shown.story(engine, engine.store, Elsewhere(), engine.book.jobs[number], 0)
        print_job(json.loads(json.dumps(story)))
    told = [line.strip() for line in capsys.readouterr().out.splitlines()]
    for line in (
        "needs       2 nodes of 4 cpus",
        "tasks       8",
        "runs on     n1, n4*2",
        "needs       1 cpu, whole nodes",
        "constraint  new",
        "partition   all",
        "qos         urgent",
    ):
        assert line in told
