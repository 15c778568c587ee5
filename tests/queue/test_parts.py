"""Nodes, tasks and amounts in Slurm's words, as the equal parts of a job."""

import re

import pytest

from backfill.client.options import parse
from backfill.queue.parts import parts_of
from backfill.queue.words import Unreadable, asks_text

GIB = 1 << 30


def parts(line):
    return parts_of(parse("submit", [*line.split(), "--", "true"])[0])


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("", {"need": {"cpus": 1}}),
        ("-n 4 -c 2", {"need": {"cpus": 2}, "tasks": 4}),
        ("-N 2", {"need": {"cpus": 1}, "tasks": 2, "spread": "distinct"}),
        ("-N 2 --ntasks-per-node=1 -c 2", {"need": {"cpus": 2}, "tasks": 2, "spread": "distinct"}),
        ("-N 2 --ntasks-per-node=2 -c 3", {"need": {"cpus": 6}, "tasks": 2, "spread": "distinct", "ntasks": 4}),
        ("-N 2 -n 4", {"need": {"cpus": 2}, "tasks": 2, "spread": "distinct", "ntasks": 4}),
        ("-N 1 -n 4", {"need": {"cpus": 4}, "ntasks": 4}),
        ("-N 1", {"need": {"cpus": 1}}),
        ("--ntasks-per-node 4", {"need": {"cpus": 4}, "ntasks": 4}),
        ("-n 6 --ntasks-per-node 1", {"need": {"cpus": 1}, "tasks": 6, "spread": "distinct"}),
        ("-n 6 --ntasks-per-node 3", {"need": {"cpus": 3}, "tasks": 2, "spread": "distinct", "ntasks": 6}),
        ("-n 6 --ntasks-per-node 8", {"need": {"cpus": 1}, "tasks": 6}),
        ("-N 1-6 -n 6", {"need": {"cpus": 1}, "tasks": 6}),
        ("-N 2-6 -n 9", {"need": {"cpus": 3}, "tasks": 3, "spread": "distinct", "ntasks": 9}),
        ("-N 2-6 -n 8 --ntasks-per-node 2", {"need": {"cpus": 2}, "tasks": 4, "spread": "distinct", "ntasks": 8}),
        ("-n 4 --mem 8G", {"need": {"cpus": 4, "memory": 8 * GIB}, "ntasks": 4}),
        ("-N 2 --mem 8G", {"need": {"cpus": 1, "memory": 8 * GIB}, "tasks": 2, "spread": "distinct"}),
        ("-n 4 -c 2 --mem-per-cpu 1G", {"need": {"cpus": 2, "memory": 2 * GIB}, "tasks": 4}),
        ("-n 4 -G 8", {"need": {"cpus": 1, "gpus": 2}, "tasks": 4}),
        ("-n 4 -G a100:2", {"need": {"cpus": 4, "gpus": 2}, "ntasks": 4, "gpu_type": "a100"}),
        ("-N 2 -G 4", {"need": {"cpus": 1, "gpus": 2}, "tasks": 2, "spread": "distinct"}),
        (
            "-N 2 --gres gpu:a100:2",
            {"need": {"cpus": 1, "gpus": 2}, "tasks": 2, "spread": "distinct", "gpu_type": "a100"},
        ),
        ("-n 3 --gpus-per-task 1", {"need": {"cpus": 1, "gpus": 1}, "tasks": 3}),
        ("-n 3 --gpus-per-node 1", {"need": {"cpus": 3, "gpus": 1}, "ntasks": 3}),
        ("-N 2 -L matlab:3", {"need": {"cpus": 1, "matlab": 3}, "tasks": 2, "spread": "distinct"}),
    ],
)
def test_options_become_equal_parts(line, becomes):
    assert parts(line) == becomes


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-N 2 -n 3", "--nodes: 3 tasks on 2 nodes; expected equally many tasks on each node"),
        ("-N 4 -n 2", "--nodes: 2 tasks on 4 nodes; expected"),
        ("-N 2 -n 8 --ntasks-per-node 3", "--nodes: 8 tasks on 2 nodes, at most 3 on each; expected"),
        ("-N 3-4 -n 5", "--nodes: 5 tasks on 3 to 4 nodes; expected"),
        ("-n 5 --ntasks-per-node 2", "--ntasks 5 with --ntasks-per-node 2: expected a multiple"),
        ("-N 2 -G 3", "--gpus: 3 gpus on 2 nodes; expected equally many on each node"),
        ("-n 0", "--ntasks is 0; expected 1 or more"),
        ("-n 2000000", "the job has 2,000,000 tasks; expected at most 1,000,000"),
        ("--gpus a100:2 --gres gpu:v100:1", "gpus of a100 and v100; expected one type"),
        ("--mem 1G --mem-per-cpu 1G", "--mem and --mem-per-cpu cannot be combined"),
        ("-L gpus:1", "--licenses: gpus is not a licence"),
    ],
)
def test_what_has_no_equal_parts_is_refused(line, said):
    with pytest.raises(Unreadable, match=re.escape(said)):
        parts(line)


@pytest.mark.parametrize(
    ("job", "told"),
    [
        ({"need": {"cpus": 4, "memory": 16 * GIB, "matlab": 1}}, "4 cpus, 16G, matlab 1"),
        ({"need": {"cpus": 1, "gpus": 1}, "parts": 4}, "4 tasks of 1 cpu, gpus 1"),
        (
            {"need": {"cpus": 2, "matlab": 1}, "parts": 2, "spread": "distinct", "exclusive": True},
            "2 nodes of 2 cpus; matlab 1, whole nodes",
        ),
    ],
)
def test_they_are_told_as_people_say_it(job, told):
    assert asks_text(job) == told
