"""The planner decides as `simulate` does, and one that is made anew as the one that lived."""

import json
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from backfill.compiler.record import fields_of
from backfill.core import entry
from backfill.core.once import NEITHER, WAITS, standing
from backfill.core.place import kinds
from backfill.core.plan.promises import NO_TIME
from backfill.loading import load
from backfill.model.errors import PolicyError, UsageError
from backfill.model.platform import Platform
from backfill.model.schedule import PREEMPTED, REASONS, REJECTED
from backfill.model.units import NEVER
from backfill.model.workload import SPREAD, Jobs, Labels, Workload
from backfill.policies import TABLE
from backfill.queue.protocol import FACTS, decisions
from backfill.worlds import live as planner_module
from backfill.worlds.aside import load as load_planner
from backfill.worlds.aside import save
from backfill.worlds.live import HOW, Planner, answer, load_policy, machine
from backfill.worlds.simulated import simulate
from backfill.worlds.workload import table
from tests.invariants import check
from tests.shares import LONG, a_share, seeds, share

SECOND = 1_000_000
RESOURCES = {"cpus": 8, "memory": 1 << 34, "gpus": 0, "matlab": 3}
URGENT = str(Path(__file__).with_name("urgent.py"))  # which preempts a lot
PROCESSORS = ("gang-site", "gang-span")
ROWS = ("gang-matrix", "gang-matrix-backfill")
POLICIES = [*(name for name in TABLE if name not in ("round-robin", *PROCESSORS, *ROWS)), URGENT]
some_policies = a_share(POLICIES, of=8)
EPOCH = {"resources": RESOURCES, "base": [], "now": 0}


