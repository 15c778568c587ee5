"""Whatever is asked of the daemon: types and bounds of every request, many clients, and answers that are late."""

import asyncio
import json
import os
import re
import signal
import socket
import string
import subprocess
import tempfile
import time
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from backfill.client import calling
from backfill.daemon import connection
from backfill.daemon.daemon import Waiters, Waiting
from backfill.pools.base import Decision
from backfill.pools.local import pool as launcher
from backfill.pools.local.pool import LocalPool, attempt_spec
from backfill.queue import commands, schema
from backfill.queue.engine import Engine
from backfill.queue.events import Capacity
from backfill.queue.job import Attempt, Job, Run
from backfill.queue.schema import REQUESTS, Refused
from backfill.queue.store import Store
from tests.patience import PATIENCE_S, completed
from tests.queue.conftest import PYTHON
from tests.queue.virtual import Virtual

WORDS = st.text(string.ascii_letters + " ö/-", max_size=8)
WRONG = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=6), st.just("\udcff\ud800"),
    st.lists(st.integers(0, 9), max_size=3), st.lists(st.lists(st.integers(0, 3)), max_size=3),
    st.dictionaries(st.sampled_from(["name", "cpus", "walltime"]), st.integers() | st.none(), max_size=2),
)  # fmt: skip


def good(kind):
    """Values of a type of the schema."""
    if isinstance(kind, schema.Whole):
        return st.integers(kind.low, min(kind.high, 10**9)) | st.integers(kind.low, kind.high)
    if isinstance(kind, schema.Flag):
        return st.booleans()
    if isinstance(kind, schema.Choice):
        return st.sampled_from(kind.words)
    if isinstance(kind, schema.Word):
        return WORDS.map(lambda text: kind.begins + (text or "x" * kind.least)) | st.just(f"{kind.begins}x\udce9")
    if isinstance(kind, schema.Text | schema.Body):
        return WORDS.map(lambda text: text or "x")
    if isinstance(kind, schema.Many):
        return st.lists(good(kind.of), min_size=kind.least, max_size=max(kind.least, 3))
    if isinstance(kind, schema.Row):
        return st.tuples(*map(good, kind.of)).map(list)
    if isinstance(kind, schema.Table):
        return st.dictionaries(good(kind.key), good(kind.value), max_size=3)
    if isinstance(kind, schema.Either):
        return st.one_of(*map(good, kind.of))
    assert isinstance(kind, schema.Record), kind
    optional = {name: good(one) for name, one in kind.fields.items() if name not in kind.required}
    return st.fixed_dictionaries({name: good(kind.fields[name]) for name in kind.required}, optional=optional)


@st.composite
def requests(draw):
    """A request that the schema allows, most often with something of another type in some place."""
    verb = draw(st.sampled_from(sorted(REQUESTS)))
    found = draw(good(REQUESTS[verb].fields))
    if verb in ("submit", "test") and draw(st.booleans()):  # which the queue could meet
        found["job"] |= {"need": {"cpus": 1}, "after": []}
        for name in ("deadline", "deadline_ahead", "begin", "begin_ahead", "array"):
            found["job"].pop(name, None)
    place = found
    while draw(st.booleans()) and isinstance(place, dict | list) and place:
        key = draw(st.sampled_from([*place] if isinstance(place, dict) else [*range(len(place))]))
        if draw(st.booleans()):
            place[key] = draw(WRONG)
            break
        place = place[key]
    return {"do": verb, **found}


class Idle:
    """A planner and a pool that do nothing, and a clock that stands still."""

    name, speed = "idle", 1.0
    does = frozenset({"signal", "suspend"})

    def __init__(self):
        self.facts = {}

    def now(self):
        return 1_700_000_000_000_000

    wall = now

    def slept(self):
        return 0

    def instant(self, record):
        return None

    def kept(self, epoch_seq, program):
        return 0, 0

    def begin(self, epoch, history, since):
        pass

    def ask(self, now, messages):
        pass

    def start(self, some):
        pass

    def stop(self, some):
        pass

    def signal(self, job, number):
        pass

    def freeze(self, job):
        pass


def launched(home, run, spec):
    """What a launch makes of an attempt, which is to be passed to a program."""
    told = attempt_spec(home, run, spec)
    json.dumps(told)
    for word in [*told["argv"], *told["env"], *told["env"].values()]:
        assert b"\0" not in os.fsencode(word)


