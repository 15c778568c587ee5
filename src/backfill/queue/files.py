"""The paths of a job's input, output and errors."""

import os
import re
from pathlib import Path

from backfill.queue.job import Job
from backfill.queue.shapes import Spec


def files(home: Path, job: Job, spec: Spec) -> dict[str, str | None]:
    """Return the paths of a job's input, output and errors; None for no input, and for errors merged with output."""
    cwd = spec.get("cwd", "/")
    named_in = {"input": spec.get("input"), "output": spec.get("output"), "error": spec.get("error")}
    found = {name: os.path.join(cwd, named(pattern, job)) if pattern else None for name, pattern in named_in.items()}
    return {**found, "output": found["output"] or str(home / "log" / f"{job.id}.out")}


def named(pattern: str, job: Job) -> str:
    """Return a file name with Slurm's patterns (%j, %5j and so on) replaced by their values."""
    index = "" if job.index is None else str(job.index)
    node = os.uname().nodename.partition(".")[0]
    values = {
        "j": str(job.id), "J": str(job.id), "A": str(job.array or job.id), "a": index, "b": index[-1:],
        "x": job.name.replace("/", "_"), "u": job.user, "N": node, "n": "0", "t": "0", "s": "batch", "%": "%",
    }  # fmt: skip

    def value(match: re.Match[str]) -> str:
        found = values.get(match[2], match[0])
        return found.zfill(int(match[1])) if match[1] and found.isdecimal() else found

    return re.sub(r"%(\d{0,2})([A-Za-z%])", value, pattern)