def some_jobs(seed, count):
    chance = random.Random(seed)
    t, jobs = 1_000 * SECOND, []
    for number in range(1, count + 1):
        t += chance.choice([0, 1, 10, 40]) * SECOND
        need = {"cpus": chance.choice([1, 1, 2, 3, 5, 8]), "matlab": chance.choice([0, 0, 0, 1, 2])}
        walltime = chance.choice([30, 60, 60, 300, 900]) * SECOND
        runtime = chance.choice([walltime, walltime // 2, chance.randint(1, walltime), walltime // 10])
        facts = {"need": need, "walltime": walltime, "grace": 0, "priority": number % 4, "user": chance.choice("abc"),
                 "project": chance.choice(["", "p", "q"]), "deadline": None}  # fmt: skip
        jobs.append((number, t, runtime, facts))
    return jobs


def end_of(schedule, number, run):
    """The end of a run of a job, the first one 0; never, if it is to be preempted."""
    runs = schedule.all_runs
    end, how = (column[runs.job == number - 1][run] for column in (runs.end, runs.state))
    return NEVER if how == PREEMPTED else int(end)


def live(planner, jobs, schedule=None):
    """Drive a planner through the life of these jobs on a virtual clock. Returns the starts of each, and the passes.

    schedule: says when jobs end that run on nodes, of which some are faster than others.
    """
    starts, ends, passes, todo, waits = {}, {}, [], [*jobs], set()
    runtime = {number: length for number, _, length, _ in jobs}
    wake = None
    while todo or ends or wake is not None:
        now = min([*(todo[0][1:2] if todo else []), *ends.values(), *([wake] if wake is not None else [])])
        over = [number for number, end in ends.items() if end == now]
        messages = [["gone", number, "COMPLETED"] for number in over]
        for number in over:
            del ends[number]
        while todo and todo[0][1] == now:
            number, _, _, facts = todo.pop(0)
            messages += [["submit", number, facts], ["wait", number]]
            waits.add(number)
        done = planner.decide(now, messages)
        passes.append((now, messages, done))
        for number, by, *_ in done["preempts"]:
            assert by != number
            del ends[number]
            waits.add(number)
        for number, why, *nodes in done["starts"]:
            starts.setdefault(number, []).append((now, why))
            waits.discard(number)
            ends[number] = now + runtime[number]
            if nodes:
                ends[number] = end_of(schedule, number, len(starts[number]) - 1)
        wake = done["wake"] if waits else None
    return starts, passes


def workload_of(jobs):
    names = ("cpus", "matlab")
    projects = [facts["project"] for *_, facts in jobs]
    return Workload(
        Jobs(
            job=np.array([number for number, *_ in jobs]),
            submit=np.array([t for _, t, _, _ in jobs]),
            runtime=np.array([length for _, _, length, _ in jobs]),
            walltime=np.array([facts["walltime"] for *_, facts in jobs]),
            demand=np.array([[facts["need"][name] for name in names] for *_, facts in jobs]),
            priority=np.array([float(facts["priority"]) for *_, facts in jobs]),
            user=Labels.of([facts["user"] for *_, facts in jobs]),
            project=Labels.of(projects),
        ),
        resources=names,
    )


@some_policies
def test_a_queue_on_a_virtual_clock_starts_every_job_when_the_simulation_does(name):
    jobs = some_jobs(name, 280)  # more than the first State has room for
    policy, params = load(name)
    starts, passes = live(Planner(name, EPOCH), jobs)
    schedule = simulate(workload_of(jobs), machine(RESOURCES), policy, params).schedule
    many = sum(len(done["preempts"]) for *_, done in passes)
    assert (many > 0) == policy.preempts == (schedule.runs is not None)
    for row, (number, *_) in enumerate(jobs):
        assert starts[number] == runs_of(schedule, row), f"job {number}"


def runs_of(schedule, row):
    """Start and reason of each run of a job."""
    runs = schedule.all_runs
    some = runs.job == row
    return [(t, REASONS[why]) for t, why in zip(runs.start[some], runs.reason[some], strict=True)]


CLUSTER = """
[[node]]
name = "n"
count = 6
cpus = 4
memory = 8
features = ["old"]

[[node]]
name = "m"
count = 4
speed = 1.5
cpus = 8
memory = 16
site = "east"
features = ["new", "fast"]
node_licences = {abaqus = 2}

[[node]]
name = "g"
count = 2
speed = 2.0
cpus = 8
memory = 32
gpus = 2
gpu_type = "a100"

[[licence]]
name = "matlab"
copies = 2

[[partition]]
name = "all"
default = true

[[partition]]
name = "whole"
nodes = ["m*"]
place = "exclusive"
priority = 5

[[qos]]
name = "urgent"
priority = 2.5

[[limit]]
name = "each user"
per = "user"
running_jobs = 4
running = {cpus = 24}

[[limit]]
name = "urgent jobs"
qos = ["urgent"]
running = {cpus = 12}
"""


def cluster(tmp_path, text):
    (tmp_path / "cluster.toml").write_text(text)
    return Platform.read(tmp_path / "cluster.toml")


def jobs_for_nodes(seed, count):
    """The same as `some_jobs`, with all that a cluster lets jobs ask for."""
    chance = random.Random(seed)
    jobs = some_jobs(seed, count)
    for _, _, _, facts in jobs:
        cpus = chance.choice([1, 1, 2, 3, 4])
        facts["need"] = {"cpus": cpus, "memory": chance.choice([0, 1, 2, 4]), "matlab": chance.choice([0, 0, 0, 1])}
        facts |= {"tasks": chance.choice([1, 1, 1, 2, 3, 4]), "spread": chance.choice(SPREAD), "site": "",
                  "qos": chance.choice(["", "", "", "urgent"]), "partition": chance.choice(["", "all", "whole"]),
                  "group": "", "constraint": chance.choice(["", "", "", "old", "new&fast", "!old"])}  # fmt: skip
        if chance.random() < 0.1:
            facts |= {"tasks": 1, "partition": "", "constraint": "", "need": {"cpus": 1, "gpus": 1}}
        elif facts["partition"] == "whole":
            facts |= {"constraint": ""}
        elif facts["constraint"] in ("old", "new&fast"):  # which nodes of one kind have
            facts |= {"exclusive": chance.random() < 0.4}
    return jobs


def nodes_workload(jobs, platform):
    """Such jobs as a simulation has them."""
    workload = table([(number, {**FACTS, "submit": t, **facts}) for number, t, _, facts in jobs], platform)
    return workload.with_jobs(workload.jobs.replace(runtime=np.array([length for _, _, length, _ in jobs])))


GRID = """
[[node]]
name = "a"
count = 5
cpus = 1
site = "a"

[[node]]
name = "b"
count = 3
cpus = 1
speed = 1.5
site = "b"
"""


def gangs(seed, count):
    """Jobs of up to four tasks of one cpu."""
    chance = random.Random(seed)
    jobs = some_jobs(seed, count)
    for _, _, _, facts in jobs:
        facts |= {"need": {"cpus": 1}, "tasks": chance.choice([1, 1, 2, 3, 4])}
    return jobs


PAUSES = ("preemptive:how=suspend", "preemptive:how=checkpoint,overhead=2", "round-robin:quantum=30")
NODES = [name for name in POLICIES if name != URGENT]
BY_TARGETS = "flexible-fairshare:w_fs_user=500,w_fs_account=300,fs_interval=0.02"
TARGETS = """
[[fairshare]]
user = "b"
target = 80

[[fairshare]]
user = "nobody"
target = 10

[[fairshare]]
project = "q"
target = 50
"""


@pytest.mark.parametrize(
    ("name", "text", "some"),
    [
        *((name, CLUSTER, jobs_for_nodes) for name in share("simulated on nodes", NODES, of=8)),
        *((name, GRID, gangs) for name in PROCESSORS),
        *((name, CLUSTER, jobs_for_nodes) for name in PAUSES),
        (BY_TARGETS, CLUSTER + TARGETS, jobs_for_nodes),
    ],
)
def test_a_queue_on_nodes_starts_every_job_where_the_simulation_does(name, text, some, tmp_path):
    platform, (policy, params) = cluster(tmp_path, text), load(name)
    jobs = some(name, 150)
    schedule = simulate(nodes_workload(jobs, platform), platform, policy, params).schedule
    possible = np.flatnonzero(schedule.state != REJECTED).tolist()
    assert len(possible) > 100
    starts, passes = live(Planner(name, {"base": []}, platform, HOW), [jobs[row] for row in possible], schedule)
    for row in possible:
        assert starts[row + 1] == runs_of(schedule, row), f"job {row + 1}"
    placed = {number: nodes for *_, done in passes for number, _, nodes in done["starts"]}  # the last time
    for row in possible:
        held = schedule.held[row].reshape(-1, 2).tolist()
        assert [pair[:2] for pair in placed[row + 1]] == [[platform.nodes[node], tasks] for node, tasks in held], (
            f"job {row + 1}"
        )


def random_history(seed, planner, count=80, foreign=0.0, some_jobs=some_jobs, node="machine"):
    """A life with cancellations, lost runs, other walltimes, capacity that comes and goes, and late ends.

    foreign: the share of waiting jobs that somebody else starts before a pass, some of them beyond what is free.
    some_jobs: what jobs ask for. node: whose capacity comes and goes.
    """
    chance = random.Random(seed)
    now, number, passes = 1_000 * SECOND, 0, []
    waiting, running, facts_of = set(), {}, {}
    for _ in range(count):
        now += chance.choice([1, 10, 60, 200]) * SECOND
        messages = []
        for _ in range(chance.randint(0, 3)):
            number += 1
            (_, _, _, facts) = some_jobs(chance.random(), 1)[0]
            messages += [["submit", number, facts], ["wait", number]]
            waiting.add(number)
            facts_of[number] = facts
        for job in [*running]:
            if chance.random() < 0.2:
                messages.append(["gone", job, chance.choice(["COMPLETED", "TIMEOUT", "NODE_FAIL", "CANCELLED"])])
                del running[job]
                if chance.random() < 0.2:
                    messages.append(["wait", job])
                    waiting.add(job)
                else:
                    messages.append(["over", job])
        for job in sorted(waiting):
            if chance.random() < 0.05:
                messages += [["gone", job, "CANCELLED"], ["over", job]]
                waiting.discard(job)
            elif chance.random() < 0.05:
                messages.append(["change", job, {"walltime": chance.choice([20, 500]) * SECOND}])
        for job in sorted(waiting):
            if foreign and chance.random() < foreign:
                where = [] if node == "machine" else [[[node, facts_of[job]["tasks"]]]]
                messages.append(["began", job, now - chance.choice([0, 1, 5]) * SECOND, "", *where])
                waiting.discard(job)
                running[job] = now
        if chance.random() < 0.1:
            more = {"cpus": 8, "matlab": chance.choice([1, 2, 3, 4])} if node == "machine" else some_cpus(chance)
            messages.append(["capacity", RESOURCES | more, node])
        done = planner.decide(now, messages)
        if foreign:
            check(planner.state, overbooked=True)
        passes.append([now, messages, done])
        for job, *_ in done["preempts"]:
            waiting.add(job)
            del running[job]
        for job, *_ in done["starts"]:
            waiting.discard(job)
            running[job] = now
    return passes, running


def some_cpus(chance):
    """Return random amounts of a node of kind m, which may be degraded or down."""
    return {"cpus": chance.choice([8, 8, 2, 0]), "memory": 16, "abaqus": 2}


@some_policies
@seeds(2)
def test_a_planner_that_is_made_anew_decides_as_the_one_that_lived(name, seed):
    epoch = EPOCH | {"policy": name}
    passes, _ = random_history(seed, Planner(name, epoch))
    half = len(passes) // 2
    asked = {"do": "begin", "epoch": epoch, "history": [[now, said] for now, said, _ in passes[:half]]}
    planner, told = answer(None, json.loads(json.dumps(asked)))
    assert told["passes"] == [decisions(done) for _, _, done in passes[:half]]
    assert told["wake"] == passes[half - 1][2]["wake"]
    for now, said, done in passes[half:]:
        planner, told = answer(planner, json.loads(json.dumps({"do": "ask", "now": now, "messages": said})))
        assert json.dumps(told) == json.dumps(done)


@some_policies
def test_a_planner_from_the_disk_decides_as_the_one_that_lived(name, tmp_path):
    epoch, file = EPOCH | {"policy": name}, tmp_path / "kept"
    passes, _ = random_history(7, Planner(name, epoch))
    lived, half = Planner(name, epoch), len(passes) // 2
    for now, said, _ in passes[:half]:
        lived.decide(now, said)
    save(lived, file, {})
    asked = {"do": "begin", "epoch": epoch, "history": [[now, said] for now, said, _ in passes[half:-1]]}
    planner, told = answer(load_planner(file, epoch), json.loads(json.dumps(asked)))
    assert told["passes"] == [decisions(done) for _, _, done in passes[half - 1 : -1]]
    for now, said, _ in passes[half:-1]:
        lived.decide(now, said)
    if lived.policy.keeps:
        assert {job: t for job, t, *_ in told["plan"] if t is not None} == lived.reserved()
    now, said, done = passes[-1]
    assert json.dumps(planner.decide(now, said)) == json.dumps(done)


@some_policies
def test_a_planner_that_learns_something_early_decides_as_if_it_had_not(name):
    """A question is asked between two passes, of a copy that knows all that has happened since."""
    passes, _ = random_history(3, Planner(name, EPOCH))
    planner, chance = Planner(name, EPOCH), random.Random(3)
    for now, said, done in passes:
        some = sorted(chance.randrange(len(said) + 1) for _ in range(2))
        for first, last in pairwise([0, *some]):
            planner.learn(said[first:last])
        assert json.dumps(planner.decide(now, said[some[-1] :])) == json.dumps(done)


@some_policies
@seeds(3)
def test_jobs_that_somebody_else_starts_are_runs_like_others(name, seed):
    planner = Planner(name, EPOCH)
    passes, running = random_history(seed, planner, foreign=0.1)
    foreign = {message[1] for _, said, _ in passes for message in said if message[0] == "began"}
    assert len(foreign) > 10
    now = passes[-1][0] + SECOND
    last = planner.decide(now, [["capacity", RESOURCES]])  # enough for every job
    running |= dict.fromkeys(job for job, _ in last["starts"])
    running = {job: 1 for job in running if job not in [job for job, _ in last["preempts"]]}
    while running or planner.state.queue.waiting:  # every job runs, whoever started it, and the queue runs empty
        now = max(now + SECOND, min(last["wake"] or now, now + 10_000 * SECOND))
        last = planner.decide(now, [["gone", job, "COMPLETED"] for job in running])
        running = dict.fromkeys(job for job, _ in last["starts"])
        assert running or not planner.state.queue.waiting or last["wake"] is not None
    check(planner.state)


def check_promises(planner):
    """No job holds a start at which the runs that reach beyond it leave less of what there is now than it needs."""
    state, machine = planner.state, planner.state.machine
    active = state.runs.by_limit[: state.runs.active]
    for job in np.flatnonzero(state.queue.waits[: state.jobs.count]):
        t = state.promises.reserved[job]
        if t != NO_TIME:
            held = state.jobs.need[state.runs.job[active[state.runs.limits[: len(active)] > t]]].sum(axis=0)
            need = state.jobs.need[job]
            assert ((need == 0) | (held + need <= machine.capacity[0])).all(), f"job {planner.ids[job]} at {t}"


@pytest.mark.parametrize("name", [name for name in POLICIES if load(name)[0].keeps])
@seeds(3)
def test_nothing_is_promised_of_capacity_that_is_gone_although_runs_hold_it_still(name, seed):
    chance, planner, running, now = random.Random(seed), Planner(name, EPOCH), {}, 1_000 * SECOND
    less = 0
    for number, _, runtime, facts in some_jobs(seed, 120):
        now += chance.choice([1, 10, 60]) * SECOND
        messages = [["gone", job, "COMPLETED"] for job, end in running.items() if end <= now]
        running = {job: end for job, end in running.items() if end > now}
        if chance.random() < 0.2:
            messages.append(["capacity", RESOURCES | {"cpus": chance.randint(0, 8), "matlab": chance.randint(0, 3)}])
        done = planner.decide(now, [*messages, ["submit", number, facts], ["wait", number]])
        for job, *_ in done["preempts"]:
            del running[job]
        running |= {job: now + runtime for job, _ in done["starts"]}
        less += int((planner.state.free.nodes < 0).any())
        check(planner.state, overbooked=True)
        check_promises(planner)
    assert less > 5


def test_a_job_that_needs_all_of_a_machine_that_shrinks_is_promised_nothing():
    facts = {"need": {"cpus": 8}, "walltime": 100 * SECOND, "grace": 0, "priority": 0, "user": "a", "project": "",
             "deadline": None}  # fmt: skip
    planner = Planner("conservative", EPOCH)
    planner.decide(SECOND, [["submit", 1, facts], ["wait", 1]])
    small = facts | {"need": {"cpus": 4}}
    done = planner.decide(
        2 * SECOND,
        [["capacity", RESOURCES | {"cpus": 4}], ["submit", 2, facts], ["wait", 2], ["submit", 3, small], ["wait", 3]],
    )
    assert dict(done["plan"]) == {3: 101 * SECOND}
    done = planner.decide(3 * SECOND, [["capacity", RESOURCES]])
    assert dict(done["plan"])[2] == 201 * SECOND


@some_policies
def test_a_state_that_gets_more_rows_in_the_middle_of_its_life_decides_the_same(name, monkeypatch):
    expected, _ = random_history(5, Planner(name, EPOCH), foreign=0.05)
    monkeypatch.setattr(planner_module, "ROOM", 1)
    monkeypatch.setattr(Planner, "_forget", lambda planner: None)
    planner = Planner(name, EPOCH)
    found, _ = random_history(5, planner, foreign=0.05)
    assert planner.state.jobs.rows > 64  # after several moves
    assert json.dumps(found) == json.dumps(expected)


FORGETFUL = [name for name in POLICIES if load(name)[0].forgets != "no"]
FEW = ("easy", "conservative", "lookahead")  # on nodes each takes seconds


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        *((name, False) for name in share("rows used again", FORGETFUL, of=8)),
        *((name, True) for name in (FORGETFUL if LONG else FEW)),
    ],
)
def test_rows_of_jobs_that_are_over_are_used_again_and_no_decision_changes(name, nodes, monkeypatch, tmp_path):
    platform = cluster(tmp_path, CLUSTER) if nodes else None
    how = {"foreign": 0.05, "count": 120}
    if nodes:  # on which a pass takes longer
        how |= {"some_jobs": jobs_for_nodes, "node": "m1", "count": 50}
    with monkeypatch.context() as patch:
        patch.setattr(Planner, "_forget", lambda planner: None)
        grown = Planner(name, EPOCH, platform)
        expected, _ = random_history(5, grown, **how)
    monkeypatch.setattr(planner_module, "ROOM", 1)
    planner = Planner(name, EPOCH, platform)
    forgotten, forget = [], Planner._forget
    monkeypatch.setattr(Planner, "_forget", lambda one: (forgotten.append(len(one._over)), forget(one)))
    found, _ = random_history(5, planner, **how)
    assert json.dumps(found) == json.dumps(expected)
    assert planner.jobs < grown.jobs
    assert sum(forgotten) <= grown.jobs  # each row is looked at once


