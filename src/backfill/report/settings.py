"""The effect of other settings of a site's own Slurm: the section of a page, and the text for a terminal."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from backfill.analysis.series import Binned
from backfill.model.names import printable
from backfill.model.units import SECOND, brief, counted, time_text, times, unit_of
from backfill.report.chart import share_chart
from backfill.report.dates import Dates
from backfill.report.terminal import WIDTH, as_text
from backfill.worlds.slurm_idle import CAUSES

FEW = 5  # losers in the terminal
Data = Mapping[str, Any]  # as in `Settings.to_dict`


def settings_text(data: Data) -> list[str]:
    """Return the section for a terminal, 80 columns wide."""
    lines = ["settings:"]
    for effect in data["effects"]:
        lines += [*_wrapped(effect["sentence"]), *_wrapped(who(effect))]
        for by, rows in by_kind(effect):
            lines += ["", *as_text(_table([by, "jobs", *HEADS], rows)).split("\n")]
        if losers := loser_rows(effect):
            lines += ["", f"jobs that lose most, of {len(losers)} in --json and --report:"]
            lines += as_text(_table(LOSER_HEADS, losers[:FEW])).split("\n")
        lines += ["", *slurm_conf(effect), ""]
    heads, rows = idle_rows(data)
    lines += as_text(_table(["idle node-hours", *heads], rows)).split("\n")
    lines += [text for each in notes(data) for text in _wrapped(each)]
    heads, rows = share_rows(data)
    if rows:
        lines += ["", *as_text(_table(["account, share of usage", "owned", *heads], rows)).split("\n")]
    return lines


HEADS = ("before", "after", "change", "noise floor")
LOSER_HEADS = ("job", "user", "account", "QOS", "partition", "cpus", "limit", "before", "after", "noise")


def who(effect: Data) -> str:
    """Return how many jobs wait longer and shorter."""
    return (
        f"{effect['later']:,} of {counted(effect['jobs'], 'job')} wait longer and {effect['earlier']:,} shorter, by "
        f"more than their waits differ between phases of {effect['baseline']}"
    )


def by_kind(effect: Data) -> list[tuple[str, list[list[str]]]]:
    """Return the rows of each kind of groups: name, jobs, mean wait before and after, change, noise floor."""
    names = ("before_s", "after_s", "floor_s")
    unit = unit_of([each[name] for each in effect["groups"] for name in names[:2]])
    found: dict[str, list[list[str]]] = {}
    for each in effect["groups"]:
        before, after, floor = (brief(each[name], unit) for name in names)
        change = brief(each["after_s"] - each["before_s"], unit)
        change = change if change.startswith(("-", "0 ", "<")) else f"+{change}"
        row = [each["name"], f"{each['jobs']:,}", before, after, change.replace("-", "\N{MINUS SIGN}"), floor]
        found.setdefault(each["by"], []).append(row)
    return [(by, rows) for by, rows in found.items() if len(rows) > 1]


def loser_rows(effect: Data) -> list[list[str]]:
    """Return a row for each of the jobs that lose most."""
    rows = []
    for each in effect["losers"]:
        before, after, own = times([each[name] for name in ("before_s", "after_s", "own_s")])
        names = [each[name] or "-" for name in ("job", "user", "account", "qos", "partition")]
        rows.append([*names, f"{each['cpus']:,}", time_text(round(each["walltime_s"] * SECOND)), before, after, own])
    return rows


def slurm_conf(effect: Data) -> list[str]:
    """Return the lines of slurm.conf, with a heading."""
    if not effect["slurm_conf"]:
        return [f"{effect['policy']}: nothing in slurm.conf would change"]
    return [f"{effect['policy']} in slurm.conf:", *(f"  {line}" for line in effect["slurm_conf"])]


def idle_rows(data: Data) -> tuple[list[str], list[list[str]]]:
    """Return the policies, and a row for each cause of idle nodes."""
    idle = data["idle"]
    causes = [cause for cause in CAUSES if any(each["node_hours"].get(cause) for each in idle)]
    totals, form = [sum(each["node_hours"].values()) for each in idle], _form_of(idle)
    rows = [[CAUSES[cause], *(format(each["node_hours"].get(cause, 0.0), form) for each in idle)] for cause in causes]
    rows.append(["in all", *(format(total, form) for total in totals)])
    return [each["policy"] for each in idle], rows


def _form_of(idle: Sequence[Data]) -> str:
    """Return the form of node-hours: three digits of what is idle in all, at least one behind the point."""
    most = max((sum(each["node_hours"].values()) for each in idle), default=0.0)
    return ",.1f" if most >= 10 else ",.2f" if most >= 1 else ",.3f"


def notes(data: Data) -> list[str]:
    """Return sentences about the causes: for whom nodes were planned, and which limits kept them idle."""
    said, form = [], _form_of(data["idle"])
    for each in data["idle"]:
        most = [f"job {e['job']} ({e['node_hours']:{form}})" for e in each["planned_for"]]
        said += [f"{each['policy']}: most was planned for {', '.join(most)}"] if most else []
        limits = [f"{e['limit']} ({e['node_hours']:{form}})" for e in each["limits"]]
        said += [f"{each['policy']}: limits that kept most idle: {', '.join(limits)}"] if limits else []
        if each["watched_share"] < 0.95:
            said.append(f"{each['policy']}: causes extrapolated from {each['watched_share']:.1%} of the time")
    return said


def share_rows(data: Data) -> tuple[list[str], list[list[str]]]:
    """Return the policies, and for each account its share and its mean part of the decayed usage."""
    shares = data["shares"]
    if not shares:
        return [], []
    rows = []
    for i, (account, owned) in enumerate(zip(shares[0]["accounts"], shares[0]["owned"], strict=True)):
        used = [[at[i] for at in each["used"]] for each in shares]
        rows.append([account, f"{owned:.0%}", *(f"{sum(each) / len(each):.0%}" for each in used)])
    return [f"used, {each['policy']}" for each in shares], rows


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for place, head in enumerate(heads):
        table.add_column(Text(printable(head)), justify="right" if place else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(printable(text), WIDTH, initial_indent="  ", subsequent_indent="    ")


def settings_section(data: Data, dates: Dates | None) -> dict[str, Any]:
    """Return the values for the template."""
    idle_heads, idle = idle_rows(data)
    share_heads, shares = share_rows(data)
    return {
        "effects": [
            {
                "policy": each["policy"],
                "sentence": each["sentence"],
                "who": who(each),
                "kinds": by_kind(each),
                "losers": loser_rows(each),
                "conf": each["slurm_conf"],
            }
            for each in data["effects"]
        ],
        "heads": HEADS,
        "loser_heads": LOSER_HEADS,
        "idle_heads": idle_heads,
        "idle": idle,
        "notes": notes(data),
        "share_heads": share_heads,
        "shares": shares,
        "figures": [_figure(each, dates) for each in data["shares"]],
    }


def _figure(data: Data, dates: Dates | None) -> dict[str, Any]:
    """Return the part of each account in the usage over time, under one policy."""
    at = np.array([round(each * SECOND) for each in data["at_s"]], np.int64)
    fresh = np.flatnonzero(np.diff(at, prepend=at[:1] - 1) > 0)
    at, used = at[fresh], np.array(data["used"], np.float64)[fresh]
    edges = np.append(at, at[-1] + 1)
    lines = [Binned(edges, part, part, np.diff(edges).astype(np.float64)) for part in used.T]
    chart = share_chart(lines, [1] * len(lines), dates=dates)
    return {
        "policy": data["policy"],
        "accounts": data["accounts"],
        "owns": [f"owns {share:.0%}" for share in data["owned"]],
        "chart": chart,
        "summary": "; ".join(
            f"{name} ends at {part[-1]:.0%}" for name, part in zip(data["accounts"], used.T, strict=True)
        ),
    }
