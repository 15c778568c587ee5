"""A live queue that decides by predicted run times decides as a simulation with these predictions does."""

import time
from itertools import pairwise

import numpy as np
import pytest

from backfill.answers.asked import Queue
from backfill.answers.explain import explain
from backfill.answers.replay import check, epochs
from backfill.answers.whatif import estimates
from backfill.daemon.config import Config
from backfill.loading import load
from backfill.model.errors import PolicyError
from backfill.model.schedule import REJECTED
from backfill.queue.words import Unreadable
from backfill.worlds import live as planner_module
from backfill.worlds.aside import Present, save
from backfill.worlds.aside import load as load_planner
from backfill.worlds.live import HOW, Planner, answer, machine
from backfill.worlds.options import Options
from backfill.worlds.prediction import RULES, Prediction
from backfill.worlds.simulated import simulate
from tests.queue.test_planner import (
    CLUSTER,
    EPOCH,
    RESOURCES,
    SECOND,
    cluster,
    jobs_for_nodes,
    live,
    nodes_workload,
    random_history,
    runs_of,
    some_jobs,
    workload_of,
)
from tests.queue.virtual import BEGIN, Virtual
from tests.shares import seeds

PLANNING = ("easy", "easy-sjbf", "conservative", "preemptive")
MINE = "def last(job, ended):\n    return ended[-1].run_s if ended else job.walltime_s\n"


@pytest.fixture
def rules(tmp_path):
    """The predictors of the product, and one that a user wrote, by name."""
    (tmp_path / "mine.py").write_text(MINE)
    return {rule: rule for rule in RULES} | {
        "own": f"{tmp_path}/mine.py:last", "doubling": "average2:correct=doubling"
    }  # fmt: skip


class Forgets(Planner):
    """A planner that hears of each job that ended that nothing more will be said of it."""

    def decide(self, now, messages):
        return super().decide(now, [*messages, *(["over", each[1]] for each in messages if each[0] == "gone")])


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        *((name, "average2") for name in PLANNING),
        *(("easy-sjbf", rule) for rule in ("regression", "history", "own", "doubling")),
    ],
)
def test_a_queue_starts_every_job_when_the_simulation_does(name, rule, rules, monkeypatch):
    monkeypatch.setattr(planner_module, "ROOM", 32)  # so that rows are used again and again
    jobs, (policy, params) = some_jobs(name, 120), load(name)
    planner = Forgets(name, {**EPOCH, "predict": rules[rule]})
    starts, _ = live(planner, jobs)
    options = Options(predict=Prediction.parse(rules[rule]))
    schedule = simulate(workload_of(jobs), machine(RESOURCES), policy, params, options).schedule
    for row, (number, *_) in enumerate(jobs):
        assert starts[number] == runs_of(schedule, row), f"job {number}"
    assert policy.forgets == "no" or planner.jobs < 90
    plain = simulate(workload_of(jobs), machine(RESOURCES), policy, params).schedule
    assert (plain.start != schedule.start).any()


@pytest.mark.parametrize(
    ("name", "rule"),
    [("easy", "average2"), ("easy-sjbf", "regression"), ("conservative", "doubling"), ("preemptive", "average2")],
)
def test_a_queue_on_nodes_starts_every_job_when_and_where_the_simulation_does(name, rule, rules, tmp_path, monkeypatch):
    monkeypatch.setattr(planner_module, "ROOM", 32)
    platform, (policy, params) = cluster(tmp_path, CLUSTER), load(name)
    jobs = jobs_for_nodes(name, 120)
    workload = nodes_workload(jobs, platform)
    options = Options(predict=Prediction.parse(rules[rule]))
    schedule = simulate(workload, platform, policy, params, options).schedule
    possible = np.flatnonzero(schedule.state != REJECTED).tolist()
    planner = Forgets(name, {**EPOCH, "predict": rules[rule]}, platform, HOW)
    starts, passes = live(planner, [jobs[row] for row in possible], schedule)
    placed = {number: nodes for *_, done in passes for number, _, nodes in done["starts"]}  # the last time
    for row in possible:
        assert starts[row + 1] == runs_of(schedule, row), f"job {row + 1}"
        held = [[platform.nodes[node], tasks] for node, tasks in schedule.held[row].reshape(-1, 2).tolist()]
        assert [pair[:2] for pair in placed[row + 1]] == held, f"job {row + 1}"
    plain = simulate(workload, platform, policy, params).schedule
    assert (plain.start != schedule.start).any()