def rows_of(planner):
    """What a State has of each job, licences and accounts of limits in ascending order, and what a planner notes."""
    state, jobs = planner.state, planner.state.jobs
    count, first = int(jobs.count), jobs.licence_first.tolist()
    of_jobs = {name: getattr(jobs, name) for name in fields_of(jobs) if "licence" not in name and "after" not in name}
    told = {name: column[:count].tolist() for name, column in of_jobs.items() if np.ndim(column) and len(column)}
    told["after"] = jobs.after_first[: count + 1].tolist()
    items = list(zip(jobs.licence.tolist(), jobs.licence_count.tolist(), strict=False))
    told["items"] = [sorted(items[begin:end]) for begin, end in pairwise(first[: count + 1])]
    told |= {name: getattr(state.runs, name)[:count].tolist() for name in ("whole", "ready")}
    told |= {"project of": state.projects.of[:count].tolist()}
    told |= {"origins": [state.plan.rooms_origin, state.other.rooms_origin]}
    return told | {"room": planner.entry.room, "whole nodes": planner._whole, "raised": planner._raised}


@pytest.mark.parametrize("name", ["easy", "conservative", "2tsb", "preemptive:how=suspend", "thread-matrix"])
@pytest.mark.parametrize(
    ("limits", "exact"),
    [
        (True, kinds.EXACT),
        *(pytest.param(*one, marks=pytest.mark.long) for one in ((False, 3), (True, 3), (False, kinds.EXACT))),
    ],
)
def test_a_job_that_asks_for_what_is_known_gets_the_row_that_columns_give(limits, name, exact, monkeypatch, tmp_path):
    monkeypatch.setattr(kinds, "EXACT", exact)
    monkeypatch.setattr(entry, "MANY", 200)
    monkeypatch.setattr(planner_module, "ROOM", 16)
    platform = cluster(tmp_path, CLUSTER if limits else CLUSTER[: CLUSTER.index("[[limit]]")])
    few = jobs_for_nodes(1, 40)
    one, other = (Planner(name, {"base": []}, platform, HOW) for _ in range(2))
    alone = [0]
    monkeypatch.setattr(one, "_enter_alike", lambda *told: alone.append(Planner._enter_alike(one, *told)))
    some = lambda chance, count: [random.Random(chance).choice(few)]  # noqa: E731
    passes, _ = random_history(3, one, 200, some_jobs=some, node="m1")
    monkeypatch.setattr(planner_module, "SEVERAL", 0)
    for now, messages, done in passes:
        assert other.decide(now, messages) == done
    assert rows_of(one) == rows_of(other)
    assert len(alone) > 100


