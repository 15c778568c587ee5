"""compare() in Python: what it returns, with one process and with several, for a log and for replications."""

import json
import math
import os
import signal

import numpy as np
import pytest

import backfill as bf
from backfill.model.errors import BackfillError, UsageError
from backfill.verbs import HEAD, head, place, start

MODEL = "lublin?jobs=300&cpus=64&load=0.4&seed=3"
POLICIES = ["fcfs", "easy", "easy-sjbf"]


def plain(state):
    """FCFS in plain Python, which can be sent to another process."""
    while head(state) >= 0 and place(state, head(state)):
        start(state, head(state), HEAD)


def interrupted(state):
    raise KeyboardInterrupt


def broken(state):
    raise ZeroDivisionError("on purpose")


def killed(state):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture(scope="module")
def log():
    return bf.generate(MODEL)


@pytest.fixture(scope="module")
def compared(log):
    return bf.compare(log, None, POLICIES)


@pytest.fixture(scope="module")
def here_and_there(log):
    """A comparison with a plain function, and the progress that was told, in this process and in two others."""
    found = []
    for workers in (1, 2):
        told = []
        found.append((bf.compare(log, None, [*POLICIES, plain], workers=workers, progress=told.append), told))
    return found


def same(found):
    """All of the JSON but what depends on the clock."""
    text = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    for result in text["results"]:
        del result["elapsed_s"], result["jobs_per_s"]
    return text


def test_each_result_is_that_of_simulate(log, compared):
    for name, result in zip(POLICIES, compared.results, strict=True):
        alone = bf.simulate(log, None, name)
        assert (result.metrics, result.name) == (alone.metrics, alone.name)
        assert (result.schedule.start == alone.schedule.start).all()
        assert result.verify() == []


def test_a_pair_is_the_difference_of_two_results(compared):
    pair = next(p for p in compared.pairs if (p.a, p.b, p.metric) == ("easy-sjbf", "fcfs", "mean_bounded_slowdown"))
    a, b = (compared.results[i].metrics["mean_bounded_slowdown"] for i in (2, 0))
    assert pair.difference == a - b
    assert pair.relative == (a - b) / b
    assert (pair.low, pair.method) == (None, "no 95% interval: fewer than 500 jobs")
    longer = bf.generate("lublin?jobs=1000&cpus=64&seed=3")
    found = [bf.compare(longer, None, ["fcfs", "easy-sjbf"], seed=seed) for seed in (0, 1)]
    assert same(found[0])["pairs"] != same(found[1])["pairs"]
    pair = next(p for p in found[0].pairs if p.metric == "mean_bounded_slowdown")
    assert pair.low <= pair.difference <= pair.high
    assert pair.method.startswith("block bootstrap, ")


