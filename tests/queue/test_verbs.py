"""Requeue, retry, suspend, pause, signals, and what may be changed of a job that waits."""

import json
import os
import signal
import time
from itertools import accumulate

import pytest

from backfill.daemon import notices
from backfill.queue.deep import check_deep, judge
from backfill.queue.store import Store
from backfill.system import processes
from tests.queue.virtual import SECOND, Virtual


def states(queue):
    return {number: job.state for number, job in queue.engine.book.jobs.items()}


def process(live, number):
    """The first process of a running job."""
    return [data["pid"] for _, kind, data in live.job(number)["events"] if kind == "spawned"][-1]


def stands_still(live):
    """Whether the job writes nothing; its shell may wait for a child that was stopped before it became a program."""
    before = (live.folder / "tick").read_text()
    time.sleep(0.5)
    return (live.folder / "tick").read_text() == before


def refused(queue, **message):
    found = []
    queue.engine.request(message, found.append)
    queue.flush()
    return found[0]["error"]["message"]


# ---------------------------------------------------------------------- edit


@pytest.mark.parametrize("policy", ["easy", "fcfs", "conservative"])
def test_a_job_that_waits_can_need_less_and_then_starts(tmp_path, policy):
    queue = Virtual(tmp_path, policy)
    queue.submit(3, 100)
    large = queue.submit(2, 50)
    last = queue.submit(4, 50)
    assert states(queue)[large] == "PENDING"
    queue.request(do="edit", ids=[large], to={"need": {"cpus": 1}, "walltime": 80 * SECOND})
    assert states(queue)[large] == "STARTING"
    assert queue.job(large).need == {"cpus": 1}
    assert queue.job(large).walltime == 80 * SECOND
    queue.drain()
    assert queue.job(last).state == "COMPLETED"
    assert queue.store.differences() == []
    assert judge(queue.store.events()) == []


def test_a_job_that_waits_can_need_more_and_waits_longer(tmp_path):
    queue = Virtual(tmp_path, "easy")
    queue.submit(3, 100)
    job = queue.submit(1, 50, held=True)
    queue.request(do="edit", ids=[job], to={"need": {"cpus": 2}})
    queue.request(do="release", ids=[job])
    assert states(queue)[job] == "PENDING"
    assert "the machine has 4 cpus" in refused(queue, do="edit", ids=[job], to={"need": {"cpus": 5}})
    queue.drain()
    assert queue.job(job).start >= queue.job(1).end
    assert queue.store.differences() == []


def test_times_from_now_are_by_the_clock_of_the_queue(tmp_path):
    queue = Virtual(tmp_path, "easy")
    queue.until(1_000)
    first = queue.submit(1, 50, begin_ahead=500 * SECOND)
    assert queue.engine.book.jobs[first].begin == queue.t + 500 * SECOND
    late = refused(queue, do="edit", ids=[first], to={"deadline_ahead": 540 * SECOND})
    assert late == f"the walltime of job {first} ends after the deadline"
    queue.request(do="edit", ids=[first], to={"begin_ahead": 100 * SECOND, "deadline_ahead": 540 * SECOND})
    queue.until(1_099)
    assert states(queue)[first] == "PENDING"
    queue.until(1_101)
    assert states(queue)[first] in ("STARTING", "RUNNING")


def test_begin_and_deadline_can_be_changed(tmp_path):
    queue = Virtual(tmp_path, "easy")
    queue.submit(4, 100)
    job = queue.submit(1, 50)
    queue.request(do="edit", ids=[job], to={"begin": queue.t + 500 * SECOND})
    queue.until(300)
    assert states(queue)[job] == "PENDING"
    queue.request(do="edit", ids=[job], to={"begin": 0})
    assert states(queue)[job] == "STARTING"
    later = queue.submit(4, 50)
    late = refused(queue, do="edit", ids=[later], to={"deadline": queue.t + 10 * SECOND})
    assert late == f"the walltime of job {later} ends after the deadline"
    queue.request(do="edit", ids=[later], to={"deadline": queue.t + 60 * SECOND})
    queue.drain()
    assert queue.job(later).state in ("COMPLETED", "DEADLINE")
    assert queue.store.differences() == []


