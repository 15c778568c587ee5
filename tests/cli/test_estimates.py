"""Estimates that are wrong: what policies see, what it costs, and the table and the figures of `compare --sweep`."""

import json

import numpy as np
import pytest

import backfill as bf
from backfill import estimate_sweep
from backfill.analysis.metric_table import described
from backfill.cli.sweep import SHOWN
from backfill.estimate_sweep import broken_share
from backfill.model.errors import BadArgument, UsageError
from backfill.worlds.estimates import Estimates

LOG = bf.generate("lublin?jobs=400&cpus=64&seed=2")
JOBS = LOG.jobs


def seen(text, seed=0, jobs=JOBS):
    return Estimates.parse(text).of(jobs, seed) / np.maximum(jobs.runtime, 1)


def test_errors_lie_where_they_should():
    log = bf.generate("grid?jobs=20000&gangs=0")
    within, both = seen("within:0.5", jobs=log.jobs), np.log(seen("lognormal:0.7", jobs=log.jobs))
    assert (within.min(), within.max(), within.mean()) == pytest.approx((0.5, 1.5, 1), abs=0.01)
    assert (both.mean(), both.std()) == pytest.approx((0, 0.7), abs=0.02)
    assert (seen("over:1", jobs=log.jobs) > 1 - 1e-3).all()
    assert (seen("under:1", jobs=log.jobs) < 1 + 1e-3).all()
    assert np.log(seen("under:1", jobs=log.jobs)).mean() == pytest.approx(-0.8, abs=0.02)


def test_a_user_is_always_wrong_in_the_same_way():
    jobs = bf.generate("grid?jobs=3000&gangs=2").jobs
    bias, long = seen("user-bias:1", jobs=jobs), jobs.runtime > 10_000
    for code in range(len(jobs.user.names)):
        mine = bias[(jobs.user.codes == code) & long]
        assert mine == pytest.approx(mine[0], rel=1e-3)
    assert len(np.unique(np.round(bias[long], 2))) >= 3


def test_the_same_job_has_the_same_error_whoever_else_is_there():
    some = JOBS.take(np.arange(5, 50))
    assert (Estimates.parse("lognormal:1").of(some, 7) == Estimates.parse("lognormal:1").of(JOBS, 7)[5:50]).all()
    assert (seen("lognormal:1", 7) != seen("lognormal:1", 8)).any()
    long = JOBS.runtime > 10
    assert seen("lognormal:0")[long] == pytest.approx(1)


@pytest.mark.parametrize(
    "text", ["lognormal", "exact:1", "within:1.5", "inflate:0", "uniform:0.5", "over:-1", "under:nan", "x"]
)
def test_kinds_that_there_are_not_are_refused(text):
    with pytest.raises(BadArgument, match="expected requested, exact, inflate:F"):
        Estimates.parse(text)


def test_promises_slip_when_estimates_are_too_short_and_not_when_they_are_exact():
    found = bf.sweep_estimates(LOG, None, ["easy", "conservative"], ["exact", "under:1"], overrun="extend")
    rows = {(row["policy"], row["estimates"]): row for row in found.rows()}
    for policy in ("easy", "conservative"):
        assert rows[policy, "exact"]["broken_share"] == 0
        assert rows[policy, "exact"]["mean_slip_s"] is None
        assert rows[policy, "under:1"]["broken_share"] > 0
        assert rows[policy, "under:1"]["max_slip_s"] >= rows[policy, "under:1"]["mean_slip_s"] > 0
    assert broken_share({"mean_wait_s": 1.0}) is None
    hurt = found.hurt(1, 0)
    assert hurt.later > 0
    assert json.dumps(found.to_dict())


def test_a_sweep_compares_predictors_with_walltimes():
    found = bf.sweep_estimates(LOG, None, ["fcfs", "easy"], ["requested", "average2", "history:correct=reqtime"])
    assert found.kinds == ["requested", "average2", "history:correct=reqtime"]
    rows = {(row["policy"], row["estimates"]): row for row in found.rows()}
    assert rows["fcfs", "average2"]["mean_wait_s"] == rows["fcfs", "requested"]["mean_wait_s"]
    assert rows["easy", "average2"]["broken_share"] is None
    assert "predict" not in found.title


def test_with_replications_each_point_has_several_values():
    found = bf.sweep_estimates("lublin?jobs=200&cpus=64", None, ["fcfs", "easy"], ["exact", "over:1"], replications=3)
    assert [len(values) for values in found.values("mean_wait_s", 1)] == [3, 3]
    assert found.values("broken_share", 0) == [[], []]


