"""The queue as a page shows it: a row for each job, with its start as an interval on an axis, and what is in use."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from backfill.client.printing import nodes_text, planned_by, reservation_lines, start_text, why_text
from backfill.model.units import clock_text, counted, size_text, time_text
from backfill.queue.states import HOLDING
from backfill.queue.words import asks_text

Facts = dict[str, Any]
LIMIT = 200  # rows of a page
ENDED = 20  # ended jobs listed on request
FILTERS = ("state", "user", "name", "project")  # fields of the address, and in plural of a request
NEAR_S = 60.0  # the axis is at least this long
HOUR, DAY = 3600, 86_400
MARKS = (
    *((60, "1 min"), (600, "10 min"), (HOUR, "1 h"), (3 * HOUR, "3 h"), (6 * HOUR, "6 h"), (12 * HOUR, "12 h")),
    *((DAY, "1 d"), (3 * DAY, "3 d"), (7 * DAY, "1 week"), (30 * DAY, "30 d"), (365 * DAY, "1 y")),
)
APART = 23.0  # percent of the axis between two marks, at least


@dataclass(frozen=True, slots=True)
class Axis:
    """The time from now on by its square root, so that the next minutes are visible beside the next days."""

    until_s: float

    def at(self, ahead_s: float) -> float:
        """Return the place of an instant so many seconds ahead, in percent."""
        return round(100 * math.sqrt(min(max(ahead_s, 0) / max(self.until_s, NEAR_S), 1)), 2)

    @property
    def marks(self) -> list[tuple[float, str]]:
        """The places of round spans, and their texts."""
        found: list[tuple[float, str]] = [(0.0, "now")]
        for seconds, text in MARKS:
            if (
                seconds <= self.until_s
                and self.at(seconds) - found[-1][0] >= APART
                and self.at(seconds) <= 100 - APART / 2
            ):
                found.append((self.at(seconds), text))
        return found


@dataclass(frozen=True, slots=True)
class Span:
    """A start, or the end of a run, as an interval on the axis, in percent; None for what is not known."""

    low: float | None  # from the likely start
    high: float | None  # to the bound that nine of ten futures keep
    promise: float | None  # the guaranteed start
    end: float | None  # the latest end of a job that runs
    sentence: str  # the same as a sentence

    @property
    def empty(self) -> bool:
        """Whether nothing is known."""
        return self.low is None and self.promise is None and self.end is None


@dataclass(frozen=True, slots=True)
class Row:
    """A job as a row of the table; texts are as in `backfill queue`."""

    key: str
    href: str
    label: str
    name: str
    user: str
    state: str
    asks: str
    limit: str
    elapsed: str
    guaranteed: str
    likely: str
    bound: str
    nodes: str
    why: str
    span: Span
    at_risk: bool


def asked(query: Mapping[str, str]) -> Facts:
    """Return the `queue` request for the filters of an address."""
    found: Facts = {"estimates": True, "fold": query.get("fold") != "0", "limit": LIMIT, "nodes": True}
    for name in FILTERS:
        if words := _words(query, name):
            found[f"{name}s"] = [word.upper() for word in words] if name == "state" else words
    if found.get("states") == ["RUNNING"]:
        found["states"] = [*HOLDING]
    if query.get("ended") == "1":
        found["ended"] = ENDED
    if query.get("after", "").isdecimal():
        found["after"] = int(query["after"][:15])
    return found


def _words(query: Mapping[str, str], name: str) -> list[str]:
    return [word for word in query.get(name, "").replace(" ", ",").split(",") if word]


def chosen(query: Mapping[str, str]) -> dict[str, str]:
    """Return the filters of an address that are in use, as text; all but the state select bars of the plan as well."""
    return {name: ",".join(words) for name in FILTERS if (words := _words(query, name))}


def plan_query(query: Mapping[str, str]) -> str:
    """Return the part of the address of the plan that selects its bars."""
    return urlencode({name: text for name, text in chosen(query).items() if name != "state"})


def address(query: Mapping[str, str], **other: str) -> str:
    """Return the address of the queue with these filters, some of them changed; empty values are left out."""
    kept = {name: query[name] for name in (*FILTERS, "fold", "ended") if query.get(name)}
    fields = {name: value for name, value in {**kept, **other}.items() if value}
    return f"/?{urlencode(fields)}" if fields else "/"


def rows(found: Facts) -> tuple[list[Row], Axis]:
    """Return the rows of an answer to `queue`, and their axis."""
    now = found["now_s"]
    ahead = [
        job[name] - now for job in found["jobs"] for name in ("guaranteed_s", "p90_s", "median_s") if job.get(name)
    ]
    ahead += [end - now for job in found["jobs"] if (end := latest_end(job)) is not None]
    axis = Axis(max(ahead, default=NEAR_S))
    return [row(job, now, axis) for job in found["jobs"]], axis


def row(job: Facts, now: float, axis: Axis) -> Row:
    """Return the row of a job."""
    micros = round(now * 1e6)
    begun, over = job["start_s"], job["end_s"]
    elapsed = "" if begun is None else clock_text(round(((now if over is None else over) - begun) * 1e6))
    folded = job.get("tasks", 1) > 1
    return Row(
        key=f"job-{job['id']}",
        href=f"/?{urlencode({'name': job['name'], 'state': 'PENDING', 'fold': '0'})}"
        if folded
        else f"/jobs/{job['label']}",
        label=job["label"],
        name=job["name"],
        user=job["user"],
        state=job["state"],
        asks=asks_text(job),
        limit=clock_text(round(job["limit_s"] * 1e6)),
        elapsed=elapsed,
        guaranteed=_start(job, "guaranteed_s", micros),
        likely=_start(job, "median_s", micros),
        bound=_start(job, "p90_s", micros),
        nodes=nodes_text(job.get("nodes", ())),
        why=why_text(job),
        span=span(job, now, axis),
        at_risk=bool(job.get("misses_deadline")),
    )


def _start(job: Facts, name: str, micros: int) -> str:
    return "" if job.get(name) is None else start_text(job[name], micros)


def latest_end(job: Facts) -> float | None:
    """Return when the limit of a running job ends it, in seconds of the calendar."""
    return job["start_s"] + job["limit_s"] if job["start_s"] is not None and job["end_s"] is None else None


def span(job: Facts, now: float, axis: Axis) -> Span:
    """Return the interval of a job's start, or of the end of a running job."""
    micros = round(now * 1e6)
    places: dict[str, float | None] = {}
    parts = []
    words = {
        "median_s": "likely at {}",
        "p90_s": "in nine of ten futures by {}",
        "guaranteed_s": "by {} at the latest (guaranteed)",
    }
    for name, text in words.items():
        t = job.get(name)
        places[name] = None if t is None else axis.at(t - now)
        parts += [] if t is None else [text.format(start_text(t, micros))]
    end = latest_end(job)
    sentence = "starts " + ", ".join(parts) if parts else ""
    if end is not None:
        sentence = f"its limit ends it by {start_text(end, micros)}"
    low = places["median_s"]
    high = places["p90_s"] if places["p90_s"] is not None else low
    return Span(low, high, places["guaranteed_s"], None if end is None else axis.at(end - now), sentence)


