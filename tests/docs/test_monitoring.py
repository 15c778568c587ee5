"""The dashboard and the alerts of docs/monitoring ask for metrics that exist, and the page lists all of them."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from backfill.answers.metrics import LABELS, METRICS, PREFIX, RULES
from tests.docs.examples import ROOT
from tests.patience import PATIENCE_S

FOLDER = ROOT / "docs" / "monitoring"
PAGE = ROOT / "docs" / "reference" / "monitoring.md"
DASHBOARD = json.loads((FOLDER / "grafana.json").read_text(encoding="utf-8"))
ALERTS = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
QUERIES = [each["expr"] for panel in DASHBOARD["panels"] for each in panel.get("targets", ())]
SERIES = re.compile(rf"{PREFIX}(\w+)(?:{{([^}}]*)}})?")
GROUPED = re.compile(r"\b(?:by|without|ignoring) \(([\w, ]*)\)")
PARTS = ("_bucket", "_sum", "_count")  # of a histogram


def asked(query):
    """Yield the metrics that a query asks for, with the labels that it names."""
    for name, labels in SERIES.findall(query):
        base = next((name.removesuffix(part) for part in PARTS if name.removesuffix(part) in METRICS), name)
        yield base, name, re.findall(r"(\w+)=?[=!~]", labels)


@pytest.mark.parametrize("query", [*QUERIES, *(each["expr"] for each in ALERTS)])
def test_a_query_asks_for_metrics_and_labels_that_exist(query):
    found = [*asked(query)]
    assert found
    labels = {"le", "instance"}
    for base, name, named in found:
        assert base in METRICS, name
        histogram = METRICS[base][0] == "histogram"
        assert (name != base) == histogram, f"{name} is no series of a {METRICS[base][0]}"
        known = {*LABELS.get(base, ()), "instance", *(["le"] if name.endswith("_bucket") else [])}
        assert {*named} <= known, name
        labels |= known
    assert {label for group in GROUPED.findall(query) for label in group.split(", ")} <= labels
    if "rate(" in query or "increase(" in query:
        assert any(METRICS[base][0] != "gauge" for base, _, _ in found)


def test_every_metric_is_drawn():
    assert {base for query in QUERIES for base, _, _ in asked(query)} == {*METRICS}


def test_panels_have_names_of_their_own_and_do_not_overlap():
    panels = DASHBOARD["panels"]
    assert len({panel["title"] for panel in panels}) == len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for place in [panel["gridPos"]]
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len({*cells}) == len(cells)
    assert max(x for x, _ in cells) < 24


def test_each_promise_of_a_queue_has_its_alert():
    """Never lost, never twice, never over capacity, kept or its cause named, and somebody who decides and explains."""
    critical = [each for each in ALERTS if each["labels"]["severity"] == "critical"]
    for what in (*(f'violations_total{{rule="{rule}"}}' for rule in RULES), 'slips_total{cause="bug"}', "planner_ready",
                 "backfill_up"):  # fmt: skip
        assert any(what in each["expr"] for each in critical), what
    assert len({each["alert"] for each in ALERTS}) == len(ALERTS)
    assert all({*each["annotations"]} == {"summary", "description"} for each in ALERTS)


def test_the_page_lists_the_metrics_as_they_are():
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| ([^|]*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [
        (name, kind, ", ".join(f"`{label}`" for label in LABELS.get(name, ())), about)
        for name, (kind, about) in METRICS.items()
    ]
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"`{each['alert']}`" in page for each in ALERTS)


def test_an_alert_on_what_only_rises_looks_at_a_span_so_that_it_clears():
    for alert in ALERTS:
        for name, (kind, _) in METRICS.items():
            if kind == "counter":
                uses = re.findall(rf"(\S*){PREFIX}{name}\b(?:{{[^}}]*}})?(\[\w+\])?", alert["expr"])
                assert all(before.endswith("increase(") and span for before, span in uses), alert["alert"]


def promtool(folder, *words):
    done = subprocess.run(["promtool", *words], cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr


ONCE = "0x30 1x2000"  # a counter that rises once, and stays
LOUD = {  # alert -> series that make it fire, each minute
    "BackfillJobLost": {'violations_total{rule="lost"}': ONCE},
    "BackfillJobRanTwice": {'violations_total{rule="twice"}': ONCE},
    "BackfillOverCapacity": {"over_capacity": "1x60"},
    "BackfillPromiseBrokenWithoutCause": {'reservation_slips_total{cause="bug"}': ONCE},
    "BackfillPromisesBroken": {'reservation_slips_total{cause="licence-lost"}': "0+1x60"},
    "BackfillDown": {"up": "0x60"},
    "BackfillMetricsStale": {"written_timestamp_seconds": "0x60"},
    "BackfillPlannerDown": {"planner_ready": "0x60"},
    "BackfillPlannerRestarts": {"planner_restarts_total": "0+1x60"},
    "BackfillPassesSlow": {f'pass_duration_seconds_bucket{{le="{le}"}}': f"0+{each}x60"
                           for le, each in (("5", 1), ("10", 9), ("+Inf", 9))},
    "BackfillClockLags": {"clock_lag_seconds": "120x60"},
    "BackfillLaunchFailures": {"launch_failures_total": "0+1x60"},
    "BackfillLicenceServerSilent": {'licence_stale{licence="a"}': "1x60"},
    "BackfillEstimatesTooEarly": {
        f'start_estimate_error_seconds_count{{quantile_shown="0.9",direction="{direction}"}}': "0+5x60"
        for direction in ("early", "late")
    },
    "BackfillWriteAheadLogGrows": {"wal_bytes": "300000000x60"},
}  # fmt: skip
QUIET = {
    **{name: "0x60" for name, (kind, _) in METRICS.items() if kind != "histogram" and name not in LABELS},
    "up": "1x60",
    "planner_ready": "1x60",
    "written_timestamp_seconds": "0+60x60",
    **{f'violations_total{{rule="{rule}"}}': "0x60" for rule in RULES},
    'reservation_slips_total{cause="bug"}': "0x60",
    'licence_stale{licence="a"}': "0x60",
}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_reads_all_queries_and_each_alert_fires_when_it_should(tmp_path):
    rules = [{"record": f"query:{i}", "expr": query.replace("$__rate_interval", "5m")} for i, query in
             enumerate(QUERIES)]  # fmt: skip
    (tmp_path / "queries.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    promtool(tmp_path, "check", "rules", "queries.yml", str(FOLDER / "alerts.yml"))

    def case(more, fires, at="55m"):
        series = [{"series": PREFIX + name, "values": values} for name, values in (QUIET | more).items()]
        expected = [[{"labels": "{}", "value": 1}] if each["alert"] in fires else [] for each in ALERTS]
        asked = [{"expr": f"count({each['expr']})", "eval_time": at, "exp_samples": some}
                 for each, some in zip(ALERTS, expected, strict=True)]  # fmt: skip
        return {"interval": "1m", "input_series": series, "promql_expr_test": asked}

    assert {*LOUD} == {each["alert"] for each in ALERTS}
    cases = [case({}, ()), *(case(more, (alert,)) for alert, more in LOUD.items())]
    once = [alert for alert, series in LOUD.items() if ONCE in series.values()]
    later = {"up": "1x2000", "planner_ready": "1x2000", "written_timestamp_seconds": "0+60x2000"}
    for alert in once:  # a day later
        cases.append(case(LOUD[alert] | later, (), "25h"))
    (tmp_path / "cases.yml").write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": cases}))
    promtool(tmp_path, "test", "rules", "cases.yml")
