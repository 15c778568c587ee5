"""A workload: the table of jobs that a log, a file or a generator provides to a scheduler."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.model import frames, notebook
from backfill.model.clock import Clock
from backfill.model.constraint import alternatives
from backfill.model.errors import BadArgument, WorkloadError
from backfill.model.names import printable
from backfill.model.units import NEVER, TIME_MAX, counted, seconds_text, span_text

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SPREAD = ("node", "site", "any", "distinct")  # where a gang may run; Jobs.spread holds the index
ANY = SPREAD.index("any")
RESOURCES = ("cpus", "memory", "gpus")  # known in every file
# Label columns of Jobs, in the order of tables.
LABELS = ("user", "group", "project", "partition", "queue", "qos", "reservation", "site", "constraint", "status")
TEXTS = ("job", *LABELS, "licences")  # text columns of a table


@dataclass(frozen=True, eq=False)
class Ragged:
    """A list of whole numbers per job, concatenated: the items of job i are items[first[i]:first[i + 1]]."""

    first: Ints  # shape (jobs + 1,)
    items: Ints  # shape (first[-1],)

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> "Ragged":
        """Build the lists of several jobs from one sequence per job."""
        first = np.zeros(len(lists) + 1, np.int64)
        np.cumsum([len(items) for items in lists], out=first[1:])
        return cls(first, np.array([item for items in lists for item in items], np.int64))

    @classmethod
    def empty(cls, jobs: int) -> "Ragged":
        """Return empty lists for `jobs` jobs."""
        return cls(np.zeros(jobs + 1, np.int64), np.zeros(0, np.int64))

    @staticmethod
    def joined(several: "Sequence[Ragged]") -> "Ragged":
        """Return the lists of several, one or more, in this order."""
        before = np.cumsum([0, *(int(each.first[-1]) for each in several)]).tolist()
        first = [each.first[1:] + begin for each, begin in zip(several, before, strict=False)]
        items = [each.items[: each.first[-1]] for each in several]
        return Ragged(np.concatenate([np.zeros(1, np.int64), *first]), np.concatenate(items))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {counted(len(self), 'job')}: {counted(len(self.items), 'item')}>"

    def __len__(self) -> int:
        return len(self.first) - 1

    def __add__(self, other: "Ragged") -> "Ragged":
        """Return the lists of both, in this order."""
        return Ragged.joined([self, other])

    def __getitem__(self, job: int) -> Ints:
        return self.items[self.first[job] : self.first[job + 1]]

    def take(self, rows: Ints) -> "Ragged":
        """Return the lists of these rows, in this order."""
        if len(rows) == len(self) and np.array_equal(rows, np.arange(len(self))):
            return self
        count = self.first[rows + 1] - self.first[rows]
        first = np.append(0, np.cumsum(count))
        return Ragged(first, self.items[np.arange(first[-1]) + np.repeat(self.first[rows] - first[:-1], count)])


@dataclass(frozen=True, eq=False, repr=False)
class Counted(Ragged):
    """A list of different whole numbers per job, in ascending order, each with a count of 1 or more."""

    counts: Ints  # shape (first[-1],)

    @classmethod
    def of_copies(cls, lists: Ragged) -> "Counted":
        """Build from lists that hold an item once per copy."""
        job = np.repeat(np.arange(len(lists)), np.diff(lists.first))
        return cls.of_items(len(lists), job, lists.items, np.ones(len(lists.items), np.int64))

    @classmethod
    def of_items(cls, jobs: int, job: Ints, item: Ints, count: Ints) -> "Counted":
        """Build from triples of job, item and count in any order; those of the same job and item are summed."""
        if not len(item):
            return cls(np.zeros(jobs + 1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))
        many = int(item.max(initial=0)) + 1
        pairs, inverse = np.unique(job * many + item, return_inverse=True)
        counts = np.zeros(len(pairs), np.int64)
        np.add.at(counts, inverse, count)
        return cls(np.searchsorted(pairs, np.arange(jobs + 1) * many), pairs % many, counts)

    @property
    def jobs(self) -> Ints:
        """The job of each item, shape (first[-1],)."""
        return np.repeat(np.arange(len(self)), np.diff(self.first))

    def counts_of(self, job: int) -> dict[int, int]:
        """Return the items of a job with their counts."""
        items = slice(self.first[job], self.first[job + 1])
        return dict(zip(self.items[items].tolist(), self.counts[items].tolist(), strict=True))

    def take(self, rows: Ints) -> "Counted":
        """Return the lists of these rows, in this order."""
        lists, counts = super().take(rows), Ragged(self.first, self.counts).take(rows)
        return Counted(lists.first, lists.items, counts.items)


@dataclass(frozen=True, eq=False)
class Labels:
    """A text column with few distinct values: a code per job into `names`; -1 is no value."""

    codes: NDArray[np.int32]
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Labels":
        """Build labels from one text per job; codes in order of first appearance; an empty text is no value."""
        if not any(texts):
            return cls.none(len(texts))
        known: dict[str, int] = {"": -1}
        codes = np.fromiter((known.setdefault(text, len(known) - 1) for text in texts), np.int32, len(texts))
        return cls(codes, tuple(known)[1:])

    @classmethod
    def none(cls, jobs: int) -> "Labels":
        """Return labels without a value for `jobs` jobs."""
        return cls(np.full(jobs, -1, np.int32))

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self.names[:5])) + (", ..." if len(self.names) > 5 else "")
        return f"<Labels of {counted(len(self), 'job')}: {counted(len(self.names), 'name')}{shown and ': '}{shown}>"

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, job: int) -> str:
        return self.names[self.codes[job]] if self.codes[job] >= 0 else ""

    def take(self, rows: Ints) -> "Labels":
        """Return the labels of these rows, in this order."""
        return Labels(self.codes[rows], self.names)


@dataclass(frozen=True, eq=False, kw_only=True)
class Jobs:
    """A table of jobs, one row each in file order. Times are int64 microseconds.

    A job is a gang of `tasks` equal tasks that start together; each holds `demand` of every resource. Omitted columns
    get their defaults; shapes, signs and bounds are checked here, once.
    """

    job: NDArray[Any]  # ids, unique: text or integers
    submit: Ints
    runtime: Ints  # true run time, hidden from policies
    walltime: Ints  # requested time, after which a job is killed
    requested: NDArray[np.bool_] = None  # type: ignore[assignment]  # where not, the run time stands for the walltime
    tasks: Ints = None  # type: ignore[assignment]  # default 1
    demand: Ints = None  # type: ignore[assignment]  # shape (jobs, resources), per task; default one cpu
    spread: NDArray[np.int8] = None  # type: ignore[assignment]  # index into SPREAD; default any
    exclusive: NDArray[np.bool_] = None  # type: ignore[assignment]  # has its nodes for itself; default no
    licences: Counted = None  # type: ignore[assignment]  # indexes into Workload.licences; also a Ragged of copies
    deadline: Ints = None  # type: ignore[assignment]  # NEVER = none
    priority: Floats = None  # type: ignore[assignment]  # higher goes first
    admin_priority: Floats = None  # type: ignore[assignment]  # the administrators' own; higher goes first
    user: Labels = None  # type: ignore[assignment]
    group: Labels = None  # type: ignore[assignment]
    project: Labels = None  # type: ignore[assignment]
    partition: Labels = None  # type: ignore[assignment]  # of the nodes, as the site divides them (Slurm)
    queue: Labels = None  # type: ignore[assignment]  # that it was submitted to (PBS, SWF)
    qos: Labels = None  # type: ignore[assignment]  # quality of service (Slurm)
    reservation: Labels = None  # type: ignore[assignment]  # an advance reservation that the job asks for, by name
    site: Labels = None  # type: ignore[assignment]  # pins the job to a site
    constraint: Labels = None  # type: ignore[assignment]  # which nodes it may run on, see constraint.py
    after: Ragged = None  # type: ignore[assignment]  # rows of the jobs that must have ended
    think: Ints = None  # type: ignore[assignment]  # how long after the last of them it may wait for nodes; default 0
    waited: Ints = None  # type: ignore[assignment]  # the wait that the log recorded; -1 = unknown
    status: Labels = None  # type: ignore[assignment]  # how the log says that it ended: completed, failed, cancelled

    def __post_init__(self) -> None:
        n = len(self.job)
        defaults: dict[str, Any] = {
            "requested": lambda: np.ones(n, np.bool_),
            "tasks": lambda: np.ones(n, np.int64),
            "demand": lambda: np.ones((n, 1), np.int64),
            "spread": lambda: np.full(n, ANY, np.int8),
            "exclusive": lambda: np.zeros(n, np.bool_),
            "licences": lambda: Counted.of_copies(Ragged.empty(n)),
            "deadline": lambda: np.full(n, NEVER, np.int64),
            "priority": lambda: np.zeros(n),
            "admin_priority": lambda: np.zeros(n),
            "after": lambda: Ragged.empty(n),
            "think": lambda: np.zeros(n, np.int64),
            "waited": lambda: np.full(n, -1, np.int64),
        }
        for column in fields(self):
            value = getattr(self, column.name)
            if value is None:
                value = defaults.get(column.name, lambda: Labels.none(n))()
                object.__setattr__(self, column.name, value)
            if len(value) != n:
                raise WorkloadError(f"column {column.name} has {len(value)} rows; expected {n}")
        if not isinstance(self.licences, Counted):
            object.__setattr__(self, "licences", Counted.of_copies(self.licences))
        for constraint in self.constraint.names:
            try:
                alternatives(constraint)
            except ValueError as error:
                raise WorkloadError(f"constraint is {error}") from None
        for name, low, high in (
            ("submit", -TIME_MAX, TIME_MAX),
            ("runtime", 0, TIME_MAX),
            ("walltime", 0, TIME_MAX),
            ("think", 0, TIME_MAX),
            ("tasks", 1, 2**40),
            ("demand", 0, 2**62),
        ):
            values = getattr(self, name)
            bad = (values < low) | (values > high)
            if bad.any():
                row, *_ = place = tuple(np.argwhere(bad)[0])
                raise WorkloadError(
                    f"job {self.job[row]}: {name} is {values[place]}; expected {low} to {high} (times in microseconds)"
                )
        if (early := self.deadline < self.submit).any():
            row = int(np.argmax(early))
            raise WorkloadError(f"job {self.job[row]}: its deadline is before its submit")
        held = self.tasks[:, None].astype(np.float64) * self.demand
        if (held > 2.0**62).any():
            row = int(np.argwhere(held > 2.0**62)[0][0])
            raise WorkloadError(f"job {self.job[row]}: its {self.tasks[row]} tasks hold more than 2^62 of a resource")

    def __repr__(self) -> str:
        return f"<Jobs: {counted(len(self), 'job')}; columns {', '.join(self)}>"

    def _repr_html_(self) -> str:
        def cells(row: int) -> list[object]:
            spans = [span_text(int(column[row])) for column in (self.runtime, self.walltime)]
            return [self.job[row], self.user[row], f"{self.procs[row]:,}", seconds_text(int(self.submit[row])), *spans]

        head = ["job", "user", "procs", "submit (s)", "run time", "walltime"]
        return notebook.first_rows(counted(len(self), "job"), head, cells, len(self))

    def __len__(self) -> int:
        return len(self.job)

    def __getitem__(self, column: str) -> Any:
        return getattr(self, column)

    def __iter__(self) -> Iterator[str]:
        return (column.name for column in fields(self))

    def take(self, rows: Ints) -> "Jobs":
        """Return the rows with these indices, in this order. Dependencies on omitted jobs are removed."""
        columns: dict[str, Any] = {
            name: value.take(rows) if isinstance(value := self[name], Ragged | Labels) else value[rows] for name in self
        }
        if len(self.after.items):
            place = {int(row): i for i, row in enumerate(rows)}
            columns["after"] = Ragged.of([[place[r] for r in self.after[row].tolist() if r in place] for row in rows])
            columns["think"] = np.where(np.diff(columns["after"].first) > 0, columns["think"], 0)
        return Jobs(**columns)

    def replace(self, **columns: Any) -> "Jobs":
        """Return a table with these columns replaced."""
        return replace(self, **columns)

    @property
    def procs(self) -> Ints:
        """Processors of the whole job: tasks x cpus per task."""
        return self.tasks * self.demand[:, 0]


@dataclass(frozen=True, eq=False)
class Workload:
    """A table of jobs with its names, its source, and what was dropped or assumed when it was read.

    >>> import backfill as bf
    >>> bf.generate("lublin?jobs=100&cpus=64")
    <Workload lublin: 100 jobs in 21.9 h, 64 cpus>
    """

    jobs: Jobs
    name: str = "jobs"
    resources: tuple[str, ...] = ("cpus",)  # columns of jobs.demand; cpus first
    licences: tuple[str, ...] = ()
    sha256: str = ""  # of the file's bytes, or of the generator's name and arguments
    cpus: int | None = None  # size of the machine, if the source states it
    dropped: dict[str, int] = field(default_factory=dict)  # reason -> dropped rows
    assumed: dict[str, int] = field(default_factory=dict)  # assumption for a missing value -> jobs
    notes: tuple[str, ...] = ()  # what was assumed or looked odd, one sentence each, including `assumed`
    clock: Clock | None = None  # of its times, if the source states it
    platform: Any = None  # the Platform that it was made for, if any
    # Non-default options that were applied: `jobs`, `load`, `dead_time`, `zero_run`, `cancelled`, `think`.
    chosen: dict[str, Any] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()  # ids of jobs of the source that are not in the table

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", printable(self.name))
        if self.jobs.demand.shape[1:] != (len(self.resources),):
            raise WorkloadError(f"{self.name}: demand has {self.jobs.demand.shape[1:]} columns for {self.resources}")

    @classmethod
    def from_pandas(
        cls,
        frame: Any,
        columns: Mapping[str, str] | None = None,
        *,
        resources: Sequence[str] = (),
        timezone: str | None = None,
    ) -> "Workload":
        """Build a workload from a pandas DataFrame with the columns of a workload CSV (docs/reference/files.md).

        columns: names in the frame, such as `{"runtime": "Elapsed"}`. resources: further columns that are resources.
        Instants may be timestamps and spans timedeltas; either may be a number of seconds. timezone: the zone of
        timestamps without one. Raises WorkloadError with row and column, and UsageError for any other type.

        >>> import backfill as bf, pandas as pd
        >>> frame = pd.DataFrame({"job": [1, 2], "submit": [0, 5], "Elapsed": [60, 90]})
        >>> bf.Workload.from_pandas(frame, {"runtime": "Elapsed"})
        <Workload DataFrame: 2 jobs in 5 s>
        """
        from backfill.traces.frames import from_pandas

        return from_pandas(frame, columns, resources, timezone)

    @classmethod
    def from_polars(
        cls,
        frame: Any,
        columns: Mapping[str, str] | None = None,
        *,
        resources: Sequence[str] = (),
        timezone: str | None = None,
    ) -> "Workload":
        """Build a workload from a polars DataFrame; the other arguments and the errors are those of `from_pandas`.

        >>> import backfill as bf, polars as pl
        >>> bf.Workload.from_polars(pl.DataFrame({"job": [1, 2], "submit": [0, 5], "runtime": [60, 90]}))
        <Workload DataFrame: 2 jobs in 5 s>
        """
        from backfill.traces.frames import from_polars

        return from_polars(frame, columns, resources, timezone)

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, Any],
        columns: Mapping[str, str] | None = None,
        *,
        resources: Sequence[str] = (),
        timezone: str | None = None,
    ) -> "Workload":
        """Build a workload from arrays or lists by column, one value per job; the rest is as for `from_pandas`.

        Instants may be datetime64, spans timedelta64; None, NaN and NaT are missing values.

        >>> import backfill as bf, numpy as np
        >>> bf.Workload.from_arrays({"job": ["a", "b"], "submit": np.array([0, 5]), "runtime": [60.5, 90]})
        <Workload arrays: 2 jobs in 5 s>
        """
        from backfill.traces.frames import from_arrays

        return from_arrays(arrays, columns, resources, timezone)

    def __len__(self) -> int:
        return len(self.jobs)

    def __repr__(self) -> str:
        jobs, users = self.jobs, len(set(self.jobs.user.codes.tolist()) - {-1})
        of = f" of {counted(users, 'user')}" if users else ""
        over = f" in {span_text(int(np.ptp(jobs.submit)))}" if len(jobs) > 1 else ""
        machine = f", {counted(self.cpus, 'cpu')}" if self.cpus else ""
        return f"<Workload {self.name}: {counted(len(jobs), 'job')}{of}{over}{machine}>"

    def _repr_html_(self) -> str:
        jobs, users = self.jobs, len(set(self.jobs.user.codes.tolist()) - {-1})
        span = int(jobs.submit.max() - jobs.submit.min()) if len(jobs) else 0
        largest = f"{jobs.procs.max():,}" if len(jobs) else "-"
        facts: list[tuple[str, object]] = [
            ("jobs", f"{len(self):,}"),
            ("submitted over", span_text(span)),
            ("users", f"{users:,}" if users else "not known"),
            ("largest job", f"{largest} cpus"),
            ("machine", "not stated" if self.cpus is None else f"{self.cpus:,} cpus"),
            *((f"left out: {why}", f"{count:,}") for why, count in self.dropped.items()),
        ]
        return notebook.table(self.name, [], facts) + notebook.paragraphs(self.notes)

    def to_polars(self) -> Any:
        """Return the jobs as a polars DataFrame, one row each, times in seconds. Needs the extra `data`.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=100&cpus=64")
        >>> len(log.to_polars())
        100
        """
        return frames.to_polars(self._columns(), TEXTS)

    def to_pandas(self) -> Any:
        """Return the jobs as a pandas DataFrame, one row each, times in seconds. Needs pandas.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=100&cpus=64")
        >>> len(log.to_pandas())
        100
        """
        return frames.to_pandas(self._columns(), TEXTS)

    def _columns(self) -> frames.Columns:
        jobs = self.jobs
        return {
            "job": [str(job) for job in jobs.job.tolist()],
            **{
                name: frames.seconds(jobs[name].tolist(), NEVER)
                for name in ("submit", "runtime", "walltime", "deadline")
            },
            "waited": frames.seconds(jobs.waited.tolist(), -1),
            "tasks": jobs.tasks.tolist(),
            **{name: jobs.demand[:, k].tolist() for k, name in enumerate(self.resources)},
            "priority": jobs.priority.tolist(),
            "admin_priority": jobs.admin_priority.tolist(),
            "licences": [";".join(self.licences_of(row)) for row in range(len(jobs))],
            **{name: [jobs[name][row] for row in range(len(jobs))] for name in LABELS},
        }

    @property
    def calendar(self) -> Clock | None:
        """The clock of its times, stated or guessed; None if neither is possible, or after `at_load`.

        >>> import backfill as bf
        >>> arrays = {"job": [1], "submit": ["2026-03-01T12:00:00"], "runtime": [60]}
        >>> bf.Workload.from_arrays(arrays, timezone="Europe/Berlin").calendar.name
        'Europe/Berlin'
        """
        return None if "load" in self.chosen else self.clock_of_log

    @property
    def clock_of_log(self) -> Clock | None:
        """The clock of the log's times, stated or guessed, also after `at_load`; None if neither is possible.

        >>> import backfill as bf
        >>> bf.generate("lublin?jobs=100&cpus=64").clock_of_log is None
        True
        """
        return self.clock or self._guessed

    @property
    def clock_to_state(self) -> Clock | None:
        """The clock that a copy must state; None if a reader would guess the same.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=100&cpus=64")
        >>> log.clock_to_state is None
        True
        """
        return None if self.calendar == self._guessed else self.calendar

    @property
    def _guessed(self) -> Clock | None:
        return Clock.guess(int(self.jobs.submit.min()) if len(self) else None)

    @property
    def never_ran(self) -> NDArray[np.bool_]:
        """The mask of jobs that the log marks as cancelled and that have run time 0, shape (jobs,).

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=100&cpus=64")
        >>> int(log.never_ran.sum())
        0
        """
        cancelled = [name.lower().startswith("cancel") for name in self.jobs.status.names]
        never: NDArray[np.bool_] = (self.jobs.runtime == 0) & np.array([*cancelled, False])[self.jobs.status.codes]
        return never

    def licences_of(self, row: int) -> list[str]:
        """Return the licences that the job of this row requests, `name:copies` each, by name, as in a workload CSV.

        >>> import backfill as bf
        >>> bf.generate("farm?machines=4&jobs=5").licences_of(0)
        ['l15:1', 'l17:1', 'l3:1', 'l5:1', 'l9:1']
        """
        return sorted(f"{self.licences[k]}:{n}" for k, n in self.jobs.licences.counts_of(row).items())

    @property
    def remarks(self) -> list[str]:
        """The dropped jobs, and what was assumed or looked odd, one sentence each.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=100&cpus=64")
        >>> log.remarks
        ['walltime = run time: the model has no user estimates']
        """
        return remarks(self.dropped, self.notes)

    def with_jobs(self, jobs: Jobs, /, *notes: str, **chosen: Any) -> "Workload":
        """Return the same workload with another table of jobs, and with these notes and options added.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=100&cpus=64")
        >>> len(log.with_jobs(log.jobs.replace(runtime=log.jobs.runtime // 2), "run times halved"))
        100
        """
        return replace(self, jobs=jobs, notes=(*self.notes, *notes), chosen=self.chosen | chosen)

    def row_of(self, job: str, argument: str = "promise") -> int:
        """Return the row of the job with this id. Raises UsageError, which names the argument.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=100&cpus=64")
        >>> log.row_of("7")
        6
        """
        row = next((row for row, each in enumerate(self.jobs.job.tolist()) if str(each) == job), None)
        if row is None:
            raise BadArgument(argument, job, f"the id of one of the {len(self)} jobs of {self.name}")
        return row

    def head(self, count: int) -> "Workload":
        """Return the first `count` jobs in file order.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=100&cpus=64")
        >>> log.head(3)
        <Workload lublin: 3 jobs in 6.4 min, 64 cpus>
        """
        return self.with_rows(np.arange(min(count, len(self))), jobs=count)

    def with_rows(self, rows: Ints, **chosen: Any) -> "Workload":
        """Return the jobs of these rows; the ids of the others are kept in `left_out`.

        >>> import backfill as bf
        >>> import numpy as np
        >>> log = bf.generate("lublin?jobs=100&cpus=64")
        >>> len(log.with_rows(np.array([0, 5, 7])))
        3
        """
        jobs = self.jobs if len(rows) == len(self) else self.jobs.take(rows)
        freed = int((np.diff(jobs.after.first) < np.diff(self.jobs.after.first)[rows]).sum())
        note = f"depended on a job that is left out, and no longer wait for it: {counted(freed, 'job')}"
        kept = self.with_jobs(jobs, *([note] if freed else []), **chosen)
        return replace(kept, left_out=self.left_out | ids_without(self.jobs.job, rows))

    def at_load(self, factor: float) -> "Workload":
        """Return the jobs with inter-arrival times divided by `factor`, rounded to the microsecond. Raises UsageError.

        A deadline keeps its distance from the submit.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=100&cpus=64")
        >>> log.at_load(2.0).chosen
        {'load': 2.0}
        """
        check_load(factor)
        if factor == 1 or not len(self):
            return self
        first = self.jobs.submit.min()
        with np.errstate(over="ignore"):
            after_first = np.rint((self.jobs.submit - first) / factor)
        if first + after_first.max() > TIME_MAX:
            raise BadArgument("load", factor, "a factor that leaves every submit time below 10^11 s")
        submit = first + after_first.astype(np.int64)
        deadline = np.where(self.jobs.deadline < NEVER, self.jobs.deadline - self.jobs.submit + submit, NEVER)
        jobs = self.jobs.replace(submit=submit, deadline=deadline)
        return self.with_jobs(jobs, f"inter-arrival times divided by {factor:g}", load=factor)

    @property
    def dead_time(self) -> int:
        """The time, in microseconds, that each run holds its nodes beyond its run time; included in `runtime` here.

        >>> import backfill as bf
        >>> bf.generate("lublin?jobs=100&cpus=64").with_dead_time(1_500_000).dead_time
        1500000
        """
        span: int = self.chosen.get("dead_time", 0)
        return span

    def with_dead_time(self, span: int) -> "Workload":
        """Return the jobs, each of which holds its nodes `span` microseconds longer than it runs. Raises UsageError.

        This simulates a pool's overhead: the time to prepare nodes, to notice that a job has ended, and to
        clean up. Walltimes grow by it as well, so the same jobs are killed, and policies plan with it; a deadline
        moves by the same time. Metrics exclude the dead time from run times and response times.

        >>> import backfill as bf
        >>> log = bf.generate("lublin?jobs=100&cpus=64")
        >>> bf.simulate(log, policy="easy")
        <Result of easy on lublin: 100 jobs on 64 cpus: mean wait 31.3 min, longest 309 min>
        >>> longer = bf.simulate(log.with_dead_time(60_000_000), policy="easy")
        >>> longer.metrics["mean_wait_s"] > 31.3 * 60
        True
        """
        if not 0 <= span <= TIME_MAX:
            raise BadArgument("dead_time", span, "a number of microseconds from 0 to 10^17")
        if not span:
            return self
        jobs = self.jobs
        deadline = np.where(jobs.deadline < NEVER, jobs.deadline + span, NEVER)
        longer = jobs.replace(runtime=jobs.runtime + span, walltime=jobs.walltime + span, deadline=deadline)
        total_span = self.dead_time + span
        note = f"each run holds its nodes {span_text(span)} longer than it runs (dead time)"
        return self.with_jobs(longer, note, dead_time=total_span)


def ids_without(ids: NDArray[Any], rows: Ints) -> frozenset[str]:
    """Return the ids of all but these rows, as texts."""
    others = np.ones(len(ids), np.bool_)
    others[rows] = False
    return frozenset(str(job) for job in ids[others].tolist())


def remarks(dropped: Mapping[str, int], notes: Sequence[str]) -> list[str]:
    """Return sentences about dropped jobs, and further notes."""
    return [*(f"left out {counted(n, 'job')}: {why}" for why, n in dropped.items()), *notes]


def check_load(factor: float) -> None:
    """Raise UsageError unless inter-arrival times can be divided by this factor."""
    if not 0 < factor < np.inf:
        raise BadArgument("load", factor, "a finite number > 0")


def total(values: Ints) -> int:
    """Return the exact sum, also beyond 2^63."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())
