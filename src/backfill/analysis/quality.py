"""The quality of a log: jobs kept, dropped and odd, values assumed, and the load over the weeks.

Source: Feitelson, Tsafrir and Krakov 2014 (JPDC 74(10), 2967-2982), who describe the flaws of logs of the Parallel
Workloads Archive. docs/reference/quality.md has a line on each finding.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.analysis.recorded import Explained, explain
from backfill.analysis.weeks import WEEK, Flurry, SubmitGap, Weeks, flurries, gaps
from backfill.model import notebook
from backfill.model.errors import wrong_type
from backfill.model.platform import Platform
from backfill.model.units import SECOND, amount, counted
from backfill.model.workload import Ints, Jobs, Labels, Workload

SHOWN = 40  # characters of a name shown in a sentence
OVERRUN = 60 * SECOND  # a run beyond the walltime by more than this is not due to a slow kill

_EXPECTED = ("user", "group", "partition", "queue", "qos", "status")  # expected of all jobs, if some have it

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Finding:
    """A property that holds for some of the jobs."""

    kind: str  # dropped, assumed or odd
    what: str
    jobs: int
    first: str = ""  # the id of the first such job, if known


@dataclass(frozen=True, slots=True)
class Asked:
    """The amount of a resource that jobs request, per task."""

    resource: str
    jobs: int  # jobs that request some
    median: int  # of these
    most: int

    def __str__(self) -> str:
        """Return the text for a sentence."""
        typical, most = (amount(self.resource, value) for value in (self.median, self.most))
        return f"{self.resource} by {counted(self.jobs, 'job')}, {typical} at the median and {most} at most"


@dataclass(frozen=True, eq=False, kw_only=True)
class Quality:
    """The quality of a log, judged before any simulation."""

    name: str
    kept: int
    cpus: int | None  # of the machine; None = not known
    span: int  # microseconds from the first submit to the last
    users: int
    groups: int
    status: dict[str, int]  # how the jobs ended, as far as the log states
    partitions: dict[str, int]  # number of jobs in each
    queues: dict[str, int]
    qos: dict[str, int]
    asked: tuple[Asked, ...]  # cpus first
    constrained: int  # jobs restricted to some of the nodes
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...]  # further sentences of the reader
    weeks: Weeks
    gaps: tuple[SubmitGap, ...]
    flurries: tuple[Flurry, ...]
    explained: Explained | None  # whether the machine explains the recorded waits; None = no waits, or no machine

    def __repr__(self) -> str:
        machine = "" if self.cpus is None else f", {counted(self.cpus, 'cpu')}"
        return f"<Quality of {self.name}: {self.kept:,} of {counted(self.read, 'job')} kept{machine}>"

    def _repr_html_(self) -> str:
        rows = [
            [kind, what, f"{jobs:,}", "" if share is None else f"{share:.1%}", first]
            for kind, what, jobs, share, first in self.rows()
        ]
        head = ["", "", "jobs", "share", "first"]
        return notebook.table(self.name, head, rows) + notebook.paragraphs([*self.named(), *self.sentences()])

    @property
    def read(self) -> int:
        """The number of all jobs of the log."""
        return self.kept + sum(finding.jobs for finding in self.of("dropped"))

    def of(self, kind: str) -> list[Finding]:
        """Return the findings of one kind: dropped, assumed or odd."""
        return [finding for finding in self.findings if finding.kind == kind]

    def rows(self) -> list[tuple[str, str, int, float | None, str]]:
        """Return the rows (kind, what, jobs, share, first such job). Shares of dropped jobs are of all jobs read."""
        table: list[tuple[str, str, int, float | None, str]] = [("read", "", self.read, None, "")]
        table.append(("kept", "", self.kept, self.kept / self.read if self.read else None, ""))
        for each in self.findings:
            whole = self.read if each.kind == "dropped" else self.kept
            table.append((each.kind, each.what, each.jobs, each.jobs / whole if whole else None, each.first))
        return table

    def named(self) -> list[str]:
        """Return the partitions, queues and qos that jobs name, one sentence each."""
        of = {"partitions": self.partitions, "queues": self.queues, "qos": self.qos}
        return [f"{kind}: {_used(jobs)}" for kind, jobs in of.items() if jobs]

    def sentences(self) -> list[str]:
        """Return sentences about the log as a whole: recorded waits, gaps, flurries, further remarks of the reader."""
        texts = [] if self.explained is None else [self.explained.sentence()]
        if len(self.asked) > 1:
            texts.append(f"per task: {'; '.join(map(str, self.asked))}")
        if self.constrained:
            texts.append(f"constraints: {counted(self.constrained, 'job')} may run only on some of the nodes")
        if self.kept and not len(self.weeks):
            texts.append(f"the submits span {self.span / (52 * WEEK):,.0f} years: too long for a chart of load by week")
        if self.gaps:
            hours = (self.gaps[0].end - self.gaps[0].begin) / (3600 * SECOND)
            several = "1 gap" if len(self.gaps) == 1 else f"{len(self.gaps)} gaps, the longest"
            texts.append(
                f"gaps: {several} of {hours:,.0f} h without a submit, before job {_short(self.gaps[0].next_job)}"
            )
        for each in self.flurries:
            when = f"week {each.first_week}"
            when += f" to {each.last_week}" if each.last_week > each.first_week else ""
            texts.append(f"flurry: user {_short(each.user)} submits {each.jobs:,} of {each.of:,} jobs in {when}")
        return [*texts, *self.remarks]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON; times in seconds."""
        weeks = self.weeks
        return {
            "name": self.name,
            "read": self.read,
            "kept": self.kept,
            "cpus": self.cpus,
            "span_s": self.span / SECOND,
            "users": self.users,
            "groups": self.groups,
            "status": self.status,
            "partitions": self.partitions,
            "queues": self.queues,
            "qos": self.qos,
            "asked": [{"resource": a.resource, "jobs": a.jobs, "median": a.median, "most": a.most} for a in self.asked],
            "constrained": self.constrained,
            "dropped": {each.what: each.jobs for each in self.of("dropped")},
            "assumed": {each.what: each.jobs for each in self.of("assumed")},
            "odd": [{"what": each.what, "jobs": each.jobs, "first": each.first} for each in self.of("odd")],
            "remarks": list(self.remarks),
            "gaps": [{"begin_s": g.begin / SECOND, "end_s": g.end / SECOND, "next_job": g.next_job} for g in self.gaps],
            "flurries": [
                {"user": f.user, "first_week": f.first_week, "last_week": f.last_week, "jobs": f.jobs, "of": f.of}
                for f in self.flurries
            ],
            "weeks": [
                {
                    "begin_s": (weeks.begin + i * WEEK) / SECOND,
                    "jobs": int(weeks.jobs[i]),
                    "users": int(weeks.users[i]),
                    "submitted_cpus": float(weeks.work[i]),
                    "held_cpus": None if weeks.held is None else float(weeks.held[i]),
                }
                for i in range(len(weeks))
            ],
            "waits": None if self.explained is None else self.explained.to_dict(),
        }


