"""A comparison in the terminal, 80 columns wide."""

import textwrap
from collections.abc import Sequence

from rich.table import Table

from backfill.analysis.bounds import BoundGap, by_metric
from backfill.analysis.distance import Distance
from backfill.analysis.groups import Fairness, LongWait
from backfill.analysis.metric_table import described
from backfill.analysis.metrics import Metrics
from backfill.model.names import printable
from backfill.model.units import counted, span
from backfill.report.sentences import loser_sentence, wait_sentence, with_baseline
from backfill.report.terminal import WIDTH, policy_table
from backfill.report.values import BOUND_0, columns, cut, grouped, texts, wait_unit, without_cpus

NEAR = 10  # times a bound; if a policy is above it, the ratios are listed below the table, not in a column
MORE = ("out_deadline", "mean_project_turnaround_s", "kept_departures")  # if there are deadlines, or projects
COLUMNS = ("mean_wait_s", "p95_wait_s", "mean_bounded_slowdown", "utilization")


def compared_table(names: Sequence[str], metrics: Sequence[Metrics], gaps: Sequence[BoundGap]) -> Table:
    """Return a row for each policy: headline metrics, and ratios to lower bounds, unless a policy is far above."""
    more = [name for name in MORE if any(each.get(name) is not None for each in metrics)]
    shown = [name for name in (*COLUMNS, *more) if name != "utilization" or not without_cpus(metrics)]
    cells = columns(shown, metrics, wait_unit(metrics))
    for metric, head in (("mean_wait_s", "wait/ bound"), ("makespan_s", "makespan/ bound")):
        ratios = [gap.ratio for gap in gaps if gap.metric == metric]
        if ratios and all(ratio is not None and ratio <= NEAR for ratio in ratios):
            cells.append((head, [f"{ratio:.3f}" for ratio in ratios]))
    return policy_table(names, cells)


def compared_text(
    sentences: Sequence[str],
    fairness: Sequence[Fairness],
    waits: Sequence[LongWait],
    gaps: Sequence[BoundGap],
    unit: str,
    reality: str = "",
    losers: bool = True,
    distances: Sequence[Distance] = (),
) -> list[str]:
    """Return the text below the table: explanations, the comparison with reality, pairs, losers, longest waits, bounds.

    unit: of waits, as in the table. losers: whether to name them here instead of by `losers_text`.
    """
    if fairness and not any(each.jobs for each in fairness):
        return ["no job ran, so there is nothing to compare"]
    shown = with_baseline(fairness)
    longest = {wait.policy: wait for wait in reversed(waits)}
    slowdown = described("mean_bounded_slowdown")
    lines = [
        *_wrapped([f"{slowdown.heading}: {slowdown.explanation}"], ""),
        "",
        *_part("against reality", [reality] if reality else []),
        *_part("pairs, 95% intervals", [sentences[i] for i in shown]),
        *(losers_text(fairness, unit) if losers else ()),
        *_part("longest waits", [wait_sentence(longest[policy], unit) for policy in reversed(longest)]),
        *_part("lower bounds, for any policy", _bounds(gaps, unit)),
        *_part("above the best possible", [each.sentence for each in distances]),
    ]
    more = len(fairness) - len(shown)
    return [*lines, f"{counted(more, 'more pair')}: --json or --report"] if more else lines


def losers_text(fairness: Sequence[Fairness], unit: str) -> list[str]:
    """Return sentences on who waits longer under each policy than under the first. unit: of waits."""
    return _part("who loses", [loser_sentence(fairness[i], unit) for i in with_baseline(fairness)])


def _part(title: str, lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    return [f"{title}:", *_wrapped(lines, "  ")]


def _wrapped(lines: Sequence[str], indent: str) -> list[str]:
    texts = map(printable, lines)
    return [textwrap.fill(line, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ") for line in texts]


def _bounds(gaps: Sequence[BoundGap], unit: str) -> list[str]:
    """Return a line for each bound, with the policies that are far above it."""
    return [_bound(each, unit) for each in by_metric(gaps).values() if each[0].bound is not None]


def _bound(gaps: Sequence[BoundGap], unit: str) -> str:
    name, bound = described(gaps[0].metric).heading, gaps[0].bound
    if not bound:
        return f"{name}: {BOUND_0}"
    least = span(bound, unit) if "wait" in gaps[0].metric else texts(gaps[0].metric, [bound])[0]
    said = f"{name} {least} ({grouped(gaps[0].how)})"
    ratios = [(cut(gap.policy), gap.ratio) for gap in gaps if gap.ratio is not None]
    if all(ratio <= NEAR for _, ratio in ratios):
        return said
    return f"{said}; times the bound: {', '.join(f'{policy} {_ratio(ratio)}' for policy, ratio in ratios)}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.3f}" if ratio <= NEAR else f"{ratio:,.0f}"