@settings(
    max_examples=max(30, settings.default.max_examples), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(good(schema.JOB), good(schema.SPEC))
def test_whatever_the_schema_lets_in_can_be_launched(tmp_path, job, spec):
    facts = {**job, "need": {"cpus": 1, **job["need"]}, "user": "ana"}
    known = {one.name for one in fields(Job)} - {"array", "index"}
    made = Job(1, **{name: value for name, value in facts.items() if name in known}, array=3, index=4)
    launched(tmp_path, Run(made, Attempt(1, 0)), spec)


@settings(max_examples=max(30, settings.default.max_examples))
@given(st.lists(requests(), min_size=1, max_size=6))
def test_every_request_has_one_answer_and_one_that_is_refused_leaves_no_trace(some):
    with tempfile.TemporaryDirectory() as folder:
        store, idle = Store(Path(folder, "store.db")), Idle()
        engine = Engine(
            store, idle, idle, idle, {"walltime": 60_000_000, "grace": 0},
            encode=json.JSONEncoder(separators=(",", ":")).encode, slice_=2,
        )  # fmt: skip
        engine.open(Capacity({"cpus": 4}, [0, 1, 2, 3], []), "easy", "p")
        engine.flush()
        for request in some:
            try:
                changes = schema.check(request).changes
            except Refused:
                changes = True  # the engine refuses it as well
            if not changes:
                continue
            before, got = store.seq, []
            engine.request(request, got.append)
            engine.flush()
            while engine.busy:
                engine.go_on()
                engine.flush()
            (answer,) = got
            json.dumps(answer)
            if "error" in answer:
                assert answer["error"]["code"] != "internal", (answer, engine.notes)
                assert store.seq == before
            for job in engine.book.jobs.values():
                launched(Path(folder), Run(job, Attempt(1, 0)), store.spec(job.spec))
        assert store.differences() == []
        store.close()


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        ({"do": "hold", "ids": [[[1], 2]]}, "ids is [[1], 2]; expected the number of a job"),
        ({"do": "edit", "ids": [1], "to": {"walltime": None}}, "walltime is None; expected a whole number"),
        ({"do": "hold", "ids": [True]}, "ids is True; expected"),
        ({"do": "show", "ids": []}, "ids has 0 entries"),
        ({"do": "wait", "ids": [1], "jobs": 2}, "'jobs' is not a field of wait"),
        ({"do": ["submit"]}, "is not a request of this queue"),
        ({"do": "slots", "need": {"cpus": "4"}}, "cpus is '4'; expected a whole number"),
    ],
)
def test_a_request_of_wrong_types_is_refused_by_the_field(request_, told):
    with pytest.raises(Refused, match=re.escape(told)):
        schema.check(request_)


def test_requests_that_used_to_kill_or_poison_are_refused(live):
    number = live.submit("-H", "--", "true")
    daemon = live.daemon()
    job, spec = {"need": {"cpus": 1}, "walltime": 60_000_000}, {"argv": ["true"], "cwd": "/tmp"}
    submit = {"do": "submit", "token": "t", "user": "ana", "job": job, "spec": spec}
    refused = [
        {"do": "hold", "ids": [[[1], 2]]},
        {"do": "edit", "ids": [number], "to": {"walltime": None}},
        {**submit, "spec": {**spec, "cwd": 5}},
        {**submit, "spec": {**spec, "script": "#!/bin/sh\n\ud800"}},
        {**submit, "spec": {**spec, "argv": ["a\0b"]}},
        {**submit, "spec": {**spec, "env": {"A=B": "1"}}},
        {**submit, "job": {**job, "after": [["afterok", {"name": "x"}]]}},
    ]
    for request in refused:
        assert live.ask(request)["error"]["code"] == "usage", request
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(live.folder / "sock"))
        sock.sendall(b"[" * 100_000 + b"\n")
        assert "one JSON object" in json.loads(sock.makefile("rb").readline())["error"]["message"]
    assert len(live.jobs()) == 1
    assert live.daemon() == daemon
    assert "Traceback" not in (live.folder / "daemon.log").read_text()


def test_a_launch_that_fails_in_our_code_does_not_skip_the_next_one(tmp_path, monkeypatch, capsys):
    pool, sent = LocalPool(tmp_path, lambda: None, False, {}), []

    def spec_of(home, run, spec):
        if run.job.id == 1:
            raise UnicodeError("a mistake of ours")
        return attempt_spec(home, run, spec)

    monkeypatch.setattr(launcher, "attempt_spec", spec_of)
    monkeypatch.setattr(pool, "_send", sent.append)
    jobs = [Job(number, need={"cpus": 1}) for number in (1, 2, 3)]
    pool.start([Decision(job, Attempt(1, 0), {"argv": ["true"]}) for job in jobs])
    assert sent == [b"2.1", b"3.1"]
    assert "a mistake of ours" in capsys.readouterr().err


