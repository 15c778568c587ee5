import hashlib
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from backfill.model.errors import UsageError
from backfill.model.units import SECOND
from backfill.model.workload import Workload
from backfill.workloads import MODELS, generate, in_parts, model
from backfill.workloads.lublin import ALL, BATCH, BUCKET_MS, INTERACTIVE, _busy, _clock, _half_hours, lublin

PUBLISHED = Path(__file__).parents[2].parent / "shared" / "traces" / "lublin_256.swf.gz"


def seconds(workload: Workload) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    jobs = workload.jobs
    return jobs.submit // SECOND, jobs.runtime // SECOND, jobs.procs


def offered_load(workload: Workload) -> float:
    submit, runtime, size = seconds(workload)
    return float((size * runtime).sum() / (workload.cpus * submit[-1]))


@pytest.fixture(scope="module")
def large() -> Workload:
    return lublin(300_000, seed=11)


@pytest.fixture(scope="module")
def published() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if not PUBLISHED.exists():
        pytest.skip("needs the archive's lublin_256")
    table = np.loadtxt(PUBLISHED, comments=";", dtype=np.int64)
    return table[:, 1], table[:, 3], table[:, 4]


# The model's own moments.


@pytest.mark.parametrize(
    "more", ["", "&load=0.9", "&sample=mixed&cpus=512", "&sample=mixed&load=1.3&estimate_factor=3"]
)
def test_its_parts_are_the_whole_and_no_second_is_divided(more):
    text = f"lublin?jobs=60000{more}"
    whole, (several, jobs) = generate(text), in_parts(text, 5_000)
    parts = [*several]
    assert jobs == 60_000
    assert len(parts) > 2
    for name in ("job", "submit", "runtime", "walltime", "tasks"):
        assert np.array_equal(np.concatenate([part.jobs[name] for part in parts]), whole.jobs[name]), name
    assert np.array_equal(np.concatenate([part.jobs.group.codes for part in parts]), whole.jobs.group.codes)
    assert all(one.jobs.submit.max() < other.jobs.submit.min() for one, other in pairwise(parts))
    assert {(part.sha256, part.notes, part.cpus) for part in parts} == {(whole.sha256, whole.notes, whole.cpus)}


def test_shares_of_serial_and_power_of_two_jobs_are_the_parameters(large):
    size = large.jobs.procs
    # A size that is not rounded may still be a power of two: 2^u rounds to 2 for u in [0.8, 1.32), and so on.
    edges = np.log2([[2**k - 0.5, 2**k + 0.5] for k in range(1, 9)]).clip(ALL.ulow, 8)
    middle, top = edges.clip(max=5.5), edges.clip(min=5.5)
    by_chance = ALL.uprob * np.diff(middle).sum() / (5.5 - ALL.ulow) + (1 - ALL.uprob) * np.diff(top).sum() / 2.5
    other = 1 - ALL.serial_prob - ALL.pow2_prob
    assert np.mean(size == 1) == pytest.approx(ALL.serial_prob, abs=0.004)
    assert np.mean(size & (size - 1) == 0) == pytest.approx(
        ALL.serial_prob + ALL.pow2_prob + other * by_chance, abs=0.004
    )
    assert size.max() == 256


def test_log2_of_parallel_sizes_has_the_mean_of_two_uniforms(large):
    size = large.jobs.procs
    mean = (ALL.uprob * (ALL.ulow + 5.5) + (1 - ALL.uprob) * (5.5 + 8)) / 2
    assert np.log2(size[size > 1]).mean() == pytest.approx(mean, abs=0.02)


def test_log_of_run_times_is_the_mixture_of_two_gammas_for_every_size(large):
    _, runtime, size = seconds(large)
    runtime = runtime + 0.5  # rounded down: on average half a second is missing
    for procs in (1, 8, 32, 128):
        share = ALL.pa * procs + ALL.pb
        log = np.log(runtime[size == procs])
        mean = share * ALL.a1 * ALL.b1 + (1 - share) * ALL.a2 * ALL.b2
        assert log.mean() == pytest.approx(mean, abs=4 * log.std() / math.sqrt(len(log)) + 0.02)
        assert np.mean(log > 8.2) == pytest.approx(1 - share, abs=0.03)  # what lies between the two modes
    assert 1 <= runtime.min() <= runtime.max() <= math.exp(12) + 1