def in_use(found: Facts) -> list[tuple[str, str, str, float]]:
    """Return each resource: its name, what of it jobs hold, all of it, and the share in percent."""
    used = []
    for name, there in found["capacity"].items():
        held = found["held"].get(name, 0)
        if not there:
            continue
        texts = [size_text(value) if name == "memory" and value else f"{value:,}" for value in (held, there)]
        used.append((name, *texts, round(100 * held / there, 1)))
    return used


def sentence(found: Facts) -> str:
    """Return how many jobs run and wait, and what is in use."""
    states = found["states"]
    running, waiting = sum(states.get(state, 0) for state in HOLDING), states.get("PENDING", 0)
    cpus, there = found["held"].get("cpus", 0), found["capacity"].get("cpus", 0)
    runs = f"{counted(running, 'job')} {'runs' if running == 1 else 'run'}"
    return f"{runs}, {waiting:,} {'waits' if waiting == 1 else 'wait'}; {cpus:,} of {there:,} cpus are in use"


def notices(found: Facts) -> list[str]:
    """Return what a reader of the queue should know beside its jobs."""
    notices = []
    if found["paused"]:
        notices.append("The queue is paused: no job starts until it is resumed (backfill resume).")
    if found["policy"] != found["asked_policy"]:
        notices.append(
            f"Policy {found['asked_policy']} failed twice at the same pass; {found['policy']} stands in for it."
        )
    if found["planner"] != "ready":
        notices.append("The policy is being started; jobs start when it is ready.")
    if found["shadow"]:
        notices.append(f"This queue only watches {found['pool']}; it starts no jobs.")
    if found["problem"]:
        notices.append(f"{found['pool']} does not answer: {found['problem']}")
    for name, licence in found.get("licences", {}).items():
        if licence["stale"]:
            notices.append(f"The licence server does not say how many {name} are in use: {licence['problem']}")
        elif licence["others"]:
            notices.append(f"Others use {licence['others']} {name}.")
    notices += [
        f"{line[0].upper()}{line[1:]}." for line in reservation_lines(found.get("reservations", ()), found["now_s"])
    ]
    return notices


def policy_text(found: Facts) -> str:
    """Return the policy, and how old the estimates are."""
    text = f"policy {found['policy']}{planned_by(found)}"
    known = found.get("estimates") or {}
    if "age_s" in known:
        few = known.get("wide_from_jobs")
        wide = "" if few is None else f"; wide bounds come from only {counted(few, 'ended job')}"
        return f"{text}; estimates {time_text(round(known['age_s']) * 10**6)} old{wide}"
    return f"{text}; estimates come in a moment" if known else text
