"""Jobs that are over: as JSON and CSV, and as a workload for `simulate` and `compare`."""

import asyncio
import csv
import io
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backfill.system.home import python_path
from backfill.web.problems import Refusal

Facts = dict[str, Any]
COLUMNS = (
    *("id", "label", "name", "user", "project", "state", "reason", "submit_s", "start_s", "end_s", "promise_s"),
    *("wait_s", "limit_s", "cpus", "cpu_s", "maxrss", "exit_code", "signal", "slip", "why", "preemptions", "need"),
)
PATIENCE_S = 300.0  # for a workload of a long history


@dataclass(frozen=True)
class Selection:
    """Jobs that are over; empty fields select everything. Instants are in seconds of the calendar."""

    since_s: float | None = None
    until_s: float | None = None
    users: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    states: tuple[str, ...] = ()


def rows(folder: Path, chosen: Selection, last: int) -> list[Facts]:
    """Return the last jobs as `backfill history --json` prints them, in the order of their ends. Raises InputError."""
    from backfill.answers.history import Filter, cpus, ended, opened, row

    store = opened(folder)
    try:
        since, until = (None if t is None else round(t * 1e6) for t in (chosen.since_s, chosen.until_s))
        some, _ = ended(store, Filter(since, until, chosen.users, chosen.names, chosen.states), last)
        had = cpus(store, some)
        return [row(job, had[job.id]) for job in some]
    finally:
        store.close()


def table(found: Sequence[Facts]) -> str:
    """Return jobs as CSV; what they asked for is JSON."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, extrasaction="ignore", lineterminator="\r\n")
    writer.writeheader()
    writer.writerows({**one, "need": json.dumps(one["need"])} for one in found)
    return out.getvalue()


async def workload(folder: Path, chosen: Selection) -> bytes:
    """Return a zip of the files that `backfill history --workload` writes, made by a process of its own."""
    with tempfile.TemporaryDirectory(prefix="backfill-") as place:
        words = ["history", "--workload", "history.csv"]
        for option, value in (("since", chosen.since_s), ("until", chosen.until_s)):
            words += [] if value is None else [f"--{option}", _instant(value)]
        for option, names in (("user", chosen.users), ("name", chosen.names), ("state", chosen.states)):
            words += [f"--{option}", ",".join(names)] if names else []
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "backfill", *words, cwd=place,
            env={**os.environ, "BACKFILL_HOME": str(folder), "PYTHONPATH": python_path(), "TZ": "UTC"},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(PATIENCE_S):
                _, said = await process.communicate()
        except BaseException as error:  # also if the client leaves
            process.kill()
            await process.wait()
            if isinstance(error, TimeoutError):
                raise Refusal(503, f"the workload was not written within {PATIENCE_S:.0f} s", "busy") from None
            raise
        lines = said.decode(errors="replace").strip().splitlines()
        if process.returncode:
            raise Refusal(422, lines[-1].removeprefix("backfill: ") if lines else "no workload", "history")
        return await asyncio.to_thread(_zipped, Path(place), "\n".join(lines) + "\n")


def _instant(t_s: float) -> str:
    """Return an instant in UTC as an option takes it."""
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(t_s))


def _zipped(place: Path, notes: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as files:
        for path in sorted(place.iterdir()):
            files.write(path, path.name)
        files.writestr("README.txt", notes)
    return out.getvalue()
