"""When jobs start: what is promised, and what possible futures say."""

import json
import os
import random
import traceback

import numpy as np
import pytest

from backfill.answers.asked import Queue
from backfill.answers.estimates import Shown, accuracy, kept, widening
from backfill.answers.questions import answer
from backfill.answers.whatif import estimates, snapped
from backfill.core.plan.promises import NO_TIME
from backfill.daemon.shown import on_calendar
from backfill.queue import feed
from backfill.queue.job import Attempt, Job
from backfill.queue.protocol import FACTS, FEW
from backfill.worlds import live as planner
from backfill.worlds.aside import Present
from backfill.worlds.future import Arrivals, Coming, Links, links, live_on
from backfill.worlds.runtimes import CAUTIOUS, Pool, RunTimes
from tests.queue.logs import entry
from tests.queue.test_planner import EPOCH, RESOURCES
from tests.queue.virtual import BEGIN, SECOND, Virtual


def ask(queue, what, **more):
    """The answer to a question, by a copy of the planner as in the queue: this one is not used up."""
    here, there = os.pipe()
    asked = {
        "what": what,
        "now": queue.t,
        "skew": 0,
        "folder": str(queue.folder),
        **more,
    }
    pid = os.fork()
    if pid == 0:
        try:
            queue.planner.learn(json.loads(json.dumps(queue.engine.outbox)))
            with os.fdopen(there, "w") as out:
                out.write(json.dumps(answer(queue.planner, json.loads(json.dumps(asked)))))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(there)
    with os.fdopen(here) as file:
        told = json.loads(file.read())
    os.waitpid(pid, 0)
    return told


def seconds(told, name):
    """An instant of each job, in seconds since the queue began."""
    return {job["id"]: job[name] and job[name] - BEGIN / SECOND for job in told["jobs"]}


def test_a_job_that_starts_with_the_first_pass_of_a_planner_is_told_with_its_start():
    started, facts = planner.Planner("easy", EPOCH), {"need": RESOURCES, "walltime": 60 * SECOND}
    started.learn([["submit", 1, facts], ["submit", 2, facts], ["wait", 1], ["wait", 2]])
    jobs = [Job(number, state="PENDING", waits=True, submit=BEGIN, **facts) for number in (1, 2)]
    asked = Queue(started, jobs, BEGIN)
    found = {row["id"]: row["median_s"] for row in estimates(asked)}
    assert found[1] == BEGIN / SECOND
    assert found[2] > found[1]


def test_jobs_that_always_use_their_walltime_start_when_they_are_promised_to(tmp_path):
    queue = Virtual(tmp_path, "conservative")
    for _ in range(5):
        queue.submit(4, 10)
    queue.drain()
    queue.submit(4, 100)
    queue.submit(4, 50)
    queue.submit(1, 30)
    told = ask(queue, "eta")
    first = queue.t / SECOND - BEGIN / SECOND
    assert seconds(told, "guaranteed_s") == pytest.approx({7: first + 100, 8: first + 150}, abs=1e-5)
    assert seconds(told, "median_s") == pytest.approx({7: first + 100, 8: first + 150}, abs=1)
    assert all(job["median_s"] <= job["p90_s"] <= job["guaranteed_s"] for job in told["jobs"])
    assert {job["history"] for job in told["jobs"]} == {"user and name"}
    assert told["futures"] == 64


def some_queue(folder, policy, seed=1, jobs=120):
    """A queue in the middle of its life, with many that wait."""
    chance = random.Random(seed)
    queue = Virtual(folder, policy, cpus=8, matlab=2)
    for number in range(jobs):
        walltime = chance.choice([30, 60, 300])
        licences = {"matlab": 1} if chance.random() < 0.2 else {}
        user, name = chance.choice("ab"), chance.choice("xyz")
        queue.submit(chance.choice([1, 1, 2, 4, 8]), walltime, chance.randint(1, walltime), user, name, licences)
        queue.until(5 * number)
    return queue


def made_anew(queue):
    history, said = feed.passes(queue.store.events(queue.engine.book.epoch_seq))
    asked = {"do": "begin", "epoch": queue.engine.book.epoch, "history": [[one.now, one.messages] for one in history]}
    made, _ = planner.answer(None, json.loads(json.dumps(asked)))
    if said:
        made.decide(queue.t + 1, said)
    return made


