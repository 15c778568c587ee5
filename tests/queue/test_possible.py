"""A job that the nodes of a queue can never run is refused at its submit, in one line, as a simulation would."""

import re

import numpy as np
import pytest

from backfill.model.platform_file import parse_platform
from backfill.queue import commands
from backfill.queue.book import Book
from backfill.queue.events import Entry, Wait
from backfill.queue.job import USUAL
from backfill.queue.nodes import MACHINE, Nodes
from backfill.queue.schema import Refused
from backfill.worlds.adapt import as_run
from backfill.worlds.hopeless import reject_hopeless
from backfill.worlds.workload import table
from tests.queue.test_planner import CLUSTER, jobs_for_nodes

GIB, HOUR = 1 << 30, 3_600_000_000
PLATFORM = parse_platform(
    "cluster.toml",
    CLUSTER
    + """
[[partition]]
name = "short"
nodes = ["n*", "m*"]
default_walltime = "10min"
max_walltime = "1h"
max_size = {cpus = 20}
users = ["ana"]
""",
)


class Queue:
    """A book with the platform, or on a machine of one node."""

    def __init__(self, platform=PLATFORM):
        nodes = Nodes({MACHINE: {"cpus": 8, "memory": 16 * GIB, "gpus": 2}})
        self.book, self.platform = Book(nodes=nodes), platform

    @property
    def context(self):
        return commands.Context(
            self.book, 0, self.book.jobs.get, lambda array: [], lambda token: None, lambda spec: 1,
            {"walltime": HOUR}, {}, platform=self.platform,
        )  # fmt: skip

    def submit(self, user="ana", need=None, **job):
        asked = {"token": f"t{self.book.last_job}", "user": user, "group": "staff", "spec": {"argv": ["true"]}}
        answer = self.do(commands.submit, asked | {"job": {"need": need or {}, **job}})
        return answer, self.book.jobs[answer["id"]]

    def edit(self, number, **to):
        return self.do(commands.edit, {"ids": [number], "to": to})

    def do(self, verb, request):
        slices = verb(request, self.context)
        try:
            while True:
                self.book.apply(map(Entry, next(slices)))
        except StopIteration as over:
            self.book.apply(map(Entry, over.value.events))
            return over.value.answer


ALONE = "the job alone is beyond the limit each user: running cpus of ana: 40 of 24"


@pytest.mark.parametrize(
    ("asked", "said", "code"),
    [
        ({"partition": "long"}, "partition 'long' is unknown; expected all, whole, short", "usage"),
        ({"partition": "shrt"}, "partition 'shrt' is unknown; did you mean short?", "usage"),
        ({"qos": "gold"}, "qos 'gold' is unknown; expected urgent", "usage"),
        ({"constraint": "new&ssd"}, "no node has the feature 'ssd'; expected a100, new, fast, old, or a node", "usage"),
        ({"constraint": "new&&old"}, "constraint is 'new&&old'; expected features joined by", "usage"),
        ({"constraint": "old&fast"}, "no node in partition all satisfies 'old&fast'", "impossible"),
        ({"gpu_type": "a100", "partition": "whole"}, "no node in partition whole satisfies 'a100'", "impossible"),
        ({"gpu_type": "v100", "need": {"gpus": 1}}, "no node has the feature 'v100'; did you mean a100?", "usage"),
        ({"constraint": "!a100", "gpu_type": "a100"}, "constraint '!a100' rules out 'a100'", "usage"),
        ({"need": {"matlab": 3}}, "the job asks for 3 matlab; there are 2 licences of it", "impossible"),
        ({"need": {"ansys": 1}}, "licence 'ansys' is unknown; expected matlab, abaqus", "impossible"),
        ({"need": {"cpus": 9}}, "the job asks for 9 cpus; no node has more than 8 cpus", "impossible"),
        ({"need": {"cpus": 9}, "tasks": 2}, "a part of the job asks for 9 cpus; no node has", "impossible"),
        ({"need": {"cpus": 8}, "tasks": 10}, "the job asks for 80 cpus in all; the nodes have 72 cpus", "impossible"),
        ({"need": {"cpus": 0}}, "cpus is 0; expected 1 or more", "usage"),
        ({"need": {"cpus": 8}, "tasks": 5}, ALONE, "impossible"),
        (
            {"need": {"cpus": 4, "gpus": 1}, "constraint": "new"},
            "none of the 4 nodes on which it may run has 4 cpus, gpus 1",
            "impossible",
        ),
        (
            {"need": {"cpus": 2, "memory": 32, "gpus": 1}, "tasks": 3, "spread": "distinct"},
            "the job asks for 3 nodes of 2 cpus, 0.03125K, gpus 1; of the 12 nodes on which it may run 2 have that",
            "impossible",
        ),
        (
            {"need": {"cpus": 5}, "tasks": 5, "constraint": "new", "user": ""},
            "the job asks for 5 tasks of 5 cpus; the 4 nodes on which it may run hold 4 at once",
            "impossible",
        ),
        (
            {"need": {"cpus": 2}, "exclusive": True},
            "nodes n1 and m1, on which the job may run, are not alike; expected equal nodes to place a job on whole",
            "impossible",
        ),
        (
            {"partition": "short", "walltime": 2 * HOUR},
            "walltime 2 h: partition short allows at most 1 h",
            "impossible",
        ),
        (
            {"partition": "short", "need": {"cpus": 7}, "tasks": 3},
            "the job asks for 21 cpus in all: partition short allows at most 20 cpus",
            "impossible",
        ),
        (
            {"partition": "short", "user": "bob"},
            "user 'bob' of group 'staff' may not use partition short",
            "impossible",
        ),
        ({"need": {"cpus": 2**60}, "tasks": 2**20}, "its 1048576 tasks hold more than 2^62 of a resource", "usage"),
    ],
)
def test_it_is_refused_in_one_line(asked, said, code):
    queue = Queue()
    with pytest.raises(Refused, match=re.escape(said)) as refused:
        queue.submit(**asked)
    assert (refused.value.code, "\n" in str(refused.value)) == (code, False)
    assert not queue.book.jobs