@a_share(FORGETFUL, of=8)
def test_jobs_that_all_went_unstarted_leave_rows_and_nothing_else(name, monkeypatch):
    monkeypatch.setattr(planner_module, "ROOM", 4)
    planner, facts = Planner(name, EPOCH), some_jobs(1, 1)[0][3] | {"project": ""}
    held = range(1, 31)
    for number in (*held, *range(31, 36)):
        planner.decide(number * SECOND, [["submit", number, facts]])
    for first in (1, 11, 21):
        said = [[kind, number, *how] for number in range(first, first + 10)
                for kind, *how in (["gone", "CANCELLED"], ["over"])]  # fmt: skip
        planner.decide((40 + first) * SECOND, said)
    assert planner.jobs < 16
    assert planner.state.runs.last[: planner.jobs].tolist() == [-1] * planner.jobs
    waits = [["wait", number] for number in range(31, 36)]
    done, started = planner.decide(90 * SECOND, waits), set()
    for t in range(100, 2_000, 10):
        started |= {number for number, *_ in done["starts"]}
        over = [[kind, number, *how] for number, *_ in done["starts"]
                for kind, *how in (["gone", "COMPLETED"], ["over"])]  # fmt: skip
        done = planner.decide(t * SECOND, over)
    assert started == {*range(31, 36)}
    none = Planner(name, EPOCH)
    none.decide(SECOND, [["submit", number, facts] for number in held])
    none.decide(2 * SECOND, [[kind, number, *how] for number in held
                             for kind, *how in (["gone", "CANCELLED"], ["over"])])  # fmt: skip
    assert none.decide(3 * SECOND, [["submit", 50, facts], ["wait", 50]])["starts"][0][0] == 50


