"""Why a job does not run, and what would help."""

import pytest

from backfill.client.asking import explained
from tests.queue.test_eta import ask, seconds
from tests.queue.virtual import BEGIN, SECOND, Virtual


def explain(queue, number, reason="Resources", **more):
    return ask(queue, "explain", id=number, reason=reason, **more)


def test_what_is_lacking_who_holds_it_and_what_would_help(tmp_path):
    queue = Virtual(tmp_path, "conservative")
    first = queue.submit(3, 600, name="long")
    waiting = queue.submit(4, 600, name="big")
    told = explain(queue, waiting)
    assert told["lacks"] == [{"resource": "cpus", "needs": 4, "free": 1, "capacity": 4}]
    (holder,) = told["holders"]["first"]
    assert (holder["id"], holder["held"], holder["latest_end_s"]) == (first, {"cpus": 3}, BEGIN / SECOND + 600)
    assert abs(told["reserved_s"] - BEGIN / SECOND - 600) < 1e-3
    changes = {one.get("resource") or one.get("cancel") or "walltime": one for one in told["would_help"]}
    assert (changes["cpus"]["amount"], changes["cpus"]["now"]) == (1, True)
    assert changes[first]["now"]
    assert "walltime" not in changes
    said = [*explained(told)]
    assert said[0] == f"job {waiting} waits for cpus: it needs 4, free are 1 of 4"
    assert any("submitted again with --cpus-per-task 1" in line and "would start now" in line for line in said)


def test_a_shorter_walltime_that_fits_before_a_reserved_start_is_found(tmp_path):
    queue = Virtual(tmp_path, "conservative")
    queue.submit(3, 600)
    head = queue.submit(4, 600)
    later = queue.submit(1, 1200)
    told = explain(queue, later, "Priority")
    assert told["lacks"] == []
    assert told["behind"]["id"] == head
    (shorter,) = [one for one in told["would_help"] if "walltime_s" in one]
    assert (shorter["walltime_s"], shorter["now"]) == (540, True)  # the last whole minute that ends before
    queue.request(do="edit", ids=[later], to={"walltime": 540 * SECOND})
    assert queue.job(later).state == "STARTING"


def test_jobs_that_went_first_are_told_with_the_reason(tmp_path):
    queue = Virtual(tmp_path, "conservative", matlab=2)
    queue.submit(3, 600)
    waiting = queue.submit(4, 600)
    short = queue.submit(1, 300)
    queue.until(10)
    told = explain(queue, waiting)
    assert [(one["id"], one["why"]) for one in told["went_first"]] == [(short, "in-time")]


def test_a_reservation_that_moved_says_when_and_why(tmp_path):
    queue = Virtual(tmp_path, "conservative")
    early = queue.submit(4, 600, runtime=100)
    queue.submit(4, 300)
    waiting = queue.submit(4, 300)
    queue.until(200)
    told = explain(queue, waiting)
    first, moved = told["moves"]
    assert abs(first["start_s"] - BEGIN / SECOND - 900) < 1e-3
    assert abs(moved["start_s"] - BEGIN / SECOND - 400) < 1e-3
    assert (moved["cause"], moved["ended"]) == ("moved-up", [early])
    assert any(f"resources were freed when {early} ended" in line for line in explained(told))


def test_a_policy_without_promises_says_so(tmp_path):
    queue = Virtual(tmp_path, "easy")
    queue.submit(3, 600)
    waiting = queue.submit(4, 600)
    told = explain(queue, waiting)
    assert abs(told["reserved_s"] - BEGIN / SECOND - 600) < 1e-3
    assert any("which policy easy does not promise" in line for line in explained(told))
    queue.submit(4, 600)
    last = explain(queue, queue.submit(4, 600))
    assert last["reserved_s"] is None
    assert abs(last["by_walltimes_s"] - BEGIN / SECOND - 1800) < 1e-3
    assert any("no start is promised by policy easy" in line for line in explained(last))