def quality(workload: Workload, platform: Platform | None = None) -> Quality:
    """Judge a log. Without a platform, the size that the log states is used; if it states none, size is not judged.

    >>> import backfill as bf
    >>> arrays = {"job": [1, 2], "submit": [0, 5], "runtime": [60, 90], "walltime": [60, 60]}
    >>> [finding.what for finding in bf.quality(bf.Workload.from_arrays(arrays)).findings]
    ['processors missing: taken as 1', 'run time longer than the walltime']
    """
    if not isinstance(workload, Workload):
        raise wrong_type("workload", workload, "a Workload, such as that of read(file)")
    jobs = workload.jobs
    if platform is None and isinstance(workload.platform, Platform):
        platform = workload.platform
    cpus = platform.cpus if platform else workload.cpus
    odd = _odd(jobs, cpus) | (_beyond_nodes(workload, platform) if platform else {})
    findings = (
        *(Finding("dropped", what, count) for what, count in workload.dropped.items()),
        *(Finding("assumed", what, count) for what, count in workload.assumed.items()),
        *(
            Finding("odd", what, int(np.count_nonzero(which)), str(jobs.job[int(np.argmax(which))]))
            for what, which in odd.items()
            if which.any()
        ),
    )
    counted_notes = {*workload.assumed, *odd}
    weeks = Weeks.of(workload)
    return Quality(
        name=workload.name,
        kept=len(jobs),
        cpus=cpus,
        span=int(np.ptp(jobs.submit)) if len(jobs) else 0,
        users=int(np.count_nonzero(_counts(jobs.user))),
        groups=int(np.count_nonzero(_counts(jobs.group))),
        status=_named(jobs.status),
        partitions=_named(jobs.partition),
        queues=_named(jobs.queue),
        qos=_named(jobs.qos),
        asked=_asked(workload),
        constrained=int(np.count_nonzero(jobs.constraint.codes >= 0)),
        findings=findings,
        remarks=tuple(note for note in workload.notes if note.rpartition(": ")[0] not in counted_notes),
        weeks=weeks,
        gaps=tuple(gaps(workload)),
        flurries=tuple(flurries(weeks, jobs.user.names)),
        explained=explain(workload, platform or cpus) if cpus else None,
    )


