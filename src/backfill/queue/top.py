"""The queue, drawn again and again. Without a terminal it is drawn once."""

import json
import select
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from backfill.queue.client import Problem, needs_text, persistent, safe
from backfill.queue.home import home
from backfill.queue.options import parse
from backfill.queue.words import Unreadable, bound_text, clock_text, size_text

if TYPE_CHECKING:
    from rich.console import RenderableType

Facts = dict[str, Any]
EVERY_US = 2_000_000
WIDTH = 24  # of a bar
HEAD, FOOT = 3, 2  # lines that are no jobs, beside one for each resource
RIGHT = ("JOB", "ELAPSED", "LEFT", "GUARANTEED")
STYLES = {"RUNNING": "green", "STARTING": "green", "ENDING": "yellow"}


def top(words: Sequence[str]) -> int:
    """Watch the queue until q or Ctrl-C."""
    given, left, _ = parse("top", words)
    if left:
        raise Unreadable(f"unexpected {left[0]!r}")
    if given.get("json"):
        print(json.dumps(persistent("queue", home())))
        return 0
    from rich.console import Console

    console = Console(highlight=False)
    if given.get("once") or not console.is_terminal:
        console.print(frame(persistent("queue", home()), 10**6))
        return 0
    from rich.live import Live

    every = given.get("every", EVERY_US) / 1e6
    with suppress(KeyboardInterrupt), _keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                shown = frame(persistent("queue", home()), shutil.get_terminal_size().lines)
            except Problem as problem:  # the daemon is away for a while
                shown = str(problem)
            live.update(shown, refresh=True)
            if _key(every) in ("q", "\x04"):
                break
    return 0


@contextmanager
def _keys() -> Iterator[None]:
    """Keys are heard one by one, and are not shown."""
    import termios
    import tty

    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _key(patience: float) -> str:
    """The next key; empty if there is none by then."""
    if not sys.stdin.isatty():
        time.sleep(patience)
        return ""
    ready, _, _ = select.select([sys.stdin], [], [], patience)
    return sys.stdin.read(1) or "q" if ready else ""


def frame(found: Facts, lines: int) -> "RenderableType":
    """One picture of the queue, at most so many lines high."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    now = round(found["now_s"] * 1e6)
    jobs = found["jobs"]
    bars = [_bar(name, found["held"].get(name, 0), there) for name, there in found["capacity"].items() if there]
    room = max(lines - len(bars) - HEAD - FOOT, 1)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("JOB", "NAME", "USER", "STATE", "NEEDS", "ELAPSED", "LEFT", "GUARANTEED", "WHY"):
        table.add_column(head, justify="right" if head in RIGHT else "left", no_wrap=True)
    for job in jobs[:room]:
        elapsed = left = "-"
        if job["start_s"] is not None:
            ran = now - round(job["start_s"] * 1e6)
            elapsed, left = clock_text(ran), clock_text(round(job["limit_s"] * 1e6) - ran)
        promised = job["guaranteed_s"]
        promise = "-" if promised is None else bound_text(round(promised * 1e6), now)
        who = [job["label"], safe(job["name"])[:20], safe(job["user"])[:12], job["state"], needs_text(job["need"])]
        table.add_row(*who, elapsed, left, promise, job["reason"], style=STYLES.get(job["state"], ""))
    states = [job["state"] for job in jobs]
    pending = states.count("PENDING")
    more = f", {len(jobs) - room} more" if len(jobs) > room else ""
    policy = safe(found["policy"]) + ("" if found["planner"] == "ready" else ", which is starting")
    clock = time.strftime("%H:%M:%S", time.localtime(found["now_s"]))
    last = Text(f"{len(jobs) - pending} running, {pending} pending{more}. policy {policy}. {clock}", style="bold")
    return Group(*(Text(bar) for bar in bars), Text(""), *([table] if jobs else []), last)


def _bar(name: str, held: int, there: int) -> str:
    full = round(WIDTH * min(held / there, 1.0))
    told = f"{size_text(held) if held else 0}/{size_text(there)}" if name == "memory" else f"{held}/{there}"
    return f"{safe(name)[:12]:<12} {'#' * full}{'.' * (WIDTH - full)} {told}"
