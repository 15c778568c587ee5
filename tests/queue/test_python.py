"""The queue from Python: jobs as objects, and an executor whose tasks are jobs."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import datetime, timedelta

import pytest

import backfill as bf
from backfill.client import calling
from tests.patience import PATIENCE_S, until

GONE = """
import os, sys
import backfill as bf
jobs = bf.QueueExecutor(cpus=1)
jobs.map(lambda x: (open(f"{x}.went", "w").close(), 10 * x)[1], [1, 2, 3])
jobs.submit(divmod, 1, 0)
print(jobs.name, flush=True)
os._exit(0)
"""


@pytest.fixture
def here(live, monkeypatch):
    for name, value in live.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(live.folder)
    return live


@pytest.fixture
def queue(here):
    here.run("serve", "--detach")  # which costs less than to have this process start the daemon
    return bf.Queue()


def test_options_are_those_of_the_command_line_in_python_s_types(here):
    queue = bf.Queue()
    soon = datetime.now().astimezone() + timedelta(hours=1)
    job = queue.submit(
        ["true"], cpus=2, mem="1G", time=timedelta(minutes=90), begin=soon, job_name="j", requeue=True, hold=False
    )
    facts = job.facts()
    assert facts["need"] == {"cpus": 2, "memory": 1 << 30}
    assert (facts["limit_s"], facts["name"], facts["requeue"]) == (5400, "j", True)
    assert facts["begin_s"] == pytest.approx(soon.timestamp(), abs=1)
    assert job.state == "PENDING"
    assert queue.submit("true", walltime="5").facts()["limit_s"] == 300  # the key of an option is a name of it, too
    with pytest.raises(bf.UsageError, match="unknown option 'tme'; did you mean time"):
        queue.submit("true", tme=3)
    with pytest.raises(bf.UsageError, match="hold is int; expected True or False"):
        queue.submit("true", hold=1)
    with pytest.raises(bf.UsageError, match="'nine' is not a"):
        queue.submit("true", cpus="nine")
    with pytest.raises(bf.UsageError, match="command is empty"):
        queue.submit([])
    job.cancel()
    # A daemon that this process has started and not reaped is gone, too.
    begin = time.monotonic()
    calling.stop(str(here.folder))
    assert time.monotonic() - begin < calling.START_S, "its end was not noticed"


def test_what_the_queue_refuses_is_an_error_of_the_package(queue):
    with pytest.raises(bf.QueueError, match="4 cpus") as refused:
        queue.submit("true", cpus=99)
    assert refused.value.exit_code == 3
    with pytest.raises(bf.QueueError, match="12345"):
        queue.job(12345)
    job = queue.submit("sleep 1000")
    with pytest.raises(TimeoutError):
        job.wait(0.2)
    until(lambda: job.state == "RUNNING")
    with pytest.raises(bf.QueueError, match="is RUNNING; expected a pending one"):
        job.eta()
    job.cancel()
    assert job.wait() != 0
    assert job.state == "CANCELLED"


def test_a_job_tells_why_it_waits_and_when_it_starts(queue):
    first = queue.submit("sleep 1000", cpus=4, time="1h")
    until(lambda: first.state == "RUNNING")
    job = queue.submit("true", cpus=3, time="1h")
    assert str(first.label) in job.explain()
    found = job.eta()
    assert found.guaranteed is None  # which `easy` does not give to a job behind the first
    assert timedelta() < found.likely - datetime.now().astimezone() < timedelta(minutes=61)
    assert found.likely <= found.p90
    queue.cancel([first, job])


def test_results_and_exceptions_come_back(queue, tmp_path):
    class Odd(Exception):
        def __init__(self, one, two):
            super().__init__(f"{one} and {two}")

    def fails(odd):
        if odd:
            raise Odd(1, 2)
        return {}["x"]

    factor = 7
    with bf.QueueExecutor(cpus=1, time="5m") as jobs:
        one = jobs.submit(lambda x: factor * x, 6)
        missing, odd = jobs.submit(fails, False), jobs.submit(fails, odd=True)
        assert one.result(PATIENCE_S) == 42
        with pytest.raises(KeyError, match="x") as raised:
            missing.result(PATIENCE_S)
        assert "in fails\nKeyError" in str(raised.value.__cause__)
        with pytest.raises(RuntimeError, match="Odd: 1 and 2"):  # it cannot be made anew from its arguments
            odd.result(PATIENCE_S)
        assert [*jobs.map(divmod, range(5), [2] * 5, chunksize=2)] == [divmod(x, 2) for x in range(5)]
        assert {done.result() for done in as_completed([jobs.submit(abs, -x) for x in range(3)])} == {0, 1, 2}
        assert [*jobs.map(abs, [])] == []
    with pytest.raises(RuntimeError, match="after shutdown"):
        jobs.submit(abs, 1)
    assert not os.listdir(tmp_path / "tasks")


def test_a_job_that_ends_without_a_result_is_an_exception(queue):
    with bf.QueueExecutor() as jobs:
        lost = jobs.submit(lambda: os.kill(os.getpid(), 9))
        with pytest.raises(bf.QueueError, match="ended without a result: FAILED, signal 9"):
            lost.result(PATIENCE_S)


def test_to_cancel_a_future_cancels_its_job_unless_that_runs(queue):
    with bf.QueueExecutor(cpus=4) as jobs:
        runs = jobs.submit(time.sleep, 1000)
        until(lambda: runs.job.state == "RUNNING")
        waits = jobs.submit(abs, 1)
        assert waits.cancel()
        assert waits.job.state == "CANCELLED"
        assert not runs.cancel()
        runs.job.cancel()
        with pytest.raises(bf.QueueError, match="CANCELLED"):
            runs.result(PATIENCE_S)


def test_results_outlive_the_process_that_asked_for_them(queue, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", GONE], capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE_S, check=True
    )
    jobs = bf.QueueExecutor.resume(done.stdout.strip())
    *well, bad = jobs.futures
    assert [future.result(PATIENCE_S) for future in well] == [[10], [20], [30]]
    assert (tmp_path / "2.went").exists()
    with pytest.raises(ZeroDivisionError):
        bad.result(PATIENCE_S)
    jobs.shutdown()
    with pytest.raises(bf.UsageError, match="no tasks of an executor 'nothing' are kept"):
        bf.QueueExecutor.resume("nothing")


def test_a_call_whose_submission_was_interrupted_is_not_answered_for_the_next_one(queue, monkeypatch):
    with bf.QueueExecutor() as jobs:
        submit = queue.submit

        def interrupted(*words, **options):
            submit(*words, **options)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(jobs.queue, "submit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                jobs.submit(pow, 2, 10)
        assert jobs.submit(pow, 3, 2).result(PATIENCE_S) == 9


def test_a_task_that_is_run_again_counts_by_its_last_run(queue, tmp_path):
    def fails_once(mark):
        if not os.path.exists(mark):
            open(mark, "w").close()
            raise ValueError("once")
        return "well"

    with bf.QueueExecutor(retry=2) as jobs:
        assert jobs.submit(fails_once, str(tmp_path / "mark")).result(PATIENCE_S) == "well"


def test_many_waiting_jobs_are_not_taken_for_lost(queue, monkeypatch):
    monkeypatch.setattr("backfill.client.handles.AT_ONCE", 50)
    with bf.QueueExecutor(hold=True) as jobs:
        futures = jobs._queue([(abs, (-1,), {})] * 120)
        assert len(queue.states()) == 120
        jobs._look_for_lost(dict(enumerate(futures)))
        assert not any(future.done() for future in futures)
        queue.cancel([bf.Job(queue, futures[0].job.label.partition("_")[0])])


def test_threads_may_submit_at_once(queue):
    with bf.QueueExecutor(cpus=1) as jobs, ThreadPoolExecutor(4) as threads:
        futures = [*threads.map(lambda x: jobs.submit(abs, -x), range(8))]
        assert [future.result(PATIENCE_S) for future in futures] == [*range(8)]


def test_options_that_cannot_be_met_are_refused(queue):
    job = queue.submit("true")
    with pytest.raises(bf.UsageError, match="after and dependency cannot be combined"):
        queue.submit("true", after=job, dependency="singleton")
    with bf.QueueExecutor() as jobs, pytest.raises(ValueError, match="chunksize"):
        jobs.map(abs, [1], chunksize=-1)
    with pytest.raises(bf.UsageError, match="array is no option of an executor"):
        bf.QueueExecutor(array="1-3")


def test_a_job_that_the_queue_does_not_know_ends_its_future(queue):
    with bf.QueueExecutor() as jobs:
        assert jobs.submit(abs, -1).result(PATIENCE_S) == 1
        forgotten = jobs._expect(7, "12345_7")
        jobs._collect()
        with pytest.raises(bf.QueueError, match="12345"):
            forgotten.result(PATIENCE_S)