@some_policies
def test_a_pass_that_comes_late_finds_its_way_back(name):
    """The daemon was away, or the machine slept: nothing happens when the policy asked to be asked, but later."""
    chance = random.Random(name)
    planner, now, running, started = Planner(name, EPOCH), 1_000 * SECOND, {}, set()
    jobs = {number: (length, facts) for number, _, length, facts in some_jobs(name, 40)}
    todo = sorted(jobs)
    for _ in range(400):
        now += chance.choice([3, 50, 400, 5000]) * SECOND
        messages = [["gone", job, "COMPLETED"] for job, end in running.items() if end <= now]
        running = {job: end for job, end in running.items() if end > now}
        for job in todo[: chance.randint(0, 4)]:
            messages += [["submit", job, jobs[job][1]], ["wait", job]]
            todo.remove(job)
        done = planner.decide(now, messages)
        for job, *_ in done["preempts"]:
            del running[job]
        for job, _ in done["starts"]:
            started.add(job)
            running[job] = now + jobs[job][0]
        if len(started) == len(jobs):
            return
    raise AssertionError(f"{len(jobs) - len(started)} jobs were never started")


@pytest.mark.parametrize("name", ["fcfs", "easy", "conservative"])
def test_an_epoch_begins_with_the_jobs_that_run(name):
    facts = {"need": {"cpus": 3}, "walltime": 100 * SECOND, "grace": 0, "priority": 0, "user": "a", "project": "",
             "deadline": None}  # fmt: skip
    base = [
        [4, facts | {"submit": 5}, 10 * SECOND],
        [7, facts | {"submit": 6}, 20 * SECOND],
        [9, facts | {"submit": 7}, None],
    ]
    planner = Planner(name, EPOCH | {"base": base})
    done = planner.decide(50 * SECOND, [["wait", 9], ["submit", 10, facts | {"need": {"cpus": 2}}], ["wait", 10]])
    assert [job for job, _ in done["starts"]] == ([] if name == "fcfs" else [10])
    done = planner.decide(60 * SECOND, [["gone", 4, "COMPLETED"]])
    assert 9 in [job for job, _ in done["starts"]]


