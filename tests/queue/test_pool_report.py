"""A report on the pool of a queue: from the log of the queue to the page."""

import json
import random

import numpy as np
import pytest

from backfill.answers.history import recorded
from backfill.cli import main
from backfill.model.units import SECOND
from backfill.pool_report import Watched, fit_model, models_for
from backfill.queue import events
from backfill.queue.events import Entry
from tests.queue.test_cluster import cluster  # noqa: F401 - a fixture
from tests.queue.virtual import Virtual
from tests.schemas import check
from tests.test_pool_report import CPUS, short_jobs, started_by


@pytest.fixture
def busy(tmp_path, monkeypatch):
    """The folder of a queue that was busy for some hours, and the place where commands are run."""
    chance = random.Random(1)
    (tmp_path / "queue").mkdir()
    queue, t = Virtual(tmp_path / "queue", "k-reservations:k=10"), 0
    for _ in range(160):
        t += chance.choice([0, 5, 40, 60])
        queue.until(t)
        walltime = chance.choice([40, 90, 200])
        runtime = chance.randint(walltime // 4, walltime)
        queue.submit(chance.randint(1, 4), walltime, runtime, user=chance.choice(["ana", "bob"]))
    queue.drain()
    monkeypatch.setenv("BACKFILL_HOME", str(tmp_path / "queue"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "queue"


def test_the_scheduler_of_the_queue_is_found_and_others_are_compared_with_it(busy, capsys):
    assert main(["pool", "report", "--policies", "easy,k-reservations:k=2"]) == 0
    told, said = capsys.readouterr()
    lines = told.splitlines()
    assert lines[0] == "history: 160 jobs on 4 cpus"
    verdict = " ".join(told.partition("fidelity:")[2].partition("The model is")[0].split())
    assert verdict.startswith("conclusive: k-reservations:k=10 with no dead time gives a mean wait of")
    assert verdict.endswith("100% of the pairs that waited at the same time start in the same order")
    places = [told.index(part) for part in ("fidelity:", "who loses:", "bounded slowdown:", "pairs, 95% intervals:")]
    assert places == sorted(places)
    assert told.count("who loses:") == 1
    assert "under k-reservations:k=2" in told
    assert said.splitlines()[-1].endswith("pool report --policies easy,k-reservations:k=2 -o pool.html")


def test_its_json_has_the_fidelity_beside_the_comparison(busy, capsys):
    assert main(["pool", "report", "--queue", str(busy), "--json", "-q"]) == 0
    told, said = capsys.readouterr()
    found = check("pool-report", told)
    assert said == ""
    assert found["fidelity"]["conclusive"] is True
    assert found["fidelity"]["model"] == {"policy": "k-reservations:k=10", "dead_time_s": 0.0, "delay_s": 0.0}
    assert found["fidelity"]["judged"]["relative"] == 0
    assert len(found["fidelity"]["waits_s"]["observed"]) == found["fidelity"]["judged"]["jobs"]
    assert [each["policy"] for each in found["results"]] == ["k-reservations", "easy", "easy-sjbf", "conservative"]


def test_a_page_is_written_and_the_next_command_is_told(busy, capsys, tmp_path):
    assert main(["pool", "report", "-o", "pool.html", "--policies", "easy-sjbf"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[-2] == "wrote pool.html"
    assert " policies " in said[-1]
    page = (tmp_path / "pool.html").read_text()
    assert "Conclusive: k-reservations:k=10 with no dead time" in page
    assert "pool report -o pool.html --policies easy-sjbf" in page


def test_mistakes_are_told_in_a_line(busy, capsys, tmp_path):
    for words, code, told in (
        (["--queue", "nosuch"], 3, "nosuch: no queue is recorded there"),
        (["--policies", "k-reservations:k=10", "-q"], 2, "--policies names only the model itself"),
        (["--policies", "nosuch"], 2, "nosuch"),
        (["--models", "nosuch"], 2, "nosuch"),
        (["-o", "-"], 2, "--report is '-'"),
        (["-o", "nosuch/pool.html"], 1, "nosuch/pool.html"),
        (["extra"], 2, "extra"),
    ):
        assert main(["pool", "report", *words]) == code, words
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("backfill: ")]
        assert told in line
    assert main(["pool"]) == 2
    assert capsys.readouterr().err == "backfill: Missing command; see backfill pool --help\n"
    Virtual(tmp_path)
    assert main(["pool", "report", "--queue", str(tmp_path)]) == 3
    assert "no job of the history ever came to the policy" in capsys.readouterr().err


def test_a_queue_that_is_not_over_and_saw_too_little_is_not_conclusive(tmp_path, capsys):
    queue = Virtual(tmp_path, "easy")
    for place in range(8):
        queue.until(30 * place)
        queue.submit(2 + place % 3, 100, 60)
    assert main(["pool", "report", "--queue", str(tmp_path), "-o", str(tmp_path / "pool.html")]) == 0
    told, said = capsys.readouterr()
    assert " ".join(told.split()).count("not conclusive: only") == 1
    assert "not conclusive; the policies below differ so in the simulation of that model" in told
    assert "the differences between policies may not hold on the pool" in said
    assert "Observe the pool for longer" in (tmp_path / "pool.html").read_text()


def watched_log(log, start, poll, begins=0):
    """What a queue writes down that looks at a pool now and then: jobs that come, that others start, and that end."""
    jobs = log.jobs
    news = [(int(at), 0, row) for row, at in enumerate(jobs.submit)] + [
        (int(at), 1, row) for row, at in enumerate(start)
    ]
    news += [(int(at), 2, row) for row, at in enumerate(start + jobs.runtime)]
    entries = [Entry(events.Epoch({"policy": "easy", "resources": {"cpus": CPUS}, "base": []}), begins)]
    waiting, last, known = set(), begins, set()
    for at, kind, row in [*sorted(news), (sorted(news)[-1][0] + poll, 3, -1)]:
        now = max(-(-at // poll) * poll, begins)
        if now != last:
            entries += [Entry(e, last) for job in sorted(waiting) for e in (submitted(jobs, job), events.Wait(job + 1))]
            entries.append(Entry(events.PassBegun(last), last))
            known, waiting = known | waiting, set()
        last = now
        if kind == 0:
            waiting.add(row)
        elif kind == 1:
            facts = None if row in known else submitted(jobs, row).row
            waiting.discard(row)
            entries.append(Entry(events.Began(row + 1, 1, at, "foreign", [], [], [], facts), now))
        elif kind == 2:
            entries.append(Entry(events.End(row + 1, "COMPLETED", ended=at), now))
    return entries


def submitted(jobs, row):
    facts = {"need": {"cpus": int(jobs.procs[row])}, "walltime": int(jobs.walltime[row]), "user": "ana"}
    return events.Submit(row + 1, {**facts, "submit": int(jobs.submit[row])})


def test_a_pool_that_somebody_else_schedules_is_modelled_from_what_was_seen_of_it():
    log = short_jobs(4)
    log = log.with_jobs(log.jobs.replace(submit=log.jobs.submit + 1000 * SECOND))
    start = started_by(log, "k-reservations:k=10")
    found = recorded(watched_log(log, start, 3 * SECOND), range(1, len(log) + 1))
    assert (found.workload.jobs.runtime == log.jobs.runtime).all(), "not when a look told of the ends"
    assert (found.workload.jobs.submit == log.jobs.submit).all()
    assert (found.started == start).all()
    fit = fit_model(Watched.of(found.workload, found.platform, found.started, found.events), models_for(log))
    assert fit.conclusive, fit.reasons
    assert fit.model.dead_time == pytest.approx(SECOND, abs=SECOND / 4)


def test_jobs_that_were_there_before_the_first_look_are_taken_from_then_on():
    log = short_jobs(4)
    start = started_by(log, "easy")
    begins = int(log.jobs.submit[150])
    end = start + log.jobs.runtime
    there = np.flatnonzero(end >= begins)
    seen = log.with_rows(there)
    found = recorded(watched_log(seen, start[there], 3 * SECOND, begins), range(1, len(seen) + 1))
    watched = Watched.of(found.workload, found.platform, found.started, found.events)
    running = (start < begins)[there]
    assert watched.running == running.sum() > 0
    assert watched.observed.submit.min() >= begins
    rest = watched.workload.jobs
    assert np.abs(rest.submit + rest.runtime - end[there])[running].max() <= 1
    assert fit_model(watched, models_for(log)).conclusive


def test_a_queue_on_a_simulated_cluster_is_reported_while_it_runs(cluster):  # noqa: F811
    chance = random.Random(2)
    rows, t = ["job,submit,runtime,walltime,tasks,cpus,user"], 0
    for job in range(120):
        t += chance.choice([10, 60, 90])
        runtime = chance.randint(100, 1500)
        user = chance.choice(["ana", "bob"])
        rows.append(f"{job},{t},{runtime},{2 * runtime},{chance.choice([1, 1, 2])},{chance.choice([4, 8, 16])},{user}")
    (cluster.folder / "jobs.csv").write_text("\n".join([*rows, ""]))
    (cluster.folder / "config.toml").write_text(
        'policy = "easy"\nplatform = "cluster.toml"\npool = "fake:speed=2000,foreign=200,failures=0.3,repair=3600"\n'
    )
    cluster.run("submit", "--from", "jobs.csv")
    cluster.until(lambda: len(over(cluster)) > 40)
    during = cluster.run("pool", "report", "--json", "-o", "pool.html", NUMBA_DISABLE_JIT="0")
    assert {"conclusive", "reasons"} <= {*json.loads(during.stdout)["fidelity"]}
    page = (cluster.folder / "pool.html").read_text()
    assert page.index('id="fidelity"') < page.index('id="losers"') < page.index('id="summary"')


def over(queue):
    """The jobs of the workload that are over, which others start jobs beside."""
    jobs = queue.request("queue", ended=1000, limit=1000)["jobs"]
    return [job for job in jobs if job["end_s"] is not None and job["user"] != "root"]
