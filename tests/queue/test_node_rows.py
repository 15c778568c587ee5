"""The nodes of a cluster as `top` and `doctor` show them."""

import io
from types import SimpleNamespace

from rich.console import Console

from backfill.client.doctor import OK, WARN, nodes
from backfill.client.top import frame, nodes_lines
from backfill.daemon.config import platform_facts
from backfill.daemon.shown import node_rows
from backfill.queue.book import Book
from backfill.queue.events import Capacity, Entry
from backfill.queue.job import Attempt, Job
from backfill.queue.nodes import Nodes
from tests.queue.test_planner import CLUSTER, cluster


def book(tmp_path):
    """A book of the cluster in which two jobs run, and m2 is drained."""
    found = Book()
    found.apply([Entry(Capacity({}, [], [], **platform_facts(cluster(tmp_path, CLUSTER))))])
    for number, placement in ((1, [["m1", 2], ["m2", 1]]), (2, [["n3", 1]])):
        found.jobs[number] = Job(number, need={"cpus": 3, "matlab": 1}, tasks=3, attempt=Attempt(1, 0, nodes=placement))
        found.nodes.take(found.nodes.parts({"cpus": 3, "matlab": 1}, placement))
    found.nodes.set("m2", {"cpus": 0, "memory": 16, "abaqus": 2}, "new disk")
    return found


def test_nodes_are_added_up_by_kind_with_what_is_held_and_what_is_out(tmp_path):
    rows = {row["names"]: row for row in node_rows(book(tmp_path))}
    assert rows.keys() == {"n[1-6]", "m[1-4]", "g[1-2]"}
    m, n = rows["m[1-4]"], rows["n[1-6]"]
    assert (m["stated"]["cpus"], m["capacity"]["cpus"], m["held"], m["partitions"]) == (
        32,
        24,
        {"cpus": 9},
        ["all", "whole"],
    )
    assert (m["out"], m["out_names"], m["reasons"], m["count"]) == (1, "m2", ["new disk"], 4)
    assert (n["held"], n["out"], n["partitions"]) == ({"cpus": 3}, 0, ["all"])
    assert rows["g[1-2]"]["stated"]["gpus"] == 4


def test_top_has_a_line_for_each_kind_of_nodes(tmp_path):
    rows = node_rows(book(tmp_path))
    lines = {line.split()[0]: line for line in nodes_lines(rows)}
    assert "9/32 cpus" in lines["m[1-4]"]
    assert "all, whole  out of service, or in part: m2 (new disk)" in lines["m[1-4]"]
    assert "0/4 gpus" in lines["g[1-2]"]
    found = {"now_s": 0, "jobs": [], "capacity": {"cpus": 72}, "held": {"cpus": 12}, "states": {}, "more": 0,
             "policy": "easy", "planner": "ready", "nodes": rows}  # fmt: skip
    console = Console(file=io.StringIO(), width=120)
    console.print(frame(found, 30, 120))
    assert [line for line in console.file.getvalue().splitlines() if line.startswith("m[1-4]")]


def test_top_tells_apart_what_runs_on_nodes_that_were_removed():
    nodes = Nodes({"a": {"cpus": 16, "memory": 1 << 34}})
    nodes.take([("a", "cpus", 10), ("b", "cpus", 24), ("c", "cpus", 6), ("c", "memory", 1 << 30)])
    nodes.take([("c", "cpus", 6)], -1)
    assert nodes.held_elsewhere == {"cpus": 24, "memory": 1 << 30}
    found = {"now_s": 0, "jobs": [], "capacity": nodes.capacity, "held": nodes.held_in_all, "states": {}, "more": 0,
             "held_elsewhere": nodes.held_elsewhere, "policy": "easy", "planner": "ready"}  # fmt: skip
    console = Console(file=io.StringIO(), width=120)
    console.print(frame(found, 30, 120))
    lines = console.file.getvalue().splitlines()
    assert lines[0].endswith(" 10/16, and 24 on removed nodes")
    assert lines[1].endswith(" 0/16G, and 1G on removed nodes")


def test_the_doctor_warns_of_nodes_that_have_less_than_is_stated(tmp_path):
    machine = SimpleNamespace(daemon={"queue": {"nodes": node_rows(book(tmp_path))}})
    found = {finding.told.split()[0].rstrip(":"): finding for finding in nodes(machine)}
    assert found["n[1-6]"].verdict == found["g[1-2]"].verdict == OK
    assert found["m[1-4]"].verdict == WARN
    assert "1 of 4 have less than the platform states: m2 (new disk)" in found["m[1-4]"].told
    assert [*nodes(SimpleNamespace(daemon={"queue": {}}))] == [*nodes(SimpleNamespace(daemon=None))] == []