def test_a_drop_of_capacity_below_what_is_held_kills_nothing_and_starts_nothing():
    facts = {"need": {"cpus": 4}, "walltime": 100 * SECOND, "grace": 0, "priority": 0, "user": "a", "project": "",
             "deadline": None}  # fmt: skip
    planner = Planner("easy", EPOCH)
    planner.decide(SECOND, [["submit", 1, facts], ["wait", 1], ["submit", 2, facts], ["wait", 2]])
    small = facts | {"need": {"cpus": 1}}
    done = planner.decide(2 * SECOND, [["capacity", RESOURCES | {"cpus": 5}], ["submit", 3, small], ["wait", 3]])
    assert done["starts"] == []
    done = planner.decide(3 * SECOND, [["gone", 1, "COMPLETED"]])
    assert [job for job, _ in done["starts"]] == [3]
    assert int(planner.state.machine.capacity[0, 0]) == 5


@pytest.mark.parametrize("name", PROCESSORS)
def test_a_policy_of_processors_is_refused(name):
    with pytest.raises(UsageError, match=f"policy {name} schedules nodes of one cpu each, .*; machine is different"):
        load_policy(name)


@pytest.mark.parametrize("name", ROWS)
def test_a_policy_whose_rows_take_turns_is_refused_unless_there_is_one_row(name):
    why = "which a queue cannot carry out: its jobs have processors of their own, and walltimes by the clock"
    told = f"policy {name} lets jobs take turns on the processors, {why}; expected mpl=1"
    with pytest.raises(UsageError, match=told):
        load_policy(name)
    assert load_policy(f"{name}:mpl=1")[0].name == name


