"""A result on disk, from which its page can be rebuilt: a folder of JSON and CSV files, readable by any program.

`result.json`: the `--json` output, with title, command and the names of the policies. `jobs.csv.gz`: the workload as
simulated. `platform.toml`: the platform. `schedule-1.csv.gz`, `schedule-2.csv.gz` ...: the schedules in the order of
the names; `runs-1.csv.gz` ... beside schedules in which jobs ran more than once. `events.csv.gz`: the events of the
run, if any.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from backfill.analysis.metrics import Trim
from backfill.model.clock import Clock
from backfill.model.errors import InputError, at, check_path, quote
from backfill.model.platform import Platform
from backfill.model.precedence import in_order
from backfill.model.schedule import NO_TIME, REASONS, REJECTED, STATES, Runs, Schedule
from backfill.model.units import SECOND
from backfill.model.workload import Ints, Ragged, Workload
from backfill.report.outcome import Details, Outcome
from backfill.report.page import Page, write_page
from backfill.report.write import page_of
from backfill.traces.events import read_events, write_events
from backfill.traces.files import filled_folder, written_text
from backfill.traces.schedules import read_runs, read_schedule, write_runs, write_schedule
from backfill.traces.table import read_table, write_csv

SCHEMA = 1  # of the JSON that this version reads
HEAD = ("title", "command", "names")  # keys in the JSON before the hashes of the files
QUESTION = "question.json"  # beside the saved runs of a comparison, see saved_runs.py
RESULT, JOBS, PLATFORM, EVENTS = "result.json", "jobs.csv.gz", "platform.toml", "events.csv.gz"


class SavedError(InputError):
    """A saved result cannot be read or makes no sense."""


def save(folder: str | Path, outcome: Outcome) -> None:
    """Write an outcome with its details into a folder. `result.json` comes last."""
    check_path("folder", folder)
    details = outcome.details
    assert details is not None
    with filled_folder(folder) as inside:
        write_csv(details.workload, inside / JOBS)
        with written_text(inside / PLATFORM) as out:
            out.write(details.platform.to_toml())
        for number, schedule in enumerate(details.schedules, 1):
            write_schedule(schedule, inside / _schedule(number))
        files = [JOBS, PLATFORM, *(_schedule(number) for number in range(1, len(details.schedules) + 1))]
        for number, schedule in enumerate(details.schedules, 1):
            if schedule.runs is not None:
                write_runs(schedule, inside / _runs(number))
                files.append(_runs(number))
        if details.events is not None:
            write_events(details.events, inside / EVENTS)
            files.append(EVENTS)
        head = {name: outcome.data[name] for name in HEAD}
        hashes = {name: _sha256(inside / name) for name in files}
        with written_text(inside / RESULT) as out:
            json.dump({**head, "files": hashes, **outcome.data}, out, indent=2, allow_nan=False, ensure_ascii=False)
            out.write("\n")


def has_only_runs(path: str | Path) -> bool:
    """Return whether a folder has runs of a comparison, but no result, which is written when all have finished."""
    return (Path(path) / QUESTION).exists() and not (Path(path) / RESULT).exists()


def load(path: str | Path) -> Page:
    """Return the page of a saved result: its folder, or a `--json` file, which gives tables only.

    Raises SavedError for anything else.
    """
    with _judged(path) as outcome:
        return page_of(outcome)


def rewrite(path: str | Path, out: str | Path) -> Page:
    """Write the page of a saved result to `out`, and return it. Raises SavedError if it is not one."""
    with _judged(path) as outcome:
        page = page_of(outcome)
        write_page(out, page)
        return page


@contextmanager
def _judged(path: str | Path) -> Iterator[Outcome]:
    """Yield the saved outcome; any failure within the block is reported as a fault of the file."""
    path = Path(path)
    file = path / RESULT if path.is_dir() else path
    result = _json(file)
    if (schema := result.get("schema", SCHEMA)) != SCHEMA:
        raise SavedError(at(str(file), None, f"has schema {quote(schema)}; this version of backfill reads {SCHEMA}"))
    folder = file.parent if file.name == RESULT else None
    try:
        for name, sha256 in result.get("files", {}).items() if folder else ():
            if (folder / name).exists() and _sha256(folder / name) != sha256:
                raise SavedError(at(str(folder / name), None, "is not the file that was saved: its hash differs"))
        yield Outcome(result, _details(result, folder))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as problem:
        message = f"is not a saved result: {type(problem).__name__}: {problem}"
        raise SavedError(at(str(file), None, " ".join(message.split()))) from problem


def _details(saved: dict[str, Any], folder: Path | None) -> Details | None:
    """Return the details in the files beside the JSON, if they exist."""
    results = saved.get("results", [saved])
    options = results[0]["options"]
    if folder is None or not (folder / JOBS).exists():
        return None
    platform = Platform.read(folder / PLATFORM)
    workload = _in_time(read_table(folder / JOBS, platform.resources), results[0]["workload"].get("calendar"), options)
    listed = saved.get("files", {})
    schedules = [
        _read(
            workload,
            platform,
            folder / _schedule(n),
            folder / _runs(n) if _runs(n) in listed else None,
            result["options"].get("dangles", False),
        )
        for n, result in enumerate(results, 1)
    ]
    trims = (Trim.parse(options["warmup"]), Trim.parse(options["cooldown"]))
    return Details(workload, platform, schedules, trims, read_events(folder / EVENTS) if EVENTS in listed else None)


def _in_time(workload: Workload, calendar: dict[str, Any] | None, options: dict[str, Any]) -> Workload:
    """Return the workload with the log's calendar and its dead time, which the saved job file may lack."""
    chosen = {"dead_time": round(options["dead_time_s"] * SECOND)} if options.get("dead_time_s") else {}
    if calendar is not None:
        return replace(workload, clock=Clock(int(calendar["epoch_s"]), str(calendar["zone"])), chosen=chosen)
    return replace(workload, chosen=chosen | ({"load": options["load"]} if options.get("load", 1.0) != 1.0 else {}))


