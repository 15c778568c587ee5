"""The metrics of a queue: what its log tells, what its daemon measures, and the text for Prometheus."""

import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from backfill.answers.metrics import LABELS, METRICS, PREFIX, Counted, exposition
from backfill.daemon.measured import MetricsFile, amounts, durations, licences, one, states
from backfill.queue.events import Capacity, End, Entry, Start, Submit, Unstarted
from backfill.queue.measured import Histogram
from backfill.queue.store import Store
from tests.queue.virtual import SECOND, Virtual


def samples(text):
    """(name, labels) -> value, of a text that the parser of Prometheus accepts."""
    found = {}
    for family in text_string_to_metric_families(text):
        kind, about = METRICS[family.name.removeprefix(PREFIX) + ("_total" if family.type == "counter" else "")]
        assert (family.type, family.documentation) == (kind, about)
        for sample in family.samples:
            found[sample.name.removeprefix(PREFIX), frozenset(sample.labels.items())] = sample.value
    return found


def counted(queue):
    """What the log of a queue tells, as the parser sees it: name -> value, with labels name{label=value}."""
    store, told = Store(queue.folder / "store.db", readonly=True), Counted()
    try:
        told.read(store)
    finally:
        store.close()
    return {
        name + "".join(f"{{{label}={value}}}" for label, value in sorted(labels)): value_
        for (name, labels), value_ in samples(exposition(told.values())).items()
    }


def test_jobs_waits_starts_and_promises_are_counted(tmp_path):
    queue = Virtual(tmp_path, "conservative")
    queue.submit(4, 100, runtime=50)
    queue.submit(4, 100, runtime=100)  # waits for 50 s
    queue.submit(4, 10, runtime=10)  # waits for 150 s
    cancelled = queue.submit(4, 10, held=True)
    queue.until(20)
    queue.request(do="cancel", ids=[cancelled])
    queue.drain()
    found = counted(queue)
    assert found["jobs_submitted_total"] == 4
    assert (found["jobs_ended_total{state=COMPLETED}"], found["jobs_ended_total{state=CANCELLED}"]) == (3, 1)
    assert sum(value for name, value in found.items() if name.startswith("starts_total")) == 3
    assert (found["job_wait_seconds_count"], found["job_wait_seconds_sum"]) == (3, pytest.approx(200))
    assert found["job_wait_seconds_bucket{le=60}"] == 2
    slowdowns = 1 + 150 / 100 + 160 / 10
    assert found["job_bounded_slowdown_sum"] == pytest.approx(slowdowns)
    assert found["promises_kept_total"] == 2
    assert found["reservation_slips_total{cause=bug}"] == 0
    assert [found[f"violations_total{{rule={rule}}}"] for rule in ("lost", "twice", "capacity")] == [0, 0, 0]


def test_the_error_of_the_last_estimates_is_counted_by_what_they_said(tmp_path):
    queue = Virtual(tmp_path, "easy")
    queue.submit(4, 100)
    waiting = queue.submit(4, 100)
    begin_s = queue.t / SECOND
    queue.engine.note_shown([[waiting, begin_s + 500, begin_s + 500, begin_s + 500, "all", 1]])
    queue.engine.note_shown([[waiting, None, begin_s + 70, begin_s + 150, "all", 1]])  # it starts after 100 s
    queue.until(150)
    found = counted(queue)
    name = "start_estimate_error_seconds_sum{direction=%s}{quantile_shown=%s}"
    assert [found[name % each] for each in (("late", "0.5"), ("early", "0.9"))] == [30, 50]
    assert [found[name % each] for each in (("early", "0.5"), ("late", "0.9"), ("early", "1"))] == [0, 0, 0]


def test_a_job_that_runs_again_waits_once_and_breaks_no_promise(tmp_path):
    queue = Virtual(tmp_path, "easy")
    first = queue.submit(4, 100, requeue=True)
    queue.until(20)
    queue.request(do="requeue", ids=[first])
    queue.drain()
    found = counted(queue)
    assert (found["job_wait_seconds_count"], found["starts_total{reason=head}"]) == (1, 2)
    assert found["violations_total{rule=twice}"] == 0


def test_slices_of_a_long_log_give_the_same(tmp_path, monkeypatch):
    queue = Virtual(tmp_path, "easy")
    for _ in range(20):
        queue.submit(2, 10)
    queue.drain()
    whole = counted(queue)
    monkeypatch.setattr("backfill.answers.metrics.SLICE", 3)
    assert counted(queue) == whole
    store, told = Store(queue.folder / "store.db", readonly=True), Counted()
    told.read(store, lambda: False)  # the daemon stops meanwhile
    assert told.seq < store.seq
    told.read(store)
    store.close()
    assert exposition(told.values()).count("\n") > 0


ROW = {"need": {"cpus": 3}, "tasks": 1}


