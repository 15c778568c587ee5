"""Who loses: worked out by hand on a few jobs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.analysis.groups import LONGEST, fairness, groups, longest_waits
from backfill.analysis.metrics import Counted, Trim, metrics
from backfill.model.platform import Platform
from backfill.model.schedule import BACKFILL, FIT
from backfill.model.workload import Labels

from .by_hand import scheduled, times, workload

POOL = Platform.pool(1000)
HOUR = 3600


def of_users(submit, runtime, users, **more):
    log = workload(submit, runtime, **more)
    return type(log)(log.jobs.replace(user=Labels.of(users)))


def under(log, start, **trims):
    schedule = scheduled(log, POOL, start)
    return schedule, Counted.of(log, schedule, **trims)


def rows(found, by):
    table = next(each for each in found if each.by == by)
    return dict(zip(table.names, zip(table.jobs, *table.mean_wait_s, strict=True), strict=True))


LOG = of_users([0, 0, 0, 5], [60, 7200, 61, 90_000], ["ann", "bob", "ann", ""], cpus=[1, 8, 9, 600])
FIRST = under(LOG, [0, 10, 20, 30])[1]  # waits 0 10 20 25
SECOND = under(LOG, [6, 4, 20, 5])[1]  # waits 6 4 20 0


def test_users_with_most_jobs_come_first_and_a_job_of_nobody_is_in_no_row():
    assert rows(groups(LOG, [FIRST, SECOND]), "user") == {"ann": (2, 10, 13), "bob": (1, 10, 4)}


def test_classes_go_from_small_to_large_and_bounds_belong_to_the_lower_one():
    found = groups(LOG, [FIRST, SECOND])
    assert rows(found, "size") == {
        "1 cpu": (1, 0, 6),
        "2-8 cpus": (1, 10, 4),
        "9-64 cpus": (1, 20, 20),
        "513+ cpus": (1, 25, 0),
    }
    assert list(rows(found, "run time")) == ["up to 1 min", "1-10 min", "1-6 h", "over 24 h"]
    assert list(rows(found, "size x run time")) == [
        "1 cpu, up to 1 min",
        "2-8 cpus, 1-6 h",
        "9-64 cpus, 1-10 min",
        "513+ cpus, over 24 h",
    ]


def test_cpu_hours_and_slowdowns_of_a_group():
    user = groups(LOG, [FIRST])[0]
    assert user.cpu_hours == (pytest.approx((60 + 9 * 61) / HOUR), pytest.approx(8 * 2))
    assert user.mean_bounded_slowdown[0][0] == pytest.approx((1 + 81 / 61) / 2)


def test_a_log_without_users_and_groups_has_classes_only():
    log = workload([0], [1])
    assert [each.by for each in groups(log, [under(log, [0])[1]])] == ["size", "run time", "size x run time"]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 99), st.sampled_from("abc")), min_size=1, max_size=20))
def test_groups_add_up_to_the_whole(table):
    submit, run, users = zip(*table, strict=True)
    log = of_users(submit, run, users)
    schedule, counted = under(log, [s + 3 for s in submit])
    whole = metrics(log, POOL, schedule)
    for group in groups(log, [counted]):
        assert sum(group.jobs) == whole["jobs"]
        for name in ("mean_wait_s", "mean_bounded_slowdown"):
            mean = sum(n * x for n, x in zip(group.jobs, getattr(group, name)[0], strict=True)) / sum(group.jobs)
            assert mean == pytest.approx(whole[name])


def test_who_starts_later_than_under_the_other_policy_and_by_how_much():
    fair = fairness(LOG, ("second", "first"), SECOND, FIRST)
    assert (fair.a, fair.b, fair.jobs, fair.later, fair.earlier, fair.later_share) == ("second", "first", 4, 1, 2, 0.25)
    assert (fair.mean_delay_s, fair.max_delay_s) == (6, 6)
    assert (fair.users, fair.users_longer, fair.worst_user, fair.worst_user_s) == (2, 1, "ann", 3)
    assert (fair.worst_class, fair.worst_class_s) == ("1 cpu, up to 1 min", 6)


def test_where_nobody_is_worse_off_nobody_is_named():
    fair = fairness(LOG, ("same", "first"), FIRST, FIRST)
    assert (fair.later, fair.mean_delay_s, fair.users_longer) == (0, None, 0)
    assert (fair.worst_user, fair.worst_user_s, fair.worst_class, fair.worst_class_s) == (None,) * 4


def test_jobs_that_are_left_out_of_the_metrics_are_left_out_here():
    trimmed = [under(LOG, start, warmup=Trim(jobs=1))[1] for start in ([0, 10, 20, 30], [6, 4, 20, 5])]
    assert rows(groups(LOG, trimmed), "user")["ann"] == (1, 20, 20)
    assert fairness(LOG, ("b", "a"), *reversed(trimmed)).later == 0


def test_no_jobs_at_all():
    log = of_users([0], [1], ["ann"], cpus=[2000])
    nothing = under(log, [None])[1]
    fair = fairness(log, ("a", "b"), nothing, nothing)
    assert (fair.jobs, fair.later_share, fair.users, fair.worst_user) == (0, None, 0, None)
    assert all(group.names == () for group in groups(log, [nothing]))


def test_the_longest_waits_come_with_the_reason_of_the_start():
    log = of_users([0, 0, 7], [5, 6, 7], ["ann", "", "bob"], cpus=[1, 2, 3])
    schedule = scheduled(log, POOL, [0, 30, 30], reason=np.array([FIT, BACKFILL, FIT], np.int8))
    found = longest_waits("easy", log, schedule, Counted.of(log, schedule))
    assert [(w.job, w.user, w.cpus, w.submit_s, w.wait_s, w.run_s, w.reason) for w in found] == [
        ("b", "", 2, 0, 30, 6, "backfill"),
        ("c", "bob", 3, 7, 23, 7, "fit"),
    ]


def test_equal_waits_are_in_file_order_and_there_are_not_too_many():
    log = workload([0] * 20, [1] * 20)
    schedule = scheduled(log, POOL, [9] * 20, eligible=times([0] * 20))
    found = longest_waits("easy", log, schedule, Counted.of(log, schedule))
    assert [wait.job for wait in found] == list("abcdefghij")
    assert len(found) == LONGEST
