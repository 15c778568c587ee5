"""Questions to a real daemon, by the command line."""

import json
import os
import select
import signal
import subprocess

import pytest

from backfill.answers import questions
from backfill.client import asking
from backfill.client.calling import Problem
from backfill.client.printing import start_text
from backfill.system import processes
from tests.patience import PATIENCE_S, until
from tests.queue.conftest import PYTHON

NOW_S = 10**9


def answer(live, *words, check=0):
    return json.loads(live.run(*words, "--json", check=check).stdout)


def test_a_queue_is_asked_what_will_come(live):
    (live.folder / "config.toml").write_text('cpus = 4\ngrace = "1s"\npolicy = "conservative"\n')
    first = live.submit("-c", 3, "-t", 10, "--wrap", "touch on; while [ -e on ]; do sleep 0.05; done")
    live.until((live.folder / "on").exists)
    waiting = live.submit("-c", 4, "-t", 10, "-J", "big", "--", "true")
    held = live.submit("-H", "--", "true")
    live.until(lambda: live.job(waiting)["guaranteed_s"])

    rows = {row["id"]: row for row in answer(live, "eta")["jobs"]}
    assert rows.keys() == {waiting, held}
    assert rows[waiting]["median_s"] <= rows[waiting]["p90_s"] <= rows[waiting]["guaranteed_s"]
    assert rows[held]["why_not"] == "held"
    assert [row["id"] for row in answer(live, "eta", waiting)["jobs"]] == [waiting]
    assert live.run("eta", first, check=1).stderr == f"backfill: job {first} is RUNNING; expected a pending one\n"
    assert "no ended job: a wide bound" in live.run("eta").stdout

    told = live.run("plan", "--since", "1m").stdout
    assert "policy conservative guarantees starts" in told
    assert told.endswith(f"next: backfill explain {waiting}\n")
    assert f"{waiting}" in [line.split()[0] for line in told.splitlines() if "big" in line]
    assert [bar["id"] for bar in answer(live, "plan", "--nodes", "machine")["pending"]] == [waiting, held]
    assert "there is no node 'n9'" in live.run("plan", "--nodes", "n9", check=2).stderr
    late = live.run("plan", "--since", "2030-01-02", "--until", "2030-01-01", check=2).stderr
    assert late == "backfill: --until 2030-01-01: expected a time after that of --since\n"
    past = live.run("plan", "--until", "2000-01-01", check=2).stderr
    assert past == "backfill: --until 2000-01-01: expected a time after that of --since [default: 2h]\n"
    assert "'soon' is not a time" in live.run("plan", "--until", "soon", check=2).stderr

    said = live.run("explain", waiting).stdout
    assert f"job {waiting} waits for cpus: it needs 4, free are 1 of 4" in said
    assert f"cancel {first}" in said
    assert "what would help" in said
    assert live.run("explain", held).stdout.endswith(f"next: backfill release {held}\n")
    assert live.run("explain", 99, check=1).stderr == "backfill: there is no job 99\n"

    (hole,) = answer(live, "slots")["slots"]
    assert (hole["cpus"], hole["until"]) == (1, str(waiting))
    assert answer(live, "slots", "--time", "2h")["slots"] == []
    assert "the machine has 0 gpus" in live.run("slots", "--gpus", 1, check=3).stderr

    told = live.run("submit", "--test-only", "-t", 1, "--", "true").stdout
    assert told == "job: 1 cpu, limit 1 min\nwould start now\n"
    told = json.loads(live.run("submit", "--test-only", "--json", "-c", 4, "-a", "1-3", "--", "true").stdout)
    assert [job["id"] for job in told["jobs"]] == [held + 1, held + 2, held + 3]
    assert live.run("submit", "--test-only", "-c", 5, "--", "true", check=3).stdout == ""
    assert len(live.jobs()) == 3  # nothing of that was queued

    found = answer(live, "serve", "--policy", "easy", "--dry-run")
    assert (found["fall"], found["switched"]) == ([str(waiting)], False)
    refused = live.run("serve", "--policy", "easy", check=1)
    assert "nothing was changed; --drop-promises lets it take over" in refused.stderr
    assert answer(live, "queue")["policy"] == "conservative"
    live.run("serve", "--policy", "easy", "--drop-promises")
    live.until(lambda: answer(live, "queue")["policy"] == "easy" and answer(live, "queue")["planner"] == "ready")
    live.run("serve", "--stop")
    assert answer(live, "queue")["policy"] == "easy"  # it stays
    live.run("serve", "--stop")
    (live.folder / "config.toml").write_text('cpus = 4\ngrace = "1s"\npolicy = "fcfs"\n')
    assert live.until(lambda: answer(live, "queue")["policy"] == "fcfs")  # until another one is configured

    (live.folder / "on").unlink()
    live.run("wait", waiting)
    told = answer(live, "eta", "--accuracy")
    assert sum(group["estimates"] for group in told["leads"]) >= 1
    assert live.run("eta", "--accuracy").stdout.splitlines()[0].endswith("promised starts kept")
    assert [*live.folder.glob("answer.*")] == []


