"""A workload file becomes requests: what a queue then knows of each job is what a simulation reads from the file."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from backfill.client.from_file import feed, left_out, request
from backfill.model.schedule import REJECTED
from backfill.model.workload import Jobs, Labels, Ragged, Workload
from backfill.policies import get
from backfill.queue import commands, schema
from backfill.queue.job import USUAL
from backfill.queue.schema import Refused
from backfill.worlds.simulated import simulate
from backfill.worlds.workload import table
from tests.queue.test_possible import PLATFORM, Queue
from tests.reference.workloads import as_model, limited_cases, whole_cases

NOW, SECOND = 1_700_000_000_000_000, 1_000_000


class Fed(Queue):
    """A queue that checks and answers requests, but for the first `full` of them, and keeps their specs."""

    def __init__(self, platform, full=0):
        super().__init__(platform)
        self.specs, self.full, self.batches = {}, full, []

    def ask(self, requests):
        self.batches.append(len(requests))
        return [self.answer(request) for request in requests]

    def answer(self, request):
        schema.check({"do": "submit", **request})
        try:
            if self.full:
                self.full -= 1
                raise Refused("100,000 jobs are queued", "full")
            answer = self.do(commands.submit, request)
        except Refused as refused:
            return refused.answer()
        self.specs[answer["id"]] = request["spec"]
        return answer

    def workload(self):
        """The jobs of the book as they come and run."""
        jobs = [*self.book.jobs.values()]
        facts = [(job.id, {**USUAL, **job.facts(), "submit": job.begin}) for job in jobs]
        found = table(facts, self.platform)
        runtime = np.array([self.specs[job.id]["runtime"] for job in jobs], np.int64)
        return found.with_jobs(found.jobs.replace(runtime=runtime)), [job.name for job in jobs]


@pytest.mark.parametrize("cases", [limited_cases(), whole_cases()], ids=["limited", "whole"])
def test_a_queue_that_was_fed_holds_the_workload(cases):
    @given(case=cases)
    def check(case):
        workload, platform, _ = as_model(case.jobs, case.platform)
        platform = without_queued_jobs(platform)
        jobs = workload.jobs.replace(
            after=Ragged.empty(len(workload)), deadline=None, priority=np.rint(workload.jobs.priority)
        )
        workload = workload.with_jobs(
            jobs.replace(demand=np.maximum(jobs.demand, [1, *[0] * (len(workload.resources) - 1)]))
        )
        queue = Fed(platform)
        numbers, refused = feed(queue.ask, workload, NOW)
        expected = simulate(workload, platform, get("fcfs")).schedule
        impossible = expected.state == REJECTED
        assert (len(numbers), sum(refused.values())) == ((~impossible).sum(), impossible.sum())
        if not numbers:
            return
        held, names = queue.workload()
        rows = [workload.jobs.job.tolist().index(name) for name in names]
        found = simulate(held, platform, get("fcfs")).schedule
        shift = NOW - workload.jobs.submit.min()
        assert (found.start == expected.start[rows] + shift).all()
        assert (found.end == expected.end[rows] + shift).all()

    check()


def without_queued_jobs(platform):
    """The platform without limits on queued jobs, which a queue has no word for yet."""
    return replace(platform, limits=tuple(replace(limit, queued_jobs=None) for limit in platform.limits))


def some_jobs(count, **columns):
    submit = np.arange(count) * SECOND
    runtime = np.full(count, SECOND)
    return Workload(Jobs(job=np.arange(count), submit=submit, runtime=runtime, walltime=2 * runtime, **columns))


def test_jobs_are_sent_in_batches_and_again_while_the_queue_is_full(monkeypatch):
    monkeypatch.setattr("backfill.client.from_file.FULL_S", 0)
    queue, told = Fed(PLATFORM, full=3), []
    numbers, refused = feed(queue.ask, some_jobs(450), NOW, told.append)
    assert (len({*numbers}), refused) == (450, {})
    assert (queue.batches, told) == ([200, 3, 200, 50], [200, 400, 450])
    assert {int(job.name): job.begin - NOW for job in queue.book.jobs.values()} == {
        row: row * SECOND for row in range(450)
    }


def test_a_job_that_comes_after_others_waits_for_their_numbers():
    after = [[], [0], [0, 1], [4], []]  # the fourth one after one that comes later
    constraint = Labels.of(["", "", "", "", "old&new"])
    queue = Fed(PLATFORM)
    numbers, refused = feed(queue.ask, some_jobs(5, after=Ragged.of(after), constraint=constraint), NOW)
    names = {job.name: job for job in queue.book.jobs.values()}
    assert names["2"].after == [["afterany", names["0"].id], ["afterany", names["1"].id]]
    assert len(numbers) == 3
    assert {why[:20] for why in refused} == {"no node in partition", "it depends on a job "}


def test_a_job_asks_for_its_reservation():
    reservation = Labels.of(["course", ""])
    assert [request(some_jobs(2, reservation=reservation), row, NOW)["job"].get("reservation") for row in range(2)] == [
        "course", None]  # fmt: skip


def test_what_a_queue_has_no_word_for_is_named():
    workload = some_jobs(3, deadline=np.full(3, 10**9), queue=Labels.of(["a", "", ""]))
    assert [*left_out(workload)] == [
        "left out: deadlines, which bind in a queue (3 jobs)",
        "left out: queues beside partitions (1 job)",
    ]


def test_only_a_fake_pool_is_fed(live):
    (live.folder / "jobs.csv").write_text("job,submit,runtime\n1,0,5\n")
    said = live.run("submit", "--from", "jobs.csv", check=2).stderr
    assert said.startswith("backfill: --from needs a queue on a fake pool; this one starts processes")
    assert "cannot be combined" in live.run("submit", "--from", "jobs.csv", "--", "true", check=2).stderr
    assert "expected no other option such as cpus" in live.run("submit", "-c", 2, "--from", "jobs.csv", check=2).stderr
