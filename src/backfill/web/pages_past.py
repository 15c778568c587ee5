"""Pages about the past of the queue: accuracy of promised starts, use and waits over time."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.analysis.series import Binned, Steps
from backfill.answers.history import Filter, cpus, ended, opened, summed, waited
from backfill.client.asking import accuracy_of
from backfill.client.printing import dated
from backfill.model.clock import Clock
from backfill.model.units import SECOND, clock_text, counted, span_text, time_text
from backfill.queue.job import Job
from backfill.queue.nodes import FLOATING, ON_NODES
from backfill.queue.store import Store
from backfill.report.chart import Chart, count_chart, share_chart, table
from backfill.report.dates import Dates

Facts = dict[str, Any]
DAYS = (1, 7, 30, 365)
BINS = 96
SLIPS = 50  # broken promises that are listed
USERS = 50  # users in the table
HOUR = 3600 * SECOND
LEADS = {"< 1 h": "less than 1 h", "1 - 6 h": "1 to 6 h", "> 6 h": "more than 6 h"}


@dataclass(frozen=True, slots=True)
class Figure:
    """Lines over time, with the same as a sentence and as a table."""

    heading: str
    about: str
    names: list[str]
    chart: Chart
    summary: str
    rows: list[tuple[str, list[str]]]


@dataclass(frozen=True, slots=True)
class Lead:
    """The accuracy of the estimates that were made equally long before."""

    name: str
    estimates: str
    within: float  # percent of the starts that came before the bound
    error: str
    early: str
    late: str


def accuracy(folder: Path) -> Facts:
    """Return what became of promises and estimates. Raises Problem and InputError."""
    found = accuracy_of(str(folder))
    promises = found["promises"]
    late = sum(promises["slips"].values())
    return {
        "kept": promises["kept"],
        "promised": promises["kept"] + late,
        "slips": sorted(promises["slips"].items(), key=lambda each: -each[1]),
        "departures": promises["departures"],
        "leads": [_lead(each) for each in found["leads"]],
        "pool": found.get("pool", ""),
        "pool_leads": [_lead(each) for each in found.get("pool_leads", ())],
        "broken": _broken(folder) if late else [],
    }


def _lead(found: Facts) -> Lead:
    return Lead(
        LEADS.get(str(found["lead"]), str(found["lead"])),
        f"{found['estimates']:,}",
        round(100 * found["within_90"], 1),
        time_text(round(found["median_error_s"] * 1e6)),
        f"{found['early']:.0%}",
        f"{found['late']:.0%}",
    )


def _broken(folder: Path) -> list[tuple[str, str, str, str, str]]:
    """Return the last jobs that started later than promised: label, name, promised, started, cause."""
    store = opened(folder)
    try:
        some = store.jobs('end_us IS NOT NULL AND start_us IS NOT NULL AND facts LIKE \'%"slip":"%\'', limit=SLIPS * 20)
        skew = store.skew()
    finally:
        store.close()
    late = [job for job in some if job.attempt is not None and job.attempt.slip and job.promise is not None]
    return [
        (job.label, job.name, dated(((job.promise or 0) + skew) / 1e6), dated(((job.start or 0) + skew) / 1e6),
         job.attempt.slip if job.attempt else "")
        for job in late[::-1][:SLIPS]
    ]  # fmt: skip


def use(folder: Path, days: int, zone: str) -> Facts:
    """Return use, queue and waits of the last days, as figures and by user. Raises InputError."""
    store = opened(folder)
    try:
        return _use(store, days, zone)
    finally:
        store.close()


def _use(store: Store, days: int, zone: str) -> Facts:
    skew, book = store.skew(), store.machine()
    now = max(time.time_ns() // 1000 - skew, store.last_t())
    since = now - days * 86_400 * SECOND
    over, _ = ended(store, Filter(since=since))
    jobs = [*over, *store.jobs("end_us IS NULL")]
    if not jobs:
        return {"figures": [], "users": [], "days": days, "jobs": 0, "more": 0}
    begin = max(since, min(job.submit for job in jobs))
    held = cpus(store, jobs)
    dates = Dates.of(Clock(0, zone), begin + skew, now + skew)
    ran = [job for job in jobs if job.start is not None]
    runs = [(max(job.start or 0, begin), now if job.end is None else job.end, job) for job in ran]
    bins = _Bins(begin, now, skew)
    there = {**book.capacity, **(book.nodes.there.get(FLOATING, {}) if book.platform else {})}
    figures = [_share("Cpus in use", [(a, b, held[job.id]) for a, b, job in runs], there.get("cpus", 0), bins, dates)]
    for name, copies in there.items():
        some = [(a, b, job.need.get(name, 0)) for a, b, job in runs if job.need.get(name)]
        if name not in ON_NODES and some and copies:
            figures.append(_share(f"Licence {name} in use", some, copies, bins, dates))
    figures += [_queue(jobs, bins, dates), *_waits(ran, bins, dates)]
    rows = summed(over, "user", held)
    return {
        "figures": figures, "days": days, "jobs": len(over), "more": max(len(rows) - USERS, 0),
        "users": [_user(row) for row in rows[:USERS]], "bin": span_text((now - begin) / BINS),
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Bins:
    """The time that figures show, in microseconds of the queue clock; skew: of the calendar."""

    begin: int
    end: int
    skew: int

    def of(self, spans: Sequence[tuple[int, int, int]]) -> Binned:
        """Return the sum of the weights of (begin, end, weight) spans over time, on the calendar."""
        some = [(max(a, self.begin), b, weight) for a, b, weight in spans if b > max(a, self.begin)]
        begin, end, weight = (np.array([each[i] for each in some], np.int64) for i in range(3))
        found = Steps.of(begin, end, weight).binned(self.begin, self.end, BINS)
        return Binned(found.edges + self.skew, found.mean, found.most, found.time)


def _share(heading: str, spans: Sequence[tuple[int, int, int]], there: int, bins: _Bins, dates: Dates | None) -> Figure:
    binned = bins.of(spans)
    whole = max(there, 1)
    mean = float(np.average(binned.mean, weights=binned.time)) / whole if len(binned.mean) else 0.0
    rows = [(when, [f"{row[0] / whole:.1%}"]) for when, row in table([binned], dates)]
    chart = share_chart([binned], [there], dates=dates)
    return Figure(heading, f"of {there:,}; {mean:.0%} on average", ["in use"], chart, f"{mean:.1%} on average", rows)


def _queue(jobs: Sequence[Job], bins: _Bins, dates: Dates | None) -> Figure:
    spans = [(max(job.submit, (job.begin or 0) - bins.skew), _until(job, bins.end), 1) for job in jobs]
    binned = bins.of(spans)
    most = int(binned.most.max(initial=0))
    rows = [(when, [f"{row[0]:,.1f}"]) for when, row in table([binned], dates)]
    return Figure("Jobs that wait", f"at most {most:,}", ["waiting jobs"], count_chart([binned], dates),
                  f"at most {most:,}", rows)  # fmt: skip


def _until(job: Job, now: int) -> int:
    """Return until when a job waited for its last start."""
    return job.start if job.start is not None else now if job.end is None else job.end


def _waits(ran: Sequence[Job], bins: _Bins, dates: Dates | None) -> list[Figure]:
    """Return the median wait, and that of nine jobs in ten, by the time of the start."""
    some = [(job.start, _wait(job, bins.skew)) for job in ran if job.start is not None and job.start >= bins.begin]
    if not some:
        return []
    starts, waits = (np.array([each[i] for each in some], np.int64) for i in range(2))
    edges = np.unique(np.linspace(bins.begin, bins.end + 1, BINS // 2 + 1).astype(np.int64))
    place = np.searchsorted(edges, starts, side="right") - 1
    size, unit = (HOUR, "hours") if np.median(waits) >= HOUR or waits.max() >= 6 * HOUR else (60 * SECOND, "minutes")
    lines = []
    for share in (0.5, 0.9):
        values: NDArray[Any] = np.full(len(edges) - 1, np.nan)
        for at in np.unique(place).tolist():
            values[at] = np.quantile(waits[place == at], share) / size
        lines.append(_known(edges, values, bins.skew))
    middle, most = np.quantile(waits, [0.5, 0.9]).tolist()
    summary = f"half of the jobs waited at most {span_text(middle)}, nine in ten at most {span_text(most)}"
    kept = ~np.isnan(lines[0].mean)
    rows = [(dated(edge / 1e6), [f"{each.mean[i]:,.2f}" for each in lines])
            for i, edge in enumerate(lines[0].edges[:-1].tolist()) if kept[i]]  # fmt: skip
    shown = [Binned(each.edges, np.nan_to_num(each.mean), np.nan_to_num(each.mean), each.time) for each in lines]
    chart = count_chart(shown, dates)
    return [
        Figure(
            f"Waits, in {unit}",
            f"by the time of the start; {summary}",
            ["median", "nine in ten at most"],
            chart,
            summary,
            rows,
        )
    ]


def _wait(job: Job, skew: int) -> int:
    """Return how long a job that started had waited since it might start, in microseconds."""
    whole = waited(job) or 0
    return min(whole, max((job.start or 0) - (job.begin or 0) + skew, 0)) if job.begin else whole


def _known(edges: NDArray[Any], values: NDArray[Any], skew: int) -> Binned:
    """Return values of bins; one in which no job started has the value of the bin before it."""
    for i in range(1, len(values)):
        if np.isnan(values[i]):
            values[i] = values[i - 1]
    return Binned(edges + skew, values, values, np.diff(edges).astype(np.float64))


def _user(row: Mapping[str, Any]) -> list[str]:
    waits = [
        "" if row[name] is None else clock_text(round(row[name] * 1e6)) for name in ("median_wait_s", "p90_wait_s")
    ]
    limit = "" if row["limit_used"] is None else f"{row['limit_used']:.0%}"
    counts = [f"{row[name]:,}" for name in ("jobs", "failed", "timeout", "cancelled")]
    return [row["user"], *counts, *waits, f"{row['cpu_h']:,.1f}", limit]


def last_event(folder: Path) -> int:
    """Return the number of the last event of the log. Raises InputError."""
    store = opened(folder)
    try:
        return store.seq
    finally:
        store.close()


def days_of(text: str) -> int:
    """Return a number of days that the page offers."""
    return int(text) if text in map(str, DAYS) else 7


def sentence(found: Facts) -> str:
    """Return how many promised starts were kept."""
    if not found["promised"]:
        return "No start was promised so far"
    if found["kept"] == found["promised"]:
        return (
            f"All {counted(found['promised'], 'promised start')} were kept"
            if found["promised"] > 1
            else "The promised start was kept"
        )
    return f"{found['kept']:,} of {found['promised']:,} promised starts were kept"
