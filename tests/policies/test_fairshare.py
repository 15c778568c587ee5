"""Maui's fairshare by hand: who used more than others goes behind them, until the windows forget it."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill.model.partitions import Target
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND
from backfill.worlds.simulated import simulate
from tests import compiled
from tests.reference.fairshare import Shares, fairshare, weighted
from tests.reference.words import Job, Platform
from tests.reference.workloads import contended
from tests.reference.world import POLICIES, run

BY_USAGE = "flexible-fairshare:w_wait=0,fs_interval=0.001,fs_depth=3,fs_decay=0.5"  # windows of 3.6 s


def starts(name, *jobs):
    """The starts, in seconds, of jobs (submit, walltime, user) that each need the whole machine."""
    rows = [
        Job(row=i, name=f"j{i}", submit=submit * SECOND, walltime=length * SECOND, runtime=length * SECOND, user=user)
        for i, (submit, length, user) in enumerate(jobs)
    ]
    twin = run(rows, Platform.pool(1), POLICIES[name])
    assert compiled.run(rows, Platform.pool(1), name) == twin
    return [row.start / SECOND for row in twin]


def test_a_user_who_used_nothing_goes_before_one_who_used_all():
    assert starts("flexible-fairshare", (0, 10, 0), (1, 5, 0), (2, 5, 1)) == [0, 15, 10]
    assert starts("flexible", (0, 10, 0), (1, 5, 0), (2, 5, 1)) == [0, 10, 15]


def test_usage_is_what_runs_have_held():
    """At 4 s user 0 has held the machine for 1 s and user 1 for 3 s."""
    assert starts("flexible-fairshare", (0, 1, 0), (1, 3, 1), (2, 5, 1), (3, 5, 0)) == [0, 1, 9, 4]


def test_the_windows_forget():
    """At 13 s windows from 3.6 s on count: what user 0 used before does not."""
    jobs = (0, 3, 0), (6, 7, 1), (7, 5, 0), (7, 5, 1)
    assert starts(BY_USAGE, *jobs) == [0, 6, 13, 18]
    assert starts(BY_USAGE, (0, 3, 0), (6, 7, 0), (7, 5, 0), (7, 5, 1)) == [0, 6, 18, 13]


def test_a_window_counts_by_its_age_as_in_the_manual():
    """60, 0, 10 and 50 processor-hours in windows of 12 h with a decay of 0.5."""
    shares, hour = Shares(fs_interval="12", fs_depth=4, fs_decay="0.5"), 3600 * SECOND
    runs = [(36, 60), (24, 0), (12, 10), (0, 50)]  # begin of the window in h, processor-hours
    used = sum(amount * weighted(begin * hour, (begin + 1) * hour, 47 * hour, shares) / hour for begin, amount in runs)
    assert used == 60 + Fraction(10, 4) + Fraction(50, 8)


@pytest.mark.parametrize(("mode", "found"), [("floor", [0, 10, 5]), ("ceiling", [0, 5, 10])])
def test_a_floor_only_raises_and_a_ceiling_only_lowers(mode, found):
    """User 0 is at its target of 100%, and user 1 far below: a ceiling does not raise it."""
    name = f"flexible-fairshare:fs_mode={mode},fs_user_target=100"
    rows = [
        Job(row=i, name=f"j{i}", submit=submit * SECOND, walltime=5 * SECOND, runtime=5 * SECOND, user=user)
        for i, (submit, user) in enumerate([(0, 0), (1, 0), (2, 1)])
    ]
    assert [row.start // SECOND for row in compiled.run(rows, Platform.pool(1), name)] == found


def with_targets(jobs, platform, name, targets):
    """The starts of all jobs where single users and projects have targets: (user or project, name, target)."""
    workload, machine, asks = compiled.asked(jobs, platform)
    machine = replace(machine, targets=tuple(Target(*each) for each in targets))
    return simulate(workload, machine, *compiled.policy(name), asks).schedule.start.tolist()


def test_a_user_with_a_target_of_its_own_is_measured_by_it():
    """User 0 has used all. By the target of all users, 25%, user 1 goes first; not if it should have nothing at all."""
    jobs = [
        Job(row=i, name=f"j{i}", submit=submit * SECOND, walltime=length * SECOND, runtime=length * SECOND, user=user)
        for i, (submit, length, user) in enumerate([(0, 10, 0), (1, 5, 0), (2, 5, 1)])
    ]

    def starts(*targets):
        return [start // SECOND for start in with_targets(jobs, Platform.pool(1), "flexible-fairshare", targets)]

    assert starts() == starts(("user", "nobody", 90), ("group", "u0", 100)) == [0, 15, 10]
    assert starts(("user", "u0", 100)) == [0, 15, 10]  # 0 points for it, 250 for user 1
    assert starts(("user", "u0", 100), ("user", "u1", 0)) == [0, 10, 15]  # 0 points for both


SINGLE = st.dictionaries(st.integers(0, 3), st.sampled_from(["0", "10", "90"]), max_size=3)


@given(seed=st.integers(0, 10**6), users=SINGLE, accounts=SINGLE)
def test_single_names_have_the_targets_of_the_twin(seed, users, accounts):
    case = contended(seed)
    jobs = [Job(**{**vars(job), "project": f"p{job.row % 3}"}) for job in case.jobs]
    shares = Shares(
        w_fs_user="500", w_fs_account="300", fs_account_target="0", fs_interval="0.002",
        users=users, accounts={f"p{number}": target for number, target in accounts.items()},
    )  # fmt: skip
    twin = [NO_TIME if row.start is None else row.start for row in run(jobs, case.platform, fairshare(shares))]
    targets = [("user", f"u{number}", float(target)) for number, target in users.items()]
    targets += [("project", f"p{number}", float(target)) for number, target in accounts.items()]
    name = "flexible-fairshare:w_fs_user=500,w_fs_account=300,fs_interval=0.002"
    assert with_targets(jobs, case.platform, name, targets) == twin
