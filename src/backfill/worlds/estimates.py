"""The walltimes that policies see (`--estimates`). They never change when a job is killed."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backfill.model.errors import BadArgument
from backfill.model.units import TIME_MAX
from backfill.model.workload import Floats, Ints, Jobs

# Kind -> the bounds of its number and whether the lower one is allowed; None if it has no number.
KINDS: dict[str, tuple[float, float, bool] | None] = {
    "requested": None,
    "exact": None,
    "inflate": (0, 1e9, False),
    "uniform": (1, 1e9, True),
    "within": (0, 1, True),
    "lognormal": (0, 10, True),
    "over": (0, 10, True),
    "under": (0, 10, True),
    "user-bias": (0, 10, True),
}
EXPECTED = (
    "requested, exact, inflate:F with 0 < F < 1e9, uniform:F with 1 <= F < 1e9, within:E with 0 <= E <= 1, or "
    "lognormal:S, over:S, under:S or user-bias:S with 0 <= S <= 10"
)


@dataclass(frozen=True)
class Estimates:
    """The error of the walltimes that policies see; each job, or user, has its own random number.

    requested: the walltime; exact: min(run, walltime); inflate: F x walltime; uniform: run x U[1, F]; within: run x
    U[1 - E, 1 + E]; lognormal: run x exp(S Z) for a standard normal Z, over: run x exp(S |Z|), under: run x
    exp(-S |Z|); user-bias: run x exp(S Z) with one Z for each user, and for each job without one.
    """

    kind: str = "requested"
    factor: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "Estimates":
        """Parse a kind of estimates such as `exact` or `uniform:2`. Raises UsageError."""
        kind, colon, number = text.partition(":")
        try:
            factor = float(number) if colon else 1.0
        except ValueError:
            factor = math.nan
        bounds = KINDS.get(kind)
        if kind not in KINDS or (bounds is not None) != bool(colon):
            raise BadArgument("estimates", text, EXPECTED)
        if bounds is not None:
            low, high, least = bounds
            most = high < 1e9
            if not (low < factor or (least and factor == low)) or not (factor < high or (most and factor == high)):
                raise BadArgument("estimates", text, EXPECTED)
        return cls(kind, factor)

    def __str__(self) -> str:
        return f"{self.kind}:{self.factor:g}" if KINDS.get(self.kind) else self.kind

    def of(self, jobs: Jobs, seed: int) -> Ints:
        """Return the walltimes that policies see, in microseconds, shape (jobs,).

        A job gets the same draws in every run.
        """
        if self.kind == "requested":
            return jobs.walltime
        if self.kind == "exact":
            return np.minimum(jobs.runtime, jobs.walltime)
        if self.kind == "inflate":
            seen = jobs.walltime * self.factor
        else:
            seen = jobs.runtime * self._factors(jobs, seed)
        rounded: Ints = np.rint(np.minimum(seen, TIME_MAX)).astype(np.int64)
        return rounded

    def _factors(self, jobs: Jobs, seed: int) -> Floats:
        """Return the ratio estimate / run time of each job."""
        ids = [str(job) for job in jobs.job.tolist()]
        if self.kind == "uniform":
            return 1 + (self.factor - 1) * _draws(ids, seed)
        if self.kind == "within":
            return 1 + self.factor * (2 * _draws(ids, seed) - 1)
        if self.kind == "user-bias":
            users = [jobs.user[row] for row in range(len(ids))]
            ids = [f"user {user}" if user else job for user, job in zip(users, ids, strict=True)]
        normal = _normals(ids, seed)
        if self.kind in ("over", "under"):
            normal = np.abs(normal) if self.kind == "over" else -np.abs(normal)
        factors: Floats = np.exp(self.factor * normal)
        return factors


def _draws(ids: Sequence[str], seed: int) -> Floats:
    """Return a number in [0, 1) for each id that depends only on the id and the seed."""
    return np.array([_draw(each, seed) for each in ids])


def _normals(ids: Sequence[str], seed: int) -> Floats:
    """Return a standard normal number for each id, by Box and Muller from two draws."""
    one, other = _draws(ids, seed), _draws([f"{each}\0" for each in ids], seed)
    normals: Floats = np.sqrt(-2 * np.log1p(-one)) * np.cos(2 * np.pi * other)
    return normals


def _draw(job: str, seed: int) -> float:
    digest = hashlib.blake2b(f"{seed}:{job}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / 2**53