def test_dependencies_can_be_changed_but_not_into_a_circle(tmp_path):
    queue = Virtual(tmp_path, "easy")
    first = queue.submit(1, 100, held=True)
    second = queue.submit(1, 100, after=[["afterok", first]])
    array = queue.submit(1, 100, array=[1, 2], after=[["afterok", second]])
    free = queue.submit(1, 10, held=True)
    assert refused(queue, do="edit", ids=[first], to={"after": [["afterany", array]]}) == (
        f"job {first} would wait for itself"
    )
    assert "would wait for itself" in refused(queue, do="edit", ids=[first], to={"after": [["afterany", first]]})
    alone = queue.submit(1, 10, name="alone", singleton=True, held=True)
    last = queue.submit(1, 10, after=[["afterany", alone]])
    assert "would wait for itself" in refused(queue, do="edit", ids=[last], to={"after": [["afterany", last]]})
    queue.request(do="edit", ids=[first], to={"name": "alone"})  # the singleton waits for it
    assert "would wait for itself" in refused(queue, do="edit", ids=[first], to={"after": [["afterany", last]]})
    queue.request(do="edit", ids=[first], to={"name": "other"})
    queue.request(do="edit", ids=[first], to={"after": [["afterany", last]]})
    assert "would wait for itself" in refused(queue, do="edit", ids=[first], to={"name": "alone"})
    queue.request(do="edit", ids=[first], to={"after": []})
    queue.request(do="release", ids=[alone])
    queue.request(do="edit", ids=[array], to={"after": [["afterany", free]]})
    queue.request(do="edit", ids=[second], to={"after": []})
    assert states(queue)[second] == "STARTING"
    queue.request(do="cancel", ids=[free])
    assert states(queue)[array] == states(queue)[array + 1] == "STARTING"
    queue.request(do="release", ids=[first])
    queue.drain()
    assert queue.store.differences() == []


def test_another_name_counts_for_singletons(tmp_path):
    queue = Virtual(tmp_path, "easy")
    queue.submit(1, 100, name="a")
    job = queue.submit(1, 100, name="a", singleton=True)
    assert states(queue)[job] == "PENDING"
    queue.request(do="edit", ids=[job], to={"name": "b"})
    assert states(queue)[job] == "STARTING"
    other = queue.submit(1, 100, name="b", singleton=True)
    assert states(queue)[other] == "PENDING"
    queue.drain()
    assert queue.store.differences() == []


# ---------------------------------------------------------------------- pause


def test_a_paused_queue_starts_nothing_and_says_so_after_a_restart_too(tmp_path):
    queue = Virtual(tmp_path, "easy")
    assert queue.request(do="pause") == {"changed": True}
    assert queue.request(do="pause") == {"changed": False}
    job = queue.submit(1, 100)
    queue.until(50)
    assert states(queue)[job] == "PENDING"
    assert Store(tmp_path / "store.db", readonly=True).load().paused
    queue.request(do="unpause")
    assert states(queue)[job] == "STARTING"
    queue.drain()


def test_a_queue_is_paused_and_resumed(live):
    assert live.run("pause").stdout == "paused: running jobs continue, nothing starts; next: backfill resume\n"
    number = live.submit("-t", 1, "--", "true")
    told = live.run("queue").stdout
    assert "Paused" in told
    assert "paused: nothing starts until backfill resume" in told
    assert "is paused already" in live.run("pause", check=1).stderr
    live.kill(live.daemon())
    assert "nothing starts until" in live.run("queue").stdout
    assert live.run("resume").stdout == "resumed\n"
    live.run("wait", number)
    assert "is not paused" in live.run("resume", check=1).stderr


