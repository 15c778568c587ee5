"""Real processes, real kills: kill -9 of daemon, keeper and supervisors at named and at random points.

A job appends its number to a file when it runs; so the file says how often each ran. It holds a lock of its own, and
one for each of its cpus, while its process lives. `make test-live` does this a thousand times and more
(BACKFILL_KILLS), `make test` a few.
"""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from backfill.queue.deep import check_deep
from backfill.system import processes

KILLS = int(os.environ.get("BACKFILL_KILLS", "0"))
JOBS = 6
ROUNDS = 20 if KILLS else 6
VICTIMS, WEIGHTS = ("daemon", "keeper", "supervisor", "planner", "all"), (2, 3, 6, 1, 1)
# A job that writes down if another attempt of it lives, or if fewer cpus are free than it was given.
SCRIPT = """
exec 9>>lock.$BACKFILL_JOB_ID
flock -n 9 || echo $BACKFILL_JOB_ID >> twice
exec 5>>cpu.1 6>>cpu.2 7>>cpu.3 8>>cpu.4
got=0
for cpu in 5 6 7 8; do
  [ $got -lt $BACKFILL_CPUS ] && flock -n $cpu && got=$((got + 1))
done
[ $got -eq $BACKFILL_CPUS ] || echo $BACKFILL_JOB_ID >> beyond
echo $BACKFILL_JOB_ID >> ran
exec sleep {}
"""
OVER = ("COMPLETED", "FAILED", "NODE_FAIL", "TIMEOUT", "CANCELLED")


def ran(live):
    try:
        lines = (live.folder / "ran").read_text().split()
    except FileNotFoundError:
        lines = []
    return [int(line) for line in lines]


def submit_some(live, count=JOBS, **env):
    return [live.submit("-t", "1", "--wrap", "echo $BACKFILL_JOB_ID >> ran; sleep 0.05", **env) for _ in range(count)]


def over(live, numbers):
    states = {job["id"]: job["state"] for job in live.jobs()}
    assert set(numbers) <= set(states), "an acknowledged job is lost"
    return states if all(states[number] in OVER for number in numbers) else None


def check(live, numbers, unknown=()):
    """Every acknowledged job is over, ran once, and its record is true."""
    states = live.until(lambda: over(live, numbers))
    counts = {number: ran(live).count(number) for number in states}
    for name in ("twice", "beyond"):
        assert not (live.folder / name).exists(), f"{name}: {(live.folder / name).read_text()}"
    for number, state in states.items():
        leave = live.job(number)["preemptions"]
        assert counts[number] <= 1 + leave, f"job {number} ran {counts[number]} times"
        if unknown and state == "FAILED":  # a process that was to become the job looks like its supervisor until then
            assert live.job(number)["signal"] == signal.SIGKILL
            continue
        well = state == "COMPLETED" and 1 <= counts[number] <= 1 + leave
        assert state in unknown or well, (number, state, counts[number])
    live.run("serve", "--stop")
    assert check_deep(live.folder) == []
    return states


@pytest.mark.parametrize("point", ["before-commit", "after-commit", "asked"])
@pytest.mark.parametrize("count", [1, 2, 4, 7, 11] if KILLS else [5])
def test_a_daemon_that_is_killed_at_a_named_point_loses_nothing(live, point, count):
    numbers = submit_some(live, BACKFILL_FAULT=f"{point}:{count}")
    check(live, numbers)


@pytest.mark.parametrize("point", ["asked-to-launch", "claimed", "processes-known", "released", "before-exit-record",
                                   "after-exit-record"])  # fmt: skip
def test_supervisors_that_are_killed_at_a_named_point_run_no_job_twice(live, point):
    # The first keeper kills itself or each of its supervisors at this point; then one comes that does not.
    number = live.submit("-t", "1", "--wrap", "echo $BACKFILL_JOB_ID >> ran; sleep 0.05", KEEPER_FAULT=point)

    def tried():
        events = live.job(number)["events"]
        return [kind for _, kind, _ in events if kind in ("unstarted", "end")]

    live.until(tried)
    live.kill(live.daemon(), *live.keepers())
    live.until(lambda: not live.keepers())
    if live.job(number)["reason"] == "LaunchFailed":
        live.run("release", number)
    states = live.until(lambda: over(live, [number]))
    # Only one that was released, and whose supervisor and keeper both died, may have an end that nobody knows.
    assert states[number] == "COMPLETED" or point in ("released", "before-exit-record"), states
    assert ran(live) == [number]


