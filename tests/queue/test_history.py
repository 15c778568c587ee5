"""The jobs that are over, and the week of a queue as a workload."""

import json
import random

import numpy as np
import pytest

from backfill.answers.history import ALONE, LONGER, Filter, cpus, ended, opened, recorded, summed, waited
from backfill.api import simulate
from backfill.model.events import Events
from backfill.model.platform import Platform
from backfill.model.schedule import NO_TIME
from backfill.traces.events import read_events
from backfill.traces.read import read
from tests.queue.virtual import SECOND, Virtual


def lived(folder, policy, seed, jobs=60, cancel=False, capacity=False, dies=0):
    """A queue that lived a random week."""
    chance = random.Random(seed)
    queue, t = Virtual(folder, policy, dies, matlab=2), 0
    numbers = []
    for _ in range(jobs):
        t += chance.choice([0, 1, 10, 40])
        queue.until(t)
        walltime = chance.choice([20, 60, 300])
        runtime = chance.choice([walltime, chance.randint(1, walltime)])
        licences = {"matlab": 1} if chance.random() < 0.3 else {}
        after = {}
        if numbers and chance.random() < 0.2:
            after = {"after": [["afterany", chance.choice(numbers)]]}
        numbers.append(
            queue.submit(chance.randint(1, 4), walltime, runtime, user=chance.choice("ab"), licences=licences, **after)
        )
        if cancel and chance.random() < 0.1:
            queue.request(do="cancel", ids=[chance.choice(numbers)])
        if capacity and chance.random() < 0.1:
            queue.engine.set_capacity("machine", {**queue.resources, "matlab": chance.choice([1, 2])})
            queue.flush()
    queue.drain()
    return queue


def again(folder, out, policy):
    """The workload of the whole history, written, read and simulated: the starts by job."""
    from backfill.traces.events import write_events
    from backfill.traces.write import write

    store = opened(folder)
    jobs, _ = ended(store, Filter())
    found = recorded(store.events(), [job.id for job in jobs])
    write(found.workload, out / "week.csv")
    (out / "week.toml").write_text(found.platform.to_toml())
    events: Events | None = None
    if len(found.events):
        write_events(found.events, out / "events.csv")
        events = read_events(out / "events.csv")
    platform = Platform.read(out / "week.toml")
    log = read(out / "week.csv", resources=platform.resources)
    schedule = simulate(log, platform, policy, overrun="extend", events=events).schedule
    return {int(job): start for job, start in zip(schedule.job, schedule.start, strict=True)}, jobs, found


@pytest.mark.parametrize("policy", ["easy", "conservative"])
@pytest.mark.parametrize(("seed", "kinds"), [(1, {}), (2, {"cancel": True, "capacity": True})])
def test_a_simulation_of_the_history_starts_every_job_when_it_started(tmp_path, policy, seed, kinds):
    lived(tmp_path, policy, seed, **kinds)
    starts, jobs, found = again(tmp_path, tmp_path, policy)
    assert found.policies == [policy]
    assert found.left_out == {}
    started = [job for job in jobs if job.start is not None]
    assert len(started) > 40
    assert {job.id: starts[job.id] for job in started} == {job.id: job.start for job in started}


def test_a_job_that_was_preempted_is_simulated_with_all_its_runs(tmp_path):
    queue = Virtual(tmp_path, "preemptive")
    queue.submit(2, 50)
    queue.submit(4, 100)  # the head
    queue.submit(2, 200, 120)  # in its way
    queue.submit(1, 300, 60)
    queue.drain()
    starts, jobs, found = again(tmp_path, tmp_path, "preemptive")
    assert found.left_out == {}
    jobs.sort(key=lambda job: job.id)
    assert [job.preemptions for job in jobs] == [0, 0, 1, 0]
    assert starts == {job.id: job.start for job in jobs}
    # It ran from 0 until the first one had ended, which is no wait.
    assert jobs[2].ran == pytest.approx(50 * SECOND, abs=100)
    assert waited(jobs[2]) + jobs[2].ran == jobs[2].start - jobs[2].submit
    assert [job.ran for job in jobs if not job.preemptions] == [0, 0, 0]


def test_a_job_whose_runs_were_of_other_lengths_is_counted(tmp_path):
    queue = Virtual(tmp_path, "preemptive", dies=5)
    queue.submit(2, 50)
    queue.submit(4, 100)
    third = queue.submit(2, 200, 120)
    queue.until(60)
    queue.runtime[third] = 10 * SECOND  # less than it ran before
    queue.drain()
    _, jobs, found = again(tmp_path, tmp_path, "preemptive")
    assert {job.id: job.preemptions for job in jobs}[third] == 1
    assert list(found.left_out) == [LONGER]