@pytest.mark.parametrize("rule", ["average2", "regression", "history", "own"])
@seeds(3)
def test_a_planner_that_is_put_aside_or_made_anew_decides_as_the_one_that_lived(rule, rules, seed, tmp_path):
    """Aside in memory, on the disk, and made anew from its history; with jobs that are over, edited and lost."""
    epoch = {**EPOCH, "predict": rules[rule], "policy": "easy-sjbf"}
    first = Planner("easy-sjbf", epoch)
    passes, _ = random_history(f"{rule}-{seed}", first, count=60)
    middle = len(passes) // 2
    again, told = answer(None, {"do": "begin", "epoch": epoch, "history": [each[:2] for each in passes[:middle]]})
    assert told["passes"] == [planner_module.protocol.decisions(done) for *_, done in passes[:middle]]
    present = Present(again)
    for now, messages, done in passes[middle : middle + 8]:
        assert again.decide(now, messages) == done
    present.restore()
    save(again, tmp_path / "kept", {})
    other = load_planner(tmp_path / "kept", epoch)
    for now, messages, done in passes[middle:]:
        assert again.decide(now, messages) == other.decide(now, messages) == done


def test_what_was_learned_of_a_question_changes_no_decision():
    """A copy of the planner hears of submits before the pass that they belong to."""
    epoch = {**EPOCH, "predict": "regression"}
    passes, _ = random_history(5, Planner("easy-sjbf", epoch), count=40)
    asked = Planner("easy-sjbf", epoch)
    for now, messages, done in passes:
        asked.learn(messages)
        assert asked.decide(now, []) == done


def test_what_is_planned_by_predictions_is_no_promise(tmp_path):
    (tmp_path / "predicted").mkdir()
    plain = Virtual(tmp_path, "conservative")
    predicted = Virtual(tmp_path / "predicted", "conservative", predict="average2")
    for queue in (plain, predicted):
        for _ in range(6):
            queue.submit(cpus=3, walltime=100, runtime=20)
    assert plain.engine.binds
    assert plain.job(3).promise is not None
    assert not predicted.engine.binds
    assert predicted.job(3).promise is None
    assert predicted.engine.plan  # it still keeps a place for each job
    asked = Queue(predicted.planner, predicted.store.jobs("end_us IS NULL"), predicted.t)
    assert not asked.binds
    assert all(row["guaranteed_s"] is None and row["median_s"] is not None for row in estimates(asked) if row["id"] > 1)


def test_the_predictor_of_a_new_epoch_knows_what_ended_before(tmp_path):
    """Two jobs of a user ran for 20 of their 100 s: so will the next, and one that asks for 30 s does not fit before it
    ends, but does by the walltime."""
    queue = Virtual(tmp_path, "easy", predict="average2")
    for _ in range(2):
        queue.submit(cpus=4, walltime=100, runtime=20)
    queue.drain()
    queue.restart(program="other")
    queue.submit(cpus=3, walltime=100, runtime=20)
    assert queue.planner.foresight.longer(np.array([0])).tolist() == [80 * SECOND]
    assert queue.planner.walltimes.tolist() == [100 * SECOND]
    assert queue.planner.state.runs.limits[0] - queue.t == 20 * SECOND
    assert queue.engine.book.epoch["ended"][0][1:] == [
        "ana",
        "",
        4,
        BEGIN,
        100 * SECOND,
        20 * SECOND,
        BEGIN + 20 * SECOND,
    ]


def test_other_predictions_begin_an_epoch_and_the_same_go_on(tmp_path):
    queue = Virtual(tmp_path, "easy")
    epochs = [queue.engine.book.epoch_seq]
    for predict in ("", "average2", "average2", "history", ""):
        queue.predict = predict
        queue.restart()
        epochs.append(queue.engine.book.epoch_seq)
        assert queue.engine.book.epoch.get("predict", "") == predict
    assert [a == b for a, b in pairwise(epochs)] == [True, False, True, False, False]


def test_after_a_predictor_that_fails_another_policy_decides_by_walltimes(tmp_path):
    (tmp_path / "bad.py").write_text("def bad(job, ended):\n    return 1 / 0\n")
    planner = Planner("easy", {**EPOCH, "predict": f"{tmp_path}/bad.py:bad"})
    with pytest.raises(PolicyError, match=r"bad.py:2: ZeroDivisionError"):
        planner.decide(SECOND, [["submit", 1, some_jobs(1, 1)[0][3]], ["wait", 1]])
    queue = Virtual(tmp_path, "easy", predict="average2")
    for _ in range(2):
        queue.engine.failed("it failed")
        queue.flush()
    epoch = queue.engine.book.epoch
    assert (epoch["policy"], epoch["asked"], epoch["mistrusts"]) == ("fcfs", "easy", "average2")
    assert "predict" not in epoch
    assert queue.planner.foresight is None
    seq = queue.engine.book.epoch_seq
    queue.restart()
    assert queue.engine.book.epoch_seq == seq  # another daemon trusts it no more than this one


