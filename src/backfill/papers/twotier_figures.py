"""The figures of the two-tier paper, and the tables of other readings of its moves."""

from collections.abc import Mapping, Sequence

from backfill.analysis.interval import Estimate
from backfill.papers.sweep import Sweep
from backfill.papers.twotier_claims import (
    BUSIEST,
    CALMEST,
    FACTORS,
    INTERARRIVALS,
    LIMITS,
    PB_FACTORS,
    TSB,
    change,
    feedback,
    with_priority,
    with_slack,
)
from backfill.papers.twotier_runs import HIGH, JOB, LOW, PROJECT, RUN, USED, WAIT
from backfill.report.plots import Figure

X = "mean inter-arrival time, s"
AT = [str(ia) for ia in INTERARRIVALS]
LABELS = {TSB: "2TSB", feedback(): "2TFB", with_slack(): "2TFB-SF, SF 0.5", with_priority(): "2TPB, SF 0.5"}
CHANGE = "change against 2TSB, %"
PAPER = "paper"
PRINTED = {JOB: -0.155, PROJECT: 0.0, WAIT: -0.33, RUN: 0.07}  # changes at 160 under 2TFB-SF, SF 0.5
PRINTED_PRIORITY = {HIGH: -0.27, LOW: 0.26, PROJECT: 0.16}  # under 2TPB, SF 1


def of_moves(sweep: Sweep) -> list[Figure]:
    """Figures 8 and 9, and what 2TFB-SF changes in them."""
    policies = (TSB, feedback(), with_slack())
    drawn = (("8a", JOB, "s"), ("8b", PROJECT, "s"), ("9a", WAIT, "s"), ("9b", RUN, "s"))
    metrics = [
        Figure(f"figure-{number}", f"Figure {number}: {metric}", X, f"mean {metric}, {unit}", AT,
               {LABELS[p]: [sweep.mean(ia, p, metric) for ia in INTERARRIVALS] for p in policies})
        for number, metric, unit in drawn
    ]  # fmt: skip
    lines = {metric: [change(sweep, ia, with_slack(), metric) for ia in INTERARRIVALS] for _, metric, _ in drawn}
    title = "Changes by 2TFB-SF (SF 0.5) in Figures 8 and 9"
    return [*metrics, Figure("figure-8-9-changes", title, X, CHANGE, AT, lines, True, of="metric", apart=True)]


def of_slack(sweep: Sweep) -> list[Figure]:
    """Figure 10."""
    return [
        Figure(f"figure-10{letter}", f"Figure 10{letter}: {metric} of 2TFB-SF", "slack factor SF", CHANGE,
               [f"{sf:g}" for sf in FACTORS],
               {f"inter-arrival {ia} s": [change(sweep, ia, with_slack(sf), metric) for sf in FACTORS]
                for ia in (BUSIEST, CALMEST)}, percent=True, of="inter-arrival time")
        for letter, metric in (("a", JOB), ("b", PROJECT))
    ]  # fmt: skip


def of_priority(sweep: Sweep) -> list[Figure]:
    """Figures 11 and 12."""
    swept = (
        (11, "PL infinite", {f"SF {sf:g}": with_priority(sf) for sf in PB_FACTORS}, "slack factor"),
        (12, "SF 0.5", {f"PL {'infinite' if pl == LIMITS[-1] else f'{pl:g}'}": with_priority(pl=pl) for pl in LIMITS},
         "preemption limit"),
    )  # fmt: skip
    return [
        Figure(f"figure-{number}{letter}", f"Figure {number}{letter}: 2TPB, {fixed}, {which} projects", X,
               f"turn-around, {CHANGE}", AT,
               {label: [change(sweep, ia, policy, metric) for ia in INTERARRIVALS] for label, policy in chosen.items()},
               percent=True, of=of, apart=True)
        for number, fixed, chosen, of in swept
        for letter, which, metric in (("a", "high-priority", HIGH), ("b", "low-priority", LOW), ("c", "all", PROJECT))
    ]  # fmt: skip


def of_use(sweep: Sweep) -> Figure:
    """The utilization of the resource types, which the paper has in words."""
    lines = {label: [sweep.mean(ia, policy, USED) for ia in INTERARRIVALS] for policy, label in LABELS.items()}
    title = "Utilization, mean of the five resource types"
    return Figure("utilization", title, X, "utilization, %", AT, lines, percent=True)


def of_readings(sweep: Sweep, readings: Mapping[str, str]) -> list[Figure]:
    """The tables of other readings of who makes way, and where to: label -> parameters."""
    return [
        _readings(sweep, readings, "readings-2tfb-sf", "Readings of making way: 2TFB-SF, SF 0.5, inter-arrival 160 s",
                  [with_slack(reading=each) for each in readings.values()], PRINTED),
        _readings(sweep, readings, "readings-2tpb", "Readings of making way: 2TPB, SF 1, inter-arrival 160 s",
                  [with_priority(1, reading=each) for each in readings.values()], PRINTED_PRIORITY),
    ]  # fmt: skip


def _readings(
    sweep: Sweep,
    readings: Mapping[str, str],
    name: str,
    title: str,
    policies: Sequence[str],
    printed: Mapping[str, float],
) -> Figure:
    lines: dict[str, Sequence[Estimate]] = {
        label: [change(sweep, CALMEST, policy, metric) for metric in printed]
        for label, policy in zip(readings, policies, strict=True)
    }
    lines[PAPER] = [Estimate.of([value]) for value in printed.values()]
    short = {HIGH: "high priority", LOW: "low priority", PROJECT: "all projects" if HIGH in printed else PROJECT}
    at = [short.get(metric, metric) for metric in printed]
    return Figure(name, title, "turn-around" if HIGH in printed else "metric", CHANGE, at, lines, percent=True,
                  table=True, of="reading", points=True)  # fmt: skip
