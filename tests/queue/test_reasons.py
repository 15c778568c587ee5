"""Why a pending job waits, in one word: resources that it lacks, a limit, or its turn."""

import pytest

from backfill.daemon.shown import row
from backfill.model.platform_file import parse_platform
from tests.queue.virtual import SECOND, Virtual

CLUSTER = """
[[node]]
name = "n"
count = 2
cpus = 8
[[node]]
name = "f"
count = 2
cpus = 8
features = ["fast"]
[[partition]]
name = "all"
nodes = ["*"]
default = true
[[partition]]
name = "fast"
nodes = ["f*"]
[[licence]]
name = "matlab"
copies = 1
[[limit]]
name = "each user"
per = "user"
running_jobs = 2
"""


@pytest.fixture
def queue(tmp_path):
    """A cluster with five of eight cpus busy on each of four nodes."""
    queue = Virtual(tmp_path, "fcfs", platform=parse_platform("cluster.toml", CLUSTER))
    for user in "abcd":
        queue.submit(5, 600, user=user)
    return queue


def reason(queue, number):
    return row(queue.engine, queue.job(number), queue.t)["reason"]


def test_a_job_that_fits_on_no_node_lacks_resources_though_enough_are_free_in_all(queue):
    assert reason(queue, queue.submit(4, 600)) == "Resources"


def test_a_job_that_would_fit_waits_for_its_turn(queue):
    first = queue.submit(4, 600)
    fits, wide = queue.submit(3, 600), queue.submit(3, 600, tasks=5, spread="any")
    assert reason(queue, fits) == "Priority"
    assert reason(queue, wide) == "Resources"
    queue.request(do="cancel", ids=[first])
    assert queue.job(fits).state == "STARTING"


def test_room_on_nodes_that_a_job_may_not_use_is_no_room(queue):
    queue.submit(4, 600)
    for where in ({"partition": "fast"}, {"constraint": "fast"}):
        assert reason(queue, queue.submit(3, 600, tasks=2, spread="any", **where)) == "Priority"
        assert reason(queue, queue.submit(3, 600, tasks=3, spread="any", **where)) == "Resources"
    assert reason(queue, queue.submit(1, 600, exclusive=True)) == "Resources"


def test_a_licence_is_a_resource_and_a_limit_is_none(queue):
    queue.submit(1, 600, user="x", licences={"matlab": 1})
    queue.submit(1, 600, user="x")
    assert reason(queue, queue.submit(1, 600, user="x")) == "Limit"
    assert reason(queue, queue.submit(1, 600, user="y", licences={"matlab": 1})) == "Resources"


def test_what_has_ended_is_free_at_once(queue):
    waiting = queue.submit(4, 600)
    behind = queue.submit(8, 600)
    assert reason(queue, behind) == "Resources"
    queue.request(do="pause")
    queue.until(700)
    queue.request(do="hold", ids=[waiting])
    assert reason(queue, behind) == "Paused"


def test_what_a_reservation_has_is_free_for_its_own_jobs_only(tmp_path):
    queue = Virtual(tmp_path, "fcfs", cpus=4)
    queue.submit(1, 600)
    now = queue.t + queue.engine.book.skew
    asked = {"reservation": "course", "user": "ana", "begin": now, "until": now + 3600 * SECOND, "token": "r"}
    queue.request(do="reserve", amount={"cpus": 2}, **asked)
    queue.until(1)
    queue.submit(2, 600, reservation="course")
    assert reason(queue, queue.submit(2, 600)) == "Resources"
    assert reason(queue, queue.submit(1, 600)) == "Priority"
    assert reason(queue, queue.submit(1, 600, reservation="course")) == "Resources"
