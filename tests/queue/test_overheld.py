"""A node of which runs hold more than there is, since it is drained or a job was started outside the queue there."""

import pytest

from backfill.worlds.live import Planner

SECOND = 1_000_000
TWO = '[[node]]\nname = "a"\ncpus = 8\n[[node]]\nname = "b"\ncpus = 8\n'


def submit(job, cpus, seconds):
    return [["submit", job, {"need": {"cpus": cpus}, "walltime": seconds * SECOND}], ["wait", job]]


@pytest.mark.parametrize("policy", ["conservative", "selective:threshold=1", "reservation-depth", "2tsb", "easy"])
@pytest.mark.parametrize("how", ["drained", "foreign"])
def test_what_one_node_lacks_is_not_lacking_on_others(policy, how):
    planner = Planner(policy, {"base": [], "platform": TWO})
    planner.decide(SECOND, submit(1, 8, 1000))
    if how == "drained":
        planner.decide(2 * SECOND, [["capacity", {"cpus": 0}, "a"]])
    else:
        facts = {"need": {"cpus": 8}, "walltime": 1000 * SECOND}
        planner.decide(2 * SECOND, [["submit", 2, facts], ["began", 2, 2 * SECOND, "foreign-start", [["a", 1]]]])
    assert planner.state.free.nodes.min() == -8
    (start,) = planner.decide(3 * SECOND, submit(3, 8, 100))["starts"]
    assert (start[0], start[2]) == (3, [["b", 1]])
    planner.decide(4 * SECOND, submit(4, 8, 100))  # behind it, on the same node
    if policy != "easy":
        assert planner.reserved()[4] == 103 * SECOND
