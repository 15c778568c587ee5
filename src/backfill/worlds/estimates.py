"""What policies see as the walltime: `--estimates`. It never changes when a job is killed."""

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from backfill.model.errors import BadArgument
from backfill.model.units import TIME_MAX
from backfill.model.workload import Ints, Jobs

KINDS = ("requested", "exact", "inflate", "uniform")


@dataclass(frozen=True)
class Estimates:
    """requested: the walltime; exact: min(run, walltime); inflate: F x walltime; uniform: run x U[1, F], by job id."""

    kind: str = "requested"
    factor: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "Estimates":
        """From `requested`, `exact`, `inflate:F` or `uniform:F`. Raises UsageError."""
        kind, colon, number = text.partition(":")
        try:
            factor = float(number) if colon else 1.0
        except ValueError:
            factor = math.nan
        scaled = kind in ("inflate", "uniform")
        if kind not in KINDS or scaled != bool(colon) or not 0 < factor < 1e9 or (kind == "uniform" and factor < 1):
            raise BadArgument(
                "estimates", text, "requested, exact, inflate:F with 0 < F < 1e9, or uniform:F with 1 <= F < 1e9"
            )
        return cls(kind, factor)

    def __str__(self) -> str:
        return f"{self.kind}:{self.factor:g}" if self.kind in ("inflate", "uniform") else self.kind

    def of(self, jobs: Jobs, seed: int) -> Ints:
        """What policies see, in microseconds, shape (jobs,). The same job gets the same draw in every run."""
        if self.kind == "requested":
            return jobs.walltime
        if self.kind == "exact":
            return np.minimum(jobs.runtime, jobs.walltime)
        if self.kind == "inflate":
            seen = jobs.walltime * self.factor
        else:
            draws = np.array([_draw(str(job), seed) for job in jobs.job.tolist()])
            seen = jobs.runtime * (1 + (self.factor - 1) * draws)
        rounded: Ints = np.rint(np.minimum(seen, TIME_MAX)).astype(np.int64)
        return rounded


def _draw(job: str, seed: int) -> float:
    """A number in [0, 1) that depends on the job's id and the seed alone."""
    digest = hashlib.blake2b(f"{seed}:{job}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / 2**53