# ---------------------------------------------------------------------- requeue and retry


def test_a_job_that_fails_is_tried_again_so_many_times(live):
    script = "echo $BACKFILL_ATTEMPT >> ran; [ $(wc -l < ran) -ge 3 ]"
    good = live.submit("--retry", 5, "--wrap", script)
    live.run("wait", good)
    assert (live.folder / "ran").read_text().split() == ["1", "2", "3"]
    job = live.job(good)
    assert (job["state"], job["retries"], job["retry"]) == ("COMPLETED", 2, 5)
    bad = live.submit("--retry", 1, "--wrap", "echo x >> bad; exit 3")
    after = live.submit("-d", f"afterok:{bad}", "--", "true")
    live.run("wait", bad, check=3)
    assert (live.folder / "bad").read_text() == "x\nx\n"
    live.run("wait", after, check=1)
    assert "retries     1 of 1" in live.run("show", bad).stdout
    assert check_deep(live.folder) == []


def test_a_running_job_is_ended_and_runs_again(live):
    number = live.submit("--wrap", "echo x >> ran; [ -e done ] || sleep 600")
    live.until(lambda: (live.folder / "ran").exists() and live.job(number)["state"] == "RUNNING")
    (live.folder / "done").touch()
    assert live.run("requeue", number).stdout == f"requeued job {number}\n"
    live.run("wait", number)
    assert (live.folder / "ran").read_text() == "x\nx\n"
    assert "only running jobs can be requeued" in live.run("requeue", number, check=1).stderr
    assert check_deep(live.folder) == []


def test_a_requeued_job_can_still_be_cancelled(live):
    live.configure("easy", grace="600s")
    number = live.submit("--wrap", "trap '' TERM; touch on; while :; do sleep 0.1; done")
    live.until(lambda: (live.folder / "on").exists())
    live.run("requeue", number)
    live.run("cancel", number)
    live.until(lambda: live.job(number)["state"] == "ENDING")
    os.killpg(process(live, number), 9)
    live.run("wait", number, check=None)
    assert live.job(number)["state"] == "CANCELLED"


# ---------------------------------------------------------------------- suspend, signals


def test_a_suspended_job_stands_still_and_goes_on(live):
    number = live.submit("--wrap", "while [ ! -e done ]; do date +%s%N > tick; sleep 0.05; done")
    live.until(lambda: (live.folder / "tick").exists() and live.job(number)["state"] == "RUNNING")
    assert live.run("suspend", number).stdout == f"suspended job {number}\n"
    pid = process(live, number)
    live.until(lambda: stands_still(live))
    assert "Suspended" in live.run("queue").stdout
    live.kill(live.daemon())
    live.run("queue")
    os.kill(pid, signal.SIGCONT)  # somebody lets it go on: the queue does not
    live.until(lambda: stands_still(live))
    assert live.run("resume", number).stdout == f"resumed job {number}\n"
    (live.folder / "done").touch()
    live.run("wait", number)
    assert "only running jobs can be suspended" in live.run("suspend", number, check=1).stderr


def test_a_suspended_job_can_be_cancelled_and_its_limit_runs_on(live):
    number = live.submit("--", "sleep", 600)
    live.until(lambda: live.job(number)["state"] == "RUNNING")
    live.run("suspend", number)
    live.run("cancel", number)
    live.run("wait", number, check=None)
    assert live.job(number)["state"] == "CANCELLED"
    limited = live.submit("-t", "5s", "--", "sleep", 600)
    state = lambda: {job["id"]: job["state"] for job in live.request("queue", ended=9)["jobs"]}[limited]  # noqa: E731
    live.until(lambda: state() == "RUNNING")
    live.request("suspend", ids=[limited])  # at once, before it is over
    live.run("wait", limited, check=None)
    assert live.job(limited)["state"] == "TIMEOUT"


