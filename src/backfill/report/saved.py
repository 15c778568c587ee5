"""A result on disk, from which its page can be made again: a folder of JSON and CSV that anything can read.

`result.json`: what `--json` prints, with title, command and the names of the policies. `jobs.csv.gz`: the workload as
it was run. `platform.toml`: the platform. `schedule-1.csv.gz`, `schedule-2.csv.gz` ...: the schedules in the order of
the names; `runs-1.csv.gz` ... beside those in which jobs ran more than once.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from backfill.analysis.bounds import Gap
from backfill.analysis.groups import Fairness, Groups, LongWait
from backfill.analysis.metrics import Metrics, Trim
from backfill.analysis.paired import Pair
from backfill.model.errors import InputError, at, quote
from backfill.model.platform import Platform
from backfill.model.schedule import NO_TIME, REASONS, REJECTED, STATES, Runs, Schedule
from backfill.model.units import counted
from backfill.model.workload import Ints, Ragged, Workload, remarks
from backfill.report.findings import Findings, Grouped
from backfill.report.page import Page, Run, write_page
from backfill.report.reality import Reality
from backfill.report.write import NO_WAITS, Finished, machine_note, provenance
from backfill.traces.files import make_folder, written_text
from backfill.traces.schedules import read_runs, read_schedule, write_runs, write_schedule
from backfill.traces.table import read_table, write_csv

SCHEMA = 1  # of the JSON that it reads
RESULT, JOBS, PLATFORM = "result.json", "jobs.csv.gz", "platform.toml"


class SavedError(InputError):
    """A saved result cannot be read or makes no sense."""


def save(
    folder: str | Path,
    found: Mapping[str, Any],
    results: Sequence[Finished],
    command: str = "",
    names: Sequence[str] | None = None,
    title: str = "",
) -> None:
    """Write results over one workload, and what `--json` prints of them, into a folder. `result.json` comes last."""
    folder, first = Path(folder), results[0]
    make_folder(folder)
    write_csv(first.workload, folder / JOBS)
    with written_text(folder / PLATFORM) as out:
        out.write(first.platform.to_toml())
    for number, result in enumerate(results, 1):
        write_schedule(result.schedule, folder / _schedule(number))
    files = [JOBS, PLATFORM, *(_schedule(number) for number in range(1, len(results) + 1))]
    for number, result in enumerate(results, 1):
        if result.schedule.runs is not None:
            write_runs(result.schedule, folder / _runs(number))
            files.append(_runs(number))
    more = {
        "title": title or first.title,
        "command": command,
        "names": list(names or [r.name for r in results]),
        "files": {name: _sha256(folder / name) for name in files},
    }
    with written_text(folder / RESULT) as out:
        json.dump({**more, **found}, out, indent=2, allow_nan=False, ensure_ascii=False)
        out.write("\n")


def load(path: str | Path) -> Page:
    """The page of a saved result: its folder, or a file of JSON as `--json` prints it, which gives tables only.

    Raises SavedError where it is not one.
    """
    with _judged(path) as (found, folder):
        return _page(found, folder)


def rewrite(path: str | Path, out: str | Path) -> Page:
    """Write the page of a saved result to `out`, and return it. Raises SavedError where it is not one."""
    with _judged(path) as (found, folder):
        page = _page(found, folder)
        write_page(out, page)
        return page


@contextmanager
def _judged(path: str | Path) -> Iterator[tuple[dict[str, Any], Path | None]]:
    """What was saved, and the folder of its files; whatever cannot be done with it is the fault of the file."""
    path = Path(path)
    file = path / RESULT if path.is_dir() else path
    found = _json(file)
    if (schema := found.get("schema", SCHEMA)) != SCHEMA:
        raise SavedError(at(str(file), None, f"has schema {quote(schema)}; this version of backfill reads {SCHEMA}"))
    folder = file.parent if file.name == RESULT else None
    try:
        for name, sha256 in found.get("files", {}).items() if folder else ():
            if (folder / name).exists() and _sha256(folder / name) != sha256:
                raise SavedError(at(str(folder / name), None, "is not the file that was saved: its hash is another"))
        yield found, folder
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as problem:
        what = f"is not a saved result: {type(problem).__name__}: {problem}"
        raise SavedError(at(str(file), None, " ".join(what.split()))) from problem


def _page(found: dict[str, Any], folder: Path | None) -> Page:
    results = found.get("results", [found])
    first, options = results[0], results[0]["options"]
    told, on = first["workload"], first["platform"]
    means: Sequence[Metrics] = [each["mean"] for each in found.get("replications", [])]
    names = found.get("names", [each["policy"] for each in results])
    metrics = means or [each["metrics"] for each in results]
    made = provenance(
        first["seed"],
        found.get("command", ""),
        {told["name"]: told["sha256"], f"platform {on['name']}": on["sha256"]},
        [
            machine_note(told.get("cpus"), on),
            *([] if Reality.of(found) else [NO_WAITS]),
            *remarks(told["dropped"], told["notes"]),
            *(note for each in results for note in each["notes"]),
            *found.get("notes", []),
        ],
    )
    title = found.get("title", f"{told['name']}: {counted(told['jobs'], 'job')} on {counted(on['cpus'], 'cpu')}")
    said: dict[str, Any] = {
        "findings": _findings(found),
        "sentences": found.get("sentences", []),
        "reality": Reality.of(found),
    }
    if folder is None or not (folder / JOBS).exists():
        runs = [Run(name, values) for name, values in zip(names, metrics, strict=True)]
        return Page.of(title, runs, made, **said)
    platform = Platform.read(folder / PLATFORM)
    workload = read_table(folder / JOBS, platform.resources)
    listed = found.get("files", {})
    schedules = [
        _read(workload, platform, folder / _schedule(n), folder / _runs(n) if _runs(n) in listed else None)
        for n in range(1, len(results) + 1)
    ]
    runs = [Run(*each) for each in zip(names, metrics, schedules, strict=True)]
    trims = (Trim.parse(options["warmup"]), Trim.parse(options["cooldown"]))
    return Page.of(title, runs, made, workload, platform, trims=trims, **said)


def _findings(found: dict[str, Any]) -> Findings | None:
    if "pairs" not in found:
        return None
    listed: dict[str, Any] = {
        "groups": Groups,
        "longest_waits": LongWait,
        "pairs": Pair,
        "fairness": Fairness,
        "gaps": Gap,
    }
    each: dict[str, list[Any]] = {
        name: [kind(**{column.name: one[column.name] for column in fields(kind)}) for one in found.get(name, [])]
        for name, kind in listed.items()
    }
    return Grouped(each["groups"], each["longest_waits"], each["pairs"], each["fairness"], each["gaps"])


def _read(workload: Workload, platform: Platform, file: Path, runs: Path | None) -> Schedule:
    """The schedule of files that `write_schedule` and `write_runs` made, for this workload."""
    table = read_schedule(file)
    jobs = workload.jobs
    if table.end is None or table.state is None or table.reason is None or table.node is None:
        raise ValueError(f"{file.name} lacks a column")
    if [str(job) for job in jobs.job.tolist()] != table.job.tolist():
        raise ValueError(f"{file.name} and {JOBS} are not about the same jobs")
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
        eligible=_eligible(workload, table.end),
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
    return Runs(job, table.start, table.end, state, reason, held, table.kept)


def _eligible(workload: Workload, end: Ints) -> Ints:
    """The submit, or the end of the last of the jobs that must have ended, as far as they ran."""
    after, eligible = workload.jobs.after, workload.jobs.submit.copy()
    for job in np.flatnonzero(np.diff(after.first)).tolist():
        eligible[job] = max(eligible[job], end[after[job]].max())
    return eligible


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
    raise ValueError(f"{text} is no number")


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_bytes(), parse_constant=_no_number)
    except OSError as problem:
        raise SavedError(at(str(file), None, f"cannot be read: {problem.strerror}")) from None
    except (ValueError, RecursionError) as problem:
        raise SavedError(at(str(file), None, f"is not JSON: {problem}")) from None
    if not isinstance(found, dict):
        raise SavedError(at(str(file), None, "is not a saved result: expected a JSON object"))
    return found
