"""The computational farm: unequal machines with scarce floating licences, and a stream of jobs with deadlines.

Machines have 1 to 8 cpus; a job runs on one of them, needs each licence independently with probability `need`, and has
a deadline with probability `deadlines`. Jobs arrive as a Poisson stream; walltimes are exact. Source: Baraglia,
Capannini, Pasquali, Puppin, Ricci and Techiouba, Backfilling strategies for scheduling streams of jobs on computational
farms, CoreGRID 2007, section 7; docs/decisions/0009-farm-readings.md records the readings of what the text leaves open.

Each attribute has its own random stream, so farms that differ in one argument share all other attributes.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from backfill.model.errors import UsageError
from backfill.model.platform import Platform
from backfill.model.units import NEVER, SECOND, TIME_MAX
from backfill.model.workload import SPREAD, Counted, Floats, Ints, Jobs, Ragged, Workload
from backfill.workloads.uniform import Uniform, digest

VERSION = 1  # increase it whenever the same arguments yield other jobs
MOST = 10**7  # jobs
CHUNK = 4096  # jobs compared with all machines at a time
TRIES = 1000  # rounds of redrawing jobs that no machine can host
MARGINS = ("time", "percent")
# streams of random numbers
MACHINE, HOST, RATIO, GAP, CPUS, NEED, RUN, HAS_DEADLINE, MARGIN = range(9)

Flags = NDArray[np.bool_]


def farm(
    jobs: int = 1000,
    machines: int = 100,
    licences: int = 20,
    *,
    seed: int = 0,
    interarrival: float | None = None,
    load: float | None = None,
    largest: int = 8,
    need: float = 0.3,
    suitability: float = 0.9,
    ratio_low: float = 0.5,
    ratio_high: float = 0.7,
    shortest: int = 500,
    longest: int = 3000,
    deadlines: float = 0.7,
    margin: str = "time",
    margin_low: float = 30,
    margin_high: float = 250,
) -> Workload:
    """Return a stream of jobs, with the farm that it was made for as its `platform`; times in seconds.

    seed:                    >= 0; of the farm and of its jobs.
    interarrival:            mean time between two jobs. Default 12.
    load:                    offered load instead: requested cpus x run time per second, over all cpus.
    largest:                 machines have, and jobs need, 1 to `largest` cpus.
    need:                    probability that a job needs a licence.
    suitability:             probability that a machine may host a licence.
    ratio_low, ratio_high:   copies of a licence, as a share of the machines that may host it.
    shortest, longest:       run times, which are also the walltimes.
    deadlines:               share of the jobs that have one: submit + run time + margin.
    margin:                  `time`: margins are margin_low to margin_high seconds; `percent`: of the run time.

    A job that no machine could ever run is drawn again. Raises UsageError for arguments out of their bounds.
    """
    _check(jobs, machines, licences, seed, largest, shortest, longest, margin)
    for name, share in (
        ("need", need), ("suitability", suitability), ("deadlines", deadlines),
        ("ratio_low", ratio_low), ("ratio_high", ratio_high),
    ):  # fmt: skip
        if not 0 <= share <= 1:
            raise UsageError(f"farm: {name} is {share}; expected 0 to 1")
    if not (ratio_low <= ratio_high and 0 <= margin_low <= margin_high < math.inf):
        raise UsageError("farm: expected ratio_low <= ratio_high and 0 <= margin_low <= margin_high")
    if interarrival is not None and load is not None:
        raise UsageError("farm: interarrival and load cannot be combined")
    for name, value in (("interarrival", interarrival), ("load", load)):
        if value is not None and not 0 < value < math.inf:
            raise UsageError(f"farm: {name} is {value}; expected a finite number > 0")

    platform = _machines(seed, machines, licences, largest, suitability, ratio_low, ratio_high)
    drawn = _Drawn.of(seed, jobs, platform, largest, need)
    run = Uniform(seed, RUN).whole(jobs, shortest, longest)
    gaps = -np.log(Uniform(seed, GAP)(jobs))
    if load is not None:
        interarrival = float((drawn.cpus * run).mean()) / (platform.cpus * load)
    seconds = np.cumsum(gaps * (interarrival or 12.0))
    if seconds[-1] + longest > TIME_MAX / SECOND:
        raise UsageError(
            "farm: the last job would come after 10^11 s; expected a smaller interarrival or a larger load"
        )
    submit = np.rint(seconds * SECOND).astype(np.int64)
    runtime = run.astype(np.int64) * SECOND
    extra = margin_low + Uniform(seed, MARGIN)(jobs) * (margin_high - margin_low)
    allowed = extra if margin == "time" else run * extra / 100
    deadline = submit + runtime + np.rint(allowed * SECOND).astype(np.int64)
    arguments = {
        "jobs": jobs, "machines": machines, "licences": licences, "seed": seed,
        "interarrival": interarrival, "load": load, "largest": largest, "need": need, "suitability": suitability,
        "ratio": [ratio_low, ratio_high], "run": [shortest, longest], "deadlines": deadlines,
        "margin": [margin, margin_low, margin_high],
    }  # fmt: skip
    return Workload(
        jobs=Jobs(
            job=np.arange(1, jobs + 1),
            submit=submit,
            runtime=runtime,
            walltime=runtime,
            demand=drawn.cpus.astype(np.int64).reshape(-1, 1),
            spread=np.full(jobs, SPREAD.index("node"), np.int8),
            licences=Counted.of_copies(Ragged.of([np.flatnonzero(row).tolist() for row in drawn.needs])),
            deadline=np.where(Uniform(seed, HAS_DEADLINE)(jobs) < deadlines, deadline, NEVER),
        ),
        name="farm",
        licences=platform.licences,
        sha256=digest("farm", VERSION, arguments),
        cpus=platform.cpus,
        platform=platform,
    )


def _check(
    jobs: int, machines: int, licences: int, seed: int, largest: int, shortest: int, longest: int, margin: str
) -> None:
    for name, value, low, high in (
        ("jobs", jobs, 1, MOST), ("machines", machines, 1, 10**5), ("licences", licences, 0, 10**4),
        ("largest", largest, 1, 2**20), ("shortest", shortest, 0, 10**9), ("longest", longest, shortest, 10**9),
    ):  # fmt: skip
        if not low <= value <= high:
            raise UsageError(f"farm: {name} is {value}; expected {low} to {high}")
    if seed < 0:
        raise UsageError(f"farm: seed is {seed}; expected a whole number >= 0")
    if margin not in MARGINS:
        raise UsageError(f"farm: margin is {margin!r}; expected {' or '.join(MARGINS)}")


def _machines(
    seed: int, machines: int, licences: int, largest: int, suitability: float, low: float, high: float
) -> Platform:
    """Return the machines, those with the most cpus first; equal ones in the order in which they were drawn."""
    cpus = Uniform(seed, MACHINE).whole(machines, 1, largest).astype(np.int64)
    order = np.argsort(-cpus, kind="stable")
    hosts = (Uniform(seed, HOST)(machines * licences) < suitability).reshape(licences, machines).T[order]
    ratio = low + Uniform(seed, RATIO)(licences) * (high - low)
    return Platform(
        nodes=tuple(f"m{i + 1}" for i in range(machines)),
        resources=("cpus",),
        capacity=cpus[order].reshape(-1, 1),
        speed=np.ones(machines),
        site=np.zeros(machines, np.int64),
        licences=tuple(f"l{i + 1}" for i in range(licences)),
        copies=np.maximum(1, np.floor(ratio * hosts.sum(axis=0))).astype(np.int64),
        hosts=np.ascontiguousarray(hosts),
        name="farm",
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Drawn:
    """The needs of jobs, redrawn for those that no machine can host."""

    cpus: Floats  # shape (jobs,)
    needs: Flags  # shape (jobs, licences)

    @classmethod
    def of(cls, seed: int, jobs: int, platform: Platform, largest: int, need: float) -> "_Drawn":
        licences = len(platform.licences)
        cpus, needs = np.zeros(jobs), np.zeros((jobs, licences), np.bool_)
        rows = np.arange(jobs)
        for attempt in range(TRIES):
            # Every round draws all jobs and uses some, so a job's numbers do not depend on which others are redrawn.
            cpus[rows] = Uniform(seed, CPUS, attempt).whole(jobs, 1, largest)[rows]
            needs[rows] = (Uniform(seed, NEED, attempt)(jobs * licences).reshape(jobs, licences) < need)[rows]
            rows = rows[_homeless(cpus[rows], needs[rows], platform)]
            if not len(rows):
                return cls(cpus, needs)
        raise UsageError(
            f"farm: after {TRIES} draws no machine can host {len(rows)} of the jobs; "
            "expected a smaller need or largest, or a larger suitability"
        )


def _homeless(cpus: Floats, needs: Flags, platform: Platform) -> Ints:
    """Return the rows of jobs that no machine can run."""
    lacks = (~platform.hosts).T.astype(np.float32)
    homeless = []
    for first in range(0, len(cpus), CHUNK):
        rows = slice(first, first + CHUNK)
        hosted = needs[rows].astype(np.float32) @ lacks == 0
        fits = hosted & (cpus[rows, None] <= platform.capacity[:, 0])
        homeless.append(first + np.flatnonzero(~fits.any(axis=1)))
    return np.concatenate(homeless)