# ---------------------------------------------------------------------- many tasks


def test_a_large_array_is_entered_in_slices_and_whole_whatever_happens_between(tmp_path):
    queue = Virtual(tmp_path)
    queue.engine.slice = 10
    before = queue.submit(4, 50, array=[0, 1, 2])
    request = {
        "do": "submit", "token": "large", "user": "ana", "spec": {"argv": ["true"]},
        "job": {"need": {"cpus": 1}, "walltime": 10**7, "array": [*range(35)], "after": [["afterok", before]]},
    }  # fmt: skip
    got, later = [], []
    queue.engine.request(request, got.append)
    queue.engine.flush()
    queue.engine.go_on()
    queue.engine.flush()
    assert 0 < len(queue.store.jobs("array_id = ?", (4,))) < 35
    assert not got
    queue.engine.request(request, later.append)  # the same once more, and somebody who has guessed its number
    queue.engine.request({"do": "hold", "ids": [4]}, later.append)
    assert not later
    queue.store.close()  # the daemon dies

    again = Virtual.__new__(Virtual)
    again.__dict__.update(queue.__dict__)
    again.store = Store(tmp_path / "store.db")
    again.engine = Engine(again.store, again, again, again, {"walltime": 1, "grace": 0}, encode=json.dumps, slice_=10)
    capacity = Capacity(queue.resources, [0, 1, 2, 3], [])
    again.engine.open(capacity, "easy", "test")
    again.engine.request(request, got.append)  # the client asks again with its token
    again.flush()
    tasks = again.store.jobs("array_id = ?", (4,))
    assert [task.index for task in tasks] == [*range(35)]
    assert {task.token for task in tasks} == {"large", *(f"large/{place}" for place in range(1, 35))}
    assert [answer["id"] for answer in got] == [4]
    assert all(task.after == [["afterok-array", before]] for task in tasks)
    assert again.submit(1) == 4 + 35
    assert again.store.differences() == []


@pytest.mark.parametrize("kind", ["afterok", "afternotok", "afterany", "after"])
@pytest.mark.parametrize("whole", [False, True])
def test_what_many_wait_for_is_decided_and_written_down_little_by_little(tmp_path, monkeypatch, kind, whole):
    monkeypatch.setattr("backfill.queue.engine.REVIEWED", 30)
    queue = Virtual(tmp_path)
    first = queue.submit(1, held=True, **({"array": [0, 1]} if whole else {}))
    some = [queue.submit(1, held=True, after=[[kind, first]]) for _ in range(90)]
    either = [queue.submit(1, held=True, after=[[kind, first], ["afterok", some[0]]], any_of=True) for _ in range(45)]
    engine = queue.engine
    for number in (first, first + 1) if whole else (first,):
        engine.request({"do": "cancel", "ids": [number]}, lambda answer: None)
    engine.flush()
    kept, loaded = {job.id: job for job in queue.store.jobs()}, queue.store.load()
    folded = queue.store.fold()
    left = [number for number in some + either if kept[number].after and kept[number].after != folded[number].after]
    assert 0 < len(left) < 135  # the daemon could be killed now
    for number in some + either:
        if number in loaded.jobs:
            assert loaded.jobs[number].after == folded[number].after
            assert loaded.jobs[number].never == folded[number].never
    here = {number: engine.book.jobs[number].after for number in some + either if number in engine.book.jobs}
    assert any(here[number] != folded[number].after for number in here)  # nor is it worked out in one go
    queue.flush()
    assert queue.store.differences() == []


def test_a_task_more_or_less_among_ten_thousand_is_quick(tmp_path):
    """Not by the clock: by what is read and written."""
    queue = Virtual(tmp_path)
    first = queue.submit(1, array=[*range(500)], held=True)
    second = queue.submit(1, array=[*range(500)], after=[["afterok", first]])
    assert queue.engine.book.jobs[second].after == [["afterok-array", first]]
    assert len(queue.engine.book.dependants) == 1
    statements = []
    queue.store._db.set_trace_callback(statements.append)
    queue.request(do="cancel", ids=[[first, 7]])
    queue.store._db.set_trace_callback(None)
    assert not [one for one in statements if one.startswith("SELECT facts")]
    assert queue.engine.book.jobs.keys() == {first + n for n in range(500) if n != 7}
    plan = queue.store._db.execute(
        "EXPLAIN QUERY PLAN SELECT seq FROM event WHERE seq > 0 AND job = ? AND job > 0 ORDER BY seq", (first,)
    ).fetchall()
    assert "event_job" in str(plan)


