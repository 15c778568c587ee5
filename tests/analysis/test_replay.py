"""The recorded schedule against the stated machine, and against simulated ones."""

import json
import re
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backfill as bf
from backfill.analysis.metrics import NOTHING, Trim
from backfill.analysis.recorded import Recorded, explain
from backfill.analysis.replay import closest, reality, replay
from backfill.analysis.verify import verify
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Workload

from .by_hand import scheduled, times, workload

POOL = Platform.pool(4)


@dataclass
class Ran:
    """A run, without the simulator."""

    workload: Workload
    schedule: Schedule
    name: str = "easy"
    platform: Platform = POOL
    warmup: Trim = NOTHING
    cooldown: Trim = NOTHING


def log(waited: list[float], cpus: list[int], submit: list[float], runtime: list[float]) -> Workload:
    return workload(submit, runtime, cpus=cpus, waited=times(waited))


#                                cpus   submit  run  real start
# a                               3       0     100       0
# b                               4       1      50     100     needs all of them
# c                               1       2      98       2     beside a
# d                               1       3     120     150
LAWFUL = log([0, 99, 0, 147], [3, 4, 1, 1], [0, 1, 2, 3], [100, 50, 98, 120])


def test_a_simulation_that_equals_reality_has_no_error():
    found = replay(Ran(LAWFUL, scheduled(LAWFUL, POOL, [0, 100, 2, 150])))
    assert (found.jobs, found.recorded_s, found.simulated_s, found.relative) == (4, 61.5, 61.5, 0)
    assert (found.recorded_median_s, found.simulated_median_s) == (49.5, 49.5)
    assert (found.apart_s, found.off_s, found.within) == (0, 0, {60: 1, 600: 1, 3600: 1})
    assert found.correlation == pytest.approx(1)
    assert found.explained.holds
    assert found.sentence() == (
        "easy: mean wait 61.5 s against 61.5 s in reality (+0%); "
        "100% of the jobs start within 10 min of their real start"
    )
    assert found.short() == "in reality the mean wait was 61.5 s (easy: +0%)"


def test_a_job_that_ran_before_did_not_wait_meanwhile(tmp_path):
    (tmp_path / "log.csv").write_text("job,submit,runtime,procs,waited\na,0,100,4,0\nb,5,10,4,95\n")
    (tmp_path / "events.csv").write_text("time,event,resource,value\n40,capacity,cpus,0\n60,capacity,cpus,4\n")
    events = bf.read_events(tmp_path / "events.csv")
    result = bf.simulate(bf.read(tmp_path / "log.csv"), bf.Platform.pool(4), "fcfs", events=events)
    assert (result.schedule.start / SECOND).tolist() == [60, 160]
    found = bf.replay(result)  # a ran from 0 to 40, was lost, and waited until 60
    assert (found.recorded_s, found.simulated_s) == ((0 + 95) / 2, (20 + 155) / 2)
    assert found.simulated_s == result.metrics["mean_wait_s"]


def test_errors_are_told_by_class():
    found = replay(Ran(LAWFUL, scheduled(LAWFUL, POOL, [0, 100, 102, 850])))
    #                                         wait       0   99  100  847
    assert (found.simulated_s, found.apart_s, found.off_s) == (261.5, 200, 200)
    assert found.within == {60: 0.5, 600: 0.75, 3600: 1}
    assert found.correlation == pytest.approx(3 / 22.5**0.5)  # ranks 1.5 3 1.5 4 and 1 2 3 4
    assert found.rows() == [
        ("", "all", 4, 61.5, 261.5, pytest.approx(200 / 61.5)),
        ("size", "1 cpu", 2, 73.5, 473.5, pytest.approx(400 / 73.5)),
        ("size", "2-8 cpus", 2, 49.5, 49.5, 0),
        ("run time", "up to 1 min", 1, 99, 99, 0),
        ("run time", "1-10 min", 3, 49, 947 / 3, pytest.approx(800 / 147)),
    ]


def test_errors_inside_one_class_cancel_in_the_distance_by_class_and_not_job_by_job():
    two = log([10, 20], [1, 1], [0, 0], [5, 5])
    found = replay(Ran(two, scheduled(two, POOL, [20, 10])))
    assert (found.apart_s, found.off_s, found.correlation) == (10, 0, pytest.approx(-1))


def test_jobs_without_a_recorded_wait_or_without_a_start_do_not_count():
    some = log([-1e-6, 10, 10], [1, 1, 9], [0, 0, 0], [5, 5, 5])
    assert some.jobs.waited.tolist() == [-1, 10 * SECOND, 10 * SECOND]
    found = replay(Ran(some, scheduled(some, POOL, [0, 30, None])))
    assert (found.jobs, found.recorded_s, found.simulated_s, found.correlation) == (1, 10, 30, None)