def test_a_job_that_ended_when_it_was_preempted_is_counted(tmp_path):
    queue = Virtual(tmp_path, "preemptive", dies=5)
    queue.submit(2, 50)
    queue.submit(4, 100)
    third = queue.submit(2, 200, 52)
    queue.drain()
    _, jobs, found = again(tmp_path, tmp_path, "preemptive")
    (job,) = (job for job in jobs if job.id == third)
    assert (job.state, job.preemptions, job.attempts, job.end - job.start) == ("COMPLETED", 0, 1, 52 * SECOND)
    assert list(found.left_out) == [ALONE]


def test_what_a_workload_cannot_tell_is_counted(tmp_path):
    queue = Virtual(tmp_path)
    queue.submit(begin=queue.t + 50 * SECOND)
    held = queue.submit(held=True)
    queue.until(70)
    queue.request(do="release", ids=[held])
    queue.drain()
    starts, jobs, found = again(tmp_path, tmp_path, "easy")
    assert [*found.left_out.values()] == [2]
    assert starts == {job.id: job.start for job in jobs}


def test_jobs_that_are_not_over_are_simulated_as_long_as_they_may_run(tmp_path):
    queue = Virtual(tmp_path)
    over = queue.submit(2, 100, 40)
    runs = queue.submit(2, 100, 90)
    overdue = queue.submit(2, 20, 500)
    waits = queue.submit(4, 100, 50)
    queue.until(65)
    queue.submit(1, 100, 50)  # the last that the log knows of
    store = opened(tmp_path)
    found = recorded(store.events(), [over, runs, overdue, waits])
    jobs = {int(job): row for row, job in enumerate(found.workload.jobs.job.tolist())}
    lengths = {job: found.workload.jobs.runtime[row] / SECOND for job, row in jobs.items()}
    assert lengths[over] == pytest.approx(40, abs=1e-3)
    assert lengths[runs] == lengths[waits] == 100
    assert lengths[overdue] == pytest.approx(queue.t / SECOND - found.started[jobs[overdue]] / SECOND, abs=1e-3)
    assert len(found.events) == 0, "nothing was cancelled"
    starts = {job: int(found.started[row]) for job, row in jobs.items()}
    assert starts.pop(waits) == NO_TIME
    assert starts == {job: queue.job(job).start for job in (over, runs, overdue)}


def test_jobs_are_filtered_and_summed_up(tmp_path):
    queue = Virtual(tmp_path)
    queue.submit(4, 100, 50, user="ana", name="a")
    queue.submit(4, 100, 100, user="bob", name="b")
    queue.drain()
    store = opened(tmp_path)
    jobs = ended(store, Filter())[0]
    ana, bob = summed(jobs, "user", cpus(store, jobs))[::-1]
    assert (ana["user"], ana["jobs"], ana["median_wait_s"], ana["limit_used"]) == ("ana", 1, 0.0, 0.5)
    assert (bob["median_wait_s"], bob["limit_used"]) == (50.0, 1.0)
    assert bob["cpu_h"] == pytest.approx(400 / 3600)
    assert [job.name for job in ended(store, Filter(users=("bob",)))[0]] == ["b"]
    assert [job.name for job in ended(store, Filter(until=queue.t))[0]] == ["a"]
    assert ended(store, Filter(states=("FAILED",))) == ([], 0)


def test_the_verb_lists_filters_and_writes(tmp_path, monkeypatch, capsys):
    from backfill.cli import main

    monkeypatch.setenv("BACKFILL_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert main(["history"]) == 3
    assert "no queue is recorded there" in capsys.readouterr().err
    lived(tmp_path, "easy", 3, jobs=10)
    assert main(["history", "--last", "3"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 5
    assert said[-1] == "10 jobs over, the last 3 are shown"
    assert main(["history", "--json", "--user", "a"]) == 0
    assert {job["user"] for job in json.loads(capsys.readouterr().out)["jobs"]} == {"a"}
    assert main(["history", "--by", "user"]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("USER")
    assert main(["history", "--state", "gone"]) == 2
    capsys.readouterr()
    assert main(["history", "--workload", "week.csv"]) == 0
    command = capsys.readouterr().err.splitlines()[-1]
    assert command == "next: backfill simulate week.csv --platform week.toml --policy easy --overrun extend"
    assert main([*command.split()[2:], "--schedule", "-", "--quiet"]) == 0
    starts = [float(line.split(",")[2]) for line in capsys.readouterr().out.splitlines()[1:]]
    with_dates = [job.start / 1e6 for job in sorted(ended(opened(tmp_path), Filter())[0], key=lambda job: job.id)]
    assert np.array_equal(starts, with_dates)


def test_a_workload_with_another_ending_is_refused_by_the_name_of_the_option(live):
    live.submit("-H", "--", "true")
    said = live.run("history", "--workload", "w.foo", check=2).stderr
    assert said.startswith("backfill: --workload is 'w.foo'; expected a name that ends in ")
