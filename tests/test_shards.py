"""Shards in Python: what they keep, that merged they equal one run, and how notebooks show sweeps and pairs."""

import json
from functools import partial

import pytest

import backfill as bf
from backfill.model.errors import InputError, UsageError
from backfill.saved_runs import _ranges, share

MODEL = "lublin?jobs=200&cpus=64&seed=5"
POLICIES = ["fcfs", "easy", ("k-reservations", {"k": 4})]
KINDS = ["exact", "lognormal:0.5", "average2"]


@pytest.fixture(autouse=True)
def still(monkeypatch):
    """Simulations that take no time, so that their times do not differ."""
    monkeypatch.setattr("backfill.worlds.simulated.time.perf_counter", lambda: 0.0)


@pytest.fixture(scope="module")
def log():
    return bf.generate(MODEL)


def drawn(load, seed):
    return bf.generate(f"lublin?jobs=50&cpus=64&seed={seed}").at_load(load)


def text(found):
    return json.dumps(found.to_dict(), allow_nan=False)


def test_merged_shards_equal_one_run(log, tmp_path):
    for call, arguments in (
        (bf.compare, (log, None, POLICIES)),
        (bf.sweep_estimates, (log, bf.Platform.pool(64, nodes=4), POLICIES, KINDS)),
        (partial(bf.compare, replications=3), (MODEL, None, POLICIES)),
        (partial(bf.compare, replications=3), (partial(drawn, 0.8), None, POLICIES)),
    ):
        whole, folders = call(*arguments), [tmp_path / f"{len(arguments)}{id(call)}-{i}" for i in range(2)]
        shards = [call(*arguments, shard=(i, 3), save=folders[i % 2]) for i in (1, 2, 3)]
        assert sum(shard.runs for shard in shards) == len(POLICIES) * (len(KINDS) if len(arguments) == 4 else 1) * (
            3 if isinstance(call, partial) else 1
        )
        merged = bf.merge_shards(*folders)
        assert text(merged) == text(whole)
        assert merged._repr_html_() == whole._repr_html_()
        assert call(*arguments, shard=(1, 3), save=folders[1]).before == shards[0].runs


def test_runs_from_other_processes_are_kept(tmp_path, log):
    found = bf.compare(log, None, POLICIES, workers=2, save=tmp_path)
    again = bf.compare(log, None, POLICIES, save=tmp_path)
    assert [each["elapsed_s"] for each in again.to_dict()["results"]] == [
        each["elapsed_s"] for each in found.to_dict()["results"]
    ]
    assert bf.merge_shards(tmp_path).summary() == found.summary()


def test_every_run_is_in_one_shard():
    for count in (0, 1, 6, 7, 100):
        for of in (1, 2, 3, 20):
            shares = [share(count, (number, of)) for number in range(1, of + 1)]
            assert [run for each in shares for run in each] == [*range(count)]
            assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert _ranges([1, 2, 3, 7, 9, 10]) == "1-3,7,9-10"


def test_missing_runs_are_named_with_their_call(tmp_path, log):
    bf.sweep_estimates(log, None, POLICIES, KINDS, shard=(2, 3), save=tmp_path)
    told = (
        r"6 of 9 runs are missing \(shards 1,3 of 3\); run sweep_estimates\(\.\.\., shard=\(1, 3\), save='.*'\), and "
    )
    with pytest.raises(InputError, match=told):
        bf.merge_shards(tmp_path)


@pytest.mark.parametrize("shard", [(0, 3), (4, 3), (1.5, 3), 3, "x", (1, 2, 3)])
def test_what_is_no_shard_is_refused(tmp_path, log, shard):
    with pytest.raises(UsageError, match=r"shard is .*; expected"):
        bf.compare(log, None, POLICIES, shard=shard, save=tmp_path)


def test_what_cannot_be_kept_is_refused(tmp_path, log):
    with pytest.raises(UsageError, match="a shard needs a folder for its runs; expected save as well"):
        bf.compare(log, None, POLICIES, shard=(1, 2))
    with pytest.raises(UsageError, match="optimum is about all runs; expected it without shard"):
        bf.compare(log, None, POLICIES, shard=(1, 2), save=tmp_path, optimum=1)
    with pytest.raises(UsageError, match="policy nothing is a function; runs are saved of policies with a name"):
        bf.compare(log, None, ["fcfs", nothing], save=tmp_path)
    with pytest.raises(UsageError, match="there are no folders to merge"):
        bf.merge_shards()
    with pytest.raises(UsageError, match="folder is int; expected a path"):
        bf.merge_shards(3)


def nothing(state):
    pass


def test_a_notebook_shows_a_sweep_and_its_pairs(log):
    found = bf.sweep_estimates(log, None, ["easy", "conservative"], KINDS[:2])
    shown = found._repr_html_()
    assert shown.startswith("<table><caption><bdi>lublin: 200 jobs on 64 cpus</bdi></caption>")
    assert shown.count("<tr>") == 1 + 2 * 2
    assert "<bdi>promises that slip</bdi>" in shown
    assert "<bdi>the mean wait grew most, against exact, for jobs of:</bdi>" in shown
    one = bf.compare(MODEL, None, ["fcfs", "easy"], replications=4)
    table = one.pairs._repr_html_()
    wait = next(pair for pair in one.pairs if pair.metric == "mean_wait_s")
    assert wait.low < wait.difference < wait.high
    assert table.count("<tr>") == 1 + len(one.pairs)
    assert "<bdi>easy against fcfs</bdi>" in table
    row = table.split("<bdi>mean wait</bdi>")[1].split("</tr>")[0]
    assert row.count(" to ") == 2
    shard = bf.compare(log, None, ["fcfs", "easy"], shard=(1, 2), save="kept")
    assert repr(shard) == "<Shard 1/2: 1 run in kept, 0 of them from before>"
    assert "<bdi>shard 1 of 2</bdi>" in shard._repr_html_()


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