def test_a_deadline_that_the_bound_misses_is_told_at_submit_and_in_the_queue(live):
    (live.folder / "config.toml").write_text('cpus = 4\npolicy = "conservative"\n')
    first = live.submit("-c", 4, "-t", 100, "--", "sleep", 600)
    live.until(lambda: live.job(first)["state"] == "RUNNING")
    late = live.run("submit", "-t", 30, "-c", 4, "--deadline", "now+31m", "--", "true")
    told = "job 2 may miss its deadline, "
    assert late.stdout.startswith("job 2 queued")
    assert late.stderr == "" or told in late.stderr  # if it was known in a second
    assert told in live.run("eta", 2).stdout
    live.until(lambda: "deadline at risk" in live.run("queue").stdout)
    assert "it may miss its deadline, " in live.run("explain", 2).stdout
    said = live.run("submit", "--parsable", "-t", 30, "--deadline", "now+31m", "--", "true")
    assert (said.stdout, said.stderr) == ("3\n", "")
    tried = live.run("submit", "--test-only", "-t", 30, "-c", 4, "--deadline", "now+31m", "--", "true").stdout
    assert "it may miss its deadline, " in tried


def test_a_planner_that_does_not_know_a_job_yet_is_asked_again(monkeypatch):
    row, answers = {"id": 7}, []

    def persistent(what, folder, **_):
        return {"job": {"label": "7", "state": "PENDING"}} if what == "output" else answers.pop(0)

    monkeypatch.setattr(asking, "persistent", persistent)
    answers += [{"jobs": []}, {"jobs": [{"id": 6}, row]}]
    assert asking.estimates("q", [7]) == {"jobs": [row]}
    answers += [{"jobs": [{"id": number} for number in range(10, 2010)]}]
    with pytest.raises(Problem, match=r"job 7 is PENDING; expected one of the first 2,000 that wait"):
        asking.estimates("q", [7])


def test_of_bounds_far_ahead_it_is_said_how_often_such_bounds_hold(live):
    live.submit("-c", 4, "-t", "24:00:00", "--", "sleep", 600)
    live.submit("-c", 4, "-t", 10, "--", "true")
    live.until(lambda: live.ask({"do": "ping"})["planner"]["ready"])
    said = live.run("eta").stdout.splitlines()
    assert said[-3].startswith("from 64 futures of policy easy")
    assert said[-1].startswith("bounds more than 6 h ahead hold less often: 73 to 96 % did")
    live.run("cancel", "--all")
    live.submit("-c", 4, "-t", 10, "--", "sleep", 600)
    live.submit("-c", 4, "-t", 10, "--", "true")
    assert "6 h ahead" not in live.run("eta").stdout


def test_a_copy_that_is_killed_harms_nobody(live):
    live.submit("-c", 4, "-t", 10, "--wrap", "touch on; while [ -e on ]; do sleep 0.05; done")
    live.until((live.folder / "on").exists)
    waiting = live.submit("-c", 4, "-t", 10, "-a", "1-60", "--", "true")
    live.until(lambda: live.ask({"do": "ping"})["planner"]["ready"])
    (planner,) = live.ask({"do": "ping"})["planner"]["pids"].values()
    asking = subprocess.Popen([*PYTHON, "eta"], env=live.env, stderr=subprocess.PIPE, text=True)
    (copy, *_) = live.until(lambda: processes.descendants(planner))
    live.kill(copy)
    told = asking.communicate(timeout=PATIENCE_S)[1]
    assert told == "backfill: there is no answer: its process was ended by signal 9\n"
    assert asking.returncode == 1
    assert answer(live, "eta")["jobs"][0]["id"] == waiting
    (live.folder / "on").unlink()
    live.run("cancel", "--all")
    assert list(live.ask({"do": "ping"})["planner"]["pids"].values()) == [planner]


