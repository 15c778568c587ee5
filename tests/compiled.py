"""The compiled policies, asked and answering in the words of the slow twins."""

from functools import cache

import numpy as np

from backfill import policies
from backfill.core.policy import Policy
from backfill.model.schedule import NO_TIME, REASONS
from backfill.worlds.estimates import Estimates
from backfill.worlds.simulated import Options, simulate
from tests.reference.words import Job, Platform
from tests.reference.workloads import as_model
from tests.reference.world import Row


@cache
def policy(name: str) -> Policy:
    """The policy of this name, always the same object: a new one would load its compiled form anew."""
    return policies.get(name)


class Given(Estimates):
    """Estimates as the case states them."""

    def __init__(self, jobs, estimates):
        object.__setattr__(self, "by_name", dict(zip(jobs.job.tolist(), estimates.tolist(), strict=True)))

    def of(self, jobs, seed):
        return np.array([self.by_name[name] for name in jobs.job.tolist()], np.int64)


def run(jobs: list[Job], platform: Platform, name: str, ties: str = "batch", overrun: str = "kill") -> list[Row]:
    """What became of each job. `name` is one of the twins' policies, of which some are parameters of ours."""
    name, params = {
        "k-reservations:k=2": ("k-reservations", {"k": 2}),
        "all-reservations": ("k-reservations", {"k": 2**31}),
    }.get(name, (name, {}))
    workload, machine, estimates = as_model(jobs, platform)
    options = Options(ties=ties, overrun=overrun, estimates=Given(workload.jobs, estimates))
    got = simulate(workload, machine, policy(name), params, options).schedule
    return [
        Row(
            name=job.name,
            eligible=time(got.eligible[row]),
            promise=time(got.promise[row]),
            start=time(got.start[row]),
            end=time(got.end[row]),
            reason=REASONS[got.reason[row]],
            nodes=tuple(map(tuple, got.held[row].reshape(-1, 2).tolist())),
        )
        if got.start[row] != NO_TIME
        else Row(job.name)
        for row, job in enumerate(jobs)
    ]


def time(t: np.int64) -> int | None:
    return None if t == NO_TIME else int(t)