def _read(workload: Workload, platform: Platform, file: Path, runs: Path | None, dangles: bool) -> Schedule:
    """Read the schedule of this workload from files written by `write_schedule` and `write_runs`.

    dangles: whether jobs could start before their predecessors ended.
    """
    table = read_schedule(file)
    jobs = workload.jobs
    if table.end is None or table.state is None or table.reason is None or table.node is None:
        raise ValueError(f"{file.name} lacks a column")
    if [str(job) for job in jobs.job.tolist()] != table.job.tolist():
        raise ValueError(f"{file.name} and {JOBS} have different jobs")
    state = np.array([STATES.index(text) for text in table.state.tolist()], np.int8)
    codes = {text: code for code, text in enumerate(REASONS)}
    rejected = state == REJECTED
    ran = (table.start != NO_TIME).tolist()
    reasons = [codes[text] if r else -1 for r, text in zip(ran, table.reason.tolist(), strict=True)]
    return Schedule(
        job=jobs.job,
        submit=jobs.submit,
        start=table.start,
        end=table.end,
        state=state,
        reason=np.array(reasons, np.int8),
        rejected_for=np.where(rejected, table.reason, ""),
        eligible=_known(workload) if dangles else _eligible(workload, table.end),
        promise=np.full(len(jobs), NO_TIME),
        nodes=platform.nodes,
        held=_held(platform, jobs.tasks.tolist(), table.node),
        runs=None if runs is None else _runs_of(workload, platform, runs),
    )


def _runs_of(workload: Workload, platform: Platform, file: Path) -> Runs:
    table = read_runs(file)
    if table.reason is None or table.node is None:
        raise ValueError(f"{file.name} lacks a column")
    rows = {str(job): row for row, job in enumerate(workload.jobs.job.tolist())}
    job = np.array([rows[name] for name in table.job.tolist()], np.int64)
    state = np.array([STATES.index(text) for text in table.state.tolist()], np.int8)
    reason = np.array([REASONS.index(text) for text in table.reason.tolist()], np.int8)
    held = _held(platform, workload.jobs.tasks[job].tolist(), table.node)
    return Runs(job, table.start, table.end, state, reason, held, table.kept, table.turns)


def _eligible(workload: Workload, end: Ints) -> Ints:
    """Return the eligible time of each job: its submit, or its predecessors' last end plus the think time."""
    after, eligible = workload.jobs.after, workload.jobs.submit.copy()
    for job in np.flatnonzero(np.diff(after.first)).tolist():
        eligible[job] = max(eligible[job], end[after[job]].max() + workload.jobs.think[job])
    return eligible


def _known(workload: Workload) -> Ints:
    """Return the time at which each job is known: the last submit among itself and its predecessors."""
    after, known = workload.jobs.after, workload.jobs.submit.copy()
    for job in in_order(after):
        known[job] = max(known[job], *known[after[job]].tolist()) if len(after[job]) else known[job]
    return known


def _held(platform: Platform, tasks: Sequence[int], texts: Any) -> Ragged:
    place = {name: i for i, name in enumerate(platform.nodes)}
    held: list[list[int]] = []
    for row, text in enumerate(texts.tolist()):
        if not text:
            held.append([])
        elif text in place:
            held.append([place[text], tasks[row]])
        else:
            parts = (part.rpartition("*") for part in text.split(";"))
            held.append([number for name, _, count in parts for number in (place[name], int(count))])
    return Ragged.of(held)


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _schedule(number: int) -> str:
    return f"schedule-{number}.csv.gz"


def _runs(number: int) -> str:
    return f"runs-{number}.csv.gz"


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _json(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_bytes(), parse_constant=_no_number)
    except OSError as problem:
        raise SavedError(at(str(file), None, f"cannot be read: {problem.strerror}")) from None
    except (ValueError, RecursionError) as problem:
        raise SavedError(at(str(file), None, f"is not JSON: {problem}")) from None
    if not isinstance(document, dict):
        raise SavedError(at(str(file), None, "is not a saved result: expected a JSON object"))
    return document