def test_a_huge_difference_is_said_without_an_interval(tmp_path):
    """Every hour a job that needs all cpus waits for one that holds most, and four short ones come behind it."""
    jobs = 480
    submit = np.repeat(np.arange(jobs // 6) * 3600, 6) + np.tile(np.arange(6), jobs // 6)
    cpus, run = np.tile([3, 4, 1, 1, 1, 1], jobs // 6), np.tile([1200, 60, 50, 50, 50, 50], jobs // 6)
    log = bf.Workload.from_arrays(
        {"job": np.arange(jobs), "submit": submit, "runtime": run, "walltime": run, "cpus": cpus}
    )
    found = bf.compare(log, bf.Platform.pool(4), ["fcfs", "easy"])
    pair = next(each for each in found.to_dict()["pairs"] if each["metric"] == "mean_wait_s")
    assert (pair["low"], pair["always_higher"]) == (None, "fcfs")
    assert "but fcfs waits longer in each of 8 parts of the log" in found.sentences[0]
    assert "but fcfs waits longer in each of 8" in " ".join(found.summary().split())
    found.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "but fcfs waits longer in each of 8 parts of the log" in page
    assert "fcfs higher in each of 8 parts" in page


def test_every_two_policies_are_compared_the_later_with_those_before_it(compared):
    order = [("easy", "fcfs"), ("easy-sjbf", "fcfs"), ("easy-sjbf", "easy")]
    assert list(dict.fromkeys((pair.a, pair.b) for pair in compared.pairs)) == order
    assert [(fair.a, fair.b) for fair in compared.fairness] == order
    assert len(compared.sentences) == 3


def test_no_policy_is_below_a_bound(compared):
    assert {(gap.policy, gap.metric) for gap in compared.gaps} == {
        (name, metric) for name in POLICIES for metric in ("makespan_s", "mean_wait_s")
    }
    assert all(gap.ratio >= 1 for gap in compared.gaps)


def test_the_json_is_that_of_the_interface(compared):
    found = same(compared)
    assert list(found)[:4] == ["schema", "backfill", "results", "pairs"]
    assert list(found["pairs"][0])[:8] == ["a", "b", "metric", "difference", "relative", "low", "high", "method"]
    assert [result["policy"] for result in found["results"]] == POLICIES
    assert "replications" not in found


def test_the_same_call_gives_the_same_bytes_also_from_several_processes(log, compared, here_and_there):
    assert same(bf.compare(log, None, POLICIES)) == same(compared)
    (here, _), (there, _) = here_and_there
    assert same(here) == same(there)


def test_the_summary_fits_80_columns(compared):
    lines = compared.summary().splitlines()
    assert lines[0] == "lublin: 300 jobs on 64 cpus"
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("  easy") and "interval" in line for line in lines) >= 1


def test_replications_are_drawn_with_the_following_seeds_and_shared_by_all_policies():
    found = bf.compare(MODEL, None, ["fcfs", "easy"], replications=3)
    for replication in range(3):
        log = bf.generate(MODEL.replace("seed=3", f"seed={3 + replication}"))
        for p, name in enumerate(["fcfs", "easy"]):
            assert found.replicated[p][replication] == bf.simulate(log, None, name, seed=replication).metrics
    waits = [each["mean_wait_s"] for each in found.replicated[1]]
    assert found.metrics[1]["mean_wait_s"] == math.fsum(waits) / 3
    assert found.pairs[0].difference == found.metrics[1]["mean_wait_s"] - found.metrics[0]["mean_wait_s"]
    assert found.pairs[0].method == "t interval, 3 replications"
    assert len(found.to_dict()["replications"][0]["metrics"]) == 3
    assert "first replication" in found.notes[-1]


def test_bounds_of_replications_are_means_as_the_metrics_are():
    found = bf.compare(MODEL, None, ["fcfs", "easy"], replications=3)
    alone = [bf.compare(bf.generate(MODEL, r), None, ["fcfs", "easy"]).bounds for r in range(3)]
    for i in range(2):
        assert found.bounds[i].value == pytest.approx(sum(each[i].value for each in alone) / 3)
    gap = found.gaps[1]
    assert (gap.policy, gap.metric, gap.how) == ("fcfs", "mean_wait_s", "mean of 3 bounds")
    assert gap.ratio == found.metrics[0]["mean_wait_s"] / found.bounds[1].value


def test_replications_from_several_processes_are_the_same():
    one, two = (bf.compare(MODEL, None, ["fcfs", "easy"], replications=4, workers=n) for n in (1, 2))
    assert same(one) == same(two)


def test_a_function_draws_the_workload_of_a_seed():
    seeds = []

    def draw(seed):
        seeds.append(seed)
        return bf.generate(f"lublin?jobs=50&seed={seed}")

    bf.compare(draw, None, ["fcfs", "easy"], replications=3, seed=7)
    assert sorted(set(seeds)) == [7, 8, 9]


def test_parameters_in_the_text_or_beside_it(log):
    found = bf.compare(log, None, ["k-reservations:k=1", ("k-reservations", {"k": 5}), "easy"])
    assert list(found.names) == ["k-reservations:k=1", "k-reservations:k=5", "easy"]
    assert found.results[0].metrics == found.results[2].metrics
    assert found.pairs[0].a == "k-reservations:k=5"


def test_options_and_trims_reach_every_run(log):
    options = {"warmup": 20, "cooldown": "1h", "estimates": "inflate:2", "overrun": "extend"}
    found = bf.compare(log, None, ["fcfs", "easy"], **options)
    for name, result in zip(found.names, found.results, strict=True):
        assert result.metrics == bf.simulate(log, None, name, **options).metrics
    assert sum(found.groups[-1].jobs) == found.fairness[0].jobs == found.results[0].metrics["jobs"] < 280


def test_progress_counts_runs_and_never_goes_back(here_and_there):
    for _, told in here_and_there:
        assert told == sorted(told)
        assert told[0] >= 0
        assert 3 < told[-1] <= 4


def test_a_plain_function_runs_here_and_in_other_processes(here_and_there):
    for found, _ in here_and_there:
        assert found.results[0].metrics["mean_wait_s"] == found.results[-1].metrics["mean_wait_s"]


def test_what_is_done_when_ctrl_c_comes_is_kept(log):
    found = bf.compare(log, None, ["fcfs", "easy", interrupted, "easy-sjbf"])
    assert list(found.names) == ["fcfs", "easy"]
    assert found.notes[-1] == "interrupted after 2 of 4 runs; left out: interrupted, easy-sjbf"
    assert len(found.pairs) > 0
    alone = bf.compare(log, None, ["fcfs", interrupted])
    assert (list(alone.names), list(alone.pairs)) == (["fcfs"], [])
    assert "fcfs" in alone.summary()


def test_replications_that_ctrl_c_left_whole_are_kept():
    calls = []

    def at_last(state):
        calls.append(1)
        if len(calls) > 150:
            raise KeyboardInterrupt
        plain(state)

    found = bf.compare("lublin?jobs=50", None, ["fcfs", at_last], replications=5)
    assert 1 <= len(found.replicated[0]) == len(found.replicated[1]) < 5
    assert f"; {len(found.replicated[0])} of 5 replications" in found.notes[-1]


def test_ctrl_c_before_anything_is_done_is_an_interrupt(log):
    with pytest.raises(KeyboardInterrupt):
        bf.compare(log, None, [interrupted, "easy"])


def test_the_mistake_of_a_policy_in_another_process_is_told_here(log):
    for workers in (1, 2):
        with pytest.raises(BackfillError, match="broken: ZeroDivisionError: on purpose"):
            bf.compare(log, None, ["fcfs", broken], workers=workers)


def test_a_process_that_dies_is_noticed(log):
    with pytest.raises(BackfillError, match="a worker process ended"):
        bf.compare(log, None, ["fcfs", killed], workers=2)


def test_what_cannot_be_sent_to_another_process_is_named(log):
    with pytest.raises(UsageError, match=r"<lambda> cannot be sent to another process; use workers=1"):
        bf.compare(log, None, ["fcfs", lambda state: plain(state)], workers=2)
    with pytest.raises(UsageError, match=r"<lambda> cannot be sent to another process; use workers=1"):
        bf.compare(lambda seed: log, None, ["fcfs", "easy"], replications=2, workers=2)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"policies": ["easy"]}, "needs two policies or more; got 1"),
        ({"policies": ["easy", "easy"]}, "policy easy is given twice"),
        ({"replications": 2}, "replications need a generated workload"),
        ({"replications": 0}, "replications is 0; expected a whole number >= 1"),
        ({"workers": 0}, "workers is 0; expected a whole number >= 1"),
        ({"policies": ["easy", ("k-reservations", {"k": -1})]}, "k is -1; expected"),
        ({"policies": ["easy", "eazy"]}, "did you mean easy"),
    ],
)
def test_nonsense_is_a_usage_error(log, arguments, complaint):
    with pytest.raises(UsageError, match=complaint):
        bf.compare(log, None, **{"policies": ["fcfs", "easy"], **arguments})


def test_an_empty_workload_gives_nothing_and_no_nan(tmp_path):
    (tmp_path / "none.csv").write_text("job,submit,runtime\n")
    found = same(bf.compare(bf.read(tmp_path / "none.csv"), bf.Platform.pool(4), ["fcfs", "easy"]))
    assert found["pairs"][0] | {"method": ""} == {
        "a": "easy", "b": "fcfs", "metric": "mean_wait_s", "difference": None, "relative": None, "low": None,
        "high": None, "method": "", "relative_low": None, "relative_high": None, "always_higher": None,
    }  # fmt: skip
    assert found["sentences"] == ["easy and fcfs have no wait to compare"]


def test_the_page_names_every_policy_and_says_the_sentences(compared, tmp_path):
    compared.report(tmp_path / "out.html", "backfill compare ...")
    page = (tmp_path / "out.html").read_text()
    assert all(name in page for name in POLICIES)
    assert compared.sentences[0] in page
