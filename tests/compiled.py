"""The compiled policies, asked and answering in the words of the slow twins."""

from functools import cache

import numpy as np

from backfill.core.policy import Policy
from backfill.loading import load
from backfill.model.schedule import NO_TIME, REASONS, STATES
from backfill.worlds.estimates import Estimates
from backfill.worlds.simulated import Options, simulate
from tests.reference.words import Job, Platform
from tests.reference.workloads import as_model
from tests.reference.world import Row, Stay


@cache
def policy(text: str) -> tuple[Policy, dict[str, float]]:
    """The policy and parameters of this text, always the same: a new one would load its compiled form anew."""
    return load(text)


class Given(Estimates):
    """Estimates as the case states them."""

    def __init__(self, jobs, estimates):
        object.__setattr__(self, "by_name", dict(zip(jobs.job.tolist(), estimates.tolist(), strict=True)))

    def of(self, jobs, seed):
        return np.array([self.by_name[name] for name in jobs.job.tolist()], np.int64)


def run(jobs: list[Job], platform: Platform, name: str, ties: str = "batch", overrun: str = "kill") -> list[Row]:
    """What became of each job."""
    chosen, params = policy(name)
    workload, machine, estimates = as_model(jobs, platform)
    options = Options(ties=ties, overrun=overrun, estimates=Given(workload.jobs, estimates))
    got = simulate(workload, machine, chosen, params, options).schedule
    return [
        Row(
            name=job.name,
            eligible=time(got.eligible[row]),
            promise=time(got.promise[row]),
            start=time(got.start[row]),
            end=time(got.end[row]),
            reason=REASONS[got.reason[row]],
            nodes=(nodes := tuple(map(tuple, got.held[row].reshape(-1, 2).tolist()))),
            state=(state := STATES[got.state[row]]),
            runs=[Stay(time(got.start[row]), time(got.end[row]), nodes, state)],
        )
        if got.start[row] != NO_TIME
        else Row(job.name, state=STATES[got.state[row]])
        for row, job in enumerate(jobs)
    ]


def time(t: np.int64) -> int | None:
    return None if t == NO_TIME else int(t)
