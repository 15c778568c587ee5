"""The section of a page on jobs and users that lose: tables by user, group, size and run time, and long waits."""

from collections.abc import Sequence
from dataclasses import dataclass

from backfill.analysis.bounds import BoundGap, by_metric
from backfill.analysis.groups import RUNS, SIZES, Fairness, Groups, LongWait
from backfill.analysis.metric_table import described
from backfill.model.units import NONE, brief, times
from backfill.report.values import BOUND_0, UNTIL, grouped, number, share_text, texts

ROWS_MOST = 15  # users or groups that a table shows at first
ROWS_ALL = 3000  # maximum on request
WAITS_MOST = 5  # long waits per policy
_WORSE = 1.05  # a mean wait this many times that under the first policy is highlighted
_DEPTHS = (0, 600, 3600, 21_600, 86_400)  # seconds; each class of waits is one shade darker than the previous one


@dataclass(frozen=True, slots=True)
class WaitCell:
    """A mean wait in a table."""

    text: str
    worse: bool = False  # clearly longer than under the first policy
    depth: int = 0  # 0 to 5: class of its length


@dataclass(frozen=True, slots=True)
class Who:
    """Mean wait by user or group: one row each, a cell per policy."""

    by: str
    rows: list[tuple[str, str, str, list[WaitCell]]]  # name, jobs, cpu hours, waits; ROWS_MOST are shown at first
    left_out: int


@dataclass(frozen=True, slots=True)
class Crossing:
    """Mean wait by size and run time under one policy."""

    policy: str
    columns: list[str]
    rows: list[tuple[str, list[WaitCell | None]]]


def by_name(groups: Sequence[Groups], unit: str) -> list[Who]:
    """Return the tables by user, group, size and run time, by number of jobs, descending. unit: of the waits."""
    tables = []
    for each in groups:
        if each.by == "size x run time":
            continue
        few = slice(None, ROWS_ALL)
        rows = [
            (name, f"{jobs:,}", f"{hours:,.0f}", _cells([waits[i] for waits in each.mean_wait_s], unit))
            for i, (name, jobs, hours) in enumerate(
                zip(each.names[few], each.jobs[few], each.cpu_hours[few], strict=True)
            )
        ]
        tables.append(Who(each.by, rows, max(0, len(each.names) - ROWS_ALL)))
    return tables


def crossings(groups: Sequence[Groups], policies: Sequence[str], unit: str) -> tuple[Crossing | None, list[Crossing]]:
    """Return the number of jobs by size and run time, and their mean wait under each policy, in this unit."""
    each = next((g for g in groups if g.by == "size x run time"), None)
    if each is None:
        return None, []
    place = {name: i for i, name in enumerate(each.names)}
    runs = [run for run in RUNS if any(f"{size}, {run}" in place for size in SIZES)]
    sizes = [size for size in SIZES if any(f"{size}, {run}" in place for run in RUNS)]
    cells = [_cells([waits[i] for waits in each.mean_wait_s], unit) for i in range(len(each.names))]

    def crossing(policy: str, texts_: Sequence[WaitCell]) -> Crossing:
        rows = [(size, [texts_[place[key]] if (key := f"{size}, {run}") in place else None for run in runs])
                for size in sizes]  # fmt: skip
        return Crossing(policy, runs, rows)

    counts = crossing("", [WaitCell(f"{jobs:,}") for jobs in each.jobs])
    return counts, [crossing(policy, [row[k] for row in cells]) for k, policy in enumerate(policies)]


def fairness_rows(fairness: Sequence[Fairness], unit: str) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return the rows (a, b, cells) per pair; a cell is a name from the input, if any, and a text. unit: of times."""
    means, longest, users, classes = (
        times([getattr(each, name) for each in fairness], unit)
        for name in ("mean_delay_s", "max_delay_s", "worst_user_s", "worst_class_s")
    )
    return [
        (
            each.a,
            each.b,
            [
                ("", NONE if each.later_share is None else share_text(each.later_share)),
                ("", means[i]),
                ("", longest[i]),
                ("", f"{each.users_longer:,} of {each.users:,}" if each.users else NONE),
                _worst(each.worst_user, users[i]),
                _worst(each.worst_class, classes[i]),
            ],
        )
        for i, each in enumerate(fairness)
    ]


FAIRNESS_HEADS = (
    "jobs that start later", "mean delay", "longest delay", "users who wait longer", "user hit most", "class hit most",
)  # fmt: skip


def long_waits(waits: Sequence[LongWait], unit: str) -> list[tuple[LongWait, str, str, str]]:
    """Return the longest waits of each policy: the wait in this unit, the run time, and what ended the wait."""
    seen: dict[str, int] = {}
    shown = []
    for wait in waits:
        seen[wait.policy] = seen.get(wait.policy, 0) + 1
        if seen[wait.policy] <= WAITS_MOST:
            shown.append(wait)
    waited, ran = times([each.wait_s for each in shown], unit), times([each.run_s for each in shown])
    return [(each, waited[i], ran[i], UNTIL.get(each.reason, each.reason)) for i, each in enumerate(shown)]


def gap_rows(gaps: Sequence[BoundGap], unit: str) -> list[tuple[str, str, str, list[tuple[str, str]]]]:
    """Return for each bound the metric, value, method, and (value, ratio to the bound or "") of each policy.

    unit: of waits.
    """
    rows = []
    for metric, each in by_metric(gaps).items():
        least, *values = texts(metric, [each[0].bound, *(gap.value for gap in each)], unit)
        ratios = ["" if gap.ratio is None else f"{number(gap.ratio)} ×" for gap in each]
        how = BOUND_0 if each[0].bound == 0 else grouped(each[0].how)
        rows.append((described(metric).heading, least, how, list(zip(values, ratios, strict=True))))
    return rows


def _cells(waits: Sequence[float], unit: str) -> list[WaitCell]:
    worse = [k > 0 and wait > _WORSE * waits[0] and wait - waits[0] > 1 for k, wait in enumerate(waits)]
    depths = [sum(wait > edge for edge in _DEPTHS) for wait in waits]
    return [WaitCell(*each) for each in zip([brief(wait, unit) for wait in waits], worse, depths, strict=True)]


def _worst(name: str | None, text: str) -> tuple[str, str]:
    return ("", NONE) if name is None else (name, f"+{text}")
