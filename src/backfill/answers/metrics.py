"""The metrics of a queue in the text format of Prometheus: what the daemon measures, and what its log tells.

Counters begin with the log, so they survive a restart of the daemon. Seconds and bytes, no label for a job or a user.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backfill.queue import events
from backfill.queue.events import Entry, JobEvent
from backfill.queue.measured import LONG, QUICK, Histogram
from backfill.queue.nodes import MACHINE, Amounts, Nodes, Placement
from backfill.queue.states import OVER
from backfill.queue.store import Store

PREFIX = "backfill_"
TYPE = "text/plain; version=0.0.4; charset=utf-8"
SLICE, PAUSE_S = 200, 0.002  # events that are read at once at first, and the pause after them, for the daemon's thread
LEAST_RUN_S = 10.0  # of the bounded slowdown
SLOWDOWN = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)
QUANTILES = ("1", "0.5", "0.9")  # of the estimates that are shown: the guaranteed, the likely start, the 90 % bound
RULES = ("lost", "twice", "capacity")  # promises of a queue that no event of its log may break
BUG = "bug"  # the cause of a broken promise that nothing explains
DRIFT = {"adopted": "adopted", "began": "foreign-start", "declined": "declined", "spared": "spared"}  # by event

TOTALS = ("jobs_submitted_total", "backfilled_jobs_total", "promises_kept_total", "launch_failures_total",
          "planner_restarts_total")  # fmt: skip

LABELS: dict[str, tuple[str, ...]] = {  # of the metrics that have some
    "build_info": ("version",), "policy_info": ("policy",), "jobs": ("state",), "jobs_ended_total": ("state",),
    **{f"resource_{what}": ("resource",) for what in ("capacity", "used", "reserved")},
    **{f"licence_{what}": ("licence",) for what in ("copies", "ours", "others", "stale")},
    "starts_total": ("reason",), "reservation_slips_total": ("cause",), "violations_total": ("rule",),
    "pool_drift_total": ("kind",), "start_estimate_error_seconds": ("quantile_shown", "direction"),
}  # fmt: skip

Values = Mapping[str, Sequence[tuple[Mapping[str, str], Any]]]  # by metric: labels, and a number or Histogram.facts

# name -> type and meaning, in the order in which they are printed; docs/reference/monitoring.md has this table.
METRICS: dict[str, tuple[str, str]] = {
    "build_info": ("gauge", "1; the label says the version of the daemon."),
    "policy_info": ("gauge", "1; the label says the policy that decides."),
    "up": ("gauge", "Whether the daemon answered."),
    "written_timestamp_seconds": ("gauge", "When these metrics were read."),
    "daemon_start_timestamp_seconds": ("gauge", "When the daemon started."),
    "planner_ready": ("gauge", "Whether the planner of the policy answers."),
    "paused": ("gauge", "Whether the queue is paused, so that nothing starts."),
    "clock_lag_seconds": ("gauge", "By how much the earliest timer of the daemon is overdue."),
    "wal_bytes": ("gauge", "Size of the write-ahead log of the store."),
    "store_bytes": ("gauge", "Size of the store."),
    "forecast_age_seconds": ("gauge", "Age of the last estimates of starts; absent if there are none."),
    "jobs": ("gauge", "Open jobs by state."),
    "resource_capacity": ("gauge", "Capacity of a resource; memory in bytes."),
    "resource_used": ("gauge", "What jobs hold of a resource."),
    "resource_reserved": ("gauge", "What open advance reservations have of a resource."),
    "licence_copies": ("gauge", "Copies of a licence by its server, or by the settings."),
    "licence_ours": ("gauge", "Copies of a licence that jobs of this queue hold."),
    "licence_others": ("gauge", "Copies of a licence that others use, by its server."),
    "licence_stale": ("gauge", "Whether the server of a licence does not answer."),
    "nodes": ("gauge", "Nodes of the platform."),
    "nodes_out": ("gauge", "Nodes that have less than the platform states."),
    "over_capacity": ("gauge", "Resources of nodes of which jobs hold more than is stated."),
    "jobs_submitted_total": ("counter", "Jobs that were submitted, or became known."),
    "jobs_ended_total": ("counter", "Jobs that are over, by state."),
    "starts_total": ("counter", "Starts by reason, in the words of the policy."),
    "backfilled_jobs_total": ("counter", "Starts of jobs before others that were ahead of them."),
    "job_wait_seconds": ("histogram", "Wait of jobs from submit to first start."),
    "job_bounded_slowdown": ("histogram", "Time from submit to end by run time, of at least 10 s."),
    "start_estimate_error_seconds": ("histogram", "Difference between the last start that was shown and the real one."),
    "promises_kept_total": ("counter", "Guaranteed starts that were kept."),
    "reservation_slips_total": ("counter", "Guaranteed starts that came later, by cause; bug: nothing explains it."),
    "violations_total": ("counter", "Events of the log that break a promise of the queue, by rule."),
    "launch_failures_total": ("counter", "Attempts that could not be launched."),
    "planner_restarts_total": ("counter", "Times at which the planner had ended."),
    "pool_drift_total": ("counter", "Events of the pool that the queue did not decide, by kind."),
    "launch_duration_seconds": ("histogram", "Time from a decided start until the processes of the job were seen."),
    "pass_duration_seconds": ("histogram", "Time of a decision of the policy, since the daemon started."),
    "submit_duration_seconds": ("histogram", "Time from a submit until it is on disk, since the daemon started."),
    "commit_duration_seconds": ("histogram", "Time of a transaction of the store, since the daemon started."),
}


# Kinds of the events that are counted.
KINDS = tuple(each.kind for each in (
    events.Capacity, events.NodeSet, events.PlannerDown, events.Shown, events.Submit, events.Adopted, events.Edit,
    events.Promise, events.Declined, events.Spared, events.Preempted, events.Start, events.Began, events.Spawned,
    events.Unstarted, events.Requeue, events.End))  # fmt: skip


@dataclass(slots=True)
class _Open:
    """A job that is not over."""

    submit: int
    need: Amounts
    tasks: int
    again: bool  # it may run again if it was lost
    runs: int = 0  # attempts that may have run
    waited: bool = False  # it was started once
    ran: int = 0  # microseconds of them
    start: int | None = None
    nodes: Placement | None = None  # what its attempt holds; None if it holds nothing
    cpus: Sequence[int] = ()
    gpus: Sequence[int] = ()
    promised: bool = False
    shown: list[Any] = field(default_factory=list)  # guaranteed, likely, and bound


class Counted:
    """The counters and histograms that follow from the log. Call `read` from time to time."""

    def __init__(self) -> None:
        self.seq = 0  # the last event that was counted
        self._jobs: dict[int, _Open] = {}
        self._nodes = Nodes({})
        self._busy: Counter[tuple[str, int]] = Counter()
        self._counts: dict[str, Counter[str]] = {
            "jobs_ended_total": Counter(dict.fromkeys(OVER, 0)),
            "starts_total": Counter(),
            "reservation_slips_total": Counter({BUG: 0}),
            "violations_total": Counter(dict.fromkeys(RULES, 0)),
            "pool_drift_total": Counter(dict.fromkeys(DRIFT.values(), 0)),
        }
        self._totals = Counter(dict.fromkeys(TOTALS, 0))
        self._waits, self._slowdowns, self._launches = Histogram(LONG), Histogram(SLOWDOWN), Histogram(QUICK)
        self._errors = {(q, side): Histogram(LONG) for q in QUANTILES for side in ("early", "late")}

    def read(self, store: Store, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Count the events since the last call, a long log in slices, until there are none or `goes_on` is false.

        The last events are read together with the table of jobs, which must have the jobs that are open by the log.
        """
        while store.seq - self.seq > SLICE:
            before = self.seq
            self.count(store.events(self.seq, KINDS, most=SLICE))
            if self.seq == before:
                break
            if not goes_on():
                return
            time.sleep(PAUSE_S)
        with store.still():
            self.count(store.events(self.seq, KINDS))
            self.seq = store.seq
            missing = len(self._jobs) - store.count("end_us IS NULL", ())
        violations = self._counts["violations_total"]
        violations["lost"] = max(violations["lost"], missing)

    def count(self, entries: Iterable[Entry]) -> None:
        """Count some events."""
        for event, t, seq in entries:
            self.seq = seq or self.seq
            match event:
                case events.Capacity():
                    self._nodes = Nodes({MACHINE: event.resources} if event.nodes is None else event.nodes)
                    for job in self._jobs.values():
                        if job.nodes is not None:
                            self._nodes.take(self._nodes.parts(job.need, job.nodes))
                case events.NodeSet():
                    self._nodes.set(event.node, event.resources)
                case events.Shown():
                    for number, *shown in event.estimates:
                        if number in self._jobs:
                            self._jobs[number].shown = shown[: len(QUANTILES)]
                case events.PlannerDown():
                    self._totals["planner_restarts_total"] += 1
                case JobEvent():
                    self._job_event(event, t)

    def _job_event(self, event: JobEvent, t: int) -> None:
        if (kind := DRIFT.get(event.kind)) is not None:
            self._counts["pool_drift_total"][kind] += 1
        if isinstance(event, events.Submit | events.Adopted | events.Began) and event.row is not None:
            self._enter(event.job, event.row, t)
        job = self._jobs.get(event.job)
        if job is None:
            self._wrong("twice", isinstance(event, events.Start))  # of a job that is over, or was never submitted
            return
        match event:
            case events.Edit():
                job.need, job.tasks = event.to.get("need", job.need), event.to.get("tasks", job.tasks)
            case events.Promise():
                job.promised = True
            case events.Start():
                self._start(job, event.start, event.nodes, event.cpu_ids, event.gpu_ids)
                self._wrong("capacity", self._exceeds(job))
                self._started(job, event)
            case events.Began():
                self._start(job, event.start, event.nodes, event.cpu_ids, event.gpu_ids)
            case events.Adopted():
                row = event.row
                self._start(job, row["start"], row.get("nodes"), row.get("cpu_ids", ()), row.get("gpu_ids", ()))
            case events.Spawned() if job.start is not None:
                self._launches.observe(max(t - job.start, 0) / 1e6)
            case events.Unstarted():
                self._totals["launch_failures_total"] += event.launch
                job.runs -= 1
                self._leave(job, None)
            case events.Preempted():
                job.runs -= 1
                self._leave(job, t)
            case events.Requeue():
                job.runs -= event.asked or event.retry > 0
                self._leave(job, t)
            case events.End():
                end = t if event.ended is None else event.ended
                self._leave(job, end)
                del self._jobs[event.job]
                self._counts["jobs_ended_total"][event.state] += 1
                if job.ran:
                    slowdown = (end - job.submit) / 1e6 / max(job.ran / 1e6, LEAST_RUN_S)
                    self._slowdowns.observe(max(slowdown, 1.0))

    def _enter(self, number: int, row: Mapping[str, Any], t: int) -> None:
        known = self._jobs.pop(number, None)
        if known is None:
            self._totals["jobs_submitted_total"] += 1
        else:
            self._leave(known, t)
        submit = row.get("submit") or t
        job = _Open(submit, row.get("need", {}), row.get("tasks", 1), row.get("requeue", False))
        self._jobs[number] = job
        if known is not None:
            job.ran, job.runs, job.waited = known.ran, max(known.runs - 1, 0), known.waited

    def _start(self, job: _Open, start: int, nodes: Placement | None, cpus: Sequence[int], gpus: Sequence[int]) -> None:
        """Let an attempt hold what it has; it must not be the second one of its job at once."""
        self._wrong("twice", job.nodes is not None)
        self._leave(job, start)
        if not job.waited:
            self._waits.observe(max(start - job.submit, 0) / 1e6)
        job.waited = True
        job.runs += 1
        self._wrong("twice", job.runs > 1 and not job.again)
        job.start, job.nodes, job.cpus, job.gpus = start, nodes or [[MACHINE, job.tasks]], cpus, gpus
        self._hold(job, 1)

    def _hold(self, job: _Open, sign: int) -> None:
        self._nodes.take(self._nodes.parts(job.need, job.nodes or ()), sign)
        for kind, some in (("cpu", job.cpus), ("gpu", job.gpus)):
            for one in some:
                self._busy[kind, one] += sign

    def _leave(self, job: _Open, end: int | None) -> None:
        """Let the attempt of a job hold nothing any more. end: None if it never began."""
        if job.nodes is not None and job.start is not None:
            self._hold(job, -1)
            job.ran += 0 if end is None else max(end - job.start, 0)
        job.start = job.nodes = None
        job.cpus = job.gpus = ()

    def _exceeds(self, job: _Open) -> bool:
        """Return whether more is held than there is of what a job has just taken, or something of it by two jobs."""
        nodes = self._nodes
        return any(
            nodes.held[place][name] > nodes.there.get(place, {}).get(name, 0)
            for place, name, _ in nodes.parts(job.need, job.nodes or ())
        ) or any(self._busy[kind, one] > 1 for kind, some in (("cpu", job.cpus), ("gpu", job.gpus)) for one in some)

    def _started(self, job: _Open, event: events.Start) -> None:
        """Count a decided start: its reason, its promise, and the estimates that were shown."""
        self._counts["starts_total"][event.why] += 1
        self._totals["backfilled_jobs_total"] += event.why == "backfill"
        if event.slip:
            self._counts["reservation_slips_total"][event.slip] += 1
        elif job.promised:
            self._totals["promises_kept_total"] += 1
        for quantile, shown_s in zip(QUANTILES, job.shown, strict=False):
            if shown_s is not None:
                error_s = event.start / 1e6 - shown_s
                self._errors[quantile, "late" if error_s > 0 else "early"].observe(abs(error_s))
        job.promised, job.shown = False, []

    def _wrong(self, rule: str, wrong: bool) -> None:
        self._counts["violations_total"][rule] += wrong

    def values(self) -> Values:
        """Return what was counted."""
        found: dict[str, Sequence[tuple[Mapping[str, str], Any]]] = {
            name: [({LABELS[name][0]: each}, count) for each, count in counts.items()]
            for name, counts in self._counts.items()
        }
        found |= {name: [({}, count)] for name, count in self._totals.items()}
        for name, each in (("job_wait_seconds", self._waits), ("job_bounded_slowdown", self._slowdowns),
                           ("launch_duration_seconds", self._launches)):  # fmt: skip
            found[name] = [({}, each.facts())]
        found["start_estimate_error_seconds"] = [
            (dict(zip(LABELS["start_estimate_error_seconds"], labels, strict=True)), each.facts())
            for labels, each in self._errors.items()
        ]
        return found


def exposition(values: Values) -> str:
    """Return metrics in the text format."""
    return "".join(_lines(values))


def _lines(values: Values) -> Iterator[str]:
    for name, (kind, about) in METRICS.items():
        if name in values:
            yield f"# HELP {PREFIX}{name} {about}\n# TYPE {PREFIX}{name} {kind}\n"
            for labels, value in values[name]:
                yield from _histogram(name, labels, value) if kind == "histogram" else [_sample(name, labels, value)]


def _histogram(name: str, labels: Mapping[str, str], facts: Mapping[str, Any]) -> Iterator[str]:
    total = 0
    for bound, count in zip([*facts["bounds"], "+Inf"], facts["counts"], strict=True):
        total += count
        yield _sample(f"{name}_bucket", {**labels, "le": bound if isinstance(bound, str) else f"{bound:g}"}, total)
    yield _sample(f"{name}_sum", labels, facts["sum"])
    yield _sample(f"{name}_count", labels, total)


def _sample(name: str, labels: Mapping[str, str], value: float | bool) -> str:
    text = ",".join(f'{label}="{_escaped(each)}"' for label, each in labels.items())
    return f"{PREFIX}{name}{f'{{{text}}}' if text else ''} {float(value):.17g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