def test_futures_go_until_walltimes_and_not_until_predictions(tmp_path):
    """The policy counts on 20 s of a job that may run for 100: whoever comes behind starts after 100 at the latest."""
    queue = Virtual(tmp_path, "easy", predict="average2")
    for _ in range(2):
        queue.submit(cpus=4, walltime=100, runtime=20)
    queue.drain()
    first = queue.submit(cpus=4, walltime=100, runtime=90)
    second = queue.submit(cpus=4, walltime=100)
    asked = Queue(queue.planner, queue.store.jobs("end_us IS NULL"), queue.t)
    row = queue.planner.rows[second]
    end = queue.job(first).start + 100 * SECOND
    assert [int(asked.by_walltimes()[row]) for _ in range(2)] == [end, end]  # nothing of the first look is left
    assert explain(asked, second, "")["holders"]["first"][0]["latest_end_s"] == end / 1e6


def test_who_went_first_is_told_with_its_limit_and_not_with_its_prediction(tmp_path):
    queue = Virtual(tmp_path, "easy", predict="average2")
    for _ in range(2):
        queue.submit(cpus=4, walltime=100, runtime=20)
    queue.drain()
    queue.submit(cpus=3, walltime=100, runtime=90, user="bob")
    second, third = queue.submit(cpus=4, walltime=100), queue.submit(cpus=1, walltime=100)
    asked = Queue(queue.planner, queue.store.jobs("end_us IS NULL"), queue.t)
    (one,) = explain(asked, second, "")["went_first"]
    assert (one["id"], one["why"]) == (third, "backfill")
    assert one["limit_s"] == one["start_s"] + 100


def test_a_log_of_such_a_queue_decides_the_same_when_it_is_replayed(tmp_path):
    queue = Virtual(tmp_path, "easy-sjbf", predict="average2")
    for number in range(30):
        queue.submit(
            cpus=1 + number % 4, walltime=60 + 30 * (number % 3), runtime=20 + 5 * (number % 4), user="ab"[number % 2]
        )
        queue.until((queue.t - BEGIN) / SECOND + 7)
    queue.drain()
    result = check(epochs(tmp_path))
    assert result.passes > 30
    assert result.closed_jobs == 30
    assert result.simulated_jobs == 30
    assert not result.open_loop
    assert not result.closed_loop


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('predict = "average3"', "predict is 'average3'; expected average2"),
        ("predict = 2", "predict is 2; expected average2"),
        ('predict = "none.py:f"', "predictor .*none.py: No such file"),
        ('predict = "broken.py:f"', "has no function 'f'"),
    ],
)
def test_a_wrong_setting_is_one_clear_line(tmp_path, text, message):
    (tmp_path / "broken.py").write_text("")
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(Unreadable, match=message):
        Config(tmp_path)


def test_a_real_queue_starts_by_predictions_what_does_not_fit_by_walltimes(live):
    """The user's jobs ran for a moment so far, so the last one is not expected to delay the one before it. The first
    one has outlived a second by then, and is given a minute more."""
    live.run("serve", "--predict", "average2:correct=incremental", "--detach")
    for _ in range(2):
        live.run("wait", live.submit("--time", "10", "--", "true"))
    live.submit("-c", 3, "--time", "10", "--", "sleep", "3000")
    wide = live.submit("-c", 4, "--time", "10", "--", "true")
    time.sleep(1.5)
    narrow = live.submit("-c", 1, "--time", "60", "--", "sleep", "3000")
    live.until(lambda: live.job(narrow)["state"] == "RUNNING")
    assert live.job(wide)["state"] == "PENDING"
    assert "policy easy, by predictions of average2:correct=incremental" in live.run("queue").stdout
    told = live.run("serve", "--predict", "history", check=2).stderr
    assert "is 'average2:correct=incremental', not 'history'; change it there" in told
    live.run("serve", "--stop")
    (live.folder / "config.toml").write_text('cpus = 4\npolicy = "easy"\n')
    assert "set predict in" in live.run("serve", "--predict", "history", check=2).stderr
    assert "predictions" not in live.run("queue").stdout
