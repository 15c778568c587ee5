"""What a job waits for in a whole array, whenever it is submitted."""

import itertools

import pytest

from backfill.queue import commands
from backfill.queue.book import Book
from backfill.queue.events import Entry
from backfill.queue.nodes import MACHINE, Nodes
from tests.queue.logs import entry

TASKS = 3


class Queue:
    """A book, and those jobs that are over; each job starts and ends when it is told to."""

    def __init__(self):
        self.book, self.over = Book(nodes=Nodes({MACHINE: {"cpus": 8}})), {}

    def find(self, number):
        return self.book.jobs.get(number) or self.over.get(number)

    def submit(self, token, **job):
        given = commands.Context(
            self.book, 0, self.find, lambda array: [job for job in self.over.values() if job.array == array],
            lambda token: None, lambda spec: 1, {"walltime": 1}, {},
        )  # fmt: skip
        asked = {"token": token, "user": "ana", "job": {"need": {}, **job}, "spec": {"argv": ["true"]}}
        try:
            next(commands.submit(asked, given))
        except StopIteration as over:
            self.book.apply(map(Entry, over.value.events))
            self.book.decide_some()
            return over.value.answer["id"]

    def end(self, number, state):
        self.book.apply([entry("start", number), entry("end", number, {"state": state})])
        self.book.decide_some()
        self.over |= self.book.over


def fate(queue, number):
    """Return the fate of a waiting job: it may run, never can, or waits."""
    job = queue.book.jobs[number]
    return "never" if job.never else "waits" if job.after else "runs"


@pytest.mark.parametrize("submitted", range(TASKS + 1))
@pytest.mark.parametrize("states", [*itertools.product(["COMPLETED", "FAILED"], repeat=TASKS)])
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_a_whole_array_has_failed_when_it_is_over_and_one_task_failed(submitted, states, order):
    """As Slurm has it: afternotok goes by the highest exit code of the tasks; afterok needs all to be good."""
    queue, later = Queue(), {}
    array = queue.submit("array", array=[*range(TASKS)])
    for done in range(TASKS + 1):
        if done == submitted:
            for kind in ("afternotok", "afterok", "afterany"):
                later[kind] = queue.submit(kind, after=[[kind, array]])
            later["both"] = queue.submit("both", after=[["afternotok", array], ["afterany", array]])
        if done < TASKS:
            queue.end(array + order[done], states[order[done]])
        if later and done + 1 < TASKS:
            assert fate(queue, later["afternotok"]) == fate(queue, later["both"]) == "waits"
    failed = "FAILED" in states
    assert fate(queue, later["afterany"]) == "runs"
    assert fate(queue, later["afternotok"]) == fate(queue, later["both"]) == ("runs" if failed else "never")
    assert fate(queue, later["afterok"]) == ("never" if failed else "runs")


def test_a_task_of_an_array_and_one_of_several_jobs_count_by_themselves():
    queue = Queue()
    array = queue.submit("array", array=[1, 2])
    task = queue.submit("task", after=[["afternotok", [array, 1]]])
    either = queue.submit("either", after=[["afternotok", array]], any_of=True)
    queue.end(array, "FAILED")
    assert (fate(queue, task), fate(queue, either)) == ("runs", "waits")  # for the array, which counts as one
    queue.end(array + 1, "COMPLETED")
    assert fate(queue, either) == "runs"


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("failed", [None, 0, 2])
def test_a_task_without_a_counterpart_waits_for_the_whole_array_as_in_slurm(early, failed):
    """aftercorr: the task of the same index; without one, and for a job that is no task, as afterok of the array."""
    queue = Queue()
    array = queue.submit("array", array=[*range(TASKS)])

    def submit():
        return queue.submit("later", array=[1, 7], after=[["aftercorr", array]]), queue.submit(
            "single", after=[["aftercorr", array]]
        )

    later, single = submit() if early else (0, 0)
    for index in range(TASKS):
        if early:
            assert [fate(queue, later + 1), fate(queue, single)] == (
                ["waits"] * 2 if failed is None or failed >= index else ["never"] * 2
            )
            assert fate(queue, later) == ("waits" if index <= 1 else "runs")
        queue.end(array + index, "FAILED" if index == failed else "COMPLETED")
    if not early:
        later, single = submit()
    assert fate(queue, later) == "runs"
    expected = "runs" if failed is None else "never"
    assert [fate(queue, later + 1), fate(queue, single)] == [expected] * 2