def test_a_signal_is_sent_and_the_job_goes_on(live):
    number = live.submit("--wrap", "trap 'echo got >> got' USR1; touch on; while [ ! -e done ]; do sleep 0.05; done")
    live.until(lambda: (live.folder / "on").exists() and live.job(number)["state"] == "RUNNING")
    live.run("cancel", "--signal", "STOP", number)
    live.run("cancel", "--signal", "CONT", number)
    told = live.run("cancel", "-s", "usr1", number).stdout
    assert told == f"sent a signal to job {number}\n"
    live.until((live.folder / "got").exists)
    (live.folder / "done").touch()
    live.until(lambda: live.job(number)["end_s"] is not None)
    assert "is not a signal" in live.run("cancel", "--signal", "NOPE", number, check=2).stderr
    assert "only running jobs" in live.run("cancel", "--signal", "USR1", number, check=1).stderr


def test_pending_jobs_are_changed_from_the_command_line(live):
    first = live.submit("-H", "--", "true")
    number = live.submit("-H", "-d", f"afterok:{first}", "-b", "2040-01-01", "--", "true")
    words = ["-c", 2, "--mem", "10M", "-J", "other", "-d", f"afterany:{first}", "-b", "now", "--deadline", "2041-01-01"]
    assert live.run("edit", *words, number).stdout == f"changed job {number}\n"
    job = live.job(number)
    assert job["need"] == {"cpus": 2, "memory": 10 << 20}
    assert (job["name"], job["dependency"], job["begin_s"]) == ("other", f"afterany:{first}", None)
    assert job["deadline_s"] is not None
    live.run("edit", "--dependency", "none", "--deadline", "none", number)
    assert (live.job(number)["dependency"], live.job(number)["deadline_s"]) == ("", None)
    assert "expected something to change" in live.run("edit", number, check=2).stderr
    live.run("release", number)
    live.run("wait", number)
    assert json.loads(live.run("show", number, "--json").stdout)["jobs"][0]["state"] == "COMPLETED"


def test_a_command_is_run_once_a_job_has_ended(live):
    command = 'echo "$BACKFILL_JOB $BACKFILL_JOB_NAME $BACKFILL_STATE $BACKFILL_EXIT_CODE" >> told; echo printed'
    one = live.submit("--notify", command, "--retry", 1, "-J", "fit", "--wrap", "exit 3")
    live.run("wait", one, check=3)
    held = live.submit("-H", "--notify", command, "-a", "1-20", "--", "true")
    live.run("cancel", held)
    live.until(lambda: (live.folder / "told").read_text().count("\n") == 21)
    told = (live.folder / "told").read_text().splitlines()
    assert told[0] == f"{one} fit FAILED 3"
    assert sorted(told[1:]) == sorted(f"{held}_{n} true CANCELLED 1" for n in range(1, 21))
    assert (live.folder / "notify.log").read_text().count("printed") == 21
    bad = live.submit("--notify", "exit 7", "--", "true")
    live.run("wait", bad)
    live.until(lambda: f"of job {bad} ended with 7" in (live.folder / "daemon.log").read_text())


def test_commands_that_wait_when_the_daemon_stops_run_a_few_at_a_time(live):
    command = f"echo + >> {live.folder}/times; sleep 0.7; echo - >> {live.folder}/times"
    held = live.submit("-H", "--notify", command, "-a", "1-30", "--", "true")
    live.run("cancel", held)
    live.run("serve", "--stop")
    live.until(lambda: (live.folder / "times").read_text().count("-") == 30)
    running = [*accumulate(1 if line == "+" else -1 for line in (live.folder / "times").read_text().split())]
    assert (len(running), running[-1]) == (60, 0)
    assert 2 <= max(running) <= notices.AT_ONCE
    live.until(lambda: not processes.belonging({"BACKFILL_HOME": str(live.folder)}))