def test_the_keeper_knows_how_the_job_of_a_killed_supervisor_ended(live):
    number = live.submit("--wrap", "echo $BACKFILL_JOB_ID >> ran; while [ ! -e go ]; do sleep 0.05; done; exit 7")
    live.until(lambda: ran(live))
    known = json.loads((live.folder / "run" / f"{number}.1" / "proc.json").read_text())
    live.kill(known["supervisor"])
    (live.folder / "go").touch()
    live.run("wait", number, check=7)
    assert live.job(number)["state"] == "FAILED"
    record = json.loads((live.folder / "run" / f"{number}.1" / "exit.json").read_text())
    assert record["by"] == "keeper"


def test_an_end_that_nobody_saw_is_never_called_a_success(live):
    number = live.submit("--wrap", "echo $BACKFILL_JOB_ID >> ran; while [ ! -e go ]; do sleep 0.05; done")
    live.until(lambda: ran(live))
    keepers = live.keepers()
    known = json.loads((live.folder / "run" / f"{number}.1" / "proc.json").read_text())
    assert known["supervisor"] in keepers
    live.kill(*keepers)
    (live.folder / "go").touch()
    states = live.until(lambda: over(live, [number]))
    assert states[number] == "NODE_FAIL"
    assert ran(live) == [number]


def test_an_orphan_is_ended_at_its_limit_by_the_daemon(live):
    number = live.submit(
        "-t", "2s", "--grace", "1s", "--wrap", "trap '' TERM; echo $BACKFILL_JOB_ID >> ran; sleep 60 & wait; wait"
    )
    live.until(lambda: ran(live))
    known = json.loads((live.folder / "run" / f"{number}.1" / "proc.json").read_text())
    live.kill(known["supervisor"])
    live.run("wait", number, check=None)
    assert not processes.begun(known["pid"])
    assert live.job(number)["state"] == "TIMEOUT"


