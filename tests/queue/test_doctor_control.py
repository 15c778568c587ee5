"""What doctor finds of a queue that starts the jobs of Slurm, setting by setting."""

import os
import time

import pytest

from backfill.client import control
from backfill.client.finding import FAIL, OK, WARN
from backfill.daemon.config import Config
from backfill.pools.controlled import GUARDED, LOOKED
from backfill.pools.seen import Asked, Down, JobNow
from backfill.pools.slurm import NOW, mark_of

STORED = {"AccountingStorageType": "accounting_storage/slurmdbd"}
TRES, LINEAR = {"SelectType": "select/cons_tres"}, {"SelectType": "select/linear"}


@pytest.mark.parametrize(
    ("check", "told", "verdict", "says"),
    [
        (control.limits, {"KillWait": "30 sec", "OverTimeLimit": "0 min"}, OK, "at most 60 s"),
        (control.limits, {"KillWait": "90 sec"}, WARN, "KillWait=90"),
        (control.limits, {"OverTimeLimit": "5 min"}, WARN, "OverTimeLimit=5"),
        (control.limits, {"OverTimeLimit": "UNLIMITED"}, WARN, "UNLIMITED"),
        (control.select, TRES, OK, "parts of nodes"),
        (control.select, LINEAR, FAIL, "whole nodes"),
        (control.memory_of_ends, {"MinJobAge": "300 sec", **STORED}, OK, "accounting knows"),
        (control.memory_of_ends, {"MinJobAge": "0 sec", **STORED}, OK, "accounting knows"),  # for ever
        (control.memory_of_ends, {"MinJobAge": "10 sec", **STORED}, WARN, "for 10 s"),
        (control.memory_of_ends, {"MinJobAge": "300 sec"}, WARN, "LostByPool"),
        (control.delay, {"SchedulerParameters": "bf_interval=1"}, WARN, "some seconds late"),
        (control.delay, {"SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0"}, OK, "at once"),
    ],
)
def test_a_setting_of_slurm_is_judged(check, told, verdict, says):
    found = check(told)
    assert found.verdict == verdict
    assert says in found.told
    assert bool(found.hint) is (verdict != OK)


@pytest.mark.parametrize(
    ("requeues", "policy", "verdict"),
    [("1", "preemptive", OK), ("0", "easy", OK), ("0", "preemptive", WARN), ("0", "preemptive:how=checkpoint", OK)],
)
def test_a_policy_that_preempts_needs_jobs_that_are_requeued(requeues, policy, verdict):
    assert control.requeue({"JobRequeue": requeues}, policy).verdict == verdict


@pytest.mark.parametrize(("off", "verdict"), [(0, OK), (1.5, OK), (5, WARN), (-5, WARN)])
def test_clocks_that_are_apart_are_told(off, verdict):
    asked = time.time()
    assert control.clock({NOW: str(int(asked + off))}, asked).verdict == verdict
    assert control.clock({}, asked).verdict == WARN


@pytest.mark.parametrize(
    ("told", "level", "verdict"),
    [
        ({"SlurmUser": "bq(990)"}, "", OK),
        ({"SlurmUser": "slurm(64030)"}, "Administrator", FAIL),  # there is no accounting that could say so
        ({"SlurmUser": "slurm(64030)", **STORED}, "Administrator", OK),
        ({"SlurmUser": "slurm(64030)", **STORED}, "Operator", FAIL),
        ({"SlurmUser": "slurm(64030)", **STORED}, None, WARN),
    ],
)
def test_an_account_needs_the_rights_of_an_administrator(told, level, verdict, monkeypatch):
    def asked(account):
        if level is None:
            raise Down("sacctmgr did not answer")
        return level

    monkeypatch.setattr(control.os, "getuid", lambda: 990)
    monkeypatch.setattr(control, "user_name", lambda uid: "bq")
    monkeypatch.setattr(control, "admin_level", asked)
    assert control.rights(told).verdict == verdict


def test_root_may_do_all(monkeypatch):
    monkeypatch.setattr(control.os, "getuid", lambda: 0)
    assert control.rights({}).verdict == OK


@pytest.fixture
def queue(tmp_path):
    (tmp_path / "platform.toml").write_text('[[node]]\nname = "n1"\ncpus = 4\n')

    def configured(more=""):
        (tmp_path / "config.toml").write_text(f'pool = "slurm"\nplatform = "platform.toml"\n{more}')
        return Config(tmp_path)

    return configured


def waiting(managed):
    return JobNow("7", 1, Asked({"cpus": 1}, 1), managed=managed)


def test_somebody_must_hand_jobs_to_the_queue(queue, tmp_path):
    there = tmp_path / "etc"
    there.mkdir()
    told = {"SLURM_CONF": str(there / "slurm.conf"), "JobSubmitPlugins": "all_partitions,lua"}
    nobody = control.handed(told, queue(), [waiting(False)])
    assert nobody.verdict == FAIL
    assert "1 job that only Slurm starts" in nobody.told
    assert "pool setup --print" in nobody.hint
    assert control.handed(told, queue("adopt = true\n"), []).verdict == OK
    assert "users ann" in control.handed(told, queue('adopt = {users = ["ann"]}\n'), []).told
    assert control.handed(told, queue(), [waiting(True)]).verdict == OK  # the filter may be on another machine
    (there / "job_submit.lua").write_text(f'local QUEUE = "{mark_of(tmp_path)}"\n')
    assert control.handed(told, queue(), []).verdict == OK
    assert control.handed(told | {"JobSubmitPlugins": "(null)"}, queue(), []).verdict == FAIL


@pytest.mark.parametrize(
    ("looked", "guarded", "verdict", "says"),
    [
        (None, None, WARN, "has never run"),
        (5, None, WARN, "has never run"),
        (5, 30, OK, "ran 30 s ago"),
        (5, 10_000, WARN, "last ran 3 h ago"),
        (900, 30, WARN, "900 s ago"),
    ],
)
def test_there_is_a_way_back_if_the_daemon_dies(tmp_path, looked, guarded, verdict, says):
    for name, age in ((LOOKED, looked), (GUARDED, guarded)):
        if age is not None:
            (tmp_path / name).touch()
            os.utime(tmp_path / name, (time.time() - age - 0.1,) * 2)
    found = control.watchdog(tmp_path)
    assert (found.verdict, says in found.told) == (verdict, True)
