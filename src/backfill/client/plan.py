"""`plan`: the past, the present and the planned future of the queue, on nodes and licences over time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill.client.calling import FAILED, Problem, persistent
from backfill.client.options import parse
from backfill.queue.protocol import PLANNED
from backfill.queue.words import Unreadable, is_span, parse_instant, parse_past, parse_time
from backfill.system.home import home, kept_trouble

if TYPE_CHECKING:  # saves import time at run time
    from collections.abc import Sequence

    Facts = dict[str, Any]


PARTS = {"until", "users", "nodes"}  # options that leave jobs out
WIDTH = 100  # columns without a terminal


def plan(words: Sequence[str]) -> int:
    """Print the plan of the queue."""
    given, left, _ = parse("plan", words)
    if left:
        raise Unreadable(f"unexpected {left[0]!r}; backfill show {left[0]} shows one job")
    if "report" in given and (wrong := kept_trouble(home(), given["report"])):
        raise Unreadable(f"--report: {wrong}")
    found, part = read(home(), given), bool(given.keys() & PARTS)
    if "report" in given:
        _write(given["report"], found, part)
    if given.get("json"):
        print(json.dumps(found))
        return 0
    from backfill.client.gantt import JOBS, chart, summary

    if "report" in given:
        print(f"{summary(found, part)}\nwrote {given['report']}; next: open it in a browser, with or without a network")
        return 0
    from rich.console import Console

    from backfill.client.printing import age_text, terminal_width

    console = Console(highlight=False, soft_wrap=True)
    plain = not console.encoding.lower().startswith("utf")
    if any(found[kind] for kind in ("past", "running", "pending", "reservations")):
        width = terminal_width() or WIDTH
        for line in chart(found, width, given.get("most", JOBS), plain, "since" in given):
            line.rstrip()
            console.print(line)
    print(f"{summary(found, part)}{age_text(found)}")
    print(_next(found))
    return 0


def _write(path: str, found: Facts, part: bool) -> None:
    """Write the plan as one page. Raises Problem."""
    from backfill.model.errors import BackfillError
    from backfill.traces.files import written
    from backfill.web.offline import page

    try:
        with written(path) as out:
            out.write(page(found, part).encode())
    except BackfillError as error:
        raise Problem(str(error), FAILED) from None


def _next(found: Facts) -> str:
    """Return the command that is useful next."""
    if found["pending"]:
        return f"next: backfill explain {found['pending'][0]['label']}"
    return "next: backfill queue" if found["running"] else "next: backfill submit --help"


def read(folder: str, given: Facts) -> Facts:
    """Return the plan of a queue. given: the options of `plan`; instants are by the queue's clock, which may be faster
    than ours. Raises Problem and Unreadable."""
    from backfill.answers.plan import PAST_S, Window, plan
    from backfill.queue.store import Store, StoreError

    answer = persistent("plan", folder, **({"users": given["users"]} if "users" in given else {}), limit=PLANNED)
    now = round(answer["now_s"] * 1e6)
    since, until = _instant("--since", given.get("since"), now), _instant("--until", given.get("until"), now)
    if until is not None and until <= (answer["now_s"] - PAST_S if since is None else since):
        default = " [default: 2h]" if since is None else ""
        raise Unreadable(f"--until {given['until']}: expected a time after that of --since{default}")
    window = Window(since, until, tuple(given.get("users", ())), tuple(given.get("nodes", ())))
    try:
        store = Store(Path(folder) / "store.db", readonly=True)
        try:
            found: Facts = {**plan(store, answer, window)}
        finally:
            store.close()
    except StoreError as error:
        raise Problem(str(error), FAILED) from None
    missing = {*window.nodes} - {lane["name"] for lane in found["lanes"] if lane["lane"] == "node"}
    if missing:
        raise Unreadable(f"--nodes: there is no node {min(missing)!r}; backfill plan shows which there are")
    return found


def _instant(option: str, text: str | None, now: int) -> float | None:
    """Return a time in seconds; a span such as 2h means that long ago, or for --until that long from now."""
    if text is None:
        return None
    try:
        if option == "--since":
            return parse_past(text, now) / 1e6
        return (now + parse_time(text) if is_span(text) else parse_instant(text, now)) / 1e6
    except Unreadable as error:
        raise Unreadable(f"{option}: {error}") from None