def test_what_it_may_ask_for_are_its_facts_and_what_is_usual_is_not_told():
    queue = Queue()
    answer, job = queue.submit(
        need={"cpus": 2, "matlab": 1},
        tasks=2,
        ntasks=4,
        spread="distinct",
        exclusive=True,
        gpu_type="a100",
        qos="urgent",
    )
    assert (job.need, job.tasks, job.ntasks, job.spread) == ({"cpus": 2, "matlab": 1}, 2, 4, "distinct")
    assert (job.constraint, job.exclusive, job.qos, job.user, job.group) == ("a100", True, "urgent", "ana", "staff")
    assert (answer["spread"], answer["parts"]) == ("distinct", 2)
    _, plain = queue.submit(need={"cpus": 2})
    assert not {*plain.brief()} & {"tasks", "ntasks", "spread", "constraint", "exclusive", "partition", "qos"}


def test_the_walltime_is_that_of_the_partition_if_none_is_asked_for():
    queue = Queue()
    assert queue.submit(partition="short")[1].walltime == HOUR // 6
    assert queue.submit(partition="short", walltime=HOUR // 2)[1].walltime == HOUR // 2
    assert queue.submit()[1].walltime == HOUR  # the default of the queue


def test_grace_is_no_part_of_the_walltime_that_a_partition_allows():
    assert Queue().submit(partition="short", walltime=HOUR, grace=HOUR)[1].grace == HOUR


def test_a_change_after_which_a_job_could_never_run_is_refused():
    queue = Queue()
    number = queue.submit(partition="short")[1].id
    for to, said in (
        ({"walltime": 2 * HOUR}, "walltime 2 h: partition short allows"),
        ({"constraint": "a100"}, "no node in partition short satisfies 'a100'"),
        ({"partition": "none"}, "partition 'none' is unknown"),
        ({"need": {"cpus": 30}}, "partition short allows at most 20 cpus"),
    ):
        with pytest.raises(Refused, match=re.escape(said)):
            queue.edit(number, **to)
    queue.edit(number, partition="all", constraint="new", walltime=2 * HOUR)
    job = queue.book.jobs[number]
    assert (job.partition, job.constraint, job.walltime) == ("all", "new", 2 * HOUR)


TWO_TYPES = parse_platform(
    "cluster.toml",
    """
[[node]]
name = "h"
count = 2
cpus = 8
gpus = 4
gpu_type = "v100"
features = ["ib"]
[[node]]
name = "g"
cpus = 8
gpus = 4
gpu_type = "a100"
features = ["ib"]
""",
)


@pytest.mark.parametrize(
    ("asked", "to", "constraint", "gpus"),
    [
        ({"gpu_type": "v100"}, {"gpu_type": "a100", "need": {"gpus": 2}}, "a100", 2),
        ({"gpu_type": "v100", "constraint": "ib|h2"}, {"gpu_type": "a100"}, "ib&a100|h2&a100", 1),
        ({}, {"gpu_type": "v100"}, "v100", 1),
        ({"constraint": "ib"}, {"gpu_type": "v100"}, "ib&v100", 1),
        ({"gpu_type": "v100"}, {"need": {"gpus": 2}}, "v100", 2),
        ({"gpu_type": "v100"}, {"constraint": "ib"}, "ib&v100", 1),
        ({"gpu_type": "v100"}, {"constraint": "ib", "gpu_type": "a100"}, "ib&a100", 1),
    ],
)
def test_a_type_of_gpus_that_is_edited_replaces_the_one_before_in_the_constraint(asked, to, constraint, gpus):
    queue = Queue(TWO_TYPES)
    number = queue.submit(need={"gpus": 1}, **asked)[1].id
    queue.edit(number, **to)
    job = queue.book.jobs[number]
    assert (job.constraint, job.need["gpus"]) == (constraint, gpus)


def test_a_type_of_gpus_that_no_node_has_is_refused_in_an_edit():
    queue = Queue(TWO_TYPES)
    number = queue.submit(need={"gpus": 1}, gpu_type="v100")[1].id
    with pytest.raises(Refused, match="no node has the feature 'h100'"):
        queue.edit(number, gpu_type="h100")
    assert queue.book.jobs[number].constraint == "v100"


def test_a_policy_is_told_of_another_partition_as_of_a_new_job():
    queue = Queue()
    number = queue.submit(qos="urgent")[1].id
    queue.book.apply([Entry(Wait(number))])
    slices = commands.edit({"ids": [number], "to": {"partition": "short"}}, queue.context)
    with pytest.raises(StopIteration) as over:
        next(slices)
    (event,) = over.value.value.events
    assert (event.leaves, event.told["partition"], event.told["qos"]) == (True, "short", "urgent")


@pytest.mark.parametrize("seed", range(6))
def test_what_is_let_in_is_what_a_simulation_would_not_reject(seed):
    queue, let_in = Queue(), 0
    jobs = [(number, {**USUAL, "submit": t, **facts}) for number, t, _, facts in jobs_for_nodes(seed, 60)]
    jobs_, machine, _, causes = as_run(table(jobs, PLATFORM), PLATFORM)
    reject_hopeless(jobs_, machine, causes, machine.capacity, machine.copies)
    fields = ("tasks", "spread", "constraint", "partition", "qos", "exclusive", "walltime")
    for (_, facts), cause in zip(jobs, causes.tolist(), strict=True):
        asked = {name: facts[name] for name in fields if name in facts}
        try:
            queue.submit(user=facts["user"], need=facts["need"], **asked)
            let_in += 1
            assert not cause
        except Refused:
            assert cause
    assert 0 < let_in < 60 or not np.array(causes != "").any()


def test_on_a_machine_of_one_node_tasks_multiply_what_each_needs():
    queue = Queue(None)
    answer, job = queue.submit(need={"cpus": 2, "gpus": 1, "matlab": 0}, tasks=2)
    assert (job.need, job.tasks, job.ntasks, answer["ntasks"]) == ({"cpus": 4, "gpus": 2, "matlab": 0}, 1, 2, 2)
    answer, job = queue.submit(partition="short", qos="urgent", gpu_type="a100", need={"gpus": 1})
    assert (job.partition, job.group, job.constraint, answer["ignored"]) == ("", "", "", ["partition", "qos"])
    for asked, said in (
        ({"tasks": 2, "spread": "distinct"}, "the queue has one machine, the job asks for 2 nodes; expected 1"),
        ({"constraint": "ssd"}, "the machine has no features to choose from"),
        ({"exclusive": True}, "--exclusive: jobs share the machine"),
        ({"need": {"cpus": 5}, "tasks": 2}, "the job asks for 10 cpus; the machine has 8 cpus"),
    ):
        with pytest.raises(Refused, match=re.escape(said)):
            queue.submit(**asked)
    with pytest.raises(Refused, match="the queue has no partition; expected no --partition"):
        queue.edit(job.id, partition="short")
