"""`top`: the queue, redrawn periodically; without a terminal it is printed once."""

import json
import select
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from backfill.client.calling import Problem, persistent
from backfill.client.options import parse
from backfill.client.printing import age_text, planned_by, start_text, starts_shown
from backfill.queue.words import Unreadable, asks_text, clock_text, safe, size_text
from backfill.system.home import home

if TYPE_CHECKING:
    from rich.console import RenderableType

Facts = dict[str, Any]
EVERY_US = 2_000_000
WIDTH = 24  # characters of a bar
SHOWN = 500  # most jobs that are requested
WIDE, SPARED = 110, ("USER", "NEEDS")  # least width of a full screen, and the columns left out on a narrower one
HEAD, FOOT = 3, 2  # lines besides those of jobs and resources
RIGHT = ("JOB", "ELAPSED", "LEFT", "GUARANTEED", "LIKELY", "90 %")
STYLES = {"RUNNING": "green", "STARTING": "green", "ENDING": "yellow"}


def top(words: Sequence[str]) -> int:
    """Show the queue until q or Ctrl-C is pressed."""
    given, left, _ = parse("top", words)
    if left:
        raise Unreadable(f"unexpected {left[0]!r}")
    if given.get("json"):
        print(json.dumps(_asked()))
        return 0
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, WIDE)
    if given.get("once") or not console.is_terminal:
        console.print(frame(_asked(), 10**6, console.width))
        return 0
    from rich.live import Live

    every = given.get("every", EVERY_US) / 1e6
    with suppress(KeyboardInterrupt), _keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                shown = frame(_asked(), shutil.get_terminal_size().lines, console.width)
            except Problem as problem:  # the daemon is temporarily gone
                shown = str(problem)
            live.update(shown, refresh=True)
            if _key(every) in ("q", "\x04"):
                break
    return 0


def _asked() -> Facts:
    return persistent("queue", home(), estimates=True, limit=SHOWN, nodes=True)


@contextmanager
def _keys() -> Iterator[None]:
    """Read keys one by one, without showing them."""
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
    """Wait for a key and return it; empty after the timeout."""
    if not sys.stdin.isatty():
        time.sleep(patience)
        return ""
    ready, _, _ = select.select([sys.stdin], [], [], patience)
    return sys.stdin.read(1) or "q" if ready else ""


def frame(found: Facts, lines: int, columns: int = WIDE) -> "RenderableType":
    """Return one screen of the queue, at most `lines` high. On a narrow screen users and needs are left out."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    now = round(found["now_s"] * 1e6)
    jobs = found["jobs"]
    held, gone = found["held"], found.get("held_elsewhere", {})
    bars = [
        _bar(name, held.get(name, 0) - gone.get(name, 0), there, gone.get(name, 0))
        for name, there in found["capacity"].items()
        if there
    ]
    bars += [safe(line)[:columns] for line in nodes_lines(found.get("nodes", []))]
    room = max(lines - len(bars) - HEAD - FOOT, 1)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    ahead = starts_shown(found)
    heads = ("JOB", "NAME", "USER", "STATE", "NEEDS", "ELAPSED", "LEFT", *ahead.values(), "WHY")
    shown = [place for place, head in enumerate(heads) if columns >= WIDE or head not in SPARED]
    for head in (heads[place] for place in shown):
        table.add_column(head, justify="right" if head in RIGHT else "left", no_wrap=True)
    for job in jobs[:room]:
        elapsed = left = "-"
        if job["start_s"] is not None:
            ran = now - round(job["start_s"] * 1e6)
            elapsed, left = clock_text(ran), clock_text(round(job["limit_s"] * 1e6) - ran)
        who = [job["label"], safe(job["name"])[:20], safe(job["user"])[:12], job["state"], asks_text(job)]
        starts = [start_text(job.get(name), now) for name in ahead]
        cells = [*who, elapsed, left, *starts, job["reason"]]
        table.add_row(*(cells[place] for place in shown), style=STYLES.get(job["state"], ""))
    pending = found["states"].get("PENDING", 0)
    running = sum(found["states"].values()) - pending
    hidden = max(len(jobs) - room, 0) + found["more"]
    more = f", {hidden:,} more" if hidden else ""
    paused = ", paused" if found.get("paused") else ""
    starting = "" if found["planner"] == "ready" else ", which is starting"
    policy = safe(found["policy"] + planned_by(found)) + paused + starting
    clock = time.strftime("%H:%M:%S", time.localtime(found["now_s"]))
    last = Text(
        f"{running} running, {pending} pending{more}. policy {policy}{age_text(found)}. {clock}",
        style="bold",
    )
    return Group(*(Text(bar) for bar in bars), Text(""), *([table] if jobs else []), last)


def nodes_lines(kinds: Sequence[Facts]) -> list[str]:
    """Return a line for each kind of node of a cluster."""
    names = [f"{kind['names']:.{WIDTH}}" for kind in kinds]
    wide = max(map(len, names), default=0)
    lines = []
    for name, kind in zip(names, kinds, strict=True):
        parts = [
            f"{size_text(held) if held and what == 'memory' else held}"
            f"/{size_text(there) if what == 'memory' else there}{'' if what == 'memory' else f' {what}'}"
            for what, there in kind["stated"].items()
            for held in [kind["held"].get(what, 0)]
        ]
        where = f"  {', '.join(kind['partitions'])}" if kind["partitions"] else ""
        out = f"  out of service, or in part: {kind['out_names']}" if kind["out"] else ""
        out += f" ({'; '.join(kind['reasons'])})" if kind["reasons"] else ""
        lines.append(f"{name:<{wide}}  {', '.join(parts)}{where}{out}")
    return lines


def _bar(name: str, held: int, there: int, gone: int) -> str:
    """Return a bar of how much of a resource is held. gone: what runs hold on nodes removed from the platform."""

    def amount(one: int) -> str:
        return size_text(one) if one and name == "memory" else str(one)

    full = round(WIDTH * min(held / there, 1.0))
    told = f"{amount(held)}/{amount(there)}" + (f", and {amount(gone)} on removed nodes" if gone else "")
    return f"{safe(name)[:12]:<12} {'#' * full}{'.' * (WIDTH - full)} {told}"
