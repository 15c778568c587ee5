"""The plan of a queue as one file that needs neither the queue nor a network: the chart of its page, and a table.

It needs no extra. What the page of the queue shares with it is here: the scripts of the chart, and the calendar.
"""

import base64
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from backfill.client.gantt import summary
from backfill.client.printing import age_text, dated
from backfill.model.clock import Clock
from backfill.model.units import SECOND, bound_text, local_text
from backfill.report.dates import Dates
from backfill.report.templating import templates
from backfill.report.values import cut

CALENDAR_S = 400 * 86_400  # around now, in which the chart knows how far the local time is ahead
# Scripts of the chart that the report has too, in the order in which they are loaded.
CHART = ("words", "dates", "data", "colours", "rows", "raster", "front", "chart", "hand")
TABLE = 1000  # rows at most


def page(plan: Mapping[str, Any], part: bool) -> str:
    """Return the page of a plan, see answers/plan.py; every text from outside is escaped.

    part: whether only some jobs are in it.
    """
    each = [_static("backfill.report", f"{name}.js") for name in CHART]
    script = "".join(['"use strict";\n(() => {\n', *each, _static("backfill.web", "plan.js"), "})();\n"])
    pages = templates("backfill.web", "backfill.report")
    pages.filters["cut"] = cut
    rows = [*_rows(plan)]
    return pages.get_template("plan_offline.html.j2").render(
        style=Markup(_static("backfill.report", "report.css") + _static("backfill.web", "page.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=Markup(json.dumps(plan, ensure_ascii=True).replace("<", "\\u003c")),
        summary=f"{summary(plan, part)}{age_text(dict(plan))}",
        made=dated(plan["now_s"]),
        rows=rows[:TABLE],
        more=len(rows) - len(rows[:TABLE]),
        dates=calendar(plan["now_s"]),
        live=False,
        of={},
    )


def calendar(now_s: float) -> Dates | None:
    """Return how far the local time of this machine is ahead of UTC, for a year in both directions."""
    now = int(now_s)
    return Dates.of(Clock(0, zone()), (now - CALENDAR_S) * SECOND, (now + CALENDAR_S) * SECOND)


def zone() -> str:
    """Return the name of the zone of this machine's local time."""
    if name := os.environ.get("TZ", "").lstrip(":"):
        return name
    try:
        return os.path.realpath("/etc/localtime").partition("/zoneinfo/")[2].removeprefix("Etc/") or "UTC"
    except OSError:
        return "UTC"


def _rows(plan: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """Yield the cells of each job: those that run, those that wait, and those that ran, the last ones first."""
    now = round(plan["now_s"] * 1e6)

    def at(seconds: float | None, shown: Callable[[int, int], str] = bound_text) -> str:
        return "" if seconds is None else shown(round(seconds * 1e6), now)

    for bar in (*plan["running"], *plan["pending"], *reversed(plan["past"])):
        start = at(bar["start_s"], local_text) if "start_s" in bar else at(bar["drawn_s"])
        end = at(bar["end_s"], local_text) if "end_s" in bar else at(bar["latest_end_s"])
        who = bar["label"], bar["name"], bar["user"], bar["state"].lower().replace("_", " "), f"{bar['cpus']:,}"
        yield *who, start, at(bar.get("median_s")), at(bar.get("guaranteed_s")), end, bar.get("reason", "")


def _static(package: str, name: str) -> str:
    return (files(package) / "static" / name).read_text(encoding="utf-8")