def test_warmup_and_cooldown_leave_the_same_jobs_out_as_in_the_metrics():
    ran = Ran(LAWFUL, scheduled(LAWFUL, POOL, [0, 100, 2, 150]), warmup=Trim(jobs=1), cooldown=Trim(jobs=2))
    assert (replay(ran).jobs, replay(ran).recorded_s) == (1, 99)
    assert replay(replace(ran, warmup=Trim(jobs=4))) is None


def test_there_is_no_replay_of_a_log_without_waits_or_at_another_load():
    silent = workload([0], [1])
    assert replay(Ran(silent, scheduled(silent, POOL, [0]))) is None
    denser = LAWFUL.at_load(2)
    assert replay(Ran(denser, scheduled(denser, POOL, [0, 100, 2, 150]))) is None
    nothing = workload([], [])
    assert replay(Ran(nothing, scheduled(nothing, POOL, []))) is None
    assert explain(nothing, 4) is None


def test_where_nobody_waited_there_is_no_relative_error():
    easy = log([0], [1], [0], [5])
    found = replay(Ran(easy, scheduled(easy, POOL, [60])))
    assert (found.relative, found.caution, found.short()) == (None, "", "in reality the mean wait was 0 s")
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["relative"] is None


def test_more_processors_than_the_machine_has_cannot_be_explained():
    # a holds 3 of 4 on [0, 100), b 3 on [50, 150): 6 on [50, 100), a third of the time
    both = log([0, 40], [3, 3], [0, 10], [100, 100])
    found = explain(both, 4)
    assert (found.most_held, found.over_share, found.idle_share, found.holds) == (6, pytest.approx(1 / 3), 0, False)
    assert found.sentence() == (
        "this log does not fit a machine of 4 cpus: its jobs held more 33% of the time (peak 6). Check --cpus"
    )
    ran = replay(Ran(both, scheduled(both, POOL, [0, 100])))
    assert reality([ran]) == found.sentence()
    assert ran.short() == "in reality the mean wait was 20.0 s; this log does not fit a machine of 4 cpus"


def test_waits_on_a_machine_with_room_for_everybody_cannot_be_explained():
    # a holds 3 on [0, 1000); b waits for 1 on [0, 900), c for 2 on [500, 1000): room for both only before 500
    three = log([0, 900, 500], [3, 1, 2], [0, 0, 500], [1000, 10, 10])
    found = explain(three, 4)
    assert (found.over_share, found.idle_share) == (0, pytest.approx(500 / 1400))
    assert found.holds
    # of 5 cpus both find room until b starts, and again when it ends after 10 s
    assert explain(three, 5).idle_share == pytest.approx(1390 / 1400)
    assert explain(three, 5).sentence() == (
        "this log does not fit a machine of 5 cpus: "
        "99% of all waiting fell in times when every waiting job would have fitted"
    )


def test_a_wait_of_a_minute_is_the_time_between_two_looks_of_a_scheduler():
    assert explain(log([60], [1], [0], [1000]), 4).idle_share == 0
    assert explain(log([61], [1], [0], [1000]), 4).idle_share == 1


def test_the_closest_has_the_mean_waits_by_class_and_says_so():
    near, far = (
        replay(Ran(LAWFUL, scheduled(LAWFUL, POOL, starts), name))
        for name, starts in (("conservative", [0, 101, 2, 151]), ("fcfs", [0, 100, 200, 300]))
    )
    assert closest([far, near]) is near
    assert reality([far, near]) == (
        "conservative comes closest to the waits of the log, class by class: mean wait 62.0 s against 61.5 s in "
        "reality (+1%); 100% of the jobs start within 10 min of their real start"
    )
    assert reality([far]).endswith(
        "; perhaps the real machine was larger, or started its jobs by other rules, "
        "so trust differences between policies more than the waits themselves"
    )


def test_waits_far_beyond_the_simulated_ones_are_told_apart():
    slow = log([0, 990], [4, 4], [0, 10], [1000, 10])
    found = replay(Ran(slow, scheduled(slow, POOL, [0, 100])))
    assert reality([found]).endswith(
        "; perhaps the real jobs also waited for limits, priorities, partitions or repairs, "
        "so trust differences between policies more than the waits themselves"
    )


@st.composite
def recorded_logs(draw: st.DrawFn) -> Workload:
    count = draw(st.integers(1, 8))

    def column(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=count, max_size=count))

    return log(column(0, 200), column(1, 6), column(0, 300), column(0, 200))