def test_the_day_has_the_shape_of_the_gamma_cycle(large):
    submit, _, _ = seconds(large)
    found = np.bincount(submit % 86_400 // 1800, minlength=48) / len(submit)
    expected = _half_hours(ALL) / _half_hours(ALL).sum()
    assert found == pytest.approx(expected, abs=0.003)
    assert expected.argmin() == 10  # half past five
    assert 26 <= expected.argmax() <= 28  # the afternoon


def test_intervals_on_the_busy_clock_are_log_gamma(large):
    worth = _half_hours(ALL)
    busy = np.array([_busy(int(t) * 1000, worth) for t in large.jobs.submit[:30_000] // SECOND])
    log = np.log(np.diff(busy) / 1000 + 0.5)
    shape = ALL.aarr * ALL.arar
    assert np.median(log) == pytest.approx(ALL.barr * (shape - 1 / 3), abs=0.05)
    assert log.std() == pytest.approx(ALL.barr * math.sqrt(shape), rel=0.03)


def test_clock_and_busy_are_inverse_to_a_millisecond_of_the_quietest_hour():
    for p in (ALL, BATCH, INTERACTIVE):
        worth = _half_hours(p)
        at = np.random.default_rng(0).integers(0, 10 * 48 * BUCKET_MS, 500)
        back = _clock(np.array([_busy(int(t), worth) for t in at]), worth)
        assert np.abs(back - at).max() <= BUCKET_MS / worth.min() + 1


# The public generator's own output.


def test_shares_of_sizes_agree_with_the_published_workload(large, published):
    size, theirs = large.jobs.procs, published[2]
    for procs in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        share = np.mean(size == procs)
        assert np.mean(theirs == procs) == pytest.approx(share, abs=4 * math.sqrt(share / len(theirs)))
    assert np.log2(theirs).mean() == pytest.approx(np.log2(size).mean(), abs=0.08)


def test_quantiles_of_run_times_agree_with_the_published_workload(large, published):
    ours, theirs = np.sort(seconds(large)[1]), np.sort(published[1])
    for point in np.quantile(ours, np.linspace(0.02, 0.98, 25)):
        below = np.searchsorted(ours, point) / len(ours)
        assert np.searchsorted(theirs, point) / len(theirs) == pytest.approx(below, abs=0.02)


def test_arrivals_agree_with_the_published_workload(large, published):
    ours, theirs = np.diff(seconds(large)[0]), np.diff(published[0])
    quantiles = [0.1, 0.25, 0.5, 0.75, 0.9]
    assert np.quantile(theirs, quantiles) == pytest.approx(np.quantile(ours, quantiles), rel=0.12, abs=2)
    # The mean hangs on few very long intervals: its standard error over 10,000 jobs is 64 s.
    assert theirs.mean() == pytest.approx(ours.mean(), abs=3 * 64)


# What a caller relies on.


def test_the_same_arguments_give_the_same_bytes_everywhere():
    jobs = lublin(1000, 128, seed=42, sample="mixed", load=0.8, estimate_factor=4).jobs
    table = np.stack([jobs.submit, jobs.runtime, jobs.walltime, jobs.procs]).astype("<i8")
    assert (
        hashlib.sha256(table.tobytes()).hexdigest()
        == "755c08baaf6bb9a70d2341bc58527c2fe77c3fd01692328901b5567c36a6e61e"
    )


def test_the_hash_of_a_workload_names_its_arguments():
    hashes = {
        w.sha256
        for w in (
            lublin(10),
            lublin(11),
            lublin(10, 128),
            lublin(10, seed=1),
            lublin(10, load=1.0),
            lublin(10, estimate_factor=2),
        )
    }
    assert len(hashes) == 6
    assert lublin(10).sha256 == generate("lublin?jobs=10").sha256


@pytest.mark.parametrize("sample", ["all", "batch", "interactive", "mixed"])
def test_a_shorter_workload_is_the_beginning_of_a_longer_one(sample):
    short, long = lublin(300, sample=sample).jobs, lublin(20_000, sample=sample).jobs
    for column in ("submit", "runtime", "walltime", "tasks"):
        assert (short[column] == long[column][:300]).all()


@pytest.mark.parametrize("sample", ["all", "mixed"])
@pytest.mark.parametrize("load", [0.3, 0.9, 2.0])
def test_load_is_exact_and_keeps_the_day(sample, load):
    workload = lublin(20_000, seed=3, sample=sample, load=load)
    submit, _, _ = seconds(workload)
    assert offered_load(workload) == pytest.approx(load, rel=1e-5)
    assert (np.diff(submit) >= 0).all()
    hour = submit % 86_400 // 3600
    assert np.mean((hour >= 12) & (hour < 18)) > 3 * np.mean((hour >= 2) & (hour < 8))


def test_estimates_are_run_times_or_inflate_them_uniformly():
    exact, inflated = lublin(20_000), lublin(20_000, estimate_factor=5)
    assert (exact.jobs.walltime == exact.jobs.runtime).all()
    assert (inflated.jobs.runtime == exact.jobs.runtime).all()
    ratio = (inflated.jobs.walltime / exact.jobs.runtime)[exact.jobs.runtime > 1000 * SECOND]
    assert ratio.min() >= 1
    assert ratio.max() <= 5.001
    assert ratio.mean() == pytest.approx(3, abs=0.05)


def test_types_arrive_side_by_side_and_are_told_apart_by_group():
    jobs = lublin(20_000, 128, sample="mixed").jobs
    interactive = jobs.group.codes == jobs.group.names.index("interactive")
    assert np.mean(interactive) > 0.7
    assert np.median(jobs.runtime[interactive]) < np.median(jobs.runtime[~interactive]) / 10
    assert jobs.procs[interactive].max() <= 64


def test_no_job_is_larger_than_a_machine_that_is_no_power_of_two():
    size = lublin(50_000, 100).jobs.procs
    assert 64 < size.max() <= 100
    assert np.mean(size & (size - 1) == 0) > 0.8


def test_own_parameters_are_used():
    serial = lublin(1000, sample=replace(ALL, serial_prob=1, pow2_prob=0))
    assert (serial.jobs.procs == 1).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lublins?jobs=1", r"unknown workload model 'lublins'; did you mean lublin"),
        ("lublin?jobs=10&cpu=3", r"unknown key 'cpu'; did you mean cpus"),
        ("lublin?jobs=ten", r"jobs is 'ten'; expected a whole number"),
        ("lublin?jobs=10&load=high", r"load is 'high'; expected a number"),
        ("lublin?jobs=10&jobs=20", r"jobs is given twice"),
        ("lublin?jobs", r"not of the form key=value"),
        ("lublin", r"needs jobs"),
        ("lublin?jobs=0", r"jobs is 0; expected 1 to 100000000"),
        ("lublin?jobs=1000000000000000000000", "jobs is 1000000000000000000000; expected 1 to 100000000"),
        ("lublin?jobs=1e30", "jobs is '1e30'; expected a whole number"),
        ("lublin?jobs=10&cpus=1000000000000000000000", "cpus is 1000000000000000000000; expected 2 to"),
        ("lublin?jobs=10&load=nan", "load is nan; expected a finite number"),
        ("lublin?jobs=10&seed=-1", "seed is -1; expected a whole number >= 0"),
        ("lublin?jobs=10&load=0", r"load is 0.0; expected a finite number > 0"),
        ("lublin?jobs=10&load=nan", r"load is nan"),
        ("lublin?jobs=10&load=5e-324", "load is 5e-324; expected more, so that the last job"),
        ("lublin?jobs=10&load=1e-20", r"load is 1e-20; expected more, so that the last job"),
        ("lublin?jobs=10&estimate_factor=inf", r"estimate_factor is inf"),
        ("lublin?jobs=10&estimate_factor=0.5", r"estimate_factor is 0.5; expected 1 to 1000000"),
        ("lublin?jobs=10&sample=night", r"unknown sample 'night'; known: all, batch, interactive, mixed"),
        ("lublin?jobs=10&cpus=8", r"choose another umed_offset, or more cpus"),
    ],
)
def test_bad_descriptions_say_what_was_expected(text, message):
    with pytest.raises(UsageError, match=message):
        generate(text)


def test_own_parameters_out_of_bounds_are_refused():
    with pytest.raises(UsageError, match="add up to at most 1"):
        replace(ALL, serial_prob=0.9)
    with pytest.raises(UsageError, match="a1, a2"):
        replace(ALL, a1=0.5)


def test_a_description_may_carry_the_prefix_and_every_model_can_be_imported():
    assert len(generate("model:lublin?jobs=25&cpus=8&umed_offset=1.5&load=0.9&sample=all")) == 25
    assert all(callable(model(name)) for name in MODELS)