@pytest.mark.parametrize("policy", ["easy", "conservative", "slack", "2tsb", "dynamic", "fcfs", "thread-matrix"])
def test_a_planner_that_was_set_back_has_the_future_of_one_that_lived_once(tmp_path, policy):
    queue = some_queue(tmp_path, policy)
    first, again = made_anew(queue), made_anew(queue)
    present = Present(again)
    chance = np.random.default_rng(3)
    walltime = first.state.jobs.walltime[: first.jobs].copy()
    short = np.maximum((walltime * chance.random(len(walltime))).astype(np.int64), 1)
    expected = live_on(first, short, Links(), queue.t)
    found = []
    for runtime in (walltime, short, walltime, short):
        found.append(live_on(again, runtime, Links(), queue.t).copy())
        present.restore()
    assert np.array_equal(found[1], expected)
    assert np.array_equal(found[3], expected)
    assert np.array_equal(found[0], found[2])
    assert (expected != NO_TIME).sum() == len(queue.engine.book.jobs) - len(queue._running())
    if policy != "2tsb":  # which leaves its jobs at their reserved starts
        assert not np.array_equal(found[0], found[1])


def test_the_future_with_the_true_run_times_is_what_comes(tmp_path):
    queue = some_queue(tmp_path, "easy", seed=2)
    runtime = np.array([queue.runtime[number] for number in made_anew(queue).ids])
    waiting = [job.id for job in queue.engine.book.jobs.values() if job.start is None]
    assert len(waiting) > 20
    future = made_anew(queue)
    starts = live_on(future, runtime, Links(), queue.t)
    queue.drain()
    assert {number: queue.job(number).start for number in waiting} == {
        number: starts[future.rows[number]] for number in waiting
    }


def test_jobs_that_wait_for_more_than_the_machine_are_let_go_in_time(tmp_path):
    queue = Virtual(tmp_path, "easy")
    first = queue.submit(4, 100)
    after = queue.submit(1, 50, after=[["afterok", first]])
    begin = queue.submit(1, 10, begin=queue.t + 500 * SECOND)
    held = queue.submit(1, held=True)
    never = queue.submit(1, after=[["afterany", held]])
    array = queue.submit(1, 20, array=[0, 1, 2], throttle=1)
    single = [queue.submit(1, 10, singleton=True, name="s"), queue.submit(1, 10, singleton=True, name="s")]
    future = made_anew(queue)
    jobs = dict(queue.engine.book.jobs)
    walltime = future.state.jobs.walltime[: future.jobs].copy()
    linked = links(jobs, future.rows, queue.t)
    assert linked.stuck == {future.rows[held], future.rows[never]}
    starts = live_on(future, walltime, linked, queue.t)
    found = {number: starts[future.rows[number]] for number in jobs}
    queue.request(do="cancel", ids=[held])
    queue.drain()
    assert found.pop(held) == found.pop(never) == found.pop(first) == NO_TIME
    assert found == {number: queue.job(number).start for number in found}
    assert {after, begin, array, array + 1, array + 2, *single} == found.keys()


def test_run_times_are_learned_from_the_nearest_jobs_that_are_enough():
    def over(user, name, share, state="COMPLETED"):
        end = round(100 * share)
        return Job(1, user=user, name=name, walltime=100, attempt=Attempt(1, 0), end=end, state=state)

    known = [over("ana", "fit", 0.5)] * 5 + [over("ana", "other", 0.1)] + [over("bob", "fit", 0.2)] * 2
    draw = lambda pool, chance, past=0.0: float(pool.draw(np.array(chance), np.array(past)))  # noqa: E731
    times = RunTimes([*known, over("ana", "rare", 0.9, "CANCELLED")])
    assert times.of("ana", "fit").grouped_by == "user and name"
    assert {draw(times.of("ana", "fit"), chance / 10) for chance in range(10)} == {0.5}
    assert times.of("ana", "rare").grouped_by == "user"
    assert draw(times.of("ana", "rare"), 0.0) == 0.1
    assert times.of("bob", "fit").grouped_by == "all"
    assert draw(times.of("bob", "fit"), 0.3) == 0.2
    assert draw(times.of("bob", "fit"), 0.0, past=0.3) == 0.5  # it runs, and has used more than most
    assert 0.6 <= draw(times.of("bob", "fit"), 0.5, past=0.6) <= 1.0  # more than all
    few = RunTimes(known[:3]).of("ana", "fit")
    assert (few.grouped_by, few.shares) == ("all", (0.5, 0.5, 0.5))
    nothing = RunTimes().of("ana", "fit")
    assert nothing.grouped_by == "none"
    assert draw(nothing, 0.25) == pytest.approx(0.25 ** (1 / 0.6))
    assert draw(nothing, 0.0, past=0.5) == pytest.approx(0.5)
    several = times.of("ana", "rare").draw(np.array([0.0, 0.99, 0.5]), np.array([0.0, 0.0, 0.3]))
    assert several.tolist() == [0.1, 0.5, 0.5]