# ---------------------------------------------------------------------- many clients


def waiting(live, number):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(live.folder / "sock"))
    sock.sendall(json.dumps({"do": "wait", "ids": [number]}).encode() + b"\n")
    return sock


def test_clients_that_wait_take_no_place_of_those_that_ask(live):
    number = live.submit("--wrap", "touch on; while [ -e on ]; do sleep 0.1; done")
    some = [waiting(live, number) for _ in range(connection.ASKING + 100)]
    live.until(lambda: live.ask({"do": "ping"})["waiters"] == len(some))
    assert live.submit("-H", "--", "true") == number + 1
    live.until((live.folder / "on").exists)
    (live.folder / "on").unlink()
    for sock in some:
        assert json.loads(sock.makefile("rb").readline())["jobs"][0]["state"] == "COMPLETED"
        sock.close()


def test_beyond_a_bound_a_client_is_told_at_once_and_idle_ones_make_way(live):
    number = 2 * connection.ASKING + 40  # files that the daemon may have open
    words = f'ulimit -n {number}; exec "$@"'
    subprocess.run(["sh", "-c", words, "sh", *PYTHON, "serve", "--detach"], env=live.env, check=True)
    job, some = live.submit("-H", "--", "true"), []
    some = [waiting(live, job) for _ in range(20)]
    live.until(lambda: live.ask({"do": "ping"})["waiters"] == len(some))
    told = live.run("wait", job, check=4).stderr
    assert told == "backfill: 20 clients wait for jobs, as many as may; wait again later\n"
    some.pop().close()  # one that has gone makes way at once, also if its job does not end
    live.until(lambda: live.ask({"do": "ping"})["waiters"] == len(some))
    some.append(waiting(live, job))
    for _ in range(number // 2 - len(some)):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(live.folder / "sock"))
        some.append(sock)
    begun = time.monotonic()
    assert "clients are connected, as many as there may be; ask again later" in live.run("queue", check=4).stderr
    assert time.monotonic() - begun < calling.ANSWER_S
    live.until(lambda: "1 pending" in live.run("queue", check=None).stdout)
    for sock in some:
        sock.close()


def opened(pid):
    """Return what the files of a process are."""
    return [os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir() if os.path.lexists(file)]


class Listening:
    """A server that answers when it is told to, and knows who was looked at."""

    def __init__(self):
        self.connections, self.idle, self.ready, self.asked = set(), {}, set(), []

    def hear(self, line, reply):
        self.asked.append(reply)
        if line == b"now":
            reply({"now": True})

    def poke(self):
        pass


def test_a_client_that_asks_costs_no_look_at_those_that_wait(tmp_path, monkeypatch):
    sent, send = [], connection.Connection.send
    monkeypatch.setattr(connection.Connection, "send", lambda one: (sent.append(one), send(one)))

    async def work():
        server, path = Listening(), str(tmp_path / "sock")
        listens = await asyncio.get_running_loop().create_unix_server(lambda: connection.Connection(server), path)
        waiting = [await asyncio.open_unix_connection(path) for _ in range(50)]
        for _, writer in waiting:
            writer.write(b"later\n")
        while len(server.asked) < 50:
            await asyncio.sleep(0.01)
        first = next(iter(server.connections))
        monkeypatch.setattr(connection, "places", lambda: 51)
        sent.clear()
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"now\n")
        assert await reader.readline() == b'{"now":true}\n'
        assert len({*sent}) == 1
        assert len(server.idle) == 1
        assert first not in server.idle
        server.asked[7]({"late": True})
        (told,) = server.ready - {*sent}
        told.send()
        assert await waiting[7][0].readline() == b'{"late":true}\n'
        assert len(server.idle) == 2
        monkeypatch.setattr(connection, "IDLE_S", 0.0)
        _, another = await asyncio.open_unix_connection(path)
        assert await reader.read() == b""  # the one that was idle for longest makes way
        unwanted = []
        server.asked[3].unwanted = lambda: unwanted.append(3)
        waiting[3][1].close()
        while not unwanted:
            await asyncio.sleep(0.01)
        assert server.asked[3].gone
        for one in (writer, another, *(writer for _, writer in waiting)):
            one.close()
        listens.close()
        while server.connections:
            await asyncio.sleep(0.01)

    completed(work())


