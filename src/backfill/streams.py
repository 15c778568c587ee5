"""A run of which neither the log nor the results need fit into memory."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from backfill import __version__
from backfill.analysis.metrics import Metrics
from backfill.analysis.totals import Totals
from backfill.api import check_inputs, rejected_note
from backfill.core.policy import json_value
from backfill.model import notebook
from backfill.model.errors import BackfillError, BadArgument, UsageError, at
from backfill.model.platform import Platform
from backfill.model.units import counted, span
from backfill.model.workload import Ints, Workload
from backfill.spec import Chosen, Given, Params, RunSpec, shows_given
from backfill.system.memory import give_back
from backfill.traces.columns import parquet_writer
from backfill.traces.files import make_folder, written_text
from backfill.traces.parts import FORMATS, Folder
from backfill.workloads import generate, in_parts
from backfill.worlds.blame import blaming
from backfill.worlds.rules import with_default_walltimes
from backfill.worlds.simulated import Progress
from backfill.worlds.streamed import Part, Stream, check_streams, parts_of

PART = 262_144  # jobs that enter memory together
SCHEMA = 1  # version of stream.json


@dataclass(frozen=True, eq=False)
class Source:
    """The jobs of a stream: the first part of them, and the others."""

    first: Workload  # the whole log, if it is in memory
    parts: Iterable[Part]  # also the first one
    jobs: int  # number of all of them
    last: int | None  # submit of the last one; None if that is not known before

    @classmethod
    def of(cls, log: Workload | str, part: int) -> "Source":
        """Return the jobs of a workload, or those that a model's text describes. Raises UsageError."""
        if not 1 <= part <= 2**24:
            raise BadArgument("part", part, f"a number of jobs from 1 to {2**24}")
        if isinstance(log, str):
            drawn = in_parts(log, part)
            if drawn is not None:
                parts, jobs = drawn
                first = next(parts)
                return cls(first, _numbered(first, parts), jobs, None)
            log = generate(log)
        last = int(log.jobs.submit.max()) if len(log) else 0
        return cls(log, parts_of(log, part), len(log), last)


def _numbered(first: Workload, others: Iterator[Workload]) -> Iterator[Part]:
    yield Part(first, np.arange(len(first)))
    came = len(first)
    del first
    for each in others:
        yield Part(each, np.arange(came, came + len(each)))
        came += len(each)


