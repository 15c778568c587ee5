"""A comparison in the terminal, 80 columns wide."""

import textwrap
from collections.abc import Sequence

from rich.table import Table

from backfill.analysis.bounds import Gap
from backfill.analysis.groups import Fairness, LongWait
from backfill.analysis.metrics import Metrics
from backfill.report.sentences import loser_sentence, one_by_one, wait_sentence
from backfill.report.terminal import WIDTH, plain, policy_table
from backfill.report.values import NONE, heading, texts

COLUMNS = ("mean_wait_s", "p95_wait_s", "mean_bounded_slowdown", "utilization")


def compared_table(names: Sequence[str], metrics: Sequence[Metrics], gaps: Sequence[Gap]) -> Table:
    """A row for each policy: headline metrics, and how often the lower bound fits into its wait and its makespan."""
    columns = [(heading(name), texts(name, [each.get(name) for each in metrics])) for name in COLUMNS]
    for metric, head in (("mean_wait_s", "wait/ bound"), ("makespan_s", "makespan/ bound")):
        if some := [_ratio(gap) for gap in gaps if gap.metric == metric]:
            columns.append((head, some))
    return policy_table(names, columns)


def compared_text(
    sentences: Sequence[str],
    fairness: Sequence[Fairness],
    waits: Sequence[LongWait],
    gaps: Sequence[Gap],
    reality: str = "",
) -> list[str]:
    """What stands below the table: how near to reality, each pair, who loses, the longest waits, the bounds."""
    told = one_by_one(fairness)
    longest = {wait.policy: wait for wait in reversed(waits)}
    lines = [
        *_part("against reality", [reality] if reality else []),
        *_part("pairs, 95% intervals", [sentences[i] for i in told]),
        *_part("who loses", [loser_sentence(fairness[i]) for i in told if fairness[i].b == fairness[0].b]),
        *_part("longest waits", [wait_sentence(longest[policy]) for policy in reversed(longest)]),
        *_part("lower bounds, for any policy", list(dict.fromkeys(_bound(gap) for gap in gaps if gap.bound))),
    ]
    more = len(fairness) - len(told)
    return [*lines, f"{more} more pairs are in --json"] if more else lines


def _part(title: str, lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    wrapped = [textwrap.fill(plain(line), WIDTH, initial_indent="  ", subsequent_indent="    ") for line in lines]
    return [f"{title}:", *wrapped]


def _ratio(gap: Gap) -> str:
    if gap.ratio is None:
        return NONE
    return f"{gap.ratio:.3f}" if gap.ratio < 10 else f"{gap.ratio:,.0f}"


def _bound(gap: Gap) -> str:
    return f"{heading(gap.metric)} {texts(gap.metric, [gap.bound])[0]} ({gap.how})"
