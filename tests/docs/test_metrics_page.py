"""docs/reference/metrics.md has a section for every metric, says which differences there are, and no others."""

import re

from backfill.analysis.blocks import RESAMPLES
from backfill.analysis.groups import RUNS, SIZES
from backfill.analysis.metric_table import HIGHER, LOWER, NEITHER, OF_EACH_RESOURCE, TABLE
from backfill.analysis.metrics import metrics
from backfill.analysis.paired import FEWEST_JOBS, PAIRED
from backfill.model.platform import Platform
from tests.analysis.by_hand import scheduled, workload

from .examples import ROOT

PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")


def test_every_metric_and_no_other_has_a_section():
    log = workload([0], [1])
    known = {*metrics(log, Platform.pool(4), scheduled(log, Platform.pool(4), [0]))} - {"jobs"}
    titles = [
        title for line in re.findall(r"^## (\w+_\w+.*|utilization)$", PAGE, re.MULTILINE) for title in line.split(", ")
    ]
    assert sorted(titles) == sorted(known)


def test_the_table_of_all_metrics_is_that_of_the_code():
    better = {LOWER: "lower", HIGHER: "higher", NEITHER: ""}
    resource = {each.name: "NAME" for each in OF_EACH_RESOURCE}
    rows = [
        f"| `{each.name}{resource.get(each.name, '')}` | "
        + " | ".join([each.unit, better[each.better], each.heading, each.explanation, ""]).rstrip()
        for each in (*TABLE, *OF_EACH_RESOURCE)
    ]
    assert "\n".join(["| --- | --- | --- | --- | --- |", *rows, ""]) in PAGE


def test_every_difference_is_named():
    section = PAGE[PAGE.index("## Differences") :]
    assert set(re.findall(r"`(\w+)`", section[: section.index(": `difference`")])) - {"pairs"} == set(PAIRED)


def test_numbers_of_the_page_are_those_of_the_code():
    assert f"drawn {RESAMPLES:,} times" in PAGE
    assert f"fewer than {FEWEST_JOBS:,} jobs" in PAGE
    assert f"({', '.join(name.split()[0] for name in list(SIZES)[:-1])}, more cpus)" in PAGE
    assert (len(SIZES), len(RUNS)) == (5, 6)
