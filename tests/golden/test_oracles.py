"""Other simulators' schedules of two real logs, job by job, and published figures. Needs the logs in ../shared."""

import csv
import gzip

import numpy as np
import pytest

from backfill import policies
from backfill.analysis.metrics import metrics
from backfill.analysis.verify import verify
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.traces.read import read
from backfill.traces.table import read_table
from backfill.worlds.estimates import Estimates
from backfill.worlds.prediction import Prediction
from backfill.worlds.simulated import Options, simulate

CPUS = {"kth": 100, "sdsc": 128}


@pytest.fixture(scope="module")
def log():
    kept = {}

    def get(shared, name):
        if name not in kept:
            kept[name] = read(shared / "oracle" / f"{name}.jobs.csv.gz")
        return kept[name]

    return get


def oracle(path):
    with gzip.open(path, "rt", newline="") as file:
        return {row["job"]: int(float(row["start"])) * SECOND for row in csv.DictReader(file)}


def run(workload, name, policy, ties, estimates="requested", predict=None):
    predicts = None if predict is None else Prediction.parse(predict)
    options = Options(ties=ties, estimates=Estimates.parse(estimates), predict=predicts)
    platform = Platform.pool(CPUS[name])
    schedule = simulate(workload, platform, policies.get(policy), options=options).schedule
    assert verify(workload, platform, schedule, promises_bind=policy == "conservative") == []
    return schedule, metrics(workload, platform, schedule)


@pytest.mark.parametrize(
    ("name", "policy", "ties", "file"),
    [
        ("kth", "fcfs", "batch", "fcfs.pyss"),
        ("kth", "fcfs", "step", "fcfs.pyss"),
        ("kth", "fcfs", "batch", "fcfs.batsim"),
        ("kth", "easy", "step", "easy.pyss"),
        ("kth", "easy", "batch", "easy-batch.ownref"),
        ("kth", "conservative", "step", "conservative.pyss"),
        ("sdsc", "fcfs", "batch", "fcfs.pyss"),
        ("sdsc", "fcfs", "step", "fcfs.pyss"),
        ("sdsc", "easy", "step", "easy.pyss"),
        ("sdsc", "easy", "batch", "easy-batch.ownref"),
        ("sdsc", "conservative", "step", "conservative.pyss"),
    ],
)
def test_every_start_equals_the_other_simulators(shared, log, name, policy, ties, file):
    schedule, _ = run(log(shared, name), name, policy, ties)
    expected = oracle(shared / "oracle" / f"{name}.{file}.csv.gz")
    different = [
        (job, start, expected[job])
        for job, start in zip(schedule.job.tolist(), schedule.start.tolist(), strict=True)
        if expected[str(job)] != start
    ]
    assert different == []
    assert len(schedule) == len(expected)


def test_easy_plus_plus_as_published_job_by_job(shared, log):
    """EASY++ of Gaussier et al., SC'15: shortest prediction first, the user's last two jobs, incremental correction."""
    schedule, found = run(log(shared, "kth"), "kth", "easy-sjbf", "step", predict="average2")
    expected = oracle(shared / "oracle" / "kth.easypp.sc15.csv.gz")
    assert dict(zip(schedule.job.astype(str).tolist(), schedule.start.tolist(), strict=True)) == expected
    assert found["mean_bounded_slowdown"] == pytest.approx(63.500677170, rel=1e-9)


def test_the_regression_is_near_the_published_one(shared, log):
    """Its sums are in another order, so that predictions differ by a second, and then starts."""
    schedule, found = run(log(shared, "kth"), "kth", "easy-sjbf", "step", predict="regression")
    expected = oracle(shared / "oracle" / "kth.regression.sc15.csv.gz")
    starts = zip(schedule.job.astype(str).tolist(), schedule.start.tolist(), strict=True)
    assert sum(expected[job] == start for job, start in starts) > 0.9 * len(schedule)
    assert found["mean_bounded_slowdown"] == pytest.approx(69.3052, rel=0.05)


@pytest.mark.parametrize(("correct", "slowdown"), [("reqtime", 62.856882727), ("doubling", 64.527474222)])
def test_g10_other_corrections_of_predictions(shared, log, correct, slowdown):
    _, found = run(log(shared, "kth"), "kth", "easy-sjbf", "step", predict=f"average2:correct={correct}")
    assert found["mean_bounded_slowdown"] == pytest.approx(slowdown, rel=1e-9)


@pytest.mark.parametrize(
    ("policy", "estimates", "slowdown", "greatest"),
    [
        ("easy", "requested", 92.576539733629, 14805.2),
        ("easy-sjbf", "requested", 69.405400580303, 14805.2),
        ("easy", "exact", 71.722385112442, 10017.2),
        ("easy-sjbf", "exact", 49.847718931341, 9941.7),
    ],
)
def test_g9_the_result_files_of_sc15_to_the_last_digit(shared, log, policy, estimates, slowdown, greatest):
    """Gaussier et al., SC'15, result files for KTH-SP2."""
    schedule, found = run(log(shared, "kth"), "kth", policy, "step", estimates)
    assert found["mean_bounded_slowdown"] == pytest.approx(slowdown, rel=1e-9)
    ran = schedule.end - schedule.start
    bounded = (schedule.end - schedule.submit) / np.maximum(ran, 10 * SECOND)
    assert bounded.max() == pytest.approx(greatest, abs=0.05)
    if policy == "easy" and estimates == "requested":
        assert found["mean_wait_s"] == pytest.approx(6836.87, abs=0.005)