def shares_drawn(shares, past=0.0, futures=4000):
    """The next share after these in many futures, ascending, as `drawn` has them."""
    random, pool = np.random.default_rng(5), Pool(tuple(sorted(shares)), "all" if shares else "none")
    chance = (np.arange(futures) + 0.5) / futures
    random.shuffle(chance)
    each = (pool.again(random, i % CAUTIOUS == 0).draw(chance[i], np.array(past)) for i in range(futures))
    return np.sort(np.array([float(one) for one in each]))


@pytest.mark.parametrize("known", [0, 1, 3, 8])
def test_the_bound_of_a_run_time_is_the_walltime_as_long_as_few_jobs_have_ended(known):
    drawn = shares_drawn([0.01 * (i + 1) for i in range(known)])
    assert drawn[int(0.9 * len(drawn))] >= 1.0
    assert drawn[len(drawn) // 2 - 100] < 0.5  # but not the likely one


def test_the_bound_of_a_run_time_is_the_order_statistic_that_holds_in_nine_of_ten_cases():
    assert next(n for n in range(1, 99) if np.ceil(0.9 * (n + 1)) <= n) == FEW
    drawn = shares_drawn([0.01 * (i + 1) for i in range(19)])  # the 18th of 19 is exceeded with probability 2 / 20
    assert np.mean(drawn > 0.18) == pytest.approx(0.1, abs=0.02)
    assert np.mean(drawn > 0.09) == pytest.approx(0.55, abs=0.03)
    assert np.mean(np.isinf(drawn)) == pytest.approx(0.05, abs=0.02)


def test_a_job_that_has_outlived_all_known_ones_may_go_on_until_its_limit():
    drawn = shares_drawn([0.1] * 30, past=0.6)
    assert (drawn > 0.6).all()
    assert drawn[int(0.9 * len(drawn))] == np.inf
    assert 0.8 < drawn[len(drawn) // 2] < 0.9


def test_an_estimate_says_on_how_few_ended_jobs_it_rests(tmp_path):
    queue = Virtual(tmp_path, "fcfs")
    first = queue.submit(4, 600)
    second = queue.submit(4, 600)
    fewest = {row["id"]: row["fewest_ended_jobs"] for row in ask(queue, "eta")["jobs"]}
    assert fewest == {second: 0}
    queue.drain()
    for _ in range(6):
        queue.submit(4, 600, name="known")
    queue.drain()
    queue.submit(4, 600, name="known")
    other, last = queue.submit(4, 600, user="bob"), queue.submit(4, 600)
    told = ask(queue, "eta")
    assert {row["id"]: row["fewest_ended_jobs"] for row in told["jobs"]} == {other: 6, last: 6}
    assert {row["id"]: row["ended_jobs"] for row in told["jobs"]} == {other: 8, last: 8}
    assert first == 1


def test_nine_of_ten_jobs_start_by_their_bound(tmp_path):
    """Jobs whose run times come from what was learned: the bound at 90% holds for about as many."""
    within = total = 0
    for seed in range(6):
        folder = tmp_path / str(seed)
        folder.mkdir()
        queue = some_queue(folder, "easy", seed, jobs=150)
        told = {job["id"]: job for job in ask(queue, "eta")["jobs"] if job["p90_s"] is not None}
        queue.drain()
        starts = {number: queue.job(number).start / 1e6 for number in told}
        within += sum(starts[number] <= told[number]["p90_s"] for number in told)
        total += len(told)
    assert total > 150
    assert 0.8 <= within / total <= 1.0


def test_instants_are_told_as_exactly_as_they_can_be_foreseen():
    at = 1_000_000_000 * SECOND
    assert snapped(at + 61 * SECOND + 1, at, up=True) == at + 62 * SECOND
    assert snapped(at + 601 * SECOND, at, up=True) % (60 * SECOND) == 0
    assert snapped(at + 601 * SECOND, at, up=True) >= at + 601 * SECOND
    assert snapped(at + 10_000 * SECOND, at) % (300 * SECOND) == 0
    assert snapped(at, at) == at


def test_what_was_told_is_held_against_what_came():
    def shown(t, job, guaranteed, middle, p90):
        return entry("shown", 0, {"estimates": [[job, guaranteed, middle, p90, "user", 9]]}, t * SECOND)

    def start(t, job, **more):
        return entry("start", job, {"start": t * SECOND, **more})

    events = [
        entry("promise", 1, {"start": 9}), entry("promise", 2, {"start": 9}),
        shown(0, 1, None, 50, 90), shown(10, 2, None, 4000, 4100),
        shown(20, 3, None, 10, 20), shown(25, 4, None, 30, 30), entry("edit", 4, {"to": {}}),
        start(60, 1), start(7210, 2, slip="daemon-down"), start(30, 4),
    ]  # fmt: skip
    some, promises = kept(events)
    assert promises == {"kept": 1, "slips": {"daemon-down": 1}, "departures": {"kept": 0, "slips": {}}}
    near, far = accuracy(some)
    assert (near["lead"], near["estimates"], near["within_90"], near["median_error_s"]) == ("< 1 h", 1, 1.0, 10)
    assert (far["lead"], far["within_90"], far["late"]) == ("1 - 6 h", 0.0, 1.0)


def test_bounds_that_held_too_seldom_are_widened():
    def shown(start):
        return Shown(0.0, None, 50.0, 100.0, float(start))

    assert widening([shown(500)] * 20) == (1.0, 1.0)  # too few to say
    assert widening([shown(80)] * 60) == (1.0, 1.0)
    assert widening([shown(80)] * 54 + [shown(130)] * 6) == (1.0, 0.9)
    factor, held = widening([shown(80)] * 45 + [shown(t) for t in range(110, 125)])
    assert held == 0.75
    assert 1.18 <= factor <= 1.2  # the ninth part in ten of those is at 118 or 119
    assert widening([shown(300)] * 40 + [shown(80)] * 200) == (1.0, 1.0)  # long ago


def test_jobs_come_in_the_future_as_they_came(tmp_path):
    queue = some_queue(tmp_path, "easy", seed=4)
    jobs = queue.store.jobs()
    future = made_anew(queue)
    assert Arrivals.of(jobs, queue.t, future) is None  # ten minutes say nothing of the hours to come
    now = queue.t + 3600 * SECOND
    arrivals = Arrivals.of(jobs, now, future)
    assert arrivals.many == len(jobs)
    coming = arrivals.coming(np.random.default_rng(1), now, 10 * arrivals.span)
    assert len(coming.jobs) == 1000  # no more are needed
    assert (np.diff(coming.jobs.submit) >= 0).all()
    assert coming.jobs.submit[0] > now
    cpus = sorted(job.need["cpus"] for job in jobs)
    assert sorted(coming.jobs.demand[: len(jobs), 0].tolist()) == cpus
    assert sorted(set(coming.jobs.demand[:, 0].tolist())) == sorted(set(cpus))
    assert Arrivals.of(jobs[:5], now, future) is None


def test_jobs_that_come_later_may_go_first_and_nothing_of_them_stays(tmp_path):
    queue = Virtual(tmp_path, "easy-sjf")
    queue.submit(4, 100)
    waiting = queue.submit(4, 300)
    future = made_anew(queue)
    present = Present(future)
    walltime = future.state.jobs.walltime[: future.jobs].copy()
    row = future.rows[waiting]
    alone = live_on(future, walltime, Links(), queue.t)[row]
    present.restore()
    facts = {**FACTS, "submit": queue.t + 50 * SECOND, "need": {"cpus": 4}, "walltime": 60 * SECOND}
    jobs, machine, _ = future.translated([(1000, facts)])
    coming = Coming(jobs, machine, jobs.walltime)
    starts = live_on(future, walltime, Links(), queue.t, coming=coming)
    assert len(starts) == future.jobs
    present.restore(informed=False)
    assert starts[row] - alone == 60 * SECOND
    again = live_on(future, walltime, Links(), queue.t, coming=coming)
    assert again.tolist() == starts.tolist()
    present.restore(informed=False)
    assert live_on(future, walltime, Links(), queue.t)[row] == alone


def test_answers_have_the_instants_of_a_calendar_that_was_set():
    told = {"now_s": 5.0, "jobs": [{"id": 3, "p90_s": 10.0, "guaranteed_s": None, "earlier_s": 2.0}]}
    assert on_calendar(told, 60 * SECOND) == {
        "now_s": 65.0,
        "jobs": [{"id": 3, "p90_s": 70.0, "guaranteed_s": None, "earlier_s": 2.0}],
    }
