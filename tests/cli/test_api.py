"""The Python interface."""

import json

import numpy as np
import pytest

import backfill as bf
from backfill.model.errors import UsageError
from backfill.model.units import NEVER

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
    assert result.metrics["jobs"] == result.metrics["promised_jobs"] == 2
    assert on4(log, "conservative").metrics["promised_jobs"] == 4


def test_progress_is_told(log):
    told = []
    on4(log, progress=told.append)
    assert told == [4]


def test_a_table_of_the_schedule(log):
    frame = on4(log).to_polars()
    assert frame.columns[:7] == ["job", "submit", "start", "end", "state", "reason", "node"]
    assert frame.columns[7:] == ["wait", "runtime", "cpus", "user", "partition"]
    assert frame["start"].to_list() == [0, 100, 2, 150]
    assert frame["reason"].to_list() == ["head", "head", "backfill", "head"]


def test_the_package_knows_its_names():
    assert {*bf.__all__, "__version__"} <= {*dir(bf)}
    assert all(callable(getattr(bf, name)) for name in bf.__all__)
    assert bf.__version__[0].isdigit()
    with pytest.raises(AttributeError, match="has no attribute 'simulat'"):
        bf.simulat  # noqa: B018


def small(**options):
    return bf.simulate(bf.generate("lublin?jobs=20&cpus=64"), policy="easy", **options)


def test_long_tables_are_short_in_a_notebook():
    result = small()
    jobs, schedule = result.workload.jobs._repr_html_(), result.schedule._repr_html_()
    assert jobs.count("<tr>") == schedule.count("<tr>") == 9
    assert "<p><bdi>and 12 more</bdi></p>" in jobs
    assert "COMPLETED" in schedule


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: bf.verify(3), "result is int; expected a Result, such as that of simulate(log)"),
        (lambda: bf.replay(3), "result is int; expected a Result, such as that of simulate(log)"),
        (lambda: bf.quality("x.csv"), "workload is str; expected a Workload, such as that of read(file)"),
        (lambda: bf.write("x.csv", "y.csv"), "workload is str; expected a Workload, such as that of read(file)"),
        (lambda: bf.generate(3), "text is int; expected a model such as 'lublin?jobs=1000'"),
        (lambda: bf.read(3), "path is int; expected a path"),
        (lambda: bf.read_platform(3), "path is int; expected a path"),
        (lambda: bf.import_log("sacct", 3), "file is int; expected a path"),
        (lambda: small().report(3), "path is int; expected a path"),
        (lambda: small().save(3), "folder is int; expected a path"),
        (lambda: small(seed="a"), "seed is 'a'; expected a whole number from 0 to 2^64 - 1"),
        (lambda: small(seed=1.5), "seed is 1.5; expected a whole number from 0 to 2^64 - 1"),
        (lambda: bf.compare("lublin", policies="easy"), "policies is str; expected a list such as ['fcfs', 'easy']"),
        (lambda: bf.Platform.pool("8"), "cpus is '8'; expected a whole number from 1 to 2^62"),
        (lambda: bf.Events.of(3), "events is int; expected a list of dicts, a dict of columns or a DataFrame"),
    ],
)  # fmt: skip
def test_a_wrong_type_is_a_sentence(call, sentence):
    with pytest.raises(bf.UsageError) as caught:
        call()
    assert str(caught.value) == sentence


def test_every_object_says_what_it_is_in_a_line(log):
    result = on4(log)
    found = [log, log.jobs, log.jobs.user, log.jobs.after, result.platform, result, result.schedule, result.simulation]
    found += [bf.compare(log, result.platform, ["fcfs", "easy"]), result.schedule.all_runs]
    told = on4(log, explain="b").explain("b")
    waited = bf.Workload.from_arrays({"job": [1, 2], "submit": [0, 5], "runtime": [60, 90], "waited": [0, 55]})
    events = bf.Events.of([{"time": 0, "event": "cancel", "job": "a"}])
    shown = [log, result, bf.quality(log), told, events, bf.replay(bf.simulate(waited, bf.Platform.pool(1)))]
    assert all(each._repr_html_().startswith(("<table>", "<pre>")) for each in shown)
    assert repr(bf.quality(log)) == "<Quality of tiny: 4 of 4 jobs kept>"
    assert repr(told).startswith("<Explanation under easy: Job b waited 1.65 min for cpus")
    assert repr(events) == "<Events events: 1 event>"
    for each in found + shown:
        assert len(repr(each)) < 300
        assert "\n" not in repr(each)
    assert repr(log).startswith("<Workload tiny: 4 jobs")
    assert repr(result.platform) == "<Platform pool: 1 node; 4 cpus>"
    assert repr(result).startswith("<Result of easy on tiny: 4 jobs on 4 cpus: mean wait ")
    assert "<table>" in result.platform._repr_html_()


