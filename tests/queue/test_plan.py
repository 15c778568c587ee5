"""The plan of a queue as plain data: what ran, what runs, and what will, on which nodes."""

import json

import pytest

from backfill.answers.plan import Window, plan
from backfill.daemon.shown import Rows, plan_rows
from backfill.model.platform_file import parse_platform
from backfill.queue.store import Store
from tests.queue.virtual import BEGIN, SECOND, Virtual
from tests.schemas import check

PLATFORM = parse_platform("platform", """
[[node]]
name = "n"
count = 2
cpus = 4

[[licence]]
name = "matlab"
copies = 2
""")  # fmt: skip
BEGIN_S = BEGIN / SECOND


def planned(queue, window=None, starts=None, **asked):
    """The plan, as a reader beside the daemon makes it."""
    steps = plan_rows(queue.engine, queue.t, asked, starts or {})
    while True:
        try:
            next(steps)
        except StopIteration as end:
            told = {**end.value, "estimates": None}
            break
    assert isinstance(told["jobs"], Rows)
    rows = b"".join(told["jobs"].parts).decode()
    store = Store(queue.folder / "store.db", readonly=True)
    try:
        found = plan(store, {**told, "jobs": json.loads(f"[{rows}]")}, window or Window())
        return check("plan", json.dumps(found))
    finally:
        store.close()


def spans(bars, begin="start_s", end="end_s"):
    """Label -> begin and end, in seconds since the queue began."""
    return {bar["label"]: tuple(bar[name] and bar[name] - BEGIN_S for name in (begin, end)) for bar in bars}


def test_past_present_and_future_have_their_bars(tmp_path):
    queue = Virtual(tmp_path, "conservative", platform=PLATFORM)
    queue.submit(4, 100, runtime=50, licences=[("matlab", 1)])
    queue.until(60)
    running = queue.submit(4, 100, tasks=2, spread="distinct")
    waiting = queue.submit(2, 200, licences=[("matlab", 2)])
    held = queue.submit(1, 10, held=True)
    queue.until(70)
    likely = {waiting: ((BEGIN_S + 90), (BEGIN_S + 150))}
    found = planned(queue, starts=likely)

    assert [(lane["lane"], lane["name"], lane["amount"]) for lane in found["lanes"]] == [
        ("node", "n1", 4), ("node", "n2", 4), ("licence", "matlab", 2),
    ]  # fmt: skip
    assert spans(found["past"]) == {"1": (0, 50)}
    (over,) = found["past"]
    assert (over["state"], over["cpus"], over["licences"], over["why"]) == ("COMPLETED", 4, {"matlab": 1}, "head")
    (node,) = over["nodes"]
    assert over["nodes"] == {node: 4}
    assert spans(found["running"], end="latest_end_s") == {str(running): (60, 160)}
    (runs,) = found["running"]
    assert runs["nodes"] == {"n1": 4, "n2": 4}
    assert found["now_s"] < runs["likely_end_s"] <= runs["latest_end_s"]
    first, last = found["pending"]
    assert (first["id"], first["cpus"], first["licences"]) == (waiting, 2, {"matlab": 2})
    assert spans([first], "guaranteed_s", "latest_end_s") == {str(waiting): (160, 360)}
    assert (first["median_s"], first["p90_s"]) == likely[waiting]
    assert first["median_s"] < first["likely_end_s"]
    assert sum(first["nodes"].values()) == 2
    assert (last["id"], last["reason"], last["planned_s"], last["nodes"]) == (held, "JobHeldUser", None, {})
    assert found["omitted"] == {"past": 0, "running": 0, "pending": 0}
    assert found["binds"]


def test_an_attempt_that_is_run_again_is_a_bar_of_its_own(tmp_path):
    queue = Virtual(tmp_path, "easy")
    first = queue.submit(4, 100, requeue=True)
    queue.until(20)
    queue.request(do="requeue", ids=[first])
    queue.cut[first, 1] = queue.t
    queue.until(130)
    found = planned(queue)
    assert [(bar["state"], *spans([bar])[str(first)]) for bar in found["past"]] == [
        ("REQUEUED", 0, 20),
        ("COMPLETED", 20, 40),
    ]