def test_what_keeps_a_job_from_the_queue_of_the_policy_is_told(tmp_path):
    queue = Virtual(tmp_path, "easy")
    running = queue.submit(4, 600)
    after = queue.submit(1, after=[["afterok", running]])
    array = queue.submit(1, array=[7, 8], held=True)
    clean_up = queue.submit(1, after=[["afternotok", array]])
    held = queue.submit(1, held=True)
    begin = queue.submit(1, begin=queue.t + 60 * SECOND)
    said = [*explained(explain(queue, after, "Dependency"))]
    assert said == [f"job {after} waits for other jobs", f"  afterok {running}, which is STARTING"]
    assert [*explained(explain(queue, clean_up, "Dependency"))][1:] == [
        f"  afternotok {array}, of whose tasks 2 have not ended, and some are held"
    ]
    assert [*explained(explain(queue, held, "JobHeldUser"))][-1] == f"next: backfill release {held}"
    assert next(explained(explain(queue, begin, "BeginTime"))).startswith(f"job {begin} waits for its begin time, ")
    assert explain(queue, running + 99)["error"]["code"] == "starting"  # the planner does not know it: it is not over
    assert [*explained(explain(queue, running))] == [f"job {running} is being started: it waits for nothing"]


def test_nothing_is_left_of_what_was_tried(tmp_path):
    queue = Virtual(tmp_path, "conservative")
    queue.submit(3, 600)
    waiting = queue.submit(4, 600)
    first, again = explain(queue, waiting), explain(queue, waiting)
    del first["cpu_s"], again["cpu_s"]
    assert first == again
    assert seconds(ask(queue, "eta"), "guaranteed_s").keys() == {waiting}


def repeated(folder, runtimes, walltime=600):
    """A queue in which jobs of one name have run so long, and one more of them waits behind a reserved start."""
    queue = Virtual(folder, "conservative")
    for runtime in runtimes:
        queue.submit(1, walltime, runtime=runtime, name="fit")
    queue.drain()
    queue.submit(3, 600)
    queue.submit(4, 600)
    return queue, queue.submit(1, 1200, name="fit")


def test_a_limit_that_was_enough_for_all_such_jobs_is_told_with_its_start(tmp_path):
    queue, waiting = repeated(tmp_path, [*range(10, 100, 10), 200])
    told = explain(queue, waiting, "Priority")
    known = told["by_history"]
    assert (known["jobs"], known["used"], known["most"]) == (10, 90 / 600, 200 / 600)
    assert (known["walltime_s"], known["now"]) == (540, True)  # a third of 20 minutes and a quarter of that, in minutes
    said = [*explained(told)]
    assert said[-2] == (
        "of 10 ended jobs of this user and name nine in ten used at most 15% of their limit, none more than 33%"
    )
    assert said[-1].split() == f"edit --time 0:09:00 {waiting} would start now".split()
    queue.request(do="edit", ids=[waiting], to={"walltime": known["walltime_s"] * SECOND})
    assert queue.job(waiting).state == "STARTING"


def test_the_longest_run_counts_whatever_limit_it_had(tmp_path):
    queue, waiting = repeated(tmp_path, [60] * 9 + [1000], walltime=6000)
    known = explain(queue, waiting, "Priority")["by_history"]
    assert known["most"] == 1000 / 6000
    assert known["walltime_s"] is None  # a quarter more than 1000 s is more than it asks for


def test_jobs_that_are_few_or_use_their_limits_give_no_advice(tmp_path):
    for number, runtimes in enumerate(([10] * 9, [10] * 8 + [400] * 2)):
        folder = tmp_path / str(number)
        folder.mkdir()
        queue, waiting = repeated(folder, runtimes)
        told = explain(queue, waiting, "Priority")
        assert told["by_history"] is None
        assert not any("of this user and name" in line for line in explained(told))


def test_a_shorter_limit_that_changes_nothing_is_not_praised(tmp_path):
    queue, _ = repeated(tmp_path, [10] * 12)
    waiting = queue.submit(4, 1200, name="fit")
    told = explain(queue, waiting)
    assert (told["by_history"]["walltime_s"], told["by_history"]["start_s"]) == (60, None)
    assert [*explained(told)][-1].endswith("would not start much earlier")


@pytest.mark.parametrize("policy", ["fcfs", "easy", "easy-sjf", "conservative", "k-reservations", "multi-queue"])
def test_the_jobs_ahead_are_named_whether_a_job_would_fit_or_not(tmp_path, policy):
    queue = Virtual(tmp_path, policy, cpus=8)
    queue.submit(5, 600)
    many = [queue.submit(6, 600 + 60 * number) for number in range(7)]
    small = queue.submit(3, 2000)
    last = explain(queue, many[-1])
    assert last["kept_by"] is None
    assert (last["ahead"]["count"], [one["id"] for one in last["ahead"]["first"]]) == (6, many[:5])
    names = ", ".join(map(str, many[:5]))
    assert f"  ahead of it in the order of policy {policy}: jobs {names} and 1 more" in [*explained(last)]
    fits = explain(queue, small, "Priority")
    assert fits["behind"] is None  # no job alone keeps it back
    assert fits["kept_by"]["count"] == 7
    assert next(explained(fits)) == f"job {small} would fit now, and waits behind jobs {names} and 2 more"
    for number in many:
        queue.request(do="cancel", ids=[number])
    assert queue.job(small).state == "STARTING"


