"""The IBB paper reproduced: what is read into the logs, what is drawn, and claims judged both ways."""

import json

import numpy as np
import pytest

from backfill.analysis.interval import Estimate
from backfill.analysis.paired import Change
from backfill.api import simulate
from backfill.executors import carry_out, executor
from backfill.model.errors import UsageError, WorkloadError
from backfill.model.units import SECOND
from backfill.papers import ibb, ibb_claims, ibb_logs, nas
from backfill.papers.asked import Asked
from backfill.papers.claims import below
from backfill.papers.ibb_claims import BB, BB_EMPTY, BEST_FIT, EASY, FCFS, IBB, IBB_EVEN
from backfill.papers.ibb_logs import LANL, LOADS, META, METRICS, RESPONSE, SLOWDOWN, WAIT, LogSweep, LogTask, Row
from backfill.papers.ibb_models import Drawn, lublin_with_memory, of_jobs, several
from backfill.papers.logs import Log, find
from backfill.papers.sweep import Sweep
from backfill.papers.write import write

HEADER = "; MaxProcs: 1024\n"
MB, DAY = 2**20, 86_400


def swf(rows):
    """An SWF log of (submit, run, procs, KB per processor, requested time)."""
    lines = [
        f"{i} {submit} 0 {run} {procs} -1 -1 {procs} {seen} {memory} 1 1 1 -1 -1 -1 -1 -1"
        for i, (submit, run, procs, memory, seen) in enumerate(rows, 1)
    ]
    return HEADER + "\n".join(lines) + "\n"


def two_logs(folder):
    """Small ones with the names of the real ones: large jobs that hold little memory, and the other way round."""
    draw = np.random.default_rng(1)

    def whole(low, high):
        return int(draw.integers(low, high))

    def large(i):
        return 2400 * i, whole(60, 40_000), 2 ** whole(5, 10), 1024 * whole(1, 32), whole(60, 20_000)

    def small(i):
        return 600 * i, whole(60, 90_000), whole(1, 8), 1024 * whole(1, 4000), -1

    for name, job, count in ((LANL, large, 1200), (META, small, 800)):
        (folder / f"{name}-small.swf").write_text(swf([job(i) for i in range(count)]))
    return find(ibb.LOGS, (), [str(folder)])


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    return two_logs(tmp_path_factory.mktemp("logs"))


def log_of(folder, rows):
    path = folder / f"{LANL}.swf"
    path.write_text(swf(rows))
    return Log.of(path)


def test_a_job_of_unknown_memory_holds_the_median_of_the_log(tmp_path):
    rows = [(0, 100, 32, 1024, 50), (1, 100, 64, 3072, 50), (2, 100, 32, 9216, 50), (3, 100, 128, -1, 50)]
    log = ibb_logs.workload((log_of(tmp_path, rows),))
    assert log.jobs.demand[:, 1].tolist() == [MB, 3 * MB, 9 * MB, 3 * MB]
    assert log.jobs.tasks.tolist() == [32, 64, 32, 128]


def test_a_log_without_memory_is_none_of_the_two(tmp_path):
    with pytest.raises(WorkloadError, match="LANL-CM5: no job has a memory"):
        ibb_logs.workload((log_of(tmp_path, [(0, 100, 32, -1, 50)]),))


def test_a_metric_that_a_log_does_not_have_is_named():
    with pytest.raises(WorkloadError, match="mean_slowdown under ibb is undefined"):
        ibb_logs._number(None, SLOWDOWN, "ibb")
    assert ibb_logs._number(0, SLOWDOWN, "ibb") == 0


