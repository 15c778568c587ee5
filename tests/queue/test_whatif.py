"""What starts at once, when a job that is not there yet would start, and what another policy would do."""

import pytest

from backfill.queue import feed
from backfill.queue.job import Job
from tests.queue.test_eta import ask
from tests.queue.virtual import BEGIN, SECOND, Virtual

NOW = BEGIN / SECOND


def slots(queue, grace=0, **need):
    told = ask(queue, "slots", need=need, grace=grace, user="ana", group="staff", gpu_type="")
    return [(one["cpus"], one["for_s"] and round(one["for_s"]), one["until"]) for one in told["slots"]]


def test_holes_are_as_long_as_the_policy_lets_a_job_of_that_size_run(tmp_path):
    queue = Virtual(tmp_path, "conservative", cpus=8)
    assert slots(queue) == [(8, None, "")]
    queue.submit(4, 600)
    queue.submit(1, 300)
    assert slots(queue) == [(3, None, "")]
    big = queue.submit(8, 100)
    assert slots(queue) == [(3, 599, str(big))]
    assert slots(queue, grace=30 * SECOND) == [(3, 569, str(big))]
    queue.submit(5, 1000)  # after that, with three cpus left for ever
    assert slots(queue) == [(3, 599, str(big))]
    assert slots(queue, memory=1 << 35) == []


def test_what_a_hole_offers_starts_and_a_second_more_does_not(tmp_path):
    queue = Virtual(tmp_path, "easy", cpus=8)
    queue.submit(5, 600)
    queue.submit(6, 600)
    (small, for_ever, _), *_ = sorted(slots(queue), key=lambda one: one[0])
    assert (small, for_ever) == (2, None)  # beside the reserved start
    assert (3, 599) in [one[:2] for one in slots(queue)]
    late = queue.submit(3, 601)
    assert queue.job(late).state == "PENDING"
    queue.request(do="cancel", ids=[late])
    assert queue.job(queue.submit(3, 599)).state == "STARTING"


def tasks(queue, cpus, walltime, count=1, **more):
    first = queue.engine.book.last_job + 1
    facts = {"need": {"cpus": cpus}, "walltime": walltime * SECOND, "user": "ana", "name": "job", **more}
    return [Job(first + place, **facts).facts() for place in range(count)]


def test_a_job_that_is_only_tried_starts_when_it_would_and_delays_nobody(tmp_path):
    queue = Virtual(tmp_path, "conservative")
    queue.submit(4, 600)
    queue.submit(4, 600)
    told = ask(queue, "test", tasks=tasks(queue, 4, 60))
    (job,) = told["jobs"]
    assert job["guaranteed_s"] == pytest.approx(NOW + 1200, abs=1e-3)
    assert job["median_s"] <= job["p90_s"] <= job["guaranteed_s"]
    assert (told["at_once"], told["delayed"]) == (0, [])
    assert len(queue.engine.book.jobs) == 2
    real = queue.submit(4, 60)
    assert queue.engine.plan[real] / 1e6 == pytest.approx(NOW + 1200, abs=1e-3)


def test_an_array_that_is_tried_starts_in_part(tmp_path):
    queue = Virtual(tmp_path, "easy")
    queue.submit(2, 600)
    told = ask(queue, "test", tasks=tasks(queue, 1, 60, count=3))
    assert told["at_once"] == 2
    assert [job["median_s"] == pytest.approx(NOW, abs=1) for job in told["jobs"]] == [True, True, False]


def test_a_job_that_would_delay_others_says_whom(tmp_path):
    queue = Virtual(tmp_path, "easy-sjf")
    queue.submit(4, 600)
    long = queue.submit(4, 600)
    told = ask(queue, "test", tasks=tasks(queue, 4, 10))
    assert [one["id"] for one in told["delayed"]] == [long]
    assert told["delayed"][0]["after_s"] - told["delayed"][0]["before_s"] == pytest.approx(10, abs=1)


def switch(queue, policy):
    book = queue.engine.book
    epoch = {"policy": policy, "resources": book.capacity, "now": queue.t, "base": feed.base(book)}
    return ask(queue, "switch", policy=policy, epoch=epoch)


def test_another_policy_is_tried_before_it_takes_over(tmp_path):
    queue = Virtual(tmp_path, "conservative")
    queue.submit(3, 600)
    long, short = queue.submit(4, 600), queue.submit(4, 300)
    told = switch(queue, "easy-sjf")
    rows = {row["id"]: row for row in told["jobs"]}
    assert (told["from"], told["to"], told["binds"]) == ("conservative", "easy-sjf", False)
    assert rows[short]["after"]["median_s"] < rows[short]["before"]["median_s"]
    assert rows[long]["after"]["median_s"] > rows[long]["before"]["median_s"]
    assert (told["earlier"], told["later"]) == (1, 1)
    assert told["fall"] == [str(long), str(short)]  # it promises nothing
    kept = switch(queue, "conservative")
    assert kept["binds"]
    assert kept["fall"] == []
    assert "'nothing'" in switch(queue, "nothing")["error"]["message"]