def as_published(path):
    """The jobs of a log that Gaussier et al. keep, as a table: processors as requested, runs not beyond walltimes."""
    lines = ["job,submit,runtime,procs,walltime,user"]
    with gzip.open(path, "rt") as file:
        for line in file:
            if line.startswith(";"):
                continue
            job, submit, _, run, allocated, _, _, requested, walltime, *_ = words = line.split()
            if min(float(run), float(walltime)) <= 0 or float(submit) < 0:
                continue
            procs = requested if int(requested) > 0 else allocated
            if int(procs) > 0:
                lines.append(f"{job},{submit},{min(run, walltime, key=float)},{procs},{walltime},{words[11]}")
    return "\n".join(lines).encode()


def test_the_published_mean_of_curie_to_all_printed_digits(shared):
    """With its 80,640 processors of thin nodes, and not with all 93,312."""
    workload = read_table(as_published(shared / "traces" / "CEA-Curie-2011-2.1-cln.swf.gz"))
    assert len(workload) == 295_540
    options = Options(ties="step", predict=Prediction.parse("average2:correct=reqtime"))
    platform = Platform.pool(80_640)
    schedule = simulate(workload, platform, policies.get("easy-sjbf"), options=options).schedule
    assert metrics(workload, platform, schedule)["mean_bounded_slowdown"] == pytest.approx(21.3284, abs=5e-5)


PUBLISHED = {  # mean bounded slowdowns of both logs, by policy and estimates or predictor
    ("easy", "inflate:2"): (79.9303, 82.1352),
    ("easy", "exact"): (71.7224, 70.4779),
    ("easy-sjbf", "requested"): (69.4054, 84.8889),
    ("easy-sjbf", "exact"): (49.8477, 56.8362),
    ("easy-sjbf", "average2"): (63.5007, 79.3963),
    ("easy-sjbf", "average2:correct=reqtime"): (62.8569, 65.0636),
    ("easy-sjbf", "average2:correct=doubling"): (64.5275, 98.0032),
}


@pytest.mark.parametrize(("policy", "by"), PUBLISHED)
def test_the_published_means_of_two_logs_to_all_printed_digits(shared, log, policy, by):
    for name, slowdown in zip(("kth", "sdsc"), PUBLISHED[policy, by], strict=True):
        told = {"predict": by} if by.startswith("average2") else {"estimates": by}
        _, found = run(log(shared, name), name, policy, "step", **told)
        assert found["mean_bounded_slowdown"] == pytest.approx(slowdown, abs=5e-5)


@pytest.mark.parametrize(
    ("policy", "estimates", "slowdown"),
    [
        ("easy", "requested", 92.687654),
        ("easy", "exact", 71.722385),
        ("easy-sjbf", "requested", 69.393636),
        ("easy-sjbf", "exact", 49.847242),
    ],
)
def test_g12_one_pass_per_instant(shared, log, policy, estimates, slowdown):
    _, found = run(log(shared, "kth"), "kth", policy, "batch", estimates)
    assert found["mean_bounded_slowdown"] == pytest.approx(slowdown, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "ties", "slowdown", "wait"),
    [
        ("kth", "step", 88.997275, 7310.5512),
        ("kth", "batch", 88.966564, 7316.2391),
        ("sdsc", "step", 89.656291, 21889.3020),
        ("sdsc", "batch", 89.170384, 21725.5964),
    ],
)
def test_g13_conservative_with_compression_at_every_end(shared, log, name, ties, slowdown, wait):
    _, found = run(log(shared, name), name, "conservative", ties)
    assert found["mean_bounded_slowdown"] == pytest.approx(slowdown, rel=1e-6)
    assert found["mean_wait_s"] == pytest.approx(wait, abs=1e-4)


@pytest.mark.parametrize(("name", "at_most"), [("kth", 0.99), ("sdsc", 1.001)])
def test_look_ahead_does_not_lengthen_responses_and_a_depth_of_50_is_as_good_as_none(shared, log, name, at_most):
    """Shmueli and Feitelson, JPDC 65(9), 2005; the means of other policies on these logs are further apart."""
    workload, platform = log(shared, name), Platform.pool(CPUS[name])

    def mean_response(policy, **params):
        schedule = simulate(workload, platform, policies.get(policy), params).schedule
        assert verify(workload, platform, schedule) == []
        return metrics(workload, platform, schedule)["mean_response_s"]

    deep = mean_response("lookahead")
    assert deep <= at_most * mean_response("easy")
    assert deep == pytest.approx(mean_response("lookahead", depth=np.inf), rel=0.02)
