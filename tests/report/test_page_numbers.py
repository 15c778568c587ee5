"""The page and the JSON tell the same numbers."""

import json
from html.parser import HTMLParser

import pytest

import backfill as bf
from backfill.analysis.metric_table import described
from backfill.model.units import brief
from backfill.report.values import texts, wait_unit


def in_seconds(text: str) -> float:
    amount, unit = text.replace(",", "").split()
    return float(amount) * {"d": 86_400, "h": 3600, "min": 60, "s": 1}[unit]


class Tables(HTMLParser):
    """The tables of a page: lists of rows, which are lists of texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.inside = False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")
        self.inside = tag in ("th", "td") or (self.inside and tag not in ("caption", "div", "section"))

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("th", "td")

    def handle_data(self, data):
        if self.inside:
            self.tables[-1][-1][-1] += data

    def named(self, first: str) -> list[list[list[str]]]:
        """Those whose first heading is this."""
        return [table for table in self.tables if table[0][0] == first]


def test_the_numbers_of_the_page_are_those_of_the_json(tmp_path):
    """The texts of the page are the JSON's numbers, each as `values.texts` writes it."""
    found = bf.compare(bf.generate("lublin?jobs=300&cpus=32&load=0.9"), None, ["fcfs", "easy", "conservative"])
    found.report(tmp_path / "out.html")
    told = json.loads(json.dumps(found.to_dict()))
    tables = Tables((tmp_path / "out.html").read_text())

    metrics = [result["metrics"] for result in told["results"]]
    unit = wait_unit(metrics)
    names = dict.fromkeys(name for each in metrics for name in each)  # promises are of those policies that make them
    (everything,) = (table for table in tables.named("metric") if len(table) == len(names) + 1)
    told_ones = {row[0]: row[1:-1] for row in everything[1:]}
    assert told_ones == {
        described(name).heading: texts(name, [each.get(name) for each in metrics], unit) for name in names
    }

    pairs = [table for table in tables.named("metric") if table[0][-1] == "as a factor"]
    assert sum(len(table) - 2 for table in pairs) == len(told["pairs"])  # without heading and axis
    rows = [row for table in pairs for row in table[1:-1]]
    values = {each["policy"]: each["metrics"] for each in told["results"]}
    for pair, row in zip(told["pairs"], rows, strict=True):
        name, numbers = pair["metric"], [pair["difference"], pair["low"], pair["high"]]
        shown = texts(name, [values[pair["b"]][name], values[pair["a"]][name], *numbers], unit)
        assert row[:3] == [described(name).heading, *shown[:2]]
        assert row[3].lstrip("+\N{MINUS SIGN}") == shown[2].lstrip("-")

    classes = tables.named("size")[-1]
    sizes = next(group for group in told["groups"] if group["by"] == "size")
    assert [row[:2] for row in classes[1:]] == [
        [n, f"{j:,}"] for n, j in zip(sizes["names"], sizes["jobs"], strict=True)
    ]
    for k, row in enumerate(classes[1:]):
        assert [cell.lstrip("▲ ") for cell in row[3:]] == [brief(waits[k], unit) for waits in sizes["mean_wait_s"]]

    waits = next(table for table in tables.named("policy") if table[0][1:] == ["50%", "90%", "95%", "99%", "100%"])
    for column, name in ((3, "p95_wait_s"), (5, "max_wait_s")):
        for row, each in zip(waits[1:], metrics, strict=True):
            assert in_seconds(row[column]) == pytest.approx(each[name], rel=0.005, abs=360)