@given(recorded_logs())
def test_the_shares_equal_those_of_a_look_at_every_second(found):
    jobs, cpus = found.jobs, 4
    start = jobs.submit + jobs.waited
    late = jobs.waited > 60 * SECOND
    over = busy = idle = 0
    for second in range(700):
        now = second * SECOND
        running = (start <= now) & (now < start + jobs.runtime)
        waiting = (jobs.submit <= now) & (now < start)
        held = int(jobs.procs[running].sum())
        busy += held > 0
        over += held > cpus
        if waiting.any():
            power = max(int(2 ** np.ceil(np.log2(n))) for n in jobs.procs[waiting])  # up to this its class reaches
            ever = jobs.procs[(jobs.waited > 0) & (jobs.procs <= power) & (jobs.procs > power // 2)]
            idle += int((waiting & late).sum()) * bool(ever.max() <= cpus - held)
    answer = explain(found, cpus)
    assert answer.over_share == pytest.approx(over / busy if busy else 0)
    waited = int(jobs.waited[late].sum()) // SECOND
    assert answer.idle_share == pytest.approx(idle / waited if waited else 0)


@given(recorded_logs())
def test_the_independent_checker_agrees_on_whether_too_much_is_held(found):
    recorded = Recorded.of(found)
    table = scheduled(found, POOL, (recorded.start / SECOND).tolist())
    broken = {violation.rule for violation in verify(found, POOL, table)}
    assert ("capacity" in broken) == (explain(found, 4).most_held > 4)


@pytest.mark.parametrize("policy", ["fcfs", "easy", "easy-lxf", "conservative"])
def test_no_policy_lets_jobs_wait_while_there_is_room_for_all(policy, monkeypatch):
    monkeypatch.setattr("backfill.analysis.recorded.LATENCY", 0)
    log = bf.generate("lublin?jobs=1000&cpus=64&seed=5&load=0.9&estimate_factor=4")
    made = bf.simulate(log, policy=policy).schedule
    found = explain(log.with_jobs(log.jobs.replace(waited=made.start - made.submit)), 64)
    assert (found.most_held <= 64, found.over_share, found.idle_share, found.holds) == (True, 0, 0, True)


PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "quality.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([\w.-]+) \| ([\d,]+) \| ([\d,]+) \| ([\d.]+) % \| (\d+) % \| (not|cannot)", re.MULTILINE)


def test_the_verdicts_on_real_logs_are_those_of_the_page(shared):
    rows = ROW.findall(PAGE)
    assert len(rows) == 5
    for name, cpus, *told in rows:
        found = explain(bf.read(shared / "traces" / f"{name}.swf.gz"), int(cpus.replace(",", "")))
        verdict = "not" if found.holds else "cannot"
        shares = [f"{100 * found.over_share:.2f}", f"{100 * found.idle_share:.0f}"]
        assert [f"{found.most_held:,}", *shares, verdict] == told


def test_the_replay_of_kth(shared):
    log = bf.read(shared / "traces" / "KTH-SP2-1996-2.1-cln.swf.gz")
    replays = [bf.replay(bf.simulate(log, policy=policy)) for policy in ("fcfs", "easy", "conservative")]
    assert closest(replays).policy == "conservative"
    assert [round(each.relative, 2) for each in replays] == [22.14, -0.55, -0.52]
    assert all(a.jobs == b.jobs == 28_475 for a, b in pairwise(replays))
    assert sum(row[2] for row in replays[0].rows()) == 3 * 28_475


def held(workload, memory):
    """The same jobs, each with so many MB."""
    demand = np.column_stack([workload.jobs.demand[:, 0], np.array(memory) * 2**20])
    return replace(workload, jobs=workload.jobs.replace(demand=demand), resources=("cpus", "memory"))


def test_on_one_node_every_resource_is_looked_at():
    # a runs on 1 cpu for 1000 s, b waits for it for 1000 s; of 4 cpus 3 are free all the time
    two = log([0, 1000], [1, 1], [0, 0], [1000, 10])
    assert explain(two, 4).idle_share == 1
    assert explain(held(two, [7, 4]), Platform.pool(4, memory=8 * 2**20)).idle_share == 0  # 1 MB is free
    assert explain(held(two, [7, 1]), Platform.pool(4, memory=8 * 2**20)).idle_share == 1
    tight = explain(held(two, [7, 4]), Platform.pool(4, memory=4 * 2**20))
    assert (tight.over, tight.over_share, tight.holds) == ("memory", pytest.approx(1000 / 1010), False)
    assert (
        "its jobs held more memory than the machine has 99% of the time (peak 7 MiB). Check the platform"
        in tight.sentence()
    )


def test_on_several_nodes_only_the_sum_of_cpus_is_looked_at():
    two = log([0, 1000], [1, 1], [0, 0], [1000, 10])
    found = explain(two, Platform.pool(4, 2))
    assert (found.idle_share, found.holds) == (None, True)
    assert found.sentence().endswith("a machine of 4 cpus, judged by the sum of its cpus alone")
    assert not explain(log([0, 0], [3, 3], [0, 0], [1000, 1000]), Platform.pool(4, 2)).holds
