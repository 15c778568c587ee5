"""Jobs that remove what the queue knows of them, and queues that go on from an old copy: nothing runs twice."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from backfill.queue import attempts, processes, supervisor, witness
from backfill.queue.deep import check_deep
from backfill.queue.store import Store
from tests.patience import PATIENCE_S

OVER = ("COMPLETED", "FAILED", "NODE_FAIL", "TIMEOUT", "CANCELLED")


def lines(live, name="ran"):
    try:
        return (live.folder / name).read_text().split()
    except FileNotFoundError:
        return []


def script(live, text):
    path = live.folder / "here" / "s.sh"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/bash\necho run >> {live.folder}/ran\n{text}\n")
    return path


def over(live, number):
    job = live.request("show", ids=[number])["jobs"][0]
    return job if job["state"] in OVER else None


UNTIL_GO = "while [ ! -e go ]; do sleep 0.05; done"

# What users' scripts do, and what cleaners of temporary files do to them.
REMOVALS = {
    "its own folder": 'rm -rf "$(dirname "$0")"',
    "all beside it": 'cd "$(dirname "$0")" && rm -rf *',
    "its run folder": "rm -rf $BACKFILL_HOME/run/$BACKFILL_JOB_ID.$BACKFILL_ATTEMPT",
    "all run folders": "rm -rf $BACKFILL_HOME/run/*",
    "the folder of run folders": "rm -rf $BACKFILL_HOME/run",
    "the witness too": "rm -rf $BACKFILL_HOME/run/* $BACKFILL_HOME/witness",
    "small files of it": "rm -f $BACKFILL_HOME/run/*/lock $BACKFILL_HOME/run/*/claim $BACKFILL_HOME/run/*/proc.json",
}


@pytest.mark.parametrize("what", REMOVALS)
def test_a_script_that_removes_what_is_known_of_it_runs_once(live, what):
    number = live.submit("-t", "1", script(live, f"{REMOVALS[what]}\nsleep 0.3"))
    job = live.until(lambda: over(live, number))
    after = live.submit("-t", "1", "--", "true")  # the daemon has looked at everything since
    live.run("wait", after)
    assert lines(live) == ["run"]
    assert (job["state"], job["attempt"]) == ("COMPLETED", 1)
    live.run("serve", "--stop")
    assert check_deep(live.folder) == []


@pytest.mark.parametrize("what", ["its run folder", "all run folders", "the witness too", "small files of it"])
@pytest.mark.parametrize("who", ["daemon", "supervisor", "watchers", "all"])
def test_it_runs_once_whoever_is_killed_meanwhile(live, what, who):
    text = f"{REMOVALS[what]}\ncd {live.folder}\necho > removed\n{UNTIL_GO}"
    number = live.submit("-t", "60", "-c", "4", script(live, text))
    beside = live.submit("-t", "60", "-c", "4", "--wrap", f"echo {number} >> beside")
    live.until((live.folder / "removed").exists)
    (began,) = (record for kind, name, record in witness.read(str(live.folder)) if kind == "began") if (
        live.folder / "witness").exists() else ({},)  # fmt: skip
    victims = {"daemon": [live.daemon()], "watchers": live.keepers(), "all": [live.daemon(), *live.keepers()]}
    victims["supervisor"] = [began["supervisor"]] if began else live.keepers()
    live.kill(*victims[who])
    (live.folder / "go").touch()
    job = live.until(lambda: over(live, number))
    live.until(lambda: over(live, beside))
    assert lines(live) == ["run"]
    assert job["attempt"] == 1
    assert job["state"] in ("COMPLETED", "NODE_FAIL")
    assert job["state"] == "COMPLETED" or who != "daemon"
    live.run("serve", "--stop")
    assert check_deep(live.folder) == []


def test_a_store_that_is_removed_while_the_daemon_lives_is_written_anew(live):
    number = live.submit("-t", "1", script(live, "rm -rf $BACKFILL_HOME/store.db* $BACKFILL_HOME/run; sleep 1"))
    live.until(lambda: (live.folder / "store.db").exists() and lines(live))
    job = live.until(lambda: over(live, number))
    assert job["state"] == "COMPLETED"
    assert live.submit("--", "true") > number
    assert lines(live) == ["run"]


def test_what_a_killed_supervisors_job_left_behind_ends_before_its_cpus_are_given_away(live):
    """Descendants in sessions of their own: neither the process group nor the supervisor reaches them."""
    hold = "exec 9>cpu; flock -n 9 || echo taken >> clash; echo up >> up; sleep 6000"
    text = f"setsid bash -c '{hold}' & disown; {UNTIL_GO}"
    number = live.submit("-t", "60", "-c", "4", "--", "bash", "-c", text)
    live.until((live.folder / "up").exists)
    known = json.loads((live.folder / "run" / f"{number}.1" / "proc.json").read_text())
    next_one = live.submit("-t", "1", "-c", "4", "--", "bash", "-c", "exec 9>cpu; flock -n 9 || echo taken >> clash")
    live.kill(known["supervisor"])
    (live.folder / "go").touch()
    live.run("wait", next_one)
    assert not (live.folder / "clash").exists()
    assert processes.belonging(processes.marks(str(live.folder), f"{number}.1")) == []


@pytest.mark.parametrize("who", ["watchers", "all"])
def test_what_it_left_behind_ends_also_if_the_keeper_is_killed(live, who):
    text = f"setsid sleep 6000 & echo $! > child; {UNTIL_GO}"
    number = live.submit("-t", "60", "--", "bash", "-c", text)
    live.until(lambda: lines(live, "child"))
    live.kill(*([live.daemon()] if who == "all" else []), *live.keepers())
    (live.folder / "go").touch()
    live.until(lambda: over(live, number))
    assert processes.belonging(processes.marks(str(live.folder), f"{number}.1")) == []


def test_a_job_that_needs_the_daemon_does_not_become_its_parent(live):
    """A daemon that a job starts would end with the job, and with it all that this daemon started."""
    text = "while [ ! -e killed ]; do sleep 0.02; done; backfill submit --parsable -t 1 -- sleep 1 > second"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    first = live.submit("-t", "1", "--wrap", text, PATH=path)
    live.until(lambda: live.job(first)["state"] == "RUNNING")
    live.kill(live.daemon())
    (live.folder / "killed").touch()
    second = int(live.until(lambda: lines(live, "second"))[0])
    daemon = live.until(live.daemon)
    assert live.until(lambda: over(live, first))["state"] == "COMPLETED"
    assert live.until(lambda: over(live, second))["state"] == "COMPLETED"
    assert live.daemon() == daemon


# ---------------------------------------------------------------------- copies of the store


def test_a_restored_copy_runs_nothing_again_and_gives_no_number_twice(live):
    before = live.submit("-t", "1", "--wrap", "echo before >> ran; exit 3")
    waiting = live.submit("-t", "1", "-H", "--wrap", "echo waiting >> ran; exit 4")
    going = live.submit("-t", "1", "-H", "--wrap", "echo going >> ran; while [ ! -e go ]; do sleep 0.05; done; exit 5")
    never = live.submit("-t", "1", "-H", "--wrap", "echo never >> ran")
    live.run("wait", before, check=3)
    live.run("serve", "--backup", "copy.db")
    live.run("release", waiting, going)
    live.run("wait", waiting, check=4)
    later = live.submit("-t", "1", "--wrap", "echo later >> ran")
    live.run("wait", later)
    live.until(lambda: "going" in lines(live))
    live.run("serve", "--stop")
    for number in (before, waiting, later):  # as the daemon removes them after a while
        ends = [witness.line("over", f"{number}.1", {"state": "FAILED", "exit": 4, "signal": 0, "ended": 1})]
        witness.write(str(live.folder), *(ends if number == waiting else []))
        shutil.rmtree(live.folder / "run" / f"{number}.1")

    said = live.run("serve", "--restore", "copy.db").stdout
    assert f"2 jobs ({waiting}, {going}) had begun since" in said
    assert f"1 job ({later}) ran but are not in it" in said.replace("not in the copy", "not in it")
    (live.folder / "go").touch()
    live.run("wait", going, check=5)
    job = live.job(waiting)
    assert (job["state"], job["exit_code"], job["attempt"]) == ("FAILED", 4, 1)
    assert live.job(never)["state"] == "PENDING"
    fresh = live.submit("-t", "1", "--wrap", "echo fresh >> ran")
    assert fresh > later
    live.run("wait", fresh)
    assert sorted(lines(live)) == ["before", "fresh", "going", "later", "waiting"]
    live.run("serve", "--stop")
    live.run("serve", "--detach")  # the number stays
    assert live.submit("-H", "--", "true") == fresh + 1
    live.run("serve", "--stop")
    assert check_deep(live.folder) == []
    assert [*live.folder.glob("store-replaced-*.db")]


@pytest.mark.parametrize("marked", [True, False])
def test_a_copy_that_somebody_puts_in_place_by_hand_is_noticed(live, marked):
    number = live.submit("-t", "1", "--wrap", "echo ran >> ran", "-H")
    if marked:
        live.run("serve", "--backup", "copy.db")
    live.run("serve", "--stop")
    if not marked:  # a copy of the file, which says nothing of itself
        shutil.copy(live.folder / "store.db", live.folder / "copy.db")
    live.run("release", number)
    live.run("wait", number)
    live.run("serve", "--stop")
    shutil.rmtree(live.folder / "run")
    for end in ("", "-wal", "-shm"):
        (live.folder / f"store.db{end}").unlink(missing_ok=True)
    (live.folder / "copy.db").rename(live.folder / "store.db")
    live.run("release", number, check=None)
    job = live.until(lambda: over(live, number))
    assert job["state"] == "NODE_FAIL"
    assert lines(live) == ["ran"]
    assert live.submit("-H", "--", "true") > number + 100


@pytest.mark.parametrize("name", ["a#b", "what?", "50%", "a b", "ü%41"])
def test_a_backup_of_a_home_with_an_odd_name_is_a_backup(tmp_path, name):
    from backfill.queue.backups import back_up, back_up_if_due
    from tests.queue.test_store import filled

    home = tmp_path / name
    home.mkdir()
    filled(home / "store.db").close()
    assert back_up(str(home), str(home / "copy.db")) == ""
    assert back_up_if_due(home, 1_700_000_000.0) == ""
    for copy in (home / "copy.db", *(home / "backups").iterdir()):
        store = Store(copy, readonly=True)
        assert [job.id for job in store.jobs()] == [1, 2]
        store.close()


def test_a_file_that_is_no_backup_is_refused_and_changes_nothing(live):
    number = live.submit("-H", "--", "true")
    (live.folder / "empty.db").touch()
    (live.folder / "text.db").write_text("no store" * 1000)
    live.run("serve", "--backup", "copy.db")
    damaged = bytearray((live.folder / "copy.db").read_bytes())
    damaged[4096 * 2 : 4096 * 4] = os.urandom(4096 * 2)
    (live.folder / "damaged.db").write_bytes(damaged)
    for name in ("empty.db", "text.db", "damaged.db", "nowhere.db"):
        told = live.run("serve", "--restore", name, check=1).stderr
        assert name in told
        assert told.count("\n") == 1
    assert live.job(number)["state"] == "PENDING"


# ---------------------------------------------------------------------- one attempt, attacked at random


@pytest.mark.parametrize("seed", range(int(os.environ.get("BACKFILL_FAULT_RUNS", "0")) // 20 or 12))
def test_an_attempt_that_is_called_unstarted_never_runs(tmp_path, seed):
    """Files of a run folder vanish and the supervisor is killed at random instants, while somebody settles it."""
    chance = random.Random(seed)
    for number in range(1, 6):
        run, mark = tmp_path / "run" / f"{number}.1", tmp_path / f"ran.{number}"
        spec = {"argv": ["/usr/bin/touch", str(mark)], "env": {}, "output": os.devnull, "walltime_s": 60, "grace_s": 5}
        attempts.prepare(tmp_path, number, 1, spec)
        pid = os.fork()
        if pid == 0:
            try:
                supervisor.Supervisor(str(tmp_path), str(run)).work()
            finally:
                os._exit(0)
        verdicts = []
        for _ in range(chance.randint(1, 4)):
            time.sleep(chance.random() * 0.01)
            what = chance.choice(["folder", "file", "kill", "settle", "settle"])
            if what == "folder":
                shutil.rmtree(run, ignore_errors=True)
            elif what == "file":
                (run / chance.choice(["lock", "claim", "proc.json", "released", "spec.json"])).unlink(missing_ok=True)
            elif what == "kill":
                processes.send(pid, 9)
            else:
                verdicts.append((attempts.settle(run).kind, mark.exists()))
        os.waitpid(pid, 0)
        time.sleep(0.01)  # what it released may still be on its way
        for kind, ran in verdicts:
            assert kind != "unstarted" or not (ran or mark.exists()), verdicts
        last = attempts.settle(run).kind
        assert last != "unstarted" or not mark.exists()


def test_a_process_that_is_started_elsewhere_does_not_belong_to_an_attempt(tmp_path):
    own = {**os.environ, **processes.marks(str(tmp_path), "7.2")}
    other = {**os.environ, **processes.marks(str(tmp_path), "7.1")}
    some = [subprocess.Popen(["/bin/sleep", "6000"], env=env, start_new_session=True) for env in (own, other)]
    try:
        assert processes.end_attempt(str(tmp_path), "7.2", PATIENCE_S)
        assert some[0].wait(PATIENCE_S) == -9
        assert some[1].poll() is None
    finally:
        some[1].kill()
        some[1].wait()


def test_what_runs_of_a_job_that_is_nowhere_after_a_restore_is_ended(live):
    live.submit("-H", "--", "true")
    live.run("serve", "--backup", "copy.db")
    clean = "rm -rf $BACKFILL_HOME/run/* $BACKFILL_HOME/witness; echo $$ > pid; exec sleep 600"
    lost = live.submit("-t", "1", "--wrap", clean)
    live.until((live.folder / "pid").exists)
    live.until(lambda: live.job(lost)["state"] == "RUNNING")
    pid = int((live.folder / "pid").read_text())
    live.kill(live.daemon(), *live.keepers())
    shutil.rmtree(live.folder / "run", ignore_errors=True)
    for name in ("witness", "store.db-wal", "store.db-shm"):
        (live.folder / name).unlink(missing_ok=True)
    shutil.copy(live.folder / "copy.db", live.folder / "store.db")  # by hand: nobody tells the witness
    live.run("queue")
    live.until(lambda: pid not in processes.belonging({"BACKFILL_HOME": str(live.folder)}))  # a zombie has no marks
    assert "what was left of it is ended" in (live.folder / "daemon.log").read_text()
    assert live.request("queue")["held"].get("cpus", 0) == 0


def test_an_attempt_of_which_a_restore_knows_only_that_it_may_have_begun_never_runs_again(tmp_path):
    run = tmp_path / "run" / "7.1"
    attempts.prepare(tmp_path, 7, 1, {"argv": ["true"]})
    witness.write(str(tmp_path), witness.line("began", "7.1", {}))
    assert attempts.settle(run).kind == "unknown"
    assert (run / "claim").exists()  # so that a supervisor that comes late has none
    assert attempts.settle(run, {}).kind == "unknown"