@pytest.mark.parametrize(
    ("walltime", "seconds"), [("max", [100, 500, 300]), ("requested", [50, 500, 300]), ("exact", [100, 200, 300])]
)
def test_walltimes_are_read_in_three_ways(tmp_path, walltime, seconds):
    rows = [(0, 100, 32, 1024, 50), (1, 200, 32, 1024, 500), (2, 300, 32, 1024, -1)]
    log = ibb_logs.workload((log_of(tmp_path, rows),), walltime)
    assert (log.jobs.walltime // SECOND).tolist() == seconds
    assert (log.jobs.runtime // SECOND).tolist() == [100, 200, 300]


def test_nobody_is_killed_at_a_walltime(tmp_path):
    log = log_of(tmp_path, [(0, 100, 1024, 1024, 50), (1, 10, 1024, 1024, 50)])
    row = LogTask.of((log,), 1, (BB, EASY), "requested").carry_out()
    assert row.values[EASY][RESPONSE] == (100 + 109) / 2


def test_both_logs_give_half_of_the_work_of_the_mix_at_the_load_of_the_first(logs):
    alone, mixed = (ibb_logs.workload(tuple(logs[name] for name in names)) for names in ((LANL,), ibb.LOGS))
    count = len(mixed) - 800
    large, small = (mixed.jobs.take(np.arange(*rows)) for rows in ((0, count), (count, len(mixed))))
    assert ibb_logs.work(large) == pytest.approx(ibb_logs.work(small), rel=0.03)  # sizes are whole cpus
    assert large.tasks.min() >= 1
    assert (small.tasks <= 8).all()
    within = 600 * 799 * SECOND  # the span of the shorter one
    assert (alone.jobs.submit <= within).sum() == count
    assert [ibb_logs.work(each.jobs) / ibb_logs.span(each.jobs) for each in (alone, mixed)] == pytest.approx(
        [ibb_logs.work(alone.jobs) / ibb_logs.span(alone.jobs)] * 2, rel=0.01
    )
    assert "so that each log has half of the work" in mixed.notes[0]


def test_the_recorded_logs_are_read_as_the_page_says(shared):
    logs = find(ibb.LOGS, (), [str(shared / "traces")])
    lanl, mixed = (ibb_logs.workload(tuple(logs[name] for name in names)) for names in ((LANL,), ibb.LOGS))
    assert (len(lanl), len(mixed)) == (122_057, 31_525 + 103_656)
    assert [ibb_logs.work(log.jobs) / ibb_logs.span(log.jobs) for log in (lanl, mixed)] == pytest.approx(
        [730.5] * 2, rel=1e-3
    )
    assert "x 0.405" in mixed.notes[0]


def test_the_second_log_can_begin_later(logs):
    both = tuple(logs[name] for name in ibb.LOGS)
    one, other = (ibb_logs.workload(both, later_s=seconds).jobs for seconds in (0, 3600))
    later = other.submit - one.submit
    assert (later[:-800] == 0).all()
    assert (later[-800:] > 0).all()
    assert other.runtime.tolist() == one.runtime.tolist()


def test_a_first_look_takes_the_first_weeks(logs):
    whole, short = (ibb_logs.workload((logs[LANL],), weeks=weeks).jobs for weeks in (None, 1))
    assert short.submit.max() <= 7 * DAY * SECOND < whole.submit.max()


def test_a_task_compares_policies_with_the_first_with_the_intervals_of_compare(logs):
    cell = LogTask.of((logs[LANL],), 0.4, (BB, EASY, IBB))
    with executor(2) as pool:
        row = carry_out(ibb.run, [cell], pool)[0]
    here = cell.carry_out()
    assert row.values == here.values
    assert row.changes == here.changes
    for metric in METRICS:
        change = row.changes[EASY][metric]
        assert change.mean == pytest.approx(row.values[EASY][metric] / row.values[BB][metric] - 1)
        if change.bounded:
            assert np.expm1(row.parts[EASY][metric].value) == pytest.approx(change.mean)
    assert row.values[EASY]["rejected_jobs"] == 0
    assert WAIT in row.parts[EASY]


def test_the_changes_at_two_loads_are_held_against_each_other_part_by_part(logs):
    rows = {load: LogTask.of((logs[LANL],), load, (BB, EASY)).carry_out() for load in (0.4, 0.5)}
    sweep = LogSweep(rows)
    both = sweep.apart(EASY, (0.4, WAIT), (0.5, WAIT))
    one, other = (sweep.change(load, EASY, WAIT) for load in (0.4, 0.5))
    assert both.mean == pytest.approx(one.mean - other.mean)
    assert both.low < both.mean < both.high
    assert both.high - both.low < (one.high - one.low) + (other.high - other.low)
    assert sweep.apart(EASY, (0.4, WAIT), (0.4, WAIT)) == Estimate(0.0, 0.0, 0.0, 1)


def test_independent_estimates_are_subtracted_with_both_of_their_intervals():
    found = Estimate(5.0, 2.0, 9.0, 1).less(Estimate(1.0, -3.0, 4.0, 1))
    assert (found.mean, found.low, found.high) == (4.0, 4.0 - 18**0.5, 4.0 + 32**0.5)  # 3, 3 and 4, 4


def test_there_are_54_jobs_that_fit_the_four_nodes_and_cannot_run_all_at_once():
    assert len({shape.name for shape in nas.SHAPES}) == 54
    platform = nas.pool()
    assert (platform.cpus, platform.capacity[0, 1]) == (32, 16 * 2**30)
    assert all(shape.cpus <= 16 and shape.memory < 16 * 1024 and shape.runtime >= 1 for shape in nas.SHAPES)
    assert sum(shape.cpus for shape in nas.SHAPES) > 32
    assert sum(shape.memory for shape in nas.SHAPES) > 16 * 1024
    assert len(nas.LARGEST) == 6
    one, other = nas.jobs(0).jobs, nas.jobs(1).jobs
    assert (np.diff(one.submit) == SECOND).all()
    assert sorted(one.job) == sorted(other.job)
    assert list(one.job) != list(other.job)


def test_every_job_of_the_54_is_told():
    numbers = Drawn.of(nas.jobs, 0, (FCFS,), of_jobs).carry_out()[FCFS]
    result = simulate(nas.jobs(0), None, FCFS)
    waits = [numbers[f"wait {shape.name}"] for shape in nas.SHAPES]
    assert sum(waits) / 54 == pytest.approx(numbers["mean_wait_s"])
    assert sum(numbers[f"slowdown {s.name}"] for s in nas.SHAPES) / 54 == pytest.approx(result.metrics["mean_slowdown"])
    assert numbers["unevenness"] > 0
    assert numbers["wait_of_largest"] == pytest.approx(sum(numbers[f"wait {name}"] for name in nas.LARGEST) / 6)


@pytest.mark.parametrize("count", [2, 8])
def test_jobs_of_several_resources_offer_the_stated_load_of_each(count):
    log = several(count, 3, 20_000)
    shares = log.jobs.demand / 1000
    assert log.resources[0] == "cpus"
    assert shares.shape == (20_000, count)
    assert (shares.min(), shares.max()) == (0.01, 0.5)
    load = (shares * log.jobs.runtime[:, None]).sum(axis=0) / log.jobs.submit.max()
    assert load == pytest.approx([0.7] * count, rel=0.05)
    assert abs(np.corrcoef(shares.T)[0, 1]) < 0.05


@pytest.mark.parametrize(("memory", "mean"), [("discrete", 0.94), ("lognormal", 1.0)])
def test_lublins_jobs_hold_memory_for_each_cpu(memory, mean):
    log = lublin_with_memory(memory, 0.6, 1, 4000)
    cpus, held = log.jobs.demand.T
    assert log.platform.capacity.tolist() == [[256, 256_000]]
    assert held.max() <= 256_000
    few = cpus <= 8  # beyond, memory is cut at all there is
    assert (held[few] / cpus[few] / 1000).mean() == pytest.approx(mean, rel=0.1)
    assert log.jobs.submit.tolist() == lublin_with_memory("discrete", 0.6, 1, 4000).jobs.submit.tolist()


def made_up(gains, half_width=0.01, open_at=()):
    """A sweep over loads in which IBB gains so much over BB, by metric and load; without intervals at some loads."""
    rows = {}
    for i, load in enumerate(LOADS):
        gain = {metric: gains[metric][i] for metric in METRICS[:3]}
        values = {
            BB: dict.fromkeys(METRICS, 100.0),
            IBB: {metric: 100 * (1 - gain.get(metric, 0)) for metric in METRICS},
        }
        width = np.inf if load in open_at else half_width
        changes = {metric: Estimate(-each, -each - width, -each + width, 1) for metric, each in gain.items()}
        sure = {
            metric: Change(np.log1p(each.mean), np.zeros(56), 0.0, 0.0)
            for metric, each in changes.items()
            if each.bounded
        }
        rows[load] = Row(values, {IBB: changes}, {IBB: sure})
    return LogSweep(rows)


RISING, FALLING, FEWER = (0.1, 0.2, 0.3, 0.4, 0.5), (0.5, 0.4, 0.3, 0.2, -0.1), (0.05, 0.1, 0.1, 0.1, 0.1)
AS_THE_PAPER_SAYS = {WAIT: RISING, RESPONSE: RISING, SLOWDOWN: FEWER}


def verdicts(claims):
    return {claim.id: claim.held for claim in claims}


def test_claims_about_a_log_hold_where_it_is_as_the_paper_says():
    pure, mixed = (
        made_up(AS_THE_PAPER_SAYS),
        made_up({metric: [g + 0.05 for g in RISING] for metric in AS_THE_PAPER_SAYS}),
    )
    assert set(verdicts(ibb_claims.of_pure(pure)).values()) == {True}
    assert set(verdicts(ibb_claims.of_mixed(mixed, pure)).values()) == {True}


def test_claims_about_a_log_do_not_hold_where_it_is_the_other_way_round():
    pure, mixed = made_up({WAIT: FALLING, RESPONSE: FALLING, SLOWDOWN: FALLING}), made_up(dict.fromkeys(METRICS, FEWER))
    held = verdicts(ibb_claims.of_pure(pure)) | verdicts(
        ibb_claims.of_mixed(made_up(dict.fromkeys(METRICS, FEWER)), mixed)
    )
    assert held == {"F1.1a": False, "F1.1b": False, "F1.1c": True, "F1.2a": False, "F1.2b": False,
                    "F1.3a": True, "F1.3b": False, "F1.3c": None}  # fmt: skip
    worst = ibb_claims.of_pure(pure)[0]
    assert worst.measured == "10 [9, 11] %, IBB minus BB in wait at 1.4"


def test_where_a_load_has_no_interval_the_claim_stays_open_unless_another_load_speaks_against_it():
    claim = ibb_claims.of_pure(made_up(AS_THE_PAPER_SAYS, open_at=(1.4,)))[0]
    assert (claim.held, claim.verdict) == (None, "undecided")
    assert claim.note == "no interval: -50 %, IBB minus BB in wait at 1.4; -50 %, IBB minus BB in response at 1.4"
    worse = {WAIT: FALLING[::-1], RESPONSE: RISING, SLOWDOWN: FEWER}
    assert ibb_claims.of_pure(made_up(worse, open_at=(1.4,)))[0].held is False
    nothing = below("x", "", "", {"here": Estimate.of([-1.0])})
    assert (nothing.held, nothing.low) == (None, None)


def numbers(wait, unevenness=1.0, running=10.0, largest=100.0):
    return {WAIT: wait, RESPONSE: wait, SLOWDOWN: 1.0, "unevenness": unevenness, "mean_running_jobs": running,
            "wait_of_largest": largest}  # fmt: skip


def one(x, policies, replications=3):
    """A sweep with one x; each replication is a little different."""
    return {x: [{p: {k: v * (1 + i / 1000) for k, v in each.items()} for p, each in policies.items()}
                for i in range(replications)]}  # fmt: skip


@pytest.mark.parametrize("good", [True, False])
def test_claims_about_54_jobs(good):
    best = numbers(60, running=10 if good else 20, largest=200 if good else 50)
    ibb_numbers = numbers(40 if good else 60, unevenness=0.5 if good else 2.0)
    claims = ibb_claims.of_54_jobs(Sweep(one(54, {FCFS: numbers(100), IBB: ibb_numbers, BEST_FIT: best})))
    assert verdicts(claims) == dict.fromkeys(("F1.5a", "F1.5b", "F1.5c", "F1.5d"), good)


@pytest.mark.parametrize("good", [True, False])
def test_claims_about_generated_workloads(good):
    other = numbers(90 if good else 130)
    claims = ibb_claims.shorter_response(Sweep(one(2, {EASY: numbers(100), BB: other, BB_EMPTY: other})))
    even = numbers(150 if good else 99)
    policies = {EASY: numbers(100), BB_EMPTY: other, IBB: other, IBB_EVEN: even}
    claims += ibb_claims.of_lublin(Sweep(one(("discrete", 0.6), policies)))
    assert verdicts(claims) == dict.fromkeys(("F1.4", "F1.4, one per pass", "F1.6a", "F1.6b", "F1.6c"), good)


@pytest.fixture
def small(monkeypatch):
    """Few and small experiments."""
    monkeypatch.setattr(ibb, "COUNTS", (2,))
    monkeypatch.setattr(ibb, "BEGINS", 2)
    monkeypatch.setattr(ibb, "MEMORIES", {"discrete": (0.6,)})
    monkeypatch.setattr(ibb, "several", lambda count, seed: several(count, seed, 60))
    monkeypatch.setattr(
        ibb, "lublin_with_memory", lambda memory, load, seed: lublin_with_memory(memory, load, seed, 60)
    )


def test_without_logs_what_needs_them_is_not_judged_and_the_rest_is(small, tmp_path):
    found = ibb.reproduce(Asked(replications=2))
    open_ = [claim for claim in found.claims if claim.note.startswith("needs the log")]
    assert [claim.id for claim in open_] == list(ibb_claims.OF_LOGS)
    assert open_[0].note == "needs the log LANL-CM5; give it by --log PATH"
    assert all(claim.held is None for claim in open_)
    assert {claim.id[:4] for claim in found.claims if claim not in open_} == {"F1.4", "F1.5", "F1.6"}
    write(found, tmp_path / "out")
    told = json.loads((tmp_path / "out" / "claims.json").read_text())
    assert [claim["held"] for claim in told] == [claim.held for claim in found.claims]
    page = (tmp_path / "out" / "index.html").read_text()
    assert '<td class="undecided">undecided</td>' in page
    assert "2 replications instead of 30: intervals are wider" in page


def test_with_both_logs_every_claim_has_a_verdict_and_every_reading_its_figure(small, logs):
    found = ibb.reproduce(Asked(replications=2, sensitivity=True, quick=True, logs=logs))
    ids = {claim.id for claim in found.claims}
    assert set(ibb_claims.OF_LOGS) < ids
    assert {
        "F1.1a, 32 GB in total",
        "F1.3a, walltimes exact",
        "F1.3a, refresh=false",
        "F1.3a, begins shifted",
        "F1.6a, refresh=false",
    } < ids
    names = {figure.name for figure in found.figures}
    assert {"figure-1a", "figure-1a-small", "gain-2", "walltimes-2c", "figure-3c", "resources"} < names
    assert any(text == "Quick look: the first 8 weeks of each log; no claim is judged." for text in found.setting)
    one = next(figure for figure in found.figures if figure.name == "figure-1a")
    assert [each is None for each in one.lines["conservative"]] == [False, False, False, True, True]


def test_only_the_mix_is_open_where_its_second_log_is_missing(small, logs):
    found = ibb.reproduce(Asked(replications=2, logs={LANL: logs[LANL]}))
    assert "needs the log METACENTRUM-2009" in next(c.note for c in found.claims if c.id == "F1.3a")
    grows = next(c for c in found.claims if c.id == "F1.1b")
    assert grows.note.startswith("gains at 0.6, 0.8, 1, 1.2, 1.4: wait ")
    assert "the gain in " in grows.measured


def test_logs_are_told_apart_by_their_names_and_found_in_folders(tmp_path):
    for name in ("KTH.swf", "lanl-cm5-1994.swf.gz", "LANL-CM5.txt", "METACENTRUM-2009-2.swf"):
        (tmp_path / name).write_text(swf([(0, 1, 32, 1, 1)]))
    found = find(ibb.LOGS, (), [str(tmp_path / "nowhere"), str(tmp_path)])
    assert {name: log.title.partition(",")[0] for name, log in found.items()} == {
        LANL: "lanl-cm5-1994.swf.gz", META: "METACENTRUM-2009-2.swf",
    }  # fmt: skip
    assert len(found[LANL].read()) == 1
    given = str(tmp_path / "METACENTRUM-2009-2.swf")
    assert list(find(ibb.LOGS, [given], ())) == [META]
    with pytest.raises(UsageError, match="METACENTRUM-2009 is given twice"):
        find(ibb.LOGS, [given, given], ())
    with pytest.raises(UsageError, match=r"KTH\.swf: expected an SWF file whose name has LANL-CM5 or METACENTRUM-2009"):
        find(ibb.LOGS, [str(tmp_path / "KTH.swf")], ())