@dataclass(frozen=True, eq=False, kw_only=True)
class Streamed:
    """The totals of a stream, whose schedule is in a folder.

    >>> import backfill as bf
    >>> bf.stream("lublin?jobs=1000&cpus=64", policy="easy", to="streamed")
    <Streamed of easy on lublin: 1,000 jobs on 64 cpus: mean wait 3.0 h, longest 32.6 h; in streamed>
    """

    folder: Path
    name: str  # of the log
    sha256: str
    jobs: int
    platform: Platform
    spec: RunSpec
    part: int
    files: Mapping[str, int]  # the files of the schedule, and how many jobs each has
    metrics: Metrics
    rejected: Mapping[str, int]  # number of rejected jobs by cause
    notes: list[str]
    most_rows: int  # the most jobs that were in memory at once
    passes: int  # of the policy

    @property
    def title(self) -> str:
        """The workload and the platform in one line.

        >>> import backfill as bf
        >>> bf.stream("lublin?jobs=100&cpus=64", policy="fcfs", to="streamed").title
        'lublin: 100 jobs on 64 cpus'
        """
        return f"{self.name}: {counted(self.jobs, 'job')} on {self.platform.size_text}"

    def __repr__(self) -> str:
        from backfill.report.values import wait_unit

        unit = wait_unit([self.metrics])
        mean, most = (span(self.metrics.get(name) or 0, unit) for name in ("mean_wait_s", "max_wait_s"))
        return f"<Streamed of {self.spec.name} on {self.title}: mean wait {mean}, longest {most}; in {self.folder}>"

    def _repr_html_(self) -> str:
        from backfill.report.values import columns, headline

        cells = columns(headline([self.metrics]), [self.metrics])
        return notebook.table(
            self.title, ["policy", *(head for head, _ in cells)], [[self.spec.name, *(c for _, (c,) in cells)]]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the content of stream.json.

        >>> import backfill as bf
        >>> bf.stream("lublin?jobs=100&cpus=64", policy="fcfs", to="streamed", part=50).to_dict()["files"]
        [{'file': 'schedule-000001.csv', 'jobs': 50}, {'file': 'schedule-000002.csv', 'jobs': 50}]
        """
        spec = self.spec
        params = spec.policy.in_full(spec.params)
        return {
            "schema": SCHEMA,
            "backfill": __version__,
            "policy": spec.policy.name,
            "params": {name: json_value(value) for name, value in params.items()},
            "workload": {"name": self.name, "sha256": self.sha256, "jobs": self.jobs},
            "platform": self.platform.as_dict(),
            "seed": spec.options.seed,
            "options": {**spec.options.to_dict(), "warmup": str(spec.warmup), "cooldown": str(spec.cooldown)},
            "part": self.part,
            "files": [{"file": name, "jobs": jobs} for name, jobs in sorted(self.files.items())],
            "rejected": dict(self.rejected),
            "notes": self.notes,
            "metrics": self.metrics,
            "most_rows": self.most_rows,
            "passes": self.passes,
        }


@shows_given
def stream(
    log: Workload | str,
    pool: Platform | None = None,
    policy: Chosen = "easy",
    *,
    to: str | Path,
    part: int = PART,
    format: str = "csv",
    params: Params | None = None,
    progress: Progress | None = None,
    **given: Unpack[Given],
) -> Streamed:
    """Run one policy over a log of any length, and write its schedule into a folder, file by file.

    The schedule is that of `simulate`. Jobs come part by part, and those that are over leave memory: what is needed
    grows with the jobs that wait and run at once, not with their number. A model that can be drawn in parts (lublin)
    is never in memory as a whole either; a Workload is. Metrics are sums, and percentiles within 0.1 %.

    log:    a Workload, or the text of a model such as `lublin?jobs=100000000&cpus=256&load=0.8`.
    to:     a folder that is empty or does not exist; also gets `stream.json`, the totals, at the end.
    part:   number of jobs that come together, and in each file.
    format: `csv`, `csv.gz` or `parquet`, which needs the extra `data`.
    The other arguments are those of `simulate`. Raises UsageError for a policy that asks about jobs that are over, for
    jobs that depend on others, for predictions, and for events of jobs.

    >>> import backfill as bf
    >>> done = bf.stream("lublin?jobs=1000&cpus=64", policy="conservative", to="streamed", part=300)
    >>> done.metrics["jobs"], len(done.files)
    (1000, 4)
    """
    return stream_spec(Source.of(log, part), pool, RunSpec.of(policy, params, **given), to, part, format, progress)


def stream_spec(
    source: Source,
    pool: Platform | None,
    spec: RunSpec,
    to: str | Path,
    part: int = PART,
    format: str = "csv",
    progress: Progress | None = None,
) -> Streamed:
    """Run a spec over a source. The other arguments are those of `stream`."""
    first = source.first
    check_inputs(first, pool)
    folder = check_empty(to, format)
    pool = Platform.of(first) if pool is None else pool
    check_streams(spec.policy, spec.options, first)
    if spec.cooldown.span and source.last is None:
        raise UsageError("a model's last submit is not known before; expected a number of jobs as the cooldown")
    make_folder(folder)
    files, totals, options = Folder(folder, part, format), Totals(first.dead_time), spec.options
    bound = None if options.events is None else options.events.on(first).bind(first, pool)
    run = Stream(pool, spec.policy, spec.params, options, first.calendar, bound)
    notes, begin = dict.fromkeys(first.notes), int(first.jobs.submit.min()) if len(first) else 0

    def walled() -> Iterator[Part]:
        defaulted = 0
        for each in source.parts:
            log = with_default_walltimes(each.workload, pool)
            defaulted += int((log.jobs.walltime != each.workload.jobs.walltime).sum())
            yield Part(log, each.rows)
        if defaulted:
            note = "walltime missing: the default of the partition or QOS is used"
            notes[f"{note}: {counted(defaulted, 'job')}"] = None

    with blaming(spec.policy):
        for over in run.over(walled(), progress):
            there = _there(over.number, over.schedule.submit, spec, source, begin)
            others = np.flatnonzero(_there(over.open_number, over.open.submit, spec, source, begin))
            totals.add(over.schedule, over.procs, there, over.open.take(others))
            files.add(over.rows, over.schedule)
            give_back()
    files.end()
    if totals.causes:
        notes[rejected_note(totals.causes, source.jobs)] = None
    done = Streamed(
        folder=folder,
        name=first.name,
        sha256=first.sha256,
        jobs=source.jobs,
        platform=pool,
        spec=spec,
        part=part,
        files=files.files,
        metrics=totals.metrics(pool.cpus),
        rejected=dict(totals.causes),
        notes=[*notes],
        most_rows=run.most_rows,
        passes=run.passes,
    )
    with written_text(folder / "stream.json") as out:
        out.write(json.dumps(done.to_dict(), indent=2, ensure_ascii=False) + "\n")
    return done


def check_empty(to: str | Path, format: str = "csv") -> Path:
    """Return the folder.

    Raises UsageError for an unknown format and for one whose package is missing, BackfillError if the folder has files.
    """
    if format not in FORMATS:
        raise BadArgument("format", format, " or ".join(FORMATS))
    if format == "parquet":
        parquet_writer()
    folder = Path(to)
    if folder.is_dir() and any(folder.iterdir()):
        raise BackfillError(at(str(to), None, "the folder is not empty; expected a new or an empty one"))
    return folder


def _there(number: Ints, submit: Ints, spec: RunSpec, source: Source, begin: int) -> NDArray[np.bool_]:
    """Return the mask of jobs that the metrics count. number: in queue order; begin: the first submit."""
    there = (number >= spec.warmup.jobs) & (number < source.jobs - spec.cooldown.jobs)
    there &= submit >= begin + spec.warmup.span
    if source.last is not None:
        there &= submit <= source.last - spec.cooldown.span
    return there