def test_clients_that_have_gone_are_waited_for_no_more(tmp_path):
    queue = Virtual(tmp_path)
    numbers = [queue.submit(1, 600) for _ in range(3)]
    all_ = Waiters()

    def wait():
        answer = connection.Answer()
        waiting = Waiting(answer, {*numbers}, all_, lambda one: queue.engine.wait_no_more(one.left, one))
        for number in numbers:
            queue.engine.wait(number, waiting)
        return answer

    some = [wait() for _ in range(100)]
    assert (all_.clients, all_.jobs) == (100, 300)
    for answer in some[:99]:
        answer.leave()
    assert (all_.clients, all_.jobs) == (1, 3)
    assert [len(one) for one in queue.engine._waiters.values()] == [1, 1, 1]
    queue.drain()
    assert (all_.clients, all_.jobs, queue.engine._waiters) == (0, 0, {})
    told = some[99].value["jobs"]
    assert [job["id"] for job in told] == numbers
    other = wait()
    queue.flush()
    assert other.value["jobs"] == told
    numbers.append(queue.submit(1, 600))
    last = wait()
    queue.engine.stop()
    assert last.value["error"]["code"] == "stopped"
    assert (all_.clients, all_.jobs) == (0, 0)


def test_a_script_that_is_too_long_is_refused_at_once(live, monkeypatch):
    live.submit("-H", "--", "true")
    for size, told in ((9_200_000, "MiB long; expected at most 8\n"), (5_200_000, "script")):
        (live.folder / "s.sh").write_text("#!/bin/sh\n" + "# comment\n" * (size // 10))
        begun = time.monotonic()
        refused = live.run("submit", "s.sh", check=2).stderr
        assert told in refused
        assert refused.count("\n") == 1
        assert time.monotonic() - begun < calling.ANSWER_S / 2
    monkeypatch.setattr(calling, "LINE", 1 << 30)
    queue = calling.Queue(str(live.folder))
    with pytest.raises(calling.Problem, match="longer than 8 MiB"):  # which it hears though it cannot send all
        queue.ask("find", ids=["x" * (20 << 20)])
    queue.close()
    assert [job["id"] for job in live.jobs()] == [1]


def test_a_client_that_gives_up_says_that_it_does_not_know(live):
    live.submit("-H", "--", "true")
    daemon = live.daemon()
    os.kill(daemon, signal.SIGSTOP)
    asking = subprocess.Popen([*PYTHON, "submit", "--", "true"], env=live.env, stderr=subprocess.PIPE, text=True)
    live.until(lambda: any(link.startswith("socket:") for link in opened(asking.pid)))
    time.sleep(1.0)  # it has asked
    asking.send_signal(signal.SIGINT)
    told = asking.communicate(timeout=PATIENCE_S)[1]
    os.kill(daemon, signal.SIGCONT)
    assert asking.returncode == 130
    assert told == "backfill: interrupted: it is unknown whether the job is queued; see: backfill queue\n"


def test_a_queue_of_many_jobs_is_told_in_pages(live):
    live.submit("-H", "--array", "1-1500", "--", "true")
    single = live.submit("-H", "--", "true")
    lines = live.run("queue").stdout.splitlines()
    assert lines[1].split()[0] == "1_[1-1500]"
    assert lines[-1].startswith("0 running, 1501 pending")
    found = json.loads(live.run("queue", "--json").stdout)
    assert [job["id"] for job in found["jobs"]] == [*range(1, 1502)]
    assert len(json.loads(live.run("queue", "--json", "-n", 1200).stdout)["jobs"]) == 1200
    assert "and 1 more job" in live.run("queue", "-n", 1).stdout
    shown = live.run("show", 1).stdout
    assert shown.count("\njob 1_") == 99
    assert "and 1,400 more jobs; backfill show ARRAY_INDEX shows one, --json all" in shown
    assert len(json.loads(live.run("show", 1, "--json").stdout)["jobs"]) == 1500
    assert live.run("cancel", 1).stdout == "cancelled 1,500 jobs: 1_[1-1500]\n"
    assert [job["id"] for job in live.jobs(ended=0)] == [single]
    assert commands.SLICE < 1500