def test_a_copy_that_is_killed_at_once_ends_its_answer(tmp_path, monkeypatch):
    pipe = tmp_path / "answer.1"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    monkeypatch.setattr(questions.WATCHDOG, "bound", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    copy = questions.aside(None, {"to": str(pipe), "question": {}})
    assert select.select([reader], [], [], PATIENCE_S)[0]
    assert os.read(reader, 1) == b""
    assert os.waitpid(copy, 0)[1] == signal.SIGKILL
    os.close(reader)


def test_an_answer_that_nobody_waits_for_any_more_is_no_error(tmp_path, monkeypatch, capfd):
    pipe = tmp_path / "answer.1"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    closed = tmp_path / "closed"
    monkeypatch.setattr(questions, "answer", lambda *_: until(closed.exists))
    copy = questions.aside(None, {"to": str(pipe), "question": {}})
    os.close(reader)
    closed.touch()
    assert os.waitpid(copy, 0)[1] == 0
    assert capfd.readouterr().err == ""


def test_a_trial_of_a_policy_that_computes_for_ever_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(questions, "TRIAL_CPU_S", 0.1)
    monkeypatch.setattr(questions, "answer", lambda *_: [*iter(int, 1)])
    pipe = tmp_path / "answer.1"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    copy = questions.aside(None, {"to": str(pipe), "question": {"what": "switch", "policy": "mine.py:mine"}})
    assert os.waitpid(copy, 0)[1] == signal.SIGPROF
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_the_end_of_a_planner_is_seen_while_its_copy_lives_on(tmp_path, monkeypatch):
    pipe = tmp_path / "answer.1"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    monkeypatch.setattr(questions, "answer", lambda *_: [os.readlink(f"/proc/self/fd/{end}") for end in (0, 1)])
    copy = questions.aside(None, {"to": str(pipe), "question": {}})
    assert os.waitpid(copy, 0)[1] == 0
    assert json.loads(os.read(reader, 1000)) == [os.devnull, os.devnull]
    os.close(reader)


def test_a_planner_that_is_given_up_takes_its_copies_along(live):
    live.submit("-c", 4, "-t", 10, "--wrap", "touch on; while [ -e on ]; do sleep 0.05; done")
    live.until((live.folder / "on").exists)
    live.submit("-c", 4, "-t", 10, "-a", "1-300", "--", "true")
    live.until(lambda: live.ask({"do": "ping"})["planner"]["ready"])
    (planner,) = live.ask({"do": "ping"})["planner"]["pids"].values()
    asking = subprocess.Popen([*PYTHON, "eta"], env=live.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (copy, *_) = live.until(lambda: processes.descendants(planner))
    live.run("serve", "--stop")
    live.until(lambda: not os.path.exists(f"/proc/{copy}"))
    asking.wait()
    (live.folder / "on").unlink()
    live.run("cancel", "--all")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["explain"], 2, "expected one job"),
        (["slots", "3"], 2, "unexpected '3'"),
        (["eta", "--accuracy"], 1, "no queue is recorded there"),
        (["serve", "--dry-run"], 2, "--dry-run and --drop-promises belong to --policy"),
    ],
)
def test_a_wrong_question_is_one_line(live, words, code, said):
    assert said in live.run(*words, check=code).stderr


@pytest.mark.parametrize(
    ("guaranteed", "told"),
    [
        (NOW_S + 3600, "would start by {} (guaranteed); its likely start is too far ahead to estimate"),
        (None, "would start at an unknown time: too far ahead, or it waits for missing capacity"),
    ],
)
def test_a_start_that_is_guaranteed_is_told_though_no_future_reaches_it(guaranteed, told, monkeypatch, capsys):
    told = told.format(start_text(NOW_S + 3600, NOW_S * 10**6))
    job = {"guaranteed_s": guaranteed, "median_s": None, "p90_s": None, "why_not": "far"}
    found = {"now_s": NOW_S, "jobs": [job], "array": False, "need": {"cpus": 1}, "walltime": 60_000_000, "at_once": 0,
             "delayed": []}  # fmt: skip
    monkeypatch.setattr(asking, "question", lambda *words, **more: found)
    assert asking.test({}, {}) == 0
    assert capsys.readouterr().out.splitlines()[-1] == told
    eta = {"now_s": NOW_S, "jobs": [{**job, "id": 1, "label": "1", "name": "job", "history": "all", "ended_jobs": 9}],
           "futures": 20, "policy": "conservative", "arrivals": False, "binds": True, "widened": 1, "held": 1.0,
           "age_s": 0.0}  # fmt: skip
    monkeypatch.setattr(asking, "question", lambda *words, **more: eta)
    assert asking.eta([]) == 0
    assert told.split("; ")[-1].split(": ")[-1] in capsys.readouterr().out