@pytest.mark.parametrize(("arguments", "told"), [
    ((4,), "platform is int; expected a Platform: use Platform.pool(4)"),
    (("farm.toml",), "platform is str; expected a Platform: use read_platform('farm.toml')"),
])  # fmt: skip
def test_a_wrong_type_gets_a_sentence(log, arguments, told):
    for call in (bf.simulate, bf.compare):
        with pytest.raises(bf.UsageError) as caught:
            call(log, *arguments)
        assert str(caught.value) == told
    with pytest.raises(bf.UsageError, match=r"log is str; expected a Workload: use read\('tiny.csv'\)"):
        bf.simulate("tiny.csv")


def test_names_of_policies_and_errors_at_the_top():
    assert bf.policies()[:2] == ["fcfs", "easy"]
    assert "conservative" in bf.policies()
    assert issubclass(bf.WorkloadError, bf.BackfillError)
    assert set(dir(bf)) == {*bf.__all__, "__version__"}


def test_frames_of_pandas_and_polars_are_workloads(log, tmp_path):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"job": ["a", "b"], "Sub": ["2026-03-01T12:00:00", "2026-03-01T12:00:01.5"], "Took": [60, 90]}
    names = {"submit": "Sub", "runtime": "Took"}
    frame = pd.DataFrame(columns)
    frame["Sub"], frame["Took"] = pd.to_datetime(frame["Sub"], format="ISO8601"), pd.to_timedelta(frame["Took"], "s")
    other = pl.DataFrame(columns).with_columns(
        pl.col("Sub").str.to_datetime(), pl.duration(seconds="Took").alias("Took")
    )
    for found in (bf.Workload.from_pandas(frame, names), bf.Workload.from_polars(other, names)):
        assert found.jobs.submit.tolist() == [1772366400_000_000, 1772366401_500_000]
        assert found.jobs.runtime.tolist() == [60_000_000, 90_000_000]
    zoned = other.with_columns(pl.col("Sub").dt.replace_time_zone("Europe/Berlin"))
    assert bf.Workload.from_polars(zoned, names).jobs.submit[0] == 1772362800_000_000
    aware = frame.assign(Sub=frame["Sub"].dt.tz_localize("Europe/Berlin"))
    for found in (bf.Workload.from_pandas(aware, names), bf.Workload.from_polars(zoned, names)):
        assert found.clock.zone == "Europe/Berlin"
    assert bf.Workload.from_pandas(aware, names, timezone="Asia/Tokyo").clock.zone == "Asia/Tokyo"
    fixed = frame.assign(Sub=frame["Sub"].dt.tz_localize("+01:00"))
    assert bf.Workload.from_pandas(fixed, names).clock.zone == "UTC"
    some = [90.0, float("nan")]
    for gaps in (frame.assign(walltime=some), other.with_columns(walltime=pl.Series(some))):
        read = bf.Workload.from_pandas if isinstance(gaps, pd.DataFrame) else bf.Workload.from_polars
        assert read(gaps, names).jobs.requested.tolist() == [True, False]
    with pytest.raises(bf.WorkloadError, match="DataFrame"):
        bf.Workload.from_pandas(pd.DataFrame({"job": [1], "submit": ["x"], "runtime": [1]}))
    with pytest.raises(bf.UsageError, match="frame is dict; expected a pandas DataFrame"):
        bf.Workload.from_pandas(columns)


def test_arrays_are_a_workload():
    whole, empty = np.array([60, 90]), [None, float("nan")]
    found = bf.Workload.from_arrays(
        {"job": [1, 2], "Sub": np.array(["2026-03-01T12:00", "2026-03-01T12:00:01.5"], "datetime64[ns]"),
         "runtime": whole.astype("timedelta64[s]"), "walltime": [100, None], "deadline": empty, "user": ["a, b", None]},
        {"submit": "Sub"},
        timezone="Europe/Berlin",
    )  # fmt: skip
    assert found.jobs.submit.tolist() == [1772362800_000_000, 1772362801_500_000]
    assert found.jobs.runtime.tolist() == [60_000_000, 90_000_000]
    assert found.jobs.walltime.tolist() == [100_000_000, 90_000_000]
    assert found.jobs.deadline.tolist() == [NEVER, NEVER]
    assert [found.jobs.user[row] for row in range(2)] == ["a, b", ""]
    with pytest.raises(bf.UsageError, match=r"unequal lengths \(job 2, submit 1\)"):
        bf.Workload.from_arrays({"job": [1, 2], "submit": [0]})
    with pytest.raises(bf.UsageError, match="arrays is list; expected a dict"):
        bf.Workload.from_arrays([1, 2])


def test_a_schedule_frame_says_whose_job_waited_how_long(log):
    pytest.importorskip("polars")
    frame = on4(log).to_polars()
    assert {"wait", "runtime", "cpus", "user", "partition"} <= set(frame.columns)
    assert frame["wait"].to_list() == [s - e for s, e in zip(frame["start"], frame["submit"], strict=True)]


def test_departures_are_found_out_once(monkeypatch):
    from backfill import api

    found = []
    of = api.Departures.of
    monkeypatch.setattr(api.Departures, "of", lambda *arguments: found.append(of(*arguments)) or found[-1])
    result = bf.simulate(bf.generate("two-tier?projects=5"), policy="2tsb")
    assert [result.departures] == found
    assert bf.simulate(bf.generate("lublin?jobs=5&cpus=64"), policy="easy").departures is None