def test_what_is_there_is_not_forgotten_when_room_is_made():
    facts = {"walltime": 60 * SECOND, "grace": 0, "priority": 0, "user": "a", "project": "", "deadline": None}
    runs = [1, {**facts, "need": {"cpus": 4}, "submit": SECOND}, SECOND]
    planner = Planner("fcfs", {"policy": "fcfs", "resources": {"cpus": 2, "memory": 0, "gpus": 0}, "base": [runs]})
    more = [["submit", number, {**facts, "need": {"cpus": 1}}] for number in range(2, 600)]
    assert planner.decide(2 * SECOND, [*more, *(["wait", message[1]] for message in more)])["starts"] == []
    started = planner.decide(3 * SECOND, [["gone", 1, "COMPLETED"]])["starts"]
    assert [number for number, _ in started] == [2, 3]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("preemptive:how=suspend", "preempts jobs by suspend; .* expected preemptive:how=requeue"),
        ("preemptive:how=checkpoint", "preempts jobs by checkpoint; .* expected preemptive:how=requeue"),
        ("round-robin", "preempts jobs and keeps their progress; .* such as preemptive"),
    ],
)
def test_a_policy_that_keeps_what_a_preempted_job_has_done_is_refused(name, told):
    with pytest.raises(UsageError, match=told):
        load_policy(name)


