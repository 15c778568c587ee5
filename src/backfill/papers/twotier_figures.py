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
    PRINTED_HIGH,
    PRINTED_HIGH_LIMITED,
    PRINTED_JOBS,
    PRINTED_LOW,
    PRINTED_LOW_LIMITED,
    PRINTED_RUNS,
    PRINTED_TURNAROUND,
    PRINTED_WAITS,
    RAISED,
    TSB,
    Ends,
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
OF_SLACK = {JOB: PRINTED_JOBS.printed, PROJECT: (0.0, 0.0), WAIT: PRINTED_WAITS.printed, RUN: PRINTED_RUNS.printed}
OF_PRIORITY = {HIGH: PRINTED_HIGH.printed, LOW: PRINTED_LOW.printed, PROJECT: (0.0, RAISED)}
ENDS = {"11a": PRINTED_HIGH, "11b": PRINTED_LOW, "12a": PRINTED_HIGH_LIMITED, "12b": PRINTED_LOW_LIMITED}


def _ends(printed: tuple[float | None, float | None]) -> list[Estimate | None]:
    """Return the printed values for the first and the last x, and None between."""
    first, last = (None if value is None else Estimate.of([value]) for value in printed)
    return [first, *[None] * (len(AT) - 2), last]


def of_moves(sweep: Sweep) -> list[Figure]:
    """Draw Figures 8 and 9, and the changes by 2TFB-SF in them."""
    policies = (TSB, feedback(), with_slack())
    drawn = (("8a", JOB, "s"), ("8b", PROJECT, "s"), ("9a", WAIT, "s"), ("9b", RUN, "s"))
    metrics = [
        Figure(f"figure-{number}", f"Figure {number}: {metric}", X, f"mean {metric}, {unit}", AT,
               {LABELS[p]: [sweep.mean(ia, p, metric) for ia in INTERARRIVALS] for p in policies}
               | ({f"{LABELS[p]}, {PAPER}": _ends(ends) for p, ends in PRINTED_TURNAROUND.items()}
                  if metric == JOB else {}))
        for number, metric, unit in drawn
    ]  # fmt: skip
    lines: dict[str, Sequence[Estimate | None]] = {
        metric: [change(sweep, ia, with_slack(), metric) for ia in INTERARRIVALS] for _, metric, _ in drawn
    }
    lines |= {f"{metric}, {PAPER}": _ends(OF_SLACK[metric]) for _, metric, _ in drawn if metric != PROJECT}
    title = "Changes by 2TFB-SF (SF 0.5) in Figures 8 and 9"
    return [*metrics, Figure("figure-8-9-changes", title, X, CHANGE, AT, lines, True, of="metric", apart=True)]


def of_slack(sweep: Sweep) -> list[Figure]:
    """Draw Figure 10."""
    return [
        Figure(f"figure-10{letter}", f"Figure 10{letter}: {metric} of 2TFB-SF", "slack factor SF", CHANGE,
               [f"{sf:g}" for sf in FACTORS],
               {f"inter-arrival {ia} s": [change(sweep, ia, with_slack(sf), metric) for sf in FACTORS]
                for ia in (BUSIEST, CALMEST)}, percent=True, of="inter-arrival time")
        for letter, metric in (("a", JOB), ("b", PROJECT))
    ]  # fmt: skip


def of_priority(sweep: Sweep) -> list[Figure]:
    """Draw Figures 11 and 12."""
    swept = (
        (11, "PL infinite", {f"SF {sf:g}": with_priority(sf) for sf in PB_FACTORS}, "slack factor"),
        (12, "SF 0.5", {f"PL {'infinite' if pl == LIMITS[-1] else f'{pl:g}'}": with_priority(pl=pl) for pl in LIMITS},
         "preemption limit"),
    )  # fmt: skip
    return [
        Figure(f"figure-{number}{letter}", f"Figure {number}{letter}: 2TPB, {fixed}, {which} projects", X,
               f"turn-around, {CHANGE}", AT,
               {**{label: [change(sweep, ia, policy, metric) for ia in INTERARRIVALS]
                   for label, policy in chosen.items()}, **_printed(f"{number}{letter}")},
               percent=True, of=of, apart=True)
        for number, fixed, chosen, of in swept
        for letter, which, metric in (("a", "high-priority", HIGH), ("b", "low-priority", LOW), ("c", "all", PROJECT))
    ]  # fmt: skip


def _printed(panel: str) -> dict[str, list[Estimate | None]]:
    """Return the line of the printed values in a panel of Figures 11 and 12; the parameter differs between its ends."""
    if panel == "11c":
        return {f"{PAPER}, SF 1": _ends((None, RAISED))}
    ends: Ends | None = ENDS.get(panel)
    return (
        {}
        if ends is None
        else {f"{PAPER},{' to'.join(e.removeprefix(' with') for e in ends.with_)}": _ends(ends.printed)}
    )


def of_use(sweep: Sweep) -> Figure:
    """Return the figure of the utilization of the resource types, which the paper states in words."""
    lines = {label: [sweep.mean(ia, policy, USED) for ia in INTERARRIVALS] for policy, label in LABELS.items()}
    title = "Utilization, mean of the five resource types"
    return Figure("utilization", title, X, "utilization, %", AT, lines, percent=True)


def of_readings(sweep: Sweep, readings: Mapping[str, str], of_priority: Mapping[str, str]) -> list[Figure]:
    """Return the tables of alternative readings of moves, at 160: label -> parameters."""
    return [
        with_slack_read(sweep, readings, CALMEST),
        _readings(sweep, CALMEST, "readings-2tpb", "2TPB, SF 1",
                  {label: with_priority(1, reading=each) for label, each in of_priority.items()}, OF_PRIORITY),
    ]  # fmt: skip


def with_slack_read(sweep: Sweep, readings: Mapping[str, str], ia: int) -> Figure:
    """Return the table of the readings of 2TFB-SF at one end."""
    name = "readings-2tfb-sf" if ia == CALMEST else f"readings-2tfb-sf-at-{ia}"
    policies = {label: with_slack(reading=each) for label, each in readings.items()}
    return _readings(sweep, ia, name, "2TFB-SF, SF 0.5", policies, OF_SLACK)


def _readings(
    sweep: Sweep,
    ia: int,
    name: str,
    what: str,
    policies: Mapping[str, str],
    printed: Mapping[str, tuple[float, float]],
) -> Figure:
    title = f"Readings of making way: {what}, inter-arrival {ia} s"
    lines: dict[str, Sequence[Estimate]] = {
        label: [change(sweep, ia, policy, metric) for metric in printed] for label, policy in policies.items()
    }
    lines[PAPER] = [Estimate.of([ends[ia == CALMEST]]) for ends in printed.values()]
    short = {HIGH: "high priority", LOW: "low priority", PROJECT: "all projects" if HIGH in printed else PROJECT}
    at = [short.get(metric, metric) for metric in printed]
    return Figure(name, title, "turn-around" if HIGH in printed else "metric", CHANGE, at, lines, percent=True,
                  table=True, of="reading", points=True)  # fmt: skip
