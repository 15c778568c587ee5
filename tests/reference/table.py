"""Scenarios as tables: the jobs on the left of the bar, what is expected of them on the right.

    # job  submit nodes walltime runtime | start
      a      0     3     100      100    |   0
      b      1     4      50       50    | 100    head: needs all nodes, shadow time 100

Times are seconds. `nodes` are tasks of one processor each; with a column `cpus` instead, a job is one task of that
many, on one node. More columns on the left: `estimate`, `priority`, `admin_priority`, `spread`, `site`,
`constraint`, `licences`
(numbers), `deadline`, `project`, `after` (names of jobs); on the right: `end`, `promise`, `reason`, `eligible`, `place`
(node*tasks, nodes are numbers). Lists have `;` between, `-` stands for nothing. What follows the expected values is a
comment.
"""

from collections.abc import Callable
from dataclasses import dataclass

from backfill.model.units import NEVER, SECOND, seconds_text
from tests import compiled

from . import world
from .words import Job, Platform

Expected = dict[str, str]  # column -> text
Runner = Callable[[list[Job], Platform, str, str, str], list[world.Row]]


@dataclass(frozen=True)
class Scenario:
    jobs: list[Job]
    expected: dict[str, Expected]  # by the job's name


def run_twin(jobs: list[Job], platform: Platform, policy: str, ties: str, overrun: str) -> list[world.Row]:
    return world.run(jobs, platform, world.POLICIES[policy], ties, overrun)


# `check` runs each table through all of these; another implementation is added here under its name.
RUNNERS: dict[str, Runner] = {"twin": run_twin, "compiled": compiled.run}


def check(
    policy: str,
    table: str,
    nodes: int = 4,
    platform: Platform | None = None,
    ties: str = "batch",
    overrun: str = "kill",
) -> None:
    """Every runner gives every job what the table expects. `policy` is a name of world.POLICIES."""
    scenario = read(table)
    for runner, run in RUNNERS.items():
        rows = run(scenario.jobs, platform or Platform.pool(nodes), policy, ties, overrun)
        found = {row.name: {column: shown(row, column) for column in scenario.expected[row.name]} for row in rows}
        assert found == scenario.expected, f"{policy} by {runner}"


def read(table: str) -> Scenario:
    """The jobs of a table in the order of its lines, and what it expects of each."""
    header, *lines = [line for line in table.splitlines() if line.strip()]
    given, wanted = (part.split() for part in header.replace("#", " ").split(" | "))
    split = [[part.split() for part in line.split(" | ")] for line in lines]
    left = [dict(zip(given, words, strict=True)) for words, _ in split]
    rows = {cells["job"]: row for row, cells in enumerate(left)}
    return Scenario(
        jobs=[job_of(rows, cells) for cells in left],
        expected={
            cells["job"]: dict(zip(wanted, words[: len(wanted)], strict=True))
            for cells, (_, words) in zip(left, split, strict=True)
        },
    )


def job_of(rows: dict[str, int], cells: dict[str, str]) -> Job:
    site, deadline = cells.get("site", "-"), cells.get("deadline", "-")
    return Job(
        row=rows[cells["job"]],
        name=cells["job"],
        submit=int(cells["submit"]) * SECOND,
        tasks=int(cells.get("nodes", 1)),
        demand=(int(cells.get("cpus", 1)),),
        walltime=int(cells["walltime"]) * SECOND,
        runtime=int(cells["runtime"]) * SECOND,
        estimate=int(cells.get("estimate", cells["walltime"])) * SECOND,
        priority=float(cells.get("priority", 0)),
        admin_priority=float(cells.get("admin_priority", 0)),
        spread=cells.get("spread", "any"),
        site=None if site == "-" else int(site),
        constraint=cells.get("constraint", "-").replace("-", ""),
        licences=tuple(int(item) for item in items(cells.get("licences", "-"))),
        deadline=NEVER if deadline == "-" else int(deadline) * SECOND,
        project=cells.get("project", "-").replace("-", ""),
        after=tuple(rows[name] for name in items(cells.get("after", "-"))),
    )


def items(text: str) -> list[str]:
    return [] if text == "-" else text.split(";")


def shown(row: world.Row, column: str) -> str:
    """A value as tables write it."""
    if column == "place":
        return ";".join(f"{node}*{tasks}" for node, tasks in row.nodes) or "-"
    value = getattr(row, column)
    if value is None:
        return "-"
    return value if column == "reason" else seconds_text(value)