def test_a_window_selects_times_users_and_nodes_and_says_what_is_left_out(tmp_path):
    queue = Virtual(tmp_path, "conservative", platform=PLATFORM)
    for user, runtime in (("ana", 10), ("bo", 20), ("ana", 30), ("bo", 100)):
        queue.submit(4, 100, runtime=runtime, user=user)
        queue.until(runtime)
    queue.until(100)
    for user in ("ana", "bo", "ana"):
        queue.submit(4, 100, user=user)
    queue.until(105)
    for user in ("ana", "bo"):
        queue.submit(4, 100, user=user, tasks=2, spread="distinct")
    queue.flush()

    everything = planned(queue)
    assert len(everything["past"]) == 3
    assert [bar["user"] for bar in planned(queue, Window(users=("bo",)), users=["bo"])["pending"]] == ["bo"] * len(
        [bar for bar in everything["pending"] if bar["user"] == "bo"]
    )
    later = planned(queue, Window(since_s=BEGIN_S + 25))
    assert all(bar["end_s"] >= BEGIN_S + 25 for bar in later["past"])
    assert len(later["past"]) < len(everything["past"])
    soon = planned(queue, Window(until_s=BEGIN_S + 101))
    assert soon["pending"] == []
    on_one = planned(queue, Window(nodes=("n2",)))
    assert [lane["name"] for lane in on_one["lanes"]] == ["n2", "matlab"]
    assert all("n2" in bar["nodes"] for bar in (*on_one["past"], *on_one["running"]))
    few = planned(queue, Window(most=1), limit=1)
    assert [len(few[kind]) for kind in ("past", "running", "pending")] == [1, 1, 1]
    left = {kind: len(everything[kind]) - 1 for kind in ("past", "running", "pending")}
    assert few["omitted"] == left
    assert few["past"] == everything["past"][-1:]
    assert few["running"] == everything["running"][:1]


@pytest.mark.parametrize("most", [1, 2, 3, 5, 50])
def test_pages_of_runs_that_are_over_have_each_once(tmp_path, most):
    queue = Virtual(tmp_path, "easy")
    for runtime in (5, 5, 50, 5, 8, 8, 20, 5):
        queue.submit(2, 100, runtime=runtime, name=f"r{runtime}", requeue=True)
    for job, t in ((3, 7), (7, 15), (3, 30)):  # runs before the last one, which end long before their job
        queue.until(t)
        known = queue.engine.book.jobs.get(job)
        if known is not None and known.attempt is not None:
            queue.request(do="requeue", ids=[job])
            queue.cut[job, known.attempts] = queue.t
    queue.until(500)
    everything = planned(queue)["past"]
    assert len(everything) > 8
    found, last = {}, None
    for _ in range(len(everything) + 1):
        page = planned(queue, Window(most=most, ended_by_s=last, kinds=("past",)), limit=0)
        assert page["running"] == page["pending"] == []
        more = [bar for bar in page["past"] if (bar["id"], bar["start_s"]) not in found]
        found |= {(bar["id"], bar["start_s"]): bar for bar in more}
        complete = {(bar["id"], bar["start_s"]) for bar in everything if bar["end_s"] > page["past_since_s"]}
        assert complete <= found.keys()
        if not page["omitted"]["past"] or not more:
            break
        last = page["past_since_s"]
    same_end = max(sum(bar["end_s"] == other["end_s"] for other in everything) for bar in everything)
    assert len(found) == len(everything) or most <= same_end
    assert planned(queue, Window(projects=("none",)))["past"] == []
    assert {bar["name"] for bar in planned(queue, Window(names=("r8", "r20")))["past"]} == {"r8", "r20"}
    assert planned(queue)["begins_s"] <= BEGIN_S


def test_instants_are_those_of_the_calendar(tmp_path):
    queue = Virtual(tmp_path, "conservative")
    queue.submit(4, 100, runtime=10)
    queue.submit(4, 50)
    queue.submit(4, 50)
    queue.until(20)
    before = planned(queue)
    queue.engine.book.skew = 3600 * SECOND
    after = planned(queue)
    assert after["now_s"] == pytest.approx(before["now_s"] + 3600)
    for kind, names in (("past", ("start_s", "end_s", "submit_s")), ("running", ("start_s", "latest_end_s")),
                        ("pending", ("planned_s", "guaranteed_s", "latest_end_s", "promise_s"))):  # fmt: skip
        for old, new in zip(before[kind], after[kind], strict=True):
            assert [new[name] for name in names] == [pytest.approx(old[name] + 3600) for name in names]


def test_arrays_deadlines_and_begins_are_told(tmp_path):
    """And what a published schema must allow: a bar may have all of it."""
    queue = Virtual(tmp_path, "conservative")
    queue.submit(4, 10)
    first = queue.submit(4, 50, runtime=20, array=[1, 2, 3])
    queue.until(12)
    begin = queue.t + 500 * SECOND
    late = queue.submit(4, 50, begin=begin, deadline=begin + 900 * SECOND)
    soon = queue.submit(4, 50, deadline=begin)
    queue.until(40)
    queue.request(do="reserve", token="t", reservation="r", amount={"cpus": 1}, begin=begin, span=SECOND, user="ana")
    queue.engine.expected[first + 2] = queue.t + 60 * SECOND
    queue.engine.book.jobs[first + 2].native = "77"
    found = planned(queue)
    assert [bar["label"] for bar in found["past"]] == ["1", f"{first}_1"]
    assert [bar["array"] for bar in (*found["past"], *found["running"])] == [None, first, first]
    assert found["past"][1]["promise_s"] == pytest.approx(BEGIN_S + 10)
    by_id = {bar["id"]: bar for bar in found["pending"]}
    assert (by_id[late]["begin_s"], by_id[late]["deadline_s"]) == (begin / SECOND, begin / SECOND + 900)
    assert (by_id[late]["misses_deadline"], by_id[soon]["misses_deadline"]) == (None, False)
    assert by_id[first + 2]["expected_s"] == queue.t / SECOND + 60