def test_a_user_s_policy_that_says_requeue_and_does_something_else_is_found_out(tmp_path):
    text = Path(URGENT).read_text().replace("REQUEUE", "SUSPEND")
    (tmp_path / "mine.py").write_text(text)
    planner = Planner(str(tmp_path / "mine.py"), EPOCH)
    facts = {"need": {"cpus": 8}, "walltime": 100 * SECOND, "grace": 0, "priority": 0, "user": "a", "project": "",
             "deadline": None}  # fmt: skip
    planner.decide(SECOND, [["submit", 1, facts], ["wait", 1]])
    with pytest.raises(
        PolicyError, match="policy urgent preempts job 1 by suspend; the pool of the queue preempts them by requeue"
    ):
        planner.decide(2 * SECOND, [["submit", 2, facts | {"priority": 1}], ["wait", 2]])


def test_a_job_waits_or_runs_or_does_neither():
    planner = Planner("fcfs", {**EPOCH, "resources": {"cpus": 4}})
    facts = {"need": {"cpus": 4}, "walltime": 60 * SECOND}
    told = [[kind, job, *more] for job in (1, 2) for kind, *more in (["submit", facts], ["wait"])]
    (start,) = planner.decide(1_000 * SECOND, told)["starts"]
    assert start[0] == 1
    assert planner.state.runs.job[standing(planner.state, 0)] == 0
    assert standing(planner.state, 1) == WAITS
    planner.decide(1_001 * SECOND, [["gone", 1, "COMPLETED"], ["gone", 2, "CANCELLED"]])
    assert [standing(planner.state, row) for row in (0, 1)] == [NEITHER, NEITHER]


def wide(job, tasks, seconds):
    needs = {"need": {"cpus": 8}, "tasks": tasks, "walltime": seconds * SECOND}
    return [["submit", job, needs], ["wait", job]]


def test_a_job_that_did_not_fit_at_one_pass_is_asked_again_at_the_next():
    two = "".join(f'[[node]]\nname = "{name}"\ncpus = 8\n' for name in "ab")
    planner = Planner("selective:rule=fixed,threshold=2", {"base": [], "platform": two})
    planner.decide(SECOND, wide(1, 1, 30))
    planner.decide(2 * SECOND, wide(2, 2, 10))
    planner.decide(12 * SECOND, wide(3, 1, 1000))
    assert planner.reserved() == {2: 31 * SECOND}
    planner.decide(31 * SECOND, [["gone", 1, "COMPLETED"]])
    (start,) = planner.decide(41 * SECOND, [["gone", 2, "COMPLETED"]])["starts"]  # at its limit: nothing is released
    assert start[0] == 3
