"""Jobs that remove what the queue knows of them, and queues that go on from an old copy: nothing runs twice."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

from backfill.daemon.daemon import Daemon
from backfill.pools.local import attempts, supervisor
from backfill.queue.deep import check_deep
from backfill.queue.events import End
from backfill.queue.evidence import WitnessWriter, is_behind
from backfill.queue.store import Store, StoreLost
from backfill.system import processes, witness
from tests.patience import PATIENCE_S
from tests.queue.logs import entry
from tests.queue.test_deep import submit
from tests.queue.test_store import filled
from tests.queue.virtual import Virtual
from tests.shares import LONG

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


WHAT = ("its run folder", "all run folders", "the witness too", "small files of it")
WHO = ("daemon", "supervisor", "watchers", "all")


@pytest.mark.parametrize(("what", "who"), [*(product(WHAT, WHO) if LONG else zip(WHAT, WHO, strict=True))])
def test_it_runs_once_whoever_is_killed_meanwhile(live, what, who):
    text = f"{REMOVALS[what]}\ncd {live.folder}\necho > removed\n{UNTIL_GO}"
    number = live.submit("-t", "60", "-c", "4", script(live, text))
    beside = live.submit("-t", "60", "-c", "4", "--wrap", f"echo {number} >> beside")
    live.until((live.folder / "removed").exists)
    known = witness.read(str(live.folder)) if (live.folder / "witness").exists() else ()
    supervisors = [record["supervisor"] for kind, _, record in known if kind == "began"]
    victims = {"daemon": [live.daemon()], "watchers": live.keepers(), "all": [live.daemon(), *live.keepers()]}
    victims["supervisor"] = supervisors or live.keepers()
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


def test_a_job_that_locks_the_witness_stops_nobody_but_those_that_would_begin(live):
    text = "exec 9<>$BACKFILL_HOME/witness; flock 9; echo > locked; while [ ! -e go ]; do sleep 0.05; done"
    locks = live.submit("-t", "5", "--wrap", text)
    live.until((live.folder / "locked").exists)
    beside = live.submit("-t", "1", "--wrap", "echo beside >> ran")
    live.until(lambda: live.job(beside)["state"] == "STARTING")
    lost = live.submit("-t", "1", "--wrap", "echo lost >> ran")
    live.until((live.folder / "run" / f"{lost}.1" / "claim").exists)
    live.kill(*[pid for pid in live.keepers() if f"{lost}.1" in held_by(pid)], live.daemon())  # and another one comes
    for _ in range(3):
        time.sleep(0.6)  # the sweep looks at what has not begun
        held = live.submit("-H", "--", "true")
        assert live.job(held)["state"] == "PENDING"
    assert live.job(locks)["state"] == "RUNNING"
    assert lines(live) == []
    (live.folder / "go").touch()
    live.run("wait", locks, beside, lost)
    assert sorted(lines(live)) == ["beside", "lost"]
    live.run("serve", "--stop")
    assert check_deep(live.folder) == []


def held_by(pid):
    """The names of run folders in which a process has files open."""
    try:
        return [os.path.basename(os.path.dirname(os.readlink(one))) for one in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []


@pytest.mark.parametrize("removes", [False, True])
def test_the_keeper_knows_a_job_that_began_long_ago(live, removes):
    clean = "rm -rf $BACKFILL_HOME/run/*;" if removes else ""
    text = f"{clean} setsid sleep 600 & echo $! > child; while [ ! -e go ]; do sleep 0.05; done; exit 3"
    number = live.submit("-t", "5", "--wrap", text)
    live.until(lambda: lines(live, "child"))
    live.until(lambda: live.job(number)["state"] == "RUNNING")
    (known,) = (record for kind, _, record in witness.read(str(live.folder)) if kind == "began")
    later = [witness.line("over", f"{other}.1", {"state": "COMPLETED", "exit": 0}) for other in range(1000, 26_000)]
    witness.write(str(live.folder), *later)
    assert (live.folder / "witness").stat().st_size > witness.LATELY
    live.kill(known["supervisor"])
    live.until(lambda: not processes.lives(known, "supervisor"))
    (live.folder / "go").touch()
    job = live.until(lambda: over(live, number))
    assert (job["state"], job["exit_code"]) == ("FAILED", 3)
    assert processes.belonging(processes.marks(str(live.folder), f"{number}.1")) == []


def test_a_line_is_found_wherever_it_is_in_the_witness(tmp_path, monkeypatch):
    home = str(tmp_path)
    monkeypatch.setattr(witness, "CHUNK", 64)  # lines lie across the parts in which it is searched
    assert witness.began(home, "1.1") is None
    for number in range(1, 40):
        witness.write(home, witness.line("began", f"{number}.1", {"pid": number, "text": "x" * (number * 7 % 50)}))
    with open(tmp_path / "witness", "a") as file:
        file.write('began 7.1 {"pid": 70')  # torn by a power cut, or a full disk
    witness.write(home, "numbers 99", durable=False)
    assert [witness.began(home, f"{number}.1")["pid"] for number in range(1, 40)] == [*range(1, 40)]
    assert witness.began(home, "4") is witness.began(home, "40.1") is witness.began(home, "1.1", 200) is None
    assert len([*witness.read(home)]) == 40
    witness.write(home, 'log 5 {"last_job":39}', "log 50", "numbers 100")  # the second one is torn
    assert [name for _, name, _ in witness.read_since_log(home)] == ["5", "100"]


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
    live.run("serve", "--backup", "backups/copy.db")
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

    said = live.run("serve", "--restore", "backups/copy.db").stdout
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
        live.run("serve", "--backup", "backups/copy.db")
    live.run("serve", "--stop")
    if not marked:  # a copy of the file, which says nothing of itself
        (live.folder / "backups").mkdir()
        shutil.copy(live.folder / "store.db", live.folder / "backups" / "copy.db")
    live.run("release", number)
    live.run("wait", number)
    live.run("serve", "--stop")
    shutil.rmtree(live.folder / "run")
    for end in ("", "-wal", "-shm"):
        (live.folder / f"store.db{end}").unlink(missing_ok=True)
    (live.folder / "backups" / "copy.db").rename(live.folder / "store.db")
    live.run("release", number, check=None)
    job = live.until(lambda: over(live, number))
    assert job["state"] == "NODE_FAIL"
    assert lines(live) == ["ran"]
    assert live.submit("-H", "--", "true") > number + 100


@pytest.mark.parametrize("how", ["removed", "older", "older, after a kill", "replaced under the daemon"])
def test_job_numbers_do_not_come_back_with_a_store_that_is_older(live, how):
    first = live.submit("-H", "--", "true")
    live.run("serve", "--stop")
    shutil.copy(live.folder / "store.db", live.folder / "copy.db")
    last = [live.submit("-H", "--", "true") for _ in range(3)][-1]
    assert last == first + 3
    if how == "older, after a kill":
        live.kill(live.daemon())
        live.until(lambda: not live.daemon())
    elif how != "replaced under the daemon":
        live.run("serve", "--stop")
    daemon = live.daemon()
    for end in () if daemon else ("", "-wal", "-shm"):
        (live.folder / f"store.db{end}").unlink(missing_ok=True)
    if how != "removed":
        (live.folder / "copy.db").rename(live.folder / "store.db")
    if daemon:
        live.until(lambda: live.daemon() != daemon)
    assert live.submit("-H", "--", "true") > last
    assert "the log was older than the latest events" in (live.folder / "daemon.log").read_text()
    assert len(live.jobs()) == (1 if how == "removed" else 2)
    live.run("serve", "--stop")
    assert check_deep(live.folder) == []


def test_a_queue_that_was_killed_at_its_first_start_begins_with_job_1(tmp_path):
    store = Store(tmp_path / "store.db")
    witness.write(str(tmp_path), *WitnessWriter(tmp_path, store).anew(0))
    assert not is_behind(store, tmp_path)
    WitnessWriter(tmp_path, store).number(1)  # the witness is told ahead of the store, which was removed since
    assert is_behind(store, tmp_path)
    store.close()


def test_no_job_is_acknowledged_whose_events_are_in_a_store_that_was_replaced(tmp_path):
    """Not even within the half second after which the daemon looks."""
    daemon = object.__new__(Daemon)
    daemon.store, daemon._checked = filled(tmp_path / "store.db"), 0
    told = []
    daemon.evidence = SimpleNamespace(tell_all=lambda: told.append("all"))
    daemon._check_store()
    assert told == []
    filled(tmp_path / "other.db").close()
    (tmp_path / "other.db").rename(tmp_path / "store.db")
    daemon._check_store()  # nothing was written since
    submit(daemon.store, 3)
    with pytest.raises(StoreLost, match="another file was put in its place"):
        daemon._check_store()
    assert told == ["all"]
    daemon.store.close()


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_job_that_was_cancelled_since_the_copy_was_made_does_not_run(live, by_hand):
    live.run("pause")
    some = [live.submit("-t", "1", "--wrap", "echo cancelled >> ran") for _ in range(3)]
    other = live.submit("-t", "1", "--wrap", "echo other >> ran")
    live.run("serve", "--backup", "backups/copy.db")
    live.run("cancel", some[0], some[1])
    live.run("cancel", some[2])
    if by_hand:
        live.run("serve", "--stop")
        for end in ("", "-wal", "-shm"):
            (live.folder / f"store.db{end}").unlink(missing_ok=True)
        (live.folder / "backups" / "copy.db").rename(live.folder / "store.db")
    else:
        said = live.run("serve", "--restore", "backups/copy.db").stdout
        assert f"3 jobs ({some[0]}, {some[1]}, {some[2]}) ended without having begun, and will not run" in said
    live.run("resume")
    live.run("wait", other)
    assert lines(live) == ["other"]
    assert [live.job(number)["state"] for number in some] == ["CANCELLED"] * 3
    live.run("serve", "--stop")
    assert check_deep(live.folder) == []


def test_the_witness_is_told_of_jobs_that_end_while_they_wait_and_of_no_others(tmp_path):
    store = filled(tmp_path / "store.db")
    writer = WitnessWriter(tmp_path, store)
    for number in range(3, 8):
        submit(store, number)
    book = store.load()
    cancelled = {"state": "CANCELLED", "reason": "Cancelled"}
    start = {"attempt": 1, "start": 20, "why": "", "cpu_ids": [0], "gpu_ids": []}
    events = [
        *(entry("end", number, cancelled, 10_000_000 + number) for number in (1, 3, 4, 5)),
        entry("end", 6, {"state": "DEADLINE", "reason": "DeadLine"}, 10_000_001),
        entry("start", 7, start, 11_000_000),
        entry("end", 7, {"state": "FAILED", "exit": 3, "signal": 0}, 12_000_000),
    ]
    book.apply(events)
    store.commit(events, book.over.values(), 5)
    assert writer.tell()
    size = (tmp_path / "witness").stat().st_size
    assert writer.tell()
    assert (tmp_path / "witness").stat().st_size == size  # nothing is new
    told = [(name, record["jobs"]) for kind, name, record in witness.read(str(tmp_path)) if kind == "closed"]
    assert told == [("CANCELLED", [[1, 1], [3, 5]]), ("DEADLINE", [[6, 6]])]
    assert [name for kind, name, _ in witness.read_since_log(str(tmp_path))] == [str(store.seq)]
    WitnessWriter(tmp_path, store).tell()  # a daemon that begins on this log
    assert (tmp_path / "witness").stat().st_size == size
    store.close()


def test_an_end_that_the_log_has_lost_is_entered_for_a_job_that_waits(tmp_path):
    queue = Virtual(tmp_path)
    queue.submit(4)
    number = queue.submit(2)
    queue.engine.ended_before(0, End(number, "CANCELLED", "Cancelled", ended=5))
    queue.flush()
    assert number not in queue.engine.book.jobs
    assert (queue.store.job(number).state, queue.store.job(number).end) == ("CANCELLED", 5)
    queue.drain()
    assert check_deep(tmp_path) == []


@pytest.mark.parametrize("name", ["a#b", "what?", "50%", "a b", "ü%41"])
def test_a_backup_of_a_home_with_an_odd_name_is_a_backup(tmp_path, name):
    from backfill.daemon.backups import back_up, back_up_if_due
    from tests.queue.test_store import filled

    home = tmp_path / name
    home.mkdir()
    filled(home / "store.db").close()
    assert back_up(str(home), str(tmp_path / "copy.db")) == ""
    assert back_up_if_due(home, 1_700_000_000.0) == ""
    for copy in (tmp_path / "copy.db", *(home / "backups").iterdir()):
        store = Store(copy, readonly=True)
        assert [job.id for job in store.jobs()] == [1, 2]
        store.close()


def test_a_file_that_is_no_backup_is_refused_and_changes_nothing(live):
    number = live.submit("-H", "--", "true")
    (live.folder / "empty.db").touch()
    (live.folder / "text.db").write_text("no store" * 1000)
    live.run("serve", "--backup", "backups/copy.db")
    damaged = bytearray((live.folder / "backups" / "copy.db").read_bytes())
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
    live.run("serve", "--backup", "backups/copy.db")
    clean = "rm -rf $BACKFILL_HOME/run/* $BACKFILL_HOME/witness; echo $$ > pid; exec sleep 600"
    lost = live.submit("-t", "1", "--wrap", clean)
    live.until((live.folder / "pid").exists)
    live.until(lambda: live.job(lost)["state"] == "RUNNING")
    pid = int((live.folder / "pid").read_text())
    live.kill(live.daemon(), *live.keepers())
    shutil.rmtree(live.folder / "run", ignore_errors=True)
    for name in ("witness", "store.db-wal", "store.db-shm"):
        (live.folder / name).unlink(missing_ok=True)
    shutil.copy(live.folder / "backups" / "copy.db", live.folder / "store.db")  # by hand: nobody tells the witness
    live.run("queue")
    live.until(lambda: pid not in processes.belonging({"BACKFILL_HOME": str(live.folder)}))  # a zombie has no marks
    assert "its remaining processes are killed" in (live.folder / "daemon.log").read_text()
    assert live.request("queue")["held"].get("cpus", 0) == 0


def test_an_attempt_of_which_a_restore_knows_only_that_it_may_have_begun_never_runs_again(tmp_path):
    run = tmp_path / "run" / "7.1"
    attempts.prepare(tmp_path, 7, 1, {"argv": ["true"]})
    witness.write(str(tmp_path), witness.line("began", "7.1", {}))
    assert attempts.settle(run).kind == "unknown"
    assert (run / "claim").exists()  # so that a supervisor that comes late has none
    assert attempts.settle(run, {}).kind == "unknown"