@pytest.mark.parametrize("policy", ["easy", "preemptive"])
@pytest.mark.parametrize("seed", range(KILLS // ROUNDS // 2 or 1))
def test_kills_at_random(live, seed, policy):
    """Daemon, keeper, planner and supervisors at random instants while jobs come and go, a kill or more each round."""
    chance = random.Random(seed)
    live.configure(policy)
    numbers, killed = [], dict.fromkeys(VICTIMS, 0)
    for _ in range(ROUNDS):
        who, there = chance.choices(VICTIMS, WEIGHTS)[0], False
        while not there:  # a job that was over too soon left nobody to kill
            for _ in range(4 if policy == "preemptive" else 1):
                cpus = chance.choice([1, 2, 2, 4]) if policy == "preemptive" else 1
                script = SCRIPT.replace("{}", str(chance.choice([0, 0.1, 0.5, 3])))
                numbers.append(live.submit_quickly("/bin/sh", "-c", script, cpus=cpus))
            while not there and live.request("queue")["jobs"]:
                there = bool(victims(live, who, chance))
        time.sleep(chance.random() * 0.2)
        some = victims(live, who, chance)
        killed[who] += len(some)
        live.kill(*some)

    def all_over():
        jobs = live.request("queue", ended=1000)["jobs"]
        for job in jobs:
            if job["reason"] == "LaunchFailed":
                live.request("release", ids=[job["id"]])
        states = {job["id"]: job["state"] for job in jobs}
        assert set(numbers) <= set(states), "an acknowledged job is lost"
        return all(state in OVER for state in states.values())

    live.until(all_over)
    states = check(live, numbers, unknown=("NODE_FAIL",))
    live.run("replay", live.folder, "--check")
    unknown = sum(state == "NODE_FAIL" for state in states.values())
    preempted = sum(live.job(number)["preemptions"] for number in states)
    kills = f"{sum(killed.values())} kills {killed}, {preempted} preempted"
    print(f"{policy} {seed}: {kills}, {len(states)} jobs, {unknown} with an unknown end")


REMOVALS = (
    "rm -rf $BACKFILL_HOME/run/$BACKFILL_JOB_ID.$BACKFILL_ATTEMPT",
    "rm -rf $BACKFILL_HOME/run/*",
    "rm -rf $BACKFILL_HOME/script $BACKFILL_HOME/run/*/lock",
    "rm -f $BACKFILL_HOME/witness",
    "setsid sleep 60 &",
)


# A policy that decides until somebody wants it to loop for ever.
LOOPING = """
import os
from backfill.core import policy
from backfill.verbs import FIT, following, place, rewind, start

@policy("looping", compiled=False)
def looping(state):
    while os.path.exists("{folder}/loop"):
        pass
    rewind(state, 0)
    while (job := following(state, 0)) >= 0:
        if place(state, job):
            start(state, job, FIT)
            rewind(state, 0)
"""


@pytest.mark.parametrize("seed", range(KILLS // ROUNDS // 2 or 1))
def test_kills_at_random_among_scripts_that_clean_up_and_copies_that_are_restored(live, seed):
    """The same with jobs that remove run folders or leave processes behind, a queue that goes back to a copy, and every
    other time a policy that loops for a while."""
    chance = random.Random(seed)
    if seed % 2:
        (live.folder / "looping.py").write_text(LOOPING.format(folder=live.folder))
        live.configure("looping.py:looping")
    numbers, stored, copied, killed, restores = [], [], [], 0, 0
    for round_ in range(ROUNDS):
        for _ in range(3):
            clean = chance.choice(REMOVALS) if chance.random() < 0.5 else ":"
            script = SCRIPT.replace("exec sleep {}", f"{clean}\nsleep {chance.choice([0, 0.1, 0.5, 2])}")
            numbers.append(live.submit_quickly("/bin/sh", "-c", script, cpus=chance.choice([1, 1, 2])))
            stored.append(numbers[-1])
        if round_ % 4 == 1:
            live.run("serve", "--backup", f"backups/copy.{round_}.db")
            copied = [*stored]
        elif round_ % 4 == 3:
            live.run("serve", "--restore", f"backups/copy.{round_ - 2}.db")
            stored = [*copied]  # what was submitted since then is lost, but for what runs
            restores += 1
        if seed % 2 and round_ == 9:
            (live.folder / "loop").touch()
        time.sleep(chance.random() * 0.3)
        some = victims(live, chance.choices(VICTIMS, WEIGHTS)[0], chance)
        killed += len(some)
        live.kill(*some)
    assert len({*numbers}) == len(numbers), "a number was given twice"

    def all_over():
        jobs = live.request("queue", ended=1000)["jobs"]
        for job in jobs:
            if job["reason"] == "LaunchFailed":
                live.request("release", ids=[job["id"]])
        states = {job["id"]: job["state"] for job in jobs}
        assert {*stored} <= {*states}, "an acknowledged job is lost"
        return states if all(state in OVER for state in states.values()) else None

    states = live.until(all_over)
    decided = live.request("queue")["policy"]
    counts = {number: ran(live).count(number) for number in numbers}
    for name in ("twice", "beyond"):
        assert not (live.folder / name).exists(), f"{name}: {(live.folder / name).read_text()}"
    assert max(counts.values()) == 1, counts
    assert all(counts[number] == 1 for number, state in states.items() if state == "COMPLETED")
    live.run("serve", "--stop")
    assert [line for line in check_deep(live.folder) if "witness" not in line] == []  # some jobs remove that
    unknown = sum(state == "NODE_FAIL" for state in states.values())
    told = f"{killed} kills, {restores} restores, {len(numbers)} jobs, {unknown} with an unknown end"
    print(f"{seed}: {told}, policy {Path(decided).name}")


def preempted_one(live, **env):
    """A job in whose way another one is preempted. Returns both."""
    live.configure("preemptive")
    waits = SCRIPT.replace("exec sleep {}", "while [ ! -e go ]; do sleep 0.05; done")
    first = live.submit("-t", "60", "-c", "2", "--wrap", waits, **env)
    live.until(lambda: live.jobs() and first in ran(live))  # asking starts a daemon in the place of a killed one
    head = live.submit("-t", "60", "-c", "4", "--wrap", SCRIPT.replace("{}", "0.1"))
    again = SCRIPT.replace("exec sleep {}", "[ -e go ] || exec sleep 3000")  # its second run is short
    behind = live.submit("-t", "60", "-c", "2", "--wrap", again)
    live.until(lambda: live.jobs() and behind in ran(live))
    (live.folder / "go").touch()
    return [first, head, behind]


@pytest.mark.parametrize("point", ["before-commit", "after-commit", "asked"])
@pytest.mark.parametrize("count", [*range(8, 24)] if KILLS else [11])
def test_a_daemon_that_is_killed_while_jobs_make_way_loses_nothing(live, point, count):
    numbers = preempted_one(live, BACKFILL_FAULT=f"{point}:{count}")
    check(live, numbers)
    assert live.job(numbers[2])["preemptions"] == 1
    live.run("replay", live.folder, "--check")


@pytest.mark.parametrize("point", ["stands-still", "told"])
def test_a_supervisor_that_is_killed_while_its_job_makes_way_ends_it_all_the_same(live, point):
    numbers = preempted_one(live, KEEPER_FAULT=point)
    check(live, numbers)
    (made_way,) = (data for _, kind, data in live.job(numbers[2])["events"] if kind == "preempted")
    assert made_way["for"] == numbers[1]
    assert live.job(numbers[2])["preemptions"] == 1


def test_a_job_that_makes_way_when_all_that_watched_it_is_killed_is_not_lost(live):
    numbers = preempted_one(live, KEEPER_FAULT="told")

    def told():
        return (live.folder / "run" / f"{numbers[2]}.1" / "told").exists()

    live.until(told)
    live.kill(live.daemon(), *live.keepers())
    check(live, numbers)


def test_a_cancel_that_was_committed_just_before_the_daemon_died_is_carried_out(live):
    number = live.submit("-t", "5", "--wrap", "exec sleep 3000")
    live.until(lambda: live.job(number)["state"] == "RUNNING")
    live.run("serve", "--stop")
    live.run("serve", "--detach", BACKFILL_FAULT="after-commit:2")  # the first writes down that the daemon is up
    live.run("cancel", number)
    live.run("wait", number, check=None)
    assert live.job(number)["state"] == "CANCELLED"
    assert (live.folder / "died").exists()


def victims(live, who, chance):
    """The processes of one kind, or all; of the supervisors one."""
    daemon, some = live.daemon(), live.keepers()
    supervisors = sorted({*some} & {child for pid in some for child in processes.children(pid)})
    keepers = sorted({*some} - {*supervisors})  # and supervisors that have lost theirs
    found = {
        "daemon": [daemon],
        "keeper": keepers,
        "supervisor": [chance.choice(supervisors)] if supervisors else [],
        "planner": processes.children(daemon) if daemon else [],
        "all": [daemon, *some],
    }[who]
    return [pid for pid in found if pid]


def test_the_end_of_the_log_may_be_lost_and_what_runs_is_not_started_again(live):
    first = live.submit("--wrap", "echo $BACKFILL_JOB_ID >> ran")
    live.run("wait", first)
    live.run("serve", "--stop")
    kept = (live.folder / "store.db").read_bytes()  # all of the log so far is in it
    second = live.submit("--wrap", "echo $BACKFILL_JOB_ID >> ran; sleep 1")
    live.until(lambda: second in ran(live))
    live.kill(live.daemon())
    live.until(lambda: not live.daemon())
    for name in ("store.db-wal", "store.db-shm"):
        (live.folder / name).unlink(missing_ok=True)
    (live.folder / "store.db").write_bytes(kept)
    assert live.job(second)["state"] in ("STARTING", "RUNNING", "COMPLETED")
    live.run("wait", second)
    assert ran(live) == [first, second]
    assert "the end of the log was lost" in (live.folder / "daemon.log").read_text()


def test_a_store_that_cannot_be_read_is_told_in_one_line(live):
    live.submit("-H", "--", "true")
    live.run("serve", "--stop")
    store = live.folder / "store.db"
    kept = store.read_bytes()
    store.write_bytes(b"this is no database" * 1000)
    assert live.run("queue", check=4).stderr.startswith("backfill: the daemon does not start: ")
    store.write_bytes(kept)
    import sqlite3

    with sqlite3.connect(store) as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    assert "schema version 99" in live.run("queue", check=4).stderr


def test_a_second_daemon_names_the_first(live):
    live.submit("-H", "--", "true")
    done = live.run("serve", check=75)
    assert done.stderr == f"backfill: process {live.daemon()} serves {live.folder} already\n"