def test_the_order_of_the_policy_says_who_is_ahead_not_the_submit(tmp_path):
    queue = Virtual(tmp_path, "easy-sjf")
    queue.submit(4, 600)
    long, short = queue.submit(4, 900), queue.submit(4, 60)
    assert [one["id"] for one in explain(queue, long)["ahead"]["first"]] == [short]
    assert explain(queue, short)["ahead"] == {"count": 0, "first": []}


def test_an_order_that_changes_at_each_pass_says_who_is_ahead(tmp_path):
    queue = Virtual(tmp_path, "easy-lxf")
    queue.submit(4, 600)
    long, longer, short = queue.submit(4, 900), queue.submit(4, 1200), queue.submit(4, 60)
    queue.until(10)
    queue.submit(4, 30)
    assert [one["id"] for one in explain(queue, longer)["ahead"]["first"]] == [short, long]
    assert [one["id"] for one in explain(queue, long)["ahead"]["first"]] == [short]
    assert explain(queue, short)["ahead"] == {"count": 0, "first": []}


def test_a_deep_queue_has_the_same_order(tmp_path):
    queue = Virtual(tmp_path, "easy-sjf")
    queue.submit(4, 600)
    some = {queue.submit(4, 1000 - number % 7 * 100 - number): 0 for number in range(300)}
    longest = min(some)
    told = explain(queue, longest)
    assert told["ahead"]["count"] == 299
    shortest = sorted(some, key=lambda number: queue.job(number).walltime)[:5]
    assert [one["id"] for one in told["ahead"]["first"]] == shortest


def test_tasks_and_a_pause_that_keep_a_job_back_are_named(tmp_path):
    queue = Virtual(tmp_path, "easy")
    array = queue.submit(1, 600, array=[1, 2, 3], throttle=2)
    said = next(explained(explain(queue, array + 2, "JobArrayTaskLimit")))
    assert said.endswith(f"2 may run at once, now {array}_1, {array}_2")
    queue.request(do="pause")
    fits = queue.submit(1, 60)
    assert "which is paused" in next(explained(explain(queue, fits, "Paused")))


def test_a_deadline_that_the_bound_misses_is_told(tmp_path):
    queue = Virtual(tmp_path, "fcfs")
    queue.submit(4, 3600)
    late, early = (queue.submit(4, 600, deadline=queue.t + s * SECOND) for s in (4000, 9000))
    rows = {row["id"]: row for row in ask(queue, "eta")["jobs"]}
    assert (rows[late]["misses_deadline"], rows[early]["misses_deadline"]) == (True, False)
    assert rows[late]["deadline_s"] == BEGIN / SECOND + 4000
    assert rows[late]["p90_s"] + 600 > rows[late]["deadline_s"]
    told = explain(queue, late)
    assert told["estimate"]["misses_deadline"]
    assert any(line.startswith("  it may miss its deadline, ") for line in explained(told))
    assert not any("deadline" in line for line in explained(explain(queue, early)))
    assert "estimate" not in explain(queue, queue.submit(4, 600))
    queue.until(3500)  # the queue itself gives it up, once it could not end in time
    assert queue.job(late).state == "DEADLINE"


def test_a_change_that_is_tried_starts_when_the_edited_job_does(tmp_path):
    queue = Virtual(tmp_path, "conservative")
    queue.submit(3, 600)
    queue.submit(4, 600)
    later = queue.submit(2, 1200)
    at = BEGIN / SECOND
    tried = [
        explain(queue, later, "Priority", to=to)["tried"]
        for to in ({"walltime": 300 * SECOND}, {"need": {"cpus": 1}, "walltime": 300 * SECOND}, {"need": {"cpus": 4}})
    ]
    assert [(one["limit_s"], one["need"], one["now"]) for one in tried] == [
        (300, {"cpus": 2}, False),
        (300, {"cpus": 1}, True),
        (1200, {"cpus": 4}, False),
    ]
    starts = [one["start_s"] - at for one in tried]
    assert starts == pytest.approx([1200, 0, 1200], abs=60)
    assert "tried" not in explain(queue, later, "Priority")
    queue.request(do="edit", ids=[later], to={"need": {"cpus": 1}, "walltime": 300 * SECOND})
    assert queue.job(later).state == "STARTING"
