"""The Python interface."""

import json

import pytest

import backfill as bf
from backfill.model.errors import UsageError

from .conftest import TINY


@pytest.fixture
def log(tmp_path):
    (tmp_path / "tiny.csv").write_text(TINY)
    return bf.read(tmp_path / "tiny.csv")


def on4(log, policy="easy", **options):
    return bf.simulate(log, bf.Platform.pool(cpus=4), policy, **options)


def test_the_example_of_the_interface(log, tmp_path):
    result = on4(log)
    assert result.metrics["mean_wait_s"] == pytest.approx((99 + 147) / 4)
    assert "easy" in result.summary()
    assert bf.verify(result) == result.verify() == []
    result.report(tmp_path / "out.html")
    assert "easy" in (tmp_path / "out.html").read_text()
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["policy"] == "easy"


def test_a_policy_by_name_by_text_and_as_a_function(log):
    from backfill.verbs import HEAD, head, place, start

    def mine(state):
        while head(state) >= 0 and place(state, head(state)):
            start(state, head(state), HEAD)

    plain = on4(log, mine)
    assert plain.policy.name == "mine"
    assert plain.schedule.start.tolist() == on4(log, "fcfs").schedule.start.tolist()
    assert on4(log, "k-reservations:k=2").params == {"k": 2}
    assert on4(log, "k-reservations:k=2", params={"k": 3}).name == "k-reservations:k=3"
    assert on4(log, "k-reservations:order=sjf", params={"k": 4}).name == "k-reservations:order=sjf"
    with pytest.raises(UsageError, match="expected a name"):
        on4(log, 3)


def test_the_pool_of_the_log():
    log = bf.generate("lublin?jobs=60&cpus=32")
    assert bf.simulate(log).platform.cpus == 32


def test_variants_have_names(log):
    assert on4(log, overrun="extend", estimates="exact").name == "easy, overrun extend, estimates exact"


def test_promises_and_trims(log):
    result = on4(log, "conservative", promise="d", warmup=1, cooldown="1")
    assert result.promises == [(3.0, 160.0), (150.0, 150.0)]
    assert result.metrics["jobs"] == 2


def test_progress_is_told(log):
    told = []
    on4(log, progress=told.append)
    assert told == [4]


def test_a_table_of_the_schedule(log):
    frame = on4(log).to_polars()
    assert frame.columns == ["job", "submit", "start", "end", "state", "reason", "node"]
    assert frame["start"].to_list() == [0, 100, 2, 150]
    assert frame["reason"].to_list() == ["head", "head", "backfill", "head"]


def test_the_package_knows_its_names():
    assert {*bf.__all__, "__version__"} <= {*dir(bf)}
    assert all(callable(getattr(bf, name)) for name in bf.__all__)
    assert bf.__version__[0].isdigit()
    with pytest.raises(AttributeError, match="has no attribute 'simulat'"):
        bf.simulat  # noqa: B018