@pytest.mark.parametrize(
    ("log", "rule"),
    [
        ([Start(1, 1, 10, "head", [0], []), Start(1, 2, 20, "head", [1], [])], "twice"),
        ([Start(1, 1, 10, "head", [0], []), End(1, "COMPLETED"), Start(1, 2, 20, "head", [1], [])], "twice"),
        ([Start(1, 1, 10, "head", [0], []), Start(2, 1, 10, "head", [1], [])], "capacity"),
        ([Start(1, 1, 10, "head", [0], []), Unstarted(1), Start(2, 1, 10, "head", [1], [])], ""),
        ([Start(3, 1, 10, "head", [0], []), Start(4, 1, 10, "head", [0], [])], "capacity"),  # the same cpu
        ([Start(3, 1, 10, "head", [0], []), Start(4, 1, 10, "head", [1], [])], ""),
    ],
)
def test_an_event_that_breaks_a_promise_is_counted(log, rule):
    told = Counted()
    submits = [Submit(1, ROW), Submit(2, ROW), Submit(3, {"need": {"cpus": 1}}), Submit(4, {"need": {"cpus": 1}})]
    told.count(Entry(event, 5, seq) for seq, event in enumerate([Capacity({"cpus": 4}, [], []), *submits, *log], 1))
    found = {labels["rule"]: value for labels, value in told.values()["violations_total"]}
    assert {name for name, value in found.items() if value} == ({rule} if rule else set())


def test_a_job_that_the_table_has_lost_is_counted(tmp_path):
    queue = Virtual(tmp_path, "easy")
    queue.submit(4, 100)
    queue.submit(4, 100)
    queue.store._db.execute("DELETE FROM job WHERE id = 2")
    assert counted(queue)["violations_total{rule=lost}"] == 1


def test_the_daemon_measures_amounts_licences_and_states(tmp_path):
    queue = Virtual(tmp_path, "easy", matlab=3)
    queue.submit(3, 100, licences=[("matlab", 2)])
    queue.submit(3, 100)
    queue.request(do="reserve", token="t", reservation="r", amount={"cpus": 1}, span=100 * SECOND, user="ana")
    queue.until(1)
    book = queue.engine.book
    hung = Histogram()
    hung.observe(0.003)
    values = {**amounts(book), **licences(book, []), "jobs": states(book), **durations(commit=hung),
              **one(up=1, forecast_age_seconds=None)}  # fmt: skip
    found = samples(exposition(json.loads(json.dumps(values))))

    def of(name, **labels):
        return found[name, frozenset(labels.items())]

    assert [of(f"resource_{what}", resource="cpus") for what in ("capacity", "used", "reserved")] == [4, 3, 1]
    assert [of(f"licence_{what}", licence="matlab") for what in ("copies", "ours", "others", "stale")] == [3, 2, 0, 0]
    assert (of("jobs", state="RUNNING") + of("jobs", state="STARTING"), of("jobs", state="PENDING")) == (1, 1)
    assert (of("nodes"), of("nodes_out"), of("over_capacity"), of("up")) == (1, 0, 0, 1)
    assert [of("commit_duration_seconds_bucket", le=bound) for bound in ("0.0025", "0.005", "+Inf")] == [0, 1, 1]
    assert "forecast_age_seconds" not in {name for name, _ in found}
    book.nodes.held["machine"]["cpus"] = 5
    assert amounts(book)["over_capacity"] == [[{}, 1]]


def test_labels_are_escaped():
    hostile = 'a"b\\c\nd'
    assert [*samples(exposition({"policy_info": [({"policy": hostile}, 1)]}))] == [
        ("policy_info", frozenset({("policy", hostile)}))
    ]


def test_the_file_is_replaced_as_a_whole_and_says_when_the_daemon_is_down(tmp_path):
    queue = Virtual(tmp_path, "easy")
    queue.submit(1, 10)
    path = tmp_path / "backfill.prom"
    file = MetricsFile(path, tmp_path / "store.db", lambda: one(up=1))
    file._write(one(up=1))
    first = samples(path.read_text())
    assert (first["up", frozenset()], first["jobs_submitted_total", frozenset()]) == (1, 1)
    assert path.stat().st_mode & 0o777 == 0o644
    (tmp_path / "backfill.prom.tmp").symlink_to(tmp_path / "other")  # which is not followed
    file.close()
    file._write(one(up=1))  # a thread that was late
    assert samples(path.read_text())["up", frozenset()] == 0
    assert not (tmp_path / "other").exists()
    assert [each.name for each in tmp_path.glob("*.tmp")] == []


def test_a_daemon_writes_the_file_that_serve_names(live):
    target = live.folder / "metrics" / "queue.prom"
    missing = live.run("serve", "--metrics-file", target, check=2).stderr
    assert missing == f"backfill: --metrics-file {target}: expected a file in a folder that exists\n"
    device = live.run("serve", "--metrics-file", "/dev/null", check=2).stderr  # the file is replaced as a whole
    assert device == "backfill: --metrics-file: /dev/null is not a regular file; expected a file, which is replaced\n"
    target.parent.mkdir()
    live.run("serve", "--metrics-file", target, "--detach")
    live.until(target.exists)
    found = samples(target.read_text())
    assert found["up", frozenset()] == 1
    daemon = live.request("metrics")["values"]
    log = Counted().values()
    assert {*daemon, *log, "written_timestamp_seconds"} >= {*METRICS} - {"forecast_age_seconds"}
    for name, values in {**daemon, **log}.items():
        assert all((*labels,) == LABELS.get(name, ()) for labels, _ in values), name
    assert daemon["over_capacity"] == [[{}, 0]]
    other = live.run("serve", "--metrics-file", live.folder / "other", "--detach", check=2).stderr
    assert "change it there" in other
    live.run("serve", "--stop")
    assert samples(target.read_text())["up", frozenset()] == 0
    assert Path(live.folder / "config.toml").read_text().startswith(f'metrics_file = "{target}"\n')
