"""`top`: the queue, redrawn periodically; without a terminal it is printed once."""

import json
import os
import select
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill.client.calling import Problem, persistent
from backfill.client.options import parse
from backfill.client.printing import age_text, fitting, planned_by, start_text, starts_shown, why_text
from backfill.model.names import printable
from backfill.model.units import clock_text, size_text
from backfill.queue.words import Unreadable, asks_text
from backfill.system.home import home

if TYPE_CHECKING:
    from rich.console import JustifyMethod, RenderableType

Facts = dict[str, Any]
EVERY_US = 2_000_000
WIDTH = 24  # characters of a bar
SHOWN = 500  # most jobs that are requested
NO_TERMINAL = 1000  # columns
ESCAPE = "\x1b"
MOVES = {"\x1b[A": -1, "k": -1, "\x1b[B": 1, "j": 1, "\x1b[H": -SHOWN, "g": -SHOWN, "\x1b[F": SHOWN, "G": SHOWN}
PAGES = {"\x1b[5~": -1, "b": -1, "\x1b[6~": 1, " ": 1}  # half a screen each
HEAD, FOOT = 3, 3  # lines besides those of jobs and resources
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
    if given.get("once") or not console.is_terminal:
        width = console.width if console.is_terminal else None
        console.width = width or NO_TERMINAL
        console.print(frame(_asked(), 10**6, width))
        return 0
    from rich.live import Live

    every, view = given.get("every", EVERY_US) / 1e6, View()
    with suppress(KeyboardInterrupt), _keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                found: Facts | str = _asked()
            except Problem as problem:  # the daemon is temporarily gone
                found = str(problem)
            end, keys = time.monotonic() + every, " "
            while keys:
                lines = shutil.get_terminal_size().lines
                live.update(found if isinstance(found, str) else frame(found, lines, console.width, view), refresh=True)
                keys = _keys_pressed(end - time.monotonic())
                if not all(view.press(key, lines) for key in ([keys] if keys[:1] == ESCAPE else keys)):
                    return 0
    return 0


@dataclass
class View:
    """The part of the queue on the screen: from which job on, and only jobs with a text in one of their columns."""

    first: int = 0
    wanted: str = ""
    typing: bool = False

    def press(self, key: str, lines: int) -> bool:
        """Take a key, as the terminal sends it; return whether to go on. lines: of the screen."""
        if self.typing:
            if key in ("\r", "\n", ESCAPE):
                self.typing, self.wanted = False, "" if key == ESCAPE else self.wanted
            elif key in ("\x7f", "\b"):
                self.wanted = self.wanted[:-1]
            elif key.isprintable():
                self.wanted += key
            self.first = 0
            return True
        if key == "/":
            self.typing, self.wanted = True, ""
        elif key == ESCAPE:
            self.first, self.wanted = 0, ""
        self.first = max(self.first + MOVES.get(key, 0) + PAGES.get(key, 0) * max(lines // 2, 1), 0)
        return key not in ("q", "\x04")

    def chosen(self, jobs: Sequence[Facts]) -> list[Facts]:
        """Return the jobs that have the wanted text, in any case, in their label, name, user, state or reason."""
        wanted, names = self.wanted.casefold(), ("label", "name", "user", "state", "reason")
        return [job for job in jobs if any(wanted in str(job[name]).casefold() for name in names)]

    def filters(self) -> str:
        """Return a line about the keys, and about the text that is wanted."""
        if self.typing:
            return f"/{self.wanted}_  Enter: keep, Esc: all jobs"
        wanted = f"only {self.wanted!r} (Esc: all jobs); " if self.wanted else ""
        return f"{wanted}arrows and pages scroll, / filters, q ends"


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


def _keys_pressed(patience: float) -> str:
    """Wait for a key and return what it sends, or several at once; empty after the timeout."""
    if not sys.stdin.isatty():
        time.sleep(max(patience, 0))
        return ""
    ready, _, _ = select.select([sys.stdin], [], [], max(patience, 0))
    return os.read(sys.stdin.fileno(), 16).decode(errors="replace") or "q" if ready else ""


def frame(found: Facts, lines: int, columns: int | None = None, view: View | None = None) -> "RenderableType":
    """Return one screen of the queue, at most `lines` high and `columns` wide, None for any width.

    On a narrow screen columns are left out, none is cut but the last one.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    now = round(found["now_s"] * 1e6)
    jobs = found["jobs"] if view is None else view.chosen(found["jobs"])
    held, gone = found["held"], found.get("held_elsewhere", {})
    bars = [
        _bar(name, held.get(name, 0) - gone.get(name, 0), there, gone.get(name, 0))
        for name, there in found["capacity"].items()
        if there
    ]
    bars += [printable(line)[: columns or NO_TERMINAL] for line in nodes_lines(found.get("nodes", []))]
    room = max(lines - len(bars) - HEAD - FOOT, 1)
    if view is not None:
        view.first = min(view.first, max(len(jobs) - room, 0))
    first = view.first if view else 0
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    ahead = starts_shown(found)
    rows = [["JOB", "NAME", "USER", "STATE", "NEEDS", "ELAPSED", "LEFT", *ahead.values(), "WHY"]]
    for job in jobs[first : first + room]:
        elapsed = left = "-"
        if job["start_s"] is not None:
            ran = now - round(job["start_s"] * 1e6)
            elapsed, left = clock_text(ran), clock_text(round(job["limit_s"] * 1e6) - ran)
        who = [job["label"], printable(job["name"])[:20], printable(job["user"])[:12], job["state"], asks_text(job)]
        rows.append([*who, elapsed, left, *(start_text(job.get(name), now) for name in ahead), why_text(job)])
    shown = fitting(rows, columns)
    for column in shown:
        head, wide = rows[0][column], max(len(row[column]) for row in rows)
        justify: JustifyMethod = "right" if head in RIGHT else "left"
        table.add_column(head, justify=justify, no_wrap=True, min_width=None if head == "WHY" else wide)
    for row, job in zip(rows[1:], jobs[first:], strict=False):
        table.add_row(*(row[column] for column in shown), style=STYLES.get(job["state"], ""))
    pending = found["states"].get("PENDING", 0)
    running = sum(found["states"].values()) - pending
    hidden = max(len(jobs) - first - room, 0) + found["more"]
    more = f", {hidden:,} more" if hidden else ""
    paused = ", paused" if found.get("paused") else ""
    starting = "" if found["planner"] == "ready" else ", which is starting"
    policy = printable(found["policy"] + planned_by(found)) + paused + starting
    clock = time.strftime("%H:%M:%S", time.localtime(found["now_s"]))
    last = Text(
        f"{running} running, {pending} pending{more}. policy {policy}{age_text(found)}. {clock}",
        style="bold",
    )
    keys = [Text(view.filters(), style="dim")] if view else []
    return Group(*(Text(bar) for bar in bars), Text(""), *([table] if jobs else []), last, *keys)


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
    text = f"{amount(held)}/{amount(there)}" + (f", and {amount(gone)} on removed nodes" if gone else "")
    return f"{printable(name)[:12]:<12} {'#' * full}{'.' * (WIDTH - full)} {text}"