def _counts(labels: Labels) -> Ints:
    """Return the number of jobs per name."""
    return np.bincount(labels.codes + 1, minlength=len(labels.names) + 1)[1:]


def _named(labels: Labels) -> dict[str, int]:
    """Return the number of jobs per name, without unused names."""
    return {name: n for name, n in zip(labels.names, _counts(labels).tolist(), strict=True) if n}


def _short(name: str) -> str:
    return name if len(name) <= SHOWN else name[: SHOWN - 3] + "..."


def _used(named: dict[str, int]) -> str:
    """Phrase the number of names in use, and the most frequent of them."""
    jobs, (most, often) = sum(named.values()), max(named.items(), key=lambda pair: pair[1])
    which = _short(most) if len(named) == 1 else f"most often {_short(most)}, {often / jobs:.0%}"
    return f"{len(named)} ({which}), used by {counted(jobs, 'job')}"


def _odd(jobs: Jobs, cpus: int | None) -> dict[str, Mask]:
    """Return the jobs that are legal but look odd, by reason."""
    over = jobs.runtime - jobs.walltime
    held = jobs.runtime > 0
    return {
        "submitted before the previous job": np.diff(jobs.submit, prepend=jobs.submit[:1]) < 0,
        "run time longer than the walltime": over > 0,
        "of these, by more than a minute": over > OVERRUN,
        "walltime 0: killed at the start": held & (jobs.walltime == 0),
        **({} if cpus is None else {"needs more cpus than the machine has": jobs.procs > cpus}),
        "no cpus": jobs.procs == 0,
        "run time 0": ~held,
        "run time 0, but completed": ~held & _is(jobs, "completed"),
        "cancelled, but with a run time": held & _is(jobs, "cancel"),
        **{f"no {name}, although others have one": _partly(jobs[name].codes < 0) for name in _EXPECTED},
        "no recorded wait, although others have one": _partly(jobs.waited < 0),
    }


def _beyond_nodes(workload: Workload, platform: Platform) -> dict[str, Mask]:
    """Return the jobs that no node can run: too much per task for any node, or a constraint that none meets."""
    most = dict(zip(platform.resources, platform.capacity.max(axis=0).tolist(), strict=True))
    beyond = {
        f"needs more {name} per task than any node has": workload.jobs.demand[:, k] > most.get(name, 0)
        for k, name in enumerate(workload.resources)
        if platform.bounds(name) and (k or len(platform.nodes) > 1)
    }
    constraint = workload.jobs.constraint
    nowhere = [not platform.allows(text).any() for text in constraint.names]
    return beyond | {"constraint that no node meets": np.array([*nowhere, False])[constraint.codes]}


def _asked(workload: Workload) -> tuple[Asked, ...]:
    asked = []
    for k, name in enumerate(workload.resources):
        amounts = workload.jobs.demand[:, k]
        amounts = np.sort(amounts[amounts > 0])
        if len(amounts):
            asked.append(Asked(name, len(amounts), int(amounts[(len(amounts) - 1) // 2]), int(amounts[-1])))
    return tuple(asked)


def _is(jobs: Jobs, status: str) -> Mask:
    """Return the jobs whose status begins with this text, in any case."""
    matches = [name.lower().startswith(status) for name in jobs.status.names]
    return np.array([*matches, False])[jobs.status.codes]


def _partly(missing: Mask) -> Mask:
    """Return the jobs without the value, or none of them if all lack it."""
    return missing & (not missing.all())