def test_the_command_prints_a_table_and_draws(backfill, tmp_path):
    done = backfill(
        "compare", "model:lublin?jobs=300&cpus=64", "--policy", "easy", "--policy", "conservative", "--overrun",
        "extend", "--sweep", "exact,under:1", "--figures", str(tmp_path / "out"),
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.out.startswith("lublin: 300 jobs on 64 cpus, overrun extend\n")
    assert "under:1" in done.out
    assert "jobs that start later than under exact:" in done.out
    assert {"estimates-wait.svg", "estimates-slip.csv"} <= {path.name for path in (tmp_path / "out").iterdir()}


def test_the_columns_of_a_sweep_have_the_headings_of_the_table_of_metrics(backfill):
    words = ["--policy", "fcfs", "--policy", "easy", "--sweep", "exact,over:1"]
    head = backfill("compare", "model:lublin?jobs=50&cpus=64", *words).out.splitlines()[2:5]
    for metric in SHOWN:
        below = [
            line.find(word) for word, line in zip(reversed(described(metric).heading.split()), head[::-1], strict=False)
        ]
        assert min(below) >= 0, (metric, head)


def test_ctrl_c_keeps_the_kinds_that_are_whole_and_says_which_are_missing(backfill, monkeypatch):
    whole, asked = estimate_sweep.compare_specs, []

    def interrupted(*given):
        asked.append(given)
        if len(asked) > 1:
            raise KeyboardInterrupt
        return whole(*given)

    monkeypatch.setattr(estimate_sweep, "compare_specs", interrupted)
    words = ["--policy", "fcfs", "--policy", "easy", "--sweep", "exact,over:1,under:1"]
    done = backfill("compare", "model:lublin?jobs=50&cpus=64", *words)
    assert done.code == 130
    assert "interrupted; left out: over:1, under:1" in done.err
    assert "exact" in done.out
    asked.append(None)
    done = backfill("compare", "model:lublin?jobs=50&cpus=64", *words)
    assert (done.code, done.out, done.complaint) == (130, "", "interrupted")


def test_long_names_are_whole_at_80_columns(backfill):
    policies = ["k-reservations:k=2,order=lxf,tried=saf", "k-reservations:k=3,order=lxf,tried=saf"]
    words = [word for policy in policies for word in ("--policy", policy)]
    done = backfill("compare", "model:lublin?jobs=50&cpus=64", *words, "--sweep", "exact,user-bias:0.25")
    assert max(map(len, done.out.splitlines())) <= 80
    assert "…" not in done.out


def test_a_sweep_from_python_is_checked_as_a_comparison_is():
    with pytest.raises(BadArgument, match="workers"):
        bf.sweep_estimates(LOG, workers=0)
    with pytest.raises(UsageError, match="replications need a generated workload"):
        bf.sweep_estimates(LOG, replications=2)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--sweep", "exact"], "two or more different kinds"),
        (["--sweep", "exact,sometimes"], "expected requested, exact"),
        (["--sweep", "exact,average3"], "--sweep is 'average3'; expected requested, exact"),
        (["--sweep", "exact,average3"], "or average2, regression, history or FILE.py:NAME"),
        (["--sweep", "exact,over:x"], "--sweep is 'over:x'; expected requested, exact"),
        (["--sweep", "exact,over:1", "--estimates", "exact"], "--estimates cannot be combined with --sweep"),
        (["--sweep", "exact,over:1", "--predict", "history"], "--predict cannot be combined with --sweep"),
        (["--sweep", "exact,average2:correct=late"], "correct=reqtime"),
        (["--sweep", "exact,over:1", "--verify"], "--verify shows one kind"),
        (["--figures", "x"], "--figures can only be used with --sweep"),
    ],
)
def test_what_does_not_go_with_a_sweep_is_refused_in_one_line(backfill, more, message):
    done = backfill("compare", "model:lublin?jobs=50&cpus=64", "--policy", "fcfs", "--policy", "easy", *more)
    assert done.code == 2
    assert message in " ".join(done.err.split())


def test_that_no_job_has_a_user_is_said_of_predictions_by_users(backfill):
    words = ["model:lublin?jobs=50&cpus=64", "--predict"]
    told = "no job has a user: average2 predicts the walltime of each job"
    assert told in backfill("simulate", *words, "average2").err
    assert backfill("compare", *words, "average2").err.count(told) == 1
    assert "no job has a user" not in backfill("simulate", *words, "history").err
